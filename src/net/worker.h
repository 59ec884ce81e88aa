/*
 * Carries out one call on the thread of its caller: an event loop, an inbox for other threads, and connections to
 * peers. Workers have kinds, and connections have roles: tables of functions, which sync/ and measure/ define. The
 * struct of a kind begins with a struct pccl_worker, the struct of a role with a struct pccl_worker_link.
 *
 * Knows nothing of a peer's state machine and its locks, nor of the meaning of messages.
 *
 * Any thread may pass in connections, the end, and events of the kind. They are recorded and wake the loop. All else
 * belongs to the caller's thread.
 */
#ifndef PCCL_NET_WORKER_H
#define PCCL_NET_WORKER_H

#include "core/list.h"
#include "core/log.h"
#include "net/channel.h"
#include "net/dialer.h"
#include "net/reactor.h"

#include <stdatomic.h>

enum { PCCL_WORKER_SINK_BYTES = 64 << 10 };

struct pccl_worker;
struct pccl_worker_link;

struct pccl_worker_role {
    size_t bytes;     /* size of a link of this role */
    uint32_t out_max; /* limit for unsent bytes of frames; 0: none */
    bool discards;    /* closing a link may discard bytes in flight */
    /*
     * The socket is ready for a watched event, or the link was just accepted. Ends with pccl_worker_link_watch, or
     * closes the link.
     */
    void (*visit)(struct pccl_worker_link *link);
    /* A message has arrived. Returns false, with a reason in the link, if the link must end. */
    bool (*message)(struct pccl_worker_link *link, const struct pccl_msg *msg);
    /*
     * Takes the complete payload, or else the next message, as pccl_worker_link_take. NULL: the role has only messages.
     */
    enum pccl_channel_io (*take)(struct pccl_worker_link *link);
    /* Ends the link: the other side has been silent for too long, or has opened too many links. */
    void (*end)(struct pccl_worker_link *link);
    /* Releases the resources of the role: the link is about to be freed. May be NULL. */
    void (*release)(struct pccl_worker_link *link);
};

struct pccl_worker_kind {
    size_t bytes;                           /* size of a worker of this kind */
    enum pccl_link_kind link;               /* kind of the connections that it dials */
    const struct pccl_worker_role *accepts; /* role of the connections that others have dialed */
    uint32_t accepts_max; /* limit for accepted links of each peer, and for waiting ones; the oldest makes room */
    /* Called when the worker wakes: takes the kind's inbox. Accepted connections are opened afterwards. */
    void (*woken)(struct pccl_worker *worker);
    /* The due time of the reactor has passed; the kind sets it. */
    void (*ticked)(struct pccl_worker *worker);
    /* Stops all work and releases the resources of the kind. The remaining links are closed after that. */
    void (*release)(struct pccl_worker *worker);
};

struct pccl_worker_config {
    struct pccl_id self, lineage;
    const struct pccl_keys *keys;   /* NULL: connections are not encrypted */
    const struct pccl_local *local; /* local sockets, for peers on this host; NULL: TCP only */
    uint32_t stagger_ms;            /* delay between the addresses of a peer */
    uint32_t silence_ms;            /* time after which a silent peer that owes something is given up; 0: no limit */
    struct pccl_log_sink log;       /* used on the caller's thread */
    void *context;                  /* passed to events, which run on the caller's thread without a lock */
    /* An invariant broke in `run`, perhaps in the middle of another event: nothing may be passed in after that. */
    void (*broken)(void *context, struct pccl_worker *worker);
};

struct pccl_worker {
    /* constant once the loop runs */
    const struct pccl_worker_kind *kind;
    struct pccl_worker_config config;

    uv_mutex_t lock;                /* no functions are called while it is locked */
    struct pccl_list_node accepted; /* by link->in_links: links that wait for the loop */
    bool posted;                    /* the kind's inbox, which this lock protects, is not empty */
    atomic_bool leaving;            /* pccl_worker_end was called; may be read without the lock */

    struct pccl_reactor reactor; /* its due time belongs to the kind */
    struct pccl_wire_scratch *scratch;
    bool ended;                           /* copy of `leaving` that the loop uses */
    bool broken;                          /* an invariant broke: nothing is used or freed after that */
    struct pccl_list_node links;          /* by link->in_links, newest last */
    uint8_t sink[PCCL_WORKER_SINK_BYTES]; /* destination of discarded bytes */
};

/* A connection that this side dials. Part of a struct of the owner. */
struct pccl_worker_line {
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    struct pccl_dialer *dialer;    /* NULL: not being dialed */
    struct pccl_worker_link *link; /* NULL: not connected */
    struct pccl_address address;   /* address that answered last */
    /*
     * Dialing has ended. If `link` is NULL, it has failed for this reason; `how` is then 0 if the path is not the
     * cause.
     */
    void (*dialed)(struct pccl_worker_line *line, enum pccl_link_end how, const struct pccl_text *reason);
};

struct pccl_worker_link {
    struct pccl_channel channel;
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    struct pccl_worker_line *line;  /* NULL: the other side has dialed */
    struct pccl_list_node in_links; /* place in the worker's `accepted`, then in `links` */
    bool pauses;                    /* set by the role: nothing is received */
    struct pccl_text reason;        /* reason of the end, if the channel does not know it */
};

/* ---- its life ---- */

/*
 * Creates a worker whose memory after the first member is zeroed. Returns MEMORY or SYSTEM, with a reason, on failure;
 * nothing is then left to be freed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_worker_create(const struct pccl_worker_kind *kind,
                                                    const struct pccl_worker_config *config,
                                                    struct pccl_worker **worker, struct pccl_text *reason);
/* Returns true if `run` has work. */
bool pccl_worker_is_needed(struct pccl_worker *worker);
/* Runs the loop until pccl_worker_end, or until an invariant breaks. */
void pccl_worker_run(struct pccl_worker *worker);
/* Closes all connections and frees the worker, unless an invariant broke. */
void pccl_worker_destroy(struct pccl_worker *worker);

/* ---- any thread ---- */

/*
 * Passes in a link of its kind, after the handshake. On MEMORY, or USAGE if the worker is ending, the caller keeps the
 * link.
 */
PCCL_MUST_CHECK enum pccl_status pccl_worker_accept(struct pccl_worker *worker, const struct pccl_id *peer,
                                                    struct pccl_handover *handover);
/* Makes `run` return after it has handled everything that was passed in before. */
void pccl_worker_end(struct pccl_worker *worker);
/* Releases the lock, under which the caller has filled the kind's inbox, and wakes the loop. */
void pccl_worker_post(struct pccl_worker *worker);

/* ---- links ---- */

/*
 * Dials a peer. The caller has set worker, role, peer and `dialed` of the line; slot and authentication of the hello;
 * addresses, timeout and perhaps `declined` of the dial. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_worker_dial(struct pccl_worker_line *line, struct pccl_msg_link_hello *hello,
                                      struct pccl_dial *dial);
static inline bool pccl_worker_line_is_standing(const struct pccl_worker_line *line)
{
    return line->dialer || line->link;
}
/* Stops dialing, and closes the link if there is one. */
void pccl_worker_line_end(struct pccl_worker_line *line);
/* Closes a link: no visits follow, and the loop frees the memory later. Call once. */
void pccl_worker_link_close(struct pccl_worker_link *link);
/*
 * Reads and handles the input that has arrived. MOVED: the link pauses. WAITS: all input is handled, or the budget is
 * spent. ENDED: see pccl_worker_link_why.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_receive(struct pccl_worker_link *link, size_t *budget);
/* Passes the next message to the role. WAITS: more bytes are needed. ENDED: see pccl_worker_link_why. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_take(struct pccl_worker_link *link);
/* Ends a visit. owes: something is awaited from the other side, so bytes must move within silence_ms. */
void pccl_worker_link_watch(struct pccl_worker_link *link, bool input, bool owes);
/* Returns the reason why a link has ended. */
const struct pccl_text *pccl_worker_link_why(struct pccl_worker_link *link);
/* Returns the link of this node of the worker's links, or NULL if the node is the head. */
static inline struct pccl_worker_link *pccl_worker_link_in(struct pccl_worker *worker, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&worker->links, node, struct pccl_worker_link, in_links);
}

#endif
