/*
 * A worker (net/worker.h) that carries out one synchronization of shared state at one peer: its digests and the
 * transfer. It runs on the caller's thread, so that nothing touches the caller's memory before or after the call.
 *
 * Knows nothing of elections: the driver passes in the plan. `worker` below is always one that
 * pccl_synchronizer_create has made.
 */
#ifndef PCCL_SYNC_SYNCHRONIZER_H
#define PCCL_SYNC_SYNCHRONIZER_H

#include "device/device.h"
#include "net/worker.h"
#include "state/state.h"

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

struct pccl_sync_config {
    struct pccl_worker_config worker;
    uint64_t round;
    const struct pccl_kernels *kernels;
    const struct pccl_sync_tensor *tensors; /* must stay in place until the worker is destroyed */
    uint32_t tensor_count;
    uint32_t threads; /* for the digests; 0: one for each processor, up to a limit */
    /*
     * How long to wait for another donor when none is left; 0: PCCL_SYNC_PATIENCE_MS. The pauses
     * between the four attempts to reach a donor are fractions of it.
     */
    uint32_t patience_ms;
    /* The first write into the caller's memory is about to happen. */
    void (*touching)(void *context);
    /* The proof of the tensors that must be the same everywhere; NULL: it could not be computed. */
    void (*proven)(void *context, const struct pccl_proof *proof);
    /* Fetching has ended: complete, or not, with a reason. At most once for each plan. */
    void (*fetched)(void *context, bool complete, const struct pccl_text *reason);
};

enum { PCCL_SYNC_PATIENCE_MS = 2000 };

/* ---- the caller's thread ---- */

/*
 * Digests all tensors. On failure (MEMORY, LIMIT, SYSTEM, INTERNAL, with a reason) nothing is left to be destroyed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_synchronizer_create(const struct pccl_sync_config *config,
                                                          struct pccl_worker **worker, struct pccl_text *reason);
/* Sets what is known only later. To be called before the first plan. */
void pccl_synchronizer_name(struct pccl_worker *worker, const struct pccl_id *self, const struct pccl_id *lineage,
                            uint64_t round, uint32_t silence_ms);
/* The state, whose digests go into the vote. */
const struct pccl_state *pccl_synchronizer_state(struct pccl_worker *worker);
/* The payload bytes so far. */
void pccl_synchronizer_traffic(struct pccl_worker *worker, uint64_t *sent, uint64_t *received);
/*
 * Appends the names of tensors that were written to and are incomplete: "'a', 'b' and 3 more";
 * nothing if there are none.
 */
void pccl_synchronizer_torn(struct pccl_worker *worker, struct pccl_text *reason);

/* ---- any thread ---- */

/*
 * requests: fetch; otherwise only serve. In both cases the proofs are computed first. A later plan
 * replaces the one before; its donors are named anew. A synchronizer that fetches serves once it has
 * everything. Before that, and when a later plan asks it to fetch, it closes the connections of
 * requesters.
 */
void pccl_synchronizer_plan(struct pccl_worker *worker, bool requests, bool takes_unequal);
void pccl_synchronizer_donor(struct pccl_worker *worker, const struct pccl_sync_named *named);
/*
 * Whether a newer plan has arrived than the one that the loop works on, whose reports are then to
 * be ignored.
 */
PCCL_MUST_CHECK bool pccl_synchronizer_is_replanned(struct pccl_worker *worker);
/* The bytes that were fetched, of how many as far as is known, and since when; 0: nothing is fetched. */
void pccl_synchronizer_progress(struct pccl_worker *worker, uint64_t *done, uint64_t *total, uint64_t *since_us);

#endif
