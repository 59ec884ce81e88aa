/*
 * Hubs: in a group too large for a mesh, the members to which, or from which, all others hold links, since operations
 * of all members have asked for them (PROTOCOL 7.13).
 */
#ifndef PCCL_MASTER_HUBS_H
#define PCCL_MASTER_HUBS_H

#include "master/state.h"

/* It is committed: the links over which it could have gone directly are wanted, and asked for. */
void pccl_master_note_direct_use(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_operation *op);
/* An update is decided: who has not been used as a hub for long is none any more. */
void pccl_master_age_hubs(struct pccl_master *m);
/* Fills in the hubs of the group as they are now; none, if it is too large for them, or too small. */
void pccl_master_list_hubs(const struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_cost *cost);
/* Is one of the two a hub now, to which the other one holds this link? The view may not know yet. */
bool pccl_master_is_link_of_hub(const struct pccl_master *m, const struct pccl_remote *from,
                                const struct pccl_remote *to);
/* Asks for the links of the group's hubs that are not asked for yet. */
void pccl_master_request_hub_links(struct pccl_master *m, struct pccl_peer_group *group);
/* This link of hubs has failed: they are none any more, and not again for a while. */
void pccl_master_bar_hubs(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* The same, if no view has said that it stands: nobody relies on it yet. */
void pccl_master_give_up_asked_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* After a restart: those that the view of the group has, whose members are all here. */
void pccl_master_take_over_hubs(struct pccl_peer_group *group);

#endif
