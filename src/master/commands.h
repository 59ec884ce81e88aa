/*
 * Operator commands: remove a peer, at once or with the next topology update, and search for better rings. The driver
 * has checked the operator's permission. A peer can also request its own drain in a vote.
 */
#ifndef PCCL_MASTER_COMMANDS_H
#define PCCL_MASTER_COMMANDS_H

#include "master/state.h"

/* Executes the command. Writes the result and a sentence into event->result. */
void pccl_master_command(struct pccl_master *m, const struct pccl_master_event *event);
/* Records that this member's vote requests its drain. */
void pccl_master_note_drain(struct pccl_master *m, struct pccl_remote *remote);
/* Returns true if a draining member waits for a topology update. */
bool pccl_master_has_drained(const struct pccl_master *m);
/* Removes the draining members. Call just before a topology update is decided. */
void pccl_master_remove_drained(struct pccl_master *m);

#endif
