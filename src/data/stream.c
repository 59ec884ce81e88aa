/*
 * One connection: frames and payloads in, frames and payloads out, and its end. It ends in one of two ways: the other
 * side's doing, found while reading (`end`), or the caller's (`pccl_stream_leave`).
 *
 * A payload that is half sent when the caller closes the connection is completed from where it lies as long as its
 * operation is alive: the other side takes a complete segment for good. Only an operation that was stopped, whose
 * outcome is known, lets us send filler (PROTOCOL 7.5).
 */
#include "data/internal.h"
#include "net/heap.h"
#include "net/path.h"
#include "net/socket.h"

#include <string.h>

enum { MEASURE_BYTES = 1 << 20 }; /* less does not show what a way can take */

static const uint8_t filler[PCCL_STREAM_FILLER_BYTES];

static void on_poll(uv_poll_t *poll, int status, int events);
static void push(struct pccl_stream *stream);

/* ---- life ---- */

static size_t stream_bytes(const struct pccl_stream *stream) { return sizeof *stream + stream->rest_length; }

struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, uv_os_sock_t socket, const uint8_t *rest, size_t rest_length)
{
    PCCL_ASSERT(rest_length <= PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_BODY_MAX);
    struct pccl_stream *stream = pccl_allocate(pccl_heap(), sizeof *stream + rest_length);
    if (!stream)
        return NULL;
    stream->engine = engine;
    stream->peer = *peer;
    stream->outgoing = outgoing;
    stream->slot = slot;
    stream->socket = socket;
    stream->rest_length = (uint32_t)rest_length;
    if (rest_length)
        memcpy(stream->rest, rest, rest_length);
    pccl_frame_reader_init(&stream->reader, pccl_heap());
    return stream;
}

static void release(struct pccl_stream *stream)
{
    pccl_frame_reader_fini(&stream->reader);
    pccl_release(pccl_heap(), stream, stream_bytes(stream));
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pccl_stream *stream = handle->data;
    if (--stream->handles == 0)
        release(stream);
}

/* The memory follows when the loop lets go of it. */
static void finish(struct pccl_stream *stream)
{
    stream->state = PCCL_STREAM_GONE;
    uv_close((uv_handle_t *)&stream->poll, on_handle_closed);
    uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
    pccl_socket_close(stream->socket);
}

static void watch(struct pccl_stream *stream)
{
    if (stream->state == PCCL_STREAM_GONE)
        return;
    int input = stream->waiting ? UV_DISCONNECT : UV_READABLE;
    int wanted = input | (stream->watch_output ? UV_WRITABLE : 0);
    if (wanted == stream->armed)
        return;
    stream->armed = wanted;
    (void)uv_poll_start(&stream->poll, wanted, on_poll); /* fails only for handles that are closing */
}

static void block(struct pccl_stream *stream)
{
    stream->blocked = stream->watch_output = true;
    watch(stream);
}

static void stop_waiting(struct pccl_stream *stream)
{
    if (!stream->waiting)
        return;
    stream->waiting = false;
    pccl_link_remove(&stream->in_waiting);
    watch(stream);
}

/* What was under way is given back: the transfers that it belongs to fail when the bundle is left. */
static void give_back(struct pccl_stream *stream)
{
    pccl_exchange_dropped(stream->engine->exchange, stream->departs ? &stream->departure : NULL, &stream->arrival);
    stream->departs = false;
    memset(&stream->departure, 0, sizeof stream->departure);
    memset(&stream->arrival, 0, sizeof stream->arrival);
}

/* It is over by the other side's doing, or broke; by our own: PCCL_LINK_UNREACHABLE, which is no evidence of anything.
 */
static void end(struct pccl_stream *stream, enum pccl_link_end how, bool purposely)
{
    struct pccl_engine *engine = stream->engine;
    stop_waiting(stream);
    give_back(stream);
    finish(stream);
    /* The link's end first: it explains the failures that follow. */
    if (pccl_engine_forget_stream(engine, stream))
        engine->events.ended(engine->events.context, &stream->peer, stream->outgoing, stream->slot, how, purposely);
    pccl_bundle_leave(stream);
    pccl_engine_settle(engine);
}

void pccl_stream_cut(struct pccl_stream *stream) { end(stream, PCCL_LINK_UNREACHABLE, false); }

static void end_with_error(struct pccl_stream *stream, int error)
{
    switch (error) {
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
    case UV_ENETDOWN: end(stream, PCCL_LINK_SILENT, false); break;
    default: end(stream, PCCL_LINK_CLOSED, false); break;
    }
}

/* ---- the good-bye ---- */

static void on_timer(uv_timer_t *timer)
{
    struct pccl_stream *stream = timer->data;
    give_back(stream);
    finish(stream);
    pccl_bundle_leave(stream);
    pccl_engine_settle(stream->engine);
}

static void encode(struct pccl_stream *stream, const struct pccl_msg *msg)
{
    size_t size = pccl_frame_size(msg);
    PCCL_ASSERT(size <= sizeof stream->head);
    pccl_frame_encode(msg, 0, 0, stream->head);
    stream->head_start = 0;
    stream->head_end = (uint32_t)size;
    stream->sending = true;
}

/* The stream sends nothing any more but the good-bye. */
static void say_bye(struct pccl_stream *stream)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_bye};
    pccl_bundle_leave(stream);
    stream->said_bye = true;
    stream->length = stream->sent = 0;
    encode(stream, &msg);
    if (!stream->blocked)
        push(stream);
}

void pccl_stream_let_go(struct pccl_stream *stream)
{
    stop_waiting(stream);
    give_back(stream);
    pccl_bundle_leave(stream);
}

void pccl_stream_leave(struct pccl_stream *stream)
{
    if (stream->state != PCCL_STREAM_OPEN)
        return; /* it is over already */
    stop_waiting(stream);
    if (stream->write_error) {
        give_back(stream);
        finish(stream);
        pccl_bundle_leave(stream);
        return;
    }
    stream->state = PCCL_STREAM_LEAVING;
    pccl_exchange_dropped(stream->engine->exchange, NULL, &stream->arrival);
    memset(&stream->arrival, 0, sizeof stream->arrival);
    uv_update_time(stream->timer.loop);
    (void)uv_timer_start(&stream->timer, on_timer, stream->engine->config.linger_ms, 0);
    if (stream->departs && !stream->departure.transfer)
        pccl_stream_let_go(stream);
    if (!stream->sending)
        say_bye(stream);
}

/* ---- out ---- */

bool pccl_stream_is_idle(const struct pccl_stream *stream)
{
    return stream->state == PCCL_STREAM_OPEN && !stream->sending && !stream->blocked && !stream->write_error;
}

/* Nothing can be sent any more. What came before is still to be read: it may be the other side's good-bye. */
static void fail_output(struct pccl_stream *stream, int error)
{
    stream->write_error = error;
    stream->blocked = stream->watch_output = false;
    pccl_socket_shutdown(stream->socket);
    watch(stream);
}

static void completed(struct pccl_stream *stream)
{
    stream->sending = false;
    if (stream->departs) {
        stream->departs = false;
        pccl_exchange_sent(stream->engine->exchange, &stream->departure);
        memset(&stream->departure, 0, sizeof stream->departure);
    }
    if (stream->said_bye)
        pccl_socket_shutdown_write(stream->socket);
    else if (stream->state == PCCL_STREAM_LEAVING)
        say_bye(stream);
}

static void advance(struct pccl_stream *stream, size_t moved)
{
    uint32_t head = (uint32_t)pccl_min_u64(moved, stream->head_end - stream->head_start);
    stream->head_start += head;
    stream->sent += (uint32_t)moved - head;
    stream->moved += moved;
}

/* Sends what the kernel takes of the message under way. */
static void push(struct pccl_stream *stream)
{
    while (stream->head_start < stream->head_end || stream->sent < stream->length) {
        const uint8_t *payload = stream->departs ? stream->departure.payload : NULL;
        size_t left = stream->length - stream->sent;
        size_t body = payload ? left : (size_t)pccl_min_u64(left, sizeof filler);
        size_t head = stream->head_end - stream->head_start;
        ptrdiff_t moved = pccl_socket_write_two(stream->socket, stream->head + stream->head_start, head,
                                                payload ? payload + stream->sent : filler, body);
        if (moved < 0 && moved != UV_EAGAIN && moved != UV_ENOBUFS) {
            fail_output(stream, (int)moved);
            return;
        }
        if (moved > 0)
            advance(stream, (size_t)moved);
        if (moved < 0 || (size_t)moved < head + body) {
            block(stream);
            return;
        }
    }
    completed(stream);
}

size_t pccl_stream_send(struct pccl_stream *stream)
{
    stream->departs = true;
    stream->length = stream->departure.length;
    stream->sent = 0;
    encode(stream, &stream->departure.msg);
    push(stream);
    return stream->head_end + stream->length;
}

void pccl_stream_rest(struct pccl_stream *stream) { block(stream); }

/* Less than before is believed bit by bit, since one look may come at a bad moment; and not if we sent too little. */
void pccl_stream_measure(struct pccl_stream *stream)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_path path;
    if (stream->moved - stream->measured < MEASURE_BYTES || !pccl_path_measure(stream->socket, &path))
        return;
    stream->measured = stream->moved;
    uv_mutex_lock(&engine->lock);
    uint64_t kept = path.limited ? stream->rate : stream->rate - stream->rate / 8;
    stream->rate = pccl_max_u64(kept, path.rate);
    stream->rtt_us = path.rtt_us;
    stream->is_news = true;
    uv_mutex_unlock(&engine->lock);
}

static void on_writable(struct pccl_stream *stream)
{
    if (!stream->blocked) {
        stream->watch_output = false; /* nobody waits for it */
        return;
    }
    stream->blocked = false;
    if (stream->sending)
        push(stream);
    if (stream->bundle && pccl_stream_is_idle(stream))
        pccl_bundle_note(stream->engine, stream->bundle);
}

/* ---- in ---- */

static bool is_receiving(const struct pccl_stream *stream) { return stream->arrival.length > 0; }

static void note_received(struct pccl_stream *stream, size_t bytes)
{
    stream->received += (uint32_t)bytes;
    if (stream->received < stream->arrival.length)
        return;
    pccl_exchange_received(stream->engine->exchange, &stream->arrival);
    memset(&stream->arrival, 0, sizeof stream->arrival);
    pccl_engine_settle(stream->engine); /* sends on what has just been folded while it is in the cache */
}

/* Moves the beginning of a payload that was read together with its frame. */
static void take_from_reader(struct pccl_stream *stream)
{
    struct pccl_frame_reader *reader = &stream->reader;
    uint32_t bytes = (uint32_t)pccl_min_u64(reader->end - reader->start, stream->arrival.length - stream->received);
    if (bytes == 0)
        return;
    if (stream->arrival.payload)
        memcpy(stream->arrival.payload + stream->received, reader->buffer + reader->start, bytes);
    reader->start += bytes;
    note_received(stream, bytes);
}

/* DATA that the exchange has no room for: it is read when there is some, or thrown away if its sender has gone. */
static void wait_with(struct pccl_stream *stream, const struct pccl_msg *msg)
{
    stream->arrival = (struct pccl_arrival){.length = stream->is_over ? msg->as.data.length : 0};
    if (stream->is_over)
        return;
    stream->waiting = true;
    stream->refused = *msg;
    pccl_link_append(&stream->engine->waiting, &stream->in_waiting);
}

/* false: the exchange has no use for this connection any more. */
static bool hand_in(struct pccl_stream *stream, const struct pccl_msg *msg)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_text words;
    stream->received = 0;
    enum pccl_status status =
        pccl_exchange_receive(engine->exchange, &stream->peer, stream->outgoing, msg, &stream->arrival, &words);
    if (status == PCCL_LIMIT)
        wait_with(stream, msg);
    else if (status != PCCL_OK)
        memset(&stream->arrival, 0, sizeof stream->arrival);
    pccl_engine_settle(engine);
    return status == PCCL_OK || status == PCCL_LIMIT;
}

/* false: the stream has ended. */
static bool on_frame(struct pccl_stream *stream, const struct pccl_frame *frame)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_msg msg;
    struct pccl_text words;
    bool good = pccl_wire_decode(frame->type, frame->body, frame->length, engine->scratch, &msg, &words) == PCCL_OK;
    bool bye = good && msg.type == PCCL_MSG_link_bye;
    if (good && !bye && hand_in(stream, &msg))
        return stream->state == PCCL_STREAM_OPEN;
    end(stream, bye ? PCCL_LINK_CLOSED : PCCL_LINK_UNREACHABLE, bye);
    return false;
}

/* Frames and payloads out of what the reader holds. false: the stream has ended. */
static bool digest(struct pccl_stream *stream)
{
    struct pccl_frame frame;
    struct pccl_text words;
    for (;;) {
        if (is_receiving(stream))
            take_from_reader(stream);
        if (is_receiving(stream) || stream->waiting)
            return true;
        int got = pccl_frame_reader_next(&stream->reader, &frame, &words);
        if (got == 0)
            return true;
        if (got < 0)
            end(stream, PCCL_LINK_UNREACHABLE, false);
        if (got < 0 || !on_frame(stream, &frame))
            return false;
    }
}

/* Where the next bytes go: the rest of the payload, and behind it the reader, so that the next frame comes along. */
struct target {
    uint8_t *payload, *rest;
    size_t payload_room, rest_room;
};

/* false: out of memory. */
static bool aim(struct pccl_stream *stream, struct target *target)
{
    struct pccl_engine *engine = stream->engine;
    size_t left = stream->arrival.length - stream->received;
    *target = (struct target){0};
    if (is_receiving(stream)) {
        bool wanted = stream->arrival.payload != NULL;
        target->payload = wanted ? stream->arrival.payload + stream->received : engine->sink;
        target->payload_room = wanted ? left : (size_t)pccl_min_u64(left, sizeof engine->sink);
        if (target->payload_room < left)
            return true;
    }
    target->rest = pccl_frame_reader_space(&stream->reader, &target->rest_room);
    return target->rest != NULL;
}

/* One read. false: there is no more for now, or the stream has ended. */
static bool read_some(struct pccl_stream *stream, size_t *budget)
{
    struct target target;
    if (!aim(stream, &target)) {
        end(stream, PCCL_LINK_UNREACHABLE, false);
        return false;
    }
    ptrdiff_t got =
        pccl_socket_read_two(stream->socket, target.payload, target.payload_room, target.rest, target.rest_room);
    if (got == UV_EAGAIN)
        return false;
    if (got < 0) {
        end_with_error(stream, stream->write_error ? stream->write_error : (int)got);
        return false;
    }
    size_t bytes = (size_t)got;
    size_t to_payload = (size_t)pccl_min_u64(bytes, target.payload_room);
    if (bytes > to_payload)
        pccl_frame_reader_filled(&stream->reader, bytes - to_payload);
    if (to_payload)
        note_received(stream, to_payload);
    *budget -= (size_t)pccl_min_u64(*budget, bytes);
    return digest(stream) && !stream->waiting && bytes == target.payload_room + target.rest_room;
}

static void on_readable(struct pccl_stream *stream)
{
    size_t budget = PCCL_STREAM_READ_MAX;
    if (stream->waiting) { /* the other side's end */
        stream->is_over = true;
        pccl_link_remove(&stream->in_waiting);
        pccl_stream_resume(stream);
    }
    while (stream->state == PCCL_STREAM_OPEN && budget > 0 && read_some(stream, &budget))
        continue;
}

/* While leaving: the other side's last bytes, until its end. */
static void drain(struct pccl_stream *stream)
{
    uint8_t bytes[4096];
    size_t budget = PCCL_STREAM_READ_MAX;
    ptrdiff_t got = 1;
    while (budget > 0 && (got = pccl_socket_read(stream->socket, bytes, sizeof bytes)) > 0)
        budget -= (size_t)pccl_min_u64(budget, (size_t)got);
    if (got >= 0 || got == UV_EAGAIN)
        return;
    give_back(stream);
    finish(stream);
    pccl_bundle_leave(stream);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pccl_stream *stream = poll->data;
    if (status < 0) { /* the watcher saw an error of the socket and has stopped: reading tells which, after what came */
        events = UV_READABLE;
        stream->armed = 0;
    }
    if (events & UV_WRITABLE)
        on_writable(stream);
    if (stream->state == PCCL_STREAM_LEAVING)
        drain(stream);
    else if (events & ~UV_WRITABLE)
        on_readable(stream);
    pccl_engine_settle(stream->engine);
    watch(stream);
}

/* What was read behind the handshake. */
static void digest_rest(struct pccl_stream *stream)
{
    while (stream->rest_start < stream->rest_length && !stream->waiting) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(&stream->reader, &room);
        if (!space) {
            end(stream, PCCL_LINK_UNREACHABLE, false);
            return;
        }
        size_t bytes = (size_t)pccl_min_u64(room, stream->rest_length - stream->rest_start);
        memcpy(space, stream->rest + stream->rest_start, bytes);
        pccl_frame_reader_filled(&stream->reader, bytes);
        stream->rest_start += (uint32_t)bytes;
        if (!digest(stream))
            return;
    }
}

void pccl_stream_resume(struct pccl_stream *stream)
{
    stream->waiting = false; /* its link is out of the list */
    const struct pccl_msg msg = stream->refused;
    if (!hand_in(stream, &msg))
        end(stream, PCCL_LINK_UNREACHABLE, false);
    else if (!stream->waiting && digest(stream))
        digest_rest(stream);
    watch(stream);
}

/* The loop cannot have it. */
static void end_before_it_began(struct pccl_stream *stream)
{
    struct pccl_engine *engine = stream->engine;
    pccl_socket_close(stream->socket);
    if (pccl_engine_forget_stream(engine, stream))
        engine->events.ended(engine->events.context, &stream->peer, stream->outgoing, stream->slot,
                             PCCL_LINK_UNREACHABLE, false);
    release(stream);
}

void pccl_stream_open(struct pccl_stream *stream, bool stillborn)
{
    struct pccl_engine *engine = stream->engine;
    if (uv_poll_init_socket(&engine->loop, &stream->poll, stream->socket) != 0) {
        end_before_it_began(stream);
        return;
    }
    (void)uv_timer_init(&engine->loop, &stream->timer); /* cannot fail */
    stream->handles = 2;
    stream->poll.data = stream->timer.data = stream;
    stream->state = PCCL_STREAM_OPEN;
    watch(stream);
    if (stillborn)
        pccl_stream_leave(stream);
    else if (pccl_bundle_enter(stream) != PCCL_OK)
        end(stream, PCCL_LINK_UNREACHABLE, false);
    else
        digest_rest(stream);
    pccl_engine_settle(engine);
}
