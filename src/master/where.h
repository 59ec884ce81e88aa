/*
 * "Who is where", for members that wait in calls, so that nobody waits in silence (PROTOCOL 9.6).
 */
#ifndef PCCL_MASTER_WHERE_H
#define PCCL_MASTER_WHERE_H

#include "master/state.h"

enum { PCCL_ADMISSION_TOLD_US = 2000000 }; /* as `where_ms` of the peers is by default */

/* Stage: logs, once for each newcomer, that nobody admits it. */
void pccl_master_tell_who_waits(struct pccl_master *m);
/*
 * A member says that it waits in a call, and is told who is missing; or says that it has stopped
 * waiting.
 */
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);
/*
 * Appends to the reason for which `from` gives an operation up whom it waits for, if that is known.
 */
void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *reason);

#endif
