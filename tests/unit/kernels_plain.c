/*
 * The checks of the kernels as a program that needs nothing but libc: for systems without a test library. With --all
 * they run for every variant. Otherwise one in three, which TEST_SAMPLE chooses, runs for the variant that would be
 * chosen here, and the comparison with the table of bits runs for every variant. With --bits only this comparison
 * runs; --write-bits prints the table.
 */
#include "kernels_check.h"
#include "kernels_bits.h"

/* Returns true if every variant gives the bits of the table. */
static bool check_bits(void)
{
    const struct kernels_check check = {"bits", bits_are_those_of_the_table};
    bool passed = run_kernels_check(&check);
    printf("%s: %s\n", check.name, passed ? "ok" : "FAILED");
    return passed;
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const struct pccl_kernels *chosen = pccl_kernels_for(pccl_cpu_features());
    if (argc > 1 && strcmp(argv[1], "--write-bits") == 0) {
        bits_of_all(&(struct bits){.kernels = pccl_kernels_for(0), .prints = true});
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--bits") == 0)
        return !check_bits();
    const char *text = getenv("TEST_SAMPLE");
    const size_t sample = text != NULL ? strtoul(text, NULL, 10) : 0;
    printf("TEST_SAMPLE=%zu\n", sample);
    int failed = !check_bits();
    for (size_t i = 0; i < PCCL_COUNT_OF(kernels_checks); i++) {
        if (!all && (i + sample) % 3 != 0)
            continue;
        bool passed = all ? run_kernels_check(&kernels_checks[i]) : kernels_checks[i].run(chosen);
        printf("%s: %s\n", kernels_checks[i].name, passed ? "ok" : "FAILED");
        failed += !passed;
    }
    printf("chosen: %s\n", pccl_kernels_name(chosen));
    return failed != 0 || chosen == pccl_kernels_for(0) || (all && !all_variants_were_run());
}
