#include "net/arrivals.h"

#include "core/budget.h"
#include "net/clock.h"
#include "net/knock.h"
#include "os/socket.h"
#include "wire/frame.h"

enum {
    PERIOD_MS = 10, /* interval at which the queue is checked */
    /* limit for reads of one greeting, which has fewer fragments even if the system ignores SO_RCVLOWAT */
    LOOKS_MAX = 64,
    REFUSALS_PER_S = 100, /* limit for refusals that are answered; further connections are closed without an answer */
    SHARE = 4             /* the arrivals of all listeners use at most 1/SHARE of the free descriptors */
};

struct arrival {
    struct pccl_turn turn;      /* place among the ready connections */
    struct pccl_list_node node; /* place among the early connections */
    struct pccl_arrivals *arrivals;
    uv_poll_t poll;
    uv_os_sock_t socket;
    struct pccl_address from;
    uint64_t since_ms;
    uint32_t looks;
    enum pccl_arrival_end fault; /* reason of a refusal */
    const struct pccl_memory *memory;
};

struct pccl_arrivals {
    uv_timer_t timer;
    struct pccl_arrivals_config config;
    uint32_t max;
    struct pccl_budget refusals;
    struct pccl_list_node early; /* oldest first */
    uint32_t early_count;
    struct pccl_turns ready;
};

static struct arrival *arrival_of(struct pccl_turn *turn) { return PCCL_CONTAINER_OF(turn, struct arrival, turn); }

/* ---- early connections ---- */

static void add_early(struct pccl_arrivals *arrivals, struct arrival *arrival)
{
    pccl_list_append(&arrivals->early, &arrival->node);
    arrivals->early_count++;
}

static void remove_early(struct pccl_arrivals *arrivals, struct arrival *arrival)
{
    pccl_list_remove(&arrival->node);
    arrivals->early_count--;
}

/* Returns NULL if no connection is early. */
static struct arrival *oldest_early(const struct pccl_arrivals *arrivals)
{
    return PCCL_LIST_ITEM(&arrivals->early, arrivals->early.next, struct arrival, node);
}

/* ---- end of a connection ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct arrival *arrival = handle->data;
    pccl_release(arrival->memory, arrival, sizeof *arrival);
}

/* Stops watching an arrival that is in no list. Returns its socket, which stays open. */
static uv_os_sock_t release(struct arrival *arrival)
{
    uv_os_sock_t socket = arrival->socket;
    pccl_socket_wait_bytes(socket, 1);
    uv_close((uv_handle_t *)&arrival->poll, on_poll_closed);
    return socket;
}

static void drop(struct pccl_arrivals *arrivals, struct arrival *arrival, enum pccl_arrival_end why)
{
    struct pccl_address from = arrival->from;
    pccl_socket_close(release(arrival));
    arrivals->config.events.dropped(arrivals->config.listener, &from, why);
}

static void make_room(struct pccl_arrivals *arrivals)
{
    bool early = arrivals->early_count > arrivals->ready.count;
    struct arrival *leaves = early ? oldest_early(arrivals) : arrival_of(pccl_turns_most_crowded(&arrivals->ready));
    PCCL_ASSERT(leaves != NULL);
    if (early)
        remove_early(arrivals, leaves);
    else
        pccl_turns_remove(&arrivals->ready, &leaves->turn);
    drop(arrivals, leaves, early ? PCCL_ARRIVAL_EARLY : PCCL_ARRIVAL_CROWDED);
}

/* ---- refusals ---- */

static size_t write_refusal(const struct pccl_arrivals_config *config, uint8_t bytes[PCCL_FRAME_HELLO_MAX])
{
    struct pccl_bytes reason = pccl_bytes_of_string(pccl_secure_plain_words(config->keys, config->role));
    struct pccl_msg msg = {
        .type = PCCL_MSG_refused,
        .as.refused = {.version = PCCL_PROTOCOL_VERSION, .code = PCCL_REFUSAL_MALFORMED, .reason = reason}};
    PCCL_ASSERT(pccl_frame_size(&msg) <= PCCL_FRAME_HELLO_MAX);
    pccl_frame_encode(&msg, 0, 0, bytes);
    return pccl_frame_size(&msg);
}

/*
 * Answers a client that does not encrypt or has sent a bad knock, if the rate limit permits, and then drops it. Reads
 * its bytes first, because closing a socket with unread bytes would send a reset.
 */
static void refuse(struct pccl_arrivals *arrivals, struct arrival *arrival)
{
    uint8_t bytes[PCCL_FRAME_HELLO_MAX];
    if (pccl_budget_take(&arrivals->refusals, pccl_now_us())) {
        (void)pccl_socket_read(arrival->socket, bytes, sizeof bytes);
        if (arrival->fault == PCCL_ARRIVAL_PLAIN)
            (void)pccl_socket_write(arrival->socket, bytes, write_refusal(&arrivals->config, bytes));
        else
            (void)pccl_socket_write(arrival->socket, pccl_knock_alert, sizeof pccl_knock_alert);
    }
    drop(arrivals, arrival, arrival->fault);
}

/* ---- greetings ---- */

enum readiness { EARLY, READY, REFUSED, OVER };

/* Peeks at the received bytes. Consumes a good knock, because OpenSSL must not see it. */
static enum readiness look(const struct pccl_arrivals *arrivals, struct arrival *arrival, bool has_ended)
{
    const struct pccl_arrivals_config *config = &arrivals->config;
    uint8_t bytes[PCCL_KNOCK_MAX + PCCL_GREETING_MAX];
    size_t length;
    ptrdiff_t got = pccl_socket_peek(arrival->socket, bytes, sizeof bytes);
    if (got < 0)
        return got == UV_EAGAIN ? EARLY : OVER;
    switch (pccl_knock_judge(config->keys, config->role == PCCL_SECURE_ACCEPTED, bytes, (size_t)got, &length)) {
    case PCCL_KNOCK_EARLY: break;
    case PCCL_KNOCK_GOOD:
        return length == 0 || pccl_socket_read(arrival->socket, bytes, length) == (ptrdiff_t)length ? READY : OVER;
    case PCCL_KNOCK_PLAIN: arrival->fault = PCCL_ARRIVAL_PLAIN; return REFUSED;
    case PCCL_KNOCK_MISSING: arrival->fault = PCCL_ARRIVAL_MISSING; return REFUSED;
    default: arrival->fault = PCCL_ARRIVAL_WRONG; return REFUSED;
    }
    if (has_ended || ++arrival->looks > LOOKS_MAX)
        return OVER;
    pccl_socket_wait_bytes(arrival->socket, (int)length);
    return EARLY;
}

static void get_ready(struct pccl_arrivals *arrivals, struct arrival *arrival)
{
    (void)uv_poll_stop(&arrival->poll);
    pccl_turns_add(&arrivals->ready, &arrival->turn, &arrival->from);
}

/*
 * Returns false if the owner has closed the arrivals on entering. The loop then frees them and each arrival after this
 * visit.
 */
static bool enter(struct pccl_arrivals *arrivals)
{
    if (arrivals->config.events.enter)
        arrivals->config.events.enter(arrivals->config.owner);
    return !uv_is_closing((uv_handle_t *)&arrivals->timer);
}

static void leave(struct pccl_arrivals *arrivals)
{
    if (arrivals->config.events.leave)
        arrivals->config.events.leave(arrivals->config.owner);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct arrival *arrival = poll->data;
    struct pccl_arrivals *arrivals = arrival->arrivals;
    enum readiness readiness = EARLY;
    if (enter(arrivals))
        readiness = look(arrivals, arrival, status < 0 || (events & UV_DISCONNECT) != 0);
    if (readiness != EARLY)
        remove_early(arrivals, arrival);
    if (readiness == READY) {
        get_ready(arrivals, arrival);
        arrivals->config.events.ready(arrivals->config.listener);
    } else if (readiness == REFUSED) {
        refuse(arrivals, arrival);
    } else if (readiness == OVER) {
        pccl_socket_close(release(arrival));
    }
    leave(arrivals);
}

/*
 * Checks each old arrival once more before ending it: the loop runs timers before it reads, so after a suspension of
 * this process the greeting may be waiting unread.
 */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms)
{
    struct arrival *late;
    while ((late = oldest_early(arrivals)) && uv_now(arrivals->config.loop) >= late->since_ms + age_ms) {
        remove_early(arrivals, late);
        enum readiness readiness = look(arrivals, late, false);
        if (readiness == READY) {
            get_ready(arrivals, late);
            continue;
        }
        if (readiness == REFUSED)
            refuse(arrivals, late);
        else
            drop(arrivals, late, PCCL_ARRIVAL_EARLY);
        return true;
    }
    return false;
}

static void on_period(uv_timer_t *timer)
{
    struct pccl_arrivals *arrivals = timer->data;
    if (enter(arrivals)) {
        while (pccl_arrivals_end_early(arrivals, arrivals->config.limit_ms)) {
        }
        if (arrivals->early_count + arrivals->ready.count == 0)
            (void)uv_timer_stop(timer);
        if (arrivals->ready.count > 0)
            arrivals->config.events.ready(arrivals->config.listener);
    }
    leave(arrivals);
}

/* ---- functions for the listener ---- */

struct pccl_arrivals *pccl_arrivals_create(const struct pccl_arrivals_config *config)
{
    struct pccl_arrivals *arrivals = pccl_allocate(config->memory, sizeof *arrivals);
    if (!arrivals)
        return NULL;
    PCCL_ASSERT(config->max > 0 && config->max <= PCCL_TURNS_MAX);
    (void)uv_timer_init(config->loop, &arrivals->timer);
    arrivals->timer.data = arrivals;
    arrivals->config = *config;
    uint32_t share = pccl_socket_count_free(config->loop) / SHARE / pccl_max_u32(config->sharers, 1);
    arrivals->max = pccl_max_u32((uint32_t)pccl_min_u64(config->max, share), 1);
    arrivals->refusals = (struct pccl_budget){.per_s = REFUSALS_PER_S, .burst = REFUSALS_PER_S};
    pccl_list_init(&arrivals->early);
    pccl_turns_init(&arrivals->ready, config->hash);
    return arrivals;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pccl_arrivals *arrivals = handle->data;
    pccl_release(arrivals->config.memory, arrivals, sizeof *arrivals);
}

void pccl_arrivals_close(struct pccl_arrivals *arrivals)
{
    struct pccl_address from;
    struct arrival *early;
    while ((early = oldest_early(arrivals))) {
        remove_early(arrivals, early);
        pccl_socket_close(release(early));
    }
    while (arrivals->ready.count > 0)
        pccl_socket_close(pccl_arrivals_take(arrivals, &from));
    uv_close((uv_handle_t *)&arrivals->timer, on_timer_closed);
}

void pccl_arrivals_add(struct pccl_arrivals *arrivals, uv_os_sock_t socket, const struct pccl_address *from)
{
    const struct pccl_arrivals_config *config = &arrivals->config;
    struct arrival *arrival = pccl_allocate(config->memory, sizeof *arrival);
    if (!arrival || uv_poll_init_socket(config->loop, &arrival->poll, socket) != 0) {
        pccl_release(config->memory, arrival, sizeof *arrival);
        pccl_socket_close(socket);
        return;
    }
    arrival->poll.data = arrival;
    arrival->arrivals = arrivals;
    arrival->memory = config->memory;
    arrival->socket = socket;
    arrival->from = *from;
    arrival->since_ms = uv_now(config->loop);
    if (arrivals->early_count + arrivals->ready.count == arrivals->max)
        make_room(arrivals);
    if (!uv_is_active((uv_handle_t *)&arrivals->timer))
        (void)uv_timer_start(&arrivals->timer, on_period, PERIOD_MS, PERIOD_MS);
    /* Belongs to this user, and peeking could consume descriptors passed with the bytes. */
    if (pccl_socket_is_local(socket)) {
        get_ready(arrivals, arrival);
    } else {
        add_early(arrivals, arrival);
        (void)uv_poll_start(&arrival->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    }
}

bool pccl_arrivals_has_ready(const struct pccl_arrivals *arrivals) { return arrivals->ready.count > 0; }

uv_os_sock_t pccl_arrivals_take(struct pccl_arrivals *arrivals, struct pccl_address *from)
{
    struct arrival *arrival = arrival_of(pccl_turns_take(&arrivals->ready));
    *from = arrival->from;
    return release(arrival);
}
