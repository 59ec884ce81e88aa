/* Rate limit with a burst after a rest, for work that strangers can cause. Pure. */
#ifndef PCCL_CORE_BUDGET_H
#define PCCL_CORE_BUDGET_H

#include "core/base.h"

struct pccl_budget {
    uint32_t per_s, burst;   /* set by the owner, not 0, with the rest 0 */
    uint64_t spent_until_us; /* time when all taken units are covered by the rate */
};

/* Takes one unit. Returns false if the budget is used up; pccl_budget_again_us returns until when. */
PCCL_MUST_CHECK bool pccl_budget_take(struct pccl_budget *budget, uint64_t now_us);
uint64_t pccl_budget_again_us(const struct pccl_budget *budget);

#endif
