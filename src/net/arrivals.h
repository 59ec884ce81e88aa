/*
 * Connections that a listener with keys has accepted and OpenSSL has not seen: they wait for their handshake. A
 * connection is early until its whole TLS greeting has arrived, with the knock in front of it (net/knock.h). A bad
 * knock gets a fixed refusal, at a limited rate; a good one waits for its turn (core/turns). If there are too many
 * connections, the kind of which there are more makes room: the oldest early one, or the oldest of the address with the
 * most that are ready. Runs on the loop's thread.
 */
#ifndef PCCL_NET_ARRIVALS_H
#define PCCL_NET_ARRIVALS_H

#include "core/memory.h"
#include "core/turns.h"
#include "net/secure.h"

#include <uv.h>

struct pccl_arrivals;

/* Why a connection was closed. */
enum pccl_arrival_end {
    PCCL_ARRIVAL_EARLY,   /* it is early for too long, or there are too many */
    PCCL_ARRIVAL_CROWDED, /* too many are ready, most of them from there */
    PCCL_ARRIVAL_PLAIN,   /* the rest: pccl_knock_judge */
    PCCL_ARRIVAL_MISSING,
    PCCL_ARRIVAL_WRONG,
};

struct pccl_arrivals_events {
    /* Called around every visit of the loop, for the owner's lock; may close the arrivals. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /* There are connections to take, or some time has passed since; may close the arrivals. */
    void (*ready)(void *listener);
    /* A connection from there was closed. */
    void (*dropped)(void *listener, const struct pccl_address *from, enum pccl_arrival_end why);
};

struct pccl_arrivals_config {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash;
    const struct pccl_keys *keys;
    enum pccl_secure_role role; /* MASTER or ACCEPTED */
    uint32_t max;      /* number of connections, up to PCCL_TURNS_MAX; if that is less, a quarter of the free */
    uint32_t sharers;  /* descriptors, divided by the number of listeners that share them (0 is 1) */
    uint32_t limit_ms; /* one may be early for so long */
    struct pccl_arrivals_events events;
    void *owner, *listener;
};

/* Copies the config. NULL: out of memory. */
struct pccl_arrivals *pccl_arrivals_create(const struct pccl_arrivals_config *config);
/* Closes all connections. The loop frees the arrivals later. */
void pccl_arrivals_close(struct pccl_arrivals *arrivals);
/* In a visit: takes over a connection, which may end it or another one at once, by `dropped`. */
void pccl_arrivals_add(struct pccl_arrivals *arrivals, uv_os_sock_t socket, const struct pccl_address *from);
/* In a visit: ends the oldest early one, to get its descriptor. Returns false if none has been there for so long. */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms);
bool pccl_arrivals_has_ready(const struct pccl_arrivals *arrivals);
/* Gives the connection whose turn it is to the caller. There must be one. */
uv_os_sock_t pccl_arrivals_take(struct pccl_arrivals *arrivals, struct pccl_address *from);

#endif
