/*
 * One connection: what is read passes through the session's sink, where messages are picked out and filler is counted.
 * A flood is the one message that is not taken as a whole: nobody looks at the filler, so neither is it kept nor its
 * checksum looked at, and it counts as it comes, which on a slow way is long before the frame is complete.
 */
#include "measure/internal.h"

#include "core/bytes.h"
#include "net/heap.h"
#include "net/socket.h"

#include <string.h>

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- life ---- */

void pccl_measure_link_free(struct pccl_measure_link *link)
{
    pccl_frame_reader_fini(&link->reader);
    pccl_release(pccl_heap(), link, link->bytes);
}

static void on_handle_closed(uv_handle_t *handle) { pccl_measure_link_free(handle->data); }

void *pccl_measure_link_allocate(struct pccl_measure_session *session, const struct pccl_measure_role *role,
                                 size_t bytes, const struct pccl_id *peer, uv_os_sock_t socket)
{
    struct pccl_measure_link *link = pccl_allocate(pccl_heap(), bytes);
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

static void watch(struct pccl_measure_link *link)
{
    int wanted = UV_READABLE | (link->wants_room && !link->error ? UV_WRITABLE : 0);
    if (link->closed || wanted == link->armed)
        return;
    link->armed = wanted;
    (void)uv_poll_start(&link->poll, wanted, on_poll); /* fails only for handles that are closing */
}

bool pccl_measure_link_open(struct pccl_measure_link *link)
{
    struct pccl_measure_session *session = link->session;
    if (uv_poll_init_socket(&session->loop, &link->poll, link->socket) != 0) {
        pccl_socket_close(link->socket);
        pccl_measure_link_free(link);
        return false;
    }
    link->poll.data = link;
    link->older = session->newest;
    if (session->newest)
        session->newest->newer = link;
    else
        session->oldest = link;
    session->newest = link;
    watch(link);
    return true;
}

void pccl_measure_link_close(struct pccl_measure_link *link)
{
    struct pccl_measure_session *session = link->session;
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
    if (link->role->loads)
        pccl_socket_abort(link->socket);
    else
        pccl_socket_close(link->socket);
}

static void end(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *words)
{
    pccl_measure_link_close(link);
    link->role->ended(link, how, words);
}

static void end_with_error(struct pccl_measure_link *link, int error)
{
    struct pccl_text words;
    enum pccl_link_end how = PCCL_LINK_CLOSED;
    if (error == UV_ETIMEDOUT || error == UV_EHOSTUNREACH || error == UV_ENETUNREACH || error == UV_ENETDOWN)
        how = PCCL_LINK_SILENT;
    pccl_text_format(&words, "%s", error == UV_EOF ? "closed by the other side" : uv_strerror(error));
    end(link, how, &words);
}

/* ---- in ---- */

static uint32_t collected(const struct pccl_frame_reader *reader) { return reader->end - reader->start; }

static const uint8_t *header(const struct pccl_frame_reader *reader) { return reader->buffer + reader->start; }

/* What lies in the reader is the head of a flood that this role takes. */
static bool is_filling(const struct pccl_measure_link *link)
{
    return link->role->takes_filler && collected(&link->reader) >= PCCL_FRAME_HEADER_BYTES &&
           pccl_get(header(&link->reader) + 4, 2) == PCCL_MSG_flood;
}

/* Bytes until something can be said of what the reader collects. */
static size_t wanted(const struct pccl_measure_link *link)
{
    const struct pccl_frame_reader *reader = &link->reader;
    uint32_t have = collected(reader);
    if (have < PCCL_FRAME_HEADER_BYTES)
        return PCCL_FRAME_HEADER_BYTES - have;
    if (is_filling(link))
        return PCCL_MEASURE_FLOOD_HEAD - have;
    return (size_t)PCCL_FRAME_HEADER_BYTES + pccl_get(header(reader), 4) - have;
}

/* false, with words: it is none. */
static bool begin_filler(struct pccl_measure_link *link, struct pccl_text *words)
{
    struct pccl_frame_reader *reader = &link->reader;
    uint64_t body = pccl_get(header(reader), 4), filler = pccl_get(header(reader) + PCCL_FRAME_HEADER_BYTES, 4);
    if (filler > PCCL_FLOOD_BYTES_MAX || body != filler + 4 || pccl_get(header(reader) + 6, 2) != 0 ||
        pccl_get(header(reader) + 28, 4) != 0) {
        pccl_text_format(words, "a flood of %" PRIu64 " bytes in a frame of %" PRIu64, filler, body);
        return false;
    }
    reader->start += PCCL_MEASURE_FLOOD_HEAD;
    link->filler_left = (uint32_t)filler;
    return true;
}

/* Looks at what the reader has collected. false, with words: garbage. */
static bool digest(struct pccl_measure_link *link, struct pccl_text *words)
{
    struct pccl_frame frame;
    struct pccl_msg msg;
    if (is_filling(link))
        return collected(&link->reader) < PCCL_MEASURE_FLOOD_HEAD || begin_filler(link, words);
    int got = pccl_frame_reader_next(&link->reader, &frame, words);
    if (got <= 0)
        return got == 0;
    return pccl_wire_decode(frame.type, frame.body, frame.length, link->session->scratch, &msg, words) == PCCL_OK &&
           link->role->message(link, &msg, words);
}

static size_t skip_filler(struct pccl_measure_link *link, size_t length)
{
    uint32_t some = (uint32_t)pccl_min_u64(link->filler_left, length);
    link->filler_left -= some;
    link->filler += some;
    return some;
}

/* false, with words: the connection is of no use any more. */
static bool take(struct pccl_measure_link *link, const uint8_t *bytes, size_t length, struct pccl_text *words)
{
    while (length > 0) {
        size_t some = skip_filler(link, length), room;
        if (some == 0) {
            uint8_t *space = pccl_frame_reader_space(&link->reader, &room);
            if (!space) {
                pccl_text_format(words, "%s", pccl_status_text(PCCL_MEMORY));
                return false;
            }
            some = (size_t)pccl_min_u64(pccl_min_u64(room, length), wanted(link));
            memcpy(space, bytes, some);
            pccl_frame_reader_filled(&link->reader, some);
            if (!digest(link, words))
                return false;
        }
        bytes += some;
        length -= some;
    }
    return true;
}

/* false: it has ended. */
static bool listen_to(struct pccl_measure_link *link)
{
    struct pccl_measure_session *session = link->session;
    struct pccl_text words;
    for (size_t budget = PCCL_MEASURE_VISIT_BYTES; budget > 0;) {
        ptrdiff_t got = pccl_socket_read(link->socket, session->sink, PCCL_MEASURE_SINK_BYTES);
        if (got == UV_EAGAIN)
            return true;
        if (got < 0) {
            end_with_error(link, link->error ? link->error : (int)got);
            return false;
        }
        if (!take(link, session->sink, (size_t)got, &words)) {
            end(link, 0, &words);
            return false;
        }
        if (got < PCCL_MEASURE_SINK_BYTES)
            return true;
        budget -= (size_t)pccl_min_u64(budget, (size_t)got);
    }
    return true;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pccl_measure_link *link = poll->data;
    struct pccl_measure_session *session = link->session;
    const struct pccl_measure_role *role = link->role;
    if (status < 0) { /* the watcher saw an error of the socket and has stopped: reading tells which */
        events = UV_READABLE;
        link->armed = 0;
    }
    if (!(events & ~UV_WRITABLE) || listen_to(link))
        pccl_measure_link_start(link);
    if (role->visited)
        role->visited(session);
}

/* ---- out ---- */

void pccl_measure_link_start(struct pccl_measure_link *link)
{
    link->wants_room = false;
    if (!link->error)
        link->role->speak(link);
    watch(link);
}

bool pccl_measure_link_put(struct pccl_measure_link *link, const struct pccl_msg *msg)
{
    size_t size = pccl_frame_size(msg);
    if (link->out_start > 0) {
        memmove(link->out, link->out + link->out_start, link->out_end - link->out_start);
        link->out_end -= link->out_start;
        link->out_start = 0;
    }
    if (size > sizeof link->out - link->out_end)
        return false;
    pccl_frame_encode(msg, 0, 0, link->out + link->out_end);
    link->out_end += (uint32_t)size;
    return true;
}

size_t pccl_measure_link_wrote(struct pccl_measure_link *link, ptrdiff_t moved)
{
    if (moved >= 0)
        return (size_t)moved;
    if (moved != UV_EAGAIN && moved != UV_ENOBUFS) /* what came before is still to be read */
        link->error = (int)moved;
    return 0;
}

bool pccl_measure_link_push(struct pccl_measure_link *link)
{
    size_t left = link->out_end - link->out_start;
    if (left == 0)
        return true;
    size_t moved = pccl_measure_link_wrote(link, pccl_socket_write(link->socket, link->out + link->out_start, left));
    link->out_start += (uint32_t)moved;
    link->wants_room = moved < left;
    return moved == left;
}
