/*
 * Operations from launch to await, as callers know them. Knows the engine only by its jobs
 * (comm_engine.h). Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_OPERATION_H
#define PCCL_DRIVE_OPERATION_H

#include "collective/exchange.h"
#include "config/errors.h"
#include "core/table.h"
#include "drive/request.h"

struct pccl_operation_job;
struct pccl_waiter;
struct pcclComm_t;

struct pccl_operation {
    struct pccl_table_node by_tag;
    struct pccl_peer_op *op; /* held; NULL: its machine is gone, and the next members have the outcome */
    enum pccl_status status;
    struct pccl_why why; /* the details, from launch on; after a failure also the reason and who departed */
    uint32_t world;
    struct pccl_operation_job *job; /* of a bulk operation, as long as the engine has it */
    void *recvbuf;
    size_t bytes;
    bool tiny;
    bool decided, committed;  /* the outcome is known; the outcome is a success */
    bool over;                /* decided, and the buffers are the caller's again: an await returns at once; set once */
    bool awaited;             /* a thread is in the await */
    uint64_t wait_expires_us; /* when the machine is told that no thread waits any more; 0: it need not be told */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_operation *next_over;
    uint32_t member_count;
    struct pccl_id members[]; /* in order of their ranks: whom the caller counts on, or else who takes part */
};

/* A communicator's part. */
struct pccl_comm_operations {
    struct pccl_table by_tag; /* struct pccl_operation */
    uint32_t expiring_waits;  /* the number of operations with wait_expires_us */
    uint32_t aborts;          /* the number of calls of pcclAbortOperations */
};

/*
 * waiter (may be NULL) is signaled when the operation is over, which may be at once. Not OK:
 * nothing was launched, and `why`, which the caller has zeroed, tells the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_operation_launch(struct pcclComm_t *comm, const struct pccl_request *request,
                                                       struct pccl_waiter *waiter, struct pccl_operation **operation,
                                                       struct pccl_why *why);
/* The launched operation with this tag, or NULL. */
struct pccl_operation *pccl_operation_find(const struct pcclComm_t *comm, uint64_t tag);
/*
 * Waits until the operation is over or the deadline has passed. true: it is over, and the caller
 * must end it before the lock is released.
 */
PCCL_MUST_CHECK bool pccl_operation_wait(struct pcclComm_t *comm, struct pccl_operation *operation,
                                         uint64_t deadline_us);
/* For a thread that waits in another way: counts it as awaiting the operation. */
void pccl_operation_announce_wait(struct pcclComm_t *comm, struct pccl_operation *operation);
/*
 * Waits for the outcome, writes the result and ends the operation. info may be NULL; it is written
 * on success only.
 */
PCCL_MUST_CHECK enum pccl_status pccl_operation_await(struct pcclComm_t *comm, struct pccl_operation *operation,
                                                      pcclOperationInfo_t *info, struct pccl_why *why);
/* The same for a operation that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_operation_end(struct pcclComm_t *comm, struct pccl_operation *operation,
                                                    pcclOperationInfo_t *info, struct pccl_why *why);

/*
 * Keeps the outcomes of all operations, which are over, because their machine is about to be
 * destroyed.
 */
void pccl_operations_keep_outcomes(struct pcclComm_t *comm);
/* The machine broke: all operations have failed, except those decided before. */
void pccl_operations_give_up(struct pcclComm_t *comm);
/* Removes all references to this waiter. */
void pccl_operations_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter);
/* Frees all operations, which nobody will await any more. */
void pccl_operations_free(struct pcclComm_t *comm);
/* Asks all peers to abort the operation, unless it is decided. reason may be NULL. */
void pccl_operation_abort(struct pcclComm_t *comm, const struct pccl_operation *operation,
                          const struct pccl_text *reason);
/* Asks all peers to abort all undecided operations. */
void pccl_operations_abort(struct pcclComm_t *comm);
/*
 * Tells the machine of threads that have stopped awaiting a operation. To be called now and then.
 */
void pccl_operations_expire_waits(struct pcclComm_t *comm);

#endif
