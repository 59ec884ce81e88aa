/*
 * What is done about slow links (PROTOCOL 9.12): the ring leaves them at the next quiet round, if there is a better
 * one, and members are told that such a round is worth it.
 */
#ifndef PCCL_MASTER_SLOW_LINKS_H
#define PCCL_MASTER_SLOW_LINKS_H

#include "master/state.h"

/* The verdicts have just been looked at: has a better ring searched for, if a link of this one is slow. */
void pccl_master_leave_slow_links(struct pccl_master *m, struct pccl_peer_group *group);
/* A verdict has ended. */
void pccl_master_slow_link_is_over(struct pccl_master *m, struct pccl_peer_group *group,
                                   const struct pccl_verdict_entry *entry);
/* An update would free the ring of some group from a slow link. */
PCCL_MUST_CHECK bool pccl_master_slow_links_can_go(struct pccl_master *m);
/* What is done about it, in words. Replaces the text. */
void pccl_master_say_what_slow_links_get(struct pccl_master *m, struct pccl_peer_group *group,
                                         const struct pccl_verdict_entry *entry, struct pccl_text *words);

#endif
