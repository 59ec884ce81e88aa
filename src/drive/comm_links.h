/* Links to other peers: dialing, accepting, pools. Under the lock; what needs the loop is noted, and done by settle. */
#ifndef PCCL_DRIVE_COMM_LINKS_H
#define PCCL_DRIVE_COMM_LINKS_H

#include "drive/communicator.h"

/* How many connections are worth while over a path: a long one needs several to fill it. */
uint32_t pccl_comm_pool_size(const struct pcclComm_t *comm, uint32_t rtt_us);
/* The engine's event: a connection is over. Under the lock, on the engine's thread. */
void pccl_comm_link_ended(struct pcclComm_t *comm, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                          enum pccl_link_end how, bool purposely);
/* On the loop: dials and closes as was noted. */
void pccl_comm_links_settle(struct pcclComm_t *comm);
/* Notes that all are to be closed; the next settle does it. */
void pccl_comm_links_close_all(struct pcclComm_t *comm);
/* The listener has somebody, who says hello first. */
void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection);
extern const struct pccl_connection_events pccl_comm_link_events;
/* Effects of the machine. */
void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                const struct pccl_address *candidates, uint32_t count);
void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming);

#endif
