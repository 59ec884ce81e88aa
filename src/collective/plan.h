/*
 * Plan of an operation: its schedule, the division of its elements, and their positions. A plan is computed only from
 * data on which all members of a view agree, so every peer computes the same plan without messages.
 *
 * An all-reduce, a reduce, a scan and a broadcast have one tensor of `count` elements. An all-gather, a reduce-scatter,
 * a gather and a scatter have one tensor with a part for each rank: on one side, input or result, a rank (or only the
 * root) has all parts, and on the other side only its own. In an all-to-all, a rank has a part for every rank on one
 * side and a part from every rank on the other. The place of a rank's part in the tensor is its position, which may
 * differ from its rank. Parts have `count` elements each, or given lengths, which may be 0; with given lengths, a rank
 * with several parts may have each in separate memory.
 *
 * The elements are divided into stripes. A stripe has as many segments as the schedule has pieces, with at most
 * segment_elements elements each; the segments of the last stripe are shorter, with nearly equal lengths. Empty
 * segments are not sent. In a large ring, a small tensor has fewer segments than pieces. If the tensor is in parts,
 * segment p of a stripe belongs to the part of rank p or, in an all-to-all, to the part that rank p sends in the
 * stripe's turn. The longest part, multiplied by the turns, determines the number of stripes; segments beyond the end
 * of a shorter part are empty. Turns alternate from stripe to stripe. With given lengths, a turn instead continues to
 * the end of its parts, unless that makes the operation much slower, so that the first part is complete early. Each
 * stripe is a small operation, and a window of stripes is in flight.
 *
 * all-reduce       RING     Each segment circles the ring twice, as a sum and as a result:
 *                           2(ranks - 1) steps (ring.c).
 *                  DIRECT   All parts of a segment are sent to its owner, which sends the result to
 *                           all: 2 steps (direct.c).
 * broadcast        CHAIN    Each segment is passed on along the ring (broadcast.c).
 *                  SPREAD   Each other rank receives a segment from the root and sends it to all: 2
 *                           steps.
 *                  STAR     The root sends each segment to all: 1 step.
 * all-gather       GATHER_RING, GATHER_DIRECT     Each part circles the ring in ranks - 1 steps, or
 *                           is sent to all in 1 step (gather.c).
 * reduce-scatter   SCATTER_RING, SCATTER_DIRECT   The first half of RING or DIRECT (scatter.c).
 * reduce           REDUCE_CHAIN, REDUCE_DIRECT    Each segment is folded along the ring up to the
 *                           root, or the root receives all its parts (to_root.c).
 * gather           TO_ROOT_CHAIN, TO_ROOT_DIRECT  Each part is passed on to the root, or sent
 *                           straight to it (to_root.c).
 * scatter          FROM_ROOT_CHAIN, FROM_ROOT_DIRECT     The reverse of gather (from_root.c).
 * all-to-all       EXCHANGE_RING, EXCHANGE_DIRECT Each part is passed on along the ring, or sent
 *                           straight to its rank (all_to_all.c).
 * scan             SCAN_RING, SCAN_DIRECT         Each sum is sent to the rank whose tensor is folded
 *                           next; along the ring, the ranks between pass it on (scan.c).
 * of blobs         The same schedules, with parts of given lengths.
 *
 * A coalesced all-reduce has several consecutive sections (wire/coalesced.h). Each section has a plan for its stripes,
 * and all use the same schedule; the plan of the whole has their common values.
 *
 * An all-reduce folds the parts of segment p in the order p, p + 1 ... p - 1. A reduce-scatter folds the share of rank
 * p in the order p + 1, p + 2 ... p, and a reduce does the same for the root. Therefore the rank that finishes a sum
 * folds its own part last, and all schedules of a collective give the same bits. Narrow floats, of 8 and 16 bits, are
 * folded as f32 and rounded at the end; along the ring, sums are sent as f32, so that they are not rounded on each
 * rank. In a premultiplied sum, each rank contributes its elements times its factor, rounded to their type. A scan
 * folds the parts in canonical order.
 *
 * With a codec, everything that is sent is packed. The sender packs parts and sums. The rank that finishes a result
 * packs it once and unpacks it like all others, and data that is not folded is packed and unpacked likewise by its
 * owner. Data that stays on its rank is not packed: a share of a reduce-scatter, the result of a reduce, the root's own
 * part of a gather or scatter, and a rank's own part in an all-to-all. Collected parts are unpacked and added one by
 * one. With a scaled codec, parts are sent straight to the folding rank where possible, so that each part and the sum
 * are packed once.
 */
#ifndef PCCL_COLLECTIVE_PLAN_H
#define PCCL_COLLECTIVE_PLAN_H

#include "collective/schedule.h"
#include "core/status.h"
#include "core/text.h"
#include "wire/coalesced.h"
#include "wire/collectives.h"
#include "wire/packing.h"

/* Side on which a rank has only its own part. */
enum pccl_division {
    PCCL_DIVISION_WHOLE,     /* the tensor is not in parts */
    PCCL_DIVISION_GATHERED,  /* the input is this rank's part */
    PCCL_DIVISION_SCATTERED, /* the result is this rank's part */
    PCCL_DIVISION_EXCHANGED, /* both sides: a tensor whose parts are divided again, by sender and receiver */
};

struct pccl_plan {
    enum pccl_algorithm algorithm; /* index in pccl_schedules */
    struct pccl_seat seat;
    uint32_t pieces; /* number of segments in a stripe */
    uint32_t turns;  /* number of stripes that together have a segment of every part; 1 if each stripe has one */
    uint64_t turn_stripes;
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    enum pccl_datatype folded_datatype; /* type of intermediate sums */
    struct pccl_packing packing;
    struct pccl_packing folded_packing; /* packing of intermediate sums; gives the same sizes as `packing` */
    uint32_t element_bytes;
    uint64_t count;            /* number of elements of the tensor or of the longest part */
    const uint32_t *positions; /* borrowed: position of each rank's part; NULL if the tensor is not in parts */
    /*
     * Borrowed: start of each part, and end of the last one. If parts are divided again, the parts of a sender are
     * adjacent. NULL if all parts are equal.
     */
    const uint64_t *starts;
    /* Index, in the whole tensor, of the first element in the caller's memory. */
    uint64_t input_from, result_from;
    uint64_t own_from, own; /* start and length of this rank's part, in elements; 0: no part */
    enum pccl_division division;
    enum pccl_scan scan;
    struct pccl_line line; /* for a scan; the seat points to this member, so a plan must not be copied */
    bool reduces;          /* this rank's part is folded into the result */
    bool long_path;        /* round trips to the neighbors take longer than sending some segments */
    bool large;            /* larger than the caches, so data that is not needed soon may bypass them */
    uint32_t segment_elements;
    /* true if the last stripe has only as many segments as its elements fill, instead of one for each piece */
    bool leaves_pieces;
    uint64_t stripes;         /* >= 1 */
    uint64_t first_stripe;    /* number of stripes before the section */
    size_t bytes_before;      /* bytes of the caller's memory before the section */
    uint64_t elements_before; /* number of elements before the section */
};

/*
 * Creates a plan, which points to `positions` and `starts`. positions: a permutation of the ranks, required for a scan
 * and for a tensor in parts. starts: start of each part by position and end of the last; NULL without given lengths.
 * Returns ARGUMENT with a reason for a descriptor that no caller can create.
 */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const uint32_t *positions,
                                                const uint64_t *starts, struct pccl_plan *plan,
                                                struct pccl_text *reason);

/* Creates a plan for each of several consecutive sections, and the plan of the whole operation. */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make_sections(const struct pccl_descriptor *descriptor,
                                                         const struct pccl_cost *cost, struct pccl_seat seat,
                                                         const struct pccl_section *sections, uint32_t count,
                                                         struct pccl_plan *plans, struct pccl_plan *whole,
                                                         struct pccl_text *reason);

const struct pccl_plan *pccl_plan_section(const struct pccl_plan *plans, uint32_t count, uint64_t stripe);

struct pccl_seat pccl_plan_seat(const struct pccl_plan *plan, uint64_t stripe);

uint32_t pccl_plan_parts(const struct pccl_plan *plan);

/* Returns the total number of elements of all parts. */
uint64_t pccl_plan_whole(const struct pccl_plan *plan);

/* Returns the start of a part in elements; for the part after the last one, the end. */
uint64_t pccl_plan_part_start(const struct pccl_plan *plan, uint32_t part);

uint64_t pccl_plan_part_length(const struct pccl_plan *plan, uint32_t part);

/* Returns the part that one rank sends to another in an all-to-all. */
uint32_t pccl_plan_part_between(const struct pccl_plan *plan, uint32_t from, uint32_t to);

/* Returns the number of elements of the tensor, or of each of its parts, in one stripe. */
uint64_t pccl_plan_stripe_elements(const struct pccl_plan *plan);

struct pccl_segment {
    uint64_t first; /* index of its first element in the whole tensor */
    uint32_t count; /* may be 0 */
    uint32_t part;  /* position of its part; 0 if the tensor is not in parts */
};
/* Returns the number of stripes of the part that contains this segment. Only for a tensor in parts. */
uint64_t pccl_plan_part_stripes(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the segment has elements; false for PCCL_NO_PIECE. */
bool pccl_plan_has_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the segment has elements of this rank's part that are its result (`keeps` in schedule.h). */
bool pccl_plan_keeps(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if a kept part is written to the result when it is sent, because it is packed or begins a scan. */
bool pccl_plan_keeps_sent(const struct pccl_plan *plan);
/* Returns true if this step sends sums that are wider than elements: f32 for narrow floats. */
bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step);
/* Returns the number of bytes that this step sends for `count` elements, whether as elements, packed, or as sums. */
size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count);
/* Returns the maximum of pccl_plan_bytes over all steps. */
size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count);

/* Returns the index for stochastic rounding of the segment's first element; no two elements have the same index. */
uint64_t pccl_plan_place(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);

/* Returns the offset of this segment, in elements, within the parts of its receiver in an all-to-all. */
uint64_t pccl_plan_exchanged_at(const struct pccl_plan *plan, const struct pccl_segment *segment);

/* Return the offset of a segment in the caller's memory, in bytes, as if the parts were adjacent. */
size_t pccl_plan_input_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
size_t pccl_plan_result_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
/*
 * With given lengths and by position: return the part, if any, that this rank receives from a member; and the member
 * that sends a part.
 */
uint32_t pccl_plan_part_from(const struct pccl_plan *plan, uint32_t position);
uint32_t pccl_plan_giver(const struct pccl_plan *plan, uint32_t part);

/* Returns true if the links of a member transfer data at the same time, so that they share its line. */
bool pccl_plan_shares_lines(const struct pccl_plan *plan);

#endif
