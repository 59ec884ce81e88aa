/*
 * How one all-reduce is carried out: algorithm, and how the elements are cut. Pure arithmetic on what all members of a
 * view agree on, so every peer makes the same plan without asking.
 *
 * The elements are cut into groups of `ranks` segments (at most segment_elements each; the last group's are shorter and
 * of almost equal length, and may be empty: what would be empty is not sent). Each group is a whole small all-reduce,
 * and a window of groups is in flight.
 *
 * RING     Segment p of a group is folded along the ring from rank p to rank p - 1, which finishes it (divides,
 * encodes) and sends it round. Steps 0 .. 2(ranks - 1) - 1: in step s rank r sends segment r - s while s < ranks - 1,
 *          and segment r + 1 - (s - (ranks - 1)) after that, to rank r + 1. (All modulo ranks.)
 * DIRECT   Step 0: everybody sends its part of segment p to rank p - 1, which folds all parts in the order p, p + 1 ...
 *          Step 1: it sends the result to everybody. So both give the same bits.
 * Elements of f16 and bf16 are folded in f32 and rounded when that is finished: along the ring, what is folded so far
 * travels as f32 where it would have to be rounded otherwise.
 * With a codec all that travels is packed: a part, or the sum so far, by whoever sends it; the result once, by the rank
 * that finishes it, which unpacks it again as all the others do. DIRECT adds unpacked parts two by two.
 */
#ifndef PCCL_COLLECTIVE_PLAN_H
#define PCCL_COLLECTIVE_PLAN_H

#include "core/base.h"
#include "core/status.h"
#include "core/text.h"
#include "kernels/codec.h"
#include "wire/wire.h"

enum pccl_algorithm { PCCL_RING, PCCL_DIRECT };

struct pccl_plan {
    enum pccl_algorithm algorithm;
    uint32_t ranks, rank;
    enum pccl_datatype datatype;
    enum pccl_reduction reduction;
    enum pccl_datatype folded_datatype;    /* of what is folded so far */
    const struct pccl_codec *codec;        /* NULL: elements travel as they are */
    const struct pccl_codec *folded_codec; /* of what is folded so far: as many bytes */
    uint32_t element_bytes;
    uint64_t count;
    bool long_path;            /* the way to the neighbours takes longer than moving some segments */
    bool large;                /* more than the caches hold, so what is not needed soon may go past them */
    uint32_t segment_elements; /* of a whole segment */
    uint64_t groups;           /* >= 1 */
};

/* ARGUMENT with words: a descriptor that no caller can have made. ranks >= 2; descriptor->count > 0. */
PCCL_MUST_CHECK enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                uint32_t ranks, uint32_t rank, struct pccl_plan *plan,
                                                struct pccl_text *words);

struct pccl_segment {
    uint64_t first; /* element */
    uint32_t count; /* may be 0 */
};
struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t group, uint32_t number);
/* How many of a group's segments are not empty: its first ones. */
uint32_t pccl_plan_segments(const struct pccl_plan *plan, uint64_t group);
uint32_t pccl_plan_steps(const struct pccl_plan *plan);
/* In this step travels what is folded so far, and it is longer than elements: f32 for f16 or bf16. */
bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step);
/* What travels in this step for so many elements: they, their packed form, or what is folded so far. */
size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count);
/* The same in the step in which most travels. */
size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count);
/* Ranks this rank sends to and receives from; the ring has one of each, direct exchange all the others. */
bool pccl_plan_sends_to(const struct pccl_plan *plan, uint32_t other);
bool pccl_plan_receives_from(const struct pccl_plan *plan, uint32_t other);
/* Which segment of its group the message (step) from `sender` to `receiver` carries; both ranks. false: no such
 * message. */
PCCL_MUST_CHECK bool pccl_plan_message(const struct pccl_plan *plan, uint32_t sender, uint32_t receiver, uint32_t step,
                                       uint32_t *number);

#endif
