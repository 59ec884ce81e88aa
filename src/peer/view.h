/* Views from the master, beginning with the welcome: the members of the run, and the ring of the group. */
#ifndef PCCL_PEER_VIEW_H
#define PCCL_PEER_VIEW_H

#include "peer/state.h"

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome);
/*
 * Handles a new epoch. A new view of this group decides or restarts the operations that were launched before it, and
 * updates links and departures.
 */
void pccl_peer_epoch_change(struct pccl_peer *p, const struct pccl_msg_epoch_change *change);

#endif
