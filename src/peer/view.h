/*
 * The master's views, and the welcome with the first one: who is in the run, and the ring of the
 * group.
 */
#ifndef PCCL_PEER_VIEW_H
#define PCCL_PEER_VIEW_H

#include "peer/state.h"

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome);
/*
 * A new epoch. If it is a new view of this group, it decides what was launched before it, and links
 * and departures follow from it.
 */
void pccl_peer_epoch_change(struct pccl_peer *p, const struct pccl_msg_epoch_change *change);

#endif
