/* What the files of the room of recovery share. */
#ifndef PCCL_MASTER_RECOVERY_INTERNAL_H
#define PCCL_MASTER_RECOVERY_INTERNAL_H

#include "master/recovery.h"

/*
 * Two recoveries that do not know of each other (the second with members that slept through the first, after T_alone)
 * must not make the same epoch with different contents: if both meet again, one has to be the higher. So inc takes a
 * random step.
 */
enum { PCCL_INC_SPREAD = 1 << 16 };

/* ---- recovery_law.c: what reports say, and which one is law ---- */

/* Its report is complete, and it is not leaving. */
bool pccl_master_has_reported(const struct pccl_remote *remote);
/* Of all epochs that this report names: an answered round may be of a later one than its sender has heard of. */
uint32_t pccl_master_highest_inc(const struct pccl_report *report);
/* As this report has it; NULL: it has no such member. */
const struct pccl_member *pccl_master_reported_member(const struct pccl_report *report, const struct pccl_id *id);
/* Whose report is of the highest epoch; NULL: nobody has reported. */
struct pccl_remote *pccl_master_highest_report(const struct pccl_master *m);

/* ---- recovery_rebuild.c ---- */

/* The run goes on as this report and those that agree with it say. */
void pccl_master_conclude_recovery(struct pccl_master *m, struct pccl_report *law);

#endif
