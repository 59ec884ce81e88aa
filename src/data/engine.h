/*
 * The data plane of one communicator: one thread with its own event loop that moves the bytes of the exchange
 * (collective/exchange.h) over the pool of connections to other peers. Never blocks, never spins, no thread per
 * connection.
 *
 * Threads: every function here may be called by any thread, also under the communicator's lock; they only note what is
 * to be done and wake the engine's thread. Events come on the engine's thread, without any lock of the engine held, so
 * they may take the communicator's lock and call the functions here.
 */
#ifndef PCCL_DATA_ENGINE_H
#define PCCL_DATA_ENGINE_H

#include "collective/exchange.h"
#include "net/channel.h"

struct pccl_engine;

/* Why a job stops. */
enum pccl_job_end {
    PCCL_JOB_COMMITTED,
    PCCL_JOB_ABORTED,  /* for everybody, for ever: the rest of what is being sent does not matter any more */
    PCCL_JOB_GIVEN_UP, /* this peer leaves; the others may still come to a success, so nobody may get filler */
};

/* One operation, from start to `released`. The caller owns it and keeps it in place in between. */
struct pccl_engine_job {
    struct pccl_transfer_config
        config;           /* filled in by the caller; `user` and the ring pointer are the engine's to use */
    struct pccl_id *ring; /* config.ranks ids, allocated by the caller, released by it after `released` */
    void *user;           /* the caller's */
    /* the engine's, under its lock */
    bool stopped, queued;
    enum pccl_job_end end;
    struct pccl_engine_job *next;
    /* of its thread */
    struct pccl_transfer *transfer;
    bool started, due_stop;
    enum pccl_job_end due_end;
    bool is_done, is_at_rest, told_done, told_at_rest;
    bool noted;
    struct pccl_engine_job *next_taken, *next_noted;
    struct pccl_traffic traffic; /* inside the events done, at_rest and released; complete once it is at rest */
};

struct pccl_engine_events {
    void *context;
    /* This peer's result is complete. at_rest: the engine does not need the caller's memory any more (in place: but for
     * the backup, which waits for the outcome). */
    void (*done)(void *context, struct pccl_engine_job *job, bool at_rest);
    /* `done` had come with at_rest false; now it is true. */
    void (*at_rest)(void *context, struct pccl_engine_job *job);
    void (*failed)(void *context, struct pccl_engine_job *job, enum pccl_class class, const struct pccl_text *reason);
    /* After stop: the caller's memory is restored or complete and not touched any more. Once; the last event of a job.
     */
    void (*released)(void *context, struct pccl_engine_job *job);
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * A connection has ended by the other side's doing, or broke; it is closed already. The failures that it causes
     * follow. Another thread may close and add the slot's next connection before this event gets to the caller's lock:
     * pccl_engine_holds tells, and then the event is of no interest any more.
     */
    void (*ended)(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot, enum pccl_link_end how,
                  bool purposely);
    /*
     * An invariant broke: the engine is dead, and has released the memory of all jobs. The last event of the engine,
     * perhaps out of the middle of another one. What it is asked from now on is in vain.
     */
    void (*broken)(void *context);
};

struct pccl_engine_config {
    uint64_t hash_seed; /* random: for tables of what peers choose */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max, window_bytes;
    uint32_t linger_ms; /* for good-byes */
};

/* Starts its thread. 0, or a negative libuv error with a reason. */
PCCL_MUST_CHECK int pccl_engine_create(const struct pccl_engine_config *config, const struct pccl_engine_events *events,
                                       struct pccl_engine **engine, struct pccl_text *reason);
/*
 * Ends its thread and frees it: connections say bye and are closed. Not from the engine's thread, and not under a lock
 * that an event takes. Every job must have been released.
 */
void pccl_engine_destroy(struct pccl_engine *engine);
/* This peer has a new identity; all connections of the old one are closed. Every job must have been released. */
void pccl_engine_rename(struct pccl_engine *engine, const struct pccl_id *self);

/*
 * The members of the present view: what newcomers send leaves these the room that they need. Where memory is short,
 * this call and the next are without effect, and what is sent ahead may have to wait.
 */
void pccl_engine_admit(struct pccl_engine *engine, const struct pccl_id *members, uint32_t count);
/* An operation that never started here, and never will, has ended. */
void pccl_engine_forget(struct pccl_engine *engine, const struct pccl_instance *instance);

/* Takes the operation; `failed` tells if it could not even start. */
void pccl_engine_start(struct pccl_engine *engine, struct pccl_engine_job *job);
/* The outcome is known; `released` follows soon, also when the job had failed. Once for each job. */
void pccl_engine_stop(struct pccl_engine *engine, struct pccl_engine_job *job, enum pccl_job_end end);

/*
 * A connection that has been through link_hello and link_ok: the engine's from now on. The caller has closed the slot's
 * former one (pccl_engine_close) if it had one. MEMORY: nothing happened, it is still the caller's.
 */
PCCL_MUST_CHECK enum pccl_status pccl_engine_add(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                                 uint32_t slot, struct pccl_handover *handover);
/* Says link_bye and closes (what is being sent is completed first). slot PCCL_POOL_MAX: all. No event follows. */
void pccl_engine_close(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot);
/* There is such a connection that was neither closed nor has ended. slot PCCL_POOL_MAX: any. */
PCCL_MUST_CHECK bool pccl_engine_holds(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot);
/*
 * What the outgoing connections to this peer showed as operations ended that had sent enough over them: the smallest
 * round trip (0: unknown), and the rates added up, in bytes per second. false: nothing is known, or nothing that was
 * not told before.
 */
PCCL_MUST_CHECK bool pccl_engine_link_figures(struct pccl_engine *engine, const struct pccl_id *peer, uint32_t *rtt_us,
                                              uint64_t *rate);

#endif
