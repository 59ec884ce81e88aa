/* Functions shared by the recovery*.c files. */
#ifndef PCCL_MASTER_RECOVERY_INTERNAL_H
#define PCCL_MASTER_RECOVERY_INTERNAL_H

#include "master/recovery.h"

/*
 * Upper limit of the random number that a recovery adds to inc. Two recoveries may not know of each other, for example
 * if the members of the second missed the first. They must not create the same epoch with different contents, because
 * one must be higher if their members meet again.
 */
enum { PCCL_INC_SPREAD = 1 << 16 };

/* ---- recovery_winner.c: contents of reports, and the winning epoch ---- */

/* Returns true if the peer's report is complete and it is not departing. */
bool pccl_master_has_reported(const struct pccl_remote *remote);
/* Returns the highest inc in this report. The answer of a round may have a later epoch than the sender. */
uint32_t pccl_master_highest_inc(const struct pccl_report *report);
/* Returns the entry of this member in the report; NULL if the report does not list it. */
const struct pccl_member *pccl_master_reported_member(const struct pccl_report *report, const struct pccl_id *id);
/* Returns the peer with the report of the highest epoch; NULL if there is no report. */
struct pccl_remote *pccl_master_highest_report(const struct pccl_master *m);

/* ---- recovery_rebuild.c ---- */

/* Continues the run from this report and the reports that agree with it. */
void pccl_master_conclude_recovery(struct pccl_master *m, struct pccl_report *winner);

#endif
