#include "os/cpu.h"

#include "kernels/kernels.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>

/*
 * All our variants need F16C. Checked here because clang 14 does not know "f16c". F16C uses the AVX registers, which
 * are checked with AVX2.
 */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Uses the compiler's checks, which cover the processor and the operating system's support for its registers. */
uint32_t pccl_cpu_features(void)
{
    uint32_t features = 0;
    __builtin_cpu_init();
    if (!has_f16c())
        return features;
    if (__builtin_cpu_supports("avx2"))
        features |= PCCL_CPU_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        features |= PCCL_CPU_AVX512;
    return features;
}
#elif defined(__aarch64__)
uint32_t pccl_cpu_features(void) { return PCCL_CPU_NEON; } /* always present on these processors */
#else
uint32_t pccl_cpu_features(void) { return 0; }
#endif

bool pccl_cpu_has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__) && defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return true;
#endif
}
