/*
 * Runs the engine's loop, either on the engine's own thread or on the thread of a waiting caller (the driver). A driver
 * runs the loop under a guard, so that a broken invariant ends the engine but not the caller's call.
 */
#include "data/internal.h"

#include "net/clock.h"
#include "net/guard.h"
#include "os/socket.h"
#include "os/thread.h"

enum {
    POLL_SOCKETS_EVERY = 8, /* number of polls of the pipes for each poll of the sockets */
    MISSES = 4, /* number of consecutive failures after which a driver polls only once in POLL_ONCE_IN waits */
    POLL_ONCE_IN = 16,
};

/*
 * Returns true if there is work that can wait neither for the next driver nor for 2 ms: an unfinished transfer, or an
 * unsent wake-up byte. Messages of operations that this peer has not launched can wait.
 */
static bool is_busy(const struct pccl_engine *engine)
{
    return engine->running > engine->resting || engine->deferred.first;
}

/*
 * Handles a broken invariant. Shuts down the connections, so that the other sides do not wait for this peer. Frees
 * nothing.
 */
static void mark_broken(struct pccl_engine *engine)
{
    pccl_owner_end(&engine->owner);
    uv_mutex_lock(&engine->lock);
    engine->broken = true;
    for (const struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next); stream;
         stream = pccl_stream_known(engine, stream->in_known.next))
        pccl_socket_shutdown(stream->channel.socket);
    uv_mutex_unlock(&engine->lock);
    engine->events.broken(engine->events.context);
}

static void take_requests(struct pccl_engine *engine) { engine->reactor.events->woken(&engine->reactor); }

/*
 * Begins or ends the time in which pipes are polled and the other sides need not send wake-up bytes for input. It lasts
 * until the owner of the loop sleeps, so it also spans the time between two calls of a driver.
 */
static void set_polls(struct pccl_engine *engine, bool polls)
{
    if (engine->polls == polls)
        return;
    engine->polls = polls;
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        struct pccl_stream *turn = PCCL_CONTAINER_OF(node, struct pccl_bundle, node)->turn, *stream = turn;
        do {
            if (!polls)
                pccl_stream_watch(stream);
            else if (stream->channel.pipe)
                pccl_pipe_poll_input(stream->channel.pipe);
            stream = stream->next_in_bundle;
        } while (stream != turn);
    }
}

/* ---- the thread ---- */

/* Returns true if the loop has events to handle. Any thread. */
static bool has_input(void *argument)
{
    struct pccl_engine *engine = argument;
    return pccl_socket_await((uv_os_sock_t)uv_backend_fd(&engine->reactor.loop), false, 0);
}

static void wake_driver(void *argument)
{
    const struct pccl_engine *engine = argument;
    if (engine->asked_by)
        pccl_socket_wake(engine->asked_by);
}

/* Parks the thread. Returns false if the loop has ended. */
static bool park(struct pccl_engine *engine)
{
    const struct pccl_owner_calls calls = {engine, wake_driver, has_input};
    pccl_engine_send_wake_bytes(engine);
    if (engine->running > engine->resting + 1) /* other transfers are active besides the driver's */
        pccl_owner_decline(&engine->owner);
    enum pccl_owner_return returns = pccl_owner_park(&engine->owner, is_busy(engine), &calls);
    if (returns == PCCL_OWNER_ENDS)
        return false;
    bool moves = engine->running > engine->resting;
    if (returns == PCCL_OWNER_RESCUES || (returns == PCCL_OWNER_TIMED_OUT && moves))
        pccl_owner_count_rescue(&engine->owner);
    if (engine->watched_by)
        (void)pccl_socket_wait_for_loop(engine->watched_by, uv_backend_fd(&engine->reactor.loop), false);
    engine->watched_by = NULL;
    uv_update_time(&engine->reactor.loop);
    set_polls(engine, false);
    take_requests(engine);
    return true;
}

static void run(void *argument)
{
    struct pccl_engine *engine = argument;
    do
        (void)uv_run(&engine->reactor.loop, UV_RUN_DEFAULT);
    while (!engine->ended && park(engine));
}

void pccl_engine_thread(void *argument)
{
    struct pccl_engine *engine = argument;
    if (!pccl_guard_run(run, engine))
        mark_broken(engine);
}

/* ---- a driver ---- */

bool pccl_engine_ask(struct pccl_engine *engine, const struct pccl_socket_wait *wait)
{
    engine->asked_by = wait;
    if (!pccl_owner_ask(&engine->owner))
        return false;
    pccl_reactor_wake(&engine->reactor);
    return true;
}

bool pccl_engine_drive_begin(struct pccl_engine *engine, const struct pccl_socket_wait *wait, bool promised)
{
    if (!pccl_owner_begin(&engine->owner, promised))
        return false;
    if (!engine->watched_by && pccl_socket_wait_for_loop(wait, uv_backend_fd(&engine->reactor.loop), true))
        engine->watched_by = wait;
    engine->may_poll = engine->config.spin_us > 0 && !pccl_thread_is_realtime();
    if (engine->watched_by)
        return true;
    pccl_owner_leave(&engine->owner, true);
    return false;
}

/* State of one call of pccl_engine_drive. */
struct turn {
    struct pccl_engine *engine;
    const struct pccl_socket_wait *wait;
    const atomic_bool *fired;
    bool requests; /* the inbox may contain requests */
    int news;      /* result of the last poll or wait; PCCL_SOCKET_INPUT and PCCL_SOCKET_WOKEN end the call */
};

/*
 * Handles all pending events. libuv passes changes to its watched events to the system only in the next iteration, so
 * an iteration that makes such changes must be followed by another one before the loop may wait.
 */
static void handle(struct pccl_engine *engine)
{
    do {
        engine->unsettled = false;
        (void)uv_run(&engine->reactor.loop, UV_RUN_NOWAIT);
    } while (engine->unsettled);
    pccl_engine_send_wake_bytes(engine);
}

/* ---- polling ---- */

/* Returns the next stream, in turn, whose pipe has input, or NULL. Sets *sockets to true if any stream has no pipe. */
static struct pccl_stream *find_input(struct pccl_engine *engine, bool *sockets)
{
    struct pccl_stream *first = NULL, *next = NULL;
    uint32_t at = 0, first_at = 0, next_at = 0;
    *sockets = false;
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        struct pccl_stream *turn = PCCL_CONTAINER_OF(node, struct pccl_bundle, node)->turn, *stream = turn;
        do {
            at++;
            *sockets = *sockets || !stream->channel.pipe;
            bool found = stream->channel.pipe && !stream->waiting && pccl_pipe_has_input(stream->channel.pipe);
            if (found && !first) {
                first = stream;
                first_at = at;
            }
            if (found && !next && at > engine->last_found) {
                next = stream;
                next_at = at;
            }
            stream = stream->next_in_bundle;
        } while (stream != turn);
    }
    engine->last_found = next ? next_at : first_at;
    return next ? next : first;
}

/* Handles input on the loop's sockets, and polls the other sockets of `wait`. Returns true if the call must end. */
static bool poll_sockets(struct turn *turn)
{
    handle(turn->engine);
    turn->news = pccl_socket_wait_for_all(turn->wait, 0) & ~PCCL_SOCKET_LOOP;
    return turn->news != 0;
}

/* Polls until the call must end or nothing has happened for spin_us. Returns true if anything has happened. */
static bool poll_pipes(struct turn *turn)
{
    struct pccl_engine *engine = turn->engine;
    bool found = false;
    uint64_t now_us = pccl_now_us(), until_us = now_us + engine->config.spin_us;
    for (uint32_t round = 1; now_us < until_us; round++) {
        bool sockets;
        const uint64_t visits = engine->visits;
        struct pccl_stream *stream = find_input(engine, &sockets);
        if (stream)
            stream->channel.events->visit(&stream->channel, 0);
        if (stream && pccl_owner_has_requests(&engine->owner))
            take_requests(engine);
        if (atomic_load(turn->fired))
            return true;
        if ((sockets || round % POLL_SOCKETS_EVERY == 0) && poll_sockets(turn))
            return true;
        now_us = pccl_now_us();
        if (engine->visits != visits) {
            found = true;
            until_us = now_us + engine->config.spin_us;
        } else {
            pccl_engine_send_wake_bytes(engine);
            pccl_thread_yield();
        }
    }
    return found;
}

/* Polls before every wait while this succeeds; after repeated failures, only once in POLL_ONCE_IN waits. */
static void poll_if_it_pays(struct turn *turn)
{
    struct pccl_engine *engine = turn->engine;
    if (!engine->may_poll)
        return;
    if (engine->misses >= MISSES && ++engine->misses % POLL_ONCE_IN != 0)
        return;
    set_polls(engine, true);
    engine->misses = poll_pipes(turn) ? 0 : engine->misses + 1;
}

static void step(void *argument)
{
    struct turn *turn = argument;
    struct pccl_engine *engine = turn->engine;
    uv_update_time(&engine->reactor.loop);
    if (turn->requests)
        take_requests(engine);
    handle(engine);
    if (atomic_load(turn->fired))
        return;
    poll_if_it_pays(turn);
    if (turn->news == 0 && !atomic_load(turn->fired))
        set_polls(engine, false);
}

/* Sleeps until an event or the deadline. Returns false if this driver has lost the loop. */
static bool sleep_in(struct turn *turn, uint64_t deadline_us)
{
    struct pccl_owner *owner = &turn->engine->owner;
    uint64_t number;
    int due_ms = uv_backend_timeout(&turn->engine->reactor.loop);
    uint64_t now_us = pccl_now_us(), left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    int limit_ms = deadline_us == UINT64_MAX ? -1 : (int)pccl_min_u64((left_us + 999) / 1000, 1 << 30);
    bool is_limited = limit_ms >= 0 && (due_ms < 0 || limit_ms <= due_ms);
    turn->requests = !pccl_owner_begin_wait(owner, &number);
    if (turn->requests)
        return true;
    turn->news = pccl_socket_wait_for_all(turn->wait, is_limited ? limit_ms : due_ms);
    if (turn->news == 0 && is_limited)
        turn->news = PCCL_SOCKET_WOKEN;
    return pccl_owner_end_wait(owner, number);
}

enum pccl_engine_drive pccl_engine_drive(struct pccl_engine *engine, const struct pccl_socket_wait *wait,
                                         const atomic_bool *fired, uint64_t deadline_us)
{
    struct turn turn = {.engine = engine, .wait = wait, .fired = fired, .requests = true};
    while (!(turn.news & (PCCL_SOCKET_INPUT | PCCL_SOCKET_WOKEN))) {
        if (!pccl_guard_run(step, &turn)) {
            mark_broken(engine);
            return PCCL_DRIVE_LOST;
        }
        if (atomic_load(fired))
            return PCCL_DRIVE_WOKEN;
        if (turn.news == 0 && !sleep_in(&turn, deadline_us))
            return PCCL_DRIVE_LOST;
        turn.news &= ~PCCL_SOCKET_LOOP;
    }
    return turn.news & PCCL_SOCKET_INPUT ? PCCL_DRIVE_INPUT : PCCL_DRIVE_WOKEN;
}

void pccl_engine_drive_end(struct pccl_engine *engine)
{
    if (pccl_owner_is_driver(&engine->owner))
        pccl_owner_leave(&engine->owner, is_busy(engine));
}

void pccl_engine_counts(struct pccl_engine *engine, uint64_t *drives, uint64_t *rescues)
{
    pccl_owner_counts(&engine->owner, drives, rescues);
}
