/*
 * Edges: what peers reported of links that are not as they should be, what that proves, and when it is decided.
 */
#ifndef PCCL_MASTER_EDGES_H
#define PCCL_MASTER_EDGES_H

#include "master/state.h"

/* NULL: nothing was reported. */
struct pccl_edge *pccl_master_find_edge(const struct pccl_master *m, const struct pccl_id *from,
                                        const struct pccl_id *to, bool incoming);
/* Keeps what a peer says of a link. */
void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to, bool incoming,
                           enum pccl_link_end how);
void pccl_master_forget_edges(struct pccl_master *m, const struct pccl_remote *gone);
/* Whether the dial got no answer or one from another process, or could not be made: more than a link that ended. */
bool pccl_master_is_failed_dialing(bool incoming, enum pccl_link_end how);
/* A link that ended so shows that the process is gone; strict: one that had to be dialed. */
bool pccl_master_is_evidence(enum pccl_link_end how, bool strict);
/*
 * Returns the number of members, at most 2, that have reported within the silence limit that this peer's process is
 * gone. strict: only those that dialed it count. alone: set to the member if there is exactly one; may be NULL.
 */
uint32_t pccl_master_count_witnesses(const struct pccl_master *m, const struct pccl_id *id, bool strict,
                                     const struct pccl_id **alone);
/* Its control connection stands, and something has come over it since. */
bool pccl_master_was_heard_since(const struct pccl_remote *remote, uint64_t since_us);
/* Both ends, if they are members of one group that need this link; else false. */
bool pccl_master_ends_of(const struct pccl_master *m, const struct pccl_edge *edge, struct pccl_remote **from,
                         struct pccl_remote **to);
/* When what is to become of the last failed link of this peer that its group needs is decided; 0: none has failed. */
uint64_t pccl_master_link_decided_at(struct pccl_master *m, const struct pccl_id *peer);

#endif
