/* Counters of the master since its start, for operators (ops/metrics.h). They only rise, and decide nothing. */
#ifndef PCCL_MASTER_TALLY_H
#define PCCL_MASTER_TALLY_H

#include "wire/schema.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PCCL_TALLY_KINDS = PCCL_COLLECTIVES + 1, /* the last: operations without a known descriptor */
    PCCL_TALLY_REASONS = PCCL_REFUSAL_DRAINED + 1,
    PCCL_TALLY_LATENCIES = 7, /* plus one bucket for longer times */
    PCCL_TALLY_SPANS = 60,    /* spans of the last minutes */
    PCCL_TALLY_SPAN_US = 10000000,
    PCCL_TALLY_STEPS = 64, /* latest steps of a training that peers reported */
};

/* Upper bounds of the latency buckets, in microseconds. */
extern const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES];

/* Outcomes within ten seconds. */
struct pccl_span {
    uint64_t committed, aborted, bytes;
};

/* Peers' reports on one step of their training (PROTOCOL 9.9). */
struct pccl_training_step {
    uint64_t step;
    uint32_t count; /* reports with a finite loss */
    double sum, least, most;
};

struct pccl_tally {
    uint64_t came, newcomers;                     /* members admitted; peers that asked for admission */
    uint64_t members_removed[PCCL_TALLY_REASONS]; /* by enum pccl_refusal, like all departures */
    uint64_t newcomers_removed[PCCL_TALLY_REASONS];
    uint64_t refused[PCCL_TALLY_REASONS]; /* connections refused before their hello was accepted */
    uint64_t begun[PCCL_TALLY_KINDS];     /* operations, counted at the first part */
    uint64_t committed[PCCL_TALLY_KINDS], aborted[PCCL_TALLY_KINDS];
    uint64_t bytes[PCCL_TALLY_KINDS]; /* of committed operations */
    uint64_t rounds_done[PCCL_ROUND_KINDS], rounds_failed[PCCL_ROUND_KINDS];
    uint64_t views;
    uint64_t fetches, fetches_failed;        /* fetches by members that lacked shared state */
    uint64_t verdicts[PCCL_VERDICT_CLASSES]; /* by enum pccl_verdict_class */
    uint64_t latency[PCCL_TALLY_LATENCIES + 1], latency_us;
    uint64_t turned_us, span; /* time of the latest turn; number of the newest span, whose index is the remainder */
    struct pccl_span spans[PCCL_TALLY_SPANS];
    uint64_t step_count; /* total; the latest are in a circular buffer */
    struct pccl_training_step steps[PCCL_TALLY_STEPS];
};

/* Counts an outcome now, `took_us` after the first message about the operation. */
void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us,
                        uint64_t now_us);
/* Begins a new span if its time has come. */
void pccl_tally_turn(struct pccl_tally *tally, uint64_t now_us);
/* Counts a training report. Ignores a loss that is not a finite number. */
void pccl_tally_step(struct pccl_tally *tally, uint64_t step, double loss);
uint64_t pccl_tally_sum(const uint64_t *counts, uint32_t count);

#endif
