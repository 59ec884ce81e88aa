/*
 * Counters of the master since its start, for operators (ops/metrics.h). They only increase, and no decision depends on
 * them.
 */
#ifndef PCCL_MASTER_TALLY_H
#define PCCL_MASTER_TALLY_H

#include "wire/schema.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PCCL_TALLY_KINDS = PCCL_COLLECTIVES + 1, /* the last one is for operations without a known descriptor */
    PCCL_TALLY_REASONS = PCCL_REFUSAL_DRAINED + 1,
    PCCL_TALLY_LATENCIES = 7, /* number of bounds; one more bucket counts longer times */
    PCCL_TALLY_SPANS = 60,    /* number of spans kept, which cover ten minutes */
    PCCL_TALLY_SPAN_US = 10000000,
    PCCL_TALLY_STEPS = 64, /* number of recent training steps kept */
};

/* Uses of the time of a member's program (PROTOCOL 9.13). */
enum pccl_time_use {
    PCCL_TIME_COMPUTING,
    PCCL_TIME_WAITING, /* for members that have not entered the operation yet */
    PCCL_TIME_MOVING,  /* in an operation that all have entered */
    PCCL_TIME_LOST,    /* in an operation that did not commit */
    PCCL_TIME_JOINT,   /* in joint calls: updates, synchronizations, optimizations */
    PCCL_TIME_USES
};

extern const char *const pccl_tally_time_uses[PCCL_TIME_USES]; /* "computing" */
/* Upper bounds of the latency buckets, in microseconds. */
extern const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES];

/* Outcomes within one span of ten seconds. */
struct pccl_span {
    uint64_t committed, aborted, bytes;
};

/* Peers' reports on one step of their training (PROTOCOL 9.9). */
struct pccl_training_step {
    uint64_t step;
    uint32_t count; /* number of reports with a finite loss */
    double sum, least, most;
};

struct pccl_tally {
    uint64_t joined, newcomers;                   /* members admitted; peers that requested admission */
    uint64_t members_removed[PCCL_TALLY_REASONS]; /* by enum pccl_refusal, as in the next two arrays */
    uint64_t newcomers_removed[PCCL_TALLY_REASONS];
    uint64_t refused[PCCL_TALLY_REASONS]; /* connections refused before the hello was accepted */
    uint64_t begun[PCCL_TALLY_KINDS];     /* operations, counted when the first part arrives */
    uint64_t committed[PCCL_TALLY_KINDS], aborted[PCCL_TALLY_KINDS];
    uint64_t bytes[PCCL_TALLY_KINDS]; /* payload of committed operations */
    uint64_t rounds_done[PCCL_ROUND_KINDS], rounds_failed[PCCL_ROUND_KINDS];
    uint64_t views;
    uint64_t time_us[PCCL_TIME_USES];        /* of all members together, by enum pccl_time_use */
    uint64_t fetches, fetches_failed;        /* fetches of missing shared state */
    uint64_t verdicts[PCCL_VERDICT_CLASSES]; /* by enum pccl_verdict_class */
    uint64_t latency[PCCL_TALLY_LATENCIES + 1], latency_us;
    /* time of the latest turn; number of the newest span, whose index is its number modulo PCCL_TALLY_SPANS */
    uint64_t turned_us, span;
    struct pccl_span spans[PCCL_TALLY_SPANS];
    uint64_t step_count; /* total number; the latest are in the circular buffer */
    struct pccl_training_step steps[PCCL_TALLY_STEPS];
};

/* Counts an outcome now, `took_us` after the first message about the operation. */
void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us,
                        uint64_t now_us);
/* Begins the spans that are due. */
void pccl_tally_turn(struct pccl_tally *tally, uint64_t now_us);
/* Counts a training report. Ignores a loss that is not a finite number. */
void pccl_tally_step(struct pccl_tally *tally, uint64_t step, double loss);
uint64_t pccl_tally_sum(const uint64_t *counts, uint32_t count);

#endif
