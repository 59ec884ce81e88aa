/*
 * Tiny operations: their data goes to the master in `done` and comes back in `outcome`. How long
 * both are follows from the descriptor and the number of members (PROTOCOL 5.8), so master and
 * peers judge it alike.
 */
#ifndef PCCL_WIRE_TINY_H
#define PCCL_WIRE_TINY_H

#include "wire/wire.h"

/*
 * Of blobs. Members contribute the lengths of those they have; whose blobs are short enough puts
 * them behind their lengths. In the result each contribution lies behind its own length.
 */
enum {
    PCCL_TINY_BLOB_BYTES = 8,                                         /* a blob's length */
    PCCL_TINY_LENGTH_BYTES = 4,                                       /* of the length of a contribution */
    PCCL_TINY_BLOBS_MAX = PCCL_TINY_BYTES_MAX / PCCL_TINY_BLOB_BYTES, /* blobs of all members that a result may have */
};

/* Contents of a result. */
enum pccl_tiny_kind {
    PCCL_TINY_CONTRIBUTIONS, /* in canonical order; also where only the root has one */
    PCCL_TINY_REDUCTION,     /* of all contributions, and as long as each */
    PCCL_TINY_SHARES,        /* the same, of which each member gets a share, folded as along the ring */
    PCCL_TINY_SCANS,         /* a reduction for each member, as long as its contribution, in canonical order */
    PCCL_TINY_GROUP,         /* a group that the master has made of a founding */
};
enum pccl_tiny_kind pccl_tiny_kind(const struct pccl_descriptor *descriptor);

/* In bytes; UINT64_MAX: far too many to be counted. */
struct pccl_tiny_sizes {
    uint64_t contribution; /* of this member; without its blobs, which only its caller knows */
    uint64_t result;       /* the same for all; without blobs */
    uint64_t largest;      /* of the result and the contributions of all: the same for all */
};

/*
 * An operation may be tiny if `largest` is within pccl_tiny_most: then it is so for every member
 * alike. A barrier always may, and a founding whatever the limit is. self_is_root: where there is one.
 * world > 0.
 */
struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root);
/*
 * How long anything of this operation may be: tiny_bytes_max; of blobs at least what the lengths of
 * all need, within PCCL_TINY_BYTES_MAX.
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
    const void *data; /* in the result NULL: only its length is there */
};

/* How many members can tell each other the lengths of their blobs. */
uint32_t pccl_tiny_members_max(uint8_t collective);
/*
 * Writes what the member with these blobs contributes, of PCCL_TINY_BYTES_MAX bytes at most, and
 * returns how long that is.
 */
uint32_t pccl_tiny_put_blobs(uint8_t *contribution, uint8_t collective, const struct pccl_tiny_blob *blobs,
                             uint32_t count, uint32_t world, uint32_t tiny_bytes_max);
/* Lists the blobs of all members in a result that fits, PCCL_TINY_BLOBS_MAX at most; returns how many there are. */
uint32_t pccl_tiny_list_blobs(uint8_t collective, uint32_t world, const uint8_t *result, struct pccl_tiny_blob *blobs);

#endif
