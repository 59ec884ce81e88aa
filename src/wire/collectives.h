/*
 * A table with one row for each collective, from which the master, the peers and the public functions derive which
 * members send and receive, how much, and which arguments the collective takes. A new collective needs a row and a
 * schedule.
 */
#ifndef PCCL_WIRE_COLLECTIVES_H
#define PCCL_WIRE_COLLECTIVES_H

#include "core/base.h"
#include "kernels/reduce.h"
#include "wire/schema.h"

enum pccl_matter {
    PCCL_OF_NOTHING,
    PCCL_OF_ELEMENTS, /* elements of one tensor */
    PCCL_OF_TENSORS,  /* tensors, each with a type and a reduction (coalesced.h) */
    /* bytes; only their owner knows their length, until a tiny operation has sent it to all (tiny.h) */
    PCCL_OF_BLOBS,
};

/* Number of parts. A part has the descriptor's `count` of elements, unless lengths are given. */
enum pccl_amount { PCCL_NO_PART = 0, PCCL_ONE_PART = 1, PCCL_PART_FOR_EACH };

/* Members that have an input or a result. If roles differ, one member is the root. */
enum pccl_members { PCCL_BY_ALL, PCCL_BY_ROOT, PCCL_BY_OTHERS };

struct pccl_parts {
    enum pccl_amount amount;
    enum pccl_members by;
};

/* In a scan, each member gets the reduction over the members with lower ranks, excluding or including itself. */
enum pccl_scan { PCCL_NO_SCAN, PCCL_EXCLUSIVE, PCCL_INCLUSIVE };

enum pccl_codecs { PCCL_NEVER_PACKED, PCCL_GIVEN_CODEC, PCCL_GIVEN_OR_AUTOMATIC_CODEC };

#define PCCL_NOT_LISTED UINT8_MAX

struct pccl_collective_row {
    const char *name;
    uint8_t listed; /* pcclCollective_t, or PCCL_NOT_LISTED if it is not allowed in a list of operations */
    enum pccl_matter of;
    struct pccl_parts input, result;
    enum pccl_codecs codecs;
    bool reduces; /* true if it combines the inputs of all members with a pcclRedOp_t instead of only moving them */
    enum pccl_scan scan;
    /* ranks matter, so the caller requires the members that it knows; otherwise all present members take part */
    bool ranks_matter;
    bool one_buffer; /* the caller passes one buffer for both input and result */
    bool has_counts; /* the descriptor may contain a digest of part lengths or of a list of tensors */
};

extern const struct pccl_collective_row pccl_collective_rows[PCCL_COLLECTIVES + 1];

/* Returns the row of a collective. For an unknown one, returns a row named "operation" that has no data. */
static inline const struct pccl_collective_row *pccl_collective(uint8_t collective)
{
    return &pccl_collective_rows[collective < PCCL_COLLECTIVES ? collective : PCCL_COLLECTIVES];
}

/* Returns the collective with this pcclCollective_t, or PCCL_COLLECTIVES. */
enum pccl_collective pccl_collective_listed_as(uint32_t number);
/* Returns the number of parts that a member has. */
static inline uint32_t pccl_parts_of(const struct pccl_parts *parts, uint32_t world, bool is_root)
{
    if (parts->by != PCCL_BY_ALL && (parts->by == PCCL_BY_ROOT) != is_root)
        return 0;
    return parts->amount == PCCL_PART_FOR_EACH ? world : (uint32_t)parts->amount;
}

static inline const char *pccl_collective_name(uint8_t collective) { return pccl_collective(collective)->name; }

static inline bool pccl_collective_reduces(uint8_t collective) { return pccl_collective(collective)->reduces; }

static inline bool pccl_collective_is_of_blobs(uint8_t collective)
{
    return pccl_collective(collective)->of == PCCL_OF_BLOBS;
}

/* Returns true if one member, the root, sends or receives data while the others do not. */
static inline bool pccl_row_has_root(const struct pccl_collective_row *row)
{
    return row->input.by != PCCL_BY_ALL || row->result.by != PCCL_BY_ALL;
}

static inline bool pccl_collective_has_root(uint8_t collective)
{
    return pccl_row_has_root(pccl_collective(collective));
}

/* Returns true if each member sends a part to each member, so that no buffer can be both input and result. */
static inline bool pccl_row_exchanges(const struct pccl_collective_row *row)
{
    return row->input.amount == PCCL_PART_FOR_EACH && row->result.amount == PCCL_PART_FOR_EACH;
}

/* Returns true if each member gets a different part of the result or of the inputs. */
static inline bool pccl_row_divides(const struct pccl_collective_row *row)
{
    return row->input.amount == PCCL_PART_FOR_EACH || row->scan != PCCL_NO_SCAN;
}

/* Returns true if members along the ring forward data that they do not use themselves. */
static inline bool pccl_row_relays(const struct pccl_collective_row *row)
{
    const bool in_parts = row->input.amount == PCCL_PART_FOR_EACH || row->result.amount == PCCL_PART_FOR_EACH;
    const bool parts = !row->reduces && in_parts && (pccl_row_has_root(row) || pccl_row_exchanges(row));
    return parts || row->scan != PCCL_NO_SCAN;
}

/*
 * Returns NULL if the collective supports this reduction of these elements, otherwise the reason why it does not. All
 * arguments must be valid values.
 */
const char *pccl_row_misfit(const struct pccl_collective_row *row, enum pccl_datatype datatype,
                            enum pccl_reduce_op reduction);

#endif
