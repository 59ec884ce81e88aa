#include "net/dialer.h"

#include "net/handshake.h"

#include <string.h>

struct attempt {
    struct pccl_dialer *dialer;
    struct pccl_connection *connection; /* NULL: not begun yet, or ended */
    enum pccl_link_end how;
    bool connected; /* waiting for its turn to send the hello */
};

struct pccl_dialer {
    uv_timer_t timer; /* starts the next attempt, or reports the failure */
    const struct pccl_memory *memory;
    struct pccl_dial dial;
    struct pccl_address addresses[1 + PCCL_DIAL_ADDRESSES_MAX]; /* [0] is the local socket, if that is tried */
    struct attempt attempts[1 + PCCL_DIAL_ADDRESSES_MAX];
    /* the attempt that has sent the hello; one at a time, so that the other side never has two links of ours */
    struct attempt *asking;
    uint32_t begun, over;
    uint32_t starved;        /* number of attempts over TCP that failed because memory or descriptors were short */
    int shortage;            /* the latest error of these attempts */
    struct pccl_text reason; /* reasons of all failures, concatenated */
    bool gone;
    struct pccl_id meant;
    uint8_t kind;             /* kind of the link */
    struct pccl_key_name key; /* with keys: name of the link's key */
    struct pccl_id ticket;
    size_t hello_length; /* 0: no hello */
    uint8_t hello[PCCL_HANDSHAKE_HELLO_MAX];
};

static void on_timer(uv_timer_t *timer);
static void attempt_enter(void *owner);
static void attempt_leave(void *owner);
static void on_connected(struct pccl_connection *connection);
static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame);
static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason);

static const struct pccl_connection_events attempt_events = {.enter = attempt_enter,
                                                             .leave = attempt_leave,
                                                             .connected = on_connected,
                                                             .received = on_received,
                                                             .ended = on_ended};

static void enter(const struct pccl_dialer *dialer)
{
    if (dialer->dial.enter)
        dialer->dial.enter(dialer->dial.owner);
}

static void leave(const struct pccl_dialer *dialer)
{
    if (dialer->dial.leave)
        dialer->dial.leave(dialer->dial.owner);
}

/* Returns true for the attempt at the peer's local socket. */
static bool is_here(const struct attempt *attempt)
{
    return attempt->dialer->dial.local && attempt == attempt->dialer->attempts;
}

/* Takes the dialer's lock. Even if the dialer is canceled during the visit, it is freed only afterwards. */
static void attempt_enter(void *owner) { enter(((struct attempt *)owner)->dialer); }

static void attempt_leave(void *owner) { leave(((struct attempt *)owner)->dialer); }

static void on_closed(uv_handle_t *handle)
{
    struct pccl_dialer *dialer = handle->data;
    pccl_release(dialer->memory, dialer, sizeof *dialer);
}

void pccl_dialer_cancel(struct pccl_dialer *dialer)
{
    if (dialer->gone)
        return;
    dialer->gone = true;
    for (uint32_t i = 0; i < dialer->begun; i++)
        if (dialer->attempts[i].connection)
            pccl_connection_close(dialer->attempts[i].connection, 0);
    uv_close((uv_handle_t *)&dialer->timer, on_closed);
}

static void schedule(struct pccl_dialer *dialer, uint32_t delay_ms)
{
    uv_update_time(dialer->timer.loop);
    (void)uv_timer_start(&dialer->timer, on_timer, delay_ms, 0);
}

static void name_key(struct pccl_dialer *dialer, const struct pccl_msg_link_hello *hello)
{
    dialer->key = (struct pccl_key_name){.from = hello->from,
                                         .to = hello->to,
                                         .probe = hello->kind == PCCL_LINK_PROBE,
                                         .open = dialer->dial.keys && pccl_keys_open_links(dialer->dial.keys)};
    if (hello->authentication.length == sizeof dialer->ticket)
        memcpy(&dialer->ticket, hello->authentication.data, sizeof dialer->ticket);
}

struct pccl_dialer *pccl_dialer_start(uv_loop_t *loop, const struct pccl_memory *memory, const struct pccl_dial *dial)
{
    PCCL_ASSERT(dial->count <= PCCL_DIAL_ADDRESSES_MAX && (dial->hello || !dial->local));
    PCCL_ASSERT(!dial->waits_ms || (dial->count == 0 && !dial->hello));
    struct pccl_dialer *dialer = pccl_allocate(memory, sizeof *dialer);
    if (!dialer)
        return NULL;
    (void)uv_timer_init(loop, &dialer->timer);
    dialer->timer.data = dialer;
    dialer->memory = memory;
    dialer->dial = *dial;
    pccl_text_clear(&dialer->reason);
    uint32_t first = dial->local != NULL;
    dialer->dial.count += first;
    for (uint32_t i = 0; i < dialer->dial.count; i++)
        dialer->attempts[i].dialer = dialer;
    if (dial->count)
        memcpy(dialer->addresses + first, dial->addresses, dial->count * sizeof *dial->addresses);
    dialer->dial.addresses = dialer->addresses;
    if (dial->hello) {
        dialer->meant = dial->hello->to;
        dialer->kind = dial->hello->kind;
        name_key(dialer, dial->hello);
        dialer->hello_length = pccl_handshake_hello(dial->hello, dialer->hello);
        dialer->dial.hello = NULL; /* not valid after this call */
    }
    schedule(dialer, dial->waits_ms);
    return dialer;
}

/* ---- result of failed attempts ---- */

/*
 * Combines all failures into one result. "No process listens there" is evidence of a death, so it is only returned if
 * every reachable address reported it: an address that did not answer could be the right one.
 */
static enum pccl_link_end verdict(const struct pccl_dialer *dialer)
{
    static const enum pccl_link_end order[] = {PCCL_LINK_TIMEOUT, PCCL_LINK_SILENT, PCCL_LINK_CLOSED, PCCL_LINK_OTHER,
                                               PCCL_LINK_REFUSED};
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(order); kind++)
        for (uint32_t i = 0; i < dialer->dial.count; i++)
            if (dialer->attempts[i].how == order[kind])
                return order[kind];
    return dialer->dial.waits_ms ? PCCL_LINK_TIMEOUT : PCCL_LINK_UNREACHABLE;
}

static void report_failure(struct pccl_dialer *dialer)
{
    if (dialer->reason.length == 0)
        pccl_text_format(&dialer->reason, dialer->dial.waits_ms ? "it has not connected" : "no address to connect to");
    uint32_t over_tcp = dialer->dial.count - (dialer->dial.local != NULL);
    bool starved = dialer->starved > 0 && dialer->starved == over_tcp;
    enum pccl_link_end how = starved ? 0 : verdict(dialer);
    struct pccl_text reason = dialer->reason;
    if (starved)
        pccl_socket_explain(dialer->shortage, &reason);
    struct pccl_dial dial = dialer->dial;
    pccl_dialer_cancel(dialer);
    dial.done(dial.context, NULL, how, &reason);
}

static void ask(struct attempt *attempt)
{
    struct pccl_dialer *dialer = attempt->dialer;
    dialer->asking = attempt;
    attempt->connected = false;
    pccl_connection_limit(attempt->connection, dialer->dial.timeout_ms);
    if (attempt->connection->takes_descriptor && dialer->dial.offers_pipe && !dialer->dial.keys)
        pccl_channel_offer_pipe(&attempt->connection->channel, pccl_pipe_offer(dialer->memory));
    pccl_connection_send(attempt->connection, dialer->hello, dialer->hello_length);
    (void)pccl_connection_flush(attempt->connection);
    pccl_connection_arm(attempt->connection);
}

static void ask_next(struct pccl_dialer *dialer)
{
    dialer->asking = NULL;
    for (uint32_t i = 0; i < dialer->begun && !dialer->asking; i++)
        if (dialer->attempts[i].connected)
            ask(&dialer->attempts[i]);
}

static void note_failure(struct attempt *attempt, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_dialer *dialer = attempt->dialer;
    const struct pccl_address *address = &dialer->addresses[attempt - dialer->attempts];
    attempt->how = how;
    dialer->over++;
    pccl_text_append(&dialer->reason, "%s%s: %s", dialer->reason.length ? "; " : "", pccl_address_str(address),
                     reason->bytes);
}

/*
 * Records a failure at the local socket. If the peer does not answer there, it would not answer over TCP either. Any
 * other failure is not evidence, so the addresses are tried as for a peer on another host.
 */
static void note_failure_here(struct attempt *attempt, enum pccl_link_end how)
{
    struct pccl_dialer *dialer = attempt->dialer;
    bool silent = how == PCCL_LINK_TIMEOUT;
    attempt->how = silent ? how : PCCL_LINK_UNREACHABLE;
    dialer->over = silent ? dialer->dial.count : dialer->over + 1;
    if (silent)
        pccl_text_format(&dialer->reason, "it is on this host but does not answer");
}

static void attempt_failed(struct attempt *attempt, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_dialer *dialer = attempt->dialer;
    attempt->connected = false;
    if (attempt->connection) {
        pccl_connection_close(attempt->connection, 0);
        attempt->connection = NULL;
    }
    if (is_here(attempt))
        note_failure_here(attempt, how);
    else
        note_failure(attempt, how, reason);
    if (dialer->asking == attempt && dialer->over < dialer->dial.count)
        ask_next(dialer);
    schedule(dialer, 0); /* continues from the loop, not inside this call */
}

/* ---- attempts ---- */

/* Translation of the end of a connection. */
static const enum pccl_link_end meaning[] = {
    [PCCL_END_CLOSED] = PCCL_LINK_CLOSED,   [PCCL_END_RESET] = PCCL_LINK_CLOSED,
    [PCCL_END_SILENT] = PCCL_LINK_TIMEOUT,  [PCCL_END_REFUSED] = PCCL_LINK_REFUSED,
    [PCCL_END_TIMEOUT] = PCCL_LINK_TIMEOUT, [PCCL_END_UNREACHABLE] = PCCL_LINK_UNREACHABLE,
    [PCCL_END_GARBAGE] = PCCL_LINK_OTHER,   [PCCL_END_OVERFLOW] = PCCL_LINK_CLOSED,
    [PCCL_END_MEMORY] = PCCL_LINK_CLOSED,   [PCCL_END_DROPPED] = PCCL_LINK_CLOSED,
};

static void secure(struct attempt *attempt)
{
    const struct pccl_dialer *dialer = attempt->dialer;
    bool link = dialer->hello_length > 0;
    struct pccl_secure *made =
        pccl_secure_create(dialer->memory, dialer->dial.keys, link ? PCCL_SECURE_DIALED : PCCL_SECURE_PEER,
                           link ? &dialer->key : NULL, link ? &dialer->ticket : NULL);
    if (made && !is_here(attempt)) /* not at a local socket, where the system has checked the owner of the process */
        pccl_secure_knock(made);
    pccl_connection_secure(attempt->connection, made);
}

static void note_shortage(const struct attempt *attempt, int error)
{
    struct pccl_dialer *dialer = attempt->dialer;
    dialer->starved += !is_here(attempt);
    dialer->shortage = error;
}

static void begin(struct attempt *attempt)
{
    struct pccl_dialer *dialer = attempt->dialer;
    uv_os_sock_t socket;
    struct pccl_text reason;
    const struct pccl_address *address = &dialer->addresses[attempt - dialer->attempts];
    int error = is_here(attempt) ? pccl_local_dial(dialer->dial.local, &dialer->meant, &socket)
                                 : pccl_socket_dial(address, &socket);
    if (error == 0) {
        attempt->connection =
            pccl_connection_create(dialer->timer.loop, dialer->memory, socket, true, &attempt_events, attempt);
        if (!attempt->connection)
            error = UV_ENOMEM;
    }
    if (error) {
        if (pccl_socket_is_shortage(error))
            note_shortage(attempt, error);
        pccl_socket_explain(error, &reason);
        attempt_failed(attempt, meaning[pccl_connection_dial_end(error)], &reason);
        return;
    }
    if (is_here(attempt)) /* keeps the turn until the listener accepts the connection */
        dialer->asking = attempt;
    if (dialer->dial.keys)
        secure(attempt);
    attempt->connection->address = *address;
    pccl_connection_limit(attempt->connection, dialer->dial.timeout_ms);
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_dialer *dialer = timer->data;
    enter(dialer);
    if (dialer->gone) {
        /* entering has canceled the dialer */
    } else if (dialer->over >= dialer->dial.count) {
        report_failure(dialer);
    } else if (dialer->begun < dialer->dial.count) {
        schedule(dialer, dialer->dial.stagger_ms);
        begin(&dialer->attempts[dialer->begun++]);
    }
    leave(dialer);
}

static void succeed(struct attempt *attempt)
{
    struct pccl_connection *connection = attempt->connection;
    struct pccl_dial dial = attempt->dialer->dial;
    struct pccl_text none;
    attempt->connection = NULL; /* detached, because it outlives the dialer */
    pccl_connection_limit(connection, 0);
    pccl_dialer_cancel(attempt->dialer);
    pccl_text_clear(&none);
    dial.done(dial.context, connection, 0, &none);
}

static void on_connected(struct pccl_connection *connection)
{
    struct attempt *attempt = connection->owner;
    struct pccl_dialer *dialer = attempt->dialer;
    if (dialer->hello_length == 0)
        succeed(attempt);
    else if (dialer->asking && dialer->asking != attempt)
        attempt->connected = true;
    else
        ask(attempt);
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct attempt *attempt = connection->owner;
    struct pccl_dialer *dialer = attempt->dialer;
    struct pccl_text reason;
    enum pccl_link_end how = pccl_handshake_judge(&dialer->meant, dialer->kind, frame, &reason);
    if (how == PCCL_LINK_UNREACHABLE && dialer->dial.declined)
        *dialer->dial.declined = true;
    if (how == 0)
        succeed(attempt);
    else
        attempt_failed(attempt, how, &reason);
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    struct attempt *attempt = connection->owner;
    if (how == PCCL_END_MEMORY)
        note_shortage(attempt, UV_ENOMEM);
    attempt_failed(attempt, meaning[how], reason);
}
