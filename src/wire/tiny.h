/*
 * Tiny operations: their data is sent to the master in `done` and returned in `outcome`. Both lengths are determined by
 * the descriptor and the number of members (PROTOCOL 5.8), so master and peers agree on them.
 */
#ifndef PCCL_WIRE_TINY_H
#define PCCL_WIRE_TINY_H

#include "wire/wire.h"

/*
 * Blobs: members contribute the lengths of their blobs, followed by the blobs if these are short enough. In the result
 * each contribution follows its length.
 */
enum {
    PCCL_TINY_BLOB_BYTES = 8,                                         /* length of a blob */
    PCCL_TINY_LENGTH_BYTES = 4,                                       /* length of a contribution's length */
    PCCL_TINY_BLOBS_MAX = PCCL_TINY_BYTES_MAX / PCCL_TINY_BLOB_BYTES, /* blobs of all members that a result may have */
};

/* Contents of a result. */
enum pccl_tiny_kind {
    PCCL_TINY_CONTRIBUTIONS, /* in canonical order; also if only the root has one */
    PCCL_TINY_REDUCTION,     /* of all contributions, and as long as each */
    PCCL_TINY_SHARES,        /* the same, with a share for each member, folded as along the ring */
    PCCL_TINY_SCANS,         /* a reduction for each member, as long as its contribution, in canonical order */
    PCCL_TINY_GROUP,         /* a group that the master has made from a founding */
};
enum pccl_tiny_kind pccl_tiny_kind(const struct pccl_descriptor *descriptor);

/* In bytes; UINT64_MAX: too many to count. */
struct pccl_tiny_sizes {
    uint64_t contribution; /* of this member; without its blobs, which only its caller knows */
    uint64_t result;       /* the same for all; without blobs */
    uint64_t largest;      /* of the result and all contributions: the same for all */
};

/*
 * Returns the sizes of an operation. It may be tiny if `largest` is within pccl_tiny_most: then it is so for every
 * member. A barrier always may, and a founding whatever the limit is. self_is_root: where there is a root. world > 0.
 */
struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root);
/*
 * Returns the limit for each size of this operation: tiny_bytes_max; for blobs at least the space for all lengths,
 * within PCCL_TINY_BYTES_MAX.
 */
uint32_t pccl_tiny_most(const struct pccl_descriptor *descriptor, uint32_t world, uint32_t tiny_bytes_max);

/* Return true if this contribution, or this result, fits the descriptor. */
PCCL_MUST_CHECK bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                                 bool self_is_root, const struct pccl_bytes *contribution,
                                                 uint32_t tiny_bytes_max);
PCCL_MUST_CHECK bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                           const struct pccl_bytes *result, uint32_t tiny_bytes_max);

/* ---- blobs ---- */

struct pccl_tiny_blob {
    uint64_t length;
    const void *data; /* NULL in a result with lengths only */
};

/* Returns the number of members that can exchange the lengths of their blobs. */
uint32_t pccl_tiny_members_max(uint8_t collective);
/* Writes the contribution of the member with these blobs, at most PCCL_TINY_BYTES_MAX bytes. Returns its length. */
uint32_t pccl_tiny_put_blobs(uint8_t *contribution, uint8_t collective, const struct pccl_tiny_blob *blobs,
                             uint32_t count, uint32_t world, uint32_t tiny_bytes_max);
/* Lists the blobs of all members in a result that fits, at most PCCL_TINY_BLOBS_MAX. Returns their number. */
uint32_t pccl_tiny_list_blobs(uint8_t collective, uint32_t world, const uint8_t *result, struct pccl_tiny_blob *blobs);

#endif
