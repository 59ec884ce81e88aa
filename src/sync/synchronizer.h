/*
 * Carries out one synchronization of shared state at one peer: its digests and the transfer. It lives
 * as long as the call, and its event loop runs on the caller's thread, so that nothing touches the
 * caller's memory before or after.
 *
 * Knows nothing of the peer's machine and its locks, nor of elections: the driver passes in the
 * plan.
 *
 * Any thread may pass in what happens meanwhile (the plan, donors, connections, the end), which is
 * recorded and wakes the loop. Everything else belongs to the caller's thread.
 */
#ifndef PCCL_SYNC_SYNCHRONIZER_H
#define PCCL_SYNC_SYNCHRONIZER_H

#include "core/address.h"
#include "core/log.h"
#include "device/device.h"
#include "net/channel.h"
#include "net/local.h"
#include "state/state.h"

struct pccl_synchronizer;

/* A tensor of the caller. */
struct pccl_sync_tensor {
    const char *name;
    void *data;
    uint64_t count, bytes;
    uint8_t datatype;
    bool unequal;
    struct pccl_device *device; /* NULL: host memory */
};

/* A donor, as the plan names it. */
struct pccl_sync_named {
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof; /* of the elected content, which is to be fetched */
    const struct pccl_address *candidates;
    uint32_t candidate_count;
};

struct pccl_sync_events {
    void *context;
    /*
     * On the caller's thread, without a lock: the first write into the caller's memory is about to
     * happen.
     */
    void (*touching)(void *context);
    /* The proof of the tensors that must be the same everywhere; NULL: it could not be computed. */
    void (*proven)(void *context, const struct pccl_proof *proof);
    /* Fetching has ended: complete, or not, with a reason. At most once for each plan. */
    void (*fetched)(void *context, bool complete, const struct pccl_text *reason);
    struct pccl_log_sink log; /* on the same thread; with a context of its own */
    /*
     * An invariant broke in `run`, perhaps in the middle of another event: nothing may be passed in
     * any more.
     */
    void (*broken)(void *context);
};

struct pccl_sync_config {
    struct pccl_id self, lineage;
    const struct pccl_keys *keys;   /* NULL: connections are in the clear */
    const struct pccl_local *local; /* for peers on this host; NULL: TCP only */
    uint64_t round;
    const struct pccl_kernels *kernels;
    const struct pccl_sync_tensor *tensors; /* must stay in place until destroy */
    uint32_t tensor_count;
    uint32_t threads;    /* for the digests; 0: one for each processor, up to a limit */
    uint32_t silence_ms; /* a peer that is silent for this long is given up */
    uint32_t stagger_ms; /* between the addresses of a donor */
    /*
     * How long to wait for another donor when none is left; 0: PCCL_SYNC_PATIENCE_MS. The pauses
     * between the four attempts to reach a donor are fractions of it.
     */
    uint32_t patience_ms;
};

enum { PCCL_SYNC_PATIENCE_MS = 2000 };

/*
 * Digests all tensors. pccl_synchronizer_name may set this peer's identity later, before the plan.
 * On failure (MEMORY, LIMIT, SYSTEM, with a reason) nothing is left to be freed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_synchronizer_create(const struct pccl_sync_config *config,
                                                          const struct pccl_sync_events *events,
                                                          struct pccl_synchronizer **synchronizer,
                                                          struct pccl_text *reason);
void pccl_synchronizer_name(struct pccl_synchronizer *synchronizer, const struct pccl_id *self,
                            const struct pccl_id *lineage, uint64_t round, uint32_t silence_ms);
/* The state, whose digests go into the vote. */
const struct pccl_state *pccl_synchronizer_state(const struct pccl_synchronizer *synchronizer);

/* ---- any thread ---- */

/*
 * requests: fetch; otherwise only serve. In both cases the proofs are computed first. A later plan
 * replaces the one before; its donors are named anew. A synchronizer that fetches serves once it has
 * everything. Before that, and when a later plan asks it to fetch, it closes the connections of
 * requesters.
 */
void pccl_synchronizer_plan(struct pccl_synchronizer *synchronizer, bool requests, bool takes_unequal);
void pccl_synchronizer_donor(struct pccl_synchronizer *synchronizer, const struct pccl_sync_named *named);
/*
 * Passes the synchronizer a link of kind STATE after its handshake. MEMORY, LIMIT, USAGE (the synchronizer
 * has ended): the link is still the caller's.
 */
PCCL_MUST_CHECK enum pccl_status pccl_synchronizer_accept(struct pccl_synchronizer *synchronizer,
                                                          const struct pccl_id *peer, struct pccl_handover *handover);
/*
 * Whether a newer plan has arrived than the one that the loop works on, whose reports are then to
 * be ignored.
 */
PCCL_MUST_CHECK bool pccl_synchronizer_is_replanned(struct pccl_synchronizer *synchronizer);
/* The bytes that were fetched, of how many as far as is known, and since when; 0: nothing is fetched. */
void pccl_synchronizer_progress(const struct pccl_synchronizer *synchronizer, uint64_t *done, uint64_t *total,
                                uint64_t *since_us);
/* Makes `run` return. */
void pccl_synchronizer_end(struct pccl_synchronizer *synchronizer);

/* ---- the caller's thread ---- */

/* Whether `run` has something to do: a plan or a connection has arrived. */
bool pccl_synchronizer_is_needed(struct pccl_synchronizer *synchronizer);
/* Serves and fetches until pccl_synchronizer_end. */
void pccl_synchronizer_run(struct pccl_synchronizer *synchronizer);
/* The payload bytes so far. */
void pccl_synchronizer_traffic(const struct pccl_synchronizer *synchronizer, uint64_t *sent, uint64_t *received);
/*
 * Appends the names of tensors that were written to and are incomplete: "'a', 'b' and 3 more";
 * nothing if there are none.
 */
void pccl_synchronizer_torn(const struct pccl_synchronizer *synchronizer, struct pccl_text *reason);
/* Closes connections and frees everything. */
void pccl_synchronizer_destroy(struct pccl_synchronizer *synchronizer);

#endif
