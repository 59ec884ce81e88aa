/*
 * The room of recovery: a master that was started again, what members of an older boot report, and how the run goes on
 * from that (PROTOCOL 12).
 *
 *   reports  each is kept as it came (recovery_reports.c)
 *   law      the report of the highest epoch (recovery_law.c)
 *   judging  who contradicts the others is removed; the reports suffice, or time is up (recovery.c)
 *   rebuild  groups, rounds and operations as the reports have them (recovery_rebuild.c)
 */
#ifndef PCCL_MASTER_RECOVERY_H
#define PCCL_MASTER_RECOVERY_H

#include "master/state.h"

/* Members of the run with this key come back: the master collects what they know. false: out of memory. */
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key);
/* Stage: goes on with the run if all that can be expected have reported, or time is up. */
void pccl_master_decide_recovery(struct pccl_master *m);
/* Newcomers wait, and nobody of the run has come to the end of a report, though all had the time for it. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m);
/* A message of a member that has not finished its report. */
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);
/* This peer's report is of the highest epoch, which has it, and `of`, as members of one group. */
bool pccl_master_is_law_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_id *of);

#endif
