/* When the figure of a link counts as changed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/cost.h"

static void rates_move_by_a_factor_of_two(void **state)
{
    (void)state;
    assert_true(pccl_rate_moved(1000, 2000));
    assert_false(pccl_rate_moved(1000, 1999));
    assert_true(pccl_rate_moved(1000, 500));
    assert_false(pccl_rate_moved(1000, 501));
    assert_false(pccl_rate_moved(1, 1));
    assert_true(pccl_rate_moved(1, UINT64_MAX));
    assert_true(pccl_rate_moved(UINT64_MAX, 1));
    assert_false(pccl_rate_moved(PCCL_RATE_MOST, UINT64_MAX));
    assert_false(pccl_rate_moved(PCCL_RATE_MOST / 2 + 1, UINT64_MAX));
    assert_true(pccl_rate_moved(PCCL_RATE_MOST / 2, UINT64_MAX));
}

static void round_trips_move_by_a_factor_of_two(void **state)
{
    (void)state;
    assert_true(pccl_rtt_moved(100, 200));
    assert_false(pccl_rtt_moved(100, 199));
    assert_true(pccl_rtt_moved(100, 1)); /* 50 and less are alike */
    assert_false(pccl_rtt_moved(99, 1));
    assert_false(pccl_rtt_moved(1, 50));
    assert_true(pccl_rtt_moved(UINT32_MAX, UINT32_MAX / 2));
    assert_false(pccl_rtt_moved(UINT32_MAX, UINT32_MAX / 2 + 1));
}

static void what_becomes_known_has_moved_and_what_is_forgotten_has_not(void **state)
{
    (void)state;
    assert_true(pccl_rate_moved(0, 1));
    assert_false(pccl_rate_moved(1, 0));
    assert_false(pccl_rate_moved(0, 0));
    assert_true(pccl_rtt_moved(0, 1));
    assert_false(pccl_rtt_moved(1, 0));
    assert_false(pccl_rtt_moved(0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_move_by_a_factor_of_two),
        cmocka_unit_test(round_trips_move_by_a_factor_of_two),
        cmocka_unit_test(what_becomes_known_has_moved_and_what_is_forgotten_has_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
