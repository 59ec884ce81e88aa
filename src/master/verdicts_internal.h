/* Types and functions shared by the verdicts*.c files, for one comparison. */
#ifndef PCCL_MASTER_VERDICTS_INTERNAL_H
#define PCCL_MASTER_VERDICTS_INTERNAL_H

#include "master/verdicts.h"

enum { PCCL_WITNESS_FRESH_US = 3500000 }; /* maximum age of a report that is compared */

struct pccl_judgment {
    struct pccl_verdicts *verdicts;
    const struct pccl_memory *memory;
    const struct pccl_witnesses *witnesses;
    uint64_t now_us;
};

static inline const struct pccl_witness *pccl_witness_fresh(const struct pccl_judgment *j, uint32_t i)
{
    const struct pccl_witness *witness = i < j->witnesses->count ? j->witnesses->all[i] : NULL;
    bool fresh =
        witness != NULL && witness->received_us != 0 && j->now_us < witness->received_us + PCCL_WITNESS_FRESH_US;
    return fresh ? witness : NULL;
}

static inline const struct pccl_witness_window *pccl_witness_latest(const struct pccl_witness *witness)
{
    return &witness->windows[(witness->count - 1) % PCCL_WITNESS_WINDOWS];
}

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
/* Find slow peers and slow links (verdicts_slow.c). */
void pccl_verdicts_look_for_slow_peers(struct pccl_judgment *j);
void pccl_verdicts_look_for_slow_links(struct pccl_judgment *j);

#endif
