/*
 * Who runs the engine's loop: its thread, or a caller that waits and drives it. Every turn of a driver runs under a
 * guard: an invariant that breaks in it ends the engine, not the caller's call.
 */
#include "data/internal.h"

#include "net/guard.h"
#include "os/socket.h"

/* Returns true if there is work that cannot wait for the next driver. */
static bool is_busy(const struct pccl_engine *engine)
{
    return engine->running > engine->resting || uv_backend_timeout(&engine->reactor.loop) == 0;
}

/*
 * Handles a broken invariant: shuts the connections down, so that the other sides need not wait. They and everything
 * else are left unfreed.
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

/* ---- the thread ---- */

/* Returns true if the loop would handle something now. Any thread. */
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

/* Returns true if there is work of which the parked thread should have been told. */
static bool was_forgotten(struct pccl_engine *engine)
{
    bool forgotten = engine->running > engine->resting;
    uv_mutex_lock(&engine->lock);
    for (const struct pccl_engine_job *job = engine->jobs; job; job = job->next)
        forgotten = forgotten || !job->stopped;
    uv_mutex_unlock(&engine->lock);
    return forgotten;
}

/* Parks the thread. Returns false if the loop has ended. */
static bool park(struct pccl_engine *engine)
{
    const struct pccl_owner_calls calls = {engine, wake_driver, has_input};
    pccl_engine_ring(engine);
    if (engine->running > engine->resting + 1) /* it moves more than the one that the driver has launched */
        pccl_owner_decline(&engine->owner);
    enum pccl_owner_return returns = pccl_owner_park(&engine->owner, is_busy(engine), &calls);
    if (returns == PCCL_OWNER_ENDS)
        return false;
    if (returns == PCCL_OWNER_LOOKS && was_forgotten(engine))
        pccl_owner_count_rescue(&engine->owner);
    if (engine->watched_by)
        (void)pccl_socket_wait_for_loop(engine->watched_by, uv_backend_fd(&engine->reactor.loop), false);
    engine->watched_by = NULL;
    uv_update_time(&engine->reactor.loop);
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
    if (engine->watched_by)
        return true;
    pccl_owner_leave(&engine->owner, true);
    return false;
}

/*
 * Handles all that is there. libuv passes the system changes of what it watches at the beginning of a turn, so the last
 * turn before a wait must not be the one that made them.
 */
static void step(void *argument)
{
    struct pccl_engine *engine = argument;
    uint64_t before;
    uv_update_time(&engine->reactor.loop);
    take_requests(engine);
    do {
        before = engine->visits;
        (void)uv_run(&engine->reactor.loop, UV_RUN_NOWAIT);
    } while (engine->visits != before);
    pccl_engine_ring(engine);
}

/* Sleeps until something happens. Returns false if the loop was taken from this driver. */
static bool sleep_in(struct pccl_engine *engine, const struct pccl_socket_wait *wait, int limit_ms, int *news)
{
    uint64_t turn;
    int due_ms = uv_backend_timeout(&engine->reactor.loop);
    bool is_limited = limit_ms >= 0 && (due_ms < 0 || limit_ms <= due_ms);
    if (!pccl_owner_begin_wait(&engine->owner, &turn)) {
        *news = PCCL_SOCKET_LOOP;
        return true;
    }
    *news = pccl_socket_wait_for_all(wait, is_limited ? limit_ms : due_ms);
    if (*news == 0)
        *news = is_limited ? PCCL_SOCKET_WOKEN : PCCL_SOCKET_LOOP;
    return pccl_owner_end_wait(&engine->owner, turn);
}

enum pccl_engine_drive pccl_engine_drive(struct pccl_engine *engine, const struct pccl_socket_wait *wait,
                                         const atomic_bool *fired, int limit_ms)
{
    for (;;) {
        int news;
        if (!pccl_guard_run(step, engine)) {
            mark_broken(engine);
            return PCCL_DRIVE_LOST;
        }
        if (atomic_load(fired))
            return PCCL_DRIVE_WOKEN;
        if (!sleep_in(engine, wait, limit_ms, &news))
            return PCCL_DRIVE_LOST;
        if (news & PCCL_SOCKET_INPUT)
            return PCCL_DRIVE_INPUT;
        if (news & PCCL_SOCKET_WOKEN)
            return PCCL_DRIVE_WOKEN;
    }
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
