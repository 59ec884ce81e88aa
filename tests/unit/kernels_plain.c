/* The checks of the kernels as a program that needs nothing but libc: for processors we have no test library for. */
#include "kernels_check.h"

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < PCCL_COUNT_OF(kernels_checks); i++) {
        bool well = run_kernels_check(&kernels_checks[i]);
        printf("%s: %s\n", kernels_checks[i].name, well ? "ok" : "FAILED");
        failed += !well;
    }
    return failed != 0 || !all_variants_were_run();
}
