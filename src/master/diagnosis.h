/*
 * The room of diagnosis: what follows from verdicts.h, which compares what members report and finds who or what slows a
 * group, or holds it up. The verdicts are logged and told (PROTOCOL 9.8, diagnosis.c). A slow peer may be expelled, and
 * stays out for a while (9.11, diagnosis_slow_peers.c). The ring leaves a slow link (9.12, diagnosis_slow_links.c).
 */
#ifndef PCCL_MASTER_DIAGNOSIS_H
#define PCCL_MASTER_DIAGNOSIS_H

#include "master/state.h"

/* A member reports what its operations showed. */
void pccl_master_sight(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sight *sight);
/* A member has joined a running group: sends the verdicts again, if there are any. */
void pccl_master_show_verdicts(struct pccl_master *m, struct pccl_peer_group *group);
/* Before a member leaves the ring: ends the verdicts about it and frees its reports. */
void pccl_master_forget_witness(struct pccl_master *m, struct pccl_remote *remote);
void pccl_master_drop_verdicts(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage: compares reports, logs and tells. */
void pccl_master_decide_verdicts(struct pccl_master *m);

/* ---- slow peers ---- */

/* false: this newcomer has to stay out, as the reason says. */
PCCL_MUST_CHECK bool pccl_master_may_come_again(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                                const struct pccl_address *address, uint32_t pass,
                                                struct pccl_text *reason);

/* ---- slow links ---- */

/* An update would free the ring of some group from a slow link. */
PCCL_MUST_CHECK bool pccl_master_slow_links_can_go(struct pccl_master *m);

/*
 * Views that only re-plan (PROTOCOL 5.4): the ring changes while operations are under way, which then begin again along
 * the other one. Nobody fails for it, but what has been moved is moved once more, so it has to pay.
 */

/* No other view is known to come, or not known to all, and nobody has ended what others have under way. */
PCCL_MUST_CHECK bool pccl_master_may_replan(const struct pccl_master *m, const struct pccl_peer_group *group);
/* The group's ring has just changed, as it may: makes the view. */
void pccl_master_replan(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_text *why);

#endif
