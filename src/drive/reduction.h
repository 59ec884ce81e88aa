/* Reductions from launch to await, in terms of the peer's machine. Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_REDUCTION_H
#define PCCL_DRIVE_REDUCTION_H

#include "collective/exchange.h"
#include "config/errors.h"
#include "core/table.h"

struct pccl_reduction_job;
struct pccl_waiter;
struct pcclComm_t;

/* A launched reduction, from launch to await. */
struct pccl_reduction {
    struct pccl_table_node by_tag;
    struct pccl_peer_op *op; /* held; NULL: its machine is gone, and this is what became of it: */
    enum pccl_status status;
    struct pccl_why why; /* its details, from launch on; with its failure who has left, too */
    uint32_t world;
    struct pccl_reduction_job *job; /* bulk, as long as the engine has it */
    void *recvbuf;
    size_t bytes;
    bool tiny;
    bool decided, committed;  /* the outcome is known; it is a success */
    bool over;                /* and the buffers are the caller's again: an await returns at once. Says so once. */
    bool awaited;             /* a thread is in the await */
    uint64_t wait_expires_us; /* the machine is told then that no thread is; 0: it need not be told */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_reduction *next_over;
};

/* Of a communicator. */
struct pccl_comm_reductions {
    struct pccl_table by_tag; /* struct pccl_reduction */
    uint32_t expiring_waits;  /* those with wait_expires_us */
    uint32_t aborts;          /* how often pcclAbortOperations was called */
};

/* What can be said of the arguments alone; no lock. ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                                      const pcclReduceDescriptor_t *descriptor,
                                                      struct pccl_text *reason);
/*
 * waiter (may be NULL) hears when the reduction is over, which may be at once. Otherwise without a trace, and `why`,
 * which was zeroed, says why.
 */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                                       const pcclReduceDescriptor_t *descriptor,
                                                       struct pccl_waiter *waiter, struct pccl_reduction **reduction,
                                                       struct pccl_why *why);
/* What the calling thread launches from now on is called this. */
void pccl_reduction_label(const struct pccl_label *label);
/* The launched reduction with this tag, or NULL. */
struct pccl_reduction *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag);
/* Waits until the reduction is over or the time has come. true: it is over; end it before the lock is released. */
PCCL_MUST_CHECK bool pccl_reduction_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                         uint64_t deadline_us);
/* For a thread that waits in another way: it counts as awaiting the reduction. */
void pccl_reduction_announce_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction);
/* Waits for the outcome, writes the result, and ends the reduction. info may be NULL and is written on success only. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                                      pcclReduceInfo_t *info, struct pccl_why *why);
/* The same for one that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_reduction *reduction,
                                                    pcclReduceInfo_t *info, struct pccl_why *why);

/* Their machine is about to go: takes their outcomes over. All are over. */
void pccl_reductions_keep_outcomes(struct pcclComm_t *comm);
/* Their machine is gone: all have failed, some of them before. */
void pccl_reductions_give_up(struct pcclComm_t *comm);
/* Nothing refers to this waiter from now on. */
void pccl_reductions_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter);
/* Nobody will await them: frees them. */
void pccl_reductions_free(struct pcclComm_t *comm);
/* Asks all peers to abort it, unless it is decided. reason may be NULL. */
void pccl_reduction_abort(struct pcclComm_t *comm, const struct pccl_reduction *reduction,
                          const struct pccl_text *reason);
/* All that are undecided are to be aborted, for all peers. */
void pccl_reductions_abort(struct pcclComm_t *comm);
/* To be called now and then: tells the machine of threads that have stopped awaiting a reduction. */
void pccl_reductions_expire_waits(struct pcclComm_t *comm);

#endif
