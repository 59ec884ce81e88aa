/*
 * A peer's membership in this process: the state machine of peer/ under one lock, and a control thread with an event
 * loop that keeps heartbeats, timers and sockets going whatever the application does.
 *
 * Application threads take the lock, call the machine and send on the connection to the master themselves; while they
 * wait for an answer they may also read it themselves (comm_wait.c), so that a small operation costs no switch to the
 * control thread. What needs the loop (dialing, closing, waiting for room to send) is noted under the lock, and the
 * loop is woken. The machine's effects run under the lock, inside the machine, and only take notes.
 *
 * Each concern has a header of its own with its part of the struct, which its .c file looks after. Here is what they
 * have in common: the lock, the machine, the control thread.
 */
#ifndef PCCL_DRIVE_COMMUNICATOR_H
#define PCCL_DRIVE_COMMUNICATOR_H

#include "config/errors.h"
#include "config/params.h"
#include "drive/comm_callers.h"
#include "drive/comm_calls.h"
#include "drive/comm_engine.h"
#include "drive/comm_links.h"
#include "drive/comm_lock.h"
#include "drive/comm_log.h"
#include "drive/comm_master.h"
#include "drive/comm_sync.h"
#include "drive/comm_topology.h"
#include "drive/comm_wait.h"
#include "drive/reduction.h"
#include "net/clock.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "peer/peer.h"

enum {
    PCCL_COMMUNICATOR_LINGER_MS = 1000, /* for good-byes */
    PCCL_COMMUNICATOR_TICK_MS = 250,    /* the control thread looks at the clock at least so often while in a run */
    PCCL_COMMUNICATOR_STAGGER_MS = 150, /* between the candidate addresses of one peer */
};

/* What files below have to ask of those above. Under the lock. */
struct pccl_comm_hooks {
    void (*apply_notes)(
        struct pcclComm_t *comm);             /* on the loop: carries out what the effects of the machine have noted */
    void (*give_up)(struct pcclComm_t *comm); /* the machine is what broke */
};

struct pcclComm_t {
    /* constant */
    const struct pccl_comm_hooks *hooks;
    uint64_t key;        /* names it in errors.h */
    uint32_t generation; /* of the process: net/fork.h */
    struct pccl_params params;

    struct pccl_comm_callers callers;

    /* under the lock */
    uv_mutex_t lock;
    struct pccl_peer *peer;            /* NULL: connect was never called, or: */
    bool defect;                       /* an invariant broke; nothing but destroying is left */
    bool loop_broken;                  /* ... on the control thread, whose loop is not touched */
    bool leaving;                      /* it is closed or being destroyed */
    bool starved;                      /* an effect could not be noted: out of memory */
    struct pccl_id id;                 /* of that machine */
    struct pccl_wire_scratch *scratch; /* owned */
    uint64_t hash_seed;                /* random */
    struct pccl_hash_key hash;         /* of all tables */
    struct pccl_comm_waiting waiting;
    struct pccl_call_slot calls[PCCL_CALL_OPTIMIZE + 1]; /* by enum pccl_call */
    struct pccl_comm_reductions reductions;
    struct pccl_comm_sync sync;
    struct pccl_comm_topology topology;
    struct pccl_comm_master master;
    struct pccl_comm_links links;
    struct pccl_comm_data data;
    struct pccl_comm_log log;

    /* the control thread */
    bool started;
    bool on_loop; /* the holder of the lock is the control thread */
    bool woken;   /* the loop has been asked to come */
    bool stop;    /* wind up */
    bool is_shut_down;
    bool ended;        /* the thread is at its end: it can be joined */
    bool stuck;        /* it waits for the system's resolver and can be left behind */
    bool orphan;       /* it was left behind: the thread frees everything */
    uv_cond_t changed; /* ended, stuck or deserted came true, a job was released, or a waiter without a condition of its
                          own has fired */
    uv_thread_t thread;
    struct pccl_reactor reactor;
    struct pccl_listener listener;
    uint64_t armed_us; /* when the loop comes, at the latest; under the lock */
};

#define PCCL_BEING_DESTROYED "the communicator is closed or being destroyed"

/* NULL: out of memory. masters: 1..PCCL_MASTER_ADDRESSES_MAX. */
struct pcclComm_t *pccl_comm_create(const struct pccl_params *params, const struct pccl_host *masters,
                                    uint32_t master_count);
/* Leaves the run, which ends the calls that wait. Waits for nobody. */
void pccl_comm_evict_callers(struct pcclComm_t *comm);
/* Leaves the run, waits until the callers inside have left, ends the threads, frees. From any state. After shut. */
void pccl_comm_destroy(struct pcclComm_t *comm);

/*
 * The two halves of making a new machine; one thread at a time, and only when the machine of before is over. First,
 * without the lock (it may wait for the resolver): the control thread and the listener, if they are not there yet, and
 * who we are. SYSTEM or MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_prepare(struct pcclComm_t *comm, struct pccl_peer_config *config,
                                                   struct pccl_text *reason);
/* Then, under the lock, the machine itself. MEMORY with a reason. */
PCCL_MUST_CHECK enum pccl_status
pccl_comm_create_machine(struct pcclComm_t *comm, const struct pccl_peer_config *config, struct pccl_text *reason);

#endif
