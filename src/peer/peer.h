/*
 * A peer's control state machine: its session with the master, its view of the membership, its operations and votes,
 * and the links it should hold. Pure, like master/master.h: the driver turns the world into events and carries out the
 * effects; effects are called from inside the machine and must not call back into it. One caller at a time (the
 * driver's lock).
 */
#ifndef PCCL_PEER_PEER_H
#define PCCL_PEER_PEER_H

#include "core/address.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/table.h"
#include "core/text.h"
#include "wire/frame.h"
#include "wire/wire.h"

struct pccl_peer_config {
    struct pccl_id id, token, link_key; /* random, from the driver */
    uint64_t hash_seed;                 /* too: for tables of what others choose */
    uint32_t group;
    uint16_t port; /* the listening port */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    char name[PCCL_NAME_MAX + 1];
    uint32_t master_lost_ms; /* give up after so long without a master (must exceed its alone_ms) */
    uint32_t where_ms;       /* waiting for so long is told to the master and logged */
    uint32_t dial_ms;        /* first pause between dialling attempts; doubles up to dial_max_ms */
    uint32_t dial_max_ms;
    uint32_t op_timeout_ms;   /* 0: none. Default deadline of operations */
    uint32_t call_timeout_ms; /* 0: none. Deadline of connect and joint calls */
    uint32_t stuck_ms;        /* 0: never. Waiting in calls that cannot meet for so long is an error */
};
struct pccl_peer_config pccl_peer_defaults(void);

enum pccl_peer_event_kind {
    PCCL_PEER_MASTER_UP,       /* the connection to the master stands (hello not yet sent) */
    PCCL_PEER_MASTER_DOWN,     /* dialling failed, or the connection closed or broke; `words` says how */
    PCCL_PEER_MASTER_RECEIVED, /* a frame came */
    PCCL_PEER_MASTER_GARBAGE,  /* undecodable bytes came; `words` */
    PCCL_PEER_LINK_UP,         /* an outgoing link stands, or an incoming one was accepted */
    PCCL_PEER_LINK_DOWN,       /* it closed; or dialling failed; `how` */
    PCCL_PEER_TICK,            /* the deadline has passed */
};

struct pccl_peer_event {
    enum pccl_peer_event_kind kind;
    uint64_t now_us;
    const struct pccl_frame *frame; /* MASTER_RECEIVED */
    const struct pccl_msg *msg;
    const struct pccl_text *words; /* MASTER_DOWN, MASTER_GARBAGE */
    bool other_version;            /* MASTER_GARBAGE: an answer of another protocol version */
    struct pccl_id peer;           /* LINK_* */
    bool incoming;                 /* LINK_* */
    bool purposely;                /* LINK_DOWN: the other side said link_bye */
    enum pccl_link_end how;        /* LINK_DOWN */
    uint32_t rtt_us;               /* LINK_UP, outgoing: round trip as the system sees it; 0: unknown */
};

/* One launch of one tag. Owned by the machine; the caller holds it from launch to release. */
enum pccl_op_state {
    PCCL_OP_RUNNING,   /* launched; bulk: READY sent */
    PCCL_OP_DONE,      /* own part complete, DONE sent; a tiny operation is here at once */
    PCCL_OP_FAILED,    /* FAILED sent */
    PCCL_OP_DECIDED,   /* the outcome is known */
    PCCL_OP_TOMBSTONE, /* decided (aborted) before this peer launched it */
};
struct pccl_op {
    struct pccl_node by_instance; /* in the machine's table */
    struct pccl_node by_tag;
    struct pccl_op *older, *newer;  /* all operations, in order of creation */
    struct pccl_op *before, *after; /* those whose outcome is not known to all, in order of decision */
    struct pccl_instance instance;
    struct pccl_epoch start_view;
    struct pccl_epoch known; /* of the attributes at launch: the caller counts with who was there then */
    struct pccl_descriptor descriptor;
    enum pccl_op_state state;
    enum pccl_class class; /* DECIDED: NONE = committed */
    uint64_t decision;     /* the master's number of the outcome; 0: not told yet */
    bool tiny;
    bool started;   /* op_start was called for it */
    bool complete;  /* DONE was said; a bulk operation may fail behind it, and be committed for all that */
    bool held;      /* the caller has not released it */
    bool confirmed; /* the master's OUTCOME has come (a view change may decide before it) */
    bool unstable;  /* ... and is not known to all; in that list */
    bool awaited;   /* a caller is blocked in it */
    bool abort_sent;
    enum pccl_class abort_class;
    struct pccl_text abort_words;
    uint32_t world;   /* at launch */
    uint8_t *payload; /* owned: the contribution until decided, then the result (tiny) */
    uint32_t payload_bytes, payload_capacity;
    uint64_t launched_us, deadline_us, where_us;
    struct pccl_attributes attributes; /* at the decision */
    enum pccl_status lost_by;          /* not OK: it ended because this peer is out of the run, for this reason */
    struct pccl_text words;            /* why it was aborted */
    void *user;                        /* the driver's */
};

struct pccl_launch {
    uint64_t tag;
    struct pccl_descriptor descriptor;
    const uint8_t *payload; /* tiny: the caller's elements, copied */
    uint32_t payload_bytes;
    bool tiny;
    uint32_t timeout_ms; /* 0: the default */
    void *user;
};

/* Who left a group in some time, in that order: the first of them, and how many they are. */
struct pccl_departed {
    uint32_t count;
    struct pccl_id ids[PCCL_DEPARTED_TOLD_MAX];
};

/* What a peer brings to a synchronization of shared state. */
struct pccl_sync_vote {
    uint64_t revision;
    uint8_t strategy; /* pcclSharedStateSyncStrategy_t */
    bool unequal;     /* some tensors need not be the same everywhere */
    struct pccl_digest structure, content;
    const struct pccl_shape *shapes; /* the caller's; in place until the call has ended */
    uint32_t shape_count;
    const struct pccl_tensor_line *lines; /* the same, of the first tensors */
    uint32_t line_count;
};

/* What the group has elected, and what this peer does about it. */
struct pccl_sync_plan {
    uint64_t round, revision;
    bool requests; /* it fetches what it lacks from the donors; else it serves */
    bool takes_unequal;
    struct pccl_digest content;
};

/* A way to be measured, within an optimize call. */
struct pccl_peer_test {
    uint64_t number;
    struct pccl_id peer;
    uint32_t limit_ms;
    struct pccl_id ticket;
    const struct pccl_address *candidates;
    uint32_t candidate_count;
};

/* What it showed. */
struct pccl_peer_measurement {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0: by no fault of the way */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_peer_effects {
    void *context;
    /* Try to connect to the master (all its addresses); answer with MASTER_UP or MASTER_DOWN. */
    void (*dial_master)(void *context);
    void (*close_master)(void *context);
    void (*send_master)(void *context, const uint8_t *bytes, size_t length); /* a view valid during the call only */
    void (*accept_master)(void *context);                                    /* larger frames may be read */
    /* Open a link; answer with LINK_UP or LINK_DOWN{how}. At most one attempt per peer is under way. ticket: for the
     * link_hello. */
    void (*dial_link)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count);
    /* Say link_bye and close, or give up dialling; no event follows. */
    void (*close_link)(void *context, const struct pccl_id *peer, bool incoming);
    /* A blocking call is over: connect, update, pending, sync or optimize. `value`: the answer of pending. */
    void (*call_done)(void *context, enum pccl_call call, enum pccl_status status, bool value);
    void (*op_decided)(void *context, struct pccl_op *op);
    /* Bulk operations: start moving data; and stop, the outcome is known (report nothing more). */
    void (*op_start)(void *context, struct pccl_op *op);
    void (*op_stop)(void *context, struct pccl_op *op);
    /* One that was not launched here is over: it will never start. */
    void (*op_gone)(void *context, const struct pccl_instance *instance);
    /* The group's ring is this one now. */
    void (*ring_changed)(void *context, const struct pccl_id *ring, uint32_t count);
    /*
     * Within a sync call: the group has elected; and, for one who requests, one more peer to fetch from. A plan may
     * come again, and differ, after a restart of the master; its donors are named anew.
     */
    void (*sync_plan)(void *context, const struct pccl_sync_plan *plan);
    void (*sync_donor)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket, bool holds_unequal,
                       const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count);
    /* Within an optimize call: measure this way, and report by pccl_peer_measured. A later test replaces the one
     * before. */
    void (*measure)(void *context, const struct pccl_peer_test *test);
    /* The answer to pccl_peer_describe: text, valid during the call only; NULL: there will be none. */
    void (*described)(void *context, const struct pccl_bytes *text);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};

struct pccl_peer; /* peer/internal.h */

/* NULL: out of memory. Config, memory and effects are copied. */
struct pccl_peer *pccl_peer_create(const struct pccl_peer_config *config, const struct pccl_memory *memory,
                                   const struct pccl_peer_effects *effects, uint64_t now_us);
void pccl_peer_destroy(struct pccl_peer *peer);
void pccl_peer_step(struct pccl_peer *peer, const struct pccl_peer_event *event);
uint64_t pccl_peer_deadline(const struct pccl_peer *peer);

/* ---- calls: they return at once; blocking ones end in the call_done or op_decided effect (maybe before they return)
 * ---- */

/* USAGE: already connected or connecting. Ends with OK, MASTER_UNREACHABLE, REFUSED, VERSION, TIMEOUT ... */
PCCL_MUST_CHECK enum pccl_status pccl_peer_connect(struct pccl_peer *peer, uint64_t now_us);
/* USAGE: unconnected, or such a call is outstanding; PENDING_OPS: operations not released. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_update(struct pccl_peer *peer, uint64_t now_us);
/* USAGE: unconnected, or such a call is outstanding. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_pending(struct pccl_peer *peer, uint64_t now_us);
/*
 * Brings a shared state before the group. USAGE: unconnected, or such a call is outstanding; PENDING_OPS: operations
 * not released. Ends with OK (all hold the same, or this peer has what the plan asked it for), STATE (with words in
 * last_words), ABORTED, TIMEOUT, EXPELLED (the state does not go with the others'; this peer is out of the run).
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_sync(struct pccl_peer *peer, uint64_t now_us,
                                                const struct pccl_sync_vote *vote);
/* The round that is open: the name of a sync call from its vote to its end. */
uint64_t pccl_peer_sync_round(const struct pccl_peer *peer);
/* The plan's first write into memory is about to happen: until it is done the content is nobody's. */
void pccl_peer_sync_touched(struct pccl_peer *peer);
/* What the plan asked of a requester is there; or cannot be had, with words. The call ends when the round does. */
void pccl_peer_sync_proven(struct pccl_peer *peer, uint64_t now_us, const struct pccl_proof *proof);
void pccl_peer_sync_done(struct pccl_peer *peer, uint64_t now_us, bool complete, const struct pccl_text *words);
/* After OK: the revision that the group holds. */
uint64_t pccl_peer_sync_revision(const struct pccl_peer *peer);
/*
 * Measures the ways within the group and adopts the best ring. USAGE: unconnected, or such a call is outstanding;
 * PENDING_OPS: operations not released. Ends with OK, NO_RING (none exists, with words in last_words; the ring is
 * as it was), ABORTED, TIMEOUT. Given up when the tests have begun it ends as they do, within seconds.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_optimize(struct pccl_peer *peer, uint64_t now_us);
/* What the test showed. Of a test that is not the latest one it is ignored. */
void pccl_peer_measured(struct pccl_peer *peer, uint64_t now_us, const struct pccl_peer_measurement *measurement);
/*
 * Asks the master how it sees the links of the group; ends in the effect `described`. USAGE: unconnected, or asked
 * already. Not a joint call.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_describe(struct pccl_peer *peer, uint64_t now_us);
/*
 * What the data that flowed over the outgoing link to this peer showed: smallest round trip (0: unknown) and rate in
 * bytes per second (0: unknown, and nothing happens). To be said before joint calls, which may then make a new view.
 * The master is told when a figure has moved since it was told last.
 */
void pccl_peer_link_measured(struct pccl_peer *peer, uint64_t now_us, const struct pccl_id *id, uint32_t rtt_us,
                             uint64_t rate);
/* Gives up a joint call: it still ends by call_done, with ABORTED or with its result if that was decided before. */
void pccl_peer_withdraw(struct pccl_peer *peer, enum pccl_call call, uint64_t now_us);
/*
 * Launches an operation. TOO_FEW_PEERS (not numbered), ARGUMENT (the tag is in use; or tiny and too long), USAGE
 * (unconnected; or a joint call is outstanding), LIMIT, MEMORY. On OK *op is held by the caller until release; it may
 * be decided already, and then op_decided is not called for it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_launch(struct pccl_peer *peer, uint64_t now_us,
                                                  const struct pccl_launch *launch, struct pccl_op **op);
/*
 * Bulk: this peer's result is complete / it cannot go on, or what it had sent may be lost (also behind done: then the
 * others may never complete, unless all have). Ignored when the operation is decided.
 */
void pccl_peer_op_done(struct pccl_peer *peer, uint64_t now_us, struct pccl_op *op);
void pccl_peer_op_failed(struct pccl_peer *peer, uint64_t now_us, struct pccl_op *op, enum pccl_class class,
                         const struct pccl_text *words);
/* Asks for an abort; the outcome still comes by op_decided (and may be a commit). words may be NULL. */
void pccl_peer_op_abort(struct pccl_peer *peer, uint64_t now_us, struct pccl_op *op, enum pccl_class class,
                        const struct pccl_text *words);
/*
 * Another peer has started this as a bulk operation, which has not been started here. If this peer launches (or has
 * launched) it as a tiny one, peers differ, and it is aborted in words that say who and in what.
 */
void pccl_peer_announced(struct pccl_peer *peer, uint64_t now_us, const struct pccl_id *from,
                         const struct pccl_msg_ready *ready);
/* A caller blocks in it (or stopped): for "who is where". */
void pccl_peer_op_awaited(struct pccl_peer *peer, uint64_t now_us, struct pccl_op *op, bool blocked);
/* The caller is done with a decided operation: its tag is free; attributes are taken from its decision. */
void pccl_peer_op_release(struct pccl_peer *peer, struct pccl_op *op);
/* The operation that holds this tag, or NULL. */
struct pccl_op *pccl_peer_op_find(struct pccl_peer *peer, uint64_t tag);
/* What the machine drives has broken: it leaves; everything outstanding ends with INTERNAL, in words that say where. */
void pccl_peer_fail(struct pccl_peer *peer, uint64_t now_us, const char *where);
/* Says good-bye and becomes unconnected; everything outstanding ends with PEER_LOST / ABORTED. */
void pccl_peer_leave(struct pccl_peer *peer, uint64_t now_us);

/*
 * There is nobody to exchange data with in the current view: op_start is not called for what is launched now. Mostly
 * launching is refused, as TOO_FEW_PEERS; else the view that comes ends it.
 */
bool pccl_peer_is_alone(const struct pccl_peer *peer);
/* The ring of this peer's group in the current view, and what its members agree on about its links. */
const struct pccl_id *pccl_peer_ring(const struct pccl_peer *peer, uint32_t *count);
struct pccl_cost pccl_peer_cost(const struct pccl_peer *peer);

/* Accepted and not expelled. */
bool pccl_peer_is_connected(const struct pccl_peer *peer);
/* The four numbers of pcclGetAttribute: a snapshot, replaced when a call returns (PROTOCOL 8). */
struct pccl_attributes pccl_peer_attributes(const struct pccl_peer *peer);
/*
 * Who left this peer's group after the epoch `known`, until the epoch `until` (NULL: until now), of the latest
 * PCCL_DEPARTED_MAX.
 */
void pccl_peer_departed(const struct pccl_peer *peer, const struct pccl_epoch *known, const struct pccl_epoch *until,
                        struct pccl_departed *departed);
/* What ended its life: EXPELLED, MASTER_LOST, ...; OK before. */
enum pccl_status pccl_peer_why_over(const struct pccl_peer *peer);
/* Why it is unconnected, or what the last failed call died of. */
const struct pccl_text *pccl_peer_last_words(const struct pccl_peer *peer);
/* Who everybody waits for, as last told by the master; empty when nobody waits. */
const struct pccl_text *pccl_peer_waiting(const struct pccl_peer *peer);
const struct pccl_id *pccl_peer_lineage(const struct pccl_peer *peer);
/*
 * What this peer, a member, a newcomer linked to or one of those who left the group last is called; NULL: not known.
 * Valid until the machine's next step.
 */
const char *pccl_peer_name_of(const struct pccl_peer *peer, const struct pccl_id *id);
/* Says in these words what the peers are called that they speak of. Those of the machine itself say it already. */
void pccl_peer_add_names(const struct pccl_peer *peer, struct pccl_text *words);
uint32_t pccl_peer_silence_ms(const struct pccl_peer *peer);
uint32_t pccl_peer_tiny_bytes_max(const struct pccl_peer *peer);
/* May this peer's link_hello be accepted now? OK, or REFUSED with the refusal code and words for the answer. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_judge_link(const struct pccl_peer *peer,
                                                      const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *words);

#endif
