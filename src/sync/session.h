/*
 * One synchronization of shared state at one peer: its digests, and the transfer. Lives as long as the call, on the
 * caller's thread: its event loop runs there, so that nothing touches the caller's memory before or after.
 *
 * Any thread may hand in what happens meanwhile (the plan, donors, connections, the end); it is noted and the loop is
 * woken. Everything else belongs to the caller's thread.
 */
#ifndef PCCL_SYNC_SESSION_H
#define PCCL_SYNC_SESSION_H

#include "core/address.h"
#include "core/log.h"
#include "device/device.h"
#include "net/channel.h"
#include "state/state.h"

struct pccl_sync_session;

/* One tensor as the caller has it. */
struct pccl_sync_tensor {
    const char *name;
    void *data;
    uint64_t count, bytes;
    uint8_t datatype;
    bool unequal;
    struct pccl_device *device; /* NULL: memory of the host */
};

/* One to fetch from. */
struct pccl_sync_named {
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof; /* of what was elected, and is to be fetched */
    const struct pccl_address *candidates;
    uint32_t candidate_count;
};

struct pccl_sync_events {
    void *context;
    /* On the caller's thread, without a lock. The first write into the caller's memory is about to happen. */
    void (*touching)(void *context);
    /* What the tensors that are to be the same everywhere have as their proof; NULL: it could not be computed. */
    void (*proven)(void *context, const struct pccl_proof *proof);
    /* What the plan asked for is there, or cannot be had (words). At most once for each plan. */
    void (*fetched)(void *context, bool complete, const struct pccl_text *reason);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
    /* An invariant broke in `run`, perhaps in the middle of another event: nothing may be handed in any more. */
    void (*broken)(void *context);
};

struct pccl_sync_config {
    struct pccl_id self, lineage;
    uint64_t round;
    const struct pccl_kernels *kernels;
    const struct pccl_sync_tensor *tensors; /* stay in place until destroy */
    uint32_t tensor_count;
    uint32_t threads;    /* for the digests; 0: as many as there are processors, within reason */
    uint32_t silence_ms; /* a peer that says nothing for so long is given up */
    uint32_t stagger_ms; /* between the addresses of a donor */
    /*
     * How long to wait for another donor when there is none left, 0: PCCL_SYNC_PATIENCE_MS. The pauses between the four
     * attempts to reach one are parts of it.
     */
    uint32_t patience_ms;
};

enum { PCCL_SYNC_PATIENCE_MS = 2000 };

/*
 * Digests all tensors. Who we are may be set later (before the plan): pccl_sync_session_name. On failure (MEMORY,
 * LIMIT, SYSTEM), with a reason, there is nothing to be freed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_session_create(const struct pccl_sync_config *config,
                                                          const struct pccl_sync_events *events,
                                                          struct pccl_sync_session **session, struct pccl_text *reason);
void pccl_sync_session_name(struct pccl_sync_session *session, const struct pccl_id *self,
                            const struct pccl_id *lineage, uint64_t round, uint32_t silence_ms);
/* What goes into the vote. */
const struct pccl_state *pccl_sync_session_state(const struct pccl_sync_session *session);

/* ---- any thread ---- */

/*
 * requests: fetch; else serve only. Either way the proofs are computed first. A later plan replaces the one before;
 * donors are named anew. Who fetches serves as soon as all is there; before that, and when a later plan asks it to
 * fetch, it closes what it has accepted.
 */
void pccl_sync_session_plan(struct pccl_sync_session *session, bool requests, bool takes_unequal);
void pccl_sync_session_donor(struct pccl_sync_session *session, const struct pccl_sync_named *named);
/*
 * A link of kind STATE has been through its handshake: the session owns it. MEMORY, LIMIT, USAGE (it has ended): it is
 * still the caller's.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_session_accept(struct pccl_sync_session *session, const struct pccl_id *peer,
                                                          struct pccl_handover *handover);
/* Another plan has come than the one that the loop works on: what it reports is of no interest any more. */
PCCL_MUST_CHECK bool pccl_sync_session_is_replanned(struct pccl_sync_session *session);
/* `run` returns. */
void pccl_sync_session_end(struct pccl_sync_session *session);

/* ---- the caller's thread ---- */

/* There is something for `run` to do: a plan or a connection has come. */
bool pccl_sync_session_is_needed(struct pccl_sync_session *session);
/* Serves and fetches until pccl_sync_session_end. */
void pccl_sync_session_run(struct pccl_sync_session *session);
/* Payload bytes. */
void pccl_sync_session_traffic(const struct pccl_sync_session *session, uint64_t *sent, uint64_t *received);
/* Appends the names of tensors that were written to and are not complete: "'a', 'b' and 3 more"; nothing if none. */
void pccl_sync_session_torn(const struct pccl_sync_session *session, struct pccl_text *reason);
/* Closes connections and frees everything. */
void pccl_sync_session_destroy(struct pccl_sync_session *session);

#endif
