/*
 * Counts connections by address, so that the owner can close connections of the address that has the most when there
 * are too many. Pure functions of constant size.
 */
#ifndef PCCL_CORE_CROWD_H
#define PCCL_CORE_CROWD_H

#include "core/address.h"

enum { PCCL_CROWD_SITES = 1 << 10 }; /* addresses that hash to the same slot count as one */

struct pccl_crowd {
    const struct pccl_hash_key *hash; /* set by the owner before the first addition; the counts are zero-initialized */
    uint16_t counts[PCCL_CROWD_SITES];
};

void pccl_crowd_add(struct pccl_crowd *crowd, const struct pccl_address *from);
uint32_t pccl_crowd_count(const struct pccl_crowd *crowd, const struct pccl_address *from);

#endif
