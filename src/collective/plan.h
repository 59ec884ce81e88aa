/*
 * The plan of an operation: its schedule, the division of its elements, and their places. Pure arithmetic on data that
 * all members of a view agree on, so every peer makes the same plan without messages.
 *
 * An all-reduce, a reduce, a scan and a broadcast have one tensor of `count` elements. An all-gather, a reduce-scatter,
 * a gather and a scatter have one tensor with a part for each rank: on one side a rank (if there is a root, the root)
 * has all parts, on the other only its own. In an all-to-all a rank has a part for every rank on one side, and one from
 * every rank on the other. The place of a rank's part is its position, which may differ from its rank. Parts have
 * `count` elements each; or given lengths, some of which may be 0: then a rank with several parts may have each in
 * separate memory.
 *
 * The elements are divided into stripes of as many segments as the schedule has pieces (at most segment_elements each;
 * segments of the last stripe are shorter, of almost equal length; empty ones are not sent). A small tensor in a large
 * ring has fewer segments than pieces. In parts, segment p of a stripe belongs to the part of rank p or, in an
 * all-to-all, to the part that rank p sends in the stripe's turn. The number of stripes is determined by the longest
 * part, times the turns; segments beyond the end of a shorter part are empty. Turns change from stripe to stripe; with
 * given lengths, a turn continues to the end of its parts if that is not much slower for all together, so that the
 * first part is complete early. Each stripe is a small operation by itself, and a window of stripes is in flight.
 *
 * all-reduce       RING     Each segment travels round the ring twice, as a sum and as a result:
 *                           2(ranks - 1) steps (ring.c).
 *                  DIRECT   All parts of a segment travel to its owner, and the result from there to
 *                           all: 2 steps (direct.c).
 * broadcast        CHAIN    Each segment is passed on along the ring (broadcast.c).
 *                  SPREAD   Each other rank receives a segment from the root and sends it to all: 2
 *                           steps.
 * all-gather       GATHER_RING, GATHER_DIRECT     Each part travels round the ring: ranks - 1 steps;
 *                           or to all: 1 step (gather.c).
 * reduce-scatter   SCATTER_RING, SCATTER_DIRECT   The first half of RING or DIRECT (scatter.c).
 * reduce           REDUCE_CHAIN, REDUCE_DIRECT    Each segment is folded along the ring up to the root;
 *                           or the root receives all its parts (to_root.c).
 * gather           TO_ROOT_CHAIN, TO_ROOT_DIRECT  Each part is passed on to the root, or sent there
 *                           (to_root.c).
 * scatter          FROM_ROOT_CHAIN, FROM_ROOT_DIRECT     The same from the root (from_root.c).
 * all-to-all       EXCHANGE_RING, EXCHANGE_DIRECT Each part is passed on along the ring, or sent
 *                           (all_to_all.c).
 * scan             SCAN_RING, SCAN_DIRECT         Each sum is sent to the rank whose tensor is folded next; along the
 *                           ring it passes the ranks between (scan.c).
 * of blobs         the same, in parts of given lengths.
 *
 * A coalesced all-reduce has several consecutive sections (wire/coalesced.h). Each has a plan for its stripes, all with
 * one schedule; the plan of the whole has their common values.
 *
 * An all-reduce folds the parts of segment p in the order p, p + 1 ... p - 1; a reduce-scatter folds the share of rank
 * p in the order p + 1, p + 2 ... p, and so does a reduce for the root. So the rank that ends with the result folds its
 * own part last, and all schedules of a collective give the same bits. Narrow floats, of 8 and 16 bits, are folded in
 * f32 and rounded at the end: along the ring, sums travel as f32, so that they are not rounded at each rank. To a
 * premultiplied sum each rank contributes its elements times its factor, rounded to their type. A scan folds the parts
 * in canonical order.
 *
 * With a codec everything that travels is packed: a part or a sum by its sender; the result once, by the rank that
 * finishes it, which unpacks it again like all others. Data that stays at its rank is not packed: a share of a
 * reduce-scatter, the result of a reduce, a root's own part when it gathers or scatters, a rank's own part in an
 * all-to-all. Data that is not folded is packed once, by its owner, which unpacks it again likewise. Collected parts
 * are added unpacked, two by two. With a scaled codec parts travel directly to the folding rank where possible, so that
 * each is packed once and there is one sum.
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
    PCCL_DIVISION_WHOLE,     /* not in parts */
    PCCL_DIVISION_GATHERED,  /* the input is this rank's part */
    PCCL_DIVISION_SCATTERED, /* the result is this rank's part */
    PCCL_DIVISION_EXCHANGED, /* both: a tensor of parts of parts, by sender and receiver */
};

struct pccl_plan {
    enum pccl_algorithm algorithm; /* index of pccl_schedules */
    struct pccl_seat seat;
    uint32_t pieces;       /* segments of a stripe */
    uint32_t turns;        /* stripes that together have a segment of every part; 1: each stripe does */
    uint64_t turn_stripes; /* consecutive stripes of one turn */
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    enum pccl_datatype folded_datatype; /* type of intermediate sums */
    struct pccl_packing packing;        /* packing of elements */
    struct pccl_packing folded_packing; /* packing of intermediate sums; same size */
    uint32_t element_bytes;
    uint64_t count;            /* of the tensor, or of the longest part */
    const uint32_t *positions; /* position of each rank's part; NULL: the tensor is not in parts. Borrowed. */
    /*
     * Start of each part, and end of the last one; in parts of parts, the parts of one sender are adjacent. NULL: equal
     * parts. Borrowed.
     */
    const uint64_t *starts;
    /* First element of the whole tensor in the caller's memory. */
    uint64_t input_from, result_from;
    uint64_t own_from, own; /* start and length of this rank's part, in elements: the whole of a tensor; 0: no part */
    enum pccl_division division;
    enum pccl_scan scan;
    struct pccl_line line;     /* for a scan; the seat points to it, so a plan is not copied */
    bool reduces;              /* this rank's part is folded into the result */
    bool long_path;            /* round trips to the neighbors take longer than moving some segments */
    bool large;                /* larger than the caches, so data that is not needed soon may bypass them */
    uint32_t segment_elements; /* elements of a full segment */
    /* the last stripe has as few segments as its elements fill; otherwise one for each piece */
    bool leaves_pieces;
    uint64_t stripes;         /* >= 1 */
    uint64_t first_stripe;    /* section: number of stripes before it, ... */
    size_t bytes_before;      /* ... bytes of the caller's memory before it, ... */
    uint64_t elements_before; /* ... and the number of elements in these */
};

/*
 * Makes a plan, which refers to positions and starts. positions: a permutation of the ranks, required for a tensor in
 * parts and for a scan. starts: one more than there are parts, by position; NULL without given lengths. Returns
 * ARGUMENT with a reason for a descriptor that no caller can have made.
 */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const uint32_t *positions,
                                                const uint64_t *starts, struct pccl_plan *plan,
                                                struct pccl_text *reason);

/* Makes a plan for each of several sections, in order, and the plan of the whole. */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make_sections(const struct pccl_descriptor *descriptor,
                                                         const struct pccl_cost *cost, struct pccl_seat seat,
                                                         const struct pccl_section *sections, uint32_t count,
                                                         struct pccl_plan *plans, struct pccl_plan *whole,
                                                         struct pccl_text *reason);

/* Returns the plan of the section with the stripe. */
const struct pccl_plan *pccl_plan_section(const struct pccl_plan *plans, uint32_t count, uint64_t stripe);

/* Returns this peer's seat for the stripe. */
struct pccl_seat pccl_plan_seat(const struct pccl_plan *plan, uint64_t stripe);

/* Returns the number of parts of a partitioned tensor. */
uint32_t pccl_plan_parts(const struct pccl_plan *plan);

/* Returns the number of elements of all parts together. */
uint64_t pccl_plan_whole(const struct pccl_plan *plan);

/* Returns the start of a part in elements, or the end of the last one. */
uint64_t pccl_plan_part_start(const struct pccl_plan *plan, uint32_t part);

uint64_t pccl_plan_part_length(const struct pccl_plan *plan, uint32_t part);

/* All-to-all: returns the part that one rank sends to another. */
uint32_t pccl_plan_part_between(const struct pccl_plan *plan, uint32_t from, uint32_t to);

/* Returns the elements of a stripe in the tensor, or in each of its parts. */
uint64_t pccl_plan_stripe_elements(const struct pccl_plan *plan);

struct pccl_segment {
    uint64_t first; /* element of the whole tensor */
    uint32_t count; /* may be 0 */
    uint32_t part;  /* position of its part; 0 if there are no parts */
};
/* Tensor in parts: returns the number of stripes of the part to which this segment belongs. */
uint64_t pccl_plan_part_stripes(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the segment has elements; false for PCCL_NO_PIECE. */
bool pccl_plan_has_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the segment has elements of this rank's part that are its result (schedule.h). */
bool pccl_plan_keeps(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the kept part is written to the result when it is sent: packed, or as the first sum of a scan. */
bool pccl_plan_keeps_sent(const struct pccl_plan *plan);
/* Returns true if this step moves sums that are longer than elements: f32 for narrow floats. */
bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step);
/* Returns the number of bytes that this step moves for `count` elements: as elements, packed, or as sums. */
size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count);
/* Returns the maximum over all steps. */
size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count);

/* Returns the offset of stochastic rounding: elements of different segments have different ones. */
uint64_t pccl_plan_place(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);

/* All-to-all: offset of this segment within the parts that its receiver obtains, in elements. */
uint64_t pccl_plan_exchanged_at(const struct pccl_plan *plan, const struct pccl_segment *segment);

/* Return the offset of a segment in the caller's memory, in bytes, as if the parts were adjacent. */
size_t pccl_plan_input_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
size_t pccl_plan_result_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
/*
 * Given lengths, by position: return the part that this rank receives from a member, if any; and the member that sends
 * a part.
 */
uint32_t pccl_plan_part_from(const struct pccl_plan *plan, uint32_t position);
uint32_t pccl_plan_giver(const struct pccl_plan *plan, uint32_t part);

/* Returns true if the links of one member carry data at the same time, so that they share its line. */
bool pccl_plan_shares_lines(const struct pccl_plan *plan);

#endif
