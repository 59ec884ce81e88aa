#include "core/crowd.h"

static uint32_t place_of(const struct pccl_crowd *crowd, const struct pccl_address *from)
{
    enum { SHIFT = 54 };
    _Static_assert(UINT64_C(1) << (64 - SHIFT) == PCCL_CROWD_SITES, "a place for each");
    return pccl_hash_place(crowd->hash, pccl_address_site(crowd->hash, from), SHIFT);
}

void pccl_crowd_add(struct pccl_crowd *crowd, const struct pccl_address *from)
{
    crowd->counts[place_of(crowd, from)]++;
}

uint32_t pccl_crowd_count(const struct pccl_crowd *crowd, const struct pccl_address *from)
{
    return crowd->counts[place_of(crowd, from)];
}
