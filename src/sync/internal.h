/*
 * Inside a session. Links are connections that carry frames and the bytes of chunks; they have one of two roles:
 * serving a requester that dialed us, or asking a donor that we dialed.
 *
 * Everything here belongs to the caller's thread, except what says "lock".
 */
#ifndef PCCL_SYNC_INTERNAL_H
#define PCCL_SYNC_INTERNAL_H

#include "core/list.h"
#include "net/channel.h"
#include "net/dialer.h"
#include "net/reactor.h"
#include "state/fetch.h"
#include "sync/lanes.h"
#include "sync/session.h"
#include "wire/frame.h"

#include <stdatomic.h>

enum {
    PCCL_SYNC_SLOTS = 4,                   /* connections to a donor over a long path */
    PCCL_SYNC_ATTEMPTS_MAX = 4,            /* to reach a donor, one after the other */
    PCCL_SYNC_DONORS_KNOWN_MAX = 64,       /* named and not given up, most of them waiting for one that is */
    PCCL_SYNC_AHEAD = PCCL_DEVICE_BUFFERS, /* answers being prepared on one connection */
    PCCL_SYNC_LINKS_PER_PEER_MAX = 8,      /* of a requester; the oldest makes room */
    PCCL_SYNC_ACCEPTED_MAX = 4096,         /* connections that wait for `run` */
    PCCL_SYNC_VISIT_BYTES = 2 << 20,       /* moved in one visit, so that one link does not hold up the others */
    PCCL_SYNC_SINK_BYTES = 64 << 10,
};

/* ---- link.c: one connection ---- */

struct pccl_sync_link;

struct pccl_sync_role {
    /* The socket is ready for something that is watched; the visit has begun, and ends with pccl_sync_link_watch. */
    void (*visit)(struct pccl_sync_link *link);
    /* Something was awaited from it for silence_ms and did not come: link->reason says so. */
    void (*silent)(struct pccl_sync_link *link);
    /* Everything of the role's own, the link is about to be freed. */
    void (*release)(struct pccl_sync_link *link);
};

struct pccl_sync_link {
    struct pccl_channel channel;
    struct pccl_sync_session *session;
    const struct pccl_sync_role *role;
    size_t bytes; /* of the whole allocation */
    struct pccl_id peer;
    struct pccl_list_node in_session;     /* in the session's links, once it is open */
    struct pccl_sync_link *next_accepted; /* in the inbox */
    struct pccl_text reason;              /* why it is over */
};

static inline struct pccl_sync_link *pccl_sync_link_in(struct pccl_list_node *in_session)
{
    return PCCL_CONTAINER_OF(in_session, struct pccl_sync_link, in_session);
}

/*
 * A link, zeroed, and what the role has behind it: `bytes` in all. NULL: out of memory; the socket is untouched. Any
 * thread.
 */
void *pccl_sync_link_allocate(struct pccl_sync_session *session, const struct pccl_sync_role *role, size_t bytes,
                              const struct pccl_id *peer, uv_os_sock_t socket);
/* The socket is the link's from now on, whatever happens. false: it is closed; free the link by pccl_sync_link_free. */
PCCL_MUST_CHECK bool pccl_sync_link_open(struct pccl_sync_link *link);
/* No visits any more; the memory follows when the loop releases it. Once; then it is not to be touched. */
void pccl_sync_link_close(struct pccl_sync_link *link);
/* Of a link that was never opened. */
void pccl_sync_link_free(struct pccl_sync_link *link);
/* The end of a visit. `owes`: something is awaited from the other side, so it must move now and then. */
void pccl_sync_link_watch(struct pccl_sync_link *link, bool input, bool owes);
/* Of the channel; ENDED: link->reason says why. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_read(struct pccl_sync_link *link, size_t *budget);
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_message(struct pccl_sync_link *link, struct pccl_msg *msg);
PCCL_MUST_CHECK enum pccl_channel_io pccl_sync_link_push(struct pccl_sync_link *link);
/* Puts a frame behind what is to be sent. false, with a reason: out of memory. */
PCCL_MUST_CHECK bool pccl_sync_link_put(struct pccl_sync_link *link, const struct pccl_msg *msg);

/* ---- serving.c: to those that dialed us ---- */

/* NULL: out of memory; the socket is untouched. Any thread. */
struct pccl_sync_link *pccl_sync_server_create(struct pccl_sync_session *session, const struct pccl_id *peer,
                                               uv_os_sock_t socket);
/* The loop takes it over. */
void pccl_sync_server_open(struct pccl_sync_link *link);
/* The plan is known, or has changed: those that wait may be served. */
void pccl_sync_servers_advance(struct pccl_sync_session *session);
/* What they were promised is about to change. */
void pccl_sync_servers_close(struct pccl_sync_session *session);

struct pccl_sync_asker; /* asking.h */
_Static_assert(PCCL_STATE_DONORS_MAX *PCCL_SYNC_SLOTS <= PCCL_FETCH_DONORS, "a number for each connection");

/* ---- fetching.c: the machine, its donors and who dials them ---- */

/* One connection to a donor, or the attempt at it. */
struct pccl_sync_line {
    struct pccl_sync_donor *donor;
    struct pccl_dialer *dialer;
    struct pccl_sync_asker *asker;
};

struct pccl_sync_donor {
    struct pccl_sync_session *session;
    struct pccl_sync_donor *next; /* in the inbox, or of those known */
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool seated;       /* else it waits for another one to be given up */
    uint32_t seat;     /* its lines' numbers begin at PCCL_SYNC_SLOTS times this */
    uint32_t tried;    /* attempts at the first line since a chunk of it was good */
    uint64_t again_us; /* when the next one is due; UINT64_MAX: none is */
    struct pccl_sync_line lines[PCCL_SYNC_SLOTS];
};

struct pccl_sync_fetching {
    struct pccl_fetch *machine; /* NULL: no plan has asked for anything yet, or memory was short */
    bool asked;                 /* one has */
    bool running;               /* and it is not there yet */
    bool begun;                 /* the first donor was named, and what is to be fetched is known */
    bool takes_unequal;
    bool touched;
    bool broken; /* it cannot go on whoever is asked: last_reason says why */
    struct pccl_sync_donor *donors;
    bool seats[PCCL_STATE_DONORS_MAX]; /* taken */
    struct pccl_sync_asker *askers[PCCL_FETCH_DONORS];
    uint64_t alone_us;            /* since when nobody can help; UINT64_MAX: somebody can */
    struct pccl_text last_reason; /* of the one lost last */
};

/* What the plan says, taken from the inbox. */
struct pccl_sync_order {
    bool requests, takes_unequal;
};

void pccl_sync_fetching_begin(struct pccl_sync_session *session, const struct pccl_sync_order *order);
/* Takes it. */
void pccl_sync_fetching_add(struct pccl_sync_session *session, struct pccl_sync_donor *donor);
/* One could not be noted, for want of memory: it is lost, and there may be others. proof: what it was named with. */
void pccl_sync_fetching_lose_donor(struct pccl_sync_session *session, const struct pccl_proof *proof);
/* After calls of the machine: sends, closes what is over, dials, tells what is to be told, sets the timer. */
void pccl_sync_fetching_advance(struct pccl_sync_session *session);
/* The time has come that the timer was set for. */
void pccl_sync_fetching_tick(struct pccl_sync_session *session);
/* Nothing is fetched any more. */
void pccl_sync_fetching_stop(struct pccl_sync_session *session);
void pccl_sync_fetching_destroy(struct pccl_sync_session *session);
/* What is in memory has its proofs, and is what the group has elected, or nobody has asked us to change it. */
bool pccl_sync_is_servable(const struct pccl_sync_session *session);
/* It cannot go on whoever is asked (a device has failed). */
void pccl_sync_fetching_fail(struct pccl_sync_session *session, const struct pccl_text *reason);
/* A chunk that this donor sent is verified and in place. */
void pccl_sync_fetching_proved(struct pccl_sync_line *line);

/* ---- session.c ---- */

struct pccl_sync_inbox {
    bool planned, end;
    struct pccl_sync_order order;
    struct pccl_sync_donor *donors, **donors_end; /* of this plan */
    uint32_t donor_count;
    bool starved;                                    /* one could not be noted ... */
    struct pccl_proof starved_proof;                 /* ... and was named with this */
    struct pccl_sync_link *accepted, **accepted_end; /* by next_accepted */
    uint32_t accepted_count;
};

struct pccl_sync_session {
    /* constant */
    struct pccl_sync_config config; /* but lineage and round: under the lock */
    struct pccl_sync_events events;

    uv_mutex_t lock; /* nothing is called under it */
    struct pccl_sync_inbox inbox;
    atomic_bool leaving; /* the end is in the inbox */

    struct pccl_reactor reactor; /* its time is that of the fetching */
    struct pccl_state state;
    struct pccl_wire_scratch *scratch;
    struct pccl_proof *roots; /* lent to pccl_serve */
    uint8_t *sink;            /* for what nobody wants */
    bool planned, ended;      /* as far as the loop has heard */
    bool proven;              /* the state has its proofs */
    bool broken;              /* an invariant: nothing is used any more, or freed */
    struct pccl_id lineage;   /* since the plan */
    uint64_t round;
    struct pccl_list_node links; /* link->in_session, the newest last */
    struct pccl_sync_fetching fetching;
    uint64_t sent, received;
};

PCCL_PRINTF(3, 4)
void pccl_sync_log(const struct pccl_sync_session *session, enum pccl_log_level level, const char *format, ...);

#endif
