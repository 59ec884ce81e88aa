/*
 * Strangers, which are connections without an accepted hello, and what a hello makes of them: a
 * newcomer, a member that continues its session or resumes after a restart, or a peer that is
 * refused. What becomes of a newcomer afterward is up to newcomers.h (links) and rounds.h (the vote).
 */
#ifndef PCCL_MASTER_ADMISSION_H
#define PCCL_MASTER_ADMISSION_H

#include "master/state.h"

/*
 * A connection was accepted (OPENED). If there are too many strangers, the address with the most of
 * them loses its oldest one.
 */
void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event);
/* The first message of a connection: judges the hello. Frees the stranger. */
void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event);
/* Sends `refused`; the caller closes the connection. */
void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *reason);
/* Frees it; its connection stays open. */
void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger);
/* Stage: refuses strangers that have not said hello in time. */
void pccl_master_expire_strangers(struct pccl_master *m);

#endif
