/*
 * The commands of operators: remove a peer, at once or with the next update, and search for better rings. The driver
 * has checked that the operator may give them. A peer asks for its own drain by its votes.
 */
#ifndef PCCL_MASTER_COMMANDS_H
#define PCCL_MASTER_COMMANDS_H

#include "master/state.h"

/* Does it, or says why not (event->said). */
void pccl_master_command(struct pccl_master *m, const struct pccl_master_event *event);
/* Notes that a vote of this member asks for its drain. */
void pccl_master_note_drain(struct pccl_master *m, struct pccl_remote *remote);
/* Returns true if a member waits for an update to go. */
bool pccl_master_has_drained(const struct pccl_master *m);
/* An update is about to be decided, so nothing is under way: members that are drained go now. */
void pccl_master_remove_drained(struct pccl_master *m);

#endif
