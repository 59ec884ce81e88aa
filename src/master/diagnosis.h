/*
 * What the master does with the reports of peers: it has them compared (verdicts.h), logs what comes of it, and tells
 * those whom it concerns (PROTOCOL 9.8).
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

#endif
