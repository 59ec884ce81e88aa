/*
 * Operations from launch to await, as callers know them. Knows the engine only by its jobs
 * (comm_jobs.h). Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_COMM_OP_H
#define PCCL_DRIVE_COMM_OP_H

#include "collective/exchange.h"
#include "config/errors.h"
#include "core/table.h"
#include "drive/comm_feedback.h"
#include "drive/comm_members.h"
#include "drive/op_args.h"

struct pccl_comm_op;
struct pccl_comm_op_job;
struct pccl_waiter;
struct pccl_communicator;
struct pcclComm_t;

/* Parts that a caller wants to see as they come. */
struct pccl_comm_arrivals {
    pcclArrivalCallback_t show; /* NULL: it does not */
    void *user_data;
    uint32_t *from; /* owned: whose have come, by rank, in this order */
    uint32_t count, shown;
};

/*
 * How an operation of a caller is composed of two of the machine. The first is launched as one that may be followed;
 * `goes_on` says that the second may come. Under the lock.
 */
struct pccl_comm_composition {
    /*
     * Makes the operation's `part`, and completes the launch of the first step. MEMORY, or LIMIT with a reason: the
     * group is too large.
     */
    enum pccl_status (*begin)(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                              struct pccl_op_args *args, struct pccl_text *reason);
    /* Takes the result of a peer that is alone. MEMORY, or MISMATCH with a reason. */
    enum pccl_status (*alone)(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_text *reason);
    /* It is launched: the caller has no result until it succeeds. */
    void (*launched)(const struct pccl_comm_op *operation);
    /* The first step has committed and is `due`: decides the operation, or launches the second step. */
    void (*go_on)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Shows the caller all new arrivals, and releases the lock for that. The thread that awaits calls it. */
    void (*show)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Frees the operation's part; if it has ended well, the result is the caller's. */
    void (*end)(struct pccl_comm_op *operation, bool well);
};

struct pccl_comm_op {
    struct pccl_table_node by_tag;
    const struct pcclComm_t *handle; /* by which it was launched */
    uint64_t name;                   /* by which its caller finds it: its tag; of a send or founding another number */
    struct pccl_peer_op *op;         /* held; NULL: its machine is gone, and the next members have the outcome */
    enum pccl_status status;
    struct pccl_why why; /* the details, from launch on; after a failure also the reason and who departed */
    uint32_t world;
    uint64_t number, launched_us; /* of its launch at this peer; 0: it is being launched */
    struct pccl_comm_op_job *job; /* of a bulk operation, as long as the engine has it */
    struct pccl_buffers buffers;  /* of a tiny one: where its result goes; its lists are owned */
    size_t result_bytes;
    size_t outcome_skip;                 /* tiny: where the result begins in each part of what the master tells */
    struct pccl_comm_feedback *feedback; /* NULL: it has none */
    const struct pccl_comm_composition *composed; /* NULL: it is one of the machine, or given up before it was made */
    void *part;                                   /* of `composed`, its own */
    bool goes_on; /* another operation of the machine follows when the present one has committed */
    struct pccl_comm_arrivals arrivals;
    uint8_t codec;                         /* how elements travel, as in the descriptor */
    char why_codec[PCCL_CODEC_WORDS_SIZE]; /* once it is over, of an automatic one: why this one */
    bool decided, committed;               /* the outcome is known; the outcome is a success */
    bool over;                /* decided, and the buffers are the caller's again: an await returns at once; set once */
    bool awaited;             /* a thread is in the await */
    uint64_t wait_expires_us; /* when the machine is told that no thread waits any more; 0: it need not be told */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_comm_op *next_over;
    struct pccl_comm_members *members; /* referred to: those that the caller names, or else all participants */
};

/* A communicator's part. */
struct pccl_comm_ops {
    struct pccl_table by_tag;          /* struct pccl_comm_op, by handle and name */
    uint64_t last_name;                /* the last one that is no tag */
    uint32_t expiring_waits;           /* the number of operations with wait_expires_us */
    struct pccl_comm_op *due;          /* goes on when the message with an outcome is handled */
    struct pccl_comm_members *members; /* referred to: the list that was shared last; NULL: none */
};

/*
 * Completes and launches args->launch, which nothing refers to later. waiter (may be NULL) is signaled when the
 * operation is over, which may be at once. Not OK: nothing was launched, and `why`, which the caller has zeroed, tells
 * the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                     struct pccl_waiter *waiter, struct pccl_comm_op **operation,
                                                     struct pccl_why *why);
/* Returns the time when it is aborted for all; UINT64_MAX: never. Call it right after the launch. */
uint64_t pccl_comm_op_deadline(const struct pccl_comm_op *operation);
struct pccl_founding {
    const struct pccl_id *members; /* in any order, this peer among them */
    uint32_t count;
    struct pccl_label label;
    uint32_t timeout_ms; /* 0: op_timeout_ms */
};

/*
 * Would a launch be refused for what the arguments, the members of now and the tags in use show?
 * OK, or a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_check(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
/*
 * The operation ends without the other peers: it is decided, or the master has been asked to abort
 * it.
 */
bool pccl_comm_op_is_ending(const struct pccl_comm_op *operation);

/* The founding of a group as an operation of the communicator, in the same way. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch_founding(struct pccl_communicator *comm,
                                                              const struct pccl_founding *founding,
                                                              struct pccl_comm_op **operation, struct pccl_why *why);
/* Frees an operation that was not launched, or has left its table. well: it has ended with success. */
void pccl_comm_op_release(struct pccl_comm_op *operation, bool well);
/* The operation with this name that was launched by this handle, or NULL. */
struct pccl_comm_op *pccl_comm_op_find(const struct pcclComm_t *handle, uint64_t name);
/*
 * Waits until the operation is over or the deadline has passed. true: it is over, and the caller
 * must end it before the lock is released.
 */
PCCL_MUST_CHECK bool pccl_comm_op_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                       uint64_t deadline_us);
/* For a thread that waits in another way: counts it as awaiting the operation. */
void pccl_comm_op_announce_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/*
 * Waits for the outcome, writes the result and ends the operation. info may be NULL; it is written
 * on success only.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_await(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                    pcclOperationInfo_t *info, struct pccl_why *why);
/* The same for an operation that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_end(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                  pcclOperationInfo_t *info, struct pccl_why *why);

/*
 * Keeps the outcomes of all operations, which are over, because their machine is about to be
 * destroyed.
 */
void pccl_comm_ops_keep_outcomes(struct pccl_communicator *comm);
/* Removes all references to this waiter. */
void pccl_comm_ops_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Frees all operations, which nobody will await any more. */
void pccl_comm_ops_free(struct pccl_communicator *comm);
/* Asks all peers to abort the operation, as this class, unless it is decided. reason may be NULL. */
void pccl_comm_op_abort(struct pccl_communicator *comm, const struct pccl_comm_op *operation, enum pccl_class class,
                        const struct pccl_text *reason);
/* Asks all peers to abort all undecided operations of this handle. */
void pccl_comm_ops_abort(struct pcclComm_t *handle);
/*
 * Waits until all operations of this handle are over, and ends them. Nobody awaits them or launches
 * more.
 */
void pccl_comm_ops_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);
/*
 * Tells the machine of threads that have stopped awaiting an operation. To be called now and then.
 */
void pccl_comm_ops_expire_waits(struct pccl_communicator *comm);

#endif
