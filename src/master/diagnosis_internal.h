/* What the files of the room of diagnosis share: the actions after a comparison. */
#ifndef PCCL_MASTER_DIAGNOSIS_INTERNAL_H
#define PCCL_MASTER_DIAGNOSIS_INTERNAL_H

#include "master/diagnosis.h"

/* ---- diagnosis_witnesses.c: the members of a group whose reports are compared ---- */

/* The group, for the time of a comparison. */
struct pccl_reported {
    struct pccl_master *m;
    struct pccl_peer_group *group;
};

/* Lists the members in the order of the ring, of which there is one at least. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_gather_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);
/* Frees the list, also after a failure. */
void pccl_master_drop_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);

/* ---- diagnosis_slow_peers.c ---- */

/* What is done about it, in words. Replaces the text. false: it is not a verdict that may cost a peer its membership.
 */
PCCL_MUST_CHECK bool pccl_master_say_what_slow_peers_get(const struct pccl_master *m,
                                                         const struct pccl_peer_group *group,
                                                         const struct pccl_verdict_entry *entry,
                                                         struct pccl_text *words);
/* Expels a peer that has been slow for too long, at most one of a group within the limit. Call after a comparison. */
void pccl_master_expel_slow_peer(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- diagnosis_slow_links.c ---- */

/* The verdicts have just been looked at: has a better ring searched for, if a link of this one is slow; takes it if it
 * pays. */
void pccl_master_leave_slow_links(struct pccl_master *m, struct pccl_peer_group *group);
/* A verdict has ended. */
void pccl_master_slow_link_is_over(struct pccl_master *m, struct pccl_peer_group *group,
                                   const struct pccl_verdict_entry *entry);
/* What is done about it, in words. Replaces the text. */
void pccl_master_say_what_slow_links_get(struct pccl_master *m, struct pccl_peer_group *group,
                                         const struct pccl_verdict_entry *entry, struct pccl_text *words);

#endif
