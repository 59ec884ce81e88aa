#include "net/connection.h"

#include "net/knock.h"
#include "os/local.h"

enum {
    READS_PER_VISIT = 16,        /* limit, so that a busy connection cannot delay others */
    DRAIN_BYTES_MAX = 256 << 10, /* limit for bytes discarded while closing */
};

static const struct pccl_channel_events channel_events;

static struct pccl_connection *connection_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_connection, channel);
}

/* ---- lists ---- */

void pccl_connection_list_add(struct pccl_connection_list *list, struct pccl_connection *connection)
{
    PCCL_ASSERT(!connection->list);
    connection->list = list;
    pccl_list_append(&list->connections, &connection->in_list);
    list->count++;
}

void pccl_connection_list_remove(struct pccl_connection *connection)
{
    if (!connection->list)
        return;
    pccl_list_remove(&connection->in_list);
    connection->list->count--;
    connection->list = NULL;
}

/* ---- life ---- */

static void on_released(struct pccl_channel *channel)
{
    pccl_release(channel->memory, connection_of(channel), sizeof(struct pccl_connection));
}

static void watch(struct pccl_connection *connection)
{
    bool reads = connection->state == PCCL_CONNECTION_OPEN ||
                 (connection->state == PCCL_CONNECTION_DIALING && connection->is_local);
    if (connection->state != PCCL_CONNECTION_CLOSED)
        pccl_channel_watch(&connection->channel, reads ? UV_READABLE : 0);
}

struct pccl_connection *pccl_connection_create(uv_loop_t *loop, const struct pccl_memory *memory, uv_os_sock_t socket,
                                               bool dialing, const struct pccl_connection_events *events, void *owner)
{
    struct pccl_connection *connection = pccl_allocate(memory, sizeof *connection);
    if (!connection) {
        pccl_socket_close(socket);
        return NULL;
    }
    connection->events = events;
    connection->owner = owner;
    connection->state = dialing ? PCCL_CONNECTION_DIALING : PCCL_CONNECTION_OPEN;
    pccl_channel_init(&connection->channel, memory, socket, &channel_events);
    connection->channel.out_max = PCCL_CONNECTION_OUT_HELLO;
    connection->channel.drain_max = DRAIN_BYTES_MAX;
    if (!pccl_channel_open(&connection->channel, loop)) {
        pccl_release(memory, connection, sizeof *connection);
        return NULL;
    }
    connection->is_local = pccl_socket_is_local(socket);
    if (dialing && !connection->is_local) /* the socket reports room for output once the connection is established */
        pccl_channel_yield(&connection->channel);
    watch(connection);
    return connection;
}

void pccl_connection_secure(struct pccl_connection *connection, struct pccl_secure *secure)
{
    struct pccl_channel *channel = &connection->channel;
    if (secure) {
        pccl_channel_secure(channel, secure);
    } else { /* ensures that no byte is sent unencrypted */
        pccl_channel_fail(channel, UV_ENOMEM);
        channel->ended = UV_ENOMEM;
    }
}

void pccl_connection_raise(struct pccl_connection *connection)
{
    pccl_frame_reader_raise(&connection->channel.reader, PCCL_FRAME_BODY_MAX);
    connection->channel.out_max = PCCL_CONNECTION_OUT_MAX;
}

static bool has_not_ended(const struct pccl_connection *connection)
{
    return connection->state == PCCL_CONNECTION_OPEN || connection->state == PCCL_CONNECTION_DIALING;
}

/* ---- the end ---- */

static void end(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    if (!has_not_ended(connection))
        return;
    pccl_connection_limit(connection, 0);
    connection->state = PCCL_CONNECTION_ENDED;
    watch(connection);
    connection->events->ended(connection, how, reason);
}

static void end_with(struct pccl_connection *connection, enum pccl_connection_end how, const char *reason)
{
    struct pccl_text text;
    pccl_text_format(&text, "%s", reason);
    end(connection, how, &text);
}

/* Reports why the input ended: end of file, an error of the system, or a failure on this side. */
static void end_of_input(struct pccl_connection *connection)
{
    const struct pccl_channel *channel = &connection->channel;
    enum pccl_connection_end how = PCCL_END_RESET;
    switch (channel->ended) {
    case UV_EOF: how = PCCL_END_CLOSED; break;
    case UV_ENOMEM: how = PCCL_END_MEMORY; break;
    case UV_ENOBUFS: how = PCCL_END_OVERFLOW; break;
    case UV_EPROTO:
        how = PCCL_END_GARBAGE;
        connection->garbage = true;
        break;
    default:
        if (pccl_channel_evidence(channel) == PCCL_LINK_SILENT)
            how = PCCL_END_SILENT;
        break;
    }
    end_with(connection, how, pccl_channel_why(channel));
}

static void on_late(struct pccl_channel *channel)
{
    struct pccl_connection *connection = connection_of(channel);
    const struct pccl_connection_events *events = connection->events;
    void *owner = connection->owner;
    if (events->enter)
        events->enter(owner);
    /* Has no effect if entering has closed the connection. */
    end_with(connection, PCCL_END_TIMEOUT, "no answer in time");
    if (events->leave)
        events->leave(owner);
}

void pccl_connection_limit(struct pccl_connection *connection, uint32_t limit_ms)
{
    if (has_not_ended(connection))
        pccl_channel_limit(&connection->channel, limit_ms);
}

static void on_parted(struct pccl_channel *channel) { pccl_connection_list_remove(connection_of(channel)); }

void pccl_connection_drop(struct pccl_connection *connection)
{
    if (connection->channel.state == PCCL_CHANNEL_LEAVING) {
        pccl_channel_close(&connection->channel);
        pccl_connection_list_remove(connection);
        return;
    }
    end_with(connection, PCCL_END_DROPPED, "dropped to make room for other connections");
}

static bool takes_output(const struct pccl_connection *connection)
{
    return (connection->state == PCCL_CONNECTION_OPEN || connection->garbage) && !connection->channel.failed;
}

void pccl_connection_close(struct pccl_connection *connection, uint32_t linger_ms)
{
    if (connection->state == PCCL_CONNECTION_CLOSED)
        return;
    bool broken = !takes_output(connection);
    connection->garbage = false;
    connection->state = PCCL_CONNECTION_CLOSED;
    pccl_channel_leave(&connection->channel, false, broken ? 0 : linger_ms);
}

/* ---- out ---- */

void pccl_connection_send(struct pccl_connection *connection, const uint8_t *bytes, size_t length)
{
    if (takes_output(connection) && length > 0)
        /* A failure is reported when the connection is read. */
        (void)pccl_channel_put(&connection->channel, bytes, length);
}

void pccl_connection_send_message(struct pccl_connection *connection, const struct pccl_msg *msg)
{
    if (takes_output(connection))
        (void)pccl_channel_put_message(&connection->channel, msg);
}

bool pccl_connection_flush(struct pccl_connection *connection)
{
    return pccl_channel_push(&connection->channel) != PCCL_CHANNEL_WAITS;
}

bool pccl_connection_detach(struct pccl_connection *connection, struct pccl_handover *out)
{
    if (connection->state != PCCL_CONNECTION_OPEN || pccl_channel_push(&connection->channel) != PCCL_CHANNEL_MOVED)
        return false;
    connection->state = PCCL_CONNECTION_CLOSED;
    pccl_connection_list_remove(connection);
    pccl_channel_detach(&connection->channel, out);
    return true;
}

/* ---- in ---- */

/* The owner whose lock is currently held. Saved, because handling a frame may pass the connection to another owner. */
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

/* Sets the reason if the other side has sent a TLS greeting or a knock instead of a frame. */
static void explain_greeting(const struct pccl_connection *connection, struct pccl_text *reason)
{
    const struct pccl_frame_reader *reader = &connection->channel.reader;
    if (!connection->channel.secure &&
        pccl_knock_is_secure(reader->buffer + reader->start, reader->end - reader->start))
        pccl_text_format(reason, "it requests encryption, but there is no token here");
}

static void deliver(struct visit *visit, struct pccl_connection *connection)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    while (connection->state == PCCL_CONNECTION_OPEN) {
        int got = pccl_frame_reader_next(&connection->channel.reader, &frame, &reason);
        if (got == 0)
            return;
        if (got < 0) {
            explain_greeting(connection, &reason);
            connection->garbage = true;
            end(connection, PCCL_END_GARBAGE, &reason);
            return;
        }
        connection->events->received(connection, &frame);
        follow(visit, connection);
    }
}

/*
 * Returns true if an earlier read has left input that the socket will not report, so it must be read in the same visit.
 */
static bool has_hidden_input(const struct pccl_connection *connection)
{
    return connection->channel.secure && pccl_secure_has_input(connection->channel.secure);
}

static void on_readable(struct visit *visit, struct pccl_connection *connection)
{
    size_t budget = SIZE_MAX; /* unlimited, because reads are counted instead */
    for (int i = 0; i < READS_PER_VISIT || has_hidden_input(connection); i++) {
        enum pccl_channel_io io = pccl_channel_read(&connection->channel, &budget);
        if (io == PCCL_CHANNEL_ENDED)
            end_of_input(connection);
        if (io != PCCL_CHANNEL_MOVED)
            return;
        deliver(visit, connection);
        if (connection->state != PCCL_CONNECTION_OPEN || connection->channel.dry)
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
    struct visit visit = {connection->events, connection->owner}; /* the caller already holds this lock */
    deliver(&visit, connection);
    if (connection->state == PCCL_CONNECTION_OPEN)
        on_readable(&visit, connection);
}

bool pccl_connection_take(struct pccl_connection *connection)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    size_t budget = SIZE_MAX;
    if (connection->state != PCCL_CONNECTION_OPEN || connection->unread)
        return !connection->unread;
    int next = 0, reads = 0;
    bool blocked = connection->channel.blocked; /* reading can write when keys are being renewed */
    do {
        enum pccl_channel_io io = pccl_channel_read(&connection->channel, &budget);
        next = io == PCCL_CHANNEL_ENDED ? -1 : 0; /* the loop will notice the end too */
        while (io == PCCL_CHANNEL_MOVED && connection->state == PCCL_CONNECTION_OPEN &&
               (next = pccl_frame_reader_next(&connection->channel.reader, &frame, &reason)) > 0)
            connection->events->received(connection, &frame);
    } while (next == 0 && connection->state == PCCL_CONNECTION_OPEN && !connection->channel.dry &&
             ++reads < READS_PER_VISIT);
    connection->unread = next < 0 || !connection->channel.dry;
    return !connection->unread && (blocked || !connection->channel.blocked);
}

void pccl_connection_polled(struct pccl_connection *connection) { connection->channel.is_settling = false; }

void pccl_connection_hide_input(struct pccl_connection *connection, bool hide)
{
    struct pccl_channel *channel = &connection->channel;
    bool may_hide = channel->is_shared && !channel->is_settling && connection->state == PCCL_CONNECTION_OPEN;
    if (hide == channel->is_hidden || (hide && !may_hide))
        return;
    bool done = pccl_socket_hide_input(uv_backend_fd(channel->poll.loop), channel->socket, hide);
    channel->is_hidden = hide && done;
}

/*
 * libuv 1.45 to 1.48 defers changes of its epoll set to the end of a poll, and no other code may change these entries
 * before that.
 */
bool pccl_connection_share_input(struct pccl_connection *connection, const struct pccl_socket_wait *wait, bool on)
{
    struct pccl_channel *channel = &connection->channel;
    int loop = uv_backend_fd(channel->poll.loop);
    pccl_connection_hide_input(connection, false);
    if (!on) {
        (void)pccl_socket_share_input(wait, channel->socket, channel->is_shared ? loop : -1, false);
        channel->is_shared = false;
    } else if (!channel->is_shared && !channel->is_settling && connection->state == PCCL_CONNECTION_OPEN &&
               channel->armed == UV_READABLE) {
        channel->is_shared = pccl_socket_share_input(wait, channel->socket, loop, true);
    }
    return channel->is_shared;
}

enum pccl_connection_end pccl_connection_dial_end(int error)
{
    switch (error) {
    case UV_ECONNREFUSED:
    case UV_ECONNRESET: return PCCL_END_REFUSED;
    case UV_ETIMEDOUT: return PCCL_END_TIMEOUT;
    default: return PCCL_END_UNREACHABLE;
    }
}

static void on_dialed(struct pccl_connection *connection)
{
    uv_os_sock_t socket = connection->channel.socket;
    int error = connection->is_local ? pccl_local_is_let_in(socket, &connection->takes_descriptor)
                                     : pccl_socket_outcome(socket);
    if (error == UV_EAGAIN)
        return;
    if (error) {
        end_with(connection, pccl_connection_dial_end(error), uv_strerror(error));
        return;
    }
    connection->state = PCCL_CONNECTION_OPEN;
    watch(connection);
    connection->events->connected(connection);
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_connection *connection = connection_of(channel);
    struct visit visit;
    visit_enter(&visit, connection);
    int news = pccl_channel_begin(channel, ready);
    if (connection->state == PCCL_CONNECTION_DIALING) {
        on_dialed(connection);
        follow(&visit, connection);
    } else if (connection->state == PCCL_CONNECTION_OPEN) { /* entering may have closed the connection */
        if (news & UV_WRITABLE)
            (void)pccl_channel_push(channel);
        if (news & ~UV_WRITABLE)
            on_readable(&visit, connection);
    }
    watch(connection);
    visit_leave(&visit);
}

static const struct pccl_channel_events channel_events = {
    .visit = on_visit, .late = on_late, .parted = on_parted, .released = on_released};
