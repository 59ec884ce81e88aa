/*
 * So many things in a second, and a burst of some after a rest: for work that anybody can cause. Pure.
 */
#ifndef PCCL_CORE_BUDGET_H
#define PCCL_CORE_BUDGET_H

#include "core/base.h"

struct pccl_budget {
    uint32_t per_s, burst;   /* set by the owner, not 0, with the rest 0 */
    uint64_t spent_until_us; /* what was taken is paid for then */
};

/* false: it is used up; pccl_budget_again_us says until when. */
PCCL_MUST_CHECK bool pccl_budget_take(struct pccl_budget *budget, uint64_t now_us);
uint64_t pccl_budget_again_us(const struct pccl_budget *budget);

#endif
