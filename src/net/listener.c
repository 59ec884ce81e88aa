#include "net/listener.h"

#include "core/crowd.h"
#include "net/clock.h"

#include <string.h>

enum {
    ACCEPTS_PER_VISIT = 64,
    /* number of attempts, because a port that the system chooses for one address may be in use on another */
    SYSTEM_PORT_ATTEMPTS = 16,
    PAUSE_MS = 50,        /* pause after a shortage of descriptors or memory */
    HANDSHAKE_MS = 1000,  /* time for which a stranger cannot be displaced by another one */
    SPARE_HELLO_MS = 200, /* time for the hello of strangers that use the last descriptors */
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

/* ---- the spare descriptor ---- */

/*
 * Opens the spare descriptor if it is wanted and missing. Returns true if there is one now. A stranger that was
 * accepted with the old spare no longer counts as using it.
 */
static bool take_spare(struct pccl_listener *listener)
{
    if (listener->has_spare || !listener->wants_spare)
        return listener->has_spare;
    uv_fs_t request;
    uv_file opened = uv_fs_open(NULL, &request, "/dev/null", UV_FS_O_RDONLY, 0, NULL);
    uv_fs_req_cleanup(&request);
    if (opened < 0)
        return false;
    listener->spare = opened;
    listener->has_spare = true;
    struct pccl_connection *stranger = pccl_connection_oldest(&listener->on_spare);
    if (stranger) {
        pccl_connection_list_remove(stranger);
        pccl_connection_list_add(&listener->strangers, stranger);
        if (stranger->state == PCCL_CONNECTION_OPEN)
            pccl_connection_limit(stranger, listener->hello_ms);
    }
    return true;
}

/*
 * Like take_spare. If there is no spare, first ends an arrival that has been early for at least this time and may use
 * its descriptor.
 */
static bool take_spare_of_early(struct pccl_listener *listener, uint32_t age_ms)
{
    return take_spare(listener) ||
           (listener->queue && pccl_arrivals_end_early(listener->queue, age_ms) && take_spare(listener));
}

static void give_spare(struct pccl_listener *listener)
{
    if (!listener->has_spare)
        return;
    uv_fs_t request;
    (void)uv_fs_close(NULL, &request, listener->spare, NULL);
    uv_fs_req_cleanup(&request);
    listener->has_spare = false;
}

/* ---- binding ---- */

static void close_all(uv_os_sock_t *sockets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (sockets[i] != PCCL_NO_SOCKET)
            pccl_socket_close(sockets[i]);
}

/* Binds all addresses to the same port. 0: to a port that the system chooses and that is free on all addresses. */
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
            if (pccl_socket_lacks_family(error) && (i + 1 < count || bound > 0))
                continue;
            break;
        }
        bound++;
        struct pccl_address local;
        if (*port == 0 && pccl_socket_local(sockets[i], &local))
            *port = local.port;
    }
    if (bound > 0 && (error == 0 || pccl_socket_lacks_family(error)))
        return 0;
    close_all(sockets, count);
    return error;
}

/* Watches a listening socket. Returns false if out of memory or descriptors; the caller then keeps the socket. */
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

/* ---- connections waiting for their handshake ---- */

static void on_ready(void *owner);

static void on_dropped(void *owner, const struct pccl_address *from, enum pccl_arrival_end why)
{
    const struct pccl_listener *listener = owner;
    if (listener->dropped)
        listener->dropped(listener->owner, from, why);
}

/* Returns false if out of memory. */
static bool make_queue(struct pccl_listener *listener)
{
    if (!listener->keys)
        return true;
    struct pccl_arrivals_config config = {.loop = listener->loop,
                                          .memory = listener->memory,
                                          .hash = listener->hash,
                                          .keys = listener->keys,
                                          .role = listener->role,
                                          .max = listener->queue_max,
                                          .sharers = listener->sharers,
                                          .limit_ms = listener->greeting_ms,
                                          .events = {.enter = listener->events->enter,
                                                     .leave = listener->events->leave,
                                                     .ready = on_ready,
                                                     .dropped = on_dropped},
                                          .owner = listener->owner,
                                          .listener = listener};
    listener->queue = pccl_arrivals_create(&config);
    listener->handshakes = (struct pccl_budget){.per_s = PCCL_HANDSHAKES_PER_S, .burst = PCCL_HANDSHAKES_BURST};
    return listener->queue != NULL;
}

static void close_queue(struct pccl_listener *listener)
{
    if (listener->queue)
        pccl_arrivals_close(listener->queue);
    listener->queue = NULL;
}

static int out_of_memory(struct pccl_text *reason)
{
    pccl_text_format(reason, "out of memory for a listening socket");
    return UV_ENOMEM;
}

int pccl_listener_open(struct pccl_listener *listener, const struct pccl_address *addresses, uint32_t count,
                       uint16_t port, uint32_t port_range, struct pccl_text *reason)
{
    uv_os_sock_t sockets[PCCL_LISTEN_ADDRESSES_MAX];
    struct pccl_address failed = addresses[0];
    PCCL_ASSERT(count > 0 && count <= PCCL_LISTEN_ADDRESSES_MAX);
    pccl_list_init(&listener->strangers.connections);
    pccl_list_init(&listener->on_spare.connections);
    int error = UV_EADDRINUSE;
    uint16_t chosen = port;
    uint32_t attempts = port == 0 ? SYSTEM_PORT_ATTEMPTS : port_range;
    for (uint32_t i = 0; i < attempts && port + i <= UINT16_MAX && error == UV_EADDRINUSE; i++) {
        chosen = port == 0 ? 0 : (uint16_t)(port + i);
        error = bind_all(addresses, count, &chosen, sockets, &failed);
    }
    if (error) {
        pccl_text_format(reason, "cannot listen on %s: %s", pccl_address_str(&failed), uv_strerror(error));
        return error;
    }
    listener->port = chosen;
    if (!make_queue(listener)) {
        close_all(sockets, count);
        return out_of_memory(reason);
    }
    listener->pause = pccl_allocate(listener->memory, sizeof *listener->pause);
    if (!listener->pause) {
        close_all(sockets, count);
        close_queue(listener);
        return out_of_memory(reason);
    }
    (void)uv_timer_init(listener->loop, listener->pause);
    listener->pause->data = listener;
    for (uint32_t i = 0; i < count; i++) {
        if (sockets[i] == PCCL_NO_SOCKET || watch(listener, sockets[i]))
            continue;
        close_all(sockets + i, count - i);
        pccl_listener_close(listener);
        return out_of_memory(reason);
    }
    (void)take_spare(listener); /* without a spare, connections for which there is no descriptor are reset */
    return 0;
}

/* Removes the first socket of the list and closes it. */
static void close_socket(struct pccl_listener *listener, struct pccl_listener_socket **first)
{
    struct pccl_listener_socket *closed = *first;
    if (listener->here == closed) {
        pccl_local_remove(listener->local, &listener->here_id);
        listener->here = NULL;
    }
    *first = closed->next;
    closed->listener = NULL;
    uv_close((uv_handle_t *)&closed->poll, on_socket_closed);
    pccl_socket_close(closed->socket);
}

static void close_here(struct pccl_listener *listener)
{
    struct pccl_listener_socket **at = &listener->sockets;
    while (*at && *at != listener->here)
        at = &(*at)->next;
    if (*at)
        close_socket(listener, at);
}

void pccl_listener_open_local(struct pccl_listener *listener, const struct pccl_id *id)
{
    uv_os_sock_t socket;
    if (pccl_id_equal(&listener->here_id, id))
        return;
    close_here(listener);
    listener->here_id = *id;
    if (pccl_local_listen(listener->local, id, &socket) != 0)
        return;
    if (watch(listener, socket)) {
        listener->here = listener->sockets;
    } else {
        pccl_local_remove(listener->local, id);
        pccl_socket_close(socket);
    }
}

static void close_strangers(struct pccl_connection_list *strangers)
{
    struct pccl_connection *stranger;
    while ((stranger = pccl_connection_oldest(strangers))) {
        pccl_connection_list_remove(stranger);
        pccl_connection_close(stranger, 0);
    }
}

void pccl_listener_close(struct pccl_listener *listener)
{
    while (listener->sockets)
        close_socket(listener, &listener->sockets);
    if (listener->pause) {
        listener->pause->data = (void *)(uintptr_t)listener->memory;
        uv_close((uv_handle_t *)listener->pause, on_pause_closed);
        listener->pause = NULL;
        close_strangers(&listener->strangers);
        close_strangers(&listener->on_spare);
    }
    close_queue(listener);
    give_spare(listener);
}

/* ---- accepting ---- */

static void pause_accepting(struct pccl_listener *listener);

static void on_pause_over(uv_timer_t *timer)
{
    struct pccl_listener *listener = timer->data;
    if (!take_spare(listener) && listener->on_spare.count > 0) { /* the stranger on the spare will end soon */
        pause_accepting(listener);
        return;
    }
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

/*
 * Returns the stranger to be displaced: the oldest one of the address with the most strangers. A flood then displaces
 * only its own connections, and not clients of other addresses whose path is long. Returns NULL if there are no
 * strangers.
 */
static struct pccl_connection *most_crowded(const struct pccl_listener *listener)
{
    struct pccl_crowd crowd = {.hash = listener->hash};
    struct pccl_connection *found = pccl_connection_oldest(&listener->strangers);
    for (const struct pccl_connection *i = found; i; i = pccl_connection_newer(i))
        pccl_crowd_add(&crowd, &i->address);
    for (struct pccl_connection *i = found; i; i = pccl_connection_newer(i))
        if (pccl_crowd_count(&crowd, &i->address) > pccl_crowd_count(&crowd, &found->address))
            found = i;
    return found;
}

static void drop(struct pccl_listener *listener, struct pccl_connection *stranger)
{
    PCCL_ASSERT(stranger != NULL);
    pccl_connection_drop(stranger);
    /* The owner has closed the stranger. If it was already closing, it is not in the list. */
    if (stranger->list == &listener->strangers)
        pccl_connection_list_remove(stranger);
}

/* Closes a stranger to free its descriptor. */
static void evict(struct pccl_listener *listener, struct pccl_connection *stranger)
{
    PCCL_ASSERT(stranger != NULL);
    if (listener->crowded_out && stranger->state == PCCL_CONNECTION_OPEN) {
        listener->crowded_out(listener->owner, stranger);
        (void)pccl_connection_flush(stranger);
    }
    drop(listener, stranger);
}

/*
 * Returns true if the stranger has had enough time to identify itself. Without this minimum, strangers would displace
 * each other, and no peer would ever be admitted.
 */
static bool is_due(const struct pccl_listener *listener, const struct pccl_connection *stranger)
{
    return stranger && (stranger->state != PCCL_CONNECTION_OPEN ||
                        uv_now(listener->loop) >= stranger->accepted_ms + SPARE_HELLO_MS);
}

static void report_shortage(const struct pccl_listener *listener, int error)
{
    if (listener->starved)
        listener->starved(listener->owner, error);
}

static void welcome(struct pccl_listener *listener, uv_os_sock_t socket, const struct pccl_address *from, bool on_spare)
{
    if (!on_spare && listener->strangers.count >= listener->strangers_max)
        drop(listener, most_crowded(listener));
    struct pccl_connection *connection =
        pccl_connection_create(listener->loop, listener->memory, socket, false, listener->events, listener->owner);
    if (!connection) { /* the other side sees the connection being closed */
        report_shortage(listener, UV_ENOMEM);
        return;
    }
    if (listener->keys)
        pccl_connection_secure(connection,
                               pccl_secure_create(listener->memory, listener->keys, listener->role, NULL, NULL));
    else if (listener->accepts_pipes && pccl_socket_is_local(socket))
        pccl_channel_accept_pipes(&connection->channel);
    connection->address = *from;
    connection->accepted_ms = uv_now(listener->loop);
    pccl_connection_list_add(on_spare ? &listener->on_spare : &listener->strangers, connection);
    pccl_connection_limit(connection, on_spare ? SPARE_HELLO_MS : listener->hello_ms);
    listener->accepted(listener->owner, connection);
}

/* Accepts the next connection. At the local socket, accepts only processes of this user. */
static int accept_next(const struct pccl_listener_socket *listening, uv_os_sock_t *accepted, struct pccl_address *from)
{
    const struct pccl_listener *listener = listening->listener;
    int error = pccl_socket_accept(listening->socket, accepted, from);
    if (error || listening != listener->here ||
        pccl_local_let_in(*accepted, listener->accepts_pipes && !listener->keys))
        return error;
    pccl_socket_close(*accepted);
    return UV_ECONNABORTED;
}

/*
 * Returns true if another handshake can begin. If all places are taken, the strangers there get some time to finish
 * first; otherwise a crowd of legitimate peers would displace each other.
 */
static bool has_place(const struct pccl_listener *listener)
{
    if (listener->strangers.count < listener->strangers_max)
        return true;
    const struct pccl_connection *crowded = most_crowded(listener);
    PCCL_ASSERT(crowded != NULL);
    return crowded->state != PCCL_CONNECTION_OPEN || uv_now(listener->loop) >= crowded->accepted_ms + HANDSHAKE_MS;
}

/* Begins handshakes. Runs between `enter` and `leave`. The owner may close the listener. */
static void on_ready(void *owner)
{
    struct pccl_listener *listener = owner;
    while (listener->queue && pccl_arrivals_has_ready(listener->queue) && has_place(listener) &&
           pccl_budget_take(&listener->handshakes, pccl_now_us())) {
        struct pccl_address from;
        uv_os_sock_t socket = pccl_arrivals_take(listener->queue, &from);
        bool on_spare =
            listener->wants_spare && listener->on_spare.count == 0 && !take_spare_of_early(listener, SPARE_HELLO_MS);
        welcome(listener, socket, &from, on_spare);
    }
}

/*
 * Accepts a stranger with the spare's descriptor, so that it can be answered. Further strangers wait until it has
 * ended.
 */
static void accept_on_spare(struct pccl_listener_socket *listening)
{
    struct pccl_listener *listener = listening->listener;
    struct pccl_address from;
    uv_os_sock_t accepted;
    give_spare(listener);
    int error = accept_next(listening, &accepted, &from);
    if (error == 0 && listener->queue) /* on_ready will notice that the spare is in use */
        pccl_arrivals_add(listener->queue, accepted, &from);
    else if (error == 0)
        welcome(listener, accepted, &from, true);
    else if (take_spare(listener)) /* usually no further connection is waiting */
        return;
    if (listening->listener)
        pause_accepting(listener);
}

static void accept_waiting(struct pccl_listener_socket *listening)
{
    bool made_room = false;
    for (int i = 0; i < ACCEPTS_PER_VISIT && listening->listener; i++) {
        struct pccl_listener *listener = listening->listener;
        struct pccl_address from;
        uv_os_sock_t accepted;
        int error = accept_next(listening, &accepted, &from);
        switch (error) {
        case 0:
            if (listener->queue)
                pccl_arrivals_add(listener->queue, accepted, &from);
            else
                welcome(listener, accepted, &from, false);
            break;
        case UV_EAGAIN: return;
        case UV_EMFILE:
        case UV_ENFILE:
        case UV_ENOBUFS:
        case UV_ENOMEM:
            if (made_room)
                return; /* if no connection is left, the system returns the same error */
            report_shortage(listener, error);
            made_room = listener->queue && pccl_arrivals_end_early(listener->queue, SPARE_HELLO_MS);
            if (made_room)
                break;
            if (listener->has_spare) {
                accept_on_spare(listening);
                return;
            }
            if (is_due(listener, most_crowded(listener))) {
                evict(listener, most_crowded(listener));
                break;
            }
            pause_accepting(listener);
            return;
        default: /* the connection broke before it was accepted */ break;
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

bool pccl_listener_can_keep(struct pccl_listener *listener, struct pccl_connection *connection)
{
    if (connection->list != &listener->on_spare || take_spare_of_early(listener, 0))
        return true;
    if (listener->strangers.count > 0) /* this stranger has not sent a valid message yet */
        evict(listener, most_crowded(listener));
    return take_spare(listener);
}
