/*
 * "Who is where": callers who wait for long ask the master for whom, log it, and end what cannot meet.
 */
#ifndef PCCL_PEER_WHERE_H
#define PCCL_PEER_WHERE_H

#include "peer/state.h"

void pccl_peer_ask_where(struct pccl_peer *p, enum pccl_call call, const struct pccl_instance *instance, uint64_t round,
                         uint64_t since_us);
void pccl_peer_take_places(struct pccl_peer *p, const struct pccl_msg_who_is_where *answer);
/* When a call or operation asks first, and then again. */
uint64_t pccl_peer_first_where(const struct pccl_peer *p, uint64_t since_us, uint64_t deadline_us);
uint64_t pccl_peer_next_where(const struct pccl_peer *p);
/* Who has forgotten to update the topology learns it from the newcomer's own words, and from the members'. */
void pccl_peer_tick_admissions(struct pccl_peer *p);
/* A call ended: nobody is waited for any more, unless other calls still wait. */
void pccl_peer_wait_ended(struct pccl_peer *p);

#endif
