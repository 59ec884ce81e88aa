/*
 * The engine: the data plane of a communicator. One thread with its own event loop transfers the data of the exchange
 * (collective/exchange.h) over the pool of connections to other peers. It never spins, and blocks only
 * to wait for events.
 *
 * The engine is independent of the master, views and outcomes; its caller starts and stops jobs.
 *
 * Threads: unless stated otherwise, functions may be called on any thread, even under the communicator's lock; they
 * only queue requests and wake the engine's thread. Events are called on the engine's thread without the engine's lock,
 * so they may take the communicator's lock and call these functions. "The engine's thread" here means the owner of the
 * loop: a waiting caller may drive the loop in place of the thread (pccl_engine_drive), without the communicator's
 * lock.
 */
#ifndef PCCL_DATA_ENGINE_H
#define PCCL_DATA_ENGINE_H

#include "collective/exchange.h"
#include "net/channel.h"
#include "os/socket_wait.h"
#include "telemetry/recorder.h"

#include <stdatomic.h>

struct pccl_engine;

/* Reason for stopping a job. */
enum pccl_job_end {
    PCCL_JOB_COMMITTED,
    PCCL_JOB_ABORTED, /* failed for all peers; the rest of the data being sent does not matter */
    /* interrupted in this view; restarts in a later one, or is forgotten (pccl_engine_forget) */
    PCCL_JOB_BROKEN_OFF,
    PCCL_JOB_GIVEN_UP, /* this peer leaves; it must send no filler, because the operation may succeed for others */
};

/*
 * An operation, from start to `released`. The caller owns it and everything that its config refers to, and must not
 * move them.
 */
struct pccl_engine_job {
    struct pccl_transfer_config config; /* set by the caller, except for `user` */
    /* Owned by the engine, under its lock: */
    bool stopped, queued;
    enum pccl_job_end end;
    struct pccl_engine_job *next;
    /* Owned by the engine's thread: */
    struct pccl_transfer *transfer;
    bool started, due_stop;
    enum pccl_job_end due_end;
    bool is_done, is_at_rest, reported_done, reported_at_rest;
    bool noted;
    struct pccl_engine_job *next_taken, *next_noted;
    struct pccl_traffic traffic; /* valid in the events done, at_rest and released; complete once at rest */
};

struct pccl_engine_events {
    void *context;
    /*
     * Reports that the part provided by the member at this position has arrived, if the job has requested arrivals.
     * Called before `done`.
     */
    void (*arrived)(void *context, struct pccl_engine_job *job, uint32_t position);
    /*
     * Reports that this peer's result is complete. If at_rest is true, the engine no longer needs the caller's memory,
     * except to restore the backup of an operation in place after an abort.
     */
    void (*done)(void *context, struct pccl_engine_job *job, bool at_rest);
    /* Reports that the job is at rest, if at_rest was false in `done`. */
    void (*at_rest)(void *context, struct pccl_engine_job *job);
    void (*failed)(void *context, struct pccl_engine_job *job, enum pccl_class class, const struct pccl_text *reason);
    /*
     * Reports after a stop that the caller's memory is restored or complete and no longer in use. The last event of a
     * job; called exactly once for each stop.
     */
    void (*released)(void *context, struct pccl_engine_job *job);
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * Reports that a connection has broken or the other side has ended it; it is already closed. The failures that it
     * causes are reported afterward. Another thread may close the slot and add a new connection before this event takes
     * the caller's lock, so ignore the event if pccl_engine_holds returns true. `rejected` is NULL, unless one side has
     * ended the connection because a message was invalid; then it is the reason.
     */
    void (*ended)(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot, enum pccl_link_end how,
                  bool purposely, const struct pccl_text *rejected);
    /*
     * Reports that an invariant broke: the engine has stopped and released the memory of all jobs. The last event of
     * the engine; it may occur during another event. Later requests have no effect.
     */
    void (*broken)(void *context);
};

struct pccl_engine_config {
    uint64_t hash_seed; /* random seed for tables whose keys are chosen by peers */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max, window_bytes;
    uint32_t linger_ms; /* time limit for sending goodbyes */
    uint32_t spin_us;   /* time without events for which a driver polls before it sleeps; 0: no polling */
};

/* Starts the engine's thread. Returns 0, or a negative libuv error and a reason. */
PCCL_MUST_CHECK int pccl_engine_create(const struct pccl_engine_config *config, const struct pccl_engine_events *events,
                                       struct pccl_engine **engine, struct pccl_text *reason);
/*
 * Sends link_bye on all connections, closes them, ends the thread and frees the engine. Every job must have been
 * released. Must not be called on the engine's thread or under a lock that an event takes.
 */
void pccl_engine_destroy(struct pccl_engine *engine);
/* Changes the id of this peer and closes all connections of the old id. Every job must have been released. */
void pccl_engine_rename(struct pccl_engine *engine, const struct pccl_id *self);

/*
 * Sets the members of the current view, whose early data has priority over data of newcomers. Has no effect if out of
 * memory; early data may then have to wait.
 */
void pccl_engine_admit(struct pccl_engine *engine, const struct pccl_id *members, uint32_t count);
/* Forgets an operation that has ended and will not run here. */
void pccl_engine_forget(struct pccl_engine *engine, const struct pccl_instance *instance);

/*
 * Starts the operation. If it cannot be started, the event `failed` follows. drives: the caller intends to drive
 * the loop, so if the loop has no owner, the thread is not woken; the function then returns true, and the caller must
 * soon call pccl_engine_drive_begin or pccl_engine_release.
 */
bool pccl_engine_start(struct pccl_engine *engine, struct pccl_engine_job *job, bool drives);
void pccl_engine_release(struct pccl_engine *engine);
/*
 * Stops the job because the outcome is known. `released` follows soon, even if the job had failed. Call exactly once
 * for each start.
 */
void pccl_engine_stop(struct pccl_engine *engine, struct pccl_engine_job *job, enum pccl_job_end end);

/*
 * Adds a connection that has completed its handshake. If the slot had a connection, the caller must have closed it
 * (pccl_engine_close). On MEMORY nothing changes, and the caller still owns the connection.
 */
PCCL_MUST_CHECK enum pccl_status pccl_engine_add(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                                 uint32_t slot, struct pccl_handover *handover);
/*
 * Completes the message being sent, sends link_bye and closes the connection; with PCCL_POOL_MAX, the connections of
 * all slots. No event follows.
 */
void pccl_engine_close(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot);
/*
 * Ends a connection as if the other side had closed it: `ended` follows, and the operations that use the connection
 * fail.
 */
void pccl_engine_cut(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot);
/* Returns true if the slot, or with PCCL_POOL_MAX any slot, has a connection that was not closed and has not ended. */
PCCL_MUST_CHECK bool pccl_engine_holds(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot);
/*
 * Returns measurements of the outgoing connections to this peer: the smallest round trip (0: unknown) and the total
 * rate in bytes per second. Operations that have sent enough end with a measurement. `shared` is set if other
 * links used the same line, so the link may carry more. Returns false if there was no measurement since the last call.
 */
PCCL_MUST_CHECK bool pccl_engine_link_figures(struct pccl_engine *engine, const struct pccl_id *peer, uint32_t *rtt_us,
                                              uint64_t *rate, bool *shared);
/*
 * Describes at most `max` connections: the open ones, with samples at most a second old, and then the most
 * recently ended ones. Returns the total number. Waits only for the engine's lock.
 */
uint32_t pccl_engine_connections(struct pccl_engine *engine, struct pccl_telemetry_connection *connections,
                                 uint32_t max);

/* ---- driving: a waiting caller runs the loop ---- */

/*
 * Requests the loop from the thread, in order to drive it. Returns false if the thread does not own the loop. After
 * true, `wait` is woken when the loop is free, and the caller must then call pccl_engine_drive_begin or
 * pccl_engine_release.
 */
PCCL_MUST_CHECK bool pccl_engine_ask(struct pccl_engine *engine, const struct pccl_socket_wait *wait);
/*
 * Makes the calling thread the owner of the loop until pccl_engine_drive_end. Returns false if the loop has an owner
 * or cannot be added to `wait`, which must be the same in each call and valid until the engine is destroyed. promised:
 * pccl_engine_start or pccl_engine_ask has returned true; this call fulfills the promise.
 */
PCCL_MUST_CHECK bool pccl_engine_drive_begin(struct pccl_engine *engine, const struct pccl_socket_wait *wait,
                                             bool promised);
enum pccl_engine_drive {
    PCCL_DRIVE_INPUT, /* a shared socket of `wait` has input */
    PCCL_DRIVE_WOKEN, /* `fired` is set, `wait` was woken, or the deadline has passed */
    PCCL_DRIVE_LOST,  /* this thread no longer owns the loop */
};
/*
 * Runs the loop, including its events, and sleeps in between, until one of these happens. Must be called without locks.
 * deadline_us: UINT64_MAX means none. Events may set `fired`; any other thread that sets it must also wake `wait`.
 */
PCCL_MUST_CHECK enum pccl_engine_drive pccl_engine_drive(struct pccl_engine *engine,
                                                         const struct pccl_socket_wait *wait, const atomic_bool *fired,
                                                         uint64_t deadline_us);
/* Gives up the loop if the calling thread still owns it. Wakes the engine's thread for work that cannot wait. */
void pccl_engine_drive_end(struct pccl_engine *engine);
/* Wakes the thread, which then carries out requests that could have waited for the next driver. */
void pccl_engine_wake(struct pccl_engine *engine);
/*
 * Returns the number of times that a caller took the loop, and the number of times that the thread found work for which
 * it should have been woken. The second number is 0 unless there is a bug.
 */
void pccl_engine_counts(struct pccl_engine *engine, uint64_t *drives, uint64_t *rescues);

#endif
