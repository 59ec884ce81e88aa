/* core/budget: a burst after a rest, then an even rate, and never more. */
#include "unit.h"

#include "core/budget.h"

static uint32_t take_all(struct pccl_budget *budget, uint64_t now_us)
{
    uint32_t taken = 0;
    while (pccl_budget_take(budget, now_us))
        taken++;
    return taken;
}

TEST(test_burst_then_rate)
{
    struct pccl_budget budget = {.per_s = 1000, .burst = 50};
    uint64_t now_us = 5000000;
    uint32_t taken = 0;
    assert_int_equal(take_all(&budget, now_us), 50);
    assert_false(pccl_budget_take(&budget, now_us));
    assert_int_equal(pccl_budget_again_us(&budget), now_us + 1000);
    for (uint32_t i = 0; i < 10000; i++) /* ten seconds, looked at each millisecond */
        taken += take_all(&budget, now_us += 1000);
    assert_int_equal(taken, 10000);
    assert_int_equal(take_all(&budget, now_us + 20000), 20);
    assert_int_equal(take_all(&budget, now_us + 1000000), 50); /* a long rest saves no more than a burst */
}

TEST(test_one_at_a_time)
{
    struct pccl_budget budget = {.per_s = 2, .burst = 1};
    assert_int_equal(take_all(&budget, 0), 1);
    assert_int_equal(take_all(&budget, 499999), 0);
    assert_int_equal(take_all(&budget, 500000), 1);
}
