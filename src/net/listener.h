/*
 * Accepts connections on one port of one or several local addresses. A new connection is a stranger, in a list of
 * limited length, until the owner adopts it. If the list is full, the oldest stranger of the address with the most
 * strangers is dropped.
 *
 * With keys, a connection first waits in a queue of limited length (net/arrivals) until its greeting is complete and a
 * handshake can begin. The number of handshakes per second is limited because they take time.
 *
 * Connections at the local socket have no address, and together count as one address. If a flood there displaces peers,
 * they use TCP instead. A shortage of descriptors pauses accepting but ends no connection; a spare descriptor still
 * allows the next stranger to send its hello and get an answer. Runs on the loop's thread.
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
    PCCL_HANDSHAKES_PER_S = 600, /* one handshake takes about 0.45 ms of the loop's thread in total */
    PCCL_HANDSHAKES_BURST = 250,
};

struct pccl_listener {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    /* random key, so that strangers cannot choose the connections that they displace */
    const struct pccl_hash_key *hash;
    struct pccl_listener_socket *sockets; /* a list; the loop frees each */
    struct pccl_listener_socket *here;    /* the one in `sockets` for peers on this host, or NULL */
    struct pccl_id here_id;
    const struct pccl_local *local; /* needed for pccl_listener_open_local; not owned */
    uv_timer_t *pause;              /* timer of the pause after a shortage; freed by the loop */
    struct pccl_arrivals *queue;    /* only with keys */
    struct pccl_budget handshakes;  /* only with keys; initialized when the listener is opened */
    uint16_t port;
    struct pccl_connection_list strangers;
    struct pccl_connection_list on_spare; /* the stranger that uses the spare's descriptor, if any */
    uv_file spare;                        /* reserved descriptor; valid if has_spare */
    bool has_spare;
    bool wants_spare;   /* set by an owner that calls pccl_listener_can_keep and sets `crowded_out` */
    bool accepts_pipes; /* accepts offers of pipes at the local socket */
    uint32_t strangers_max;
    /*
     * with keys: limit for the queue, further limited to a quarter of the free descriptors when the listener is opened
     */
    uint32_t queue_max;
    uint32_t sharers;     /* number of listeners among which this quarter is divided (0 means 1) */
    uint32_t greeting_ms; /* with keys: time within which a greeting must be complete */
    uint32_t hello_ms;    /* time limit for strangers; 0: the owner ends them */
    const struct pccl_connection_events *events;
    void *owner;
    const struct pccl_keys *keys; /* keys for all connections; NULL: not encrypted */
    enum pccl_secure_role role;   /* with keys: PCCL_SECURE_MASTER or PCCL_SECURE_ACCEPTED */
    /* A new connection was accepted. Called between `enter` and `leave` of the events. */
    void (*accepted)(void *owner, struct pccl_connection *connection);
    /* This stranger is about to be closed to free its descriptor. The owner may send it a last message. May be NULL. */
    void (*crowded_out)(void *owner, struct pccl_connection *connection);
    /* A waiting connection could not be accepted because of this error. Called like `accepted`. May be NULL. */
    void (*starved)(void *owner, int error);
    /* A connection from this address was dropped from the queue (net/arrivals.h). May be NULL. */
    void (*dropped)(void *owner, const struct pccl_address *from, enum pccl_arrival_end why);
};

/*
 * Listens on all addresses with the same port: `port`, or one of the next port_range - 1 ports if it is in use on any
 * address; if 0, the system chooses. Omits addresses of a family that this host does not support, unless none would
 * remain. The caller has set loop, memory, hash, strangers_max, hello_ms, events, owner and accepted. Returns 0, or a
 * negative libuv error with a reason.
 */
PCCL_MUST_CHECK int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses,
                                       uint32_t count, uint16_t port, uint32_t port_range, struct pccl_text *reason);
/*
 * Also listens at a local socket with this id, and no longer at the previous one. If this fails, peers on this host use
 * TCP.
 */
void pccl_listener_open_local(struct pccl_listener *listener, const struct pccl_id *id);
/*
 * Stops accepting and closes the strangers. The struct may be freed immediately. A zeroed struct that was never opened
 * is allowed.
 */
void pccl_listener_close(struct pccl_listener *listener);
/* Adopts a stranger, which leaves the list and loses its time limit. */
void pccl_listener_adopt(struct pccl_connection *connection);
/*
 * Returns true if a stranger that has just sent a valid message can be kept. It cannot be if it uses the last
 * descriptor and no older stranger's can be freed; the owner must then answer and close it, unless it must serve it
 * anyway. Call between `enter` and `leave` of the events. Other strangers may end.
 */
PCCL_MUST_CHECK bool pccl_listener_can_keep(struct pccl_listener *listener, struct pccl_connection *connection);

#endif
