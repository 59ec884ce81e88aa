/*
 * Receives from anybody (PROTOCOL 16.6). This peer alone chooses: one of the sends to it that it has
 * been told of, and that are the next ones of their pairs. From then on it is a receive like any other.
 */
#ifndef PCCL_PEER_RECEIVES_H
#define PCCL_PEER_RECEIVES_H

#include "peer/state.h"

/* From the master: a tiny send to this peer. */
void pccl_peer_offered(struct pccl_peer *p, const struct pccl_msg_offer *offer);
/* At the end of a step with news or a new receive (state.h): chooses for open receives, and asks for more offers. */
void pccl_peer_choose_senders(struct pccl_peer *p);
/* The master that was asked is gone, or this machine. */
void pccl_peer_forget_asks(struct pccl_peer *p);

#endif
