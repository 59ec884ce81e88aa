/* The time that everything outside the pure machines goes by. */
#ifndef PCCL_NET_CLOCK_H
#define PCCL_NET_CLOCK_H

#include <stdint.h>
#include <uv.h>

/* Any thread. Never goes back; since when, nobody may ask. */
static inline uint64_t pccl_now_us(void) { return uv_hrtime() / 1000; }

#endif
