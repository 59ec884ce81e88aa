/* Types and functions shared by the verdicts*.c files, for one comparison. */
#ifndef PCCL_MASTER_VERDICTS_INTERNAL_H
#define PCCL_MASTER_VERDICTS_INTERNAL_H

#include "master/verdicts.h"

enum {
    PCCL_WITNESS_FRESH_US = 3500000, /* maximum age of a report that is compared */
    PCCL_STALLED_LEAST = 300,        /* share of the time, in thousandths, in which a stalled peer was stalled */
};

struct pccl_judgment {
    struct pccl_verdicts *verdicts;
    const struct pccl_memory *memory;
    const struct pccl_witnesses *witnesses;
    uint64_t now_us;
    bool finding; /* true while problems that exist from the start are examined */
};

static inline const struct pccl_witness *pccl_witness_fresh(const struct pccl_judgment *j, uint32_t i)
{
    const struct pccl_witness *witness = i < j->witnesses->count ? j->witnesses->all[i] : NULL;
    bool fresh =
        witness != NULL && witness->received_us != 0 && j->now_us < witness->received_us + PCCL_WITNESS_FRESH_US;
    return fresh ? witness : NULL;
}

/* Returns the share of the latest report's time in which the peer's process was stalled, in thousandths. */
static inline uint32_t pccl_witness_stalled(const struct pccl_witness *witness)
{
    return (uint32_t)(witness->stalled_ms * UINT64_C(1000) / witness->window_ms);
}

/*
 * Returns the usual figures of a link that the latest report contains. New figures replace the figures of a link that
 * is no longer in use.
 */
struct pccl_link_past *pccl_witness_past(struct pccl_witness *witness, const struct pccl_id *peer);

static inline bool pccl_verdicts_is_hang(enum pccl_verdict_class class)
{
    return class == PCCL_VERDICT_NOT_ENTERED || class == PCCL_VERDICT_HANG;
}

/*
 * Records a suspicion (verdicts_suspect.c). `other` is the receiver of a link, or NULL. Returns the suspicion or
 * verdict; NULL if there is no room.
 */
struct pccl_verdict_entry *pccl_verdicts_suspect(struct pccl_judgment *j, enum pccl_verdict_class class,
                                                 const struct pccl_id *peer, const struct pccl_id *other,
                                                 const struct pccl_text *evidence);

/*
 * Finds the cause of hanging operations (verdicts_hang.c). Returns true if one hangs; other figures are then
 * meaningless.
 */
PCCL_MUST_CHECK bool pccl_verdicts_look_for_hangs(struct pccl_judgment *j);
/* Finds stalled peers. Returns false if most are, so that their other figures are meaningless (verdicts_peers.c). */
PCCL_MUST_CHECK bool pccl_verdicts_look_for_stalled_peers(struct pccl_judgment *j);
/* Finds peers that enter operations later than the others (verdicts_peers.c). */
void pccl_verdicts_look_for_late_peers(struct pccl_judgment *j);
/* Finds slow links, senders and receivers (verdicts_slow.c). */
void pccl_verdicts_look_for_slow_links(struct pccl_judgment *j);

/* ---- verdicts_suspect.c ---- */

/* Returns the n-th value in ascending order, and reorders the values. */
uint64_t pccl_verdicts_nth(uint64_t *values, uint32_t count, uint32_t n);
/* Returns true if these other members, whose own reports agree, are at least two and a majority. */
bool pccl_verdicts_are_most(const struct pccl_judgment *j, uint32_t others);
/* Adds a suspicion of a peer. `enough`: this comparison suffices to expel the peer if the verdict persists. */
void pccl_verdicts_suspect_peer(struct pccl_judgment *j, enum pccl_verdict_class class, const struct pccl_id *peer,
                                bool enough, const struct pccl_text *evidence);

#endif
