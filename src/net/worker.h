/*
 * Carries out one call on the thread of its caller: an event loop, an inbox for other threads, and connections to
 * peers. Workers are of kinds, and connections have roles: tables of functions, which sync/ and measure/ have. The
 * struct of a kind begins with a struct pccl_worker, the struct of a role with a struct pccl_worker_link.
 *
 * Knows nothing of the machine of a peer and its locks, nor of the meaning of messages.
 *
 * Any thread may pass in connections, the end, and the news that the kind knows of. They are recorded and wake the
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
    size_t bytes;     /* of a link of this role */
    uint32_t out_max; /* unsent bytes of frames; 0: no limit */
    bool discards;    /* bytes in flight do not matter when a link is closed */
    /*
     * The socket is ready for something that is watched, or the link was accepted just now. Ends with
     * pccl_worker_link_watch, or closes the link.
     */
    void (*visit)(struct pccl_worker_link *link);
    /* A message has come. false: the link has ended, with a reason. */
    bool (*message)(struct pccl_worker_link *link, const struct pccl_msg *msg);
    /* Takes the complete payload, or else the next message, as pccl_worker_link_take. NULL: there are only messages. */
    enum pccl_channel_io (*take)(struct pccl_worker_link *link);
    /* The other side has been silent for too long, or has opened too many links: ends the link. */
    void (*end)(struct pccl_worker_link *link);
    /* The link is about to be freed: releases the resources of the role. May be NULL. */
    void (*release)(struct pccl_worker_link *link);
};

struct pccl_worker_kind {
    size_t bytes;                           /* of a worker of this kind */
    enum pccl_link_kind link;               /* of the connections that it dials */
    const struct pccl_worker_role *accepts; /* the role of those that others have dialed */
    uint32_t accepts_max;                   /* of each peer: open ones, and as many that wait; the oldest makes room */
    /* Something was passed in: takes the kind's inbox. Accepted connections are opened after that. */
    void (*woken)(struct pccl_worker *worker);
    /* The due time of the reactor, which is the kind's, has come. */
    void (*ticked)(struct pccl_worker *worker);
    /* Stops all work and releases the resources of the kind. The remaining links are closed after that. */
    void (*release)(struct pccl_worker *worker);
};

struct pccl_worker_config {
    struct pccl_id self, lineage;
    const struct pccl_keys *keys;   /* NULL: connections are in the clear */
    const struct pccl_local *local; /* for peers on this host; NULL: TCP only */
    uint32_t stagger_ms;            /* between the addresses of a peer */
    uint32_t silence_ms;      /* a peer that owes something and is silent for this long is given up; 0: no limit */
    struct pccl_log_sink log; /* on the caller's thread */
    void *context;            /* for events, which come on the caller's thread and without a lock */
    /* An invariant broke in `run`, perhaps in the middle of another event: nothing may be passed in after that. */
    void (*broken)(void *context, struct pccl_worker *worker);
};

struct pccl_worker {
    /* constant once the loop runs */
    const struct pccl_worker_kind *kind;
    struct pccl_worker_config config;

    uv_mutex_t lock;                /* nothing is called while it is held */
    struct pccl_list_node accepted; /* link->in_links: they wait for the loop */
    bool posted;                    /* the kind's inbox, which is under this lock, has something */
    atomic_bool leaving;            /* pccl_worker_end was called; also read without the lock */

    struct pccl_reactor reactor; /* its timer is the kind's */
    struct pccl_wire_scratch *scratch;
    bool ended;                           /* as far as the loop has heard */
    bool broken;                          /* an invariant broke: nothing is used or freed after that */
    struct pccl_list_node links;          /* link->in_links, the newest last */
    uint8_t sink[PCCL_WORKER_SINK_BYTES]; /* unwanted bytes are read into it */
};

/* A connection that we dial. Part of a struct of the owner. */
struct pccl_worker_line {
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    struct pccl_dialer *dialer;    /* NULL: it is not being dialed */
    struct pccl_worker_link *link; /* NULL: it does not stand */
    struct pccl_address address;   /* the one that answered last */
    /* Dialing has ended. `link` NULL: without success, for this reason; how: 0 if the path is not the cause. */
    void (*dialed)(struct pccl_worker_line *line, enum pccl_link_end how, const struct pccl_text *reason);
};

struct pccl_worker_link {
    struct pccl_channel channel;
    struct pccl_worker *worker;
    const struct pccl_worker_role *role;
    struct pccl_id peer;
    struct pccl_worker_line *line;  /* NULL: the other side dialed */
    struct pccl_list_node in_links; /* of the worker: `accepted`, then `links` */
    bool pauses;                    /* the role's: nothing is received */
    struct pccl_text reason;        /* why it has ended, if the channel does not know */
};

/* ---- its life ---- */

/* MEMORY or SYSTEM with a reason: nothing is left to be freed. Otherwise it is zeroed behind its first member. */
PCCL_MUST_CHECK enum pccl_status pccl_worker_create(const struct pccl_worker_kind *kind,
                                                    const struct pccl_worker_config *config,
                                                    struct pccl_worker **worker, struct pccl_text *reason);
/* Returns true if `run` has something to do. */
bool pccl_worker_is_needed(struct pccl_worker *worker);
/* Works until pccl_worker_end, or until an invariant breaks. */
void pccl_worker_run(struct pccl_worker *worker);
/* Closes connections and frees everything. */
void pccl_worker_destroy(struct pccl_worker *worker);

/* ---- any thread ---- */

/* Passes in a link of its kind, after the handshake. MEMORY, USAGE (it ends): the link is still the caller's. */
PCCL_MUST_CHECK enum pccl_status pccl_worker_accept(struct pccl_worker *worker, const struct pccl_id *peer,
                                                    struct pccl_handover *handover);
/* Makes `run` return once it has handled everything that was passed in before. */
void pccl_worker_end(struct pccl_worker *worker);
/* Releases the lock, under which the kind's inbox was filled, and wakes the loop. */
void pccl_worker_post(struct pccl_worker *worker);

/* ---- links ---- */

/*
 * Dials. The line has worker, role, peer and `dialed`; the hello has slot and authentication; the dial has addresses,
 * timeout and perhaps `declined`. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_worker_dial(struct pccl_worker_line *line, struct pccl_msg_link_hello *hello,
                                      struct pccl_dial *dial);
static inline bool pccl_worker_line_is_standing(const struct pccl_worker_line *line)
{
    return line->dialer || line->link;
}
/* Stops dialing it, or closes it. */
void pccl_worker_line_end(struct pccl_worker_line *line);
/* Closes it: no visits follow, and the loop frees the memory later. To be called once. */
void pccl_worker_link_close(struct pccl_worker_link *link);
/*
 * Reads and takes the input that has arrived. MOVED: the link pauses. WAITS: everything is taken, or the budget is
 * spent. ENDED: see pccl_worker_link_why.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_receive(struct pccl_worker_link *link, size_t *budget);
/* Gives the next message to the role. WAITS: more bytes are needed. ENDED: see pccl_worker_link_why. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_worker_link_take(struct pccl_worker_link *link);
/* Ends a visit. `owes`: something is awaited from the other side, so bytes must move now and then. */
void pccl_worker_link_watch(struct pccl_worker_link *link, bool input, bool owes);
/* Why it has ended. */
const struct pccl_text *pccl_worker_link_why(struct pccl_worker_link *link);
/* The link of this node of the worker's links; NULL: it is the head. */
static inline struct pccl_worker_link *pccl_worker_link_in(struct pccl_worker *worker, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&worker->links, node, struct pccl_worker_link, in_links);
}

#endif
