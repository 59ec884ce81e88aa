/* Jobs of the engine for bulk operations, and the end of operations. Caller holds the lock unless stated otherwise. */
#ifndef PCCL_DRIVE_COMM_JOBS_H
#define PCCL_DRIVE_COMM_JOBS_H

#include "data/engine.h"
#include "peer/peer.h"

struct pccl_comm_op;
struct pccl_op_args;
struct pccl_waiter;
struct pccl_communicator;

/* A bulk operation in the engine. Exists from the launch until `released`, which may be after the operation's end. */
struct pccl_comm_op_job {
    struct pccl_engine_job job;
    struct pccl_comm_op *operation; /* NULL if the operation has ended and the job was stopped */
    size_t bytes;                   /* size of the allocation, including the lists of the config that follow the job */
    struct pccl_id *ring;           /* ring of the config; a restart changes it */
    uint32_t *positions;            /* positions of the config; a restart changes them */
    bool started, stopped, at_rest;
    bool restarts;       /* true if the job must start again once released, unless the operation has been decided */
    uint64_t started_us; /* time of the state machine's step that last started the job */
    uint64_t entry;      /* number of the operation in the recorder; 0 until the operation has ended */
    struct pccl_comm_op_job *previous, *next;
    struct pccl_telemetry_flow telemetry[]; /* telemetry of the job's flows, written by the engine */
};

struct pccl_comm_data {
    struct pccl_engine *engine;          /* NULL until started */
    struct pccl_comm_op_job *jobs;       /* list of jobs that have not been released */
    const struct pccl_comm_op_job *lone; /* job started last, if no other job ran at that time; otherwise NULL */
    bool caller_drives;                  /* the launch in progress is followed by a wait on the same thread */
    bool wants_loop;                     /* the wait that follows must drive the engine's loop */
    bool promised;                       /* this thread has promised to drive the loop soon (pccl_engine_start) */
};

/* ---- effects of the state machine ---- */
/* Ends the caller's operation when the state machine's operation is decided, unless a second one follows. */
void pccl_comm_effect_op_decided(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_start(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_stop(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_restart(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_gone(void *context, const struct pccl_instance *instance);
void pccl_comm_effect_ring_changed(void *context, const struct pccl_id *ring, uint32_t count);
/*
 * Creates a job for an operation over the current ring of its group or, for a send, between the two peers. The state
 * machine starts it during the launch. Returns NULL if out of memory.
 */
struct pccl_comm_op_job *pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                               const struct pccl_op_args *args);
/* Detaches the job from an operation that ends; frees the job if it was never started. */
void pccl_comm_op_job_leave(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/* Detaches the waiter of an abandoned call from all jobs, and frees the jobs that the call had not launched. */
void pccl_comm_jobs_abandon(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Stops all running jobs after their operations have failed. */
void pccl_comm_op_jobs_stop(struct pccl_communicator *comm);
/* Wait until the engine has released the operation's job, or all jobs. The lock is released during the wait. */
void pccl_comm_op_job_await(struct pccl_communicator *comm, const struct pccl_comm_op *operation);
void pccl_comm_op_jobs_await(struct pccl_communicator *comm);

/* Records that the part of the member with this rank has arrived, if the caller has requested arrivals. */
void pccl_comm_op_arrived(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint32_t rank);
/* Ends an operation whose outcome is known. Call once. */
void pccl_comm_op_decided(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/* Ends the wait of a thread for the operation in the sums of comm_time.h, if one is counted. */
void pccl_comm_op_unblock(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t now_us);

/* Fails all undecided operations after the state machine broke. */
void pccl_comm_ops_give_up(struct pccl_communicator *comm);
/* Records that the engine no longer needs the buffers of a successful job. */
void pccl_comm_job_rests(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* Restarts a released job if it must start again; otherwise frees it. */
void pccl_comm_job_released(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* Frees all jobs after the engine has broken and released them. */
void pccl_comm_jobs_lost(struct pccl_communicator *comm);

#endif
