/* How threads wait in calls. Under the lock, which is released meanwhile. */
#ifndef PCCL_DRIVE_COMM_WAIT_H
#define PCCL_DRIVE_COMM_WAIT_H

#include "core/base.h"
#include "os/socket_wait.h"
#include "pccl_collectives.h"

#include <uv.h>

struct pccl_comm_op;
struct pccl_communicator;

/* A thread's waiter, which lives in its caller (comm_callers.h). Touched under the lock. */
struct pccl_waiter {
    bool fired;
    bool leads; /* its thread reads the master's connection itself */
    bool steps; /* its thread is inside the machine */
    uv_cond_t cond;
    bool has_cond;
    struct pccl_waiter *next;
    struct pccl_comm_op *over; /* its operations that are over, newest first, a list by next_over */
};

/* The waiters of a communicator. */
struct pccl_comm_waiting {
    struct pccl_waiter *blocked; /* all but the leader */
    struct pccl_waiter *leader;
    bool is_led;                        /* a leader, possibly replaced, has not returned yet */
    bool may_lead;                      /* the system has the means */
    struct pccl_socket_wait input;      /* what the leader waits on */
    pcclProgressCallback_t on_progress; /* or NULL */
    void *on_progress_data;
    uint64_t progress_due_us;
    bool tells_progress; /* a thread is in that function */
};

void pccl_comm_waiting_init(struct pccl_comm_waiting *waiting);
void pccl_comm_waiting_fini(const struct pccl_comm_waiting *waiting);
/*
 * Waits until pccl_comm_signal(waiter) and clears the signal. The waiter is the calling thread's
 * (comm_callers.h). pccl_comm_wait_until also ends at the deadline; it returns false if the waiter
 * has not been signaled.
 */
void pccl_comm_wait(struct pccl_communicator *comm, struct pccl_waiter *waiter);
PCCL_MUST_CHECK bool pccl_comm_wait_until(struct pccl_communicator *comm, struct pccl_waiter *waiter,
                                          uint64_t deadline_us);
/* waiter may be NULL. */
void pccl_comm_signal(struct pccl_communicator *comm, struct pccl_waiter *waiter);
/*
 * The waiter's thread was abandoned in the middle of a call (comm_callers.h): it neither waits nor
 * leads any more.
 */
void pccl_comm_forget_waiter(struct pccl_communicator *comm, struct pccl_waiter *waiter);
/* The connection that the leader reads is going away. */
void pccl_comm_replace_leader(struct pccl_communicator *comm);

#endif
