/* The lock of a communicator, and how the loop is told that there is something to do. */
#ifndef PCCL_DRIVE_COMM_LOCK_H
#define PCCL_DRIVE_COMM_LOCK_H

#include "core/base.h"
#include "core/log.h"

struct pcclComm_t;

/* The lock, for application threads. Leaving sends what waits, wakes the loop if needed, and writes the log. */
void pccl_comm_enter(struct pcclComm_t *comm);
/* The same for a thread whose call was left in the middle (net/guard.h), and may hold the lock. */
void pccl_comm_enter_after_fault(struct pcclComm_t *comm);
void pccl_comm_leave(struct pcclComm_t *comm);
/* The first half of leaving: for those who keep the lock but are about to sleep. */
void pccl_comm_flush(struct pcclComm_t *comm);
void pccl_comm_wake_loop(struct pcclComm_t *comm);
/* The same for callbacks of the loop. */
void pccl_comm_loop_enter(void *comm);
void pccl_comm_loop_leave(void *comm);
/* Makes sure that the loop looks at the machine's deadline; after calls that may have made it earlier. */
void pccl_comm_check_deadline(struct pcclComm_t *comm);
/* Under the lock: does the loop have notes to apply? */
bool pccl_comm_has_notes(const struct pcclComm_t *comm);
/* What sessions log, on their threads: with the names of peers. The lock is not held. */
void pccl_comm_on_log(void *comm, enum pccl_log_level level, const char *line);

#endif
