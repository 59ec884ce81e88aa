/*
 * Diagnosis: the actions that follow from verdicts. verdicts.h compares the members' reports and finds the cause of a
 * slow or hanging group. This module logs the verdicts and sends them to the members (PROTOCOL 9.8, diagnosis.c), may
 * expel a slow peer for a while (9.11, diagnosis_slow_peers.c), and moves the ring away from a slow link (9.12,
 * diagnosis_slow_links.c).
 */
#ifndef PCCL_MASTER_DIAGNOSIS_H
#define PCCL_MASTER_DIAGNOSIS_H

#include "master/state.h"

/* Records a member's report about its operations (telemetry). */
void pccl_master_telemetry(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sight *telemetry);
/* Schedules the current verdicts, if any, to be sent again. Call when a member joins a running group. */
void pccl_master_show_verdicts(struct pccl_master *m, struct pccl_peer_group *group);
/* Ends the verdicts about a member and frees its reports. Call before the member leaves the ring. */
void pccl_master_forget_witness(struct pccl_master *m, struct pccl_remote *remote);
void pccl_master_drop_verdicts(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage of a step (state.h): compares reports, logs verdicts and sends them to the members. */
void pccl_master_decide_verdicts(struct pccl_master *m);

/* ---- slow peers ---- */

/* Returns false and sets `reason` if this newcomer was expelled as slow and must not rejoin yet. */
PCCL_MUST_CHECK bool pccl_master_may_rejoin(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                            const struct pccl_address *address, uint32_t pass,
                                            struct pccl_text *reason);

/* ---- slow links ---- */

/* Returns true if a topology update would move the ring of some group away from a slow link. */
PCCL_MUST_CHECK bool pccl_master_can_leave_slow_links(struct pccl_master *m);

/*
 * Re-plans: views that change only the ring (PROTOCOL 5.4). Operations under way restart along the new ring instead of
 * failing. A restart sends their data again, so a re-plan must pay off.
 */

/*
 * Returns true if a re-plan is possible now: no view is pending or unacknowledged, and no member has ended an operation
 * that others still run.
 */
PCCL_MUST_CHECK bool pccl_master_may_replan(const struct pccl_master *m, const struct pccl_peer_group *group);
/* Creates the view for a ring that has just changed. Requires pccl_master_may_replan. */
void pccl_master_replan(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_text *why);

#endif
