/*
 * Each thread has a mode for float arithmetic. The thread belongs to the application, which may have enabled flushing
 * of subnormals (as linking with -ffast-math does), another rounding mode, or traps. Peers would then disagree in the
 * last bits. Reductions therefore run in the standard mode and restore the thread's mode afterward.
 */
#ifndef PCCL_KERNELS_FLOAT_MODE_H
#define PCCL_KERNELS_FLOAT_MODE_H

#include "core/base.h"

#if defined(__x86_64__) && defined(__GNUC__)
/* MXCSR: all exceptions masked, round to nearest, subnormals kept. */
static inline uint64_t pccl_float_mode_begin(void)
{
    uint32_t found, standard = 0x1f80;
    __asm__ volatile("stmxcsr %0" : "=m"(found)::"memory");
    __asm__ volatile("ldmxcsr %0" ::"m"(standard) : "memory");
    return found;
}

static inline void pccl_float_mode_end(uint64_t found)
{
    uint32_t mode = (uint32_t)found;
    __asm__ volatile("ldmxcsr %0" ::"m"(mode) : "memory");
}
#elif defined(__aarch64__) && defined(__GNUC__)
/* FPCR: zero selects the same mode. */
static inline uint64_t pccl_float_mode_begin(void)
{
    uint64_t found;
    __asm__ volatile("mrs %0, fpcr" : "=r"(found)::"memory");
    __asm__ volatile("msr fpcr, %0" ::"r"(UINT64_C(0)) : "memory");
    return found;
}

static inline void pccl_float_mode_end(uint64_t found) { __asm__ volatile("msr fpcr, %0" ::"r"(found) : "memory"); }
#else
static inline uint64_t pccl_float_mode_begin(void) { return 0; }
static inline void pccl_float_mode_end(uint64_t found) { (void)found; }
#endif

#endif
