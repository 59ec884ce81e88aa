/* Rate limit with a burst, for work that strangers can cause. Pure functions. */
#ifndef PCCL_CORE_BUDGET_H
#define PCCL_CORE_BUDGET_H

#include "core/base.h"

struct pccl_budget {
    uint32_t per_s, burst;   /* set by the owner to nonzero values; the rest is zero-initialized */
    uint64_t spent_until_us; /* time at which the rate has covered all units taken so far */
};

/*
 * Takes one unit. Returns false if the budget is used up; pccl_budget_again_us returns the time when a unit is
 * available again.
 */
PCCL_MUST_CHECK bool pccl_budget_take(struct pccl_budget *budget, uint64_t now_us);
uint64_t pccl_budget_again_us(const struct pccl_budget *budget);

#endif
