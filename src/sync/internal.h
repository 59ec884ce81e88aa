/*
 * Internals of a synchronizer. A link has one of two roles: serving a requester that dialed this peer, or requesting
 * from a donor that this peer dialed.
 *
 * Everything here belongs to the caller's thread unless a comment names the lock.
 */
#ifndef PCCL_SYNC_INTERNAL_H
#define PCCL_SYNC_INTERNAL_H

#include "state/fetch.h"
#include "sync/copiers.h"
#include "sync/synchronizer.h"

enum {
    PCCL_SYNC_SLOTS = 4,        /* number of connections to a donor over a long path */
    PCCL_SYNC_ATTEMPTS_MAX = 4, /* attempts to reach a donor */
    /* maximum number of named donors, of which PCCL_STATE_DONORS_MAX have a seat */
    PCCL_SYNC_DONORS_KNOWN_MAX = 64,
    PCCL_SYNC_AHEAD = PCCL_DEVICE_BUFFERS, /* maximum number of answers in preparation per connection */
    PCCL_SYNC_LINKS_PER_PEER_MAX = 8,      /* maximum number of connections per requester */
    PCCL_SYNC_VISIT_BYTES = 2 << 20,       /* maximum bytes per visit, so that one link does not delay the others */
};

/* ---- serving.c: connections that requesters dialed ---- */

struct pccl_synchronizer;

extern const struct pccl_worker_role pccl_sync_serving;

/* Serves waiting requesters. Call when a plan has arrived or changed. */
void pccl_sync_servers_advance(struct pccl_synchronizer *synchronizer);
/* Closes the connections of requesters, because the content is about to change. */
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
    struct pccl_sync_donor *next; /* next donor in the inbox or in `donors` */
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool reversed;     /* it dials */
    bool seated;       /* false while it waits for a seat */
    uint32_t seat;     /* the numbers of its lines begin at PCCL_SYNC_SLOTS times this */
    uint32_t tried;    /* number of attempts at the first line since a valid chunk arrived */
    uint64_t again_us; /* time of the next attempt; UINT64_MAX: none */
    struct pccl_sync_line lines[PCCL_SYNC_SLOTS];
};

struct pccl_sync_fetching {
    struct pccl_fetch *machine; /* NULL until a plan requests a fetch, or if memory ran out */
    bool asked;                 /* true if the current plan requests a fetch */
    bool running;               /* true until the fetch has ended */
    bool begun;                 /* true once the first donor was named, which specifies the content */
    bool takes_unequal;
    bool touched;
    bool broken; /* true if no donor can help; last_reason says why */
    struct pccl_sync_donor *donors;
    bool seats[PCCL_STATE_DONORS_MAX]; /* seats in use */
    struct pccl_sync_asker *askers[PCCL_FETCH_DONORS];
    uint64_t alone_us;            /* time since which no donor can help; UINT64_MAX if one can */
    struct pccl_text last_reason; /* reason for the last loss of a donor */
};

/* The plan in the inbox. */
struct pccl_sync_order {
    bool requests, takes_unequal;
};

void pccl_sync_fetching_begin(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order);
/* Adds a donor and takes ownership of it. */
void pccl_sync_fetching_add(struct pccl_synchronizer *synchronizer, struct pccl_sync_donor *donor);
/* Records that a named donor was lost for lack of memory; there may be others. `proof` was named with that donor. */
void pccl_sync_fetching_lose_donor(struct pccl_synchronizer *synchronizer, const struct pccl_proof *proof);
/*
 * Sends requests, closes ended connections, dials, reports, and sets the timer. Call after every call of the machine.
 */
void pccl_sync_fetching_advance(struct pccl_synchronizer *synchronizer);
/* Handles the timer. */
void pccl_sync_fetching_tick(struct pccl_synchronizer *synchronizer);
void pccl_sync_fetching_destroy(struct pccl_synchronizer *synchronizer);
/*
 * Returns true if the content may be served: its proofs have been computed, and it is the elected content or is not
 * replaced by the current plan.
 */
bool pccl_sync_is_servable(const struct pccl_synchronizer *synchronizer);

/* ---- synchronizer.c ---- */

/* Protected by the worker's lock. */
struct pccl_sync_inbox {
    bool planned;
    struct pccl_sync_order order;
    struct pccl_sync_donor *donors, **donors_end; /* donors of the plan in `order` */
    uint32_t donor_count;
    bool starved;                    /* true if a donor could not be stored */
    struct pccl_proof starved_proof; /* proof named with that donor */
};

struct pccl_synchronizer {
    struct pccl_worker worker;
    struct pccl_sync_config config; /* constant after the first plan */
    struct pccl_sync_inbox inbox;
    struct pccl_state state;
    struct pccl_proof *roots; /* buffer for pccl_serve */
    bool planned;             /* true once the loop has received a plan */
    bool proven;              /* true once the proofs of the state have been computed */
    struct pccl_sync_fetching fetching;
    uint64_t sent, received;
    /* Progress of the fetch, for other threads. */
    uint64_t published_us;
    _Atomic uint64_t fetched, to_fetch, fetch_since_us;
};

static inline struct pccl_synchronizer *pccl_sync_of(struct pccl_worker *worker)
{
    return PCCL_CONTAINER_OF(worker, struct pccl_synchronizer, worker);
}

#endif
