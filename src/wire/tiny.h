/*
 * Tiny operations: their data goes to the master in `done` and comes back in `outcome`. How long
 * both are follows from the descriptor and the number of members (PROTOCOL 5.8), so master and
 * peers judge it alike.
 */
#ifndef PCCL_WIRE_TINY_H
#define PCCL_WIRE_TINY_H

#include "wire/wire.h"

/*
 * Of an ALL_GATHER_V. Members contribute the lengths of their blobs; those whose blob is short
 * enough put it behind its length. In the result each contribution lies behind its own length.
 */
enum {
    PCCL_TINY_BLOB_BYTES = 8,   /* a contribution without the blob */
    PCCL_TINY_LENGTH_BYTES = 4, /* of the length of a contribution */
    PCCL_TINY_BLOBS_MAX = PCCL_TINY_BYTES_MAX / (PCCL_TINY_BLOB_BYTES + PCCL_TINY_LENGTH_BYTES), /* members at most */
};

/* In bytes; UINT64_MAX: far too many to be counted. */
struct pccl_tiny_sizes {
    uint64_t contribution; /* of this member; of ALL_GATHER_V without its blob, which only its caller knows */
    uint64_t result;       /* the same for all; of ALL_GATHER_V without blobs */
    uint64_t largest;      /* of the result and the contributions of all: the same for all */
};

/*
 * An operation may be tiny if `largest` is within pccl_tiny_most: then it is so for every member
 * alike. A barrier always may, and a founding whatever the limit is. self_is_root: where there is one.
 * world > 0.
 */
struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root);
/*
 * How long anything of this operation may be: tiny_bytes_max; of ALL_GATHER_V at least what the
 * lengths of all need, within PCCL_TINY_BYTES_MAX.
 */
uint32_t pccl_tiny_most(const struct pccl_descriptor *descriptor, uint32_t world, uint32_t tiny_bytes_max);

/* Is this contribution, or this result, what the descriptor says? */
PCCL_MUST_CHECK bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                                 bool self_is_root, const struct pccl_bytes *contribution,
                                                 uint32_t tiny_bytes_max);
PCCL_MUST_CHECK bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                           const struct pccl_bytes *result, uint32_t tiny_bytes_max);

/* ---- blobs ---- */

struct pccl_tiny_blob {
    uint64_t length;
    const uint8_t *data; /* in the result; NULL: only its length is there */
};

/*
 * Writes what a member with this blob contributes, of PCCL_TINY_BYTES_MAX bytes at most, and returns
 * how long that is.
 */
uint32_t pccl_tiny_put_blob(uint8_t *contribution, const void *blob, uint64_t length, uint32_t world,
                            uint32_t tiny_bytes_max);
/* The next member's in a result that fits, from `at` on; returns where the one behind it begins. */
const uint8_t *pccl_tiny_next_blob(const uint8_t *at, struct pccl_tiny_blob *blob);

#endif
