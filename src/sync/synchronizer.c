/* Creation and end of a synchronizer, and its inbox for plans and donors. */
#include "net/guard.h"
#include "net/heap.h"
#include "sync/digests.h"
#include "sync/internal.h"

#include <string.h>

enum {
    TORN_NAMED = 2,
    TORN_NAME_BYTES = 64,
};

/* ---- the inbox ---- */

static void release_donors(struct pccl_sync_donor *donor)
{
    for (struct pccl_sync_donor *next; donor; donor = next) {
        next = donor->next;
        pccl_release(pccl_heap(), donor, sizeof *donor);
    }
}

void pccl_synchronizer_name(struct pccl_worker *worker, const struct pccl_id *self, const struct pccl_id *lineage,
                            uint64_t round, uint32_t silence_ms)
{
    worker->config.self = *self;
    worker->config.lineage = *lineage;
    worker->config.silence_ms = silence_ms;
    pccl_sync_of(worker)->config.round = round;
}

/* Empties the inbox and returns its content. The caller holds the lock. */
static struct pccl_sync_inbox empty(struct pccl_sync_inbox *inbox)
{
    struct pccl_sync_inbox content = *inbox;
    *inbox = (struct pccl_sync_inbox){.donors_end = &inbox->donors};
    return content;
}

void pccl_synchronizer_plan(struct pccl_worker *worker, bool requests, bool takes_unequal)
{
    struct pccl_sync_inbox *inbox = &pccl_sync_of(worker)->inbox;
    uv_mutex_lock(&worker->lock);
    struct pccl_sync_inbox before = empty(inbox);
    inbox->planned = true;
    inbox->order = (struct pccl_sync_order){.requests = requests, .takes_unequal = takes_unequal};
    pccl_worker_post(worker);
    release_donors(before.donors);
}

static struct pccl_sync_donor *make_donor(const struct pccl_sync_named *named)
{
    PCCL_ASSERT(named->candidate_count <= PCCL_CANDIDATES_MAX);
    struct pccl_sync_donor *donor = pccl_allocate(pccl_heap(), sizeof *donor);
    if (!donor)
        return NULL;
    donor->peer = named->peer;
    donor->ticket = named->ticket;
    donor->holds_unequal = named->holds_unequal;
    donor->reversed = named->reversed;
    donor->proof = named->proof;
    donor->candidate_count = named->candidate_count;
    if (named->candidate_count)
        memcpy(donor->candidates, named->candidates, named->candidate_count * sizeof *named->candidates);
    return donor;
}

void pccl_synchronizer_donor(struct pccl_worker *worker, const struct pccl_sync_named *named)
{
    struct pccl_sync_inbox *inbox = &pccl_sync_of(worker)->inbox;
    struct pccl_sync_donor *donor = make_donor(named);
    uv_mutex_lock(&worker->lock);
    bool takes = donor && inbox->donor_count < PCCL_SYNC_DONORS_KNOWN_MAX;
    if (takes) {
        *inbox->donors_end = donor;
        inbox->donors_end = &donor->next;
        inbox->donor_count++;
    }
    if (!donor) {
        inbox->starved = true;
        inbox->starved_proof = named->proof;
    }
    pccl_worker_post(worker);
    if (!takes)
        release_donors(donor);
}

bool pccl_synchronizer_is_replanned(struct pccl_worker *worker)
{
    uv_mutex_lock(&worker->lock);
    bool replanned = pccl_sync_of(worker)->inbox.planned;
    uv_mutex_unlock(&worker->lock);
    return replanned;
}

/* ---- the loop ---- */

/* Computes the proofs if they have not been computed. The fetch computes the proofs of content written later. */
static bool prove(struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    if (synchronizer->proven)
        return true;
    if (pccl_sync_prove(&synchronizer->state, synchronizer->config.tensors, synchronizer->config.threads,
                        &synchronizer->worker.leaving, reason) != PCCL_OK)
        return false;
    pccl_state_prove(&synchronizer->state);
    synchronizer->proven = true;
    return true;
}

static void take_plan(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order)
{
    const struct pccl_sync_config *config = &synchronizer->config;
    void *context = config->worker.context;
    struct pccl_text reason;
    synchronizer->planned = true;
    if (order->requests)
        pccl_sync_servers_close(synchronizer);
    bool proven = prove(synchronizer, &reason);
    config->proven(context, proven ? &synchronizer->state.proof : NULL);
    if (proven)
        pccl_sync_fetching_begin(synchronizer, order);
    else if (order->requests)
        config->fetched(context, false, &reason);
}

static void on_woken(struct pccl_worker *worker)
{
    struct pccl_synchronizer *synchronizer = pccl_sync_of(worker);
    uv_mutex_lock(&worker->lock); /* takes everything at once, so that the input from one thread stays in order */
    struct pccl_sync_inbox batch = empty(&synchronizer->inbox);
    uv_mutex_unlock(&worker->lock);
    if (batch.planned)
        take_plan(synchronizer, &batch.order);
    if (batch.starved)
        pccl_sync_fetching_lose_donor(synchronizer, &batch.starved_proof);
    for (struct pccl_sync_donor *donor = batch.donors, *next; donor; donor = next) {
        next = donor->next;
        pccl_sync_fetching_add(synchronizer, donor);
    }
    pccl_sync_fetching_advance(synchronizer);
    if (batch.planned)
        pccl_sync_servers_advance(synchronizer);
}

static void on_ticked(struct pccl_worker *worker) { pccl_sync_fetching_tick(pccl_sync_of(worker)); }

/* ---- queries ---- */

const struct pccl_state *pccl_synchronizer_state(struct pccl_worker *worker) { return &pccl_sync_of(worker)->state; }

void pccl_synchronizer_traffic(struct pccl_worker *worker, uint64_t *sent, uint64_t *received)
{
    *sent = pccl_sync_of(worker)->sent;
    *received = pccl_sync_of(worker)->received;
}

void pccl_synchronizer_progress(struct pccl_worker *worker, uint64_t *done, uint64_t *total, uint64_t *since_us)
{
    struct pccl_synchronizer *synchronizer = pccl_sync_of(worker);
    *done = atomic_load_explicit(&synchronizer->fetched, memory_order_relaxed);
    *total = pccl_max_u64(*done, atomic_load_explicit(&synchronizer->to_fetch, memory_order_relaxed));
    *since_us = atomic_load_explicit(&synchronizer->fetch_since_us, memory_order_relaxed);
}

void pccl_synchronizer_torn(struct pccl_worker *worker, struct pccl_text *reason)
{
    const struct pccl_synchronizer *synchronizer = pccl_sync_of(worker);
    uint64_t count = 0;
    const struct pccl_fetch *machine = worker->broken ? NULL : synchronizer->fetching.machine;
    for (uint32_t i = 0; machine && i < synchronizer->config.tensor_count; i++) {
        if (!pccl_fetch_is_torn(machine, i) || ++count > TORN_NAMED)
            continue;
        const char *name = synchronizer->config.tensors[i].name;
        pccl_text_add(reason, count > 1 ? ", '" : "'");
        pccl_text_add_bytes(reason, name, strnlen(name, TORN_NAME_BYTES));
        pccl_text_add(reason, "'");
    }
    if (count > TORN_NAMED)
        pccl_text_append(reason, " and %" PRIu64 " more", count - TORN_NAMED);
}

/* ---- creation and end ---- */

static enum pccl_status make_state(struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    const struct pccl_sync_config *config = &synchronizer->config;
    size_t bytes = (config->tensor_count + (size_t)1) * sizeof(struct pccl_tensor);
    struct pccl_tensor *tensors = config->tensor_count <= PCCL_TENSORS_MAX ? pccl_allocate(pccl_heap(), bytes) : NULL;
    enum pccl_status status = config->tensor_count <= PCCL_TENSORS_MAX ? PCCL_MEMORY : PCCL_LIMIT;
    for (uint32_t i = 0; tensors && i < config->tensor_count; i++) {
        const struct pccl_sync_tensor *tensor = &config->tensors[i];
        tensors[i].name = tensor->name;
        tensors[i].count = tensor->count;
        tensors[i].bytes = tensor->bytes;
        tensors[i].datatype = tensor->datatype;
        tensors[i].unequal = tensor->unequal;
    }
    if (tensors)
        status = pccl_state_init(&synchronizer->state, config->kernels, pccl_heap(), tensors, config->tensor_count);
    pccl_release(pccl_heap(), tensors, bytes);
    if (status == PCCL_LIMIT)
        pccl_text_format(reason, "a shared state can have at most %u tensors and must be smaller than 2^63 bytes",
                         PCCL_TENSORS_MAX);
    else if (status != PCCL_OK)
        pccl_text_format(reason, "%s", pccl_status_text(status));
    if (status != PCCL_OK)
        return status;
    status = pccl_sync_digest(&synchronizer->state, config->tensors, config->threads, reason);
    if (status == PCCL_OK)
        pccl_state_seal(&synchronizer->state);
    else
        pccl_state_fini(&synchronizer->state);
    return status;
}

struct making {
    struct pccl_synchronizer *synchronizer;
    struct pccl_text *reason;
    enum pccl_status status;
};

static void make(void *argument)
{
    struct making *making = argument;
    making->status = make_state(making->synchronizer, making->reason);
}

/* Creates the state. After INTERNAL the synchronizer is neither used nor freed. */
static enum pccl_status make_state_guarded(struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    struct making making = {.synchronizer = synchronizer, .reason = reason};
    if (pccl_guard_run(make, &making))
        return making.status;
    synchronizer->worker.broken = true;
    return pccl_fail(reason, PCCL_INTERNAL, "%s", pccl_status_text(PCCL_INTERNAL));
}

static void release(struct pccl_worker *worker)
{
    struct pccl_synchronizer *synchronizer = pccl_sync_of(worker);
    release_donors(synchronizer->inbox.donors);
    pccl_sync_fetching_destroy(synchronizer);
    pccl_state_fini(&synchronizer->state);
    pccl_release(pccl_heap(), synchronizer->roots, PCCL_STATE_DIGESTS_MAX * sizeof *synchronizer->roots);
}

static const struct pccl_worker_kind kind = {.bytes = sizeof(struct pccl_synchronizer),
                                             .link = PCCL_LINK_STATE,
                                             .accepts = &pccl_sync_serving,
                                             .accepts_max = PCCL_SYNC_LINKS_PER_PEER_MAX,
                                             .woken = on_woken,
                                             .ticked = on_ticked,
                                             .release = release};

enum pccl_status pccl_synchronizer_create(const struct pccl_sync_config *config, struct pccl_worker **out,
                                          struct pccl_text *reason)
{
    struct pccl_worker *worker;
    enum pccl_status status = pccl_worker_create(&kind, &config->worker, &worker, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_synchronizer *synchronizer = pccl_sync_of(worker);
    synchronizer->config = *config;
    if (!config->patience_ms)
        synchronizer->config.patience_ms = PCCL_SYNC_PATIENCE_MS;
    (void)empty(&synchronizer->inbox);
    synchronizer->fetching.alone_us = UINT64_MAX;
    synchronizer->roots = pccl_heap_raw(PCCL_STATE_DIGESTS_MAX * sizeof *synchronizer->roots);
    status = synchronizer->roots ? make_state_guarded(synchronizer, reason)
                                 : pccl_fail(reason, PCCL_MEMORY, "%s", pccl_status_text(PCCL_MEMORY));
    if (status == PCCL_OK)
        *out = worker;
    else
        pccl_worker_destroy(worker);
    return status;
}
