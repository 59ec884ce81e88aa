/*
 * A peer's membership in this process: the state machine of peer/ under one lock, and a control thread with an event
 * loop that keeps heartbeats, timers and sockets going whatever the application does.
 *
 * Application threads take the lock, call the machine and send on the connection to the master themselves; while they
 * wait for an answer they may also read it themselves (comm_wait.c), so that a small operation costs no switch to the
 * control thread. What needs the loop (dialling, closing, waiting for room to send) is noted under the lock, and the
 * loop is woken. The machine's effects run under the lock, inside the machine, and only take notes.
 */
#ifndef PCCL_DRIVE_COMMUNICATOR_H
#define PCCL_DRIVE_COMMUNICATOR_H

#include "data/engine.h"
#include "config/errors.h"
#include "config/params.h"
#include "measure/session.h"
#include "net/clock.h"
#include "net/connection.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/resolve.h"
#include "peer/peer.h"
#include "sync/session.h"

#include <stdatomic.h>

enum {
    PCCL_MASTER_ADDRESSES_MAX = 16,
    PCCL_COMMUNICATOR_LINGER_MS = 1000, /* for good-byes */
    PCCL_COMMUNICATOR_TICK_MS = 250,    /* the control thread looks at the clock at least so often while in a run */
    PCCL_COMMUNICATOR_STAGGER_MS = 150, /* between the candidate addresses of one peer */
};

/* How a thread waits in a call (comm_callers.h says where it lives). Touched under the lock. */
struct pccl_waiter {
    bool fired;
    bool leads; /* it reads the master's connection itself */
    bool steps; /* it is inside the machine */
    uv_cond_t cond;
    bool has_cond;
    struct pccl_waiter *next;
    struct pccl_comm_op *over; /* by next_over: those of its reductions that are, newest first */
};

/* A joint call or connect under way. */
struct pccl_call_slot {
    bool outstanding, done, value;
    uint64_t revision; /* SYNC, a success: what the group holds */
    enum pccl_status status;
    struct pccl_epoch known;       /* of the attributes when it began */
    struct pccl_departed departed; /* after that, until it failed */
    struct pccl_waiter *waiter;
};

/* The question how the master sees the links of the group, until its answer is taken. */
struct pccl_comm_description {
    bool outstanding; /* a thread wants the answer */
    bool asked;       /* the machine has been asked, and has not answered: it takes one question at a time */
    enum pccl_status status;
    char *text; /* owned; NULL: there is none */
    size_t length;
    struct pccl_waiter *waiter;
};

/* A launched reduction, from launch to await. */
struct pccl_comm_op {
    struct pccl_node by_tag;
    struct pccl_op *op; /* held; NULL: its machine is gone, and this is what became of it: */
    enum pccl_status status;
    struct pccl_why why; /* its details, from launch on; with its failure who has left, too */
    uint32_t world;
    struct pccl_comm_job *job; /* bulk, as long as the engine has it */
    void *recvbuf;
    size_t bytes;
    bool tiny;
    bool decided, committed; /* the outcome is known; it is a success */
    bool over;               /* and the buffers are the caller's again: an await returns at once. Says so once. */
    bool awaited;            /* a thread is in the await */
    uint64_t lapses_us;      /* the machine is told then that no thread is; 0: it need not be told */
    struct pccl_traffic traffic;
    struct pccl_waiter *waiter;
    struct pccl_comm_op *next_over;
};

/* A bulk reduction in the engine's hands: from launch until `released`, maybe longer than the reduction. */
struct pccl_comm_job {
    struct pccl_job job;
    struct pccl_comm_op *reduction; /* NULL: it has ended */
    struct pccl_op *op;             /* until `stopped` */
    bool started, stopped, at_rest;
    struct pccl_comm_job *previous, *next;
};

/* One connection of a link to another peer, while it is dialled. */
struct pccl_comm_slot {
    struct pccl_comm_link *link;
    struct pccl_dialer *dialer;
};

/* What we hold towards one other peer: in each direction up to PCCL_POOL_MAX connections, which are the engine's. */
struct pccl_comm_link {
    struct pccl_node by_peer;
    struct pcclComm_t *comm;
    struct pccl_id peer;
    struct pccl_id ticket; /* for dialling it */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    uint64_t outgoing, incoming;               /* sets of slots that stand; a direction is up if it has one */
    bool asked;                                /* slot 0 is dialled for the machine, which waits for LINK_UP or DOWN */
    bool dial, close_outgoing, close_incoming; /* noted by the machine's effects, done by the loop */
    bool queued;
    struct pccl_comm_link *next_queued;
    /* the further slots, of which the machine knows nothing */
    uint32_t wanted; /* how many slots the outgoing direction should have */
    uint32_t pause_ms;
    uint64_t troubled_us;          /* when one of them last ended or could not be dialled */
    bool troubled;                 /* that is to be taken account of by the loop */
    bool in_no_hurry;              /* the other side ended one on purpose */
    struct pccl_comm_pause *pause; /* NULL: missing slots may be dialled */
    struct pccl_comm_slot slots[PCCL_POOL_MAX];
};

struct pccl_log_line {
    struct pccl_log_line *next;
    enum pccl_log_level level;
    char text[PCCL_WORDS_MAX + 1];
};

struct pcclComm_t {
    /* constant */
    uint64_t key;        /* names it in errors.h */
    uint32_t generation; /* of the process: net/fork.h */
    struct pccl_params params;
    struct pccl_host masters[PCCL_MASTER_ADDRESSES_MAX];
    uint32_t master_count;

    atomic_uint callers; /* application threads inside, and whether more may come: comm_callers.c */

    /* under the lock */
    uv_mutex_t lock;
    struct pccl_peer *peer;                              /* NULL: connect was never called, or: */
    bool defect;                                         /* an invariant broke; nothing but destroying is left */
    bool loop_broken;                                    /* ... on the control thread, whose loop is not touched */
    struct pccl_id id;                                   /* of that machine */
    struct pccl_wire_scratch *scratch;                   /* owned */
    struct pccl_call_slot calls[PCCL_CALL_OPTIMIZE + 1]; /* by enum pccl_call */
    struct pccl_sync_session *sync;                      /* of the call that is outstanding; NULL: none is */
    struct pccl_measure_session *measure;                /* the same */
    struct pccl_comm_description description;
    uint64_t hash_seed;           /* random */
    struct pccl_hash_key hash;    /* of all tables */
    struct pccl_table reductions; /* struct pccl_comm_op by tag */
    struct pccl_waiter *waiters;  /* blocked, not leading */
    struct pccl_waiter *leader;
    bool leading;    /* a leader, maybe unseated, has not come back yet */
    int leader_wake; /* -1: this system has none */
    struct pccl_log_line *log_oldest, *log_newest;

    /* the master, under the lock */
    struct pccl_connection *master;
    struct pccl_connection *closing; /* by next_dirty: to be closed by the loop */
    struct pccl_dialer *master_dialer;
    struct pccl_resolver *master_resolver;
    bool dial_master, cancel_master; /* notes */
    struct pccl_table links;         /* struct pccl_comm_link by hash of the peer's id */
    struct pccl_comm_link *queued_links;
    struct pccl_engine *engine; /* NULL: not started. Its events take the lock */
    struct pccl_comm_job *jobs; /* all that it has */
    bool starved;               /* an effect could not be noted: out of memory */
    uint32_t lapsing;           /* reductions with lapses_us */
    bool leaving;               /* it is closed or being destroyed */
    bool deserted;              /* and its last caller has left */
    uint32_t aborts;            /* how often pcclAbortOperations was called */

    /* the control thread */
    bool started;
    bool on_loop; /* the holder of the lock is the control thread */
    bool woken;   /* the loop has been asked to come */
    bool stop;    /* wind up */
    bool wound_up;
    bool ended;        /* the thread is at its end: it can be joined */
    bool stuck;        /* it waits for the system's resolver and can be left behind */
    bool orphan;       /* it was left behind: the thread frees everything */
    uv_cond_t changed; /* ended, stuck or deserted came true, a job was released, or a waiter without a condition of its
                          own has fired */
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t idle;
    uv_prepare_t prepare;
    uv_check_t check;
    struct pccl_listener listener;
    uint64_t polled_us, armed_us;
};

#define PCCL_BEING_DESTROYED "the communicator is closed or being destroyed"

/* NULL: out of memory. masters: 1..PCCL_MASTER_ADDRESSES_MAX. */
struct pcclComm_t *pccl_comm_create(const struct pccl_params *params, const struct pccl_host *masters,
                                    uint32_t master_count);
/* Leaves the run, which ends the calls that wait. Waits for nobody. */
void pccl_comm_send_out(struct pcclComm_t *comm);
/* Leaves the run, waits until the callers inside have left, ends the threads, frees. From any state. After shut. */
void pccl_comm_destroy(struct pcclComm_t *comm);

/* The lock, for application threads. Leaving sends what waits, wakes the loop if needed, and writes the log. */
void pccl_comm_enter(struct pcclComm_t *comm);
/* The same for who was left in the middle (net/guard.h), and may hold the lock. */
void pccl_comm_seize(struct pcclComm_t *comm);
void pccl_comm_leave(struct pcclComm_t *comm);
/* The first half of leaving: for those who keep the lock but are about to sleep. */
void pccl_comm_publish(struct pcclComm_t *comm);
void pccl_comm_wake_loop(struct pcclComm_t *comm);
/* The same for callbacks of the loop. */
void pccl_comm_loop_enter(void *comm);
void pccl_comm_loop_leave(void *comm);
/* Makes sure that the loop looks at the machine's deadline; after calls that may have made it earlier. */
void pccl_comm_check_deadline(struct pcclComm_t *comm);

/*
 * The two halves of making a new machine; one thread at a time, and only when the machine of before is over. First,
 * without the lock (it may wait for the resolver): the control thread and the listener, if they are not there yet, and
 * who we are. SYSTEM or MEMORY with words.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_prepare(struct pcclComm_t *comm, struct pccl_peer_config *config,
                                                   struct pccl_text *words);
/* Then, under the lock, the machine itself. MEMORY with words. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_renew(struct pcclComm_t *comm, const struct pccl_peer_config *config,
                                                 struct pccl_text *words);

/* Under the lock: a member of a run? */
bool pccl_comm_is_connected(const pcclComm_t *comm);
/* Why not: USAGE, or INTERNAL after a defect, with words. */
enum pccl_status pccl_comm_why_unconnected(const pcclComm_t *comm, struct pccl_text *words);

#endif
