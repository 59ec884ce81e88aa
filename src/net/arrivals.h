/*
 * Connections that a listener with keys has accepted and OpenSSL has not seen: they wait for their handshake. A
 * connection is early until its whole TLS greeting has arrived, so half greetings cost no handshake; then it waits for
 * its turn (core/turns). If there are too many, the kind of which there are more makes room: the oldest early one, or
 * the oldest of the address with the most that are ready. Runs on the loop's thread.
 */
#ifndef PCCL_NET_ARRIVALS_H
#define PCCL_NET_ARRIVALS_H

#include "core/memory.h"
#include "core/turns.h"

#include <uv.h>

struct pccl_arrivals;

struct pccl_arrivals_events {
    /* There are connections to take, or some time has passed since; may close the arrivals. */
    void (*ready)(void *owner);
    /* A connection from there was closed without an answer; early: no greeting in time, or there are too many. */
    void (*dropped)(void *owner, const struct pccl_address *from, bool early);
};

/*
 * max: number of connections, up to PCCL_TURNS_MAX; if that is less, a quarter of the free descriptors, divided by the
 * number of listeners that share them (0 is 1). limit_ms: how long one may be early. The events must outlive the
 * arrivals. NULL: out of memory.
 */
struct pccl_arrivals *pccl_arrivals_create(uv_loop_t *loop, const struct pccl_memory *memory,
                                           const struct pccl_hash_key *hash, uint32_t max, uint32_t sharers,
                                           uint32_t limit_ms, const struct pccl_arrivals_events *events, void *owner);
/* Closes all connections. The loop frees the arrivals later. */
void pccl_arrivals_close(struct pccl_arrivals *arrivals);
/* Takes over a connection, which may end it or another one at once, by `dropped`. */
void pccl_arrivals_add(struct pccl_arrivals *arrivals, uv_os_sock_t socket, const struct pccl_address *from);
/* Ends the oldest early one, to get its descriptor. Returns false if none has been there for so long. */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms);
bool pccl_arrivals_has_ready(const struct pccl_arrivals *arrivals);
/* Gives the connection whose turn it is to the caller. There must be one. */
uv_os_sock_t pccl_arrivals_take(struct pccl_arrivals *arrivals, struct pccl_address *from);

#endif
