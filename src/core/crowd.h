/*
 * Where connections come from, when there are too many: addresses and how many come from each, so that those of the
 * address with the most make room. Pure, of a fixed size.
 */
#ifndef PCCL_CORE_CROWD_H
#define PCCL_CORE_CROWD_H

#include "core/address.h"

enum { PCCL_CROWD_SITES = 1 << 10 }; /* addresses that fall on one another count as one */

struct pccl_crowd {
    const struct pccl_hash_key *hash; /* set before anything is added, and the counts 0 */
    uint16_t counts[PCCL_CROWD_SITES];
};

void pccl_crowd_add(struct pccl_crowd *crowd, const struct pccl_address *from);
uint32_t pccl_crowd_count(const struct pccl_crowd *crowd, const struct pccl_address *from);

#endif
