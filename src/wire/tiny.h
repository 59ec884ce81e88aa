/*
 * Tiny operations. Their data is sent to the master in `done` and returned in `outcome`. The descriptor and the number
 * of members determine both lengths (PROTOCOL 5.8), so master and peers agree on them.
 */
#ifndef PCCL_WIRE_TINY_H
#define PCCL_WIRE_TINY_H

#include "wire/wire.h"

/*
 * Blobs: each member contributes the lengths of its blobs, followed by the blobs if they are short enough. In the
 * result, each contribution is preceded by its length.
 */
enum {
    PCCL_TINY_BLOB_BYTES = 8,   /* size of a blob's length */
    PCCL_TINY_LENGTH_BYTES = 4, /* size of a contribution's length */
    /* maximum number of blobs in a result, over all members */
    PCCL_TINY_BLOBS_MAX = PCCL_TINY_BYTES_MAX / PCCL_TINY_BLOB_BYTES,
};

/* Content of a result. */
enum pccl_tiny_kind {
    PCCL_TINY_CONTRIBUTIONS, /* all contributions in canonical order, even if only the root has one */
    PCCL_TINY_REDUCTION,     /* the reduction of all contributions, of the same length as each */
    PCCL_TINY_SHARES,        /* the same, with one share per member, folded in the order of the ring */
    PCCL_TINY_SCANS,         /* one reduction per member in canonical order, each as long as a contribution */
    PCCL_TINY_GROUP,         /* the subgroup that the master has made for a founding */
};
enum pccl_tiny_kind pccl_tiny_kind(const struct pccl_descriptor *descriptor);

/* Sizes in bytes. UINT64_MAX: too large to represent. */
struct pccl_tiny_sizes {
    uint64_t contribution; /* size of this member's contribution, without blobs, whose size only the caller knows */
    uint64_t result;       /* size of the result, without blobs; the same for all members */
    uint64_t largest;      /* maximum of the result's and all contributions' sizes; the same for all members */
};

/*
 * Returns the sizes of an operation. It may be tiny if `largest` is at most pccl_tiny_most, which holds for all members
 * or for none. A barrier is always tiny, and so is a founding, regardless of the limit. self_is_root: only used if
 * there is a root. world > 0.
 */
struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root);
/*
 * Returns the limit that applies to each size of this operation: tiny_bytes_max or, for blobs, at least the space for
 * all lengths, but at most PCCL_TINY_BYTES_MAX.
 */
uint32_t pccl_tiny_most(const struct pccl_descriptor *descriptor, uint32_t world, uint32_t tiny_bytes_max);

/* Return true if the contribution, or the result, is valid for the descriptor. */
PCCL_MUST_CHECK bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                                 bool self_is_root, const struct pccl_bytes *contribution,
                                                 uint32_t tiny_bytes_max);
PCCL_MUST_CHECK bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world,
                                           const struct pccl_bytes *result, uint32_t tiny_bytes_max);

/* ---- blobs ---- */

struct pccl_tiny_blob {
    uint64_t length;
    const void *data; /* NULL if the result contains only lengths */
};

/* Returns the maximum number of members for which a result can contain the lengths of their blobs. */
uint32_t pccl_tiny_members_max(uint8_t collective);
/* Writes the contribution of a member with these blobs, at most PCCL_TINY_BYTES_MAX bytes. Returns its length. */
uint32_t pccl_tiny_put_blobs(uint8_t *contribution, uint8_t collective, const struct pccl_tiny_blob *blobs,
                             uint32_t count, uint32_t world, uint32_t tiny_bytes_max);
/* Lists the blobs of all members in a valid result, at most PCCL_TINY_BLOBS_MAX. Returns their number. */
uint32_t pccl_tiny_list_blobs(uint8_t collective, uint32_t world, const uint8_t *result, struct pccl_tiny_blob *blobs);

#endif
