#include "ops/http_server.h"

#include "core/crowd.h"
#include "net/channel.h"
#include "net/clock.h"
#include "os/socket.h"

#include <string.h>

enum {
    ACCEPTS_PER_VISIT = 8,
    GRANT_MS = 20,        /* interval at which waiting handshakes are started */
    PAUSE_MS = 500,       /* pause after a shortage of descriptors or memory, because peers have priority */
    DRAIN_MAX = 64 << 10, /* limit for bytes after the request that are discarded */
};

struct pccl_http_visitor {
    struct pccl_http_server *server;
    struct pccl_http_visitor *older, *newer;
    struct pccl_address address;
    struct pccl_channel channel;
    uint32_t wanted;             /* number of the page that it waits for, or 0 */
    bool asks;                   /* true if its request has been received and the owner has not taken it */
    bool head;                   /* HEAD request: expects no body */
    bool waits;                  /* true if it waits for its turn to begin the handshake */
    bool is_loopback;            /* true if it was accepted on a loopback address */
    struct pccl_http_body *body; /* body being sent */
    const uint8_t *payload;
    uint8_t *room; /* address of `request`, for the channel */
    uint8_t request[PCCL_HTTP_HEAD_MAX];
};

/* ---- bodies ---- */

struct pccl_http_body *pccl_http_body_make(const struct pccl_memory *memory, uint32_t most)
{
    struct pccl_http_body *body = pccl_allocate(memory, sizeof *body);
    if (!body)
        return NULL;
    body->memory = memory;
    body->users = 1;
    pccl_print_init(&body->print, memory, most);
    return body;
}

void pccl_http_body_leave(struct pccl_http_body *body)
{
    if (!body || --body->users > 0)
        return;
    pccl_print_fini(&body->print);
    pccl_release(body->memory, body, sizeof *body);
}

/* ---- visitors ---- */

static struct pccl_http_visitor *visitor_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_http_visitor, channel);
}

/* Removes the client from the list and the count. The loop releases it later. */
static void leave(struct pccl_http_visitor *visitor)
{
    struct pccl_http_server *server = visitor->server;
    if (!server)
        return;
    *(visitor->older ? &visitor->older->newer : &server->oldest) = visitor->newer;
    *(visitor->newer ? &visitor->newer->older : &server->newest) = visitor->older;
    server->visitor_count--;
    visitor->server = NULL;
}

static void on_released(struct pccl_channel *channel)
{
    struct pccl_http_visitor *visitor = visitor_of(channel);
    leave(visitor);
    pccl_http_body_leave(visitor->body);
    pccl_release(channel->memory, visitor, sizeof *visitor);
}

static void on_parted(struct pccl_channel *channel) { leave(visitor_of(channel)); }

static void close_at_once(struct pccl_http_visitor *visitor)
{
    leave(visitor);
    pccl_channel_close(&visitor->channel);
}

static void send_answer(struct pccl_http_visitor *visitor, uint16_t code, const char *type, const char *bytes,
                        size_t length, uint32_t linger_ms)
{
    char head[PCCL_HTTP_ANSWER_MAX];
    struct pccl_channel *channel = &visitor->channel;
    size_t head_length = pccl_http_write_head(code, type, length, head);
    visitor->wanted = 0;
    visitor->asks = false;
    visitor->payload = (const uint8_t *)bytes;
    if (pccl_channel_put(channel, (const uint8_t *)head, head_length) && !visitor->head && length > 0)
        pccl_channel_put_payload(channel, &visitor->payload, (uint32_t)length);
    pccl_channel_leave(channel, false, linger_ms);
}

static void refuse(struct pccl_http_visitor *visitor, uint16_t code, const char *words, uint32_t linger_ms)
{
    struct pccl_http_body *body = pccl_http_body_make(visitor->channel.memory, PCCL_HTTP_ANSWER_MAX);
    visitor->body = body;
    visitor->server->refused++;
    if (body) {
        pccl_print_add(&body->print, words);
        pccl_print_add(&body->print, "\n");
    }
    bool whole = body && !body->print.failed;
    send_answer(visitor, code, "text/plain; charset=utf-8", whole ? body->print.bytes : NULL,
                whole ? body->print.length : 0, linger_ms);
}

void pccl_http_refuse(struct pccl_http_visitor *visitor, uint16_t code, const char *words)
{
    refuse(visitor, code, words, PCCL_HTTP_ANSWER_MS);
}

void pccl_http_answer(struct pccl_http_visitor *visitor, const char *type, struct pccl_http_body *body)
{
    if (!body || body->print.failed) {
        pccl_http_refuse(visitor, 503, "The master is out of memory for this page. Try again later.");
        return;
    }
    body->users++;
    visitor->body = body;
    visitor->server->answered++;
    send_answer(visitor, 200, type, body->print.bytes, body->print.length, PCCL_HTTP_ANSWER_MS);
}

void pccl_http_answer_all(struct pccl_http_server *server, uint32_t wanted, const char *type,
                          struct pccl_http_body *body)
{
    for (struct pccl_http_visitor *visitor = server->oldest, *next; visitor; visitor = next) {
        next = visitor->newer;
        if (visitor->wanted == wanted)
            pccl_http_answer(visitor, type, body);
    }
}

static const char *complaint(uint16_t code)
{
    switch (code) {
    case 405: return "Method not allowed: expected GET or HEAD, or POST for commands.";
    case 414: return "The path is too long: expected at most 255 bytes.";
    case 431: return "The request header is too long: expected at most 8192 bytes.";
    case 505: return "Unsupported version: expected HTTP/1.0 or HTTP/1.1.";
    default: return "Not an HTTP/1.0 or HTTP/1.1 request. Peers connect to a different port of the master.";
    }
}

/* Parses the request, or as much of it as has been received. */
static void judge(struct pccl_http_visitor *visitor)
{
    struct pccl_http_request request;
    uint16_t code;
    switch (pccl_http_read((const char *)visitor->request, visitor->channel.received, &request, &code)) {
    case PCCL_HTTP_MORE: break;
    case PCCL_HTTP_BAD: pccl_http_refuse(visitor, code, complaint(code)); break;
    case PCCL_HTTP_REQUEST:
        visitor->head = request.head;
        visitor->asks = true;
        break;
    }
}

struct pccl_http_visitor *pccl_http_next(struct pccl_http_server *server, struct pccl_http_request *request)
{
    struct pccl_http_visitor *visitor = server->oldest;
    uint16_t code;
    while (visitor && !visitor->asks)
        visitor = visitor->newer;
    if (!visitor)
        return NULL;
    visitor->asks = false;
    enum pccl_http_reading reading =
        pccl_http_read((const char *)visitor->request, visitor->channel.received, request, &code);
    PCCL_ASSERT(reading == PCCL_HTTP_REQUEST);
    return visitor;
}

void pccl_http_let_wait(struct pccl_http_visitor *visitor, uint32_t wanted) { visitor->wanted = wanted; }

static bool has_asked(const struct pccl_http_visitor *visitor) { return visitor->asks || visitor->wanted != 0; }

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_http_visitor *visitor = visitor_of(channel);
    size_t budget = PCCL_HTTP_HEAD_MAX;
    (void)pccl_channel_begin(channel, ready);
    if (has_asked(visitor)) { /* ignores everything after the request */
        pccl_channel_watch(channel, 0);
        return;
    }
    switch (pccl_channel_read(channel, &budget)) {
    case PCCL_CHANNEL_ENDED:
        if (channel->ended == UV_EPROTO)
            pccl_http_refuse(visitor, 400, pccl_channel_why(channel));
        else
            close_at_once(visitor);
        return;
    case PCCL_CHANNEL_MOVED: judge(visitor); break;
    case PCCL_CHANNEL_WAITS: break;
    }
    if (channel->state == PCCL_CHANNEL_OPEN)
        pccl_channel_watch(channel, has_asked(visitor) ? 0 : UV_READABLE);
}

/* Closes the connection, with an answer if the client can understand it. */
static void drop(struct pccl_http_visitor *visitor, uint16_t code, const char *words)
{
    visitor->server->dropped++;
    if (visitor->channel.state == PCCL_CHANNEL_OPEN && !visitor->waits)
        refuse(visitor, code, words, 0);
    else
        close_at_once(visitor);
}

static void on_late(struct pccl_channel *channel)
{
    drop(visitor_of(channel), 408, "No complete request received in time.");
}

/*
 * If `most`, returns the oldest client of the address with the most clients. Otherwise returns the oldest client that
 * waits for its handshake, from the address with the fewest clients. Returns NULL if no client matches.
 */
static struct pccl_http_visitor *find(const struct pccl_http_server *server, bool most)
{
    struct pccl_crowd crowd = {.hash = server->hash};
    struct pccl_http_visitor *found = NULL;
    uint32_t of_found = 0;
    for (const struct pccl_http_visitor *i = server->oldest; i; i = i->newer)
        pccl_crowd_add(&crowd, &i->address);
    for (struct pccl_http_visitor *i = server->oldest; i; i = i->newer) {
        uint32_t here = pccl_crowd_count(&crowd, &i->address);
        if ((!most && !i->waits) || (found && (most ? here <= of_found : here >= of_found)))
            continue;
        found = i;
        of_found = here;
    }
    return found;
}

/* ---- handshakes ---- */

static void shake_hands(struct pccl_http_visitor *visitor)
{
    struct pccl_http_server *server = visitor->server;
    struct pccl_secure *secure = pccl_secure_create(server->memory, server->keys, PCCL_SECURE_PAGES, NULL, NULL);
    visitor->waits = false;
    if (!secure) {
        close_at_once(visitor);
        return;
    }
    pccl_channel_secure(&visitor->channel, secure);
    pccl_channel_watch(&visitor->channel, UV_READABLE);
}

static void on_grant(uv_timer_t *timer)
{
    struct pccl_http_server *server = timer->data;
    struct pccl_http_visitor *next;
    while ((next = find(server, false)) && pccl_budget_take(&server->budget, pccl_now_us()))
        shake_hands(next);
    if (!next)
        (void)uv_timer_stop(timer);
}

static void await_turn(struct pccl_http_visitor *visitor)
{
    visitor->waits = true;
    if (!uv_is_active((uv_handle_t *)&visitor->server->grants))
        (void)uv_timer_start(&visitor->server->grants, on_grant, 0, GRANT_MS);
}

bool pccl_http_is_https(const struct pccl_http_visitor *visitor) { return visitor->channel.secure != NULL; }

bool pccl_http_is_loopback(const struct pccl_http_visitor *visitor) { return visitor->is_loopback; }

/* ---- accepting ---- */

static void welcome(struct pccl_http_server *server, uv_os_sock_t socket, const struct pccl_address *from,
                    bool is_loopback)
{
    static const struct pccl_channel_events events = {
        .visit = on_visit, .late = on_late, .parted = on_parted, .released = on_released};
    struct pccl_http_visitor *crowded = server->visitor_count >= PCCL_HTTP_VISITORS_MAX ? find(server, true) : NULL;
    if (crowded)
        drop(crowded, 503, "Too many connections. Try again later.");
    struct pccl_http_visitor *visitor = pccl_allocate(server->memory, sizeof *visitor);
    if (!visitor) {
        pccl_socket_close(socket);
        return;
    }
    pccl_channel_init(&visitor->channel, server->memory, socket, &events);
    if (!pccl_channel_open(&visitor->channel, server->loop)) {
        pccl_channel_fini(&visitor->channel);
        pccl_release(server->memory, visitor, sizeof *visitor);
        return;
    }
    visitor->server = server;
    visitor->address = *from;
    visitor->is_loopback = is_loopback;
    visitor->older = server->newest;
    *(server->newest ? &server->newest->newer : &server->oldest) = visitor;
    server->newest = visitor;
    server->visitor_count++;
    visitor->room = visitor->request;
    visitor->channel.drain_max = DRAIN_MAX;
    pccl_channel_expect(&visitor->channel, &visitor->room, sizeof visitor->request);
    pccl_channel_limit(&visitor->channel, PCCL_HTTP_REQUEST_MS);
    if (server->keys && !is_loopback)
        await_turn(visitor);
    else
        pccl_channel_watch(&visitor->channel, UV_READABLE);
}

/* ---- listening ---- */

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct pccl_http_server *server = timer->data;
    for (uint32_t i = 0; i < server->socket_count; i++)
        (void)uv_poll_start(&server->polls[i], UV_READABLE, on_readable);
}

static void pause_accepting(struct pccl_http_server *server)
{
    for (uint32_t i = 0; i < server->socket_count; i++)
        (void)uv_poll_stop(&server->polls[i]);
    (void)uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pccl_http_server *server = poll->data;
    uint32_t which = 0;
    (void)status;
    (void)events;
    while (which < server->socket_count && &server->polls[which] != poll)
        which++;
    for (int i = 0; i < ACCEPTS_PER_VISIT && which < server->socket_count; i++) {
        struct pccl_address from;
        uv_os_sock_t accepted;
        int error = pccl_socket_accept(server->listening[which], &accepted, &from);
        if (error == 0)
            welcome(server, accepted, &from, server->is_loopback[which]);
        else if (error == UV_EAGAIN)
            return;
        else if (pccl_socket_is_shortage(error)) {
            pause_accepting(server);
            return;
        }
    }
}

/* Returns 0, or closes the socket and returns an error. */
static int watch(struct pccl_http_server *server, uv_os_sock_t socket, bool is_loopback)
{
    uv_poll_t *poll = &server->polls[server->socket_count];
    int error = uv_poll_init_socket(server->loop, poll, socket);
    if (error) {
        pccl_socket_close(socket);
        return error;
    }
    poll->data = server;
    server->is_loopback[server->socket_count] = is_loopback;
    server->listening[server->socket_count++] = socket;
    (void)uv_poll_start(poll, UV_READABLE, on_readable);
    return 0;
}

int pccl_http_open(struct pccl_http_server *server, const struct pccl_address *addresses, uint32_t count,
                   struct pccl_text *reason)
{
    PCCL_ASSERT(count > 0 && count <= PCCL_HTTP_SOCKETS_MAX);
    (void)uv_timer_init(server->loop, &server->pause);
    (void)uv_timer_init(server->loop, &server->grants);
    server->pause.data = server->grants.data = server;
    server->budget = (struct pccl_budget){.per_s = PCCL_HTTP_HANDSHAKES_PER_S, .burst = PCCL_HTTP_HANDSHAKES_PER_S};
    server->is_open = true;
    for (uint32_t i = 0; i < count; i++) {
        uv_os_sock_t socket;
        int error = pccl_socket_listen(&addresses[i], &socket);
        if (error == 0)
            error = watch(server, socket, pccl_address_is_loopback(&addresses[i]));
        if (error == 0 || (pccl_socket_lacks_family(error) && (i + 1 < count || server->socket_count > 0)))
            continue; /* the host's other address family may work */
        pccl_text_format(reason, "cannot listen on %s for HTTP: %s", pccl_address_str(&addresses[i]),
                         uv_strerror(error));
        pccl_http_close(server);
        return error;
    }
    struct pccl_address local;
    if (pccl_socket_local(server->listening[0], &local))
        server->port = local.port;
    return 0;
}

void pccl_http_close(struct pccl_http_server *server)
{
    if (!server->is_open)
        return;
    server->is_open = false;
    while (server->socket_count > 0) {
        uint32_t last = --server->socket_count;
        uv_close((uv_handle_t *)&server->polls[last], NULL);
        pccl_socket_close(server->listening[last]);
    }
    uv_close((uv_handle_t *)&server->pause, NULL);
    uv_close((uv_handle_t *)&server->grants, NULL);
    while (server->oldest)
        close_at_once(server->oldest);
}
