/*
 * Strangers at the door: connections without an accepted hello, and what a hello makes of them: a newcomer, a member
 * that continues its session or resumes after a restart, or nobody.
 */
#ifndef PCCL_MASTER_ADMISSION_H
#define PCCL_MASTER_ADMISSION_H

#include "master/state.h"

/* A connection came (OPENED). The most crowded address loses its oldest one where there are too many. */
void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event);
/* Its first message: judges the hello. The stranger is gone afterward. */
void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event);
/* Says why; whoever calls this closes the connection. */
void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *reason);
/* Forgets it; its connection is not touched. */
void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger);
/* Stage: those who have not said hello in time are refused. */
void pccl_master_expire_strangers(struct pccl_master *m);
/* This peer is removed: keeps the reason, for when it comes back. */
void pccl_master_note_gone(struct pccl_master *m, const struct pccl_remote *remote);

#endif
