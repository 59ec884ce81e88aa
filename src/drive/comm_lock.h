/* The lock of a communicator, and how its holder wakes the loop. */
#ifndef PCCL_DRIVE_COMM_LOCK_H
#define PCCL_DRIVE_COMM_LOCK_H

#include "core/base.h"
#include "core/log.h"

struct pccl_communicator;

/*
 * Take and release the lock in application threads. Releasing it sends queued data to the master, wakes the loop if it
 * has work, and writes the log.
 */
void pccl_comm_enter(struct pccl_communicator *comm);
/* Takes the lock for a thread whose call was abandoned (net/guard.h), which may hold it already. */
void pccl_comm_enter_after_fault(struct pccl_communicator *comm);
void pccl_comm_leave(struct pccl_communicator *comm);
/* Sends and wakes as pccl_comm_leave, for threads that keep the lock but are about to sleep. */
void pccl_comm_flush(struct pccl_communicator *comm);
void pccl_comm_wake_loop(struct pccl_communicator *comm);
/* Take and release the lock in callbacks of the loop. Their notes are carried out when the loop has polled. */
void pccl_comm_loop_enter(void *comm);
void pccl_comm_loop_leave(void *comm);
/*
 * Releases the lock after the last notes are carried out, when the loop waits until the connection takes more output.
 */
void pccl_comm_loop_rest(struct pccl_communicator *comm);
/* Returns true if the loop has notes to apply. Under the lock. */
bool pccl_comm_has_notes(const struct pccl_communicator *comm);
/* Logs a line of a worker, with the names of the peers in it. On its thread, without the lock. */
void pccl_comm_on_log(void *comm, enum pccl_log_level level, const char *line);

#endif
