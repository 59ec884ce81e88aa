/* The life of a session, its loop, and the inbox for other threads. */
#include "core/prng.h"
#include "measure/internal.h"
#include "net/guard.h"
#include "net/heap.h"
#include "net/socket.h"

#include <string.h>

/* ---- the inbox ---- */

static void wake(struct pccl_measure_session *session) { pccl_reactor_wake(&session->reactor); }

void pccl_measure_session_order(struct pccl_measure_session *session, const struct pccl_measure_order *order)
{
    PCCL_ASSERT(order->candidate_count <= PCCL_CANDIDATES_MAX);
    uv_mutex_lock(&session->lock);
    session->inbox.ordered = true;
    session->inbox.order = *order;
    uv_mutex_unlock(&session->lock);
    wake(session);
}

enum pccl_status pccl_measure_session_accept(struct pccl_measure_session *session, const struct pccl_id *peer,
                                             struct pccl_handover *handover)
{
    struct pccl_measure_inbox *inbox = &session->inbox;
    struct pccl_measure_link *link = pccl_measure_answerer_create(session, peer, handover->socket);
    if (!link)
        return PCCL_MEMORY;
    enum pccl_status status = PCCL_OK;
    uv_mutex_lock(&session->lock);
    if (inbox->end) {
        status = PCCL_USAGE;
    } else if (session->answered == PCCL_MEASURE_ANSWERED_MAX) {
        status = PCCL_LIMIT;
    } else {
        pccl_channel_adopt(&link->channel, handover);
        *inbox->accepted_end = link;
        inbox->accepted_end = &link->next_accepted;
        session->answered++;
    }
    uv_mutex_unlock(&session->lock);
    if (status == PCCL_OK)
        wake(session);
    else
        pccl_measure_link_free(link);
    return status;
}

void pccl_measure_session_end(struct pccl_measure_session *session)
{
    uv_mutex_lock(&session->lock);
    session->inbox.end = true;
    uv_mutex_unlock(&session->lock);
    wake(session);
}

bool pccl_measure_session_is_needed(struct pccl_measure_session *session)
{
    uv_mutex_lock(&session->lock);
    const struct pccl_measure_inbox *inbox = &session->inbox;
    bool needed = !inbox->end && (inbox->ordered || inbox->accepted);
    uv_mutex_unlock(&session->lock);
    return needed;
}

/* ---- the loop ---- */

static void take_inbox(struct pccl_measure_session *session, struct pccl_measure_inbox *batch)
{
    struct pccl_measure_inbox *inbox = &session->inbox;
    uv_mutex_lock(&session->lock);
    *batch = *inbox;
    inbox->ordered = false;
    inbox->accepted = NULL;
    inbox->accepted_end = &inbox->accepted;
    uv_mutex_unlock(&session->lock);
}

static struct pccl_measure_session *session_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_measure_session, reactor);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_measure_session *session = session_of(reactor);
    struct pccl_measure_inbox batch;
    take_inbox(session, &batch);
    for (struct pccl_measure_link *link = batch.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_measure_answerer_open(link);
    }
    if (batch.end) {
        session->ended = true;
        pccl_reactor_stop(reactor);
    } else if (batch.ordered) {
        pccl_measure_test_begin(session, &batch.order);
    }
}

static void on_tick(struct pccl_reactor *reactor) { pccl_measure_test_tick(session_of(reactor)); }

static const struct pccl_reactor_events reactor_events = {.woken = on_wake, .ticked = on_tick};

void pccl_measure_session_run(struct pccl_measure_session *session)
{
    if (session->ended || session->broken || pccl_reactor_run(&session->reactor))
        return;
    session->broken = true;
    session->events.broken(session->events.context);
}

/* ---- life ---- */

/*
 * Makes a whole frame of load, incompressible in case something on the path compresses. false: out
 * of memory.
 */
static bool make_flood(struct pccl_measure_session *session)
{
    struct pccl_prng prng;
    uint8_t *filler = pccl_heap_raw(PCCL_FLOOD_BYTES_MAX);
    session->flood = pccl_heap_raw(PCCL_MEASURE_FLOOD_BYTES);
    if (filler && session->flood) {
        struct pccl_msg msg = {.type = PCCL_MSG_flood,
                               .as.flood = {.filler = {.data = filler, .length = PCCL_FLOOD_BYTES_MAX}}};
        pccl_prng_seed(&prng, 1);
        for (size_t i = 0; i < PCCL_FLOOD_BYTES_MAX; i += 8) {
            uint64_t word = pccl_prng_u64(&prng);
            memcpy(filler + i, &word, sizeof word);
        }
        PCCL_ASSERT(pccl_frame_size(&msg) == PCCL_MEASURE_FLOOD_BYTES);
        pccl_frame_encode(&msg, 0, 0, session->flood);
    }
    bool made = filler && session->flood;
    pccl_release(pccl_heap(), filler, PCCL_FLOOD_BYTES_MAX);
    return made;
}

static bool make_buffers(struct pccl_measure_session *session)
{
    session->scratch = pccl_heap_raw(sizeof *session->scratch);
    session->sink = pccl_heap_raw(PCCL_MEASURE_SINK_BYTES);
    return make_flood(session) && session->scratch && session->sink;
}

static void release(struct pccl_measure_session *session)
{
    pccl_release(pccl_heap(), session->scratch, sizeof *session->scratch);
    pccl_release(pccl_heap(), session->sink, PCCL_MEASURE_SINK_BYTES);
    pccl_release(pccl_heap(), session->flood, PCCL_MEASURE_FLOOD_BYTES);
    pccl_release(pccl_heap(), session, sizeof *session);
}

static uint32_t streams(uint32_t asked) { return (uint32_t)pccl_min_u64(pccl_max_u64(asked, 1), PCCL_POOL_MAX); }

enum pccl_status pccl_measure_session_create(const struct pccl_measure_config *config,
                                             const struct pccl_measure_events *events,
                                             struct pccl_measure_session **out, struct pccl_text *reason)
{
    struct pccl_measure_session *session = pccl_allocate(pccl_heap(), sizeof *session);
    int error = UV_ENOMEM;
    if (!session)
        goto no_session;
    session->config = *config;
    session->config.streams_long = streams(config->streams_long);
    session->config.streams_short = streams(config->streams_short);
    session->events = *events;
    session->inbox.accepted_end = &session->inbox.accepted;
    pccl_list_init(&session->links);
    if (!make_buffers(session))
        goto no_lock;
    error = uv_mutex_init(&session->lock);
    if (error)
        goto no_lock;
    error = pccl_reactor_open(&session->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    *out = session;
    return PCCL_OK;

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
    struct pccl_measure_session *session = argument;
    for (struct pccl_measure_link *link = session->inbox.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_socket_close(link->channel.socket);
        pccl_measure_link_free(link);
    }
    pccl_measure_test_stop(session);
    while (!pccl_list_is_empty(&session->links))
        pccl_measure_link_close(pccl_measure_link_in(session->links.previous));
    pccl_reactor_close(&session->reactor);
    uv_mutex_destroy(&session->lock);
    release(session);
}

void pccl_measure_session_destroy(struct pccl_measure_session *session)
{
    if (!session->broken && !pccl_guard_run(destroy, session))
        session->broken = true;
}
