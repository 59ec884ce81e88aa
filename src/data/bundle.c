/* Bundles: the streams to or from one peer. Chooses the stream that sends the next message, and paces the streams. */
#include "data/internal.h"

#include "core/limits.h"
#include "net/clock.h"
#include "net/heap.h"
#include "os/path.h"

enum { MEASURE_BYTES = 1 << 20 }; /* with fewer bytes, the rate of the path cannot be determined */

static struct pccl_bundle *find(const struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing)
{
    for (struct pccl_table_node *node = pccl_table_find(&engine->bundles, pccl_id_hash(&engine->hash, peer)); node;
         node = pccl_table_find_next(node)) {
        struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        if (bundle->outgoing == outgoing && pccl_id_equal(&bundle->peer, peer))
            return bundle;
    }
    return NULL;
}

static struct pccl_bundle *find_or_make(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_bundle *bundle = find(engine, peer, outgoing);
    if (bundle)
        return bundle;
    bundle = pccl_allocate(pccl_heap(), sizeof *bundle);
    if (!bundle)
        return NULL;
    bundle->peer = *peer;
    bundle->outgoing = outgoing;
    pccl_table_insert(&engine->bundles, &bundle->node, pccl_id_hash(&engine->hash, peer));
    return bundle;
}

static void release_if_empty(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    if (bundle->turn)
        return;
    for (struct pccl_bundle **at = &engine->writable[bundle->outgoing]; *at; at = &(*at)->next_writable) {
        if (*at != bundle)
            continue;
        *at = bundle->next_writable;
        break;
    }
    if (engine->sender == bundle)
        engine->sender = NULL;
    pccl_table_remove(&engine->bundles, &bundle->node);
    pccl_release(pccl_heap(), bundle, sizeof *bundle);
}

void pccl_bundle_pause(struct pccl_bundle *bundle) { pccl_pace_interrupt(&bundle->pace); }

static void renew(struct pccl_bundle *bundle)
{
    pccl_pace_interrupt(&bundle->pace);
    bundle->renewed = true;
}

/* ---- the streams of a bundle ---- */

static void link_in(struct pccl_bundle *bundle, struct pccl_stream *stream)
{
    if (bundle->turn) {
        stream->next_in_bundle = bundle->turn->next_in_bundle;
        bundle->turn->next_in_bundle = stream;
    } else {
        bundle->turn = stream->next_in_bundle = stream;
    }
    stream->bundle = bundle;
    struct pccl_path path;
    if (bundle->outgoing && pccl_path_measure(stream->channel.socket, &path) && path.rtt_us >= PCCL_LONG_PATH_RTT_US)
        bundle->paced = true;
    renew(bundle);
}

static void unlink_from(struct pccl_bundle *bundle, struct pccl_stream *stream)
{
    struct pccl_stream *before = stream;
    while (before->next_in_bundle != stream)
        before = before->next_in_bundle;
    before->next_in_bundle = stream->next_in_bundle;
    if (bundle->turn == stream)
        bundle->turn = before == stream ? NULL : before->next_in_bundle;
    stream->bundle = NULL;
    stream->next_in_bundle = NULL;
    renew(bundle);
    release_if_empty(stream->engine, bundle);
}

enum pccl_status pccl_bundle_enter(struct pccl_stream *stream)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_bundle *bundle = find_or_make(engine, &stream->peer, stream->outgoing);
    if (!bundle)
        return PCCL_MEMORY;
    link_in(bundle, stream);
    struct pccl_lane *lane = pccl_exchange_connected(engine->exchange, &stream->peer, stream->outgoing, bundle);
    if (!lane) {
        unlink_from(bundle, stream);
        return PCCL_MEMORY;
    }
    bundle->lane = lane;
    pccl_bundle_mark_writable(engine, bundle);
    return PCCL_OK;
}

void pccl_bundle_leave(struct pccl_stream *stream, bool complete)
{
    if (!stream->bundle)
        return;
    struct pccl_lane *lane = stream->bundle->lane;
    unlink_from(stream->bundle, stream); /* frees an empty bundle, which is then no longer in `writable` */
    pccl_exchange_disconnected(lane, complete);
}

void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    if (bundle->writable)
        return;
    bundle->writable = true;
    bundle->next_writable = engine->writable[bundle->outgoing];
    engine->writable[bundle->outgoing] = bundle;
}

void pccl_bundles_lose_patience(struct pccl_engine *engine)
{
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        if (bundle->waits_for_fast)
            pccl_bundle_mark_writable(engine, bundle);
    }
}

/* ---- the sending half of a stream ---- */

/* Returns true if polling the stream's pipe detects everything that the stream waits for, except its end. */
static bool is_polled(const struct pccl_stream *stream)
{
    const struct pccl_channel *channel = &stream->channel;
    return channel->pipe && channel->input == UV_READABLE && !stream->waiting && !channel->blocked &&
           !pccl_pipe_has_ended(channel->pipe) && !pccl_pipe_has_unsent_wake_byte(channel->pipe);
}

void pccl_stream_watch(struct pccl_stream *stream)
{
    struct pccl_channel *channel = &stream->channel;
    const int before = channel->armed;
    if (channel->state != PCCL_CHANNEL_OPEN || (stream->engine->polls && is_polled(stream)))
        return;
    pccl_channel_watch(channel, stream->waiting ? UV_DISCONNECT : UV_READABLE);
    stream->engine->unsettled = stream->engine->unsettled || channel->armed != before;
}

/* Returns true if the stream is open, has room and is not sending a message. */
static bool is_idle(const struct pccl_stream *stream)
{
    const struct pccl_channel *channel = &stream->channel;
    return channel->state == PCCL_CHANNEL_OPEN && !stream->sending && !channel->blocked && !channel->failed;
}

void pccl_stream_sent(struct pccl_stream *stream)
{
    stream->sending = false;
    if (stream->here) {
        stream->took_us += pccl_now_us() - stream->began_us;
        atomic_store_explicit(&stream->handed_over, stream->begun, memory_order_relaxed);
    }
    if (!stream->departs)
        return;
    stream->departs = false;
    pccl_exchange_sent(stream->engine->exchange, &stream->departure);
}

/* Sends as much of the message as the kernel accepts. */
static void push(struct pccl_stream *stream)
{
    if (pccl_channel_push(&stream->channel) == PCCL_CHANNEL_MOVED)
        pccl_stream_sent(stream);
    else
        pccl_stream_watch(stream); /* waits for room; after a failure to send, the next read returns the reason */
}

/* Sends the message in stream->departure. Returns its number of bytes. */
static size_t send_departure(struct pccl_stream *stream)
{
    struct pccl_channel *channel = &stream->channel;
    const struct pccl_departure *departure = &stream->departure;
    stream->departs = stream->sending = true;
    (void)pccl_channel_put_message(channel, &departure->msg); /* cannot fail: the memory is reserved */
    PCCL_ASSERT(channel->out_end <= PCCL_STREAM_FRAME_MAX);
    size_t bytes = channel->out_end + (size_t)departure->length;
    stream->begun += bytes;
    if (stream->here)
        stream->began_us = pccl_now_us();
    pccl_channel_put_payload(channel, &departure->payload, departure->length);
    push(stream);
    return bytes;
}

/* Stops sending until the loop reports room. */
static void yield(struct pccl_stream *stream)
{
    pccl_channel_yield(&stream->channel);
    pccl_stream_watch(stream);
}

/*
 * Measures a path on this host by the duration of its sends; the round trip stays unknown. Returns false while a
 * message is being sent.
 */
static bool measure_here(const struct pccl_stream *stream, struct pccl_path *path)
{
    if (stream->sending)
        return false;
    *path = (struct pccl_path){.rate = (stream->begun - stream->measured) * 1000000 / pccl_max_u64(stream->took_us, 1)};
    return true;
}

/*
 * Measures the rate of a stream. Lowers the recorded rate only gradually, because a single sample may be untypical, and
 * not at all if this peer sent too little or other links used the same line.
 */
void pccl_stream_measure(struct pccl_stream *stream, bool shared)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_path path;
    if (stream->begun - stream->measured < MEASURE_BYTES ||
        !(stream->here ? measure_here(stream, &path) : pccl_path_measure(stream->channel.socket, &path)))
        return;
    stream->measured = stream->begun;
    stream->took_us = 0;
    uv_mutex_lock(&engine->lock);
    uint64_t kept = path.limited || shared ? stream->rate : stream->rate - stream->rate / 8;
    stream->rate = pccl_max_u64(kept, path.rate);
    stream->rtt_us = path.rtt_us;
    stream->shared = shared;
    stream->is_news = true;
    uv_mutex_unlock(&engine->lock);
}

void pccl_stream_continue(struct pccl_stream *stream)
{
    if (stream->sending)
        push(stream);
    if (stream->bundle && is_idle(stream))
        pccl_bundle_mark_writable(stream->engine, stream->bundle);
}

/* ---- pace ---- */

enum {
    OWN_HEADROOM = 10, /* a stream's own bound exceeds the rate it achieves by 1/OWN_HEADROOM */
    QUEUE_PART = 8,    /* a round trip that exceeds the shortest one by more than 1/QUEUE_PART indicates a queue */
    RESENT_PART = 50,  /* resending more than 1/RESENT_PART of the delivered bytes indicates a queue, too */
    LOOK_US = 2000,    /* interval between two queries of the rate at which a stream sends */
};

static bool is_usable(const struct pccl_stream *stream)
{
    return stream->channel.state == PCCL_CHANNEL_OPEN && stream->channel.failed == 0;
}

/*
 * Bounds the streams of a bundle. Each stream gets an equal share, because any stream with room takes the next message.
 * A faster stream gets slightly more than the rate it has achieved, so that it can use the shares that slower streams
 * leave unused.
 */
static void bound_streams(struct pccl_bundle *bundle, uint32_t streams, uint64_t passed_us)
{
    const uint64_t bound = bundle->pace.bound;
    struct pccl_stream *stream = bundle->turn;
    do {
        bool grew = passed_us > 0 && stream->through > stream->through_before;
        uint64_t own = grew ? (stream->through - stream->through_before) * 1000000 / passed_us : 0;
        pccl_path_bound(stream->channel.socket,
                        bound == 0 ? 0 : pccl_max_u64(1 + bound / streams, own + own / OWN_HEADROOM));
        stream = stream->next_in_bundle;
    } while (stream != bundle->turn);
    bundle->renewed = false;
}

static bool is_moving(const struct pccl_stream *stream)
{
    return is_usable(stream) && stream->through > stream->through_before;
}

/*
 * Returns true if the stream has built up a queue on its path in this interval, or if this is unknown because the
 * latest round trip is also the shortest one.
 */
static bool is_queued(const struct pccl_stream *stream, const struct pccl_path *path)
{
    uint64_t through = stream->through - stream->through_before, resent = stream->resent - stream->resent_before;
    return path->lately_us == path->rtt_us || path->lately_us > path->rtt_us + path->rtt_us / QUEUE_PART ||
           resent > through / RESENT_PART;
}

static void look_at_pace(struct pccl_bundle *bundle, uint64_t now_us)
{
    struct pccl_pace before = bundle->pace;
    uint64_t delivered = 0;
    uint32_t streams = 0, rtt_us = 0, moving = 0, queued = 0;
    struct pccl_stream *stream = bundle->turn;
    do {
        struct pccl_path path;
        streams += is_usable(stream);
        if (pccl_path_measure(stream->channel.socket, &path)) {
            stream->through = path.delivered;
            stream->resent = path.resent;
            moving += is_moving(stream);
            queued += is_moving(stream) && is_queued(stream, &path);
            delivered += path.delivered;
            rtt_us = (uint32_t)pccl_max_u64(rtt_us, path.rtt_us);
        }
        stream = stream->next_in_bundle;
    } while (stream != bundle->turn);
    pccl_pace_look(&bundle->pace, now_us, delivered, rtt_us, 2 * queued >= moving);
    if (bundle->pace.began_us != now_us)
        return; /* the interval continues */
    if (streams > 0 &&
        (bundle->renewed || before.samples != bundle->pace.samples || before.bound != bundle->pace.bound))
        bound_streams(bundle, streams, before.began_us != 0 ? now_us - before.began_us : 0);
    do {
        stream->through_before = stream->through;
        stream->resent_before = stream->resent;
        stream = stream->next_in_bundle;
    } while (stream != bundle->turn);
}

/*
 * Starts new intervals when another bundle sends. A link that shares its line with others does not reach its capacity,
 * so samples would bound it to its share.
 */
static void note_sender(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    if (engine->sender == bundle)
        return;
    if (engine->sender)
        pccl_pace_interrupt(&engine->sender->pace);
    pccl_pace_interrupt(&bundle->pace);
    engine->sender = bundle;
}

/* ---- choosing the stream for a message ---- */

static void look_at_streams(struct pccl_bundle *bundle, uint64_t now_us)
{
    struct pccl_stream *stream = bundle->turn;
    uint64_t fastest = 0;
    do {
        struct pccl_path path;
        if (now_us - stream->paced_us >= LOOK_US && pccl_path_measure(stream->channel.socket, &path)) {
            stream->pace = pccl_share_knows(&bundle->share, path.delivered, path.rtt_us) ? path.pace : 0;
            stream->paced_us = now_us;
        }
        if (is_usable(stream))
            fastest = pccl_max_u64(fastest, stream->pace);
        stream = stream->next_in_bundle;
    } while (stream != bundle->turn);
    bundle->share.fastest = fastest;
}

/*
 * Starts to wait for the fast streams, because only slow ones have room. If the fast ones are still full after the
 * wait, slow ones may send.
 */
static void wait_for_fast(struct pccl_engine *engine, struct pccl_bundle *bundle, uint64_t now_us)
{
    bundle->waits_for_fast = true;
    if (!pccl_alarm_is_set(&engine->patience))
        pccl_alarm_set(&engine->patience, pccl_now_us() + pccl_share_due_us(&bundle->share) - now_us);
}

/*
 * Returns the next stream with room, or NULL if all are busy. Takes the streams in turn, so that even a few messages
 * use all of them.
 */
static struct pccl_stream *next_idle(struct pccl_engine *engine, struct pccl_bundle *bundle, uint64_t now_us)
{
    bool is_slow_idle = false;
    struct pccl_stream *first = bundle->turn;
    do {
        struct pccl_stream *stream = bundle->turn;
        bundle->turn = stream->next_in_bundle;
        if (!is_idle(stream))
            continue;
        if (!bundle->paced || pccl_share_takes(&bundle->share, stream->pace, now_us))
            return stream;
        is_slow_idle = true;
    } while (bundle->turn != first);
    if (is_slow_idle)
        wait_for_fast(engine, bundle, now_us);
    return NULL;
}

/* Sends messages. Returns true if a stream has room but no message is ready. */
static bool send_on_idle(struct pccl_engine *engine, struct pccl_bundle *bundle, uint64_t now_us)
{
    size_t begun = 0;
    struct pccl_stream *stream;
    while ((stream = next_idle(engine, bundle, now_us)) && pccl_exchange_next(bundle->lane, &stream->departure)) {
        begun += send_departure(stream);
        if (bundle->paced) {
            pccl_share_took(&bundle->share, stream->pace, now_us);
            note_sender(engine, bundle);
        }
        if (begun < PCCL_BUNDLE_WRITE_MAX)
            continue;
        if (!is_idle(stream))
            stream = next_idle(engine, bundle, now_us);
        if (stream) /* the loop continues soon; if no stream is idle, the next one with room continues */
            yield(stream);
        return false;
    }
    return stream != NULL;
}

void pccl_bundle_pump(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    uint64_t now_us = uv_now(&engine->reactor.loop) * 1000;
    if (!bundle->paced) {
        (void)send_on_idle(engine, bundle, now_us);
        return;
    }
    if (pccl_pace_is_due(&bundle->pace, now_us))
        look_at_pace(bundle, now_us);
    look_at_streams(bundle, now_us);
    pccl_share_begin(&bundle->share, now_us);
    bundle->waits_for_fast = false;
    bool starving = send_on_idle(engine, bundle, now_us);
    bundle->share.waiting = !starving;
    pccl_pace_starve(&bundle->pace, now_us, starving, starving && pccl_exchange_awaits_credit(bundle->lane));
}
