/* The clock of everything outside the pure machines. */
#ifndef PCCL_NET_CLOCK_H
#define PCCL_NET_CLOCK_H

#include <stdint.h>
#include <uv.h>

/* Any thread. Monotonic, from an arbitrary origin. */
static inline uint64_t pccl_now_us(void) { return uv_hrtime() / 1000; }

#endif
