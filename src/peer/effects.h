/*
 * What a peer's machine asks of its driver. Effects are called from inside pccl_peer_step and must not call back into
 * the machine; what they are given is valid during the call only, unless it says otherwise.
 */
#ifndef PCCL_PEER_EFFECTS_H
#define PCCL_PEER_EFFECTS_H

#include "core/address.h"
#include "core/log.h"
#include "peer/operation.h"
#include "wire/wire.h"

/* What the group has elected, and what this peer does about it. */
struct pccl_sync_plan {
    uint64_t round, revision;
    bool requests; /* it fetches what it lacks from the donors; else it serves */
    bool takes_unequal;
    struct pccl_digest content;
};

/* A way to be measured, within an optimize call. */
struct pccl_peer_test {
    uint64_t number;
    struct pccl_id peer;
    uint32_t limit_ms;
    struct pccl_id ticket;
    const struct pccl_address *candidates;
    uint32_t candidate_count;
};

struct pccl_peer_effects {
    void *context;
    /* Try to connect to the master (all its addresses); answer with MASTER_UP or MASTER_DOWN. */
    void (*dial_master)(void *context);
    void (*close_master)(void *context);
    void (*send_master)(void *context, const uint8_t *bytes, size_t length); /* a view valid during the call only */
    void (*accept_master)(void *context);                                    /* larger frames may be read */
    /* Open a link; answer with LINK_UP or LINK_DOWN{how}. At most one attempt per peer is under way. ticket: for the
     * link_hello. */
    void (*dial_link)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count);
    /* Say link_bye and close, or give up dialing; no event follows. */
    void (*close_link)(void *context, const struct pccl_id *peer, bool incoming);
    /* A blocking call is over: connect, update, pending, sync or optimize. `value`: the answer of pending. */
    void (*call_done)(void *context, enum pccl_call call, enum pccl_status status, bool value);
    void (*op_decided)(void *context, struct pccl_peer_op *op);
    /* Bulk operations: start moving data; and stop, the outcome is known (report nothing more). */
    void (*op_start)(void *context, struct pccl_peer_op *op);
    void (*op_stop)(void *context, struct pccl_peer_op *op);
    /* One that was not launched here is over: it will never start. */
    void (*op_gone)(void *context, const struct pccl_instance *instance);
    /* The group's ring is this one now. */
    void (*ring_changed)(void *context, const struct pccl_id *ring, uint32_t count);
    /*
     * Within a sync call: the group has elected; and, for one who requests, one more peer to fetch from. A plan may
     * come again, and differ, after a restart of the master; its donors are named anew.
     */
    void (*sync_plan)(void *context, const struct pccl_sync_plan *plan);
    void (*sync_donor)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket, bool holds_unequal,
                       const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count);
    /* Within an optimize call: measure this way, and report by TEST_DONE. A later test replaces the one
     * before. */
    void (*measure)(void *context, const struct pccl_peer_test *test);
    /* The answer to DESCRIBE: text, valid during the call only; NULL: there will be none. */
    void (*described)(void *context, const struct pccl_bytes *text);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};

#endif
