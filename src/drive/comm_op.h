/*
 * Operations from launch to await, as callers see them. Knows the engine only by its jobs (comm_jobs.h). Under the
 * communicator's lock unless said otherwise.
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

/* Parts that a caller wants to see as they arrive. */
struct pccl_comm_arrivals {
    pcclArrivalCallback_t show; /* NULL: the caller does not want to see them */
    void *user_data;
    uint32_t *from; /* owned: ranks whose parts have arrived, in order of arrival */
    uint32_t count, shown;
};

/*
 * Composition of a caller's operation from two of the machine. The first is launched as one that may be followed;
 * `goes_on` means that the second may follow. Under the lock.
 */
struct pccl_comm_composition {
    /*
     * Makes the operation's `part`, and completes the launch of the first step. Returns MEMORY, or LIMIT with a reason:
     * the group is too large.
     */
    enum pccl_status (*begin)(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                              struct pccl_op_args *args, struct pccl_text *reason);
    /* Produces the result of a peer alone in its group. Returns MEMORY, or MISMATCH with a reason. */
    enum pccl_status (*alone)(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_text *reason);
    /* Clears the caller's result after the launch; it is set on success. */
    void (*launched)(const struct pccl_comm_op *operation);
    /*
     * Decides the operation, or launches the second step. Called when the first step has committed and the operation is
     * `due`.
     */
    void (*go_on)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Shows the caller all new arrivals, and releases the lock for that. On the thread that awaits. */
    void (*show)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Frees the operation's part; after a success the caller owns the result. */
    void (*end)(struct pccl_comm_op *operation, bool well);
};

struct pccl_comm_op {
    struct pccl_table_node by_tag;
    const struct pcclComm_t *handle; /* handle of the launch */
    uint64_t name; /* number by which its caller finds it: its tag; for a send or a new group another number */
    struct pccl_peer_op *op; /* held; NULL: alone, or the machine is gone and the fields below have the outcome */
    enum pccl_status status;
    struct pccl_why why; /* details from launch on; after a failure also the reason and the departed members */
    uint32_t world;
    uint64_t number, launched_us; /* number of its launch at this peer; 0: launch in progress */
    struct pccl_comm_op_job *job; /* job of a bulk operation while the engine has it */
    struct pccl_buffers buffers;  /* tiny: buffers of the result, with owned lists */
    size_t result_bytes;
    size_t outcome_skip;                          /* tiny: offset of the result in each part of the master's payload */
    struct pccl_comm_feedback *feedback;          /* NULL: no error feedback */
    const struct pccl_comm_composition *composed; /* NULL: of the machine, or given up before it was composed */
    void *part;                                   /* owned by `composed` */
    bool goes_on; /* another operation of the machine follows when the current one has committed */
    struct pccl_comm_arrivals arrivals;
    uint8_t codec;                         /* codec of the elements, as in the descriptor */
    char why_codec[PCCL_CODEC_WORDS_SIZE]; /* reason for the choice of an automatic codec, once the operation is over */
    bool decided, committed;               /* the outcome is known; the outcome is a success */
    bool over;    /* decided, and the buffers belong to the caller again: an await returns at once; never cleared */
    bool awaited; /* a thread is in pcclAwaitOperation */
    uint64_t wait_expires_us; /* time when the machine learns that no thread waits any longer; 0: nothing to report */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_comm_op *next_over;
    struct pccl_comm_members *members; /* referenced: the members that the caller lists, or else all participants */
};

/* A communicator's part. */
struct pccl_comm_ops {
    struct pccl_table by_tag;          /* struct pccl_comm_op, by handle and name */
    uint64_t last_name;                /* last name that is not a tag */
    uint32_t expiring_waits;           /* number of operations with wait_expires_us */
    struct pccl_comm_op *due;          /* continues after the message with an outcome is handled */
    struct pccl_comm_members *members; /* referenced: the list that was shared last; may be NULL */
};

/*
 * Completes and launches args->launch, which is not used after the call. `waiter` (may be NULL) is signaled when the
 * operation is over, which may be at once. On failure nothing was launched, and `why`, which the caller has zeroed, has
 * the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                     struct pccl_waiter *waiter, struct pccl_comm_op **operation,
                                                     struct pccl_why *why);
/* Returns the time when the operation is aborted for all members; UINT64_MAX: never. Call right after the launch. */
uint64_t pccl_comm_op_deadline(const struct pccl_comm_op *operation);
struct pccl_founding {
    const struct pccl_id *members; /* in any order, including this peer */
    uint32_t count;
    struct pccl_label label;
    uint32_t timeout_ms; /* 0: op_timeout_ms */
};

/*
 * Checks whether a launch would be refused for its arguments, the current members or the tags in use. Returns OK, or a
 * status with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_check(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
/*
 * Returns true if the operation ends regardless of the other peers: it is decided, or this peer has requested an abort.
 */
bool pccl_comm_op_is_ending(const struct pccl_comm_op *operation);

/* Launches the creation of a group, as an operation of the communicator. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch_founding(struct pccl_communicator *comm,
                                                              const struct pccl_founding *founding,
                                                              struct pccl_comm_op **operation, struct pccl_why *why);
/* Frees an operation that was not launched, or has left its table. `well`: it has succeeded. */
void pccl_comm_op_release(struct pccl_comm_op *operation, bool well);
/* Returns the operation that this handle launched with this name, or NULL. */
struct pccl_comm_op *pccl_comm_op_find(const struct pcclComm_t *handle, uint64_t name);
/*
 * Waits until the operation is over or the deadline has passed. Returns true if it is over; then the caller must end it
 * before releasing the lock.
 */
PCCL_MUST_CHECK bool pccl_comm_op_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                       uint64_t deadline_us);
/* Counts the calling thread, which waits in another way, as awaiting the operation. */
void pccl_comm_op_announce_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/*
 * Waits for the outcome, writes the result and ends the operation. `info` may be NULL; it is written on success only.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_await(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                    pcclOperationInfo_t *info, struct pccl_why *why);
/* Does the same for an operation that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_end(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                  pcclOperationInfo_t *info, struct pccl_why *why);

/* Keeps the outcomes of all operations, which must be over, because their machine is about to be destroyed. */
void pccl_comm_ops_keep_outcomes(struct pccl_communicator *comm);
/* Removes all references to this waiter. */
void pccl_comm_ops_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Frees all operations; no thread may await them after that. */
void pccl_comm_ops_free(struct pccl_communicator *comm);
/* Requests that all peers abort the operation, as this class, unless it is decided. `reason` may be NULL. */
void pccl_comm_op_abort(struct pccl_communicator *comm, const struct pccl_comm_op *operation, enum pccl_class class,
                        const struct pccl_text *reason);
/* Requests that all peers abort all undecided operations of this handle. */
void pccl_comm_ops_abort(struct pcclComm_t *handle);
/* Waits until all operations of this handle are over, and ends them. No thread may await them or launch more. */
void pccl_comm_ops_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);
/* Reports to the machine that threads have stopped awaiting an operation. Called regularly. */
void pccl_comm_ops_expire_waits(struct pccl_communicator *comm);

#endif
