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
 * A bulk operation in the engine's hands. Exists from launch until `released`, which may be after the operation's end.
 */
struct pccl_comm_op_job {
    struct pccl_engine_job job;
    struct pccl_comm_op *operation; /* NULL: the operation has ended, and the job has been stopped */
    size_t bytes;                   /* size of the job and of the lists of its config behind it */
    struct pccl_id *ring;           /* ring of the config, which a restart changes */
    uint32_t *positions;            /* positions of the config, likewise */
    bool started, stopped, at_rest;
    bool restarts;       /* starts again once it is released, unless the operation has been decided */
    uint64_t started_us; /* latest start, at the time of the machine's step */
    uint64_t entry;      /* number of the operation in the recorder; 0: it has not ended */
    struct pccl_comm_op_job *previous, *next;
    struct pccl_telemetry_flow sights[]; /* telemetry of the job's flows, filled in by the engine */
};

/* A communicator's part. */
struct pccl_comm_data {
    struct pccl_engine *engine;    /* NULL: not started */
    struct pccl_comm_op_job *jobs; /* list of the jobs that have not been released */
};

/* ---- effects of the machine ---- */
/* Ends the caller's operation with the machine's, unless a second step follows. */
void pccl_comm_effect_op_decided(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_start(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_stop(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_restart(void *context, struct pccl_peer_op *op);
void pccl_comm_effect_op_gone(void *context, const struct pccl_instance *instance);
void pccl_comm_effect_ring_changed(void *context, const struct pccl_id *ring, uint32_t count);
/*
 * Makes a job for an operation over the current ring of its group; for a send, between the two peers. The launch starts
 * it. Returns NULL if out of memory.
 */
struct pccl_comm_op_job *pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                               const struct pccl_op_args *args);
/* Detaches the job of an operation that ends; frees it if it was never started. */
void pccl_comm_op_job_leave(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/* Detaches the waiter of an abandoned call from all jobs, and frees the jobs that the call had not launched yet. */
void pccl_comm_jobs_abandon(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Stops all running jobs, whose operations have failed. */
void pccl_comm_op_jobs_stop(struct pccl_communicator *comm);
/* Wait until the engine has released the operation's job, or all jobs. The lock is released during the wait. */
void pccl_comm_op_job_await(struct pccl_communicator *comm, const struct pccl_comm_op *operation);
void pccl_comm_op_jobs_await(struct pccl_communicator *comm);

/* Notes that the part of the member with this rank has arrived, if the caller wants to see arrivals. */
void pccl_comm_op_arrived(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint32_t rank);
/* Ends an operation whose outcome is known; `op` (may be NULL) has it. Call once. */
void pccl_comm_op_decided(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct pccl_peer_op *op,
                          bool committed);

/* Fails all operations but those decided before. Called when the machine broke. */
void pccl_comm_ops_give_up(struct pccl_communicator *comm);
/* Notes that the engine no longer needs the buffers of a successful job. */
void pccl_comm_job_rests(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* Restarts a released job if the view has a new ring for it; otherwise frees it. */
void pccl_comm_job_released(struct pccl_communicator *comm, struct pccl_comm_op_job *job);
/* Frees all jobs, which a dead engine has released. */
void pccl_comm_jobs_lost(struct pccl_communicator *comm);

#endif
