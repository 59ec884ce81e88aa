/*
 * Reductions from launch to await, as callers know them. Knows the engine only by its jobs
 * (comm_engine.h). Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_REDUCTION_H
#define PCCL_DRIVE_REDUCTION_H

#include "collective/exchange.h"
#include "config/errors.h"
#include "core/table.h"

struct pccl_reduction_job;
struct pccl_waiter;
struct pcclComm_t;

struct pccl_reduction {
    struct pccl_table_node by_tag;
    struct pccl_peer_op *op; /* held; NULL: its machine is gone, and the next members have the outcome */
    enum pccl_status status;
    struct pccl_why why; /* the details, from launch on; after a failure also the reason and who departed */
    uint32_t world;
    struct pccl_reduction_job *job; /* of a bulk reduction, as long as the engine has it */
    void *recvbuf;
    size_t bytes;
    bool tiny;
    bool decided, committed;  /* the outcome is known; the outcome is a success */
    bool over;                /* decided, and the buffers are the caller's again: an await returns at once; set once */
    bool awaited;             /* a thread is in the await */
    uint64_t wait_expires_us; /* when the machine is told that no thread waits any more; 0: it need not be told */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_reduction *next_over;
};

/* A communicator's part. */
struct pccl_comm_reductions {
    struct pccl_table by_tag; /* struct pccl_reduction */
    uint32_t expiring_waits;  /* the number of reductions with wait_expires_us */
    uint32_t aborts;          /* the number of calls of pcclAbortOperations */
};

/* Checks what the arguments alone can show, without the lock. ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                                      const pcclReduceDescriptor_t *descriptor,
                                                      struct pccl_text *reason);
/*
 * waiter (may be NULL) is signaled when the reduction is over, which may be at once. Not OK:
 * nothing was launched, and `why`, which the caller has zeroed, tells the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                                       const pcclReduceDescriptor_t *descriptor,
                                                       struct pccl_waiter *waiter, struct pccl_reduction **reduction,
                                                       struct pccl_why *why);
/* Sets the label of what the calling thread launches from now on. */
void pccl_reduction_label(const struct pccl_label *label);
/* The launched reduction with this tag, or NULL. */
struct pccl_reduction *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag);
/*
 * Waits until the reduction is over or the deadline has passed. true: it is over, and the caller
 * must end it before the lock is released.
 */
PCCL_MUST_CHECK bool pccl_reduction_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                         uint64_t deadline_us);
/* For a thread that waits in another way: counts it as awaiting the reduction. */
void pccl_reduction_announce_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction);
/*
 * Waits for the outcome, writes the result and ends the reduction. info may be NULL; it is written
 * on success only.
 */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                                      pcclReduceInfo_t *info, struct pccl_why *why);
/* The same for a reduction that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                                    pcclReduceInfo_t *info, struct pccl_why *why);

/*
 * Keeps the outcomes of all reductions, which are over, because their machine is about to be
 * destroyed.
 */
void pccl_reductions_keep_outcomes(struct pcclComm_t *comm);
/* The machine broke: all reductions have failed, except those decided before. */
void pccl_reductions_give_up(struct pcclComm_t *comm);
/* Removes all references to this waiter. */
void pccl_reductions_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter);
/* Frees all reductions, which nobody will await any more. */
void pccl_reductions_free(struct pcclComm_t *comm);
/* Asks all peers to abort the reduction, unless it is decided. reason may be NULL. */
void pccl_reduction_abort(struct pcclComm_t *comm, const struct pccl_reduction *reduction,
                          const struct pccl_text *reason);
/* Asks all peers to abort all undecided reductions. */
void pccl_reductions_abort(struct pcclComm_t *comm);
/*
 * Tells the machine of threads that have stopped awaiting a reduction. To be called now and then.
 */
void pccl_reductions_expire_waits(struct pcclComm_t *comm);

#endif
