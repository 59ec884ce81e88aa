/*
 * Connects to a process that may have several addresses: tries them in order, starting the next after a delay even if
 * the one before has not answered, and takes the first that works. With a hello, an address works if the intended peer
 * accepts the hello; this detects another process behind the same address. Runs on the loop's thread.
 */
#ifndef PCCL_NET_DIALER_H
#define PCCL_NET_DIALER_H

#include "net/connection.h"
#include "os/local.h"

struct pccl_dialer;

enum { PCCL_DIAL_ADDRESSES_MAX = 32 };

struct pccl_dial {
    const struct pccl_address *addresses; /* copied; `count` may be 0 */
    uint32_t count;                       /* number of addresses, <= PCCL_DIAL_ADDRESSES_MAX */
    const struct pccl_local *local;       /* with a hello: the peer's local socket, tried first; NULL: TCP only */
    bool offers_pipe;                     /* offers a pipe at the local socket if the connection is not encrypted */
    uint32_t stagger_ms;
    uint32_t timeout_ms; /* limit for connecting to one address, and again for the answer to the hello */
    const struct pccl_msg_link_hello *hello; /* copied, with our magic and build; NULL: a connection is enough */
    const struct pccl_keys *keys; /* not copied; NULL: not encrypted. Without a hello, the other side is a master */
    bool *declined;               /* if not NULL, set when the intended peer has answered and refused */
    /*
     * Called once, unless canceled; never from inside start or cancel. Passes either the connection, whose events and
     * owner must be set in the call, or NULL and the cause. In the second case `how` is 0 if every attempt over TCP
     * failed because this host is short of memory or descriptors, and `reason` then names only that shortage. The
     * dialer no longer exists during the call.
     */
    void (*done)(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                 const struct pccl_text *reason);
    void *context;
    /* Called around every visit of the loop, to take and release the lock under which `done` is called. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    void *owner;
};

/* Starts dialing. Returns NULL if out of memory. */
struct pccl_dialer *pccl_dialer_start(uv_loop_t *loop, const struct pccl_memory *memory, const struct pccl_dial *dial);
/* Stops dialing. `done` will not be called. */
void pccl_dialer_cancel(struct pccl_dialer *dialer);

#endif
