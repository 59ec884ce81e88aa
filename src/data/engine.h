/*
 * The engine: a communicator's data plane. One thread with its own event loop moves the bytes of the exchange
 * (collective/exchange.h) over the pool of connections to other peers. It never blocks and never spins, and connections
 * have no threads.
 *
 * Does not know the master, views or outcomes: its caller starts and stops jobs.
 *
 * Threads: any thread may call any function here, also under the communicator's lock; the functions only record
 * requests and wake the engine's thread. Events occur on the engine's thread, without the engine's lock, so they may
 * take the communicator's lock and call the functions here.
 */
#ifndef PCCL_DATA_ENGINE_H
#define PCCL_DATA_ENGINE_H

#include "collective/exchange.h"
#include "net/channel.h"
#include "telemetry/recorder.h"

struct pccl_engine;

/* Reason for stopping a job. */
enum pccl_job_end {
    PCCL_JOB_COMMITTED,
    PCCL_JOB_ABORTED, /* for all peers and finally: the rest of the data being sent does not matter */
    /*
     * cannot succeed in this view; starts again in a later one, or is forgotten
     *                             (pccl_engine_forget)
     */
    PCCL_JOB_BROKEN_OFF,
    PCCL_JOB_GIVEN_UP, /* this peer leaves; others may still succeed, so none may get filler */
};

/*
 * One operation, from start to `released`. The caller owns it and everything that its config points to, and must not
 * move them.
 */
struct pccl_engine_job {
    struct pccl_transfer_config config; /* filled in by the caller, except for `user` */
    /* Belong to the engine, under its lock: */
    bool stopped, queued;
    enum pccl_job_end end;
    struct pccl_engine_job *next;
    /* Belong to the engine's thread: */
    struct pccl_transfer *transfer;
    bool started, due_stop;
    enum pccl_job_end due_end;
    bool is_done, is_at_rest, told_done, told_at_rest;
    bool noted;
    struct pccl_engine_job *next_taken, *next_noted;
    struct pccl_traffic traffic; /* valid in the events done, at_rest, released; complete once at rest */
};

struct pccl_engine_events {
    void *context;
    /*
     * Reports that the part of the member in this position has arrived, for a job that reports arrivals; before `done`.
     */
    void (*arrived)(void *context, struct pccl_engine_job *job, uint32_t position);
    /*
     * Reports that this peer's result is complete. at_rest: the engine no longer needs the caller's memory, except to
     * restore the backup of an operation in place after an abort.
     */
    void (*done)(void *context, struct pccl_engine_job *job, bool at_rest);
    /* Reports rest, after `done` with at_rest false. */
    void (*at_rest)(void *context, struct pccl_engine_job *job);
    void (*failed)(void *context, struct pccl_engine_job *job, enum pccl_class class, const struct pccl_text *reason);
    /*
     * Reports, after stop, that the caller's memory is restored or complete, and no longer used. Once, as the last
     * event of a job.
     */
    void (*released)(void *context, struct pccl_engine_job *job);
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * Reports that the other side has ended a connection, or it broke; it is closed already. The failures that it
     * causes follow. Another thread may close the slot and add its next connection before this event gets the caller's
     * lock; ignore the event if pccl_engine_holds returns true. `rejected` is NULL, or the reason: a message over it
     * was invalid, and for that this side, or the other side by its link_bye, has ended it.
     */
    void (*ended)(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot, enum pccl_link_end how,
                  bool purposely, const struct pccl_text *rejected);
    /*
     * Reports that an invariant broke: the engine is dead and has released the memory of all jobs. The last event of
     * the engine, perhaps during another one. Later requests have no effect.
     */
    void (*broken)(void *context);
};

struct pccl_engine_config {
    uint64_t hash_seed; /* random seed, for tables whose keys peers choose */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max, window_bytes;
    uint32_t linger_ms; /* limit for sending good-byes */
};

/* Starts the engine's thread. Returns 0, or a negative libuv error with a reason. */
PCCL_MUST_CHECK int pccl_engine_create(const struct pccl_engine_config *config, const struct pccl_engine_events *events,
                                       struct pccl_engine **engine, struct pccl_text *reason);
/*
 * Sends link_bye on all connections, closes them, ends the thread and frees the engine. Not from the engine's thread,
 * and not under a lock that an event takes. Every job must have been released.
 */
void pccl_engine_destroy(struct pccl_engine *engine);
/*
 * Gives this peer a new identity and closes all connections of the old one. Every job must have
 * been released.
 */
void pccl_engine_rename(struct pccl_engine *engine, const struct pccl_id *self);

/*
 * Passes the members of the current view: data of newcomers leaves them the room that they need. If memory is short,
 * this call has no effect, and data sent ahead may have to wait.
 */
void pccl_engine_admit(struct pccl_engine *engine, const struct pccl_id *members, uint32_t count);
/* Forgets an operation that has ended, and does not run here now or later. */
void pccl_engine_forget(struct pccl_engine *engine, const struct pccl_instance *instance);

/* Starts the operation; `failed` follows if that is not possible. */
void pccl_engine_start(struct pccl_engine *engine, struct pccl_engine_job *job);
/*
 * Stops the job, because the outcome is known; `released` follows soon, also when the job had failed. Call once for
 * each start.
 */
void pccl_engine_stop(struct pccl_engine *engine, struct pccl_engine_job *job, enum pccl_job_end end);

/*
 * Passes the engine a connection that has completed its handshake. If the slot had one before, the caller has closed it
 * (pccl_engine_close). On MEMORY nothing has changed, and the caller still owns the connection.
 */
PCCL_MUST_CHECK enum pccl_status pccl_engine_add(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                                 uint32_t slot, struct pccl_handover *handover);
/* Completes the message being sent, sends link_bye and closes; for all slots with PCCL_POOL_MAX. No event follows. */
void pccl_engine_close(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot);
/* Ends a connection like one that the other side closes: `ended` follows, and the operations that rely on it fail. */
void pccl_engine_cut(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot);
/* Returns true if the slot (with PCCL_POOL_MAX: any slot) has a connection that was not closed and has not ended. */
PCCL_MUST_CHECK bool pccl_engine_holds(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot);
/*
 * Returns measurements of the outgoing connections to this peer, made when operations ended that had sent enough over
 * them: the smallest round trip (0: unknown) and the sum of the rates, in bytes per second. Sets `shared` if other
 * links used the same line, so that the link can carry at least that. Returns false if there is no new measurement
 * since the last call.
 */
PCCL_MUST_CHECK bool pccl_engine_link_figures(struct pccl_engine *engine, const struct pccl_id *peer, uint32_t *rtt_us,
                                              uint64_t *rate, bool *shared);
/*
 * Describes at most `max` connections: the open ones, with figures at most a second old, and the latest that ended.
 * Returns the number of all. Waits only for the engine's lock.
 */
uint32_t pccl_engine_connections(struct pccl_engine *engine, struct pccl_telemetry_connection *connections,
                                 uint32_t max);

#endif
