/*
 * Views: what follows from a new one for the groups that it changes, and what members and newcomers
 * are told.
 */
#ifndef PCCL_MASTER_VIEWS_H
#define PCCL_MASTER_VIEWS_H

#include "master/state.h"

/*
 * Makes the next epoch the view of every changed group, does everything that follows from it, and
 * tells all members. added may be NULL.
 */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
/*
 * The same after a restart, with epoch (inc, 1). Members that reported another epoch than law_epoch
 * are told the whole member list; so are all members unless all_here.
 */
void pccl_master_recovery_epoch(struct pccl_master *m, const struct pccl_epoch *law_epoch, uint32_t inc, bool all_here);
/* Tells one member; if its group has changed, with the ring. */
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
/* Tells a newcomer that it is admitted, and everything that a member knows. */
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/* All members, for a message; owned by the caller. NULL: out of memory. */
struct pccl_member *pccl_master_member_list(struct pccl_master *m);
struct pccl_member pccl_master_as_member(const struct pccl_remote *remote);

/* ---- the cost data of the links of a view ---- */

/* For a new view: what the master knows of its links at this moment. */
void pccl_master_decide_cost(const struct pccl_master *m, struct pccl_peer_group *group);
/*
 * Marks the groups (changed) whose cost data are not what the view says any more: they could exchange directly by now
 * and do not, a hub is none any more, or a figure has moved (wire/cost.h). Returns how many, and if any, why.
 */
uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why);

#endif
