/*
 * Views: what follows from a new one for the groups that it changes, and what members and newcomers are told of it.
 */
#ifndef PCCL_MASTER_VIEWS_H
#define PCCL_MASTER_VIEWS_H

#include "master/state.h"

/* Gives every changed group the next epoch as its view, with all that follows, and tells all members; added may be
 * NULL. */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
/* The same after a restart: epoch inc.1. Who reported another epoch than law_epoch is told of all members, as all are
 * if some of them are missing. */
void pccl_master_recovery_epoch(struct pccl_master *m, const struct pccl_epoch *law_epoch, uint32_t inc, bool all_here);
/* Tells one member; its group's ring is in it if the group is changed. */
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
/* Tells a newcomer that it is in, and all that a member knows. */
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/* A temporary list for a message: owned by the caller, NULL when memory is short. */
struct pccl_member *pccl_master_member_list(struct pccl_master *m);
struct pccl_member pccl_master_as_member(const struct pccl_remote *remote);

#endif
