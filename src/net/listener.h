/*
 * Accepts connections on one port of one or several local addresses. A new connection is a stranger, in a list of
 * limited length, until the owner adopts it. When the list is full, the oldest stranger of the address with the most
 * strangers is dropped. With keys, a connection first waits in a queue of limited length (net/arrivals) until its
 * greeting is complete and a handshake can begin: handshakes cost time, so their number per second is limited.
 * Connections at the local socket have no address and count as one address; if a flood there displaces peers, they use
 * TCP. A shortage of descriptors pauses accepting and ends nothing; a spare descriptor still allows the next stranger
 * to send its hello and get an answer. Runs on the loop's thread.
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
    PCCL_HANDSHAKES_PER_S = 600, /* one handshake takes about 0.45 ms of the loop's thread, all included */
    PCCL_HANDSHAKES_BURST = 250,
};

struct pccl_listener {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash; /* random, so that strangers cannot choose the connections that they displace */
    struct pccl_listener_socket *sockets; /* a list; the loop frees each */
    struct pccl_listener_socket *here;    /* the one for peers on this host; NULL: none */
    struct pccl_id here_id;
    const struct pccl_local *local; /* for pccl_listener_open_local; not owned */
    uv_timer_t *pause;              /* timer of the pause; the loop frees it */
    struct pccl_arrivals *queue;    /* with keys */
    struct pccl_budget handshakes;  /* with keys; set at opening */
    uint16_t port;
    struct pccl_connection_list strangers;
    struct pccl_connection_list on_spare; /* stranger that uses the spare's descriptor, if any */
    uv_file spare;                        /* reserved descriptor; only if has_spare */
    bool has_spare;
    bool wants_spare;  /* set by the owner, which then calls pccl_listener_can_keep and sets `crowded_out` */
    bool hears_offers; /* accepts pipes at the local socket */
    uint32_t strangers_max;
    uint32_t queue_max; /* with keys: limit for the queue, and at most a quarter of the descriptors free at opening, */
    uint32_t sharers;   /* divided by this number of listeners (0 is 1) */
    uint32_t greeting_ms; /* with keys: time limit for a complete greeting */
    uint32_t hello_ms;    /* time limit for strangers; 0: the owner ends them */
    const struct pccl_connection_events *events;
    void *owner;
    const struct pccl_keys *keys; /* keys for all connections; NULL: not encrypted */
    enum pccl_secure_role role;   /* with keys: MASTER or ACCEPTED */
    /* A new connection was accepted. Called between enter and leave of the events. */
    void (*accepted)(void *owner, struct pccl_connection *connection);
    /* This stranger is about to be ended to free its descriptor; the owner may send it a last message. May be NULL. */
    void (*crowded_out)(void *owner, struct pccl_connection *connection);
    /* A waiting connection could not be accepted because of this error. Called as `accepted`; may be NULL. */
    void (*starved)(void *owner, int error);
    /* A connection from this address was dropped from the queue (net/arrivals.h). May be NULL. */
    void (*dropped)(void *owner, const struct pccl_address *from, enum pccl_arrival_end why);
};

/*
 * Listens on all addresses with one port: `port`, or one of the next port_range - 1 ports if it is taken on any of the
 * addresses; 0: the system chooses. An address of a family that this host does not support is omitted if another
 * remains. The caller has set loop, memory, hash, strangers_max, hello_ms, events, owner and accepted. Returns 0, or a
 * negative libuv error with a reason.
 */
PCCL_MUST_CHECK int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses,
                                       uint32_t count, uint16_t port, uint32_t port_range, struct pccl_text *reason);
/*
 * Also listens at a local socket under this id, and stops listening under the previous one. If that fails, peers on
 * this host use TCP.
 */
void pccl_listener_open_local(struct pccl_listener *listener, const struct pccl_id *id);
/*
 * Stops accepting and closes the strangers. The struct may be freed at once. Also accepts a zeroed struct that was
 * never opened.
 */
void pccl_listener_close(struct pccl_listener *listener);
/* Adopts a stranger: it leaves the list and loses its time limit. */
void pccl_listener_adopt(struct pccl_connection *connection);
/*
 * Returns true if a stranger, which has just sent a valid message, can be kept. It cannot if it uses the last
 * descriptor and no other can be freed, not even an older stranger's; the owner then answers and closes it, unless it
 * must serve it anyway. Call between enter and leave of the events; other strangers may end.
 */
PCCL_MUST_CHECK bool pccl_listener_can_keep(struct pccl_listener *listener, struct pccl_connection *connection);

#endif
