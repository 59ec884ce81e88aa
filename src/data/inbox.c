/* Requests of other threads to the engine, and queries that the engine answers under its lock. */
#include "data/internal.h"

#include "net/clock.h"
#include "net/heap.h"
#include "os/path.h"
#include "os/socket.h"

#include <string.h>

enum { LOOK_US = 1000000 }; /* minimum interval between two samples of a connection */

static void wake_with(struct pccl_engine *engine, enum pccl_owner_haste haste, bool *promised)
{
    if (pccl_owner_request(&engine->owner, haste, promised))
        pccl_reactor_wake(&engine->reactor);
}

void pccl_engine_wake(struct pccl_engine *engine) { wake_with(engine, PCCL_OWNER_SOON, NULL); }

void pccl_engine_release(struct pccl_engine *engine) { pccl_owner_release(&engine->owner); }

/* ---- jobs ---- */

/* Queues a job for the engine's thread; the caller must wake the thread. Caller holds the engine's lock. */
static void put_job(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (job->queued || engine->broken)
        return;
    job->queued = true;
    job->next = NULL;
    *engine->jobs_end = job;
    engine->jobs_end = &job->next;
}

bool pccl_engine_start(struct pccl_engine *engine, struct pccl_engine_job *job, bool drives)
{
    bool promised = false;
    job->transfer = NULL;
    job->started = job->stopped = job->queued = false;
    job->due_stop = job->is_done = job->is_at_rest = job->reported_done = job->reported_at_rest = job->noted = false;
    job->traffic = (struct pccl_traffic){0};
    uv_mutex_lock(&engine->lock);
    put_job(engine, job);
    uv_mutex_unlock(&engine->lock);
    wake_with(engine, drives ? PCCL_OWNER_PROMISED : PCCL_OWNER_SOON, &promised);
    return promised;
}

void pccl_engine_stop(struct pccl_engine *engine, struct pccl_engine_job *job, enum pccl_job_end end)
{
    uv_mutex_lock(&engine->lock);
    bool again = job->stopped;
    job->stopped = true;
    job->end = end;
    put_job(engine, job);
    uv_mutex_unlock(&engine->lock);
    PCCL_ASSERT(!again);
    wake_with(engine, end == PCCL_JOB_COMMITTED ? PCCL_OWNER_LATE : PCCL_OWNER_SOON, NULL);
}

/* ---- connections ---- */

static bool is_meant(const struct pccl_stream *stream, const struct pccl_id *peer, bool outgoing, uint32_t slot)
{
    return (slot == PCCL_POOL_MAX || stream->slot == slot) && stream->outgoing == outgoing &&
           pccl_id_equal(&stream->peer, peer);
}

/* Moves a stream to the list of closed streams. Caller holds the engine's lock. */
static void put_closed(struct pccl_engine *engine, struct pccl_stream *stream)
{
    pccl_list_remove(&stream->in_known);
    if (!stream->taken) {
        stream->closed_early = true;
        return;
    }
    stream->next_closed = engine->closed;
    engine->closed = stream;
}

static void close_streams(struct pccl_engine *engine)
{
    while (!pccl_list_is_empty(&engine->known))
        put_closed(engine, pccl_stream_known(engine, engine->known.next));
}

void pccl_engine_close(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot)
{
    uv_mutex_lock(&engine->lock);
    for (struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next), *next; stream; stream = next) {
        next = pccl_stream_known(engine, stream->in_known.next);
        if (is_meant(stream, peer, outgoing, slot))
            put_closed(engine, stream);
    }
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
}

void pccl_engine_cut(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot)
{
    uv_mutex_lock(&engine->lock);
    for (const struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next); stream;
         stream = pccl_stream_known(engine, stream->in_known.next))
        if (is_meant(stream, peer, outgoing, slot))
            pccl_socket_shutdown(stream->channel.socket); /* the engine's thread then reads the end of the stream */
    uv_mutex_unlock(&engine->lock);
}

bool pccl_engine_holds(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot)
{
    bool held = false;
    uv_mutex_lock(&engine->lock);
    for (const struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next); stream && !held;
         stream = pccl_stream_known(engine, stream->in_known.next))
        held = is_meant(stream, peer, outgoing, slot);
    uv_mutex_unlock(&engine->lock);
    return held;
}

bool pccl_engine_link_figures(struct pccl_engine *engine, const struct pccl_id *peer, uint32_t *rtt_us, uint64_t *rate,
                              bool *shared)
{
    bool is_news = false;
    *rtt_us = 0;
    *rate = 0;
    *shared = false;
    uv_mutex_lock(&engine->lock);
    for (struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next); stream;
         stream = pccl_stream_known(engine, stream->in_known.next)) {
        if (!is_meant(stream, peer, true, PCCL_POOL_MAX) || stream->rate == 0)
            continue;
        is_news = is_news || stream->is_news;
        *shared = *shared || (stream->is_news && stream->shared);
        stream->is_news = false;
        *rate += stream->rate;
        if (stream->rtt_us != 0 && (*rtt_us == 0 || stream->rtt_us < *rtt_us))
            *rtt_us = stream->rtt_us;
    }
    uv_mutex_unlock(&engine->lock);
    return is_news;
}

void pccl_inbox_release_members(struct pccl_id *members, uint32_t count)
{
    pccl_release(pccl_heap(), members, count * sizeof *members);
}

void pccl_inbox_drop_news(struct pccl_engine *engine)
{
    pccl_inbox_release_members(engine->members, engine->member_count);
    engine->members = NULL;
    while (engine->gone) {
        struct pccl_engine_gone *gone = engine->gone;
        engine->gone = gone->next;
        pccl_release(pccl_heap(), gone, sizeof *gone);
    }
}

void pccl_engine_rename(struct pccl_engine *engine, const struct pccl_id *self)
{
    uv_mutex_lock(&engine->lock);
    close_streams(engine);
    engine->new_name = *self;
    engine->rename = true;
    pccl_inbox_drop_news(engine); /* members and ended operations belong to the run that this peer leaves */
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
}

void pccl_engine_admit(struct pccl_engine *engine, const struct pccl_id *members, uint32_t count)
{
    struct pccl_id *copy = pccl_allocate(pccl_heap(), count * sizeof *copy);
    if (!copy)
        return;
    memcpy(copy, members, count * sizeof *copy);
    uv_mutex_lock(&engine->lock);
    pccl_inbox_release_members(engine->members, engine->member_count);
    engine->members = copy;
    engine->member_count = count;
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
}

void pccl_engine_forget(struct pccl_engine *engine, const struct pccl_instance *instance)
{
    struct pccl_engine_gone *gone = pccl_allocate(pccl_heap(), sizeof *gone);
    if (!gone)
        return;
    gone->instance = *instance;
    uv_mutex_lock(&engine->lock);
    gone->next = engine->gone;
    engine->gone = gone;
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
}

/* Samples the counters of a known stream, whose socket is open. Caller holds the engine's lock. */
static void look_at(struct pccl_stream *stream, uint64_t now_us)
{
    struct pccl_path path = {.rate = stream->rate,
                             .delivered = atomic_load_explicit(&stream->handed_over, memory_order_relaxed)};
    bool known = stream->here ? stream->outgoing : pccl_path_measure(stream->channel.socket, &path);
    stream->telemetry = (struct pccl_telemetry_connection){
        .peer = stream->peer, .outgoing = stream->outgoing, .slot = stream->slot, .known = known};
    stream->telemetry.sampled_us = now_us;
    if (!known)
        return;
    stream->telemetry.rtt_us = path.rtt_us;
    stream->telemetry.lately_us = path.lately_us;
    stream->telemetry.rate = path.rate;
    stream->telemetry.delivered_bytes = path.delivered;
    stream->telemetry.resent_bytes = path.resent;
    stream->telemetry.busy_us = path.busy_us;
}

uint32_t pccl_engine_connections(struct pccl_engine *engine, struct pccl_telemetry_connection *connections,
                                 uint32_t max)
{
    uint64_t now_us = pccl_now_us();
    uint32_t count = 0;
    uv_mutex_lock(&engine->lock);
    for (struct pccl_stream *stream = pccl_stream_known(engine, engine->known.next); stream;
         stream = pccl_stream_known(engine, stream->in_known.next), count++) {
        if (count >= max)
            continue;
        if (stream->telemetry.sampled_us == 0 || now_us - stream->telemetry.sampled_us >= LOOK_US)
            look_at(stream, now_us);
        connections[count] = stream->telemetry;
    }
    uint64_t first = engine->end_count - pccl_min_u64(engine->end_count, PCCL_TELEMETRY_ENDS_MAX);
    for (uint64_t i = first; i < engine->end_count; i++, count++)
        if (count < max)
            connections[count] = engine->ends[i % PCCL_TELEMETRY_ENDS_MAX];
    uv_mutex_unlock(&engine->lock);
    return count;
}

bool pccl_engine_forget_stream(struct pccl_engine *engine, struct pccl_stream *stream, enum pccl_link_end how)
{
    uint64_t now_us = pccl_now_us();
    uv_mutex_lock(&engine->lock);
    bool known = !pccl_list_is_empty(&stream->in_known);
    if (known) {
        look_at(stream, now_us);
        stream->telemetry.ended_us = now_us;
        stream->telemetry.ended_by = how;
        engine->ends[engine->end_count++ % PCCL_TELEMETRY_ENDS_MAX] = stream->telemetry;
    }
    pccl_list_remove(&stream->in_known);
    for (struct pccl_stream **i = &engine->closed; *i; i = &(*i)->next_closed) {
        if (*i == stream) { /* the caller has closed the stream in the meantime; unlink it first */
            *i = stream->next_closed;
            break;
        }
    }
    uv_mutex_unlock(&engine->lock);
    return known;
}

/* ---- the engine's thread ---- */

void pccl_inbox_take(struct pccl_engine *engine, struct pccl_engine_batch *batch)
{
    uv_mutex_lock(&engine->lock);
    if (engine->end)
        close_streams(engine);
    *batch = (struct pccl_engine_batch){.added = engine->added,
                                        .closed = engine->closed,
                                        .jobs = engine->jobs,
                                        .new_name = engine->new_name,
                                        .members = engine->members,
                                        .member_count = engine->member_count,
                                        .gone = engine->gone,
                                        .rename = engine->rename,
                                        .end = engine->end};
    for (struct pccl_stream *stream = batch->added; stream; stream = stream->next_added)
        stream->taken = true;
    for (struct pccl_engine_job *job = batch->jobs; job; job = job->next) {
        job->queued = false;
        job->due_stop = job->stopped;
        job->due_end = job->end;
        job->next_taken = job->next;
    }
    engine->members = NULL;
    engine->gone = NULL;
    engine->added = engine->closed = NULL;
    engine->added_end = &engine->added;
    engine->jobs = NULL;
    engine->jobs_end = &engine->jobs;
    engine->rename = false;
    uv_mutex_unlock(&engine->lock);
}
