/* The life of a synchronizer, its loop, and the inbox for other threads. */
#include "net/guard.h"
#include "net/heap.h"
#include "net/socket.h"
#include "sync/digests.h"
#include "sync/internal.h"

#include <string.h>

enum {
    TORN_NAMED = 2,
    TORN_NAME_BYTES = 64,
};

/* ---- the inbox ---- */

static void wake(struct pccl_synchronizer *synchronizer) { pccl_reactor_wake(&synchronizer->reactor); }

static void release_donors(struct pccl_sync_donor *donor)
{
    for (struct pccl_sync_donor *next; donor; donor = next) {
        next = donor->next;
        pccl_release(pccl_heap(), donor, sizeof *donor);
    }
}

void pccl_synchronizer_name(struct pccl_synchronizer *synchronizer, const struct pccl_id *self,
                            const struct pccl_id *lineage, uint64_t round, uint32_t silence_ms)
{
    uv_mutex_lock(&synchronizer->lock);
    synchronizer->config.self = *self;
    synchronizer->config.silence_ms = silence_ms;
    synchronizer->config.lineage = *lineage;
    synchronizer->config.round = round;
    uv_mutex_unlock(&synchronizer->lock);
}

void pccl_synchronizer_plan(struct pccl_synchronizer *synchronizer, bool requests, bool takes_unequal)
{
    struct pccl_sync_inbox *inbox = &synchronizer->inbox;
    uv_mutex_lock(&synchronizer->lock);
    struct pccl_sync_donor *donors = inbox->donors;
    inbox->planned = true;
    inbox->order = (struct pccl_sync_order){.requests = requests, .takes_unequal = takes_unequal};
    inbox->donors = NULL;
    inbox->donors_end = &inbox->donors;
    inbox->donor_count = 0;
    inbox->starved = false;
    uv_mutex_unlock(&synchronizer->lock);
    release_donors(donors);
    wake(synchronizer);
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
    donor->proof = named->proof;
    donor->candidate_count = named->candidate_count;
    if (named->candidate_count)
        memcpy(donor->candidates, named->candidates, named->candidate_count * sizeof *named->candidates);
    return donor;
}

void pccl_synchronizer_donor(struct pccl_synchronizer *synchronizer, const struct pccl_sync_named *named)
{
    struct pccl_sync_inbox *inbox = &synchronizer->inbox;
    struct pccl_sync_donor *donor = make_donor(named);
    uv_mutex_lock(&synchronizer->lock);
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
    uv_mutex_unlock(&synchronizer->lock);
    if (!takes)
        release_donors(donor);
    wake(synchronizer);
}

enum pccl_status pccl_synchronizer_accept(struct pccl_synchronizer *synchronizer, const struct pccl_id *peer,
                                          struct pccl_handover *handover)
{
    struct pccl_sync_inbox *inbox = &synchronizer->inbox;
    struct pccl_sync_link *link = pccl_sync_server_create(synchronizer, peer, handover->socket);
    if (!link)
        return PCCL_MEMORY;
    enum pccl_status status = PCCL_OK;
    uv_mutex_lock(&synchronizer->lock);
    if (inbox->end) {
        status = PCCL_USAGE;
    } else if (inbox->accepted_count == PCCL_SYNC_ACCEPTED_MAX) {
        status = PCCL_LIMIT;
    } else {
        pccl_channel_adopt(&link->channel, handover);
        *inbox->accepted_end = link;
        inbox->accepted_end = &link->next_accepted;
        inbox->accepted_count++;
    }
    uv_mutex_unlock(&synchronizer->lock);
    if (status == PCCL_OK)
        wake(synchronizer);
    else
        pccl_sync_link_free(link);
    return status;
}

bool pccl_synchronizer_is_replanned(struct pccl_synchronizer *synchronizer)
{
    uv_mutex_lock(&synchronizer->lock);
    bool replanned = synchronizer->inbox.planned;
    uv_mutex_unlock(&synchronizer->lock);
    return replanned;
}

void pccl_synchronizer_end(struct pccl_synchronizer *synchronizer)
{
    uv_mutex_lock(&synchronizer->lock);
    synchronizer->inbox.end = true;
    atomic_store_explicit(&synchronizer->leaving, true, memory_order_relaxed);
    uv_mutex_unlock(&synchronizer->lock);
    wake(synchronizer);
}

bool pccl_synchronizer_is_needed(struct pccl_synchronizer *synchronizer)
{
    uv_mutex_lock(&synchronizer->lock);
    const struct pccl_sync_inbox *inbox = &synchronizer->inbox;
    bool needed = !inbox->end && (inbox->planned || inbox->accepted);
    uv_mutex_unlock(&synchronizer->lock);
    return needed;
}

/* ---- the loop ---- */

/* Takes everything at once, so that what one thread passes in stays in order. */
static void take_inbox(struct pccl_synchronizer *synchronizer, struct pccl_sync_inbox *batch)
{
    struct pccl_sync_inbox *inbox = &synchronizer->inbox;
    uv_mutex_lock(&synchronizer->lock);
    *batch = *inbox;
    if (inbox->planned) {
        synchronizer->lineage = synchronizer->config.lineage;
        synchronizer->round = synchronizer->config.round;
    }
    *inbox = (struct pccl_sync_inbox){.end = batch->end};
    inbox->donors_end = &inbox->donors;
    inbox->accepted_end = &inbox->accepted;
    uv_mutex_unlock(&synchronizer->lock);
}

/*
 * Computes the proofs once; those of content written later come from the machine that fetches it.
 */
static bool prove(struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    if (synchronizer->proven)
        return true;
    if (pccl_sync_prove(&synchronizer->state, synchronizer->config.tensors, synchronizer->config.threads,
                        &synchronizer->leaving, reason) != PCCL_OK)
        return false;
    pccl_state_prove(&synchronizer->state);
    synchronizer->proven = true;
    return true;
}

static void take_plan(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order)
{
    struct pccl_text reason;
    synchronizer->planned = true;
    if (order->requests)
        pccl_sync_servers_close(synchronizer);
    bool proven = prove(synchronizer, &reason);
    synchronizer->events.proven(synchronizer->events.context, proven ? &synchronizer->state.proof : NULL);
    if (proven)
        pccl_sync_fetching_begin(synchronizer, order);
    else if (order->requests)
        synchronizer->events.fetched(synchronizer->events.context, false, &reason);
}

static struct pccl_synchronizer *synchronizer_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_synchronizer, reactor);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_synchronizer *synchronizer = synchronizer_of(reactor);
    struct pccl_sync_inbox batch;
    take_inbox(synchronizer, &batch);
    if (batch.planned)
        take_plan(synchronizer, &batch.order);
    if (batch.starved)
        pccl_sync_fetching_lose_donor(synchronizer, &batch.starved_proof);
    for (struct pccl_sync_donor *donor = batch.donors, *next; donor; donor = next) {
        next = donor->next;
        pccl_sync_fetching_add(synchronizer, donor);
    }
    for (struct pccl_sync_link *link = batch.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_sync_server_open(link);
    }
    pccl_sync_fetching_advance(synchronizer);
    if (synchronizer->planned)
        pccl_sync_servers_advance(synchronizer);
    if (batch.end) {
        synchronizer->ended = true;
        pccl_reactor_stop(reactor);
    }
}

static void on_tick(struct pccl_reactor *reactor) { pccl_sync_fetching_tick(synchronizer_of(reactor)); }

static const struct pccl_reactor_events reactor_events = {.woken = on_wake, .ticked = on_tick};

void pccl_synchronizer_run(struct pccl_synchronizer *synchronizer)
{
    if (synchronizer->ended || synchronizer->broken || pccl_reactor_run(&synchronizer->reactor))
        return;
    synchronizer->broken = true;
    synchronizer->events.broken(synchronizer->events.context);
}

/* ---- queries ---- */

const struct pccl_state *pccl_synchronizer_state(const struct pccl_synchronizer *synchronizer)
{
    return &synchronizer->state;
}

void pccl_synchronizer_traffic(const struct pccl_synchronizer *synchronizer, uint64_t *sent, uint64_t *received)
{
    *sent = synchronizer->sent;
    *received = synchronizer->received;
}

void pccl_synchronizer_progress(const struct pccl_synchronizer *synchronizer, uint64_t *done, uint64_t *total,
                                uint64_t *since_us)
{
    *done = atomic_load_explicit(&synchronizer->fetched, memory_order_relaxed);
    *total = pccl_max_u64(*done, atomic_load_explicit(&synchronizer->to_fetch, memory_order_relaxed));
    *since_us = atomic_load_explicit(&synchronizer->fetch_since_us, memory_order_relaxed);
}

void pccl_synchronizer_torn(const struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    uint64_t count = 0;
    const struct pccl_fetch *machine = synchronizer->broken ? NULL : synchronizer->fetching.machine;
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

/* ---- life ---- */

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
        pccl_text_format(reason, "a shared state has at most %u tensors, and fewer bytes than 2^63", PCCL_TENSORS_MAX);
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

static enum pccl_status make_state_guarded(struct pccl_synchronizer *synchronizer, struct pccl_text *reason)
{
    struct making making = {.synchronizer = synchronizer, .reason = reason};
    if (pccl_guard_run(make, &making))
        return making.status;
    return pccl_fail(reason, PCCL_INTERNAL, "%s", pccl_status_text(PCCL_INTERNAL));
}

static bool make_buffers(struct pccl_synchronizer *synchronizer)
{
    synchronizer->scratch = pccl_heap_raw(sizeof *synchronizer->scratch);
    synchronizer->roots = pccl_heap_raw(PCCL_STATE_DIGESTS_MAX * sizeof *synchronizer->roots);
    synchronizer->sink = pccl_heap_raw(PCCL_SYNC_SINK_BYTES);
    return synchronizer->scratch && synchronizer->roots && synchronizer->sink;
}

static void release(struct pccl_synchronizer *synchronizer)
{
    pccl_release(pccl_heap(), synchronizer->scratch, sizeof *synchronizer->scratch);
    pccl_release(pccl_heap(), synchronizer->roots, PCCL_STATE_DIGESTS_MAX * sizeof *synchronizer->roots);
    pccl_release(pccl_heap(), synchronizer->sink, PCCL_SYNC_SINK_BYTES);
    pccl_release(pccl_heap(), synchronizer, sizeof *synchronizer);
}

enum pccl_status pccl_synchronizer_create(const struct pccl_sync_config *config, const struct pccl_sync_events *events,
                                          struct pccl_synchronizer **out, struct pccl_text *reason)
{
    struct pccl_synchronizer *synchronizer = pccl_allocate(pccl_heap(), sizeof *synchronizer);
    enum pccl_status status = PCCL_SYSTEM;
    int error = UV_ENOMEM;
    if (!synchronizer)
        goto no_synchronizer;
    synchronizer->config = *config;
    if (!config->patience_ms)
        synchronizer->config.patience_ms = PCCL_SYNC_PATIENCE_MS;
    synchronizer->events = *events;
    synchronizer->inbox.donors_end = &synchronizer->inbox.donors;
    synchronizer->inbox.accepted_end = &synchronizer->inbox.accepted;
    pccl_list_init(&synchronizer->links);
    synchronizer->fetching.alone_us = UINT64_MAX;
    atomic_init(&synchronizer->leaving, false);
    if (!make_buffers(synchronizer))
        goto no_lock;
    error = uv_mutex_init(&synchronizer->lock);
    if (error)
        goto no_lock;
    error = pccl_reactor_open(&synchronizer->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    status = make_state_guarded(synchronizer, reason);
    if (status != PCCL_OK)
        goto no_state;
    *out = synchronizer;
    return PCCL_OK;

no_state:
    pccl_reactor_close(&synchronizer->reactor);
    uv_mutex_destroy(&synchronizer->lock);
    release(synchronizer);
    return status;
no_reactor:
    uv_mutex_destroy(&synchronizer->lock);
no_lock:
    release(synchronizer);
no_synchronizer:
    pccl_socket_explain(error, reason);
    return error == UV_ENOMEM ? PCCL_MEMORY : PCCL_SYSTEM;
}

static void destroy(void *argument)
{
    struct pccl_synchronizer *synchronizer = argument;
    release_donors(synchronizer->inbox.donors);
    for (struct pccl_sync_link *link = synchronizer->inbox.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_socket_close(link->channel.socket);
        pccl_sync_link_free(link);
    }
    pccl_sync_fetching_destroy(synchronizer);
    while (!pccl_list_is_empty(&synchronizer->links))
        pccl_sync_link_close(pccl_sync_link_in(synchronizer->links.previous));
    pccl_reactor_close(&synchronizer->reactor);
    uv_mutex_destroy(&synchronizer->lock);
    pccl_state_fini(&synchronizer->state);
    release(synchronizer);
}

void pccl_synchronizer_destroy(struct pccl_synchronizer *synchronizer)
{
    if (!synchronizer->broken && !pccl_guard_run(destroy, synchronizer))
        synchronizer->broken = true;
}
