/*
 * A peer's membership in this process: the state machine of peer/ under one lock, and a control thread with an event
 * loop that keeps heartbeats, timers and sockets going whatever the application does.
 *
 * Application threads take the lock, call the machine and send on the connection to the master themselves; while they
 * wait for an answer they may also read it themselves (wait.c), so that a small operation costs no switch to the
 * control thread. What needs the loop (dialling, closing, waiting for room to send) is noted under the lock, and the
 * loop is woken. The machine's effects run under the lock, inside the machine, and only take notes.
 */
#ifndef PCCL_DRIVE_COMMUNICATOR_H
#define PCCL_DRIVE_COMMUNICATOR_H

#include "drive/params.h"
#include "net/connection.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/resolve.h"
#include "peer/peer.h"

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
    struct pccl_comm_op *decided; /* by next_decided: those of its reductions that were, newest first */
};

/* A joint call or connect under way. */
struct pccl_call_slot {
    bool outstanding, done, value;
    enum pccl_status status;
    struct pccl_waiter *waiter;
};

/* A launched reduction, from launch to await. */
struct pccl_comm_op {
    struct pccl_node by_tag;
    struct pccl_op *op; /* held; NULL: its machine is gone, and it had failed so: */
    enum pccl_status status;
    struct pccl_text words;
    void *recvbuf;
    uint32_t bytes;
    bool decided;
    bool awaited; /* a thread is in the await */
    struct pccl_waiter *waiter;
    struct pccl_comm_op *next_decided;
};

/* What we hold towards one other peer. */
struct pccl_comm_link {
    struct pccl_node by_peer;
    struct pcclComm_t *comm;
    struct pccl_id peer;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    struct pccl_dialer *dialer;
    struct pccl_connection *outgoing, *incoming;
    bool dial, close_outgoing, close_incoming; /* noted by the machine's effects, done by the loop */
    bool queued;
    struct pccl_comm_link *next_queued;
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

    /* under the lock */
    uv_mutex_t lock;
    struct pccl_peer *peer;                             /* NULL: connect was never called, or: */
    bool defect;                                        /* an invariant broke; nothing but destroying is left */
    struct pccl_id id;                                  /* of that machine */
    struct pccl_wire_scratch *scratch;                  /* owned */
    struct pccl_call_slot calls[PCCL_CALL_CONNECT + 1]; /* by enum pccl_call */
    struct pccl_table reductions;                       /* struct pccl_comm_op by tag */
    struct pccl_waiter *waiters;                        /* blocked, not leading */
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
    bool starved; /* an effect could not be noted: out of memory */

    /* the control thread */
    bool started;
    bool on_loop; /* the holder of the lock is the control thread */
    bool woken;   /* the loop has been asked to come */
    bool stop;    /* wind up */
    bool wound_up;
    bool ended;        /* the thread is at its end: it can be joined */
    bool stuck;        /* it waits for the system's resolver and can be left behind */
    bool orphan;       /* it was left behind: the thread frees everything */
    uv_cond_t changed; /* ended or stuck came true, or a waiter without a condition of its own has fired */
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

uint64_t pccl_comm_now_us(void);

/* NULL: out of memory. masters: 1..PCCL_MASTER_ADDRESSES_MAX. */
struct pcclComm_t *pccl_comm_create(const struct pccl_params *params, const struct pccl_host *masters,
                                    uint32_t master_count);
/* Leaves the run, ends the thread, frees. From any state; no other thread may be inside. */
void pccl_comm_destroy(struct pcclComm_t *comm);

/* The lock, for application threads. Leaving sends what waits, wakes the loop if needed, and writes the log. */
void pccl_comm_enter(struct pcclComm_t *comm);
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

/* Until pccl_comm_fire(waiter); takes that back. The waiter must be zeroed before its first use. */
void pccl_comm_wait(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* waiter may be NULL. */
void pccl_comm_fire(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* The connection that a leader reads is going away. */
void pccl_comm_unseat_leader(struct pcclComm_t *comm);

/* The outcome of the reduction is known: its waiter hears of it. Once. */
void pccl_comm_reduction_decided(struct pcclComm_t *comm, struct pccl_comm_op *reduction);
/* ---- comm_machine.c: visits to the machine, under the lock; INTERNAL when there is none any more ---- */
void pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event); /* fills in the time */
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask(struct pcclComm_t *comm,
                                               enum pccl_call call); /* CONNECT UPDATE PENDING */
PCCL_MUST_CHECK enum pccl_status pccl_comm_launch(struct pcclComm_t *comm, const struct pccl_launch *launch,
                                                  struct pccl_op **op);
void pccl_comm_op_awaited(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_op_release(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_leave_run(struct pcclComm_t *comm);
PCCL_MUST_CHECK enum pccl_status pccl_comm_judge_link(struct pcclComm_t *comm, const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *words);

/* ---- comm_master.c: the connection to the master; on the loop, under the lock ---- */
void pccl_comm_master_settle(struct pcclComm_t *comm);
void pccl_comm_effect_dial_master(void *context);
void pccl_comm_effect_close_master(void *context);
void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length);
void pccl_comm_effect_accept_master(void *context);

/* ---- comm_links.c: links to peers; on the loop, under the lock ---- */
void pccl_comm_links_settle(struct pcclComm_t *comm);
/* Notes that all are to be closed; the next settle does it. */
void pccl_comm_links_close_all(struct pcclComm_t *comm);
void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection);
extern const struct pccl_connection_events pccl_comm_link_events;
void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_address *candidates,
                                uint32_t count);
void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming);

#endif
