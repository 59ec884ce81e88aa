/*
 * Streams. A stream connects a channel, which transfers bytes, with the exchange, which interprets them. Either the
 * other side ends a stream, which is detected while reading (`end`), or the caller does (`pccl_stream_leave`).
 *
 * If the caller closes the connection in the middle of a payload, the rest is sent from the caller's memory as long as
 * the operation exists, because the other side accepts a complete segment. Filler is allowed only for a stopped
 * operation, whose outcome is known (PROTOCOL 7.5).
 */
#include "data/internal.h"
#include "kernels/kernels.h"
#include "net/clock.h"
#include "net/heap.h"
#include "os/socket.h"

#include <string.h>

static const struct pccl_channel_events channel_events;

static void resume(struct pccl_stream *stream);

static struct pccl_stream *stream_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_stream, channel);
}

/* ---- creation and destruction ---- */

static void on_released(struct pccl_channel *channel)
{
    struct pccl_stream *stream = stream_of(channel);
    pccl_release(pccl_heap(), stream->rejected, sizeof *stream->rejected);
    pccl_release(pccl_heap(), stream, sizeof *stream);
}

static void release(struct pccl_stream *stream)
{
    pccl_channel_fini(&stream->channel);
    on_released(&stream->channel);
}

static void copy_streaming(const void *kernels, void *to, const void *from, size_t bytes)
{
    pccl_copy_streaming(kernels, to, from, bytes);
}

static void copied_streaming(const void *kernels) { pccl_copied_streaming(kernels); }

struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, struct pccl_handover *handover)
{
    const struct pccl_pipe_copier copier = {copy_streaming, copied_streaming, engine->config.kernels};
    struct pccl_stream *stream = pccl_allocate(pccl_heap(), sizeof *stream);
    if (!stream)
        return NULL;
    stream->engine = engine;
    stream->peer = *peer;
    stream->outgoing = outgoing;
    stream->slot = slot;
    stream->here = pccl_socket_is_local(handover->socket);
    pccl_list_init(&stream->in_known);
    pccl_channel_init(&stream->channel, pccl_heap(), handover->socket, &channel_events);
    stream->channel.sink = engine->sink;
    stream->channel.sink_bytes = sizeof engine->sink;
    if (!pccl_channel_reserve(&stream->channel, PCCL_STREAM_FRAME_MAX)) {
        release(stream);
        return NULL;
    }
    if (handover->pipe) {
        pccl_pipe_copy_with(handover->pipe, &copier);
        pccl_pipe_prepare(handover->pipe); /* here, so that the engine's thread need not do it */
        pccl_pipe_defer(handover->pipe, &engine->deferred);
    }
    pccl_channel_adopt(&stream->channel, handover);
    return stream;
}

static void stop_waiting(struct pccl_stream *stream)
{
    if (!stream->waiting)
        return;
    stream->waiting = false;
    pccl_list_remove(&stream->in_waiting);
    pccl_stream_watch(stream);
}

/*
 * Returns the message being sent or received to the exchange. The transfers that use it fail when the stream leaves its
 * bundle.
 */
static void give_back(struct pccl_stream *stream)
{
    pccl_exchange_dropped(stream->engine->exchange, stream->departs ? &stream->departure : NULL, &stream->arrival);
    stream->departs = false;
    memset(&stream->departure, 0, sizeof stream->departure);
    memset(&stream->arrival, 0, sizeof stream->arrival);
}

/*
 * Ends the stream after the other side ended it or it broke. If this peer has caused the end, `how` is
 * PCCL_LINK_UNREACHABLE, which does not count as evidence that the other peer has died.
 */
static void end(struct pccl_stream *stream, enum pccl_link_end how, bool purposely)
{
    struct pccl_engine *engine = stream->engine;
    stop_waiting(stream);
    give_back(stream);
    bool is_news = pccl_engine_forget_stream(engine, stream, how);
    pccl_channel_close(&stream->channel);
    /* Report the end of the link first, because it explains the failures that follow. */
    if (is_news)
        engine->events.ended(engine->events.context, &stream->peer, stream->outgoing, stream->slot, how, purposely,
                             NULL);
    pccl_bundle_leave(stream, purposely);
    pccl_engine_flush(engine);
}

void pccl_stream_cut(struct pccl_stream *stream) { end(stream, PCCL_LINK_UNREACHABLE, false); }

/* ---- the goodbye ---- */

/*
 * Leaves the bundle when this side closes the stream. An incoming stream is complete: the sender also detects the end,
 * and fails its unfinished sends on the stream before it replaces the stream with another one.
 */
static void leave_bundle(struct pccl_stream *stream) { pccl_bundle_leave(stream, !stream->outgoing); }

void pccl_stream_detach(struct pccl_stream *stream)
{
    stop_waiting(stream);
    give_back(stream);
    leave_bundle(stream);
}

void pccl_stream_leave(struct pccl_stream *stream)
{
    if (stream->channel.state != PCCL_CHANNEL_OPEN)
        return; /* the stream has already ended */
    stop_waiting(stream);
    pccl_exchange_dropped(stream->engine->exchange, NULL, &stream->arrival);
    memset(&stream->arrival, 0, sizeof stream->arrival);
    if (stream->departs && !stream->departure.transfer)
        pccl_stream_detach(stream);
    pccl_channel_leave(&stream->channel, true, stream->engine->config.linger_ms);
}

/* Leaves the bundle when only the goodbye remains to be sent. */
static void on_parting(struct pccl_channel *channel)
{
    struct pccl_stream *stream = stream_of(channel);
    pccl_stream_sent(stream);
    leave_bundle(stream);
    pccl_engine_flush(stream->engine);
}

static void on_parted(struct pccl_channel *channel)
{
    struct pccl_stream *stream = stream_of(channel);
    pccl_stream_detach(stream);
    pccl_engine_flush(stream->engine);
}

/* ---- receiving ---- */

static bool is_receiving(const struct pccl_stream *stream) { return stream->arrival.length > 0; }

static void expect(struct pccl_stream *stream)
{
    pccl_channel_expect(&stream->channel, &stream->arrival.payload, stream->arrival.length);
}

static void note_received(struct pccl_stream *stream)
{
    if (!is_receiving(stream) || stream->channel.received < stream->channel.expected)
        return;
    pccl_exchange_received(stream->engine->exchange, &stream->arrival);
    memset(&stream->arrival, 0, sizeof stream->arrival);
    pccl_engine_flush(stream->engine); /* sends the segment that was just reduced while it is in the cache */
}

/*
 * Buffers a DATA message for which the exchange has no room. Reading continues when there is room; if the sender has
 * stopped sending, the payload is discarded instead.
 */
static void wait_with(struct pccl_stream *stream, const struct pccl_msg *msg)
{
    stream->arrival = (struct pccl_arrival){.length = stream->is_over ? msg->as.data.length : 0};
    if (stream->is_over)
        return;
    stream->waiting = true;
    stream->refused = *msg;
    pccl_list_append(&stream->engine->waiting, &stream->in_waiting);
}

/* ---- invalid messages (PROTOCOL 7.14) ---- */

/* Fails the operations that use the link. They are not retried, because a new connection would fail in the same way. */
static void fail_rejected(struct pccl_stream *stream, enum pccl_link_end how, bool purposely,
                          const struct pccl_text *reason)
{
    struct pccl_engine *engine = stream->engine;
    if (pccl_engine_forget_stream(engine, stream, how))
        engine->events.ended(engine->events.context, &stream->peer, stream->outgoing, stream->slot, how, purposely,
                             reason);
    pccl_exchange_rejected(stream->bundle->lane, reason);
}

/* Closes the connection because the other side sent an invalid message, and sends the reason in link_bye. */
static void reject(struct pccl_stream *stream, const struct pccl_text *reason)
{
    fail_rejected(stream, PCCL_LINK_UNREACHABLE, false, reason);
    stream->rejected = pccl_allocate(pccl_heap(), sizeof *stream->rejected);
    if (stream->rejected) {
        *stream->rejected = *reason;
        pccl_channel_explain(&stream->channel, pccl_bytes_of_text(stream->rejected));
    }
    pccl_stream_leave(stream);
    pccl_engine_flush(stream->engine);
}

/* Ends a stream that the other side closes. A reason in link_bye means that this side sent an invalid message. */
static void take_bye(struct pccl_stream *stream, const struct pccl_bytes *bye)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "peer %s closed a connection: ", pccl_id_str(&stream->peer));
    pccl_text_add_bytes(&reason, (const char *)bye->data, bye->length);
    if (bye->length > 0)
        fail_rejected(stream, PCCL_LINK_CLOSED, true, &reason);
    end(stream, PCCL_LINK_CLOSED, true);
}

/* ---- messages ---- */

/* Passes a message to the exchange. On MALFORMED or MEMORY the caller must close the connection. */
static enum pccl_status hand_in(struct pccl_stream *stream, const struct pccl_msg *msg, struct pccl_text *reason)
{
    struct pccl_engine *engine = stream->engine;
    enum pccl_status status = pccl_exchange_receive(stream->bundle->lane, msg, &stream->arrival, reason);
    if (status == PCCL_LIMIT)
        wait_with(stream, msg);
    else if (status != PCCL_OK)
        memset(&stream->arrival, 0, sizeof stream->arrival);
    expect(stream);
    pccl_engine_flush(engine);
    return status == PCCL_LIMIT ? PCCL_OK : status;
}

/* Ends the stream if the exchange did not accept the message. */
static void judge(struct pccl_stream *stream, enum pccl_status status, const struct pccl_text *reason)
{
    if (status == PCCL_MALFORMED)
        reject(stream, reason);
    else if (status != PCCL_OK)
        end(stream, PCCL_LINK_UNREACHABLE, false);
}

/* Returns false if the stream has ended. */
static bool on_message(struct pccl_stream *stream, const struct pccl_msg *msg)
{
    struct pccl_text reason;
    if (msg->type == PCCL_MSG_link_bye)
        take_bye(stream, &msg->as.link_bye.reason);
    else
        judge(stream, hand_in(stream, msg, &reason), &reason);
    return stream->channel.state == PCCL_CHANNEL_OPEN;
}

/* Ends a stream that received an invalid message. Rejects it only if the sender caused this (channel.is_invalid). */
static void on_garbage(struct pccl_stream *stream, const struct pccl_text *why)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "peer %s sent an invalid message: %s", pccl_id_str(&stream->peer), why->bytes);
    if (stream->channel.is_invalid)
        reject(stream, &reason);
    else
        end(stream, PCCL_LINK_UNREACHABLE, false);
}

/* Handles the frames and payloads that were read. Returns false if the stream has ended. */
static bool digest(struct pccl_stream *stream)
{
    struct pccl_msg msg;
    struct pccl_text reason;
    for (;;) {
        if (is_receiving(stream) && pccl_channel_move(&stream->channel))
            note_received(stream);
        if (is_receiving(stream) || stream->waiting)
            return true;
        enum pccl_channel_io io = pccl_channel_message(&stream->channel, stream->engine->scratch, &msg, &reason);
        if (io == PCCL_CHANNEL_WAITS)
            return true;
        if (io == PCCL_CHANNEL_ENDED)
            on_garbage(stream, &reason);
        if (io == PCCL_CHANNEL_ENDED || !on_message(stream, &msg))
            return false;
    }
}

/* Reads once. Returns false if there is nothing more to read now, or the stream has ended. */
static bool read_some(struct pccl_stream *stream, size_t *budget)
{
    struct pccl_channel *channel = &stream->channel;
    enum pccl_channel_io io = pccl_channel_read(channel, budget);
    if (io == PCCL_CHANNEL_ENDED) {
        enum pccl_link_end how = pccl_channel_evidence(channel);
        end(stream, how ? how : PCCL_LINK_UNREACHABLE, false);
    }
    if (io != PCCL_CHANNEL_MOVED)
        return false;
    note_received(stream);
    return digest(stream) && !stream->waiting && !channel->dry;
}

static void on_readable(struct pccl_stream *stream)
{
    size_t budget = PCCL_STREAM_READ_MAX;
    if (stream->waiting) { /* the other side has stopped sending */
        stream->is_over = true;
        pccl_list_remove(&stream->in_waiting);
        resume(stream);
    }
    while (stream->channel.state == PCCL_CHANNEL_OPEN && budget > 0 && read_some(stream, &budget))
        continue;
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_stream *stream = stream_of(channel);
    stream->engine->visits++;
    pccl_exchange_set_time(stream->engine->exchange, pccl_now_us());
    int news = pccl_channel_begin(channel, ready);
    if (news & UV_WRITABLE)
        pccl_stream_continue(stream);
    if (news & ~UV_WRITABLE)
        on_readable(stream);
    pccl_engine_flush(stream->engine);
    pccl_stream_watch(stream);
}

static const struct pccl_channel_events channel_events = {
    .visit = on_visit, .parting = on_parting, .parted = on_parted, .released = on_released};

/*
 * Passes the refused message to the exchange again, and continues reading if there is room. The caller has removed the
 * stream from the list.
 */
static void resume(struct pccl_stream *stream)
{
    stream->waiting = false;
    const struct pccl_msg msg = stream->refused;
    struct pccl_text reason;
    judge(stream, hand_in(stream, &msg, &reason), &reason);
    if (stream->channel.state == PCCL_CHANNEL_OPEN && !stream->waiting)
        (void)digest(stream);
    pccl_stream_watch(stream);
}

/* ---- pending work ---- */

static void report_progress(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    job->noted = false;
    job->traffic = pccl_transfer_traffic(job->transfer);
    if (job->is_done && !job->reported_done) {
        job->reported_done = true;
        job->reported_at_rest = job->is_at_rest || pccl_transfer_is_at_rest(job->transfer);
        engine->events.done(engine->events.context, job, job->reported_at_rest);
    } else if (job->reported_done && job->is_at_rest && !job->reported_at_rest) {
        job->reported_at_rest = true;
        engine->events.at_rest(engine->events.context, job);
    }
}

void pccl_streams_resume(struct pccl_engine *engine, bool due_only)
{
    struct pccl_list_node asked;
    pccl_list_init(&asked);
    engine->resuming = true;
    for (struct pccl_list_node *node = engine->waiting.next, *next; node != &engine->waiting; node = next) {
        const struct pccl_stream *stream = PCCL_CONTAINER_OF(node, struct pccl_stream, in_waiting);
        next = node->next;
        if (due_only && !pccl_exchange_is_due(stream->bundle->lane, &stream->refused.as.data))
            continue;
        pccl_list_remove(node);
        pccl_list_append(&asked, node);
    }
    while (!pccl_list_is_empty(&asked)) {
        struct pccl_stream *stream = PCCL_CONTAINER_OF(asked.next, struct pccl_stream, in_waiting);
        pccl_list_remove(&stream->in_waiting);
        resume(stream);
    }
    engine->resuming = false;
}

/* Stops the idle handle, which has kept the loop from waiting. before_wait then retries the unsent wake-up bytes. */
static void on_resend(uv_idle_t *resends) { (void)uv_idle_stop(resends); }

static bool may_resume(const struct pccl_engine *engine)
{
    return !engine->resuming && !pccl_list_is_empty(&engine->waiting) &&
           engine->room != pccl_exchange_room(engine->exchange);
}

void pccl_engine_send_wake_bytes(struct pccl_engine *engine)
{
    if (!pccl_pipe_send_deferred(&engine->deferred))
        (void)uv_idle_start(&engine->resends, on_resend);
}

void pccl_engine_flush(struct pccl_engine *engine)
{
    for (;;) {
        if (engine->writable[false] || engine->writable[true]) {
            struct pccl_bundle **first = &engine->writable[!engine->writable[false]], *bundle = *first;
            *first = bundle->next_writable;
            bundle->writable = false;
            pccl_bundle_pump(engine, bundle);
        } else if (engine->noted) { /* reported only after sending, because other peers wait for the data */
            struct pccl_engine_job *job = engine->noted;
            engine->noted = job->next_noted;
            pccl_engine_send_wake_bytes(engine);
            report_progress(engine, job);
        } else if (may_resume(engine)) {
            engine->room = pccl_exchange_room(engine->exchange);
            pccl_streams_resume(engine, false);
        } else {
            return;
        }
    }
}

/* ---- opening ---- */

/* Frees a stream that the loop cannot watch. */
static void fail_to_open(struct pccl_stream *stream)
{
    struct pccl_engine *engine = stream->engine;
    if (pccl_engine_forget_stream(engine, stream, PCCL_LINK_UNREACHABLE))
        engine->events.ended(engine->events.context, &stream->peer, stream->outgoing, stream->slot,
                             PCCL_LINK_UNREACHABLE, false, NULL);
    release(stream);
}

void pccl_stream_open(struct pccl_stream *stream, bool closed_early)
{
    struct pccl_engine *engine = stream->engine;
    if (!pccl_channel_open(&stream->channel, &engine->reactor.loop)) {
        fail_to_open(stream);
        return;
    }
    pccl_stream_watch(stream);
    if (closed_early)
        pccl_stream_leave(stream);
    else if (pccl_bundle_enter(stream) != PCCL_OK)
        end(stream, PCCL_LINK_UNREACHABLE, false);
    else
        (void)digest(stream); /* data that was read together with the handshake */
    pccl_engine_flush(engine);
}
