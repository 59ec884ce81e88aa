/*
 * How one operation is carried out: which schedule, how the elements are cut, and where they lie.
 * Pure arithmetic on what all members of a view agree on, so every peer makes the same plan without
 * asking.
 *
 * An all-reduce, a reduce, a scan and a broadcast are of one tensor of `count` elements. An all-gather, a
 * reduce-scatter, a gather and a scatter are of one tensor in as many parts as there are ranks: a rank
 * holds all parts on one side, if it is the root where there is one, and only its own on the other. In
 * an all-to-all it holds a part for every rank on one side, and one of every rank on the other. Where
 * the part of a rank lies is its position, which need not be its rank. Parts have `count` elements
 * each; or given lengths, any of which may be 0: then who holds several may have each in memory of
 * its own.
 *
 * The elements are cut into stripes of as many segments as the schedule has pieces (at most
 * segment_elements each; the last stripe's are shorter and of almost equal length; empty ones are
 * not sent). A small tensor in a large ring has fewer segments than pieces. In parts, segment p of
 * a stripe is of the part of rank p, or, in an all-to-all, of what rank p sends in the stripe's
 * turn. There are as many stripes as the longest part needs, times the turns; where another one has
 * ended, its segments are empty. Turns change from stripe to stripe; with given lengths, one goes
 * on to the end of its parts if that is not much slower for all together, so that the first part is
 * complete early. Each stripe is a small operation by itself, and a window of stripes is in flight.
 *
 * all-reduce       RING     Each segment travels round the ring twice, as a sum and as a result:
 *                           2(ranks - 1) steps (ring.c).
 *                  DIRECT   All parts of a segment go to its owner, and the result from there to
 *                           all: 2 steps (direct.c).
 * broadcast        CHAIN    Each segment is passed on along the ring (broadcast.c).
 *                  SPREAD   Each other rank gets a segment from the root and sends it to all: 2
 *                           steps.
 * all-gather       GATHER_RING, GATHER_DIRECT     Each part goes round the ring: ranks - 1 steps;
 *                           or to all: 1 step (gather.c).
 * reduce-scatter   SCATTER_RING, SCATTER_DIRECT   The first half of RING or DIRECT (scatter.c).
 * reduce           REDUCE_CHAIN, REDUCE_DIRECT    Each segment is folded along the ring up to the root;
 *                           or the root gets all parts of it (to_root.c).
 * gather           TO_ROOT_CHAIN, TO_ROOT_DIRECT  Each part is passed on to the root, or sent there
 *                           (to_root.c).
 * scatter          FROM_ROOT_CHAIN, FROM_ROOT_DIRECT     The same from the root (from_root.c).
 * all-to-all       EXCHANGE_RING, EXCHANGE_DIRECT Each part is passed on along the ring, or sent
 *                           (all_to_all.c).
 * scan             SCAN_RING, SCAN_DIRECT         Each sum is sent to the rank whose tensor is folded next; along the
 *                           ring it passes the ranks between (scan.c).
 * of blobs         the same, in parts of given lengths.
 *
 * A coalesced all-reduce is of several sections (wire/coalesced.h), which follow one another. Each has
 * a plan of its own for its stripes, all with one schedule; that of the whole says what all have in
 * common.
 *
 * An all-reduce folds the parts of segment p in the order p, p + 1 ... p - 1; a reduce-scatter folds
 * the share of rank p in the order p + 1, p + 2 ... p, and so does a reduce for the root. So the rank
 * that ends with the result folds its own part last, and all schedules of a collective give the same
 * bits. Narrow floats, of 8 and 16 bits, are folded in f32 and rounded when that is finished: along the
 * ring, sums travel as f32, so that they are not rounded at each rank. To a premultiplied sum each rank
 * contributes its elements times its factor, rounded to their type. A scan folds the parts in
 * canonical order. With a codec everything that travels is packed: a part or a sum by whoever sends it; the result
 * once, by the rank that finishes it, which unpacks it again as all others do. What nobody else gets is not packed: a
 * share of a reduce-scatter, the result of a reduce, the own part of a root that gathers or scatters, what stays in an
 * all-to-all. What is not folded is packed once, by the rank that has it, which unpacks it again likewise. Parts that
 * are collected are added unpacked, two by two. With a scaled codec parts go directly to whoever folds them wherever
 * they can, so that none is packed twice and there is one sum.
 */
#ifndef PCCL_COLLECTIVE_PLAN_H
#define PCCL_COLLECTIVE_PLAN_H

#include "collective/schedule.h"
#include "core/status.h"
#include "core/text.h"
#include "wire/coalesced.h"
#include "wire/collectives.h"
#include "wire/packing.h"

/* Tensors in parts: the side of which a rank holds only its own part. */
enum pccl_division {
    PCCL_DIVISION_WHOLE,     /* none */
    PCCL_DIVISION_GATHERED,  /* the input is the own part */
    PCCL_DIVISION_SCATTERED, /* the result is the own part */
    PCCL_DIVISION_EXCHANGED, /* both: a tensor of parts of parts, by who sends and who receives */
};

struct pccl_plan {
    enum pccl_algorithm algorithm; /* which of pccl_schedules */
    struct pccl_seat seat;
    uint32_t pieces;       /* segments of a stripe */
    uint32_t turns;        /* stripes that make up a segment of every part; 1: each does */
    uint64_t turn_stripes; /* that follow one another in one turn */
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    enum pccl_datatype folded_datatype; /* of what is folded so far */
    struct pccl_packing packing;        /* of elements */
    struct pccl_packing folded_packing; /* of what is folded so far: as many bytes */
    uint32_t element_bytes;
    uint64_t count;            /* of the tensor, or of the longest part */
    const uint32_t *positions; /* by rank: which part is the rank's; NULL: the tensor is not in parts. Borrowed */
    /*
     * Where each part begins, and where the last one ends; of parts of parts, those that one sends lie
     * together. NULL: equal parts. Borrowed.
     */
    const uint64_t *starts;
    /* The element of the whole tensor that comes first in the caller's memory. */
    uint64_t input_from, result_from;
    uint64_t own_from, own; /* where the own part begins and how many elements it has: all of a tensor; 0: no part */
    enum pccl_division division;
    enum pccl_scan scan;
    struct pccl_line line;     /* of a scan; the seat points to it, so a plan is not copied */
    bool reduces;              /* the result of the own part is what it is folded into */
    bool long_path;            /* a round trip to the neighbors takes longer than moving some segments */
    bool large;                /* more than the caches hold, so what is not needed soon may bypass them */
    uint32_t segment_elements; /* of a whole segment */
    bool leaves_pieces;        /* the last stripe has as few segments as its elements fill; otherwise one a piece */
    uint64_t stripes;          /* >= 1 */
    uint64_t first_stripe;     /* of a section: stripes before it, ... */
    size_t bytes_before;       /* ... how many bytes of the caller's memory, ... */
    uint64_t elements_before;  /* ... and how many elements those are */
};

/*
 * ARGUMENT with a reason: a descriptor that no caller can have made. positions: a permutation of the
 * ranks; only asked for where the tensor is in parts, and in a scan. starts: one more than there are parts, by
 * position; NULL without given lengths. The plan refers to both.
 */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const uint32_t *positions,
                                                const uint64_t *starts, struct pccl_plan *plan,
                                                struct pccl_text *reason);

/* The same for several sections: a plan for each, in order, and that of the whole. */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make_sections(const struct pccl_descriptor *descriptor,
                                                         const struct pccl_cost *cost, struct pccl_seat seat,
                                                         const struct pccl_section *sections, uint32_t count,
                                                         struct pccl_plan *plans, struct pccl_plan *whole,
                                                         struct pccl_text *reason);

/* That of the section to which the stripe belongs. */
const struct pccl_plan *pccl_plan_section(const struct pccl_plan *plans, uint32_t count, uint64_t stripe);

/* For the schedule: this peer's place, in this stripe. */
struct pccl_seat pccl_plan_seat(const struct pccl_plan *plan, uint64_t stripe);

/* How many parts there are, where there are any. */
uint32_t pccl_plan_parts(const struct pccl_plan *plan);

/* Elements of all parts together. */
uint64_t pccl_plan_whole(const struct pccl_plan *plan);

/* Where a part begins, in elements, or the last one ends. */
uint64_t pccl_plan_part_start(const struct pccl_plan *plan, uint32_t part);

uint64_t pccl_plan_part_length(const struct pccl_plan *plan, uint32_t part);

/* Of an all-to-all: the part that one rank sends to another. */
uint32_t pccl_plan_part_between(const struct pccl_plan *plan, uint32_t from, uint32_t to);

/* Of the tensor, or of each of its parts. */
uint64_t pccl_plan_stripe_elements(const struct pccl_plan *plan);

struct pccl_segment {
    uint64_t first; /* element of the whole tensor */
    uint32_t count; /* may be 0 */
    uint32_t part;  /* of which it is, by position; 0 if there are no parts */
};
/* Of a tensor in parts: how many stripes the part takes of which this stripe has a segment with this number. */
uint64_t pccl_plan_part_stripes(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Whether there is anything to send in it; not in PCCL_NO_PIECE. */
bool pccl_plan_has_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Whether the segment has elements, and they are the own part, which is its result (schedule.h). */
bool pccl_plan_keeps(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Returns true if the kept part is written to the result when it is sent: packed, or as the first sum of a scan. */
bool pccl_plan_keeps_sent(const struct pccl_plan *plan);
/* Whether sums travel in this step that are longer than elements: f32 for narrow floats. */
bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step);
/*
 * How many bytes travel in this step for `count` elements, whether as elements, packed, or as sums.
 */
size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count);
/* The most of that over all steps. */
size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count);

/* What stochastic rounding counts from: elements of different segments have different places. */
uint64_t pccl_plan_place(const struct pccl_plan *plan, uint64_t stripe, uint32_t number);

/* In an all-to-all a rank gets of each sender's parts only the own one: how many elements lie before this segment. */
uint64_t pccl_plan_exchanged_at(const struct pccl_plan *plan, const struct pccl_segment *segment);

/* Where a segment lies in the caller's memory, in bytes, if it lies there at all, and the parts one behind the other.
 */
size_t pccl_plan_input_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
size_t pccl_plan_result_at(const struct pccl_plan *plan, const struct pccl_segment *segment);
/* Of given lengths, by position: the part that this rank gets from a member, if any; and from whom it gets a part. */
uint32_t pccl_plan_part_from(const struct pccl_plan *plan, uint32_t position);
uint32_t pccl_plan_giver(const struct pccl_plan *plan, uint32_t part);

/* Returns true if the links of one member carry data at the same time, so that they share its line. */
bool pccl_plan_shares_lines(const struct pccl_plan *plan);

#endif
