#include "net/connection.h"

#include <string.h>

enum {
    READS_PER_VISIT = 16,        /* so that one busy connection does not hold up the others */
    DRAIN_BYTES_MAX = 256 << 10, /* read and thrown away while closing */
    OUT_BYTES_LEAST = 1024,
    OUT_BYTES_KEPT = 64 << 10, /* an empty output buffer above this is given back */
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- lists ---- */

void pccl_connection_list_add(struct pccl_connection_list *list, struct pccl_connection *connection)
{
    PCCL_ASSERT(!connection->list);
    connection->list = list;
    connection->newer = NULL;
    connection->older = list->newest;
    if (list->newest)
        list->newest->newer = connection;
    else
        list->oldest = connection;
    list->newest = connection;
    list->count++;
}

void pccl_connection_list_remove(struct pccl_connection *connection)
{
    struct pccl_connection_list *list = connection->list;
    if (!list)
        return;
    if (connection->older)
        connection->older->newer = connection->newer;
    else
        list->oldest = connection->newer;
    if (connection->newer)
        connection->newer->older = connection->older;
    else
        list->newest = connection->older;
    list->count--;
    connection->list = NULL;
    connection->older = connection->newer = NULL;
}

/* ---- life ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct pccl_connection *connection = handle->data;
    if (--connection->handles > 0)
        return;
    pccl_frame_reader_fini(&connection->reader);
    pccl_release(connection->memory, connection, sizeof *connection);
}

/* Lets go of everything but the socket; the memory follows when the loop has. */
static void let_go(struct pccl_connection *connection)
{
    connection->state = PCCL_CONNECTION_GONE;
    pccl_connection_list_remove(connection);
    uv_close((uv_handle_t *)&connection->poll, on_handle_closed); /* the loop does not watch the socket from now on */
    uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    pccl_release(connection->memory, connection->out, connection->out_capacity);
    connection->out = NULL;
    connection->out_start = connection->out_end = connection->out_capacity = 0;
}

static void finish(struct pccl_connection *connection)
{
    let_go(connection);
    pccl_socket_close(connection->socket);
}

static bool takes_output(const struct pccl_connection *connection)
{
    return (connection->state == PCCL_CONNECTION_OPEN || connection->garbage) && !connection->mute;
}

static void watch(struct pccl_connection *connection)
{
    int wanted = 0;
    switch (connection->state) {
    case PCCL_CONNECTION_DIALLING: wanted = UV_WRITABLE; break;
    case PCCL_CONNECTION_OPEN:
    case PCCL_CONNECTION_CLOSING: wanted = UV_READABLE | (connection->blocked ? UV_WRITABLE : 0); break;
    case PCCL_CONNECTION_ENDED:
    case PCCL_CONNECTION_GONE: break;
    }
    if (wanted == connection->armed || connection->state == PCCL_CONNECTION_GONE)
        return;
    connection->armed = wanted;
    if (wanted)
        (void)uv_poll_start(&connection->poll, wanted, on_poll); /* fails only for handles that are closing */
    else
        (void)uv_poll_stop(&connection->poll);
}

struct pccl_connection *pccl_connection_create(uv_loop_t *loop, const struct pccl_memory *memory, uv_os_sock_t socket,
                                               bool dialling, const struct pccl_connection_events *events, void *owner)
{
    struct pccl_connection *connection = pccl_allocate(memory, sizeof *connection);
    if (!connection)
        goto no_memory;
    connection->memory = memory;
    connection->events = events;
    connection->owner = owner;
    connection->socket = socket;
    connection->state = dialling ? PCCL_CONNECTION_DIALLING : PCCL_CONNECTION_OPEN;
    connection->out_max = PCCL_CONNECTION_OUT_HELLO;
    if (uv_poll_init_socket(loop, &connection->poll, socket) != 0)
        goto no_handle;
    (void)uv_timer_init(loop, &connection->timer); /* cannot fail */
    connection->handles = 2;
    connection->poll.data = connection;
    connection->timer.data = connection;
    pccl_frame_reader_init(&connection->reader, memory);
    watch(connection);
    return connection;

no_handle:
    pccl_release(memory, connection, sizeof *connection);
no_memory:
    pccl_socket_close(socket);
    return NULL;
}

void pccl_connection_raise(struct pccl_connection *connection)
{
    pccl_frame_reader_raise(&connection->reader, PCCL_FRAME_BODY_MAX);
    connection->out_max = PCCL_CONNECTION_OUT_MAX;
}

/* ---- the end ---- */

static void end(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *words)
{
    if (connection->state == PCCL_CONNECTION_CLOSING) {
        finish(connection);
        return;
    }
    if (connection->state != PCCL_CONNECTION_OPEN && connection->state != PCCL_CONNECTION_DIALLING)
        return;
    connection->state = PCCL_CONNECTION_ENDED;
    (void)uv_timer_stop(&connection->timer);
    watch(connection);
    connection->events->ended(connection, how, words);
}

static void end_in_words(struct pccl_connection *connection, enum pccl_connection_end how, const char *words)
{
    struct pccl_text text;
    pccl_text_format(&text, "%s", words);
    end(connection, how, &text);
}

/* The input side is over: with an error of the system, or because our own side gave the connection up. */
static void end_of_input(struct pccl_connection *connection, int error)
{
    if (connection->short_of_memory) {
        end_in_words(connection, PCCL_END_MEMORY, "out of memory for a connection");
        return;
    }
    if (connection->overflowed) {
        end_in_words(connection, PCCL_END_OVERFLOW, "the other side does not take what is sent to it");
        return;
    }
    switch (error) {
    case UV_EOF: end_in_words(connection, PCCL_END_CLOSED, "closed by the other side"); break;
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
    case UV_ENETDOWN: end_in_words(connection, PCCL_END_SILENT, uv_strerror(error)); break;
    default: end_in_words(connection, PCCL_END_RESET, uv_strerror(error)); break;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_connection *connection = timer->data;
    if (connection->state == PCCL_CONNECTION_CLOSING) {
        finish(connection);
        return;
    }
    const struct pccl_connection_events *events = connection->events;
    void *owner = connection->owner;
    if (events->enter)
        events->enter(owner);
    if (connection->state != PCCL_CONNECTION_CLOSING) /* entering may have closed it */
        end_in_words(connection, PCCL_END_TIMEOUT, "no answer in time");
    if (events->leave)
        events->leave(owner);
}

void pccl_connection_limit(struct pccl_connection *connection, uint32_t limit_ms)
{
    if (connection->state != PCCL_CONNECTION_OPEN && connection->state != PCCL_CONNECTION_DIALLING)
        return;
    uv_update_time(connection->timer.loop);
    if (limit_ms)
        (void)uv_timer_start(&connection->timer, on_timer, limit_ms, 0);
    else
        (void)uv_timer_stop(&connection->timer);
}

void pccl_connection_drop(struct pccl_connection *connection)
{
    end_in_words(connection, PCCL_END_DROPPED, "dropped to make room for other connections");
}

void pccl_connection_close(struct pccl_connection *connection, uint32_t linger_ms)
{
    if (connection->state == PCCL_CONNECTION_CLOSING || connection->state == PCCL_CONNECTION_GONE)
        return;
    bool broken = !takes_output(connection);
    connection->garbage = false;
    connection->state = PCCL_CONNECTION_CLOSING;
    if (broken || linger_ms == 0) {
        (void)pccl_connection_flush(connection);
        finish(connection);
        return;
    }
    if (pccl_connection_flush(connection))
        pccl_socket_shutdown_write(connection->socket);
    watch(connection);
    uv_update_time(connection->timer.loop);
    (void)uv_timer_start(&connection->timer, on_timer, linger_ms, 0);
}

/* ---- out ---- */

/* The connection cannot go on for a reason on our side; the reading side, which sees the end now, says why. */
static void give_up(struct pccl_connection *connection)
{
    connection->mute = true;
    connection->blocked = false;
    connection->out_start = connection->out_end = 0;
    pccl_socket_shutdown(connection->socket);
}

/* Room for `length` more bytes behind what waits. */
static uint8_t *reserve(struct pccl_connection *connection, size_t length)
{
    size_t waiting = connection->out_end - connection->out_start;
    if (length > connection->out_max || waiting > connection->out_max - length) {
        connection->overflowed = true;
        give_up(connection);
        return NULL;
    }
    if (connection->out_start > 0 && connection->out_capacity - connection->out_end < length) {
        memmove(connection->out, connection->out + connection->out_start, waiting);
        connection->out_start = 0;
        connection->out_end = waiting;
    }
    if (connection->out_capacity - connection->out_end < length) {
        size_t capacity = connection->out_capacity ? connection->out_capacity : OUT_BYTES_LEAST;
        while (capacity < waiting + length)
            capacity *= 2;
        uint8_t *grown = connection->memory->resize(connection->memory->context, connection->out,
                                                    connection->out_capacity, capacity);
        if (!grown) {
            connection->short_of_memory = true;
            give_up(connection);
            return NULL;
        }
        connection->out = grown;
        connection->out_capacity = capacity;
    }
    return connection->out + connection->out_end;
}

void pccl_connection_send(struct pccl_connection *connection, const uint8_t *bytes, size_t length)
{
    if (!takes_output(connection) || length == 0)
        return;
    uint8_t *room = reserve(connection, length);
    if (!room)
        return;
    memcpy(room, bytes, length);
    connection->out_end += length;
}

void pccl_connection_send_message(struct pccl_connection *connection, const struct pccl_msg *msg)
{
    if (!takes_output(connection))
        return;
    size_t length = pccl_frame_size(msg);
    uint8_t *room = reserve(connection, length);
    if (!room)
        return;
    pccl_frame_encode(msg, 0, 0, room);
    connection->out_end += length;
}

bool pccl_connection_flush(struct pccl_connection *connection)
{
    if (connection->blocked)
        return false;
    while (connection->out_start < connection->out_end) {
        ptrdiff_t moved = pccl_socket_write(connection->socket, connection->out + connection->out_start,
                                            connection->out_end - connection->out_start);
        if (moved == UV_EAGAIN || moved == UV_ENOBUFS) {
            connection->blocked = true;
            return false;
        }
        if (moved < 0) {
            connection->mute = true;
            break;
        }
        connection->out_start += (size_t)moved;
    }
    connection->out_start = connection->out_end = 0;
    if (connection->out_capacity > OUT_BYTES_KEPT) {
        pccl_release(connection->memory, connection->out, connection->out_capacity);
        connection->out = NULL;
        connection->out_capacity = 0;
    }
    return true;
}

bool pccl_connection_detach(struct pccl_connection *connection, uv_os_sock_t *socket, const uint8_t **rest,
                            size_t *rest_length)
{
    if (connection->state != PCCL_CONNECTION_OPEN || !pccl_connection_flush(connection) || connection->mute)
        return false;
    const struct pccl_frame_reader *reader = &connection->reader;
    *socket = connection->socket;
    *rest_length = reader->end - reader->start;
    *rest = *rest_length ? reader->buffer + reader->start : NULL;
    let_go(connection);
    return true;
}

static void on_writable(struct pccl_connection *connection)
{
    connection->blocked = false;
    if (pccl_connection_flush(connection) && connection->state == PCCL_CONNECTION_CLOSING)
        pccl_socket_shutdown_write(connection->socket);
    watch(connection);
}

/* ---- in ---- */

static void drain(struct pccl_connection *connection)
{
    uint8_t sink[4096];
    for (int i = 0; i < READS_PER_VISIT; i++) {
        ptrdiff_t got = pccl_socket_read(connection->socket, sink, sizeof sink);
        if (got == UV_EAGAIN)
            return;
        if (got > 0)
            connection->drained_bytes += (uint32_t)got;
        if (got < 0 || connection->drained_bytes > DRAIN_BYTES_MAX) {
            finish(connection);
            return;
        }
    }
}

/* Which owner's lock is held now: a frame may hand the connection to another owner. */
struct visit {
    const struct pccl_connection_events *events;
    void *owner;
};

static void visit_enter(struct visit *visit, struct pccl_connection *connection)
{
    visit->events = connection->events;
    visit->owner = connection->owner;
    if (visit->events->enter)
        visit->events->enter(visit->owner);
}

static void visit_leave(struct visit *visit)
{
    if (visit->events->leave)
        visit->events->leave(visit->owner);
}

static void follow(struct visit *visit, struct pccl_connection *connection)
{
    if (visit->events == connection->events && visit->owner == connection->owner)
        return;
    visit_leave(visit);
    visit_enter(visit, connection);
}

static void deliver(struct visit *visit, struct pccl_connection *connection)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    while (connection->state == PCCL_CONNECTION_OPEN) {
        int got = pccl_frame_reader_next(&connection->reader, &frame, &reason);
        if (got == 0)
            return;
        if (got < 0) {
            connection->garbage = true;
            end(connection, PCCL_END_GARBAGE, &reason);
            return;
        }
        connection->events->received(connection, &frame);
        follow(visit, connection);
    }
}

static void on_readable(struct visit *visit, struct pccl_connection *connection)
{
    for (int i = 0; i < READS_PER_VISIT; i++) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(&connection->reader, &room);
        if (!space) {
            connection->short_of_memory = true;
            end_of_input(connection, UV_ENOMEM);
            return;
        }
        ptrdiff_t got = pccl_socket_read(connection->socket, space, room);
        if (got == UV_EAGAIN)
            return;
        if (got < 0) {
            end_of_input(connection, (int)got);
            return;
        }
        pccl_frame_reader_filled(&connection->reader, (size_t)got);
        deliver(visit, connection);
        if (connection->state != PCCL_CONNECTION_OPEN || (size_t)got < room)
            return;
    }
    if (connection->events->more)
        connection->events->more(connection->owner);
}

void pccl_connection_arm(struct pccl_connection *connection)
{
    watch(connection);
    if (!connection->unread || connection->state != PCCL_CONNECTION_OPEN)
        return;
    connection->unread = false;
    struct visit visit = {connection->events, connection->owner}; /* the caller has the lock */
    deliver(&visit, connection);
    if (connection->state == PCCL_CONNECTION_OPEN)
        on_readable(&visit, connection);
}

bool pccl_connection_take(struct pccl_connection *connection)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    size_t room;
    if (connection->state != PCCL_CONNECTION_OPEN || connection->unread)
        return !connection->unread;
    uint8_t *space = pccl_frame_reader_space(&connection->reader, &room);
    ptrdiff_t got = space ? pccl_socket_read(connection->socket, space, room) : UV_ENOMEM;
    if (got == UV_EAGAIN)
        return true;
    if (got < 0) {
        connection->unread = true; /* the loop finds the same */
        return false;
    }
    pccl_frame_reader_filled(&connection->reader, (size_t)got);
    int next = 0;
    while (connection->state == PCCL_CONNECTION_OPEN &&
           (next = pccl_frame_reader_next(&connection->reader, &frame, &reason)) > 0)
        connection->events->received(connection, &frame);
    connection->unread = next < 0;
    return !connection->unread;
}

bool pccl_connection_watch_input(struct pccl_connection *connection, bool on)
{
    if (connection->state != PCCL_CONNECTION_OPEN || connection->armed == 0)
        return false;
    return pccl_socket_watch_input(uv_backend_fd(connection->poll.loop), connection->socket, on, connection->blocked);
}

static void on_dialled(struct pccl_connection *connection)
{
    int error = pccl_socket_outcome(connection->socket);
    if (error == 0) {
        connection->state = PCCL_CONNECTION_OPEN;
        watch(connection);
        connection->events->connected(connection);
    } else if (error == UV_ECONNREFUSED || error == UV_ECONNRESET) {
        end_in_words(connection, PCCL_END_REFUSED, uv_strerror(error));
    } else if (error == UV_ETIMEDOUT) {
        end_in_words(connection, PCCL_END_TIMEOUT, uv_strerror(error));
    } else {
        end_in_words(connection, PCCL_END_UNREACHABLE, uv_strerror(error));
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pccl_connection *connection = poll->data;
    struct visit visit;
    visit_enter(&visit, connection);
    if (status < 0) { /* the watcher saw an error of the socket and has stopped: reading tells which, after what came */
        events = UV_READABLE;
        connection->armed = 0;
    }
    if (connection->state == PCCL_CONNECTION_DIALLING) {
        on_dialled(connection);
        follow(&visit, connection);
    } else {
        if (events & UV_WRITABLE)
            on_writable(connection);
        if (connection->state == PCCL_CONNECTION_CLOSING)
            drain(connection);
        else if (connection->state == PCCL_CONNECTION_OPEN && (events & ~UV_WRITABLE))
            on_readable(&visit, connection);
    }
    watch(connection);
    visit_leave(&visit);
}
