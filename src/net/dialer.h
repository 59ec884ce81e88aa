/*
 * Reaches a process that may have several addresses: tries them in order, starting the next after a
 * delay even if the one before has not answered, and takes the first that works. With a hello, an
 * address works when the intended peer accepts the hello; this detects another process behind the
 * same address. Runs on the loop's thread.
 */
#ifndef PCCL_NET_DIALER_H
#define PCCL_NET_DIALER_H

#include "net/connection.h"
#include "os/local.h"

struct pccl_dialer;

enum { PCCL_DIAL_ADDRESSES_MAX = 32 };

struct pccl_dial {
    const struct pccl_address *addresses; /* copied; may be none */
    uint32_t count;                       /* <= PCCL_DIAL_ADDRESSES_MAX */
    const struct pccl_local *local; /* with a hello: the peer's local socket first, if it has one; NULL: TCP only */
    bool offers_pipe;               /* at the local socket, where nothing is encrypted */
    uint32_t stagger_ms;
    uint32_t timeout_ms;                     /* for each address, including the answer to the hello */
    const struct pccl_msg_link_hello *hello; /* copied; magic and build are ours; NULL: a connection is enough */
    const struct pccl_keys *keys; /* not copied; NULL: in the clear. Without a hello it is a master that is dialed */
    bool *declined;               /* if not NULL, set when the intended peer has answered and refused */
    /*
     * Called once, never from inside start or cancel. Passes either the connection, whose events
     * and owner must be set in the call, or NULL and the cause. `how` is 0 if no address was tried because this host
     * is short of memory or descriptors; the reason is only that then. The dialer no longer exists then.
     */
    void (*done)(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                 const struct pccl_text *reason);
    void *context;
    /*
     * Called around every visit of the loop, for the lock under which done is called. May be NULL.
     */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    void *owner;
};

/* NULL: out of memory. */
struct pccl_dialer *pccl_dialer_start(uv_loop_t *loop, const struct pccl_memory *memory, const struct pccl_dial *dial);
/* `done` will not be called. */
void pccl_dialer_cancel(struct pccl_dialer *dialer);

#endif
