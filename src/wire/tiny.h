/*
 * Tiny operations: their data goes to the master in `done` and comes back in `outcome`. How long
 * both are follows from the descriptor and the number of members (PROTOCOL 5.8), so master and
 * peers judge it alike.
 */
#ifndef PCCL_WIRE_TINY_H
#define PCCL_WIRE_TINY_H

#include "wire/wire.h"

enum { PCCL_TINY_LENGTH_BYTES = 4 }; /* of a blob's length, before it in the result of an ALL_GATHER_V */

/* In bytes; UINT64_MAX: far too many to be counted. */
struct pccl_tiny_sizes {
    uint64_t contribution; /* of this member; of ALL_GATHER_V without its blob */
    uint64_t result;       /* the same for all; of ALL_GATHER_V without the blobs */
    uint64_t largest;      /* of the result and the contributions of all: the same for all */
};

/*
 * An operation may be tiny if `largest` is within tiny_bytes_max: then it is so for every member
 * alike. A barrier always may, and a founding whatever the limit is. self_is_root: where there is one.
 * world > 0.
 */
struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root);
/* How long one member's blob of an ALL_GATHER_V may be, so that the result is within `most`. */
uint32_t pccl_tiny_blob_most(uint32_t world, uint32_t most);

/*
 * Is a contribution of this length, or this result, what the descriptor says, in an operation of
 * which nothing is longer than `most`?
 */
PCCL_MUST_CHECK bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                                 bool self_is_root, uint32_t length, uint32_t most);
PCCL_MUST_CHECK bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                           const struct pccl_bytes *result, uint32_t most);

#endif
