/* The life of a measurer, its loop, and the inbox for other threads. */
#include "core/prng.h"
#include "measure/internal.h"
#include "net/guard.h"
#include "net/heap.h"
#include "net/socket.h"

#include <string.h>

/* ---- the inbox ---- */

static void wake(struct pccl_measurer *measurer) { pccl_reactor_wake(&measurer->reactor); }

void pccl_measurer_order(struct pccl_measurer *measurer, const struct pccl_measure_order *order)
{
    PCCL_ASSERT(order->candidate_count <= PCCL_CANDIDATES_MAX);
    uv_mutex_lock(&measurer->lock);
    measurer->inbox.ordered = true;
    measurer->inbox.order = *order;
    uv_mutex_unlock(&measurer->lock);
    wake(measurer);
}

enum pccl_status pccl_measurer_accept(struct pccl_measurer *measurer, const struct pccl_id *peer,
                                      struct pccl_handover *handover)
{
    struct pccl_measure_inbox *inbox = &measurer->inbox;
    struct pccl_measure_link *link = pccl_measure_answerer_create(measurer, peer, handover->socket);
    if (!link)
        return PCCL_MEMORY;
    enum pccl_status status = PCCL_OK;
    uv_mutex_lock(&measurer->lock);
    if (inbox->end) {
        status = PCCL_USAGE;
    } else if (measurer->answered == PCCL_MEASURE_ANSWERED_MAX) {
        status = PCCL_LIMIT;
    } else {
        pccl_channel_adopt(&link->channel, handover);
        *inbox->accepted_end = link;
        inbox->accepted_end = &link->next_accepted;
        measurer->answered++;
    }
    uv_mutex_unlock(&measurer->lock);
    if (status == PCCL_OK)
        wake(measurer);
    else
        pccl_measure_link_free(link);
    return status;
}

void pccl_measurer_end(struct pccl_measurer *measurer)
{
    uv_mutex_lock(&measurer->lock);
    measurer->inbox.end = true;
    uv_mutex_unlock(&measurer->lock);
    wake(measurer);
}

bool pccl_measurer_is_needed(struct pccl_measurer *measurer)
{
    uv_mutex_lock(&measurer->lock);
    const struct pccl_measure_inbox *inbox = &measurer->inbox;
    bool needed = !inbox->end && (inbox->ordered || inbox->accepted);
    uv_mutex_unlock(&measurer->lock);
    return needed;
}

/* ---- the loop ---- */

static void take_inbox(struct pccl_measurer *measurer, struct pccl_measure_inbox *batch)
{
    struct pccl_measure_inbox *inbox = &measurer->inbox;
    uv_mutex_lock(&measurer->lock);
    *batch = *inbox;
    inbox->ordered = false;
    inbox->accepted = NULL;
    inbox->accepted_end = &inbox->accepted;
    uv_mutex_unlock(&measurer->lock);
}

static struct pccl_measurer *measurer_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_measurer, reactor);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_measurer *measurer = measurer_of(reactor);
    struct pccl_measure_inbox batch;
    take_inbox(measurer, &batch);
    for (struct pccl_measure_link *link = batch.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_measure_answerer_open(link);
    }
    if (batch.end) {
        measurer->ended = true;
        pccl_reactor_stop(reactor);
    } else if (batch.ordered) {
        pccl_measure_test_begin(measurer, &batch.order);
    }
}

static void on_tick(struct pccl_reactor *reactor) { pccl_measure_test_tick(measurer_of(reactor)); }

static const struct pccl_reactor_events reactor_events = {.woken = on_wake, .ticked = on_tick};

void pccl_measurer_run(struct pccl_measurer *measurer)
{
    if (measurer->ended || measurer->broken || pccl_reactor_run(&measurer->reactor))
        return;
    measurer->broken = true;
    measurer->events.broken(measurer->events.context);
}

/* ---- life ---- */

/*
 * Makes a whole frame of load, incompressible in case something on the path compresses. false: out
 * of memory.
 */
static bool make_flood(struct pccl_measurer *measurer)
{
    struct pccl_prng prng;
    uint8_t *filler = pccl_heap_raw(PCCL_FLOOD_BYTES_MAX);
    measurer->flood = pccl_heap_raw(PCCL_MEASURE_FLOOD_BYTES);
    if (filler && measurer->flood) {
        struct pccl_msg msg = {.type = PCCL_MSG_flood,
                               .as.flood = {.filler = {.data = filler, .length = PCCL_FLOOD_BYTES_MAX}}};
        pccl_prng_seed(&prng, 1);
        for (size_t i = 0; i < PCCL_FLOOD_BYTES_MAX; i += 8) {
            uint64_t word = pccl_prng_u64(&prng);
            memcpy(filler + i, &word, sizeof word);
        }
        PCCL_ASSERT(pccl_frame_size(&msg) == PCCL_MEASURE_FLOOD_BYTES);
        pccl_frame_encode(&msg, 0, 0, measurer->flood);
    }
    bool made = filler && measurer->flood;
    pccl_release(pccl_heap(), filler, PCCL_FLOOD_BYTES_MAX);
    return made;
}

static bool make_buffers(struct pccl_measurer *measurer)
{
    measurer->scratch = pccl_heap_raw(sizeof *measurer->scratch);
    measurer->sink = pccl_heap_raw(PCCL_MEASURE_SINK_BYTES);
    return make_flood(measurer) && measurer->scratch && measurer->sink;
}

static void release(struct pccl_measurer *measurer)
{
    pccl_release(pccl_heap(), measurer->scratch, sizeof *measurer->scratch);
    pccl_release(pccl_heap(), measurer->sink, PCCL_MEASURE_SINK_BYTES);
    pccl_release(pccl_heap(), measurer->flood, PCCL_MEASURE_FLOOD_BYTES);
    pccl_release(pccl_heap(), measurer, sizeof *measurer);
}

static uint32_t streams(uint32_t asked) { return (uint32_t)pccl_min_u64(pccl_max_u64(asked, 1), PCCL_POOL_MAX); }

enum pccl_status pccl_measurer_create(const struct pccl_measure_config *config,
                                      const struct pccl_measure_events *events, struct pccl_measurer **out,
                                      struct pccl_text *reason)
{
    struct pccl_measurer *measurer = pccl_allocate(pccl_heap(), sizeof *measurer);
    int error = UV_ENOMEM;
    if (!measurer)
        goto no_measurer;
    measurer->config = *config;
    measurer->config.streams_long = streams(config->streams_long);
    measurer->config.streams_short = streams(config->streams_short);
    measurer->events = *events;
    measurer->inbox.accepted_end = &measurer->inbox.accepted;
    pccl_list_init(&measurer->links);
    if (!make_buffers(measurer))
        goto no_lock;
    error = uv_mutex_init(&measurer->lock);
    if (error)
        goto no_lock;
    error = pccl_reactor_open(&measurer->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    *out = measurer;
    return PCCL_OK;

no_reactor:
    uv_mutex_destroy(&measurer->lock);
no_lock:
    release(measurer);
no_measurer:
    pccl_socket_explain(error, reason);
    return error == UV_ENOMEM ? PCCL_MEMORY : PCCL_SYSTEM;
}

static void destroy(void *argument)
{
    struct pccl_measurer *measurer = argument;
    for (struct pccl_measure_link *link = measurer->inbox.accepted, *next; link; link = next) {
        next = link->next_accepted;
        pccl_socket_close(link->channel.socket);
        pccl_measure_link_free(link);
    }
    pccl_measure_test_stop(measurer);
    while (!pccl_list_is_empty(&measurer->links))
        pccl_measure_link_close(pccl_measure_link_in(measurer->links.previous));
    pccl_reactor_close(&measurer->reactor);
    uv_mutex_destroy(&measurer->lock);
    release(measurer);
}

void pccl_measurer_destroy(struct pccl_measurer *measurer)
{
    if (!measurer->broken && !pccl_guard_run(destroy, measurer))
        measurer->broken = true;
}
