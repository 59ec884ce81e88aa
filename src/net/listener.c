#include "net/listener.h"

enum {
    ACCEPTS_PER_VISIT = 64,
    SYSTEM_PORT_ATTEMPTS = 16, /* the port chosen for one address may be taken on another */
    PAUSE_MS = 50,             /* after the system ran out of descriptors or memory */
};

struct pccl_listener_socket {
    uv_poll_t poll;
    uv_os_sock_t socket;
    struct pccl_listener *listener; /* NULL once closed */
    struct pccl_listener_socket *next;
    const struct pccl_memory *memory;
};

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_socket_closed(uv_handle_t *handle)
{
    struct pccl_listener_socket *closed = handle->data;
    pccl_release(closed->memory, closed, sizeof *closed);
}

static void on_pause_closed(uv_handle_t *handle)
{
    const struct pccl_memory *memory = handle->data;
    pccl_release(memory, handle, sizeof(uv_timer_t));
}

/* ---- binding ---- */

static void close_all(uv_os_sock_t *sockets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (sockets[i] != PCCL_NO_SOCKET)
            pccl_socket_close(sockets[i]);
}

static bool family_missing(int error)
{
    return error == UV_EAFNOSUPPORT || error == UV_EADDRNOTAVAIL || error == UV_EPROTONOSUPPORT;
}

/* One attempt at one port (0: the system's choice, which must then be free on all addresses). */
static int bind_all(const struct pccl_address *addresses, uint32_t count, uint16_t *port, uv_os_sock_t *sockets,
                    struct pccl_address *failed)
{
    uint32_t bound = 0;
    int error = 0;
    for (uint32_t i = 0; i < count; i++)
        sockets[i] = PCCL_NO_SOCKET;
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_address address = addresses[i];
        address.port = *port;
        *failed = address;
        error = pccl_socket_listen(&address, &sockets[i]);
        if (error) {
            sockets[i] = PCCL_NO_SOCKET;
            if (family_missing(error) && (i + 1 < count || bound > 0))
                continue;
            break;
        }
        bound++;
        struct pccl_address local;
        if (*port == 0 && pccl_socket_local(sockets[i], &local))
            *port = local.port;
    }
    if (bound > 0 && (error == 0 || family_missing(error)))
        return 0;
    close_all(sockets, count);
    return error;
}

/* false: out of memory or descriptors; the socket is still the caller's. */
static bool watch(struct pccl_listener *listener, uv_os_sock_t socket)
{
    struct pccl_listener_socket *watched = pccl_allocate(listener->memory, sizeof *watched);
    if (!watched)
        return false;
    if (uv_poll_init_socket(listener->loop, &watched->poll, socket) != 0) {
        pccl_release(listener->memory, watched, sizeof *watched);
        return false;
    }
    watched->poll.data = watched;
    watched->socket = socket;
    watched->listener = listener;
    watched->memory = listener->memory;
    watched->next = listener->sockets;
    listener->sockets = watched;
    (void)uv_poll_start(&watched->poll, UV_READABLE, on_readable);
    return true;
}

static int out_of_memory(struct pccl_text *words)
{
    pccl_text_format(words, "out of memory for a listening socket");
    return UV_ENOMEM;
}

int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses, uint32_t count,
                       uint16_t port, uint32_t port_range, struct pccl_text *words)
{
    uv_os_sock_t sockets[PCCL_LISTEN_ADDRESSES_MAX];
    struct pccl_address failed = addresses[0];
    PCCL_ASSERT(count > 0 && count <= PCCL_LISTEN_ADDRESSES_MAX);
    int error = UV_EADDRINUSE;
    uint16_t chosen = port;
    uint32_t attempts = port == 0 ? SYSTEM_PORT_ATTEMPTS : port_range;
    for (uint32_t i = 0; i < attempts && port + i <= UINT16_MAX && error == UV_EADDRINUSE; i++) {
        chosen = port == 0 ? 0 : (uint16_t)(port + i);
        error = bind_all(addresses, count, &chosen, sockets, &failed);
    }
    if (error) {
        struct pccl_text address;
        pccl_address_text(&failed, &address);
        pccl_text_format(words, "cannot listen on %t: %s", &address, uv_strerror(error));
        if (error == UV_EADDRINUSE && port_range > 1)
            pccl_text_append(words, " (%u ports from %u were tried)", (uint64_t)port_range, (uint64_t)port);
        return error;
    }
    listener->port = chosen;
    listener->pause = pccl_allocate(listener->memory, sizeof *listener->pause);
    if (!listener->pause) {
        close_all(sockets, count);
        return out_of_memory(words);
    }
    (void)uv_timer_init(listener->loop, listener->pause);
    listener->pause->data = listener;
    for (uint32_t i = 0; i < count; i++) {
        if (sockets[i] == PCCL_NO_SOCKET || watch(listener, sockets[i]))
            continue;
        close_all(sockets + i, count - i);
        pccl_listener_close(listener);
        return out_of_memory(words);
    }
    return 0;
}

void pccl_listener_close(struct pccl_listener *listener)
{
    while (listener->sockets) {
        struct pccl_listener_socket *closed = listener->sockets;
        listener->sockets = closed->next;
        closed->listener = NULL;
        uv_close((uv_handle_t *)&closed->poll, on_socket_closed);
        pccl_socket_close(closed->socket);
    }
    if (listener->pause) {
        listener->pause->data = (void *)(uintptr_t)listener->memory;
        uv_close((uv_handle_t *)listener->pause, on_pause_closed);
        listener->pause = NULL;
    }
    while (listener->strangers.oldest) {
        struct pccl_connection *stranger = listener->strangers.oldest;
        pccl_connection_list_remove(stranger);
        pccl_connection_close(stranger, 0);
    }
}

/* ---- accepting ---- */

static void on_pause_over(uv_timer_t *timer)
{
    struct pccl_listener *listener = timer->data;
    for (struct pccl_listener_socket *i = listener->sockets; i; i = i->next)
        (void)uv_poll_start(&i->poll, UV_READABLE, on_readable);
}

static void pause_accepting(struct pccl_listener *listener)
{
    for (struct pccl_listener_socket *i = listener->sockets; i; i = i->next)
        (void)uv_poll_stop(&i->poll);
    uv_update_time(listener->loop);
    (void)uv_timer_start(listener->pause, on_pause_over, PAUSE_MS, 0);
}

static void drop_oldest(struct pccl_listener *listener)
{
    struct pccl_connection *oldest = listener->strangers.oldest;
    pccl_connection_drop(oldest);
    /* The owner closes it by that; a closing one that lingers has gone already. */
    if (listener->strangers.oldest == oldest)
        pccl_connection_list_remove(oldest);
}

static void welcome(struct pccl_listener *listener, uv_os_sock_t socket, const struct pccl_address *from)
{
    if (listener->strangers.count >= listener->strangers_max)
        drop_oldest(listener);
    struct pccl_connection *connection =
        pccl_connection_create(listener->loop, listener->memory, socket, false, listener->events, listener->owner);
    if (!connection)
        return; /* the other side sees a closed connection */
    connection->address = *from;
    pccl_connection_list_add(&listener->strangers, connection);
    pccl_connection_limit(connection, listener->hello_ms);
    listener->accepted(listener->owner, connection);
}

static void accept_waiting(struct pccl_listener_socket *listening)
{
    for (int i = 0; i < ACCEPTS_PER_VISIT && listening->listener; i++) {
        struct pccl_listener *listener = listening->listener;
        struct pccl_address from;
        uv_os_sock_t accepted;
        int error = pccl_socket_accept(listening->socket, &accepted, &from);
        switch (error) {
        case 0: welcome(listener, accepted, &from); break;
        case UV_EAGAIN: return;
        case UV_EMFILE:
        case UV_ENFILE:
        case UV_ENOBUFS:
        case UV_ENOMEM:
            if (listener->strangers.oldest) {
                drop_oldest(listener);
                break;
            }
            pause_accepting(listener);
            return;
        default: /* that connection broke before it was taken */ break;
        }
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pccl_listener_socket *listening = poll->data;
    (void)status;
    (void)events;
    if (!listening->listener)
        return;
    const struct pccl_connection_events *hooks = listening->listener->events;
    void *owner = listening->listener->owner;
    if (hooks->enter)
        hooks->enter(owner);
    accept_waiting(listening);
    if (hooks->leave)
        hooks->leave(owner);
}

void pccl_listener_adopt(struct pccl_connection *connection)
{
    pccl_connection_list_remove(connection);
    pccl_connection_limit(connection, 0);
}
