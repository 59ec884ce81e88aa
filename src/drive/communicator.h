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

/* A thread blocked in a call. Lives on its stack; touched under the lock. */
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

/* ---- comm_callers.c: who is inside. Any thread, without the lock ---- */

/* A public call begins. false: the communicator is closed or being destroyed. */
PCCL_MUST_CHECK bool pccl_comm_admit(struct pcclComm_t *comm);
/* It ends: the communicator must not be touched any more. */
void pccl_comm_let_out(struct pcclComm_t *comm);
/* Nobody is admitted from now on. */
void pccl_comm_refuse(struct pcclComm_t *comm);
/* The same, and the caller is who destroys it. false: another thread is. */
PCCL_MUST_CHECK bool pccl_comm_shut(struct pcclComm_t *comm);
/* Waits until nobody is inside. Under the lock, which is let go meanwhile. */
void pccl_comm_await_callers(struct pcclComm_t *comm);

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

/* ---- comm_wait.c: under the lock, which is let go meanwhile ---- */

/*
 * Until pccl_comm_fire(waiter); takes that back. The waiter must be zeroed before its first use. _until: or until the
 * time has come; false: it has not fired.
 */
void pccl_comm_wait(struct pcclComm_t *comm, struct pccl_waiter *waiter);
PCCL_MUST_CHECK bool pccl_comm_wait_until(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us);
/* Until the call is done; whenever its waiter is fired before that, `work` (without the lock) does what has come. */
void pccl_comm_attend(struct pcclComm_t *comm, struct pccl_call_slot *slot, void (*work)(void *session), void *session);
/* waiter may be NULL. */
void pccl_comm_fire(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* The connection that a leader reads is going away. */
void pccl_comm_unseat_leader(struct pcclComm_t *comm);

/* ---- comm_engine.c: what a reduction waits for ---- */
/* The outcome of the reduction is known. Once. */
void pccl_comm_reduction_decided(struct pcclComm_t *comm, struct pccl_comm_op *reduction, bool committed);

/* ---- comm_machine.c: visits to the machine, under the lock; INTERNAL when there is none any more ---- */
void pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event); /* fills in the time */
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask(struct pcclComm_t *comm,
                                               enum pccl_call call); /* CONNECT UPDATE PENDING OPTIMIZE */
PCCL_MUST_CHECK enum pccl_status pccl_comm_launch(struct pcclComm_t *comm, const struct pccl_launch *launch,
                                                  struct pccl_op **op);
void pccl_comm_op_awaited(struct pcclComm_t *comm, struct pccl_op *op, bool blocked);
void pccl_comm_op_release(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_op_done(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_op_failed(struct pcclComm_t *comm, struct pccl_op *op, enum pccl_class class,
                         const struct pccl_text *words);
void pccl_comm_op_abort(struct pcclComm_t *comm, struct pccl_op *op, const struct pccl_text *words);
void pccl_comm_announced(struct pcclComm_t *comm, const struct pccl_id *from, const struct pccl_msg_ready *ready);
void pccl_comm_link_measured(struct pcclComm_t *comm, const struct pccl_id *peer, uint32_t rtt_us, uint64_t rate);
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask_sync(struct pcclComm_t *comm, const struct pccl_sync_vote *vote);
void pccl_comm_sync_touched(struct pcclComm_t *comm);
void pccl_comm_sync_proven(struct pcclComm_t *comm, const struct pccl_proof *proof);
void pccl_comm_sync_done(struct pcclComm_t *comm, bool complete, const struct pccl_text *words);
void pccl_comm_way_measured(struct pcclComm_t *comm, const struct pccl_peer_measurement *measurement);
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask_describe(struct pcclComm_t *comm);
void pccl_comm_leave_run(struct pcclComm_t *comm);
/* Under the lock. An invariant broke elsewhere than in the machine: all that waits ends, in words with where. */
void pccl_comm_break(struct pcclComm_t *comm, const char *where);
/* On the thread of the call. It broke in the session of this one, SYNC or OPTIMIZE, of which nothing is used again. */
void pccl_comm_break_session(struct pcclComm_t *comm, enum pccl_call call);
PCCL_MUST_CHECK enum pccl_status pccl_comm_judge_link(struct pcclComm_t *comm, const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *words);

/* ---- comm_master.c: the connection to the master; on the loop, under the lock ---- */
void pccl_comm_master_settle(struct pcclComm_t *comm);
void pccl_comm_effect_dial_master(void *context);
void pccl_comm_effect_close_master(void *context);
void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length);
void pccl_comm_effect_accept_master(void *context);

/* ---- comm_engine.c: the data plane ---- */
/* Starts the engine, if it does not run. SYSTEM or MEMORY with words. Without the lock. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_engine_start(struct pcclComm_t *comm, struct pccl_text *words);
/* Before joint calls: tells the machine what reductions showed of the links to other peers. Under the lock. */
void pccl_comm_measure(struct pcclComm_t *comm);
void pccl_comm_effect_op_start(void *context, struct pccl_op *op);
void pccl_comm_effect_op_stop(void *context, struct pccl_op *op);
void pccl_comm_effect_op_gone(void *context, const struct pccl_instance *instance);
void pccl_comm_effect_ring_changed(void *context, const struct pccl_id *ring, uint32_t count);
/* Under the lock, a job for a reduction over the present ring, to be started by its launch. NULL: out of memory. */
struct pccl_comm_job *pccl_comm_job_make(struct pcclComm_t *comm, struct pccl_comm_op *reduction, const void *sendbuf,
                                         const struct pccl_descriptor *descriptor);
/* The reduction ends: its job goes on without it, or, if it was never started, away. */
void pccl_comm_job_leave(struct pcclComm_t *comm, struct pccl_comm_op *reduction);
/* Stops all that run: their operations have failed. */
void pccl_comm_jobs_stop(struct pcclComm_t *comm);
/* Waits until the engine has released the reduction's job, or all. Under the lock, which is let go meanwhile. */
void pccl_comm_job_await(struct pcclComm_t *comm, const struct pccl_comm_op *reduction);
void pccl_comm_jobs_await(struct pcclComm_t *comm);

/* ---- comm_sync.c: the synchronization under way; under the lock ---- */
/*
 * Brings the session's state before the group and serves and fetches until the call has ended. Takes its time; the lock
 * is let go meanwhile.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_synchronize(struct pcclComm_t *comm, struct pccl_sync_session *session,
                                                       const struct pccl_sync_vote *vote);
/* The call is over, by whatever its slot says. */
void pccl_comm_sync_over(struct pcclComm_t *comm);
void pccl_comm_effect_sync_plan(void *context, const struct pccl_sync_plan *plan);
void pccl_comm_effect_sync_donor(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                 bool holds_unequal, const struct pccl_proof *proof,
                                 const struct pccl_address *candidates, uint32_t count);
/* A connection of one who fetches has been through its handshake. Not OK: the socket is still the caller's. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sync_accept(struct pcclComm_t *comm, const struct pccl_id *peer,
                                                       struct pccl_handover *handover);
/* The session's events, on the thread of the call. */
void pccl_comm_on_touching(void *comm);
void pccl_comm_on_proven(void *comm, const struct pccl_proof *proof);
void pccl_comm_on_fetched(void *comm, bool complete, const struct pccl_text *words);

/* ---- comm_topology.c: the optimisation under way, and the question for the links; under the lock ---- */
/* Votes, tests ways and answers tests until the call has ended. Takes its time; the lock is let go meanwhile. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_optimize(struct pcclComm_t *comm, struct pccl_measure_session *session);
/* The call is over, by whatever its slot says. */
void pccl_comm_optimize_over(struct pcclComm_t *comm);
void pccl_comm_effect_measure(void *context, const struct pccl_peer_test *test);
/* A connection of one who tests has been through its handshake. Not OK: the socket is still the caller's. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_measure_accept(struct pcclComm_t *comm, const struct pccl_id *peer,
                                                          struct pccl_handover *handover);
/* What sessions log, on their threads: with the names of peers. The lock is not held. */
void pccl_comm_on_log(void *comm, enum pccl_log_level level, const char *line);
/* The session's event, on the thread of the call. */
void pccl_comm_on_measured(void *comm, const struct pccl_measure_result *result);
/*
 * Asks the master, and waits; the lock is let go meanwhile. OK: *text is the caller's, to be released, of *length
 * bytes. USAGE: not in a run, or another thread asks. PEER_LOST: out of the run meanwhile. TIMEOUT, MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_describe(struct pcclComm_t *comm, char **text, size_t *length);
void pccl_comm_effect_described(void *context, const struct pccl_bytes *text);
/* There will be no answer. */
void pccl_comm_describe_over(struct pcclComm_t *comm, enum pccl_status status);

/* ---- comm_links.c: links to peers; on the loop, under the lock ---- */
/* How many connections are worth while over a path: a long one needs several to fill it. */
uint32_t pccl_comm_pool_size(const struct pcclComm_t *comm, uint32_t rtt_us);
/* The engine's event: a connection is over. Under the lock, on the engine's thread. */
void pccl_comm_link_ended(struct pcclComm_t *comm, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                          enum pccl_link_end how, bool purposely);
void pccl_comm_links_settle(struct pcclComm_t *comm);
/* Notes that all are to be closed; the next settle does it. */
void pccl_comm_links_close_all(struct pcclComm_t *comm);
void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection);
extern const struct pccl_connection_events pccl_comm_link_events;
void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                const struct pccl_address *candidates, uint32_t count);
void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming);

/* Under the lock: a member of a run? */
bool pccl_comm_is_connected(const pcclComm_t *comm);
/* Why not: USAGE, or INTERNAL after a defect, with words. */
enum pccl_status pccl_comm_why_unconnected(const pcclComm_t *comm, struct pccl_text *words);

#endif
