#include "core/budget.h"

static uint64_t price_us(const struct pccl_budget *budget) { return UINT64_C(1000000) / budget->per_s; }

uint64_t pccl_budget_again_us(const struct pccl_budget *budget)
{
    uint64_t ahead_us = (budget->burst - 1) * price_us(budget);
    return budget->spent_until_us > ahead_us ? budget->spent_until_us - ahead_us : 0;
}

bool pccl_budget_take(struct pccl_budget *budget, uint64_t now_us)
{
    if (now_us < pccl_budget_again_us(budget))
        return false;
    budget->spent_until_us = pccl_max_u64(budget->spent_until_us, now_us) + price_us(budget);
    return true;
}
