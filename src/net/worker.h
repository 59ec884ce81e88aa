/*
 * Executes one call on the thread of its caller: an event loop, an inbox for other threads, and connections to peers.
 * The kind of a worker and the role of a connection are tables of functions, which sync/ and measure/ define. The
 * struct of a kind begins with a struct pccl_worker, and the struct of a role with a struct pccl_worker_link.
 *
 * Independent of a peer's state machine and locks, and of the meaning of messages.
 *
 * Any thread may pass in connections, requests for the kind, and the request to end. These are queued and wake the
 * loop. Everything else belongs to the caller's thread.
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
    size_t bytes;     /* size of the struct of a link with this role */
    uint32_t out_max; /* limit for unsent bytes of frames; 0: no limit */
    bool discards;    /* closing a link may discard bytes in flight */
    /*
     * The socket is ready for a watched event, or the link was just accepted. Must end with pccl_worker_link_watch, or
     * close the link.
     */
    void (*visit)(struct pccl_worker_link *link);
    /* Handles a message. Returns false, with a reason in the link, if the link must be closed. */
    bool (*message)(struct pccl_worker_link *link, const struct pccl_msg *msg);
    /*
     * Takes the complete payload or the next message, like pccl_worker_link_take. NULL if the role has only messages.
     */
    enum pccl_channel_io (*take)(struct pccl_worker_link *link);
    /* Ends the link, because the other side has been silent for too long or has opened too many links. */
    void (*end)(struct pccl_worker_link *link);
    /* Releases the role's resources before the link is freed. May be NULL. */
    void (*release)(struct pccl_worker_link *link);
};

struct pccl_worker_kind {
    size_t bytes;                           /* size of the struct of a worker of this kind */
    enum pccl_link_kind link;               /* kind of the links that the worker dials */
    const struct pccl_worker_role *accepts; /* role of accepted links */
    uint32_t accepts_max; /* maximum number of accepted links of each peer, and of waiting ones; drops the oldest */
    /* Handles the requests in the worker's inbox. Called when the worker wakes, before accepted links are opened. */
    void (*woken)(struct pccl_worker *worker);
    /* Called when the reactor's due time, which the kind has set, has passed. */
    void (*ticked)(struct pccl_worker *worker);
    /* Stops all work and releases the kind's resources. The remaining links are closed afterwards. */
    void (*release)(struct pccl_worker *worker);
};

struct pccl_worker_config {
    struct pccl_id self, lineage;
    const struct pccl_keys *keys;   /* NULL: links are not encrypted */
    const struct pccl_local *local; /* local sockets, for peers on this host; NULL: TCP only */
    uint32_t stagger_ms;            /* delay before the next address of a peer is tried */
    uint32_t silence_ms;      /* time after which a peer is abandoned if it owes something and is silent; 0: no limit */
    struct pccl_log_sink log; /* used on the caller's thread */
    void *context;            /* passed to events, which run without a lock on the caller's thread */
    /* Requests a connection that this peer dials (pccl_worker_answer). Returns the number of the connection. */
    uint64_t (*want_back)(void *context, const struct pccl_id *peer, enum pccl_link_kind kind, uint32_t slot);
    /* An invariant broke in `run`, possibly during another event. Nothing may be passed in after that. */
    void (*broken)(void *context, struct pccl_worker *worker);
};

struct pccl_worker {
    /* constant while the loop runs */
    const struct pccl_worker_kind *kind;
    struct pccl_worker_config config;

    uv_mutex_t lock;                /* no functions are called while it is locked */
    struct pccl_list_node accepted; /* links that wait for the loop, by in_links */
    struct pccl_list_node answers;  /* connections that other peers have dialed for lines, and that wait for the loop */
    bool posted;         /* the inbox, which the struct of the kind contains, is not empty; the lock protects both */
    atomic_bool leaving; /* pccl_worker_end was called; may be read without the lock */

    struct pccl_reactor reactor; /* the kind sets its due time */
    struct pccl_wire_scratch *scratch;
    bool ended;                           /* the loop's copy of `leaving` */
    bool broken;                          /* an invariant broke: nothing may be used or freed any longer */
    struct pccl_list_node links;          /* links by in_links, newest last */
    struct pccl_list_node waiting;        /* lines by in_waiting */
    uint8_t sink[PCCL_WORKER_SINK_BYTES]; /* destination of discarded bytes */
};

/* A link that this side dials, or requests from the other side. Embedded in a struct of the owner. */
struct pccl_worker_line {
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    bool reversed;                    /* the other side dials */
    struct pccl_list_node in_waiting; /* with `reversed` and `dialer`: place in the worker's `waiting` */
    uint64_t number;                  /* the same: number of the connection that the line waits for */
    struct pccl_dialer *dialer;       /* NULL: neither dialing nor waiting */
    struct pccl_worker_link *link;    /* NULL: not connected */
    struct pccl_address address;      /* the last address that answered */
    /* Dialing has ended. If `link` is NULL it has failed, for this reason; `how` is 0 if the path is not the cause. */
    void (*dialed)(struct pccl_worker_line *line, enum pccl_link_end how, const struct pccl_text *reason);
};

struct pccl_worker_link {
    struct pccl_channel channel;
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    struct pccl_worker_line *line;  /* NULL: dialed by the other side */
    struct pccl_list_node in_links; /* place in the worker's `accepted`, then in `links` */
    bool pauses;                    /* set by the role: nothing is received while true */
    struct pccl_text reason;        /* why the link ended, if the channel does not say */
};

/* ---- life ---- */

/*
 * Creates an object of kind->bytes, which begins with a worker and is otherwise zero. On failure returns MEMORY or
 * SYSTEM with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_worker_create(const struct pccl_worker_kind *kind,
                                                    const struct pccl_worker_config *config,
                                                    struct pccl_worker **worker, struct pccl_text *reason);
/* Returns true if `run` has anything to do. */
bool pccl_worker_is_needed(struct pccl_worker *worker);
/* Runs the loop until pccl_worker_end, or until an invariant breaks. */
void pccl_worker_run(struct pccl_worker *worker);
/* Closes all links and frees the worker. If an invariant broke, frees nothing. */
void pccl_worker_destroy(struct pccl_worker *worker);

/* ---- any thread ---- */

/*
 * Passes an accepted link to the worker, after the link's handshake. On failure (MEMORY, or USAGE if the worker is
 * ending), the caller keeps the link.
 */
PCCL_MUST_CHECK enum pccl_status pccl_worker_accept(struct pccl_worker *worker, const struct pccl_id *peer,
                                                    struct pccl_handover *handover);
/*
 * Passes a connection to the line that waits for it, after the handshake. It is closed if no line does. On failure
 * (MEMORY, or USAGE if the worker is ending), the caller keeps the connection.
 */
PCCL_MUST_CHECK enum pccl_status pccl_worker_answer(struct pccl_worker *worker, const struct pccl_id *peer,
                                                    uint64_t number, struct pccl_handover *handover);
/* Makes `run` return once it has handled everything that was passed in before. */
void pccl_worker_end(struct pccl_worker *worker);
/* Wakes the loop and releases the lock, which the caller has acquired to add a request to the worker's inbox. */
void pccl_worker_post(struct pccl_worker *worker);

/* ---- links ---- */

/*
 * Dials a peer. The caller must have set worker, role, peer and `dialed` of the line, slot and authentication of the
 * hello, and addresses, timeout and optionally `declined` of the dial. A reversed line waits for the timeout. Returns
 * false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_worker_dial(struct pccl_worker_line *line, struct pccl_msg_link_hello *hello,
                                      struct pccl_dial *dial);
static inline bool pccl_worker_line_is_active(const struct pccl_worker_line *line)
{
    return line->dialer || line->link;
}
/* Stops dialing, and closes the link if there is one. */
void pccl_worker_line_end(struct pccl_worker_line *line);
/* Closes a link. No visits follow, and the loop frees the memory later. Call once. */
void pccl_worker_link_close(struct pccl_worker_link *link);
/*
 * Reads and handles the input that has arrived. MOVED: the link pauses. WAITS: all input has been handled, or the
 * budget is used up. ENDED: see pccl_worker_link_why.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_receive(struct pccl_worker_link *link, size_t *budget);
/* Passes the next message to the role. WAITS: more bytes are needed. ENDED: see pccl_worker_link_why. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_take(struct pccl_worker_link *link);
/* Ends a visit. awaits: the other side owes us something, so bytes must move within silence_ms. */
void pccl_worker_link_watch(struct pccl_worker_link *link, bool input, bool awaits);
/* Returns the reason for which a link has ended. */
const struct pccl_text *pccl_worker_link_why(struct pccl_worker_link *link);
/* Converts a node of the worker's links to the link. Returns NULL for the head of the list. */
static inline struct pccl_worker_link *pccl_worker_link_in(struct pccl_worker *worker, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&worker->links, node, struct pccl_worker_link, in_links);
}

#endif
