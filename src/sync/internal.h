/*
 * Internals of a synchronizer. A link has one of two roles: serving a requester that dialed us, or asking a donor
 * that we dialed.
 *
 * Everything here belongs to the caller's thread, except where a comment says "lock".
 */
#ifndef PCCL_SYNC_INTERNAL_H
#define PCCL_SYNC_INTERNAL_H

#include "state/fetch.h"
#include "sync/copiers.h"
#include "sync/synchronizer.h"

enum {
    PCCL_SYNC_SLOTS = 4,             /* connections to a donor over a long path */
    PCCL_SYNC_ATTEMPTS_MAX = 4,      /* attempts to reach a donor */
    PCCL_SYNC_DONORS_KNOWN_MAX = 64, /* donors named and not given up, most of which wait for one to be given up */
    PCCL_SYNC_AHEAD = PCCL_DEVICE_BUFFERS, /* answers being prepared on one connection */
    PCCL_SYNC_LINKS_PER_PEER_MAX = 8,      /* of one requester */
    PCCL_SYNC_VISIT_BYTES = 2 << 20, /* moved in one visit, a bound so that one link does not hold up the others */
};

/* ---- serving.c: connections of requesters, which dialed us ---- */

struct pccl_synchronizer;

extern const struct pccl_worker_role pccl_sync_serving;

/* The plan is known or has changed: waiting requesters may be served. */
void pccl_sync_servers_advance(struct pccl_synchronizer *synchronizer);
/* The content that requesters were promised is about to change: closes their connections. */
void pccl_sync_servers_close(struct pccl_synchronizer *synchronizer);

struct pccl_sync_asker; /* asking.h */
_Static_assert(PCCL_STATE_DONORS_MAX *PCCL_SYNC_SLOTS <= PCCL_FETCH_DONORS, "a number for each connection");

/* ---- fetching.c: the machine, its donors, and dialing them ---- */

/* One connection to a donor, or the attempt to open it. */
struct pccl_sync_line {
    struct pccl_worker_line line;
    struct pccl_sync_donor *donor;
};

static inline struct pccl_sync_line *pccl_sync_line_of(struct pccl_worker_line *line)
{
    return PCCL_CONTAINER_OF(line, struct pccl_sync_line, line);
}

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

/* Under the worker's lock. */
struct pccl_sync_inbox {
    bool planned;
    struct pccl_sync_order order;
    struct pccl_sync_donor *donors, **donors_end; /* of this plan */
    uint32_t donor_count;
    bool starved;                    /* a donor could not be recorded */
    struct pccl_proof starved_proof; /* the proof it was named with */
};

struct pccl_synchronizer {
    struct pccl_worker worker;
    struct pccl_sync_config config; /* constant once a plan has come */
    struct pccl_sync_inbox inbox;
    struct pccl_state state;
    struct pccl_proof *roots; /* lent to pccl_serve */
    bool planned;             /* as far as the loop has heard */
    bool proven;              /* the state has its proofs */
    struct pccl_sync_fetching fetching;
    uint64_t sent, received;
    /* What other threads may read of the fetching. */
    uint64_t told_us;
    _Atomic uint64_t fetched, to_fetch, fetch_since_us;
};

static inline struct pccl_synchronizer *pccl_sync_of(struct pccl_worker *worker)
{
    return PCCL_CONTAINER_OF(worker, struct pccl_synchronizer, worker);
}

#endif
