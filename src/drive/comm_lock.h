/* The lock of a communicator, and how its holder wakes the loop. */
#ifndef PCCL_DRIVE_COMM_LOCK_H
#define PCCL_DRIVE_COMM_LOCK_H

#include "core/base.h"
#include "core/log.h"

struct pccl_communicator;

/*
 * The lock, for application threads. Leaving sends what is queued for the master, wakes the loop if
 * it has work, and writes the log.
 */
void pccl_comm_enter(struct pccl_communicator *comm);
/* The same for a thread whose call was abandoned (net/guard.h); it may hold the lock already. */
void pccl_comm_enter_after_fault(struct pccl_communicator *comm);
void pccl_comm_leave(struct pccl_communicator *comm);
/* The sending and waking of leaving, for threads that keep the lock but are about to sleep. */
void pccl_comm_flush(struct pccl_communicator *comm);
void pccl_comm_wake_loop(struct pccl_communicator *comm);
/* The same for callbacks of the loop. Their notes are carried out when the loop has polled. */
void pccl_comm_loop_enter(void *comm);
void pccl_comm_loop_leave(void *comm);
/* Leaves when no notes are left and the loop waits until the connection takes more output. */
void pccl_comm_loop_rest(struct pccl_communicator *comm);
/* Whether the loop has notes to apply. Under the lock. */
bool pccl_comm_has_notes(const struct pccl_communicator *comm);
/*
 * Logs a line of a worker, with the names of the peers that it mentions. On its thread, without the lock.
 */
void pccl_comm_on_log(void *comm, enum pccl_log_level level, const char *line);

#endif
