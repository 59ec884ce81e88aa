/*
 * Receives from any peer (PROTOCOL 16.6). Only this peer chooses the sender: one of the sends to it that it knows of
 * and that are the next ones of their pairs. From then on the receive is an ordinary one.
 */
#ifndef PCCL_PEER_RECEIVES_H
#define PCCL_PEER_RECEIVES_H

#include "peer/state.h"

/* From the master: offers a tiny send to this peer. */
void pccl_peer_offered(struct pccl_peer *p, const struct pccl_msg_offer *offer);
/*
 * To be called at the end of a step with news or a new receive (state.h). Chooses senders for open receives, and asks
 * for more offers.
 */
void pccl_peer_choose_senders(struct pccl_peer *p);
/* Frees the asks, when the master that was asked is gone or the machine is destroyed. */
void pccl_peer_forget_requests(struct pccl_peer *p);

#endif
