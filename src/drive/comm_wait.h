/* Waiting of threads in public calls. Caller holds the lock, which is released during the wait. */
#ifndef PCCL_DRIVE_COMM_WAIT_H
#define PCCL_DRIVE_COMM_WAIT_H

#include "core/base.h"
#include "os/socket_wait.h"
#include "pccl_collectives.h"

#include <stdatomic.h>
#include <uv.h>

struct pccl_comm_op;
struct pccl_communicator;

/* A thread's waiter, which is part of its caller (comm_callers.h). Used under the lock. */
struct pccl_waiter {
    atomic_bool fired; /* set under the lock; a driver reads it without the lock */
    bool leads;        /* the thread reads the master's connection itself */
    bool drives;       /* the thread also drives the engine's loop, and may be in it without the lock */
    bool asks;         /* the thread has requested the engine's loop */
    uv_cond_t cond;
    bool has_cond;
    struct pccl_waiter *next;
    struct pccl_comm_op *over; /* operations of the thread that are over, newest first, linked by next_over */
};

struct pccl_comm_waiting {
    struct pccl_waiter *blocked; /* list of all waiters except the leader */
    struct pccl_waiter *leader;
    bool is_led;   /* true until the leader has returned, even if it was replaced */
    bool may_lead; /* true if the operating system supports leaders */
    struct pccl_socket_wait input;
    pcclProgressCallback_t on_progress; /* may be NULL */
    void *on_progress_data;
    uint64_t progress_due_us;
    bool tells_progress; /* true while a thread is in the callback */
};

void pccl_comm_waiting_init(struct pccl_comm_waiting *waiting);
void pccl_comm_waiting_fini(const struct pccl_comm_waiting *waiting);
/*
 * Wait until pccl_comm_signal(waiter), and clear the signal. The waiter belongs to the calling thread (comm_callers.h).
 * pccl_comm_wait_until also ends at the deadline, and returns false if the waiter was not signaled.
 */
void pccl_comm_wait(struct pccl_communicator *comm, struct pccl_waiter *waiter);
PCCL_MUST_CHECK bool pccl_comm_wait_until(struct pccl_communicator *comm, struct pccl_waiter *waiter,
                                          uint64_t deadline_us);
/* Signals the waiter and wakes its thread. `waiter` may be NULL. */
void pccl_comm_signal(struct pccl_communicator *comm, struct pccl_waiter *waiter);
/* Removes the waiter of a thread whose call was abandoned (comm_callers.h) and that no longer waits or leads. */
void pccl_comm_forget_waiter(struct pccl_communicator *comm, struct pccl_waiter *waiter);
/* Makes the leader stop because its connection is closing. */
void pccl_comm_replace_leader(struct pccl_communicator *comm);

/*
 * Surround a launch that is followed by a wait on the same thread, which then runs the engine's loop itself: the first
 * before the launch, the second after the wait, or after a failed launch. The lock is held from the first until the
 * wait.
 */
void pccl_comm_drive_next(struct pccl_communicator *comm);
void pccl_comm_drive_over(struct pccl_communicator *comm);
/*
 * Lets the wait for an asynchronous operation run the engine's loop if the operation was started last, while no other
 * one ran. The lock is held until the wait, which pccl_comm_drive_over follows.
 */
void pccl_comm_drive_for(struct pccl_communicator *comm, const struct pccl_comm_op *operation);

#endif
