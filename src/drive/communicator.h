/*
 * A peer in this process: the peer's state machine (src/peer) under one lock, and a control thread whose event loop
 * handles heartbeats, timers and sockets even while the application is busy.
 *
 * Application threads take the lock, step the state machine and send to the master themselves. While they wait for an
 * answer they may also read it themselves (comm_wait.c), so a small operation does not have to switch to the control
 * thread. The state machine's effects run inside a step, under the lock. If an effect needs the loop (to dial, to
 * close, to wait until a socket accepts more output), it only requests the work, and the loop is woken to do it.
 *
 * The header of each module (comm_lock.h, comm_links.h and others) declares a struct with the module's part of the
 * state, which only that module changes. This header declares the shared state: the lock, the state machine and the
 * control thread.
 */
#ifndef PCCL_DRIVE_COMMUNICATOR_H
#define PCCL_DRIVE_COMMUNICATOR_H

#include "core/list.h"
#include "config/errors.h"
#include "config/params.h"
#include "drive/comm_callers.h"
#include "drive/comm_calls.h"
#include "drive/comm_group.h"
#include "drive/comm_jobs.h"
#include "drive/comm_links.h"
#include "drive/comm_lock.h"
#include "drive/comm_log.h"
#include "drive/comm_master.h"
#include "drive/comm_telemetry.h"
#include "drive/comm_sync.h"
#include "drive/comm_topology.h"
#include "drive/comm_wait.h"
#include "drive/comm_time.h"
#include "drive/comm_watch.h"
#include "drive/comm_op.h"
#include "net/clock.h"
#include "net/listener.h"
#include "os/local.h"
#include "net/reactor.h"
#include "peer/peer.h"

enum {
    PCCL_COMMUNICATOR_LINGER_MS = 1000,   /* time limit for sending the last messages on a closing connection */
    PCCL_COMMUNICATOR_TICK_MS = 250,      /* longest interval between wake-ups of the control thread */
    PCCL_COMMUNICATOR_TICK_MAX_MS = 1000, /* longest interval in a large run, where it is 1 ms per member */
    PCCL_COMMUNICATOR_STAGGER_MS = 150,   /* delay between attempts at the candidate addresses of one peer */
};

struct pccl_comm_list;

struct pccl_communicator {
    struct pcclComm_t handle;

    /* Constant: */
    struct pccl_params params;
    struct pccl_keys *keys; /* owned; NULL: no encryption */

    struct pccl_comm_callers callers;
    atomic_bool drain_asked; /* set by any thread or signal handler; never cleared */

    /* Under the lock: */
    uv_mutex_t lock;
    struct pccl_peer *peer;            /* NULL if connect was never called or the state machine broke */
    bool defect;                       /* an invariant broke; the communicator can only be destroyed */
    bool loop_broken;                  /* the invariant broke on the control thread, whose loop is no longer used */
    bool leaving;                      /* the communicator is closed or being destroyed */
    bool starved;                      /* an effect could not request its work because memory ran out */
    struct pccl_id id;                 /* id of this peer in the state machine */
    struct pccl_wire_scratch *scratch; /* owned */
    uint64_t hash_seed;
    struct pccl_hash_key hash;
    struct pccl_comm_waiting waiting;
    struct pccl_call_slot calls[PCCL_CALL_OPTIMIZE + 1]; /* calls in progress, indexed by enum pccl_call */
    struct pccl_comm_ops operations;
    struct pccl_list_node lists; /* operation lists in progress, newest first; owned by api/list.c */
    struct pccl_comm_feedbacks feedbacks;
    struct pccl_comm_telemetry telemetry;
    struct pccl_comm_watch watch;
    struct pccl_comm_time time;
    uint64_t stepped_us;          /* start time of the state machine's current or latest step */
    struct pccl_list_node groups; /* groups that have not been destroyed */
    struct pccl_comm_topology topology;
    struct pccl_comm_master master;
    struct pccl_comm_links links;
    struct pccl_comm_data data;
    struct pccl_comm_log log;

    /* The control thread: */
    bool started;
    bool on_loop; /* true while the control thread holds the lock */
    bool woken;   /* the loop has been woken but has not run yet */
    bool stop;    /* the loop must shut down */
    bool is_shut_down;
    bool ended;  /* the thread is ending and can be joined */
    bool stuck;  /* the thread waits for the system's resolver and can be detached */
    bool orphan; /* the thread was detached and frees everything when it ends */
    /*
     * signaled when `ended`, `stuck` or `deserted` becomes true, a job is released, or a waiter without a condition
     * variable is signaled
     */
    uv_cond_t changed;
    uv_thread_t thread;
    struct pccl_reactor reactor;
    struct pccl_listener listener;
    struct pccl_local local_directory;
    const struct pccl_local *local; /* NULL if connections to peers on this host use TCP */
    uint64_t armed_us;              /* latest time at which the loop's timer will fire; under the lock */
};

#define PCCL_BEING_DESTROYED "the communicator is closed or being destroyed"

/* Creates a communicator for up to PCCL_MASTER_ADDRESSES_MAX masters. Returns NULL if out of memory. */
struct pccl_communicator *pccl_comm_create(const struct pccl_params *params, const struct pccl_host *masters,
                                           uint32_t master_count);
/* Encrypts all connections with these keys and takes ownership of them. Call before connect. */
void pccl_comm_secure(struct pccl_communicator *comm, struct pccl_keys *keys);
/*
 * Requests a drain of this peer. Async-signal-safe: the control thread or the next call passes the request to the state
 * machine.
 */
void pccl_comm_ask_drain(struct pccl_communicator *comm);
/* Passes a requested drain to the state machine, if there is one. Caller holds the lock. */
void pccl_comm_begin_drain(struct pccl_communicator *comm);
/* Leaves the run, which ends all waiting calls. Does not wait. */
void pccl_comm_evict_callers(struct pccl_communicator *comm);
/*
 * Leaves the run, waits until all callers have left, ends the threads and frees everything. Allowed in any state after
 * pccl_comm_begin_destroy.
 */
void pccl_comm_destroy(struct pccl_communicator *comm);

/*
 * First step of creating a new state machine. Starts the control thread and the listener if needed, and fills in the
 * config. One thread at a time, after the last state machine has ended. Called without the lock, as it may wait for the
 * resolver. Returns SYSTEM or MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_prepare(struct pccl_communicator *comm, struct pccl_peer_config *config,
                                                   struct pccl_text *reason);
/* Second step: creates the state machine. Caller holds the lock. Returns MEMORY with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_create_machine(struct pccl_communicator *comm,
                                                          const struct pccl_peer_config *config,
                                                          struct pccl_text *reason);

#endif
