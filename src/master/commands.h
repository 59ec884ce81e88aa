/*
 * What an operator may ask of a master: that a peer goes, at once or when nobody loses anything by it, and that better
 * rings are looked for. Whoever asks has shown the driver that it may.
 */
#ifndef PCCL_MASTER_COMMANDS_H
#define PCCL_MASTER_COMMANDS_H

#include "master/state.h"

/* Does it, or says why not (event->said). */
void pccl_master_command(struct pccl_master *m, const struct pccl_master_event *event);
/* An update is about to be decided, so nothing is under way: members that are drained go now. */
void pccl_master_remove_drained(struct pccl_master *m);

#endif
