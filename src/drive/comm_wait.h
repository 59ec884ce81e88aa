/* How a thread waits in a call. Under the lock, which is released meanwhile. */
#ifndef PCCL_DRIVE_COMM_WAIT_H
#define PCCL_DRIVE_COMM_WAIT_H

#include "core/base.h"

#include <uv.h>

struct pccl_reduction;
struct pcclComm_t;

/* How a thread waits in a call (comm_callers.h says where it lives). Touched under the lock. */
struct pccl_waiter {
    bool fired;
    bool leads; /* it reads the master's connection itself */
    bool steps; /* it is inside the machine */
    uv_cond_t cond;
    bool has_cond;
    struct pccl_waiter *next;
    struct pccl_reduction *over; /* by next_over: those of its reductions that are, newest first */
};

/* Who waits in a communicator. */
struct pccl_comm_waiting {
    struct pccl_waiter *blocked; /* not leading */
    struct pccl_waiter *leader;
    bool is_led; /* a leader, maybe unseated, has not come back yet */
    int wake;    /* of a leader; -1: this system has none */
};

/* Nobody waits yet. */
void pccl_comm_waiting_init(struct pccl_comm_waiting *waiting);
void pccl_comm_waiting_fini(const struct pccl_comm_waiting *waiting);
/*
 * Until pccl_comm_signal(waiter); takes that back. The waiter is the calling thread's (comm_callers.h). _until: or
 * until the time has come; false: it has not fired.
 */
void pccl_comm_wait(struct pcclComm_t *comm, struct pccl_waiter *waiter);
PCCL_MUST_CHECK bool pccl_comm_wait_until(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us);
/* waiter may be NULL. */
void pccl_comm_signal(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* Its thread was left in the middle of a call (comm_callers.h): it neither waits nor leads any more. */
void pccl_comm_forget_waiter(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* The connection that a leader reads is going away. */
void pccl_comm_replace_leader(struct pcclComm_t *comm);

#endif
