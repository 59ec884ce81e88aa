/*
 * Effects: the functions by which a peer's machine acts through its driver. The machine calls them from inside
 * pccl_peer_step; they must not call the machine. Unless a comment says otherwise, arguments are valid only during the
 * call.
 */
#ifndef PCCL_PEER_EFFECTS_H
#define PCCL_PEER_EFFECTS_H

#include "core/address.h"
#include "core/log.h"
#include "peer/operation.h"
#include "wire/wire.h"

/* Content that the group has elected, and the role of this peer in the transfer. */
struct pccl_sync_plan {
    uint64_t round, revision;
    bool requests; /* true: fetch the missing tensors from the donors; false: serve them */
    bool takes_unequal;
    struct pccl_digest content;
};

/* Path to measure within an optimize call. */
struct pccl_peer_test {
    uint64_t number;
    struct pccl_id peer;
    uint32_t limit_ms;
    struct pccl_id ticket;
    const struct pccl_address *candidates;
    uint32_t candidate_count;
    bool reversed; /* the other peer dials */
};

struct pccl_peer_effects {
    void *context;
    /* Dials the master at all its addresses. MASTER_UP or MASTER_DOWN must follow. */
    void (*dial_master)(void *context);
    void (*close_master)(void *context);
    void (*send_master)(void *context, const uint8_t *bytes, size_t length); /* `bytes` is valid only during the call */
    void (*accept_master)(void *context); /* the master has answered, so the driver may read larger frames */
    /*
     * Dials a peer. LINK_UP or LINK_DOWN{how} must follow. There is at most one attempt per peer at a time. `ticket` is
     * for the link_hello. With `reversed`, requests each connection of the link by WANT_BACK and waits for it.
     */
    void (*dial_link)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count, bool reversed);
    /*
     * Dials a connection in place of the other end. For RING, incoming LINK_UP or END_GONE{how} may follow. A later
     * request for the same slot replaces this one.
     */
    void (*dial_back)(void *context, const struct pccl_msg_dial_back *request);
    /* Sends link_bye and closes the link, or cancels the dial. No event follows. */
    void (*close_link)(void *context, const struct pccl_id *peer, bool incoming);
    /* Ends the outgoing connection with this number as if the other end had closed it, because that end is gone. */
    void (*cut_link)(void *context, const struct pccl_id *peer, uint64_t number);
    /*
     * Reports the end of a blocking call: connect, update, pending, sync or optimize. `value` is the answer of pending.
     */
    void (*call_done)(void *context, enum pccl_call call, enum pccl_status status, bool value);
    void (*op_decided)(void *context, struct pccl_peer_op *op);
    /*
     * For bulk operations. op_start starts the data transfer. op_stop stops it because the outcome is known; after
     * that, the driver must not pass in events about the operation.
     */
    void (*op_start)(void *context, struct pccl_peer_op *op);
    void (*op_stop)(void *context, struct pccl_peer_op *op);
    /*
     * Restarts an operation that had started: the driver stops it, restores its input, and starts it again in the
     * current start view and ring, unless op_stop is called first. Earlier reports about the operation are void.
     */
    void (*op_restart)(void *context, struct pccl_peer_op *op);
    /* Reports that an operation which was not launched here has ended. It will never start. */
    void (*op_gone)(void *context, const struct pccl_instance *instance);
    /*
     * Reports the end of a subgroup, after op_decided for each of its undecided operations. Not called for a subgroup
     * that its caller has closed.
     */
    void (*subgroup_ended)(void *context, uint64_t name);
    /* Reports a new ring of the group. */
    void (*ring_changed)(void *context, const struct pccl_id *ring, uint32_t count);
    /*
     * For a sync call. sync_plan reports the elected content. sync_donor names a donor to a peer that fetches. After a
     * restart of the master, another plan may follow with other content; its donors are named again.
     */
    void (*sync_plan)(void *context, const struct pccl_sync_plan *plan);
    void (*sync_donor)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket, bool holds_unequal,
                       const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count,
                       bool reversed);
    /* For an optimize call. Measures this path; TEST_DONE must follow. A later test replaces an earlier one. */
    void (*measure)(void *context, const struct pccl_peer_test *test);
    /* Answers DESCRIBE. `text` is the topology report, valid only during the call, or NULL if none exists. */
    void (*described)(void *context, const struct pccl_bytes *text);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};

#endif
