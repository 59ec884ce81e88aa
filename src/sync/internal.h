/*
 * Internals of a synchronizer. Links are connections that carry frames and the bytes of chunks. A link
 * has one of two roles: serving a requester that dialed us, or asking a donor that we dialed.
 *
 * Everything here belongs to the caller's thread, except where a comment says "lock".
 */
#ifndef PCCL_SYNC_INTERNAL_H
#define PCCL_SYNC_INTERNAL_H

#include "core/list.h"
#include "net/channel.h"
#include "net/dialer.h"
#include "net/reactor.h"
#include "state/fetch.h"
#include "sync/copiers.h"
#include "sync/synchronizer.h"
#include "wire/frame.h"

#include <stdatomic.h>

enum {
    PCCL_SYNC_SLOTS = 4,             /* connections to a donor over a long path */
    PCCL_SYNC_ATTEMPTS_MAX = 4,      /* attempts to reach a donor */
    PCCL_SYNC_DONORS_KNOWN_MAX = 64, /* donors named and not given up, most of which wait for one to be given up */
    PCCL_SYNC_AHEAD = PCCL_DEVICE_BUFFERS, /* answers being prepared on one connection */
    PCCL_SYNC_LINKS_PER_PEER_MAX = 8,      /* of one requester; the oldest makes room */
    PCCL_SYNC_ACCEPTED_MAX = 4096,         /* connections that wait for `run` */
    PCCL_SYNC_VISIT_BYTES = 2 << 20, /* moved in one visit, a bound so that one link does not hold up the others */
    PCCL_SYNC_SINK_BYTES = 64 << 10,
};

/* ---- link.c: one connection ---- */

struct pccl_sync_link;

struct pccl_sync_role {
    /*
     * The socket is ready for something that is watched. The visit has begun; it ends with
     * pccl_sync_link_watch.
     */
    void (*visit)(struct pccl_sync_link *link);
    /* Something was awaited for silence_ms and did not come; link->reason says so. */
    void (*silent)(struct pccl_sync_link *link);
    /* The link is about to be freed: releases what belongs to the role. */
    void (*release)(struct pccl_sync_link *link);
};

struct pccl_sync_link {
    struct pccl_channel channel;
    struct pccl_synchronizer *synchronizer;
    const struct pccl_sync_role *role;
    size_t bytes; /* of the whole allocation */
    struct pccl_id peer;
    struct pccl_list_node in_synchronizer; /* in the synchronizer's links, once the link is open */
    struct pccl_sync_link *next_accepted;  /* in the inbox */
    struct pccl_text reason;               /* why it has ended */
};

static inline struct pccl_sync_link *pccl_sync_link_in(struct pccl_list_node *in_synchronizer)
{
    return PCCL_CONTAINER_OF(in_synchronizer, struct pccl_sync_link, in_synchronizer);
}

/*
 * Allocates a zeroed link, followed by the role's own members: `bytes` in total. NULL: out of
 * memory; the socket is untouched. Any thread.
 */
void *pccl_sync_link_allocate(struct pccl_synchronizer *synchronizer, const struct pccl_sync_role *role, size_t bytes,
                              const struct pccl_id *peer, uv_os_sock_t socket);
/*
 * The socket is the link's from now on, in any case. false: it is closed; the caller frees the link
 * by pccl_sync_link_free.
 */
PCCL_MUST_CHECK bool pccl_sync_link_open(struct pccl_sync_link *link);
/*
 * No visits follow; the loop frees the memory later. Once; the link must not be touched afterward.
 */
void pccl_sync_link_close(struct pccl_sync_link *link);
/* For a link that was never opened. */
void pccl_sync_link_free(struct pccl_sync_link *link);
/*
 * Ends a visit. `owes`: something is awaited from the other side, so bytes must move now and then.
 */
void pccl_sync_link_watch(struct pccl_sync_link *link, bool input, bool owes);
/* As those of the channel; ENDED: link->reason says why. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_read(struct pccl_sync_link *link, size_t *budget);
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_message(struct pccl_sync_link *link, struct pccl_msg *msg);
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_push(struct pccl_sync_link *link);
/* Appends a frame to the output. false, with a reason: out of memory. */
PCCL_MUST_CHECK bool pccl_sync_link_put(struct pccl_sync_link *link, const struct pccl_msg *msg);

/* ---- serving.c: connections of requesters, which dialed us ---- */

/* NULL: out of memory; the socket is untouched. Any thread. */
struct pccl_sync_link *pccl_sync_server_create(struct pccl_synchronizer *synchronizer, const struct pccl_id *peer,
                                               uv_os_sock_t socket);
/* The loop takes the link. */
void pccl_sync_server_open(struct pccl_sync_link *link);
/* The plan is known or has changed: waiting requesters may be served. */
void pccl_sync_servers_advance(struct pccl_synchronizer *synchronizer);
/* The content that requesters were promised is about to change: closes their connections. */
void pccl_sync_servers_close(struct pccl_synchronizer *synchronizer);

struct pccl_sync_asker; /* asking.h */
_Static_assert(PCCL_STATE_DONORS_MAX *PCCL_SYNC_SLOTS <= PCCL_FETCH_DONORS, "a number for each connection");

/* ---- fetching.c: the machine, its donors, and dialing them ---- */

/* One connection to a donor, or the attempt to open it. */
struct pccl_sync_line {
    struct pccl_sync_donor *donor;
    struct pccl_dialer *dialer;
    struct pccl_sync_asker *asker;
};

struct pccl_sync_donor {
    struct pccl_synchronizer *synchronizer;
    struct pccl_sync_donor *next; /* in the inbox, or in `donors` */
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool seated;       /* otherwise it waits for another one to be given up */
    uint32_t seat;     /* the numbers of its lines begin at PCCL_SYNC_SLOTS times this */
    uint32_t tried;    /* attempts at the first line since a good chunk arrived on it */
    uint64_t again_us; /* when the next attempt is due; UINT64_MAX: never */
    struct pccl_sync_line lines[PCCL_SYNC_SLOTS];
};

struct pccl_sync_fetching {
    struct pccl_fetch *machine; /* NULL: no plan has asked to fetch yet, or memory was short */
    bool asked;                 /* a plan has asked to fetch */
    bool running;               /* the fetch has not ended */
    bool begun;                 /* the first donor was named, so the content to be fetched is known */
    bool takes_unequal;
    bool touched;
    bool broken; /* no donor can help any more; last_reason says why */
    struct pccl_sync_donor *donors;
    bool seats[PCCL_STATE_DONORS_MAX]; /* in use */
    struct pccl_sync_asker *askers[PCCL_FETCH_DONORS];
    uint64_t alone_us;            /* since when no donor can help; UINT64_MAX: one can */
    struct pccl_text last_reason; /* why the last donor was lost */
};

/* The plan, as taken from the inbox. */
struct pccl_sync_order {
    bool requests, takes_unequal;
};

void pccl_sync_fetching_begin(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order);
/* Takes ownership of the donor. */
void pccl_sync_fetching_add(struct pccl_synchronizer *synchronizer, struct pccl_sync_donor *donor);
/*
 * A named donor was lost for want of memory; there may be others. proof: the one it was named with.
 */
void pccl_sync_fetching_lose_donor(struct pccl_synchronizer *synchronizer, const struct pccl_proof *proof);
/*
 * To be called after calls of the machine: sends, closes what has ended, dials, reports, and sets
 * the timer.
 */
void pccl_sync_fetching_advance(struct pccl_synchronizer *synchronizer);
/* The timer has fired. */
void pccl_sync_fetching_tick(struct pccl_synchronizer *synchronizer);
void pccl_sync_fetching_destroy(struct pccl_synchronizer *synchronizer);
/*
 * Whether the content may be served: its proofs are computed, and it is the elected content or no
 * plan has asked to replace it.
 */
bool pccl_sync_is_servable(const struct pccl_synchronizer *synchronizer);

/* ---- synchronizer.c ---- */

struct pccl_sync_inbox {
    bool planned, end;
    struct pccl_sync_order order;
    struct pccl_sync_donor *donors, **donors_end; /* of this plan */
    uint32_t donor_count;
    bool starved;                                    /* a donor could not be recorded */
    struct pccl_proof starved_proof;                 /* the proof it was named with */
    struct pccl_sync_link *accepted, **accepted_end; /* by next_accepted */
    uint32_t accepted_count;
};

struct pccl_synchronizer {
    /* constant */
    struct pccl_sync_config config; /* except lineage and round, which are under the lock */
    struct pccl_sync_events events;

    uv_mutex_t lock; /* nothing is called while it is held */
    struct pccl_sync_inbox inbox;
    atomic_bool leaving; /* the inbox contains the end */

    struct pccl_reactor reactor; /* its timer is the fetching's */
    struct pccl_state state;
    struct pccl_wire_scratch *scratch;
    struct pccl_proof *roots; /* lent to pccl_serve */
    uint8_t *sink;            /* unwanted bytes are read into it */
    bool planned, ended;      /* as far as the loop has heard */
    bool proven;              /* the state has its proofs */
    bool broken;              /* an invariant broke: nothing is used or freed any more */
    struct pccl_id lineage;   /* since the plan */
    uint64_t round;
    struct pccl_list_node links; /* link->in_synchronizer, the newest last */
    struct pccl_sync_fetching fetching;
    uint64_t sent, received;
    /* What other threads may read of the fetching. */
    uint64_t told_us;
    _Atomic uint64_t fetched, to_fetch, fetch_since_us;
};

#endif
