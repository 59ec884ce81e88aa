/* Log lines that any sender can cause: a few of each cause within a minute, then only their number. */
#include "unit.h"
#include "core/log_limit.h"

#include <string.h>

enum { SECOND_US = 1000000 };

/* Writes lines of a cause, one each step_us. Returns the number of lines that were admitted. */
static uint32_t flood(struct pccl_log_limit *limit, enum pccl_log_cause cause, uint32_t lines, uint64_t *now_us,
                      uint64_t step_us)
{
    uint32_t admitted = 0;
    for (uint32_t i = 0; i < lines; i++, *now_us += step_us)
        admitted += pccl_log_limit_admit(limit, cause, PCCL_LOG_INFO, *now_us);
    return admitted;
}

TEST(a_flood_is_cut_and_told)
{
    struct pccl_log_limit limit = {0};
    struct pccl_log_omission omission;
    uint64_t now_us = 5 * SECOND_US;
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_REFUSED, 50000, &now_us, 1000), 100);
    assert_false(pccl_log_limit_over(&limit, now_us, &omission)); /* the minute is not over */
    now_us = 65 * SECOND_US;
    assert_true(pccl_log_limit_over(&limit, now_us, &omission));
    assert_int_equal(omission.lines, 49900);
    assert_int_equal(omission.level, PCCL_LOG_INFO);
    assert_non_null(strstr(omission.what, "refused"));
    assert_false(pccl_log_limit_over(&limit, now_us, &omission)); /* once */
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_REFUSED, 200, &now_us, 1000), 100);
}

TEST(causes_do_not_disturb_each_other)
{
    struct pccl_log_limit limit = {0};
    struct pccl_log_omission omission;
    uint64_t now_us = 0;
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_REFUSED, 1000, &now_us, 1), 100);
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_MEMBERSHIP, 300, &now_us, 1), 300);
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_NONE, 100000, &now_us, 1), 100000);
    assert_true(pccl_log_limit_over(&limit, 61 * SECOND_US, &omission));
    assert_false(pccl_log_limit_over(&limit, 61 * SECOND_US, &omission));
}

TEST(what_comes_now_and_then_is_all_there)
{
    struct pccl_log_limit limit = {0};
    struct pccl_log_omission omission;
    uint64_t now_us = 0;
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_REFUSED, 5000, &now_us, SECOND_US), 5000);
    assert_false(pccl_log_limit_over(&limit, now_us + 100 * SECOND_US, &omission));
}

TEST(an_omission_has_the_worst_level)
{
    struct pccl_log_limit limit = {0};
    struct pccl_log_omission omission;
    uint64_t now_us = 0;
    assert_int_equal(flood(&limit, PCCL_LOG_CAUSE_NEWCOMER, 500, &now_us, 1), 400);
    assert_false(pccl_log_limit_admit(&limit, PCCL_LOG_CAUSE_NEWCOMER, PCCL_LOG_WARN, now_us));
    assert_false(pccl_log_limit_admit(&limit, PCCL_LOG_CAUSE_NEWCOMER, PCCL_LOG_DEBUG, now_us));
    assert_true(pccl_log_limit_over(&limit, 60 * SECOND_US, &omission));
    assert_int_equal(omission.level, PCCL_LOG_WARN);
    assert_int_equal(omission.lines, 102);
}
