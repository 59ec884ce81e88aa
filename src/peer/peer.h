/*
 * Control state machine of a peer: its session with the master, its view of the membership, its operations and votes,
 * and the links that it should have. Pure, like master/master.h: the driver passes events to it (peer/event.h),
 * executes the effects (peer/effects.h), and reads the state through peer/queries.h. Only one thread may call it at a
 * time (the driver's lock).
 */
#ifndef PCCL_PEER_PEER_H
#define PCCL_PEER_PEER_H

#include "core/address.h"
#include "core/memory.h"
#include "core/status.h"
#include "peer/effects.h"
#include "peer/event.h"
#include "peer/params.h"

/* Configuration of the machine: the parameters (peer/params.h), and fields that the driver sets. */
#define PCCL_PEER_FIELD(X, name, ...) uint32_t name;
struct pccl_peer_config {
    /* this build, which determines the wire format; set by the driver, like the fields below */
    struct pccl_build build;
    struct pccl_id id, token, link_key; /* random */
    uint64_t hash_seed;                 /* random, because other peers choose some of the tables' keys */
    uint32_t group;
    uint16_t port; /* listening port */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    char name[PCCL_NAME_MAX + 1];
    bool named; /* true if the user chose the name, so that the peer has it again after a restart */
    PCCL_PEER_PARAMS(PCCL_PEER_FIELD, )
    uint32_t send_idle_ms;   /* time for which the link stays open after a bulk send */
    uint32_t send_links_max; /* maximum number of links that only sends need or needed recently */
    /*
     * true if the program set stuck_ms; it then also applies to calls in a possible cycle, and to calls with a deadline
     */
    bool stuck_is_set;
};
struct pccl_peer_config pccl_peer_defaults(void);

struct pccl_peer; /* peer/state.h */

/* Creates the machine. Returns NULL if out of memory. Copies the config, memory and effects. */
struct pccl_peer *pccl_peer_create(const struct pccl_peer_config *config, const struct pccl_memory *memory,
                                   const struct pccl_peer_effects *effects, uint64_t now_us);
void pccl_peer_destroy(struct pccl_peer *peer);
/*
 * Hands a decided operation that a caller holds over to the driver, before the machine is destroyed. The driver may
 * read it, and frees it with the machine's memory.
 */
void pccl_peer_op_detach(struct pccl_peer *peer, struct pccl_peer_op *op);
void pccl_peer_op_free(const struct pccl_memory *memory, struct pccl_peer_op *op);
/*
 * Handles an event. CALL, DESCRIBE and LAUNCH return OK, or the reason for the refusal, in which case nothing has
 * changed. All other events return OK.
 */
enum pccl_status pccl_peer_step(struct pccl_peer *peer, struct pccl_peer_event *event);

#endif
