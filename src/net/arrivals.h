/*
 * Queue of connections that a listener with keys has accepted and that wait for their handshake; OpenSSL has not seen
 * them. A connection is early until its whole TLS greeting, preceded by a knock (net/knock.h), has arrived. A bad knock
 * gets a fixed refusal, at a limited rate. Connections with a good knock are ready, and wait for their turn
 * (core/turns). If there are too many connections, one of the larger group is dropped: either the oldest early
 * connection, or the oldest ready one of the address that has the most. Runs on the loop's thread.
 */
#ifndef PCCL_NET_ARRIVALS_H
#define PCCL_NET_ARRIVALS_H

#include "core/memory.h"
#include "core/turns.h"
#include "net/secure.h"

#include <uv.h>

struct pccl_arrivals;

/* Reasons for closing a connection. */
enum pccl_arrival_end {
    PCCL_ARRIVAL_EARLY, /* dropped because it was early for too long, or because there were too many connections */
    /* ready, but dropped because there were too many connections, most of them from its address */
    PCCL_ARRIVAL_CROWDED,
    PCCL_ARRIVAL_PLAIN, /* this and the following: the results of pccl_knock_judge */
    PCCL_ARRIVAL_MISSING,
    PCCL_ARRIVAL_WRONG,
};

struct pccl_arrivals_events {
    /*
     * Called before and after every visit of the loop, to take and release the owner's lock. May close the arrivals.
     * May be NULL.
     */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /* Ready connections can be taken. Repeated every few milliseconds while there are any. May close the arrivals. */
    void (*ready)(void *listener);
    /* A connection from this address was closed. */
    void (*dropped)(void *listener, const struct pccl_address *from, enum pccl_arrival_end why);
};

struct pccl_arrivals_config {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash;
    const struct pccl_keys *keys;
    enum pccl_secure_role role; /* PCCL_SECURE_MASTER or PCCL_SECURE_ACCEPTED */
    /* limit for the number of connections, at most PCCL_TURNS_MAX; reduced to a quarter of the free descriptors */
    uint32_t max;
    uint32_t sharers;  /* number of listeners among which these descriptors are divided (0 means 1) */
    uint32_t limit_ms; /* time within which a connection must send its knock and TLS greeting */
    struct pccl_arrivals_events events;
    void *owner, *listener;
};

/* Returns NULL if out of memory. Copies the config. */
struct pccl_arrivals *pccl_arrivals_create(const struct pccl_arrivals_config *config);
/* Closes all connections. The loop frees the arrivals later. */
void pccl_arrivals_close(struct pccl_arrivals *arrivals);
/*
 * Adds a connection and owns its socket, which it closes if out of memory. Call during a visit. If there are too many
 * connections, first drops another one and reports it through `dropped`.
 */
void pccl_arrivals_add(struct pccl_arrivals *arrivals, uv_os_sock_t socket, const struct pccl_address *from);
/*
 * Drops the oldest early connection if it has at least this age, to free its descriptor. Call during a visit. Returns
 * false if no connection is that old.
 */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms);
bool pccl_arrivals_has_ready(const struct pccl_arrivals *arrivals);
/* Passes the next ready connection to the caller. There must be one. */
uv_os_sock_t pccl_arrivals_take(struct pccl_arrivals *arrivals, struct pccl_address *from);

#endif
