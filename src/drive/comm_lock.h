/* The lock of a communicator. Its holder wakes the loop when the loop has work. */
#ifndef PCCL_DRIVE_COMM_LOCK_H
#define PCCL_DRIVE_COMM_LOCK_H

#include "core/base.h"
#include "core/log.h"

struct pccl_communicator;

/*
 * Take and release the lock on application threads. pccl_comm_leave also sends queued data to the master, wakes the
 * loop if it has work, and writes log lines.
 */
void pccl_comm_enter(struct pccl_communicator *comm);
/* Takes the lock for a thread whose call was abandoned (net/guard.h) and which may already hold it. */
void pccl_comm_enter_after_fault(struct pccl_communicator *comm);
void pccl_comm_leave(struct pccl_communicator *comm);
/* Sends and wakes like pccl_comm_leave, but keeps the lock. For threads that are about to sleep. */
void pccl_comm_flush(struct pccl_communicator *comm);
void pccl_comm_wake_loop(struct pccl_communicator *comm);
/* Take and release the lock in callbacks of the loop. The work that effects have requested runs after the next poll. */
void pccl_comm_loop_enter(void *comm);
void pccl_comm_loop_leave(void *comm);
/*
 * Releases the lock on the loop without starting any work: all requested work must be done, and the loop must already
 * watch the connection if output remains.
 */
void pccl_comm_loop_rest(struct pccl_communicator *comm);
/* Returns true if effects have requested work from the loop. Caller holds the lock. */
bool pccl_comm_has_notes(const struct pccl_communicator *comm);
/*
 * Logs a worker's line, and adds the names of the peers that it mentions. Runs on the worker's thread, without the
 * lock.
 */
void pccl_comm_on_log(void *comm, enum pccl_log_level level, const char *line);

#endif
