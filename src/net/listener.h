/*
 * Accepts connections on one port of one or several local addresses. Whoever connects is a stranger, in a list of
 * bounded length, until the owner adopts the connection; when the list is full, the oldest of the address with the most
 * makes room.
 * Shortage of descriptors pauses accepting and ends nothing; with a spare one, whoever comes then can still be heard
 * and answered. Runs on the loop's thread.
 */
#ifndef PCCL_NET_LISTENER_H
#define PCCL_NET_LISTENER_H

#include "net/connection.h"

struct pccl_listener_socket;

enum { PCCL_LISTEN_ADDRESSES_MAX = 16 };

struct pccl_listener {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash;     /* random, for addresses: whom strangers crowd out is not theirs to choose */
    struct pccl_listener_socket *sockets; /* a list; each is freed by the loop */
    uv_timer_t *pause;                    /* freed by the loop */
    uint16_t port;
    struct pccl_connection_list strangers;
    struct pccl_connection_list on_spare; /* the stranger that took the place of the spare, if any */
    uv_file spare;                        /* kept open for the moment when there is no other; only if has_spare */
    bool has_spare;
    bool wants_spare; /* set by the owner, who then asks pccl_listener_can_keep and has `crowded_out` */
    uint32_t strangers_max;
    uint32_t hello_ms; /* strangers are ended after so long; 0: the owner sees to it */
    const struct pccl_connection_events *events;
    void *owner;
    /* A new connection; called between enter and leave of the events. */
    void (*accepted)(void *owner, struct pccl_connection *connection);
    /* This stranger is about to be ended for want of a descriptor, if not NULL: the last chance to tell it so. */
    void (*crowded_out)(void *owner, struct pccl_connection *connection);
};

/*
 * Listens on all addresses with one port: `port`, or one of the port_range - 1 above it if it is taken on any of them;
 * 0: the system chooses. An address of a family that this host does not have is left out if another remains. The caller
 * has filled loop, memory, hash, strangers_max, hello_ms, events, owner and accepted. 0, or a negative libuv error with
 * words.
 */
PCCL_MUST_CHECK int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses,
                                       uint32_t count, uint16_t port, uint32_t port_range, struct pccl_text *reason);
/* No more connections; the strangers are closed. The struct may be freed at once. Also if never opened (zeroed). */
void pccl_listener_close(struct pccl_listener *listener);
/* The connection is no stranger any more. */
void pccl_listener_adopt(struct pccl_connection *connection);
/*
 * A stranger has said something that makes sense. false: it sits on the last descriptor, and there is no other, not
 * even one of an older stranger's: unless it must not be turned away, tell it so and close it. Between enter and leave
 * of the events; other strangers may end.
 */
PCCL_MUST_CHECK bool pccl_listener_can_keep(struct pccl_listener *listener, struct pccl_connection *connection);

#endif
