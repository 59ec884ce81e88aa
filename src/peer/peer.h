/*
 * Control state machine of a peer: its session with the master, its view of the membership, its operations and votes,
 * and the links that it should have. It is pure, like master/master.h: the driver passes events to it (peer/event.h),
 * carries out the effects (peer/effects.h), and reads the state through peer/queries.h. Only one thread may call it at
 * a time (the driver's lock).
 */
#ifndef PCCL_PEER_PEER_H
#define PCCL_PEER_PEER_H

#include "core/address.h"
#include "core/memory.h"
#include "core/status.h"
#include "peer/effects.h"
#include "peer/event.h"
#include "peer/params.h"

/* Configuration of the machine: the parameters (peer/params.h) and fields that the driver sets. */
#define PCCL_PEER_FIELD(X, name, ...) uint32_t name;
struct pccl_peer_config {
    struct pccl_build build;            /* build whose wire protocol it speaks; set by the driver, as the next ones */
    struct pccl_id id, token, link_key; /* random */
    uint64_t hash_seed;                 /* also random: for tables whose keys other peers choose */
    uint32_t group;
    uint16_t port; /* the listening port */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    char name[PCCL_NAME_MAX + 1];
    bool named; /* the user chose the name, so the peer keeps it after a restart */
    PCCL_PEER_PARAMS(PCCL_PEER_FIELD, )
    uint32_t send_idle_ms;   /* time for which the link of a bulk send is kept after the send */
    uint32_t send_links_max; /* maximum number of links that only sends need, or have needed lately */
    /* by the program: stuck_ms then also ends calls in a cycle that may be wrong, and calls with a deadline */
    bool stuck_is_set;
};
struct pccl_peer_config pccl_peer_defaults(void);

struct pccl_peer; /* peer/state.h */

/* Returns NULL if it is out of memory. The config, memory and effects are copied. */
struct pccl_peer *pccl_peer_create(const struct pccl_peer_config *config, const struct pccl_memory *memory,
                                   const struct pccl_peer_effects *effects, uint64_t now_us);
void pccl_peer_destroy(struct pccl_peer *peer);
/*
 * Handles an event; nothing else changes the state. CALL, DESCRIBE and LAUNCH return OK, or the reason of the refusal,
 * and then nothing has changed. All other events return OK.
 */
enum pccl_status pccl_peer_step(struct pccl_peer *peer, struct pccl_peer_event *event);

#endif
