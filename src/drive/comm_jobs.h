/*
 * Bulk operations in the hands of the engine, and how operations end. Under the lock, unless a function says otherwise.
 */
#ifndef PCCL_DRIVE_COMM_JOBS_H
#define PCCL_DRIVE_COMM_JOBS_H

#include "data/engine.h"
#include "peer/peer.h"

struct pccl_comm_op;
struct pccl_op_args;
struct pccl_waiter;
struct pccl_communicator;

/*
 * A bulk operation in the engine's hands. It lives from launch until `released`, which may be
 * longer than the operation.
 */
struct pccl_comm_op_job {
    struct pccl_engine_job job;
    struct pccl_comm_op *operation; /* NULL: the operation has ended, and so was the job stopped */
    size_t bytes;                   /* of the job and the lists of its config, behind it */
    struct pccl_id *ring;           /* that of the config, which a restart changes */
    uint32_t *positions;            /* likewise */
    bool started, stopped, at_rest;
    bool restarts;       /* once it is released, unless the operation has been decided */
    uint64_t started_us; /* when it was last; as of the machine's step */
    uint64_t entry;      /* the operation's number in the recorder; 0: it has not ended */
    struct pccl_comm_op_job *previous, *next;
    struct pccl_sight_flow sights[]; /* what the engine tells of its flows */
};

/* A communicator's part. */
struct pccl_comm_data {
    struct pccl_engine *engine;    /* NULL: not started */
    struct pccl_comm_op_job *jobs; /* all that have not been released */
};

/* Effects of the machine. */
/* The machine's operation is decided, and with it the caller's, unless a second step follows. */
void pccl_comm_effect_op_decided(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_start(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_stop(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_restart(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_gone(void *context, const struct pccl_instance *instance);
void pccl_comm_effect_ring_changed(void *context, const struct pccl_id *ring, uint32_t count);
/*
 * Makes a job for an operation over the present ring of its group; for a send, between the two. The launch starts it.
 * NULL: out of memory.
 */
struct pccl_comm_op_job *pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                               const struct pccl_op_args *args);
/* The operation ends. Its job goes on without it, or is freed if it was never started. */
void pccl_comm_op_job_leave(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/*
 * The thread with this waiter was abandoned in the middle of a call: frees the jobs that it had not
 * launched yet.
 */
void pccl_comm_jobs_abandon(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Stops all running jobs, whose operations have failed. */
void pccl_comm_op_jobs_stop(struct pccl_communicator *comm);
/*
 * Waits until the engine has released the operation's job, or all jobs. The lock is released
 * meanwhile.
 */
void pccl_comm_op_job_await(struct pccl_communicator *comm, const struct pccl_comm_op *operation);
void pccl_comm_op_jobs_await(struct pccl_communicator *comm);

/* The part of the member with this rank has come: its caller is to see it, if it wants to. */
void pccl_comm_op_arrived(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint32_t rank);
/* The operation's outcome is known, op (may be NULL) has it. To be called once. */
void pccl_comm_op_decided(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct pccl_peer_op *op,
                          bool committed);

/* The machine broke: all operations have failed, except those decided before. */
void pccl_comm_ops_give_up(struct pccl_communicator *comm);
/* The engine has finished with the job's buffers, after a success. */
void pccl_comm_job_rests(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* The engine has released the job: starts it again if the view has a new ring for it, else frees it. */
void pccl_comm_job_released(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* The engine is dead and has released all jobs: frees them. */
void pccl_comm_jobs_lost(struct pccl_communicator *comm);

#endif
