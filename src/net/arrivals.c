#include "net/arrivals.h"

#include "net/fork.h"
#include "net/secure.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PERIOD_MS = 10,     /* between two looks at the queue */
    HEAD_BYTES = 5,     /* of a TLS record, the last two of which are its length */
    LOOKS_MAX = 64,     /* a greeting has fewer pieces, even where the system ignores SO_RCVLOWAT */
    RECORD_MAX = 16640, /* a longer one is refused by the handshake */
    SHARE = 4           /* arrivals of all listeners use at most one in SHARE of the free descriptors */
};

struct arrival {
    struct pccl_turn turn;      /* if it is ready */
    struct pccl_list_node node; /* if it is early */
    struct pccl_arrivals *arrivals;
    uv_poll_t poll;
    uv_os_sock_t socket;
    struct pccl_address from;
    uint64_t since_ms;
    uint32_t looks;
    const struct pccl_memory *memory;
};

struct pccl_arrivals {
    uv_timer_t timer;
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_arrivals_events *events;
    void *owner;
    uint32_t max, limit_ms;
    struct pccl_list_node early; /* the oldest first */
    uint32_t early_count;
    struct pccl_turns ready;
};

static struct arrival *arrival_of(struct pccl_turn *turn) { return PCCL_CONTAINER_OF(turn, struct arrival, turn); }

/* ---- early ones ---- */

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

/* NULL: none. */
static struct arrival *oldest_early(const struct pccl_arrivals *arrivals)
{
    return PCCL_LIST_ITEM(&arrivals->early, arrivals->early.next, struct arrival, node);
}

/* ---- the end of one ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct arrival *arrival = handle->data;
    pccl_release(arrival->memory, arrival, sizeof *arrival);
}

/* Stops watching an arrival that is in no list. Its socket stays open. */
static uv_os_sock_t release(struct arrival *arrival)
{
    int one = 1;
    uv_os_sock_t socket = arrival->socket;
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    uv_close((uv_handle_t *)&arrival->poll, on_poll_closed);
    return socket;
}

static void drop(struct pccl_arrivals *arrivals, struct arrival *arrival, bool early)
{
    struct pccl_address from = arrival->from;
    pccl_socket_close(release(arrival));
    if (arrivals->events->dropped)
        arrivals->events->dropped(arrivals->owner, &from, early);
}

static void make_room(struct pccl_arrivals *arrivals)
{
    bool early = arrivals->early_count > arrivals->ready.count;
    struct arrival *leaves = early ? oldest_early(arrivals) : arrival_of(pccl_turns_most_crowded(&arrivals->ready));
    if (early)
        remove_early(arrivals, leaves);
    else
        pccl_turns_remove(&arrivals->ready, &leaves->turn);
    drop(arrivals, leaves, early);
}

/* ---- greetings ---- */

enum sight { EARLY, READY, OVER };

/* Peeks at the received bytes. A connection without TLS is ready, so that it gets an answer. */
static enum sight look(struct arrival *arrival, bool has_ended)
{
    uint8_t head[HEAD_BYTES];
    int available = 0, wanted = HEAD_BYTES;
    ssize_t got = recv(arrival->socket, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? EARLY : OVER;
    if (got == 0)
        return OVER;
    if (got >= 3 && !pccl_secure_is_greeting(head, (size_t)got))
        return READY;
    if (got == HEAD_BYTES)
        wanted += head[HEAD_BYTES - 2] << 8 | head[HEAD_BYTES - 1];
    if (wanted > RECORD_MAX || (ioctl(arrival->socket, FIONREAD, &available) == 0 && available >= wanted))
        return READY;
    if (has_ended || ++arrival->looks > LOOKS_MAX)
        return OVER;
    (void)setsockopt(arrival->socket, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    return EARLY;
}

static void get_ready(struct pccl_arrivals *arrivals, struct arrival *arrival)
{
    (void)uv_poll_stop(&arrival->poll);
    pccl_turns_add(&arrivals->ready, &arrival->turn, &arrival->from);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct arrival *arrival = poll->data;
    struct pccl_arrivals *arrivals = arrival->arrivals;
    enum sight sight = look(arrival, status < 0 || (events & UV_DISCONNECT) != 0);
    if (sight == EARLY)
        return;
    remove_early(arrivals, arrival);
    if (sight == READY) {
        get_ready(arrivals, arrival);
        arrivals->events->ready(arrivals->owner);
    } else {
        pccl_socket_close(release(arrival));
    }
}

/* A greeting may have come while this process was stopped: the loop serves timers first. */
bool pccl_arrivals_end_early(struct pccl_arrivals *arrivals, uint32_t age_ms)
{
    struct arrival *late;
    while ((late = oldest_early(arrivals)) && uv_now(arrivals->loop) >= late->since_ms + age_ms) {
        remove_early(arrivals, late);
        if (look(late, false) != READY) {
            drop(arrivals, late, true);
            return true;
        }
        get_ready(arrivals, late);
    }
    return false;
}

static void on_period(uv_timer_t *timer)
{
    struct pccl_arrivals *arrivals = timer->data;
    while (pccl_arrivals_end_early(arrivals, arrivals->limit_ms)) {
    }
    if (arrivals->early_count + arrivals->ready.count == 0)
        (void)uv_timer_stop(timer);
    if (arrivals->ready.count > 0)
        arrivals->events->ready(arrivals->owner);
}

/* ---- outside ---- */

/* Returns about how many descriptors this process can still open: the system gives the lowest free number. */
static uint32_t count_free_descriptors(const uv_loop_t *loop)
{
    struct rlimit limit;
    pccl_fork_lock(); /* a child would keep the copy */
    int lowest = fcntl(uv_backend_fd(loop), F_DUPFD_CLOEXEC, 0);
    if (lowest >= 0)
        (void)close(lowest);
    pccl_fork_unlock();
    if (lowest < 0)
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > UINT32_MAX)
        return UINT32_MAX;
    return (uint32_t)limit.rlim_cur - (uint32_t)lowest;
}

struct pccl_arrivals *pccl_arrivals_create(uv_loop_t *loop, const struct pccl_memory *memory,
                                           const struct pccl_hash_key *hash, uint32_t max, uint32_t sharers,
                                           uint32_t limit_ms, const struct pccl_arrivals_events *events, void *owner)
{
    struct pccl_arrivals *arrivals = pccl_allocate(memory, sizeof *arrivals);
    if (!arrivals)
        return NULL;
    PCCL_ASSERT(max > 0 && max <= PCCL_TURNS_MAX);
    (void)uv_timer_init(loop, &arrivals->timer);
    arrivals->timer.data = arrivals;
    arrivals->loop = loop;
    arrivals->memory = memory;
    arrivals->events = events;
    arrivals->owner = owner;
    uint32_t share = count_free_descriptors(loop) / SHARE / pccl_max_u32(sharers, 1);
    arrivals->max = pccl_max_u32((uint32_t)pccl_min_u64(max, share), 1);
    arrivals->limit_ms = limit_ms;
    pccl_list_init(&arrivals->early);
    pccl_turns_init(&arrivals->ready, hash);
    return arrivals;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pccl_arrivals *arrivals = handle->data;
    pccl_release(arrivals->memory, arrivals, sizeof *arrivals);
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
    struct arrival *arrival = pccl_allocate(arrivals->memory, sizeof *arrival);
    if (!arrival || uv_poll_init_socket(arrivals->loop, &arrival->poll, socket) != 0) {
        pccl_release(arrivals->memory, arrival, sizeof *arrival);
        pccl_socket_close(socket);
        return;
    }
    arrival->poll.data = arrival;
    arrival->arrivals = arrivals;
    arrival->memory = arrivals->memory;
    arrival->socket = socket;
    arrival->from = *from;
    arrival->since_ms = uv_now(arrivals->loop);
    if (arrivals->early_count + arrivals->ready.count == arrivals->max)
        make_room(arrivals);
    if (!uv_is_active((uv_handle_t *)&arrivals->timer))
        (void)uv_timer_start(&arrivals->timer, on_period, PERIOD_MS, PERIOD_MS);
    if (pccl_socket_is_here(socket)) { /* this user's; a look could take the descriptors that it passes */
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
