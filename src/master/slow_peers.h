/*
 * What is done about slow peers (PROTOCOL 9.11): nothing but words, or, if the master is told so, whoever has been
 * slow for too long goes, and stays out for a while.
 */
#ifndef PCCL_MASTER_SLOW_PEERS_H
#define PCCL_MASTER_SLOW_PEERS_H

#include "master/state.h"

/* Is it a verdict that may cost a peer its membership? */
bool pccl_master_is_of_slow_peer(const struct pccl_verdict_entry *entry);
/* What is done about it, in words. Replaces the text. */
void pccl_master_say_what_slow_peers_get(const struct pccl_master *m, const struct pccl_peer_group *group,
                                         const struct pccl_verdict_entry *entry, struct pccl_text *words);
/* Expels a peer that has been slow for too long, at most one of a group within the limit. Call after a comparison. */
void pccl_master_expel_slow_peer(struct pccl_master *m, struct pccl_peer_group *group);
/* false: this newcomer has to stay out, as the reason says. */
PCCL_MUST_CHECK bool pccl_master_may_come_again(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                                const struct pccl_address *address, uint32_t pass,
                                                struct pccl_text *reason);

#endif
