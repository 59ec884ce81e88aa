/* The life of a session, its loop, and the inbox for other threads. */
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

static void wake(struct pccl_sync_session *session) { pccl_reactor_wake(&session->reactor); }

static void release_donors(struct pccl_sync_donor *donor)
{
    for (struct pccl_sync_donor *next; donor; donor = next) {
        next = donor->next;
        pccl_release(pccl_heap(), donor, sizeof *donor);
    }
}

void pccl_sync_session_name(struct pccl_sync_session *session, const struct pccl_id *self,
                            const struct pccl_id *lineage, uint64_t round, uint32_t silence_ms)
{
    uv_mutex_lock(&session->lock);
    session->config.self = *self;
    session->config.silence_ms = silence_ms;
    session->config.lineage = *lineage;
    session->config.round = round;
    uv_mutex_unlock(&session->lock);
}

void pccl_sync_session_plan(struct pccl_sync_session *session, bool requests, bool takes_unequal)
{
    struct pccl_sync_inbox *inbox = &session->inbox;
    uv_mutex_lock(&session->lock);
    struct pccl_sync_donor *donors = inbox->donors;
    inbox->planned = true;
    inbox->order = (struct pccl_sync_order){.requests = requests, .takes_unequal = takes_unequal};
    inbox->donors = NULL;
    inbox->donors_end = &inbox->donors;
    inbox->donor_count = 0;
    inbox->starved = false;
    uv_mutex_unlock(&session->lock);
    release_donors(donors);
    wake(session);
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

void pccl_sync_session_donor(struct pccl_sync_session *session, const struct pccl_sync_named *named)
{
    struct pccl_sync_inbox *inbox = &session->inbox;
    struct pccl_sync_donor *donor = make_donor(named);
    uv_mutex_lock(&session->lock);
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
    uv_mutex_unlock(&session->lock);
    if (!takes)
        release_donors(donor);
    wake(session);
}

enum pccl_status pccl_sync_session_accept(struct pccl_sync_session *session, const struct pccl_id *peer,
                                          struct pccl_handover *handover)
{
    struct pccl_sync_inbox *inbox = &session->inbox;
    struct pccl_sync_link *link = pccl_sync_server_create(session, peer, handover->socket);
    if (!link)
        return PCCL_MEMORY;
    enum pccl_status status = PCCL_OK;
    uv_mutex_lock(&session->lock);
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
    uv_mutex_unlock(&session->lock);
    if (status == PCCL_OK)
        wake(session);
    else
        pccl_sync_link_free(link);
    return status;
}

bool pccl_sync_session_is_replanned(struct pccl_sync_session *session)
{
    uv_mutex_lock(&session->lock);
    bool replanned = session->inbox.planned;
    uv_mutex_unlock(&session->lock);
    return replanned;
}

void pccl_sync_session_end(struct pccl_sync_session *session)
{
    uv_mutex_lock(&session->lock);
    session->inbox.end = true;
    atomic_store_explicit(&session->leaving, true, memory_order_relaxed);
    uv_mutex_unlock(&session->lock);
    wake(session);
}

bool pccl_sync_session_is_needed(struct pccl_sync_session *session)
{
    uv_mutex_lock(&session->lock);
    const struct pccl_sync_inbox *inbox = &session->inbox;
    bool needed = !inbox->end && (inbox->planned || inbox->accepted);
    uv_mutex_unlock(&session->lock);
    return needed;
}

/* ---- the loop ---- */

/* Takes everything at once, so that what one thread passes in stays in order. */
static void take_inbox(struct pccl_sync_session *session, struct pccl_sync_inbox *batch)
{
    struct pccl_sync_inbox *inbox = &session->inbox;
    uv_mutex_lock(&session->lock);
    *batch = *inbox;
    if (inbox->planned) {
        session->lineage = session->config.lineage;
        session->round = session->config.round;
    }
    *inbox = (struct pccl_sync_inbox){.end = batch->end};
    inbox->donors_end = &inbox->donors;
    inbox->accepted_end = &inbox->accepted;
    uv_mutex_unlock(&session->lock);
}

/*
 * Computes the proofs once; those of content written later come from the machine that fetches it.
 */
static bool prove(struct pccl_sync_session *session, struct pccl_text *reason)
{
    if (session->proven)
        return true;
    if (pccl_sync_prove(&session->state, session->config.tensors, session->config.threads, &session->leaving, reason) !=
        PCCL_OK)
        return false;
    pccl_state_prove(&session->state);
    session->proven = true;
    return true;
}

static void take_plan(struct pccl_sync_session *session, const struct pccl_sync_order *order)
{
    struct pccl_text reason;
    session->planned = true;
    if (order->requests)
        pccl_sync_servers_close(session);
    bool proven = prove(session, &reason);
    session->events.proven(session->events.context, proven ? &session->state.proof : NULL);
    if (proven)
        pccl_sync_fetching_begin(session, order);
    else if (order->requests)
        session->events.fetched(session->events.context, false, &reason);
}

static struct pccl_sync_session *session_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_sync_session, reactor);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_sync_session *session = session_of(reactor);
    struct pccl_sync_inbox batch;
    take_inbox(session, &batch);
    if (batch.planned)
        take_plan(session, &batch.order);
    if (batch.starved)
        pccl_sync_fetching_lose_donor(session, &batch.starved_proof);
    for (struct pccl_sync_donor *donor = batch.donors, *next; donor; donor = next) {
        next = donor->next;
        pccl_sync_fetching_add(session, donor);
    }
    for (struct pccl_sync_link *link = batch.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_sync_server_open(link);
    }
    pccl_sync_fetching_advance(session);
    if (session->planned)
        pccl_sync_servers_advance(session);
    if (batch.end) {
        session->ended = true;
        pccl_reactor_stop(reactor);
    }
}

static void on_tick(struct pccl_reactor *reactor) { pccl_sync_fetching_tick(session_of(reactor)); }

static const struct pccl_reactor_events reactor_events = {.woken = on_wake, .ticked = on_tick};

void pccl_sync_session_run(struct pccl_sync_session *session)
{
    if (session->ended || session->broken || pccl_reactor_run(&session->reactor))
        return;
    session->broken = true;
    session->events.broken(session->events.context);
}

/* ---- queries ---- */

const struct pccl_state *pccl_sync_session_state(const struct pccl_sync_session *session) { return &session->state; }

void pccl_sync_session_traffic(const struct pccl_sync_session *session, uint64_t *sent, uint64_t *received)
{
    *sent = session->sent;
    *received = session->received;
}

void pccl_sync_session_progress(const struct pccl_sync_session *session, uint64_t *done, uint64_t *total,
                                uint64_t *since_us)
{
    *done = atomic_load_explicit(&session->fetched, memory_order_relaxed);
    *total = pccl_max_u64(*done, atomic_load_explicit(&session->to_fetch, memory_order_relaxed));
    *since_us = atomic_load_explicit(&session->fetch_since_us, memory_order_relaxed);
}

void pccl_sync_session_torn(const struct pccl_sync_session *session, struct pccl_text *reason)
{
    uint64_t count = 0;
    const struct pccl_fetch *machine = session->broken ? NULL : session->fetching.machine;
    for (uint32_t i = 0; machine && i < session->config.tensor_count; i++) {
        if (!pccl_fetch_is_torn(machine, i) || ++count > TORN_NAMED)
            continue;
        const char *name = session->config.tensors[i].name;
        pccl_text_add(reason, count > 1 ? ", '" : "'");
        pccl_text_add_bytes(reason, name, strnlen(name, TORN_NAME_BYTES));
        pccl_text_add(reason, "'");
    }
    if (count > TORN_NAMED)
        pccl_text_append(reason, " and %" PRIu64 " more", count - TORN_NAMED);
}

/* ---- life ---- */

static enum pccl_status make_state(struct pccl_sync_session *session, struct pccl_text *reason)
{
    const struct pccl_sync_config *config = &session->config;
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
        status = pccl_state_init(&session->state, config->kernels, pccl_heap(), tensors, config->tensor_count);
    pccl_release(pccl_heap(), tensors, bytes);
    if (status == PCCL_LIMIT)
        pccl_text_format(reason, "a shared state has at most %u tensors, and fewer bytes than 2^63", PCCL_TENSORS_MAX);
    else if (status != PCCL_OK)
        pccl_text_format(reason, "%s", pccl_status_text(status));
    if (status != PCCL_OK)
        return status;
    status = pccl_sync_digest(&session->state, config->tensors, config->threads, reason);
    if (status == PCCL_OK)
        pccl_state_seal(&session->state);
    else
        pccl_state_fini(&session->state);
    return status;
}

struct making {
    struct pccl_sync_session *session;
    struct pccl_text *reason;
    enum pccl_status status;
};

static void make(void *argument)
{
    struct making *making = argument;
    making->status = make_state(making->session, making->reason);
}

static enum pccl_status make_state_guarded(struct pccl_sync_session *session, struct pccl_text *reason)
{
    struct making making = {.session = session, .reason = reason};
    if (pccl_guard_run(make, &making))
        return making.status;
    pccl_text_format(reason, "%s", pccl_status_text(PCCL_INTERNAL));
    return PCCL_INTERNAL;
}

static bool make_buffers(struct pccl_sync_session *session)
{
    session->scratch = pccl_heap_raw(sizeof *session->scratch);
    session->roots = pccl_heap_raw(PCCL_STATE_DIGESTS_MAX * sizeof *session->roots);
    session->sink = pccl_heap_raw(PCCL_SYNC_SINK_BYTES);
    return session->scratch && session->roots && session->sink;
}

static void release(struct pccl_sync_session *session)
{
    pccl_release(pccl_heap(), session->scratch, sizeof *session->scratch);
    pccl_release(pccl_heap(), session->roots, PCCL_STATE_DIGESTS_MAX * sizeof *session->roots);
    pccl_release(pccl_heap(), session->sink, PCCL_SYNC_SINK_BYTES);
    pccl_release(pccl_heap(), session, sizeof *session);
}

enum pccl_status pccl_sync_session_create(const struct pccl_sync_config *config, const struct pccl_sync_events *events,
                                          struct pccl_sync_session **out, struct pccl_text *reason)
{
    struct pccl_sync_session *session = pccl_allocate(pccl_heap(), sizeof *session);
    enum pccl_status status = PCCL_SYSTEM;
    int error = UV_ENOMEM;
    if (!session)
        goto no_session;
    session->config = *config;
    if (!config->patience_ms)
        session->config.patience_ms = PCCL_SYNC_PATIENCE_MS;
    session->events = *events;
    session->inbox.donors_end = &session->inbox.donors;
    session->inbox.accepted_end = &session->inbox.accepted;
    pccl_list_init(&session->links);
    session->fetching.alone_us = UINT64_MAX;
    atomic_init(&session->leaving, false);
    if (!make_buffers(session))
        goto no_lock;
    error = uv_mutex_init(&session->lock);
    if (error)
        goto no_lock;
    error = pccl_reactor_open(&session->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    status = make_state_guarded(session, reason);
    if (status != PCCL_OK)
        goto no_state;
    *out = session;
    return PCCL_OK;

no_state:
    pccl_reactor_close(&session->reactor);
    uv_mutex_destroy(&session->lock);
    release(session);
    return status;
no_reactor:
    uv_mutex_destroy(&session->lock);
no_lock:
    release(session);
no_session:
    pccl_socket_explain(error, reason);
    return error == UV_ENOMEM ? PCCL_MEMORY : PCCL_SYSTEM;
}

static void destroy(void *argument)
{
    struct pccl_sync_session *session = argument;
    release_donors(session->inbox.donors);
    for (struct pccl_sync_link *link = session->inbox.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_socket_close(link->channel.socket);
        pccl_sync_link_free(link);
    }
    pccl_sync_fetching_destroy(session);
    while (!pccl_list_is_empty(&session->links))
        pccl_sync_link_close(pccl_sync_link_in(session->links.previous));
    pccl_reactor_close(&session->reactor);
    uv_mutex_destroy(&session->lock);
    pccl_state_fini(&session->state);
    release(session);
}

void pccl_sync_session_destroy(struct pccl_sync_session *session)
{
    if (!session->broken && !pccl_guard_run(destroy, session))
        session->broken = true;
}
