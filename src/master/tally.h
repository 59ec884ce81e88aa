/*
 * What the master counts, since it began, for those who watch it (metrics.h). Counters only rise; nothing is decided
 * by them.
 */
#ifndef PCCL_MASTER_TALLY_H
#define PCCL_MASTER_TALLY_H

#include "wire/schema.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PCCL_TALLY_KINDS = PCCL_COLLECTIVES + 1, /* the last: operations of which nobody said what they are */
    PCCL_TALLY_REASONS = PCCL_REFUSAL_DRAINED + 1,
    PCCL_TALLY_LATENCIES = 7, /* and one more, for what took longer */
    PCCL_TALLY_SPANS = 60,    /* of the last minutes */
    PCCL_TALLY_SPAN_US = 10000000,
    PCCL_TALLY_STEPS = 64, /* of a training, the latest that peers told of */
};

/* The upper bounds, in microseconds. */
extern const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES];

/* The outcomes of ten seconds. */
struct pccl_span {
    uint64_t committed, aborted, bytes;
};

/* What peers told of a step of their training (PROTOCOL 9.9). */
struct pccl_told_step {
    uint64_t step;
    uint32_t count; /* of those with a loss that is a number */
    double sum, least, most;
};

struct pccl_tally {
    uint64_t came, newcomers;                  /* members; peers that asked for admission */
    uint64_t members_gone[PCCL_TALLY_REASONS]; /* by enum pccl_refusal, as all that go */
    uint64_t newcomers_gone[PCCL_TALLY_REASONS];
    uint64_t refused[PCCL_TALLY_REASONS]; /* connections, before their hello was accepted */
    uint64_t begun[PCCL_TALLY_KINDS];     /* operations, when the first part of them is known */
    uint64_t committed[PCCL_TALLY_KINDS], aborted[PCCL_TALLY_KINDS];
    uint64_t bytes[PCCL_TALLY_KINDS]; /* of committed operations */
    uint64_t rounds_done[PCCL_ROUND_KINDS], rounds_failed[PCCL_ROUND_KINDS];
    uint64_t views;
    uint64_t fetches, fetches_failed;        /* of members that lacked shared state */
    uint64_t verdicts[PCCL_VERDICT_CLASSES]; /* by enum pccl_verdict_class */
    uint64_t latency[PCCL_TALLY_LATENCIES + 1], latency_us;
    uint64_t turned_us, span; /* as of when; the number of the newest, whose place is its remainder */
    struct pccl_span spans[PCCL_TALLY_SPANS];
    uint64_t step_count; /* ever; the latest are in a circular buffer */
    struct pccl_told_step steps[PCCL_TALLY_STEPS];
};

/* It was committed, or aborted, now and so long after the first word of it. */
void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us,
                        uint64_t now_us);
/* Begins the span of now, if that is a new one. */
void pccl_tally_turn(struct pccl_tally *tally, uint64_t now_us);
/* A peer tells of a step. A loss that is no number does not count. */
void pccl_tally_step(struct pccl_tally *tally, uint64_t step, double loss);
uint64_t pccl_tally_sum(const uint64_t *counts, uint32_t count);

#endif
