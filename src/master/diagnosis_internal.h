/* Functions shared by the diagnosis*.c files. */
#ifndef PCCL_MASTER_DIAGNOSIS_INTERNAL_H
#define PCCL_MASTER_DIAGNOSIS_INTERNAL_H

#include "master/diagnosis.h"

/* ---- diagnosis_witnesses.c ---- */

/* Context of a comparison: the group whose reports are compared. */
struct pccl_reported {
    struct pccl_master *m;
    struct pccl_peer_group *group;
};

/* Lists the members in ring order. The ring must not be empty. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_gather_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);
/* Frees the list. Call it even if gathering failed. */
void pccl_master_drop_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);

/* ---- diagnosis_slow_peers.c ---- */

/*
 * Describes in `words` the action taken on a slow peer. Returns false if this verdict can never lead to an expulsion.
 */
PCCL_MUST_CHECK bool pccl_master_describe_slow_peer_action(const struct pccl_master *m,
                                                           const struct pccl_peer_group *group,
                                                           const struct pccl_verdict_entry *entry,
                                                           struct pccl_text *words);
/* Expels the peer that has been slow for the longest time, if that exceeds the limit. Call after a comparison. */
void pccl_master_expel_slow_peer(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- diagnosis_slow_links.c ---- */

/*
 * Starts the search for a better ring if the present one has a slow link, and adopts a better ring that is ready if the
 * change pays off. Call after a comparison.
 */
void pccl_master_leave_slow_links(struct pccl_master *m, struct pccl_peer_group *group);
/* Handles the end of a verdict on a slow link. */
void pccl_master_slow_link_is_over(struct pccl_master *m, struct pccl_peer_group *group,
                                   const struct pccl_verdict_entry *entry);
/* Replaces `words` with a description of the action taken on a slow link. */
void pccl_master_describe_slow_link_action(struct pccl_master *m, struct pccl_peer_group *group,
                                           const struct pccl_verdict_entry *entry, struct pccl_text *words);

#endif
