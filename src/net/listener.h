/*
 * Accepts connections on one port of one or several local addresses. A new connection is a
 * stranger, in a list of bounded length, until the owner adopts it. When the list is full, it drops
 * the oldest stranger of the address that has the most. With keys, a connection first waits in a queue of bounded
 * length (net/arrivals), until its greeting is complete and a handshake can begin: the number per second is limited,
 * since handshakes cost time. Connections at the local socket have no address, and
 * count as one: if a flood there crowds them out, peers use TCP. A shortage of descriptors pauses accepting
 * and ends nothing; with a spare descriptor the next stranger can still be heard and answered. Runs
 * on the loop's thread.
 */
#ifndef PCCL_NET_LISTENER_H
#define PCCL_NET_LISTENER_H

#include "core/budget.h"
#include "net/arrivals.h"
#include "net/connection.h"
#include "os/local.h"

struct pccl_listener_socket;

enum {
    PCCL_LISTEN_ADDRESSES_MAX = 16,
    PCCL_HANDSHAKES_PER_S = 600, /* one takes some 0.45 ms of the loop's thread, with all around it */
    PCCL_HANDSHAKES_BURST = 250,
};

struct pccl_listener {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash;     /* random, so that strangers cannot choose whom they crowd out */
    struct pccl_listener_socket *sockets; /* a list; each is freed by the loop */
    struct pccl_listener_socket *here;    /* the one of them for those on this host; NULL: none */
    struct pccl_id here_id;
    const struct pccl_local *local; /* for pccl_listener_open_here; not owned */
    uv_timer_t *pause;              /* freed by the loop */
    struct pccl_arrivals *queue;    /* with keys */
    struct pccl_budget handshakes;  /* with keys; opening sets it */
    uint16_t port;
    struct pccl_connection_list strangers;
    struct pccl_connection_list on_spare; /* the stranger that uses the spare's descriptor, if any */
    uv_file spare;                        /* a descriptor held in reserve; only if has_spare */
    bool has_spare;
    bool wants_spare;  /* set by the owner, who then calls pccl_listener_can_keep and sets `crowded_out` */
    bool hears_offers; /* accepts pipes at the local socket */
    uint32_t strangers_max;
    uint32_t queue_max;   /* with keys; at most a quarter of the descriptors that are free at opening, */
    uint32_t sharers;     /* divided by this number of listeners (0 is 1) */
    uint32_t greeting_ms; /* with keys: a connection without a complete greeting is ended after this time */
    uint32_t hello_ms;    /* strangers are ended after this time; 0: the owner does that */
    const struct pccl_connection_events *events;
    void *owner;
    const struct pccl_keys *keys; /* for all that come; NULL: in the clear */
    enum pccl_secure_role role;   /* with keys: MASTER or ACCEPTED */
    /* A new connection; called between enter and leave of the events. */
    void (*accepted)(void *owner, struct pccl_connection *connection);
    /*
     * This stranger is about to be ended for want of a descriptor; the owner may send it a last
     * message. May be NULL.
     */
    void (*crowded_out)(void *owner, struct pccl_connection *connection);
    /* A connection waits that could not be accepted, for this error. Called as `accepted`; may be NULL. */
    void (*starved)(void *owner, int error);
    /* A connection from there has got no further than the queue (net/arrivals.h). May be NULL. */
    void (*dropped)(void *owner, const struct pccl_address *from, enum pccl_arrival_end why);
};

/*
 * Listens on all addresses with one port: `port`, or one of the port_range - 1 above it if it is
 * taken on any of them; 0: the system chooses. An address of a family that this host does not have
 * is left out if another remains. The caller has filled loop, memory, hash, strangers_max,
 * hello_ms, events, owner and accepted. 0, or a negative libuv error with a reason.
 */
PCCL_MUST_CHECK int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses,
                                       uint32_t count, uint16_t port, uint32_t port_range, struct pccl_text *reason);
/*
 * Also listens at a local socket under this id, no longer under the previous one. If that fails, peers on this
 * host use TCP.
 */
void pccl_listener_open_here(struct pccl_listener *listener, const struct pccl_id *id);
/*
 * Stops accepting and closes the strangers. The struct may be freed at once. Also for a listener
 * that was never opened (zeroed).
 */
void pccl_listener_close(struct pccl_listener *listener);
/* The connection is a stranger no longer. */
void pccl_listener_adopt(struct pccl_connection *connection);
/*
 * A stranger has sent a valid message. false: it uses the last descriptor, and no other can be had,
 * not even an older stranger's. Unless the owner must serve it anyway, it tells the stranger so and
 * closes it. Between enter and leave of the events; other strangers may end.
 */
PCCL_MUST_CHECK bool pccl_listener_can_keep(struct pccl_listener *listener, struct pccl_connection *connection);

#endif
