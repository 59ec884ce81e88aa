/*
 * Recovery: a restarted master collects the reports of members of an older boot and continues their run (PROTOCOL 12).
 *
 *   reports  each is stored as received (recovery_reports.c)
 *   winner   the report of the highest epoch, the winning epoch, is binding (recovery_winner.c)
 *   judging  contradicting members are removed; ends when the reports suffice or time is up (recovery.c)
 *   rebuild  groups, rounds and operations are restored from the reports (recovery_rebuild.c)
 */
#ifndef PCCL_MASTER_RECOVERY_H
#define PCCL_MASTER_RECOVERY_H

#include "master/state.h"

/* Begins to collect the reports of members of the run with this key. Returns false if out of memory. */
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key);
/* Stage of a step (state.h): continues the run once all expected members have reported or time is up. */
void pccl_master_decide_recovery(struct pccl_master *m);
/* Returns true if newcomers wait and no member of the run has completed a report in time. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m);
/* Handles a message from a resuming member, which must be the next part of its report. */
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);
/* Returns true if this peer's report is of the winning epoch and lists the peer and `of` as members of one group. */
bool pccl_master_is_winning_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                     const struct pccl_id *of);

#endif
