/* Resolves names to addresses without blocking the loop. Runs on the loop's thread. */
#ifndef PCCL_OS_RESOLVE_H
#define PCCL_OS_RESOLVE_H

#include "core/address.h"
#include "core/memory.h"
#include "core/text.h"

#include <uv.h>

struct pccl_host {
    char name[256]; /* host name, IPv4 address, or IPv6 address without brackets */
    uint16_t port;
};

struct pccl_resolver;

/* Converts a numeric name. Returns false if the name is not numeric. */
PCCL_MUST_CHECK bool pccl_resolve_numeric(const struct pccl_host *host, struct pccl_address *address);
/*
 * Resolves names, and blocks until done. Returns the number of addresses found, at most `max`; if 0, also sets a
 * reason.
 */
uint32_t pccl_resolve_now(const struct pccl_host *hosts, uint32_t count, struct pccl_address *addresses, uint32_t max,
                          struct pccl_text *reason);

struct pccl_resolve {
    const struct pccl_host *hosts; /* copied */
    uint32_t count;
    /*
     * Called once, unless the resolver is canceled; never from inside start. Receives the addresses in the order of the
     * hosts, which may have several each, or a `count` of 0 and a reason. The resolver no longer exists during the
     * call.
     */
    void (*done)(void *context, const struct pccl_address *addresses, uint32_t count, const struct pccl_text *reason);
    void *context;
    /* Called before and after `done`, to take and release the lock under which it is called. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    void *owner;
};

/* Starts resolving. Returns NULL if out of memory. */
struct pccl_resolver *pccl_resolver_start(uv_loop_t *loop, const struct pccl_memory *memory,
                                          const struct pccl_resolve *resolve);
/*
 * Cancels, so that `done` is not called. Returns true if the system is still working on a request, which keeps the loop
 * alive until it is answered.
 */
bool pccl_resolver_cancel(struct pccl_resolver *resolver);

#endif
