/*
 * Receives from any peer (PROTOCOL 16.6). This peer alone chooses the sender, from the known sends to this peer that
 * are next in their pairs. After that, the receive is an ordinary one.
 */
#ifndef PCCL_PEER_RECEIVES_H
#define PCCL_PEER_RECEIVES_H

#include "peer/state.h"

/* Handles the master's offer of a tiny send to this peer. */
void pccl_peer_offered(struct pccl_peer *p, const struct pccl_msg_offer *offer);
/*
 * Handles the opening or the loss of the link from this peer. Without that link, only the master can inform a bulk
 * receive that the send is tiny.
 */
void pccl_peer_link_from_changed(struct pccl_peer *p, const struct pccl_id *source);
/*
 * Chooses senders for open receives, and requests more offers. Call at the end of a step with news or a new receive
 * (state.h).
 */
void pccl_peer_choose_senders(struct pccl_peer *p);
/* Frees the requests. Call when the master that received them is gone or the machine is destroyed. */
void pccl_peer_forget_requests(struct pccl_peer *p);

#endif
