/* Waiting for the end of connect and of joint calls. Under the lock, which is released during the wait. */
#ifndef PCCL_DRIVE_COMM_CALLS_H
#define PCCL_DRIVE_COMM_CALLS_H

#include "drive/comm_wait.h"
#include "net/worker.h"
#include "peer/queries.h"

/* A joint call, or connect, in progress. */
struct pccl_call_slot {
    bool outstanding, done, value;
    uint64_t begun_us;
    uint64_t revision; /* SYNC: revision of the group's state after a success */
    enum pccl_status status;
    struct pccl_epoch known;       /* epoch of the attributes at the start of the call */
    struct pccl_departed departed; /* members that departed after `known`, if the call failed */
    struct pccl_waiter *waiter;
    struct pccl_worker *worker; /* SYNC and OPTIMIZE: does the work of the call; or NULL */
};

/* Returns the part of the config that all workers of a communicator share, without names. */
struct pccl_worker_config pccl_comm_worker_config(struct pccl_communicator *comm,
                                                  void (*broken)(void *comm, struct pccl_worker *worker));
/* Waits for the end of a call that the machine has accepted, and returns its status. */
enum pccl_status pccl_comm_await_call(struct pccl_communicator *comm, struct pccl_call_slot *slot);
/* Waits until the call is done, and runs its worker, without the lock, whenever it has work. */
void pccl_comm_serve_call(struct pccl_communicator *comm, struct pccl_call_slot *slot);
/* Records the status of a call that the machine has ended, ends its worker and wakes its thread. */
void pccl_comm_call_done(struct pccl_communicator *comm, struct pccl_call_slot *slot, enum pccl_status status);
/* Removes all references to this waiter. */
void pccl_comm_calls_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);

#endif
