/*
 * One connection: bytes in become messages and chunks, messages and chunks become bytes out. What they mean is the
 * business of its role.
 */
#include "sync/internal.h"

#include "net/heap.h"
#include "net/socket.h"

#include <string.h>

enum { HEAD_BYTES_KEPT = 4096 /* an empty buffer above this is given back */ };

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- life ---- */

void pccl_sync_link_free(struct pccl_sync_link *link)
{
    link->role->release(link);
    pccl_frame_reader_fini(&link->reader);
    pccl_release(pccl_heap(), link->head, link->head_capacity);
    pccl_release(pccl_heap(), link, link->bytes);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pccl_sync_link *link = handle->data;
    if (--link->handles == 0)
        pccl_sync_link_free(link);
}

void *pccl_sync_link_allocate(struct pccl_sync_session *session, const struct pccl_sync_role *role, size_t bytes,
                              const struct pccl_id *peer, uv_os_sock_t socket)
{
    struct pccl_sync_link *link = pccl_allocate(pccl_heap(), bytes);
    if (!link)
        return NULL;
    link->session = session;
    link->role = role;
    link->bytes = bytes;
    link->peer = *peer;
    link->socket = socket;
    pccl_frame_reader_init(&link->reader, pccl_heap());
    return link;
}

static uint64_t silence_limit_us(const struct pccl_sync_link *link)
{
    return link->session->config.silence_ms * UINT64_C(1000);
}

static void on_silence(struct pccl_alarm *silence)
{
    struct pccl_sync_link *link = silence->timer.data;
    uint64_t silent_us = pccl_now_us() - link->moved_us;
    if (!link->owes)
        return;
    if (silent_us < silence_limit_us(link)) {
        pccl_alarm_set(silence, link->moved_us + silence_limit_us(link));
        return;
    }
    pccl_text_format(&link->words, "nothing for %s", pccl_duration_str(silent_us));
    link->role->silent(link);
}

bool pccl_sync_link_open(struct pccl_sync_link *link)
{
    struct pccl_sync_session *session = link->session;
    if (uv_poll_init_socket(&session->loop, &link->poll, link->socket) != 0) {
        pccl_socket_close(link->socket);
        return false;
    }
    pccl_alarm_init(&link->silence, &session->loop, on_silence, link);
    link->handles = 2;
    link->poll.data = link;
    pccl_socket_limit_silence(link->socket, session->config.silence_ms);
    link->older = session->newest;
    if (session->newest)
        session->newest->newer = link;
    else
        session->oldest = link;
    session->newest = link;
    return true;
}

void pccl_sync_link_close(struct pccl_sync_link *link)
{
    struct pccl_sync_session *session = link->session;
    PCCL_ASSERT(!link->closed);
    link->closed = true;
    if (link->newer)
        link->newer->older = link->older;
    else
        session->newest = link->older;
    if (link->older)
        link->older->newer = link->newer;
    else
        session->oldest = link->newer;
    uv_close((uv_handle_t *)&link->poll, on_handle_closed); /* the loop does not watch the socket from now on */
    pccl_alarm_close(&link->silence, on_handle_closed);
    pccl_socket_close(link->socket);
}

/* ---- waiting ---- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pccl_sync_link *link = poll->data;
    if (status < 0) { /* the watcher saw an error of the socket and has stopped: reading or writing tells which */
        events = UV_READABLE | UV_WRITABLE;
        link->armed = 0;
    }
    if (events & UV_WRITABLE)
        link->blocked = false;
    link->dry = !(events & ~UV_WRITABLE);
    link->role->visit(link);
}

void pccl_sync_link_watch(struct pccl_sync_link *link, bool input, bool output, bool owes)
{
    int wanted = (input ? UV_READABLE : 0) | (output ? UV_WRITABLE : 0);
    if (link->closed)
        return;
    if (wanted != link->armed && wanted)
        (void)uv_poll_start(&link->poll, wanted, on_poll); /* fails only for handles that are closing */
    else if (wanted != link->armed)
        (void)uv_poll_stop(&link->poll);
    link->armed = wanted;
    if (owes && !link->owes)
        link->moved_us = pccl_now_us();
    link->owes = owes;
    if (owes && !pccl_alarm_is_set(&link->silence))
        pccl_alarm_set(&link->silence, pccl_now_us() + silence_limit_us(link));
}

/* ---- in ---- */

static enum pccl_sync_io starve(struct pccl_sync_link *link)
{
    pccl_text_format(&link->words, "%s", pccl_status_text(PCCL_MEMORY));
    return PCCL_SYNC_ENDED;
}

static enum pccl_sync_io fail(struct pccl_sync_link *link, ptrdiff_t error)
{
    pccl_text_format(&link->words, "%s", error == UV_EOF ? "closed by the other side" : uv_strerror((int)error));
    return PCCL_SYNC_ENDED;
}

enum pccl_sync_io pccl_sync_link_take(struct pccl_sync_link *link, const uint8_t *bytes, size_t length)
{
    for (size_t taken = 0; taken < length;) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(&link->reader, &room);
        if (!space)
            return starve(link);
        size_t some = (size_t)pccl_min_u64(room, length - taken);
        memcpy(space, bytes + taken, some);
        pccl_frame_reader_filled(&link->reader, some);
        taken += some;
    }
    return PCCL_SYNC_MOVED;
}

void pccl_sync_link_move(struct pccl_sync_link *link)
{
    struct pccl_frame_reader *reader = &link->reader;
    uint32_t bytes = (uint32_t)pccl_min_u64(reader->end - reader->start, link->expected - link->received);
    if (bytes && link->target)
        memcpy(link->target + link->received, reader->buffer + reader->start, bytes);
    reader->start += bytes;
    link->received += bytes;
}

/* Where the next bytes go: the rest of a chunk, and behind it the reader, so that the next frame comes along. */
struct rooms {
    uint8_t *chunk, *rest;
    size_t chunk_room, rest_room;
};

/* false: out of memory. */
static bool aim(struct pccl_sync_link *link, struct rooms *rooms)
{
    size_t left = link->expected - link->received;
    *rooms = (struct rooms){0};
    if (left) {
        rooms->chunk = link->target ? link->target + link->received : link->session->sink;
        rooms->chunk_room = link->target ? left : (size_t)pccl_min_u64(left, PCCL_SYNC_SINK_BYTES);
        if (rooms->chunk_room < left)
            return true;
    }
    rooms->rest = pccl_frame_reader_space(&link->reader, &rooms->rest_room);
    return rooms->rest != NULL;
}

enum pccl_sync_io pccl_sync_link_read(struct pccl_sync_link *link, size_t *budget)
{
    struct rooms rooms;
    if (!aim(link, &rooms))
        return starve(link);
    ptrdiff_t got = pccl_socket_read_two(link->socket, rooms.chunk, rooms.chunk_room, rooms.rest, rooms.rest_room);
    if (got == UV_EAGAIN) {
        link->dry = true;
        return PCCL_SYNC_WAITS;
    }
    if (got < 0)
        return fail(link, got);
    size_t bytes = (size_t)got, to_chunk = (size_t)pccl_min_u64(bytes, rooms.chunk_room);
    if (bytes > to_chunk)
        pccl_frame_reader_filled(&link->reader, bytes - to_chunk);
    link->received += (uint32_t)to_chunk;
    link->moved_us = pccl_now_us();
    link->dry = bytes < rooms.chunk_room + rooms.rest_room;
    *budget -= (size_t)pccl_min_u64(*budget, bytes);
    return PCCL_SYNC_MOVED;
}

enum pccl_sync_io pccl_sync_link_next(struct pccl_sync_link *link, struct pccl_msg *msg)
{
    struct pccl_frame frame;
    int got = pccl_frame_reader_next(&link->reader, &frame, &link->words);
    if (got == 0)
        return PCCL_SYNC_WAITS;
    if (got > 0 &&
        pccl_wire_decode(frame.type, frame.body, frame.length, link->session->scratch, msg, &link->words) == PCCL_OK)
        return PCCL_SYNC_MOVED;
    return PCCL_SYNC_ENDED;
}

/* ---- out ---- */

bool pccl_sync_link_put(struct pccl_sync_link *link, const struct pccl_msg *msg)
{
    uint32_t size = (uint32_t)pccl_frame_size(msg), waiting = link->head_end - link->head_start;
    PCCL_ASSERT(!link->payload_left); /* it would come before */
    if (link->head_start && link->head_capacity - link->head_end < size) {
        memmove(link->head, link->head + link->head_start, waiting);
        link->head_start = 0;
        link->head_end = waiting;
    }
    uint8_t *head = pccl_grow(pccl_heap(), link->head, &link->head_capacity, link->head_end + size, 1);
    if (!head) {
        (void)starve(link);
        return false;
    }
    link->head = head;
    pccl_frame_encode(msg, 0, 0, head + link->head_end);
    link->head_end += size;
    return true;
}

static void forget_head(struct pccl_sync_link *link)
{
    link->head_start = link->head_end = 0;
    if (link->head_capacity <= HEAD_BYTES_KEPT)
        return;
    pccl_release(pccl_heap(), link->head, link->head_capacity);
    link->head = NULL;
    link->head_capacity = 0;
}

enum pccl_sync_io pccl_sync_link_push(struct pccl_sync_link *link)
{
    while (link->head_start < link->head_end || link->payload_left) {
        size_t head = link->head_end - link->head_start;
        ptrdiff_t moved = pccl_socket_write_two(link->socket, head ? link->head + link->head_start : NULL, head,
                                                link->payload, link->payload_left);
        if (moved == UV_EAGAIN || moved == UV_ENOBUFS) {
            link->blocked = true;
            return PCCL_SYNC_WAITS;
        }
        if (moved < 0)
            return fail(link, moved);
        size_t of_head = (size_t)pccl_min_u64((size_t)moved, head), of_payload = (size_t)moved - of_head;
        link->head_start += (uint32_t)of_head;
        if (of_payload)
            link->payload += of_payload;
        link->payload_left -= (uint32_t)of_payload;
        link->moved_us = pccl_now_us();
    }
    forget_head(link);
    return PCCL_SYNC_MOVED;
}
