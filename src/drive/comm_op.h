/*
 * Operations as callers see them, from launch to await. Uses the engine only through jobs (comm_jobs.h). Caller holds
 * the communicator's lock unless stated otherwise.
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

/* Arrivals of parts, for callers that have requested them. */
struct pccl_comm_arrivals {
    pcclArrivalCallback_t show; /* NULL if the caller has not requested arrivals */
    void *user_data;
    uint32_t *from; /* owned: ranks whose parts have arrived, in order of arrival */
    uint32_t count, shown;
};

/*
 * Functions of an operation that consists of two operations of the state machine. The first is launched with a flag
 * that permits the second; `goes_on` is set while the second may follow. Caller holds the lock.
 */
struct pccl_comm_composition {
    /*
     * Creates the operation's `part` and completes the launch of the first operation. Returns MEMORY, or LIMIT with a
     * reason if the group is too large.
     */
    enum pccl_status (*begin)(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                              struct pccl_op_args *args, struct pccl_text *reason);
    /* Writes the result for a peer that is alone in its group. Returns MEMORY, or MISMATCH with a reason. */
    enum pccl_status (*alone)(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_text *reason);
    /* Clears the caller's result after the launch; success sets it. */
    void (*launched)(const struct pccl_comm_op *operation);
    /*
     * Decides the operation or launches the second one. Called when the first operation has committed and the operation
     * is `due`.
     */
    void (*go_on)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Passes all new arrivals to the caller, on the thread that awaits. Releases the lock during each callback. */
    void (*show)(struct pccl_communicator *comm, struct pccl_comm_op *operation);
    /* Frees the operation's part. After a success the caller owns the result. */
    void (*end)(struct pccl_comm_op *operation, bool succeeded);
};

struct pccl_comm_op {
    struct pccl_table_node by_tag;
    const struct pcclComm_t *handle; /* handle on which it was launched */
    uint64_t name; /* unique within the handle: the tag, or another number for a send or a new group */
    uint64_t tag;  /* 0 for a new group */
    /*
     * Operation of the state machine, with the outcome; owned if `detached`. NULL if this peer is alone, or if the
     * operation failed only at this peer.
     */
    struct pccl_peer_op *op;
    bool detached;                 /* true once the state machine is gone */
    struct pccl_departed departed; /* if `detached`: the peers that left during the operation */
    enum pccl_status status;       /* a failure at this peer, which overrides the outcome; otherwise OK */
    struct pccl_text reason;       /* reason for this failure */
    uint64_t number, launched_us;  /* number of the launch at this peer, 0 while it is in progress; its time */
    struct pccl_comm_op_job *job;  /* job of a bulk operation while it is in the engine */
    struct pccl_buffers buffers;   /* tiny operations: buffers of the result, with owned lists */
    size_t result_bytes;
    size_t outcome_skip; /* tiny operations: offset of the result in each part of the master's payload */
    struct pccl_comm_feedback *feedback;          /* NULL without error feedback */
    const struct pccl_comm_composition *composed; /* NULL for a single operation, or if given up before `begin` */
    void *part;                                   /* owned by `composed` */
    bool goes_on; /* another operation of the state machine follows when the current one commits */
    struct pccl_comm_arrivals arrivals;
    bool decided; /* the outcome is known */
    bool over;    /* decided, and the buffers belong to the caller again: an await returns at once; never cleared */
    bool awaited; /* true while a thread awaits the operation */
    bool blocks;  /* a thread's wait for it is counted in comm_time.h */
    uint64_t blocked_us;      /* total time of ended waits for it */
    uint64_t wait_expires_us; /* time when the state machine is notified that no thread waits; 0: nothing to report */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_comm_op *next_over;
    struct pccl_comm_members *members; /* referenced: the members that the caller lists, or else all participants */
};

struct pccl_comm_ops {
    struct pccl_table by_tag;          /* struct pccl_comm_op, keyed by handle and name */
    uint64_t last_name;                /* last name that is not a tag, as an offset from OTHER_NAMES */
    uint32_t expiring_waits;           /* number of operations with wait_expires_us */
    struct pccl_comm_op *due;          /* operation to continue once the message with its outcome has been handled */
    struct pccl_comm_members *members; /* referenced: the list shared last; may be NULL */
};

/*
 * Completes and launches args->launch, which is not used after the call. Signals `waiter`, which may be NULL, when the
 * operation is over; this may happen before the function returns. On failure nothing was launched, and `why`, which the
 * caller has zeroed, receives the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                     struct pccl_waiter *waiter, struct pccl_comm_op **operation,
                                                     struct pccl_why *why);
/* Returns the time when the operation is aborted for all members, or UINT64_MAX. Call right after the launch. */
uint64_t pccl_comm_op_deadline(const struct pccl_comm_op *operation);
struct pccl_founding {
    const struct pccl_id *members; /* ids in any order, including this peer */
    uint32_t count;
    struct pccl_label label;
    uint32_t timeout_ms; /* 0: op_timeout_ms */
};

/*
 * Checks whether a launch would be refused because of its arguments, the current members or the tags in use. Returns
 * OK, or a status with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_check(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
/* Returns true if the outcome of a decided operation is a success. */
static inline bool pccl_comm_op_has_committed(const struct pccl_comm_op *operation)
{
    return operation->op ? operation->op->class == PCCL_CLASS_NONE : operation->status == PCCL_OK;
}
/* Returns the details for a failed call, without the departed peers. */
static inline struct pccl_details pccl_comm_op_details(const struct pccl_comm_op *operation)
{
    const uint64_t sequence = operation->op ? operation->op->instance.use : 0;
    return (struct pccl_details){.launched = true, .tag = operation->tag, .sequence = sequence};
}
/*
 * Returns true if the operation is decided or this peer has requested its abort, so that it ends without other peers.
 */
bool pccl_comm_op_is_ending(const struct pccl_comm_op *operation);

/* Launches the creation of a group as an operation of the communicator. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_launch_founding(struct pccl_communicator *comm,
                                                              const struct pccl_founding *founding,
                                                              struct pccl_comm_op **operation, struct pccl_why *why);
/* Frees an operation that was not launched or has left its table. `succeeded` is true if it succeeded. */
void pccl_comm_op_release(struct pccl_comm_op *operation, bool succeeded);
/* Returns the operation that this handle launched under this name, or NULL. */
struct pccl_comm_op *pccl_comm_op_find(const struct pcclComm_t *handle, uint64_t name);
/*
 * Waits until the operation is over or the deadline has passed. Returns true if it is over; the caller must then end it
 * before releasing the lock.
 */
PCCL_MUST_CHECK bool pccl_comm_op_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                       uint64_t deadline_us);
/* Registers the calling thread as awaiting the operation. For threads that wait for several operations at once. */
void pccl_comm_op_announce_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/*
 * Waits for the outcome, writes the result and releases the operation. `info` may be NULL; it is written on success
 * only.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_await(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                    pcclOperationInfo_t *info, struct pccl_why *why);
/* Writes the result of an operation that is over, and releases the operation, like pccl_comm_op_await. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_op_end(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                  pcclOperationInfo_t *info, struct pccl_why *why);

/* Detaches all operations, which must be over, from their state machine, which will be destroyed. */
void pccl_comm_ops_detach(struct pccl_communicator *comm);
/* Removes all references to this waiter. */
void pccl_comm_ops_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Frees all operations. No thread may await them afterward. */
void pccl_comm_ops_free(struct pccl_communicator *comm);
/* Requests that all peers abort the operation with this class, unless it is decided. `reason` may be NULL. */
void pccl_comm_op_abort(struct pccl_communicator *comm, const struct pccl_comm_op *operation, enum pccl_class class,
                        const struct pccl_text *reason);
/* Requests that all peers abort the undecided operations of this handle. */
void pccl_comm_ops_abort(struct pcclComm_t *handle);
/* Waits until all operations of this handle are over, and releases them. No thread may await them or launch more. */
void pccl_comm_ops_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);
/* Reports to the state machine that threads have stopped awaiting operations. Called regularly. */
void pccl_comm_ops_expire_waits(struct pccl_communicator *comm);

#endif
