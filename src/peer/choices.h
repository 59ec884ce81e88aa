/*
 * What the codec of a tag's next use is, where it is an automatic one (PROTOCOL 7.12). Members of a
 * view know the same: it follows from the outcomes that they were told since the view in which the
 * latest of them came, and from the cost data.
 */
#ifndef PCCL_PEER_CHOICES_H
#define PCCL_PEER_CHOICES_H

#include "peer/state.h"

/*
 * Before a launch with this choice: there is a place to keep what its outcome will tell. LIMIT: of
 * too many tags; MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_need_choice(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/* It is launched: how long after the outcome of the tag's use before; 0: unknown, as after another such launch. */
uint32_t pccl_peer_take_gap(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/* The operation is committed, and this is told for the next use of its tag. */
void pccl_peer_keep_choice(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_choice *next);
/* A subgroup has ended; or the whole group (0) has newcomers, who know nothing, or the master was restarted. */
void pccl_peer_forget_choices_of(struct pccl_peer *p, uint64_t subgroup);
/* An era has ended: those that were not used for long. */
void pccl_peer_forget_old_choices(struct pccl_peer *p);
/* The machine is destroyed. */
void pccl_peer_free_choices(struct pccl_peer *p);

#endif
