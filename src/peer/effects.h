/*
 * Effects: the functions by which a peer's machine acts through its driver. The machine calls them from inside
 * pccl_peer_step; they must not call back into it. Arguments are valid during the call only, unless a comment says
 * otherwise.
 */
#ifndef PCCL_PEER_EFFECTS_H
#define PCCL_PEER_EFFECTS_H

#include "core/address.h"
#include "core/log.h"
#include "peer/operation.h"
#include "wire/wire.h"

/* Content that the group has elected, and this peer's part in the transfer. */
struct pccl_sync_plan {
    uint64_t round, revision;
    bool requests; /* true: this peer fetches the tensors that it lacks from the donors; false: it serves */
    bool takes_unequal;
    struct pccl_digest content;
};

/* Path to be measured, within an optimize call. */
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
    /* Dials the master at all its addresses. MASTER_UP or MASTER_DOWN must follow. */
    void (*dial_master)(void *context);
    void (*close_master)(void *context);
    void (*send_master)(void *context, const uint8_t *bytes, size_t length); /* `bytes` is valid during the call only */
    void (*accept_master)(void *context); /* the master has answered: the driver may read larger frames */
    /*
     * Dials a peer. LINK_UP or LINK_DOWN{how} must follow. There is at most one attempt per peer at a time. `ticket` is
     * for the link_hello.
     */
    void (*dial_link)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count);
    /* Sends link_bye and closes the link, or stops the attempt to dial. No event follows. */
    void (*close_link)(void *context, const struct pccl_id *peer, bool incoming);
    /* The other end of the outgoing connection of this number is gone: end it like one that closes. */
    void (*cut_link)(void *context, const struct pccl_id *peer, uint64_t number);
    /* A blocking call has ended: connect, update, pending, sync or optimize. `value` is the answer of pending. */
    void (*call_done)(void *context, enum pccl_call call, enum pccl_status status, bool value);
    void (*op_decided)(void *context, struct pccl_peer_op *op);
    /*
     * Bulk operations only. op_start starts the data transfer. op_stop stops it, because the outcome is known; the
     * driver must not report on the operation afterwards.
     */
    void (*op_start)(void *context, struct pccl_peer_op *op);
    void (*op_stop)(void *context, struct pccl_peer_op *op);
    /*
     * The operation had started. The driver stops it, restores its input, and starts it again in the current start view
     * and ring, unless op_stop is called first. Earlier results of the operation do not count.
     */
    void (*op_restart)(void *context, struct pccl_peer_op *op);
    /* An operation that was not launched here has ended. It will never start. */
    void (*op_gone)(void *context, const struct pccl_instance *instance);
    /*
     * A subgroup has ended. op_decided was called before for the undecided operations in it. Not called for a subgroup
     * that its caller has closed.
     */
    void (*subgroup_ended)(void *context, uint64_t name);
    /* The group has a new ring. */
    void (*ring_changed)(void *context, const struct pccl_id *ring, uint32_t count);
    /*
     * Within a sync call. sync_plan: the group has elected the content. sync_donor: names one more donor to a peer that
     * fetches. After a restart of the master another plan may come, which may differ; it names its donors again.
     */
    void (*sync_plan)(void *context, const struct pccl_sync_plan *plan);
    void (*sync_donor)(void *context, const struct pccl_id *peer, const struct pccl_id *ticket, bool holds_unequal,
                       const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count);
    /* Within an optimize call. Measures this path; TEST_DONE must follow. A later test replaces an earlier one. */
    void (*measure)(void *context, const struct pccl_peer_test *test);
    /* Answers DESCRIBE. `text` is the topology report, valid during the call only; NULL if there will be no report. */
    void (*described)(void *context, const struct pccl_bytes *text);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};

#endif
