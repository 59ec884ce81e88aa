/* Shared by the files of recovery. */
#ifndef PCCL_MASTER_RECOVERY_INTERNAL_H
#define PCCL_MASTER_RECOVERY_INTERNAL_H

#include "master/recovery.h"

/*
 * Upper limit of the random step of inc at a recovery. Two recoveries that do not know of each other (the second with
 * members that slept through the first, after T_alone) must not make the same epoch with different contents: when both
 * meet again, one must be higher.
 */
enum { PCCL_INC_SPREAD = 1 << 16 };

/* ---- recovery_winner.c: contents of reports, and the winning epoch ---- */

/* Returns true if its report is complete and it is not departing. */
bool pccl_master_has_reported(const struct pccl_remote *remote);
/* Returns the highest inc of this report. An answered round may be of a later epoch than its sender knows. */
uint32_t pccl_master_highest_inc(const struct pccl_report *report);
/* Returns a member as this report lists it; NULL if it does not. */
const struct pccl_member *pccl_master_reported_member(const struct pccl_report *report, const struct pccl_id *id);
/* Returns the peer with the report of the highest epoch; NULL if there is no report. */
struct pccl_remote *pccl_master_highest_report(const struct pccl_master *m);

/* ---- recovery_rebuild.c ---- */

/* Continues the run from this report and those that agree with it. */
void pccl_master_conclude_recovery(struct pccl_master *m, struct pccl_report *law);

#endif
