/*
 * A worker (net/worker.h) that executes one synchronization of shared state at one peer: the digests and the transfer.
 * Runs on the caller's thread, so that the caller's memory is not used before or after the call.
 *
 * The driver passes in the plan. `worker` below is always a worker made by pccl_synchronizer_create.
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

/* A donor of the plan. */
struct pccl_sync_named {
    struct pccl_id peer, ticket;
    bool holds_unequal;
    struct pccl_proof proof; /* proof of the elected content */
    const struct pccl_address *candidates;
    uint32_t candidate_count;
    bool reversed; /* it dials */
};

struct pccl_sync_config {
    struct pccl_worker_config worker;
    uint64_t round;
    const struct pccl_kernels *kernels;
    const struct pccl_sync_tensor *tensors; /* must stay valid until the worker is destroyed */
    uint32_t tensor_count;
    uint32_t threads; /* number of threads for the digests; 0: one per processor, up to a limit */
    /*
     * Time to wait for another donor when no donor is left; 0: PCCL_SYNC_PATIENCE_MS. The pauses between the four
     * attempts to reach a donor are fractions of it.
     */
    uint32_t patience_ms;
    /* Called before the first write to the caller's memory. */
    void (*touching)(void *context);
    /* Reports the proof of the tensors that must be equal at all peers, or NULL if it could not be computed. */
    void (*proven)(void *context, const struct pccl_proof *proof);
    /* Reports the end of the fetch, at most once per plan. `reason` explains an incomplete one. */
    void (*fetched)(void *context, bool complete, const struct pccl_text *reason);
};

enum { PCCL_SYNC_PATIENCE_MS = 2000 };

/* ---- on the caller's thread ---- */

/*
 * Creates a synchronizer and digests all tensors. On failure (MEMORY, LIMIT, SYSTEM, INTERNAL, with a reason) there is
 * no worker to destroy.
 */
PCCL_MUST_CHECK enum pccl_status pccl_synchronizer_create(const struct pccl_sync_config *config,
                                                          struct pccl_worker **worker, struct pccl_text *reason);
/* Sets values that are known only later. Call before the first plan. */
void pccl_synchronizer_name(struct pccl_worker *worker, const struct pccl_id *self, const struct pccl_id *lineage,
                            uint64_t round, uint32_t silence_ms);
/* Returns the state; its digests are part of the vote. */
const struct pccl_state *pccl_synchronizer_state(struct pccl_worker *worker);
/* Returns the payload bytes sent and received so far. */
void pccl_synchronizer_traffic(struct pccl_worker *worker, uint64_t *sent, uint64_t *received);
/* Appends the names of tensors that are partly overwritten: "'a', 'b' and 3 more"; nothing if all are complete. */
void pccl_synchronizer_torn(struct pccl_worker *worker, struct pccl_text *reason);

/* ---- on any thread ---- */

/*
 * Sets the plan: with `requests` the synchronizer fetches, otherwise it only serves. In both cases it first computes
 * the proofs. A later plan replaces the previous one, and its donors are named again. A synchronizer that fetches
 * serves once it has everything. Before that, and when a later plan requests a fetch, it closes the connections of
 * requesters.
 */
void pccl_synchronizer_plan(struct pccl_worker *worker, bool requests, bool takes_unequal);
void pccl_synchronizer_donor(struct pccl_worker *worker, const struct pccl_sync_named *named);
/* Returns true if a newer plan than the loop's has arrived. Reports of the loop must then be ignored. */
PCCL_MUST_CHECK bool pccl_synchronizer_is_replanned(struct pccl_worker *worker);
/* Returns the fetched bytes, the known total, and the time at which the fetch began, or 0 if nothing is fetched. */
void pccl_synchronizer_progress(struct pccl_worker *worker, uint64_t *done, uint64_t *total, uint64_t *since_us);

#endif
