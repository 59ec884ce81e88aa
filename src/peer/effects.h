/*
 * What a peer's machine asks of its driver. Effects are called from inside pccl_peer_step and must
 * not call back into the machine. What they are given is valid during the call only, unless a
 * comment says otherwise.
 */
#ifndef PCCL_PEER_EFFECTS_H
#define PCCL_PEER_EFFECTS_H

#include "core/address.h"
#include "core/log.h"
#include "peer/operation.h"
#include "wire/wire.h"

/* What the group has elected, and this peer's part in the transfer. */
struct pccl_sync_plan {
    uint64_t round, revision;
    bool requests; /* it fetches what it lacks from the donors; otherwise it serves */
    bool takes_unequal;
    struct pccl_digest content;
};

/* A path to be measured, within an optimize call. */
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
    /* Dial the master at all its addresses; MASTER_UP or MASTER_DOWN must follow. */
    void (*dial_master)(void *context);
    void (*close_master)(void *context);
    void (*send_master)(void *context, const uint8_t *bytes, size_t length); /* bytes: valid during the call only */
    void (*accept_master)(void *context); /* the master has answered: larger frames may be read */
    /*
     * Dial a peer; LINK_UP or LINK_DOWN{how} must follow. At most one attempt per peer is under
     * way. ticket: for the link_hello.
     */
    void (*dial_link)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count);
    /* Send link_bye and close, or stop dialing; no event follows. */
    void (*close_link)(void *context, const struct pccl_id *peer, bool incoming);
    /* The other end of the outgoing connection of this number is gone: end it like one that closes. */
    void (*cut_link)(void *context, const struct pccl_id *peer, uint64_t number);
    /*
     * A blocking call has ended: connect, update, pending, sync or optimize. `value`: the answer of
     * pending.
     */
    void (*call_done)(void *context, enum pccl_call call, enum pccl_status status, bool value);
    void (*op_decided)(void *context, struct pccl_peer_op *op);
    /*
     * Bulk operations only: start moving data; stop, since the outcome is known (report nothing
     * more).
     */
    void (*op_start)(void *context, struct pccl_peer_op *op);
    void (*op_stop)(void *context, struct pccl_peer_op *op);
    /*
     * Of one that was started: stop, put its input back, and start again in its present start view and ring; unless
     * op_stop comes first. Nothing that is known of it then counts.
     */
    void (*op_restart)(void *context, struct pccl_peer_op *op);
    /* An operation that was not launched here has ended: it will never start. */
    void (*op_gone)(void *context, const struct pccl_instance *instance);
    /*
     * A subgroup has ended: op_decided has been called for what was undecided in it. Not called for
     * one that its caller has closed.
     */
    void (*subgroup_ended)(void *context, uint64_t name);
    /* The group has a new ring. */
    void (*ring_changed)(void *context, const struct pccl_id *ring, uint32_t count);
    /*
     * Within a sync call: the group has elected; and one more donor, for a peer that fetches. After
     * a restart of the master another plan may come, which may differ; its donors are named anew.
     */
    void (*sync_plan)(void *context, const struct pccl_sync_plan *plan);
    void (*sync_donor)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket, bool holds_unequal,
                       const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count);
    /*
     * Within an optimize call: measure this path; TEST_DONE must follow. A later test replaces the
     * one before.
     */
    void (*measure)(void *context, const struct pccl_peer_test *test);
    /*
     * The answer to DESCRIBE: the topology report, valid during the call only; NULL: there will be
     * none.
     */
    void (*described)(void *context, const struct pccl_bytes *text);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};

#endif
