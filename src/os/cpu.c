#include "os/cpu.h"

#include "kernels/kernels.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>

/* Queries the processor directly: __builtin_cpu_supports needs run-time data that zig's library does not have. */
enum { LEAF_BASIC = 1, LEAF_EXTENDED = 7, STATE_AVX = 0x6, STATE_AVX512 = 0xe6 };

/* Returns the registers that the operating system saves, as the bits of XCR0. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

uint32_t pccl_cpu_features(void)
{
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | (unsigned)bit_AVX512VL;
    uint32_t features = 0, saved;
    unsigned a, basic, extended, c, d;
    if (!__get_cpuid(LEAF_BASIC, &a, &c, &basic, &d) || !(basic & bit_F16C) || !(basic & bit_OSXSAVE) ||
        !__get_cpuid_count(LEAF_EXTENDED, 0, &a, &extended, &c, &d))
        return 0;
    saved = saved_registers();
    if ((saved & STATE_AVX) == STATE_AVX && (extended & bit_AVX2))
        features |= PCCL_CPU_AVX2;
    if ((saved & STATE_AVX512) == STATE_AVX512 && (extended & avx512) == avx512)
        features |= PCCL_CPU_AVX512;
    return features;
}
#elif defined(__aarch64__)
uint32_t pccl_cpu_features(void) { return PCCL_CPU_NEON; } /* standard on these processors */
#else
uint32_t pccl_cpu_features(void) { return 0; }
#endif

bool pccl_cpu_has_aes(void)
{
#if defined(__GNUC__) && defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(LEAF_BASIC, &a, &b, &c, &d) && (c & bit_AES) && (c & bit_PCLMUL);
#elif defined(__aarch64__) && defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return true;
#endif
}
