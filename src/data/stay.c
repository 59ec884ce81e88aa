/*
 * What stays is copied in pieces: by a thread that waits for the operation (pccl_engine_join), while
 * the engine's thread moves the rest; and by that thread, when it has nothing to move.
 */
#include "data/internal.h"

#include "net/clock.h"

#include <sched.h>

enum { PIECE_BYTES = 256 << 10 };

/* Under the lock: takes the next piece. 0: there is none, or it is of no use any more. */
static size_t take(const struct pccl_engine *engine, struct pccl_engine_job *job, size_t *at)
{
    const size_t rest = job->config.stay.bytes - job->stay_taken;
    const size_t bytes = job->stopped || engine->broken ? 0 : (size_t)pccl_min_u64(rest, PIECE_BYTES);
    *at = job->stay_taken;
    job->stay_taken += bytes;
    return bytes;
}

/*
 * Under the lock, which is released meanwhile. false: there is nothing to be copied. Where processors are
 * short, whoever moves bytes to or from others goes first.
 */
static bool copy_piece(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    size_t at;
    const size_t bytes = take(engine, job, &at);
    if (bytes == 0)
        return false;
    uv_mutex_unlock(&engine->lock);
    pccl_stay_copy(&job->config.stay, engine->config.kernels, at, bytes);
    (void)sched_yield();
    uv_mutex_lock(&engine->lock);
    job->stay_copied += bytes;
    return true;
}

/* ---- threads that wait ---- */

bool pccl_engine_join(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    uv_mutex_lock(&engine->lock);
    const bool joins = !job->stopped && !engine->broken && job->stay_taken < job->config.stay.bytes;
    job->copiers += joins;
    engine->copiers += joins;
    uv_mutex_unlock(&engine->lock);
    return joins;
}

void pccl_engine_copy(struct pccl_engine *engine, struct pccl_engine_job *job, uint64_t deadline_us)
{
    uv_mutex_lock(&engine->lock);
    while (copy_piece(engine, job) && pccl_now_us() < deadline_us)
        continue;
    engine->copiers--;
    if (--job->copiers == 0)
        pccl_engine_put_job(engine, job); /* it is complete, or is to be stopped, or the engine's thread goes on */
    if (engine->broken)
        uv_cond_broadcast(&engine->left);
    uv_mutex_unlock(&engine->lock);
    pccl_reactor_wake(&engine->reactor);
}

/* ---- the engine's thread ---- */

static void on_idle(uv_idle_t *idle);

static void remove_staying(struct pccl_engine *engine, const struct pccl_engine_job *job)
{
    for (struct pccl_engine_job **at = &engine->staying; *at != NULL; at = &(*at)->next_staying) {
        if (*at == job) {
            *at = job->next_staying;
            break;
        }
    }
    if (engine->staying == NULL)
        (void)uv_idle_stop(&engine->idle);
}

void pccl_stay_begin(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (job->config.stay.bytes == 0)
        return;
    job->next_staying = engine->staying;
    engine->staying = job;
    pccl_stay_look(engine, job);
}

void pccl_stay_look(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (job->transfer == NULL || job->config.stay.bytes == 0 || job->stay_told)
        return;
    uv_mutex_lock(&engine->lock);
    const bool done = job->stay_copied == job->config.stay.bytes, left = job->stay_taken < job->config.stay.bytes;
    uv_mutex_unlock(&engine->lock);
    if (done) {
        job->stay_told = true;
        remove_staying(engine, job);
        pccl_exchange_stays(engine->exchange, job->transfer);
    } else if (left) {
        (void)uv_idle_start(&engine->idle, on_idle);
    }
}

void pccl_stay_end(struct pccl_engine *engine, const struct pccl_engine_job *job) { remove_staying(engine, job); }

/* Copies a piece. NULL: there is none that nobody has taken. */
static struct pccl_engine_job *go_on(struct pccl_engine *engine)
{
    struct pccl_engine_job *job = engine->staying;
    uv_mutex_lock(&engine->lock);
    while (job != NULL && !copy_piece(engine, job))
        job = job->next_staying;
    uv_mutex_unlock(&engine->lock);
    return job;
}

/* While this is active the loop does not wait: a turn in which nothing was moved has time to spare. */
static void on_idle(uv_idle_t *idle)
{
    struct pccl_engine *engine = idle->data;
    const bool moved = engine->moved;
    engine->moved = false;
    if (moved)
        return;
    struct pccl_engine_job *job = go_on(engine);
    if (job == NULL) {
        (void)uv_idle_stop(idle);
        return;
    }
    pccl_stay_look(engine, job);
    pccl_engine_flush(engine);
}
