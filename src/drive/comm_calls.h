/* Waits for the end of connect and of joint calls. Caller holds the lock, which is released during the wait. */
#ifndef PCCL_DRIVE_COMM_CALLS_H
#define PCCL_DRIVE_COMM_CALLS_H

#include "drive/comm_wait.h"
#include "net/worker.h"
#include "peer/queries.h"

/* A connect or joint call in progress. */
struct pccl_call_slot {
    bool outstanding, done, value;
    uint64_t begun_us;
    uint64_t revision; /* SYNC: revision of the group's state after success */
    enum pccl_status status;
    struct pccl_epoch known;       /* epoch of the attributes when the call began */
    struct pccl_departed departed; /* members that departed after `known`; set if the call failed */
    struct pccl_waiter *waiter;
    struct pccl_worker *worker; /* SYNC and OPTIMIZE: worker that does the work of the call; NULL otherwise */
};

typedef uint64_t pccl_comm_want_back_t(void *comm, const struct pccl_id *peer, enum pccl_link_kind kind, uint32_t slot);
/* Returns the part of the config, without names, that is the same for all workers of a communicator. */
struct pccl_worker_config pccl_comm_worker_config(struct pccl_communicator *comm,
                                                  void (*broken)(void *comm, struct pccl_worker *worker),
                                                  pccl_comm_want_back_t *want_back);
/* Waits for the end of a call that the state machine has accepted, and returns its status. */
enum pccl_status pccl_comm_await_call(struct pccl_communicator *comm, struct pccl_call_slot *slot);
/* Waits for the end of a call. Releases the lock to run its worker whenever the worker has work. */
void pccl_comm_serve_call(struct pccl_communicator *comm, struct pccl_call_slot *slot);
/* Records the status of a call that the state machine has ended, ends its worker and wakes its thread. */
void pccl_comm_call_done(struct pccl_communicator *comm, struct pccl_call_slot *slot, enum pccl_status status);
/* Removes all references to this waiter. */
void pccl_comm_calls_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);

#endif
