/*
 * Connections that a listener with keys has accepted and that wait for their handshake; OpenSSL has not seen them. A
 * connection is early until its whole TLS greeting has arrived, with the knock in front of it (net/knock.h). A bad
 * knock gets a fixed refusal, at a limited rate; a good one waits for its turn (core/turns). If there are too many
 * connections, the larger group of the two makes room: either the oldest early connection, or the oldest ready one of
 * the address with the most ready ones. Runs on the loop's thread.
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
    PCCL_ARRIVAL_EARLY,   /* early for too long, or dropped because there are too many connections */
    PCCL_ARRIVAL_CROWDED, /* ready, but dropped because there are too many, most of them from that address */
    PCCL_ARRIVAL_PLAIN,   /* this and the following ones: see pccl_knock_judge */
    PCCL_ARRIVAL_MISSING,
    PCCL_ARRIVAL_WRONG,
};

struct pccl_arrivals_events {
    /* Called around every visit of the loop, for the owner's lock; may close the arrivals. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /*
     * Connections are ready to be taken; repeated every few milliseconds while there are any. May close the arrivals.
     */
    void (*ready)(void *listener);
    /* A connection from this address was closed. */
    void (*dropped)(void *listener, const struct pccl_address *from, enum pccl_arrival_end why);
};

struct pccl_arrivals_config {
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash;
    const struct pccl_keys *keys;
    enum pccl_secure_role role; /* MASTER or ACCEPTED */
    uint32_t max;      /* limit for connections, up to PCCL_TURNS_MAX; lowered to a quarter of the free descriptors */
    uint32_t sharers;  /* number of listeners that divide these descriptors among them (0 is 1) */
    uint32_t limit_ms; /* time within which a connection must send its knock and TLS greeting */
    struct pccl_arrivals_events events;
    void *owner, *listener;
};

/* Returns NULL if out of memory. Copies the config. */
struct pccl_arrivals *pccl_arrivals_create(const struct pccl_arrivals_config *config);
/* Closes all connections. The loop frees the arrivals later. */
void pccl_arrivals_close(struct pccl_arrivals *arrivals);
/*
 * Takes over a connection, during a visit. Closes it if out of memory. If there are too many connections, drops another
 * one first and reports it by `dropped`.
 */
void pccl_arrivals_add(struct pccl_arrivals *arrivals, uv_os_sock_t socket, const struct pccl_address *from);
/*
 * Ends the oldest early connection of at least this age, during a visit, to free its descriptor. Returns false if no
 * connection is that old.
 */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms);
bool pccl_arrivals_has_ready(const struct pccl_arrivals *arrivals);
/* Passes the next connection in turn to the caller. At least one must be ready. */
uv_os_sock_t pccl_arrivals_take(struct pccl_arrivals *arrivals, struct pccl_address *from);

#endif
