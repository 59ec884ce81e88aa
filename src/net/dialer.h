/*
 * Connects to a process that may have several addresses. Tries them in order, starting the next one after a delay even
 * if the previous one has not answered yet, and uses the first that works. With a hello, an address works only if the
 * intended peer accepts the hello, so another process behind the same address is detected. Runs on the loop's thread.
 */
#ifndef PCCL_NET_DIALER_H
#define PCCL_NET_DIALER_H

#include "net/connection.h"
#include "os/local.h"

struct pccl_dialer;

enum { PCCL_DIAL_ADDRESSES_MAX = 32 };

struct pccl_dial {
    const struct pccl_address *addresses; /* copied; may be empty */
    uint32_t count;                       /* number of addresses, <= PCCL_DIAL_ADDRESSES_MAX */
    /* with a hello: the local socket of the peer, which is tried first; NULL: TCP only */
    const struct pccl_local *local;
    bool offers_pipe; /* at the local socket, offers a pipe unless the connection is encrypted */
    uint32_t stagger_ms;
    uint32_t timeout_ms; /* limit for connecting to an address, and separately for the answer to the hello */
    /* not 0: does not dial, but reports TIMEOUT after this time, unless canceled; without a hello or addresses */
    uint32_t waits_ms;
    /* copied, with our magic and build added; NULL: being connected is enough */
    const struct pccl_msg_link_hello *hello;
    const struct pccl_keys *keys; /* not copied; NULL: not encrypted. Without a hello, the other side is a master */
    bool *declined;               /* if not NULL, set to true when the intended peer itself has refused */
    /*
     * Called once, unless the dialer is canceled; never from within start or cancel. Receives either the connection,
     * whose events and owner it must set, or NULL and the cause. In the second case, `how` is 0 if every attempt over
     * TCP failed because this host is short of memory or descriptors; `reason` then names only this shortage. The
     * dialer no longer exists during the call.
     */
    void (*done)(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                 const struct pccl_text *reason);
    void *context;
    /*
     * Called before and after every visit of the loop, to take and release the lock under which `done` is called. May
     * be NULL.
     */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    void *owner;
};

/* Starts dialing. Returns NULL if out of memory. */
struct pccl_dialer *pccl_dialer_start(uv_loop_t *loop, const struct pccl_memory *memory, const struct pccl_dial *dial);
/* Stops dialing. `done` will not be called. */
void pccl_dialer_cancel(struct pccl_dialer *dialer);

#endif
