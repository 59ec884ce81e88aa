/*
 * Reaches one other side that may have several addresses: tries them in order, the next one a little later even if the
 * one before has not answered, and takes the first that works. With a hello, an address works when the peer that is
 * meant welcomes us: so another process behind the same address is found out. Runs on the loop's thread.
 */
#ifndef PCCL_NET_DIALER_H
#define PCCL_NET_DIALER_H

#include "net/connection.h"

struct pccl_dialer;

enum { PCCL_DIAL_ADDRESSES_MAX = 32 };

struct pccl_dial {
    const struct pccl_address *addresses; /* copied; may be none */
    uint32_t count;                       /* <= PCCL_DIAL_ADDRESSES_MAX */
    uint32_t stagger_ms;
    uint32_t timeout_ms;                     /* for each address, with the answer to the hello */
    const struct pccl_msg_link_hello *hello; /* copied; magic and version are ours; NULL: being connected is enough */
    bool *declined;        /* set, if not NULL, when the peer that is meant has answered and refused */
    bool reports_shortage; /* `how` is 0 if no address was tried, as this host is short of memory or descriptors */
    /*
     * Exactly once, and never from inside start or cancel: the connection, whose events and owner must be set now; or
     * NULL and why. The dialer is gone then.
     */
    void (*done)(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                 const struct pccl_text *reason);
    void *context;
    /* Around every visit of the loop, if not NULL: the lock under which done is called. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    void *owner;
};

/* NULL: out of memory. */
struct pccl_dialer *pccl_dialer_start(uv_loop_t *loop, const struct pccl_memory *memory, const struct pccl_dial *dial);
/* `done` will not be called. */
void pccl_dialer_cancel(struct pccl_dialer *dialer);

#endif
