/*
 * A peer's control state machine: its session with the master, its view of the membership, its
 * operations and votes, and the links it should hold. Pure, like master/master.h: the driver turns
 * the world into events (peer/event.h) and carries out the effects (peer/effects.h); it reads the
 * state by peer/queries.h. One caller at a time (the driver's lock).
 */
#ifndef PCCL_PEER_PEER_H
#define PCCL_PEER_PEER_H

#include "core/address.h"
#include "core/memory.h"
#include "core/status.h"
#include "peer/effects.h"
#include "peer/event.h"
#include "peer/params.h"

/* Holds the parameters (peer/params.h) and fields that the driver sets. */
#define PCCL_PEER_FIELD(X, name, ...) uint32_t name;
struct pccl_peer_config {
    struct pccl_build build;            /* whose wire it speaks; from the driver, as the next ones */
    struct pccl_id id, token, link_key; /* random */
    uint64_t hash_seed;                 /* random, too: for tables whose keys others choose */
    uint32_t group;
    uint16_t port; /* the listening port */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    char name[PCCL_NAME_MAX + 1];
    bool named; /* the user chose the name, so that the peer has the same name after a restart */
    PCCL_PEER_PARAMS(PCCL_PEER_FIELD, )
    uint32_t send_idle_ms;   /* time for which the link of a bulk send is kept after it */
    uint32_t send_links_max; /* links that only sends need, or have needed lately */
    bool stuck_is_set;       /* by the program: also calls in a cycle that may err, and those with a deadline */
};
struct pccl_peer_config pccl_peer_defaults(void);

struct pccl_peer; /* peer/state.h */

/* NULL: out of memory. The config, memory and effects are copied. */
struct pccl_peer *pccl_peer_create(const struct pccl_peer_config *config, const struct pccl_memory *memory,
                                   const struct pccl_peer_effects *effects, uint64_t now_us);
void pccl_peer_destroy(struct pccl_peer *peer);
/*
 * Handles an event; nothing else changes the state. Of CALL, DESCRIBE and LAUNCH: OK, or why it is
 * refused, and then nothing has happened. Of all other events: OK.
 */
enum pccl_status pccl_peer_step(struct pccl_peer *peer, struct pccl_peer_event *event);

#endif
