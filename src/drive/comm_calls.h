/* Connect and the joint calls: waiting for the end of one. Under the lock, which is released meanwhile. */
#ifndef PCCL_DRIVE_COMM_CALLS_H
#define PCCL_DRIVE_COMM_CALLS_H

#include "drive/comm_wait.h"
#include "peer/queries.h"

/* A joint call or connect under way. */
struct pccl_call_slot {
    bool outstanding, done, value;
    uint64_t revision; /* SYNC, a success: what the group holds */
    enum pccl_status status;
    struct pccl_epoch known;       /* of the attributes when it began */
    struct pccl_departed departed; /* after that, until it failed */
    struct pccl_waiter *waiter;
};

/* The machine has taken the call: waits for its end and returns its status. */
enum pccl_status pccl_comm_await_call(struct pcclComm_t *comm, struct pccl_call_slot *slot);
/* Until the call is done; whenever its waiter is fired before that, `work` (without the lock) does what has come. */
void pccl_comm_serve_call(struct pcclComm_t *comm, struct pccl_call_slot *slot, void (*work)(void *session),
                          void *session);
/* The machine has ended it; status and value are in the slot. */
void pccl_comm_call_done(struct pcclComm_t *comm, struct pccl_call_slot *slot, enum pccl_status status);
/* Nothing refers to this waiter from now on. */
void pccl_comm_calls_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter);

#endif
