#include "core/crowd.h"

#include "core/table.h"

static uint32_t place_of(const struct pccl_address *from)
{
    return (uint32_t)(pccl_hash_u64(pccl_address_site(from)) % PCCL_CROWD_SITES);
}

void pccl_crowd_add(struct pccl_crowd *crowd, const struct pccl_address *from) { crowd->counts[place_of(from)]++; }

uint32_t pccl_crowd_of(const struct pccl_crowd *crowd, const struct pccl_address *from)
{
    return crowd->counts[place_of(from)];
}
