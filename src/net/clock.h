/* The clock used by all code outside the pure state machines. */
#ifndef PCCL_NET_CLOCK_H
#define PCCL_NET_CLOCK_H

#include <stdint.h>
#include <uv.h>

/* Returns a monotonic time with an arbitrary origin. Any thread. */
static inline uint64_t pccl_now_us(void) { return uv_hrtime() / 1000; }

#endif
