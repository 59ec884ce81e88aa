/*
 * The checks of the kernels as a program that needs nothing but libc: for processors we have no
 * test library for. With --all they run for every variant. Otherwise one in three, which
 * TEST_SAMPLE chooses, runs for the variant that would be chosen here.
 */
#include "kernels_check.h"

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const struct pccl_kernels *chosen = pccl_kernels_for(pccl_cpu_features());
    const char *text = getenv("TEST_SAMPLE");
    const size_t sample = text != NULL ? strtoul(text, NULL, 10) : 0;
    printf("TEST_SAMPLE=%zu\n", sample);
    int failed = 0;
    for (size_t i = 0; i < PCCL_COUNT_OF(kernels_checks); i++) {
        if (!all && (i + sample) % 3 != 0) {
            continue;
        }
        bool well = all ? run_kernels_check(&kernels_checks[i]) : kernels_checks[i].run(chosen);
        printf("%s: %s\n", kernels_checks[i].name, well ? "ok" : "FAILED");
        failed += !well;
    }
    printf("chosen: %s\n", pccl_kernels_name(chosen));
    return failed != 0 || chosen == pccl_kernels_for(0) || (all && !all_variants_were_run());
}
