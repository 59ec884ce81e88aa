#include "net/channel.h"

#include "os/random.h"
#include "os/socket.h"

#include <string.h>

enum {
    OUT_BYTES_KEPT = 64 << 10, /* an output buffer above this size is freed when it becomes empty */
    FILLER_BYTES = 64 << 10,
    DRAIN_BYTES_VISIT = 1 << 20, /* limit for one visit, so that a channel cannot delay others */
};

static const uint8_t filler[FILLER_BYTES];

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_alarm(struct pccl_alarm *alarm);
static void on_kick(uv_idle_t *kick);
static void on_renewal(uv_timer_t *renewal);
static void visit(struct pccl_channel *channel, int ready);

/* ---- life ---- */

void pccl_channel_init(struct pccl_channel *channel, const struct pccl_memory *memory, uv_os_sock_t socket,
                       const struct pccl_channel_events *events)
{
    channel->events = events;
    channel->memory = memory;
    channel->socket = socket;
    channel->out_max = UINT32_MAX;
    pccl_frame_reader_init(&channel->reader, memory);
}

static void give_back_out(struct pccl_channel *channel)
{
    pccl_release(channel->memory, channel->out, channel->out_capacity);
    channel->out = NULL;
    channel->out_start = channel->out_end = channel->out_capacity = 0;
}

void pccl_channel_fini(struct pccl_channel *channel)
{
    pccl_frame_reader_fini(&channel->reader);
    give_back_out(channel);
    pccl_secure_destroy(channel->secure);
    channel->secure = NULL;
    pccl_pipe_destroy(channel->pipe);
    pccl_pipe_destroy(channel->offered);
    channel->pipe = channel->offered = NULL;
}

static bool has_kick(const struct pccl_channel *channel) { return channel->secure || channel->pipe; }

/* Creates the handles needed for encryption or a pipe, if the channel is open. */
static void make_kick(struct pccl_channel *channel)
{
    if (!has_kick(channel) || channel->state != PCCL_CHANNEL_OPEN)
        return;
    (void)uv_idle_init(channel->poll.loop, &channel->kick); /* cannot fail */
    channel->kick.data = channel;
    channel->handles++;
    uint64_t period = channel->secure ? pccl_secure_renewal_ms(channel->secure) : 0, random;
    if (!period)
        return;
    (void)uv_timer_init(channel->poll.loop, &channel->renewal); /* cannot fail, and neither can starting it */
    channel->renewal.data = channel;
    channel->handles++;
    bool spread = pccl_random_u64(&random); /* keeps connections that began together from renewing together */
    (void)uv_timer_start(&channel->renewal, on_renewal, spread ? period - random % (period / 2) : period, period);
}

void pccl_channel_secure(struct pccl_channel *channel, struct pccl_secure *secure)
{
    PCCL_ASSERT(!channel->secure);
    channel->secure = secure;
    make_kick(channel);
}

bool pccl_channel_open(struct pccl_channel *channel, uv_loop_t *loop)
{
    if (uv_poll_init_socket(loop, &channel->poll, channel->socket) != 0) {
        pccl_socket_close(channel->socket);
        return false;
    }
    channel->poll.data = channel;
    pccl_alarm_init(&channel->alarm, loop, on_alarm, channel);
    channel->handles = 1 + PCCL_ALARM_HANDLES;
    channel->state = PCCL_CHANNEL_OPEN;
    make_kick(channel);
    return true;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pccl_channel *channel = handle->data;
    if (--channel->handles > 0)
        return;
    pccl_channel_fini(channel);
    channel->events->released(channel);
}

static void let_go(struct pccl_channel *channel)
{
    PCCL_ASSERT(channel->state == PCCL_CHANNEL_OPEN || channel->state == PCCL_CHANNEL_LEAVING);
    channel->state = PCCL_CHANNEL_CLOSED;
    pccl_pipe_send_now(channel->pipe);
    uv_close((uv_handle_t *)&channel->poll, on_handle_closed); /* stops watching the socket */
    if (has_kick(channel))
        uv_close((uv_handle_t *)&channel->kick, on_handle_closed);
    if (channel->renewal.data)
        uv_close((uv_handle_t *)&channel->renewal, on_handle_closed);
    pccl_alarm_close(&channel->alarm, on_handle_closed);
}

void pccl_channel_close(struct pccl_channel *channel)
{
    let_go(channel);
    pccl_socket_close(channel->socket);
}

void pccl_channel_abort(struct pccl_channel *channel)
{
    let_go(channel);
    pccl_socket_abort(channel->socket);
}

void pccl_channel_detach(struct pccl_channel *channel, struct pccl_handover *out)
{
    let_go(channel);
    *out = (struct pccl_handover){.socket = channel->socket, .reader = channel->reader, .secure = channel->secure};
    pccl_frame_reader_init(&channel->reader, channel->memory);
    channel->secure = NULL;
    if (out->secure && pccl_secure_opens(out->secure)) {
        pccl_secure_destroy(out->secure);
        out->secure = NULL;
    }
    if (channel->offered && pccl_pipe_is_agreed(channel->offered)) {
        out->pipe = channel->offered;
        channel->offered = NULL;
    }
}

void pccl_channel_adopt(struct pccl_channel *channel, struct pccl_handover *handover)
{
    PCCL_ASSERT(channel->reader.memory == handover->reader.memory);
    channel->reader = handover->reader;
    if (handover->secure)
        pccl_channel_secure(channel, handover->secure);
    channel->pipe = handover->pipe;
    if (channel->pipe) /* bytes that were read after the handshake are wake-up bytes */
        channel->reader.start = channel->reader.end;
    if (channel->pipe)
        make_kick(channel);
}

void pccl_handover_drop(struct pccl_handover *handover)
{
    pccl_socket_close(handover->socket);
    pccl_frame_reader_fini(&handover->reader);
    pccl_secure_destroy(handover->secure);
    pccl_pipe_destroy(handover->pipe);
}

/* ---- waiting ---- */

/* Seals and sends the records of a renewal that is due. If other output is waiting, they are sent with it. */
static void renew(struct pccl_channel *channel)
{
    if (channel->renews)
        pccl_secure_renew(channel->secure);
    channel->renews = false;
    if (!channel->blocked && pccl_secure_is_sending(channel->secure) && channel->out_start == channel->out_end &&
        !channel->payload_left)
        (void)pccl_channel_push(channel); /* a failure is reported by the next read */
}

/* Returns the pipe's events, regardless of the cause of the visit. */
static int begin_piped(struct pccl_channel *channel, int ready)
{
    int news = 0;
    pccl_pipe_send_again(channel->pipe, channel->socket);
    if (ready)
        pccl_pipe_read_wake_bytes(channel->pipe, channel->socket);
    if (ready < 0)
        channel->armed = 0;
    if (pccl_pipe_has_ended(channel->pipe))
        news |= UV_DISCONNECT;
    if ((channel->input & UV_READABLE) && pccl_pipe_has_input(channel->pipe))
        news |= UV_READABLE;
    channel->dry = !news;
    if (channel->blocked && pccl_pipe_has_room(channel->pipe)) {
        channel->blocked = channel->watch_output = false;
        news |= UV_WRITABLE;
    }
    return news;
}

int pccl_channel_begin(struct pccl_channel *channel, int ready)
{
    if (channel->pipe)
        return begin_piped(channel, ready);
    if (ready < 0) { /* libuv has stopped polling because of a socket error, which the next write or read reports */
        channel->armed = 0;
        ready = UV_READABLE | UV_WRITABLE;
    }
    int news = ready & ~UV_WRITABLE;
    channel->dry = !news;
    if (ready & UV_WRITABLE) {
        if (channel->blocked)
            news |= UV_WRITABLE;
        else
            channel->watch_output = false; /* no output is waiting for room */
        channel->blocked = false;
    }
    if (channel->secure)
        renew(channel);
    return news;
}

static void set_kick(struct pccl_channel *channel, bool wanted)
{
    (void)(wanted ? uv_idle_start(&channel->kick, on_kick) : uv_idle_stop(&channel->kick));
}

/* Returns the events to watch on the socket. These are wake-up bytes until the pipe has ended. */
static int watch_pipe(struct pccl_channel *channel, int input)
{
    struct pccl_pipe *pipe = channel->pipe;
    bool ended = pccl_pipe_has_ended(pipe);
    channel->input = input;
    bool has_input = (input & UV_READABLE) && pccl_pipe_await_input(pipe);
    bool has_room = channel->blocked && pccl_pipe_await_room(pipe);
    set_kick(channel, has_input || has_room || (ended && input) || pccl_pipe_has_unsent_wake_byte(pipe));
    return ended ? 0 : UV_READABLE;
}

void pccl_channel_watch(struct pccl_channel *channel, int input)
{
    int wanted = input | (channel->watch_output ? UV_WRITABLE : 0);
    if (channel->pipe && channel->state != PCCL_CHANNEL_CLOSED)
        wanted = watch_pipe(channel, input);
    else if (channel->secure && channel->state == PCCL_CHANNEL_OPEN)
        set_kick(channel, (input & UV_READABLE) && pccl_secure_has_input(channel->secure));
    if (channel->state == PCCL_CHANNEL_CLOSED || wanted == channel->armed)
        return;
    channel->armed = wanted;
    channel->is_settling = true;
    if (!wanted || channel->is_shared)
        (void)uv_poll_stop(&channel->poll); /* a shared entry (EPOLLEXCLUSIVE) cannot be modified, only removed */
    if (wanted)
        (void)uv_poll_start(&channel->poll, wanted, on_poll); /* can only fail for a closing handle */
    channel->is_shared = channel->is_hidden = false;
}

void pccl_channel_yield(struct pccl_channel *channel) { channel->blocked = channel->watch_output = true; }

static void arm_alarm(struct pccl_channel *channel, uint32_t ms)
{
    pccl_alarm_set(&channel->alarm, ms ? pccl_now_us() + ms * UINT64_C(1000) : UINT64_MAX);
}

void pccl_channel_limit(struct pccl_channel *channel, uint32_t limit_ms)
{
    channel->is_limited = limit_ms > 0;
    arm_alarm(channel, limit_ms);
}

void pccl_channel_owed(struct pccl_channel *channel, uint32_t silence_ms)
{
    if (silence_ms && !channel->silence_ms)
        channel->moved_us = pccl_now_us();
    channel->silence_ms = silence_ms;
    if (silence_ms && !pccl_alarm_is_set(&channel->alarm))
        arm_alarm(channel, silence_ms);
}

static void note_moved(struct pccl_channel *channel)
{
    if (channel->silence_ms)
        channel->moved_us = pccl_now_us();
}

/* ---- in ---- */

static enum pccl_channel_io end_input(struct pccl_channel *channel, int error)
{
    /* After our side has shut down, the end of input proves nothing: reports the shutdown's reason unless EPIPE. */
    bool ours = error == UV_EOF && channel->failed && channel->failed != UV_EPIPE;
    channel->ended = ours ? channel->failed : error;
    return PCCL_CHANNEL_ENDED;
}

/* Destinations of the next bytes: the rest of a payload, then the reader, so that one read also gets the next frame. */
struct rooms {
    uint8_t *payload, *frames;
    size_t payload_bytes, frames_bytes;
};

/* Sets the destinations. Returns false if out of memory. */
static bool aim(struct pccl_channel *channel, struct rooms *rooms)
{
    size_t left = channel->expected - channel->received;
    *rooms = (struct rooms){0};
    if (left) {
        uint8_t *target = *channel->target;
        rooms->payload = target ? target + channel->received : channel->sink;
        rooms->payload_bytes = target ? left : (size_t)pccl_min_u64(left, channel->sink_bytes);
        if (rooms->payload_bytes < left)
            return true;
    }
    rooms->frames = pccl_frame_reader_space(&channel->reader, &rooms->frames_bytes);
    return rooms->frames != NULL;
}

/* Sends output that the read has unblocked, because reading advances the handshake for which output may be waiting. */
static void push_after_read(struct pccl_channel *channel)
{
    bool waited = channel->blocked && !channel->watch_output && !pccl_secure_is_shaking_hands(channel->secure);
    if (waited)
        channel->blocked = false;
    if (waited || (pccl_secure_is_sending(channel->secure) && !channel->blocked))
        (void)pccl_channel_push(channel); /* a failure is reported by the next read */
}

static ptrdiff_t read_secured(struct pccl_channel *channel, const struct rooms *rooms)
{
    ptrdiff_t got = pccl_secure_read(channel->secure, channel->socket, rooms->payload, rooms->payload_bytes,
                                     rooms->frames, rooms->frames_bytes);
    if (!channel->failed)
        push_after_read(channel);
    if (pccl_secure_has_moved(channel->secure)) /* counts partial records, as one can take long */
        note_moved(channel);
    return got;
}

/* Reads the first bytes of a handshake, and the pipe if one is offered with them. */
static ptrdiff_t read_offer(struct pccl_channel *channel, const struct rooms *rooms)
{
    ptrdiff_t got =
        pccl_pipe_read_offer(channel->memory, channel->socket, rooms->frames, rooms->frames_bytes, &channel->offered);
    channel->accepts_pipes = got == UV_EAGAIN;
    return got;
}

static ptrdiff_t read_into(struct pccl_channel *channel, const struct rooms *rooms)
{
    if (channel->secure)
        return read_secured(channel, rooms);
    if (channel->pipe)
        return pccl_pipe_read(channel->pipe, channel->socket, rooms->payload, rooms->payload_bytes, rooms->frames,
                              rooms->frames_bytes);
    if (channel->accepts_pipes)
        return read_offer(channel, rooms);
    if (rooms->payload_bytes)
        return pccl_socket_read_two(channel->socket, rooms->payload, rooms->payload_bytes, rooms->frames,
                                    rooms->frames_bytes);
    return pccl_socket_read(channel->socket, rooms->frames, rooms->frames_bytes);
}

enum pccl_channel_io pccl_channel_read(struct pccl_channel *channel, size_t *budget)
{
    struct rooms rooms;
    if (channel->ended)
        return PCCL_CHANNEL_ENDED;
    if (!aim(channel, &rooms))
        return end_input(channel, UV_ENOMEM);
    ptrdiff_t got = read_into(channel, &rooms);
    if (got == UV_EAGAIN) {
        channel->dry = true;
        return PCCL_CHANNEL_WAITS;
    }
    if (got < 0)
        return end_input(channel, (int)got);
    size_t bytes = (size_t)got, of_payload = (size_t)pccl_min_u64(bytes, rooms.payload_bytes);
    if (bytes > of_payload)
        pccl_frame_reader_filled(&channel->reader, bytes - of_payload);
    channel->received += (uint32_t)of_payload;
    channel->dry =
        bytes < rooms.payload_bytes + rooms.frames_bytes && (!channel->secure || pccl_secure_is_dry(channel->secure));
    *budget -= (size_t)pccl_min_u64(*budget, bytes);
    note_moved(channel);
    return PCCL_CHANNEL_MOVED;
}

void pccl_channel_expect(struct pccl_channel *channel, uint8_t *const *target, uint32_t bytes)
{
    channel->target = target;
    channel->expected = bytes;
    channel->received = 0;
}

uint32_t pccl_channel_move(struct pccl_channel *channel)
{
    struct pccl_frame_reader *reader = &channel->reader;
    uint32_t left = channel->expected - channel->received;
    uint32_t bytes = (uint32_t)pccl_min_u64(reader->end - reader->start, left);
    if (bytes && *channel->target)
        memcpy(*channel->target + channel->received, reader->buffer + reader->start, bytes);
    reader->start += bytes;
    channel->received += bytes;
    return bytes;
}

enum pccl_channel_io pccl_channel_message(struct pccl_channel *channel, struct pccl_wire_scratch *scratch,
                                          struct pccl_msg *msg, struct pccl_text *reason)
{
    struct pccl_frame frame;
    int got = pccl_frame_reader_next(&channel->reader, &frame, reason);
    if (got == 0)
        return PCCL_CHANNEL_WAITS;
    if (got > 0 && pccl_wire_decode(frame.type, frame.body, frame.length, scratch, msg, reason) == PCCL_OK)
        return PCCL_CHANNEL_MOVED;
    channel->is_invalid = got > 0;
    return PCCL_CHANNEL_ENDED;
}

/* ---- out ---- */

void pccl_channel_fail(struct pccl_channel *channel, int error)
{
    channel->failed = error;
    channel->blocked = channel->watch_output = false;
    channel->out_start = channel->out_end = channel->payload_left = 0;
    pccl_socket_shutdown(channel->socket);
}

bool pccl_channel_reserve(struct pccl_channel *channel, uint32_t bytes)
{
    uint8_t *out = pccl_grow(channel->memory, channel->out, &channel->out_capacity, bytes, 1);
    if (out)
        channel->out = out;
    return out != NULL;
}

/* Makes room in a full output buffer. If out of memory, fails the channel and returns false. */
static bool enlarge(struct pccl_channel *channel, size_t bytes)
{
    uint32_t waiting = channel->out_end - channel->out_start;
    if (channel->out_start) {
        memmove(channel->out, channel->out + channel->out_start, waiting);
        channel->out_start = 0;
        channel->out_end = waiting;
    }
    if (pccl_channel_reserve(channel, waiting + (uint32_t)bytes))
        return true;
    pccl_channel_fail(channel, UV_ENOMEM);
    return false;
}

/* Returns room for `bytes` after the unsent frames. If they do not fit, fails the channel and returns NULL. */
static inline uint8_t *make_room(struct pccl_channel *channel, size_t bytes)
{
    PCCL_ASSERT(!channel->payload_left); /* otherwise these bytes would overtake the payload */
    if (channel->failed)
        return NULL;
    if (channel->out_end - channel->out_start + bytes > channel->out_max) {
        pccl_channel_fail(channel, UV_ENOBUFS);
        return NULL;
    }
    if (channel->out_capacity - channel->out_end < bytes && !enlarge(channel, bytes))
        return NULL;
    return channel->out + channel->out_end;
}

bool pccl_channel_put(struct pccl_channel *channel, const uint8_t *bytes, size_t length)
{
    uint8_t *room = make_room(channel, length);
    if (!room)
        return false;
    memcpy(room, bytes, length);
    channel->out_end += (uint32_t)length;
    return true;
}

bool pccl_channel_put_message(struct pccl_channel *channel, const struct pccl_msg *msg)
{
    size_t length = pccl_frame_size(msg);
    uint8_t *room = make_room(channel, length);
    if (!room)
        return false;
    pccl_frame_encode(msg, 0, 0, room);
    channel->out_end += (uint32_t)length;
    return true;
}

static void advance(struct pccl_channel *channel, uint32_t moved)
{
    uint32_t of_frames = (uint32_t)pccl_min_u64(moved, channel->out_end - channel->out_start);
    channel->out_start += of_frames;
    if (moved > of_frames) {
        channel->payload_left -= moved - of_frames;
        channel->payload_sent += moved - of_frames;
    }
    note_moved(channel);
    if (channel->out_start < channel->out_end)
        return;
    channel->out_start = channel->out_end = 0;
    if (channel->out_capacity > OUT_BYTES_KEPT)
        give_back_out(channel);
}

static ptrdiff_t write_some(const struct pccl_channel *channel, size_t frames, size_t *bytes)
{
    const uint8_t *out = frames ? channel->out + channel->out_start : NULL;
    if (channel->offered)
        return pccl_pipe_send_offer(channel->offered, channel->socket, out, frames);
    if (!*bytes && channel->pipe)
        return pccl_pipe_write(channel->pipe, channel->socket, out, frames, NULL, 0);
    if (!*bytes)
        return channel->secure ? pccl_secure_write(channel->secure, channel->socket, out, frames, NULL, 0)
                               : pccl_socket_write(channel->socket, out, frames);
    const uint8_t *payload = *channel->payload;
    if (payload)
        payload += channel->payload_sent;
    else
        *bytes = (size_t)pccl_min_u64(*bytes, sizeof filler);
    if (channel->secure)
        return pccl_secure_write(channel->secure, channel->socket, out, frames, payload ? payload : filler, *bytes);
    if (channel->pipe)
        return pccl_pipe_write(channel->pipe, channel->socket, out, frames, payload ? payload : filler, *bytes);
    return pccl_socket_write_two(channel->socket, out, frames, payload ? payload : filler, *bytes);
}

/* Returns MOVED if the kernel took all bytes that were passed to it. */
static enum pccl_channel_io push_some(struct pccl_channel *channel)
{
    size_t frames = channel->out_end - channel->out_start, bytes = channel->payload_left;
    ptrdiff_t moved = write_some(channel, frames, &bytes);
    if (moved > 0)
        advance(channel, (uint32_t)moved);
    else if (channel->secure && pccl_secure_has_moved(channel->secure))
        note_moved(channel);
    if (moved >= 0 && (size_t)moved == frames + bytes)
        return PCCL_CHANNEL_MOVED;
    if (moved >= 0 || moved == UV_EAGAIN || moved == UV_ENOBUFS) {
        pccl_channel_yield(channel);
        if (channel->secure && pccl_secure_is_shaking_hands(channel->secure) &&
            !pccl_secure_is_sending(channel->secure))
            channel->watch_output = false; /* the handshake waits for the other side's answer, not for room */
        return PCCL_CHANNEL_WAITS;
    }
    pccl_channel_fail(channel, (int)moved);
    return PCCL_CHANNEL_ENDED;
}

enum pccl_channel_io pccl_channel_push(struct pccl_channel *channel)
{
    enum pccl_channel_io io = channel->failed ? PCCL_CHANNEL_ENDED : PCCL_CHANNEL_MOVED;
    while (io == PCCL_CHANNEL_MOVED && pccl_channel_is_sending(channel))
        io = channel->blocked ? PCCL_CHANNEL_WAITS : push_some(channel);
    if (channel->pipe && pccl_pipe_has_unsent_wake_byte(channel->pipe))
        set_kick(channel, true);
    return io;
}

/* ---- the good-bye ---- */

static void end_parting(struct pccl_channel *channel)
{
    pccl_channel_close(channel);
    if (channel->events->parted)
        channel->events->parted(channel);
}

static void send_rest(struct pccl_channel *channel)
{
    const struct pccl_msg bye = {.type = PCCL_MSG_link_bye, .as.link_bye = {.reason = channel->bye_reason}};
    if (channel->is_shut || pccl_channel_push(channel) != PCCL_CHANNEL_MOVED)
        return;
    if (!channel->is_parting) {
        channel->is_parting = true;
        if (channel->events->parting)
            channel->events->parting(channel);
        if (channel->says_bye)
            (void)pccl_channel_put_message(channel, &bye); /* link_bye is omitted if out of memory */
        if (pccl_channel_push(channel) != PCCL_CHANNEL_MOVED)
            return;
        if (channel->secure)
            pccl_secure_finish(channel->secure);
        if (pccl_channel_push(channel) != PCCL_CHANNEL_MOVED)
            return;
    }
    channel->is_shut = true;
    pccl_socket_shutdown_write(channel->socket);
}

/* Discards input. Returns false once the other side has ended too, or the limit for discarded bytes is exceeded. */
static bool drain(struct pccl_channel *channel)
{
    uint8_t bytes[4096];
    ptrdiff_t got = 1;
    for (size_t budget = DRAIN_BYTES_VISIT; budget >= sizeof bytes; budget -= sizeof bytes) {
        got = channel->pipe ? pccl_pipe_read(channel->pipe, channel->socket, bytes, sizeof bytes, NULL, 0)
                            : pccl_socket_read(channel->socket, bytes, sizeof bytes);
        if (got <= 0)
            break;
        channel->drained += channel->drain_max ? (uint32_t)got : 0;
        if (channel->drained > channel->drain_max)
            return false;
    }
    return got > 0 || got == UV_EAGAIN;
}

void pccl_channel_leave(struct pccl_channel *channel, bool bye, uint32_t linger_ms)
{
    PCCL_ASSERT(channel->state == PCCL_CHANNEL_OPEN);
    channel->state = PCCL_CHANNEL_LEAVING;
    channel->says_bye = bye;
    send_rest(channel);
    if (channel->failed || linger_ms == 0) {
        end_parting(channel);
        return;
    }
    pccl_channel_watch(channel, UV_READABLE);
    pccl_channel_limit(channel, linger_ms);
}

static void on_alarm(struct pccl_alarm *alarm)
{
    struct pccl_channel *channel = alarm->timer.data;
    uint64_t quiet_us = channel->moved_us + channel->silence_ms * UINT64_C(1000);
    if (channel->state == PCCL_CHANNEL_LEAVING)
        end_parting(channel);
    else if (channel->is_limited || (channel->silence_ms && pccl_now_us() >= quiet_us))
        channel->events->late(channel);
    else if (channel->silence_ms)
        pccl_alarm_set(alarm, quiet_us);
}

static void on_kick(uv_idle_t *kick)
{
    struct pccl_channel *channel = kick->data;
    (void)uv_idle_stop(kick);
    if (channel->pipe)
        visit(channel, 0);
    else if (channel->state == PCCL_CHANNEL_OPEN)
        channel->events->visit(channel, UV_READABLE);
}

static void on_renewal(uv_timer_t *renewal)
{
    struct pccl_channel *channel = renewal->data;
    channel->renews = channel->state == PCCL_CHANNEL_OPEN;
    if (channel->renews)
        channel->events->visit(channel, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events) { visit(poll->data, status < 0 ? status : events); }

static void visit(struct pccl_channel *channel, int ready)
{
    if (channel->state != PCCL_CHANNEL_LEAVING) {
        channel->events->visit(channel, ready);
        return;
    }
    int news = pccl_channel_begin(channel, ready);
    send_rest(channel);
    if ((news & ~UV_WRITABLE) && !drain(channel))
        end_parting(channel);
    else
        pccl_channel_watch(channel, UV_READABLE);
}
