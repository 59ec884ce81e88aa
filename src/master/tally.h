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
    PCCL_TALLY_REASONS = PCCL_REFUSAL_STATE + 1,
    PCCL_TALLY_LATENCIES = 7, /* and one more, for what took longer */
};

/* The upper bounds, in microseconds. */
extern const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES];

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
    uint64_t fetches, fetches_failed; /* of members that lacked shared state */
    uint64_t latency[PCCL_TALLY_LATENCIES + 1], latency_us;
};

/* It was committed, or aborted, so long after the first word of it. */
void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us);
uint64_t pccl_tally_sum(const uint64_t *counts, uint32_t count);

#endif
