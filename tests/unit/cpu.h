/*
 * Reports the kernel variants that a test has run on this processor, whose features are detected as in production. A
 * variant that the processor supports and that the test did not run is printed; in CI it is a failure.
 */
#ifndef PCCL_TESTS_UNIT_CPU_H
#define PCCL_TESTS_UNIT_CPU_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/cpu.h"
#include "kernels/kernels.h"

static uint32_t variants_run; /* a bit for each index of pccl_kernels_variant */

/* The variant number `index` that this processor can run; NULL beyond the last. It counts as run. */
static inline const struct pccl_kernels *kernels_here(uint32_t index)
{
    const struct pccl_kernels *kernels;
    uint32_t needed = 0;
    for (uint32_t i = 0; (kernels = pccl_kernels_variant(i, &needed)) != NULL; i++) {
        if ((needed & ~pccl_cpu_features()) == 0 && index-- == 0) {
            variants_run |= UINT32_C(1) << i;
            return kernels;
        }
    }
    return NULL;
}

static inline bool variant_was_run(const char *name)
{
    const struct pccl_kernels *kernels;
    for (uint32_t i = 0; (kernels = pccl_kernels_variant(i, &(uint32_t){0})) != NULL; i++)
        if (strcmp(pccl_kernels_name(kernels), name) == 0)
            return (variants_run >> i & 1) != 0;
    return false; /* the build lacks it */
}

/* Returns true if the system lists the feature. Does not use the detection of the tests and the driver. */
static inline bool system_lists(const char *const *reason)
{
    char line[8192] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && strncmp(line, "flags", 5) != 0 && fgets(line, sizeof line - 1, file) != NULL)
        line[strcspn(line, "\n")] = ' '; /* each word with a space behind it */
    if (file != NULL)
        fclose(file);
    for (; *reason != NULL; reason++)
        if (strncmp(line, "flags", 5) != 0 || strstr(line, *reason) == NULL)
            return false;
    return true;
}

/* Prints which variants were run. Returns false in CI if this machine has a variant that was not run. */
static inline bool all_variants_were_run(void)
{
    static const struct {
        const char *name, *reason[5];
    } variants[] = {
#if defined(__x86_64__)
        {"avx2", {" avx2 ", NULL}},
        {"avx512", {" avx512f ", " avx512bw ", " avx512dq ", " avx512vl ", NULL}},
#elif defined(__aarch64__)
        {"neon", {NULL}},
#endif
        {"scalar", {NULL}}
    };
    const char *ci = getenv("CI");
    const bool in_ci = ci != NULL && strcmp(ci, "") != 0 && strcmp(ci, "0") != 0 && strcmp(ci, "false") != 0;
    bool all = true;
    printf("variants:");
    for (size_t i = 0; i < PCCL_COUNT_OF(variants); i++) {
        const bool run = variant_was_run(variants[i].name), missed = !run && system_lists(variants[i].reason);
        printf("%s %s %s", i > 0 ? "," : "", variants[i].name,
               run      ? "run"
               : missed ? "NOT RUN though this processor has it"
                        : "not on this processor");
        all = all && !missed;
    }
    printf("\n");
    return all || !in_ci;
}

#endif
