/* kernels/kernels: every variant against the reference (kernels_check.h), and the choice between them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels_check.h"
#include "kernels_bits.h"

static void check_holds(void **state) { assert_true(run_kernels_check(*state)); }

static void bits_are_the_same_on_all_systems(void **state)
{
    assert_true(run_kernels_check(&(struct kernels_check){"bits", bits_are_those_of_the_table}));
}

static void the_best_that_the_processor_can_run_is_chosen(void **state)
{
    const struct pccl_kernels *kernels;
    uint32_t features = 0;
    assert_string_equal(pccl_kernels_name(pccl_kernels_for(0)), "scalar");
    assert_ptr_equal(pccl_kernels_for(0), pccl_kernels_variant(0, &features));
    assert_int_equal(features, 0);
    for (uint32_t i = 0; (kernels = pccl_kernels_variant(i, &features)) != NULL; i++)
        assert_ptr_equal(pccl_kernels_for(features), kernels);
#if defined(__x86_64__)
    assert_string_equal(pccl_kernels_name(pccl_kernels_for(PCCL_CPU_NEON)), "scalar");
    assert_string_equal(pccl_kernels_name(pccl_kernels_for(PCCL_CPU_AVX2 | PCCL_CPU_NEON)), "avx2");
    assert_string_equal(pccl_kernels_name(pccl_kernels_for(PCCL_CPU_AVX2 | PCCL_CPU_AVX512)), "avx512");
#elif defined(__aarch64__)
    assert_string_equal(pccl_kernels_name(pccl_kernels_for(PCCL_CPU_NEON)), "neon");
#endif
}

static void no_variant_is_left_out(void **state) { assert_true(all_variants_were_run()); }

int main(void)
{
    struct CMUnitTest tests[PCCL_COUNT_OF(kernels_checks) + 3] = {
        cmocka_unit_test(the_best_that_the_processor_can_run_is_chosen),
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(kernels_checks); i++) {
        tests[i + 1] = (struct CMUnitTest){
            .name = kernels_checks[i].name, .test_func = check_holds, .initial_state = (void *)&kernels_checks[i]};
    }
    tests[PCCL_COUNT_OF(kernels_checks) + 2] = (struct CMUnitTest)cmocka_unit_test(bits_are_the_same_on_all_systems);
    tests[PCCL_COUNT_OF(kernels_checks) + 1] = (struct CMUnitTest)cmocka_unit_test(no_variant_is_left_out);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
