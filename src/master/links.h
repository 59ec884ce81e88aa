/*
 * Links between peers as the master knows them: who is to hold one to whom, which stand, which have failed, and what
 * that is evidence of.
 */
#ifndef PCCL_MASTER_LINKS_H
#define PCCL_MASTER_LINKS_H

#include "master/state.h"

/* ---- who is to hold a link to whom ---- */

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone);
/* Asks for those that the view wants: its ring's, its mesh's or its hubs'. Other members are not wanted any more. */
void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group);
/* The links of the rings to come: a new view has dropped what is not of the present ones. */
void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group);
/* Nothing happens if it is asked for already. */
void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* One subgroup more, or less, relies on this link: it is asked for, or wanted no more. */
void pccl_master_count_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool more);

/* ---- membership_costs.c: the cost data of their links for a view ---- */

/* For a new view: what the master knows of its links at this moment. */
void pccl_master_decide_cost(const struct pccl_master *m, struct pccl_peer_group *group);
/*
 * Marks the groups (changed) whose cost data are not what the view says any more: they could exchange directly by now
 * and do not, a hub is none any more, or a figure has moved (wire/cost.h). Returns how many, and if any, why.
 */
uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why);

/* ---- what peers report ---- */

/* Evidence of a death, of an edge between living peers that fails, or of a newcomer that is not warm. */
void pccl_master_link_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost);
/* It stands, or a figure of it has moved. What it was evidence of is taken back. */
void pccl_master_link_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_up *up);
/* Its control connection broke. It departs if others have seen its process gone; else the master looks for itself. */
void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the master's own dials ---- */

/* Dials its port. If that is under way, once more afterward. */
void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote);
/* What a dial has shown (PROBED). */
void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event);
/* Its control connection is lost: dials its port once more, if that is due. */
void pccl_master_probe_if_due(struct pccl_master *m, struct pccl_remote *remote);

/* ---- links_avoided.c: rings without them ---- */

/* This link has failed: gives the group a ring without it, which `why` says. false: no such ring exists. */
PCCL_MUST_CHECK bool pccl_master_avoid_link(struct pccl_master *m, const struct pccl_remote *from,
                                            const struct pccl_remote *to, struct pccl_text *why);
/* A ring without the edges that fail now, if there is one. */
void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_peer_group *group);
/* Of rates between members by their numbers: what is known as bad, and does not stand, has none. false: no memory. */
PCCL_MUST_CHECK bool pccl_master_exclude_bad_links(struct pccl_master *m, const struct pccl_peer_group *group,
                                                   uint64_t *rates);
/* Counts the bad links of two members of one group. Zero without memory. */
void pccl_master_count_bad_links(struct pccl_master *m, const struct pccl_remote *one, const struct pccl_remote *other,
                                 uint32_t *of_one, uint32_t *of_other);

/* ---- links_failed.c: edges that fail between the living ---- */

/* Stage: those that were not mended in time: another ring, or one of the two ends goes (PROTOCOL 9.4). */
void pccl_master_decide_failed_links(struct pccl_master *m);

#endif
