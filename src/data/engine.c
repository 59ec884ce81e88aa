/* The engine's thread, which carries out the requests of other threads and runs the jobs. */
#include "data/internal.h"

#include "net/clock.h"
#include "net/heap.h"
#include "os/socket.h"
#include "os/thread.h"

#include <string.h>

/* ---- connections added by other threads ---- */

enum pccl_status pccl_engine_add(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                                 struct pccl_handover *handover)
{
    struct pccl_stream *stream = pccl_stream_create(engine, peer, outgoing, slot, handover);
    if (!stream)
        return PCCL_MEMORY;
    uv_mutex_lock(&engine->lock);
    if (engine->broken)
        pccl_socket_shutdown(handover->socket);
    pccl_list_append(engine->known.next, &stream->in_known); /* inserts it at the head of the list */
    *engine->added_end = stream;
    engine->added_end = &stream->next_added;
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
    return PCCL_OK;
}

/* ---- jobs ---- */

/*
 * Queues a job that has pending events. Callbacks of the exchange use this, so that events are called only after the
 * exchange has returned.
 */
static void note(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (job->noted)
        return;
    job->noted = true;
    job->next_noted = engine->noted;
    engine->noted = job;
}

static void effect_arrived(void *context, struct pccl_transfer *transfer, uint32_t position)
{
    struct pccl_engine *engine = context;
    engine->events.arrived(engine->events.context, pccl_transfer_user(transfer), position);
}

static void effect_done(void *context, struct pccl_transfer *transfer)
{
    struct pccl_engine_job *job = pccl_transfer_user(transfer);
    job->is_done = true;
    note(context, job);
}

static void effect_at_rest(void *context, struct pccl_transfer *transfer)
{
    struct pccl_engine *engine = context;
    struct pccl_engine_job *job = pccl_transfer_user(transfer);
    engine->resting += !job->is_at_rest;
    job->is_at_rest = true;
    note(engine, job);
}

static void effect_failed(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                          const struct pccl_text *reason)
{
    struct pccl_engine *engine = context;
    engine->events.failed(engine->events.context, pccl_transfer_user(transfer), class, reason);
}

static void effect_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    struct pccl_engine *engine = context;
    engine->events.announced(engine->events.context, from, ready);
}

static void effect_rests(void *context) { pccl_engine_wake(context); }

static void effect_writable(void *context, void *bundle) { pccl_bundle_mark_writable(context, bundle); }

static void start_job(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    struct pccl_text reason;
    job->started = true;
    job->config.user = job;
    enum pccl_status status = pccl_exchange_start(engine->exchange, &job->config, &job->transfer, &reason);
    engine->running += status == PCCL_OK;
    if (status == PCCL_OK) {
        pccl_streams_resume(engine, true);
        return;
    }
    job->transfer = NULL;
    engine->events.failed(engine->events.context, job, PCCL_CLASS_INTERNAL, &reason);
}

static struct pccl_stream *find_sender(const struct pccl_engine *engine, const struct pccl_transfer *transfer)
{
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        struct pccl_stream *first = PCCL_CONTAINER_OF(node, struct pccl_bundle, node)->turn, *stream = first;
        do {
            if (stream->departs && stream->departure.transfer == transfer)
                return stream;
            stream = stream->next_in_bundle;
        } while (stream != first);
    }
    return NULL;
}

/*
 * Cuts all streams that are sending a segment of the transfer. A partly sent segment must not be completed with filler,
 * because its receiver may still learn that the operation succeeded.
 */
static void cut_senders(struct pccl_engine *engine, const struct pccl_transfer *transfer)
{
    while (pccl_transfer_is_sending(transfer)) {
        struct pccl_stream *stream = find_sender(engine, transfer);
        PCCL_ASSERT(stream);
        pccl_stream_cut(stream);
    }
}

/* Returns the number of outgoing links that have sent anything since the last call. */
static uint32_t count_senders(const struct pccl_engine *engine)
{
    uint32_t count = 0;
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        const struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        struct pccl_stream *stream = bundle->turn;
        bool sent = false;
        do {
            sent = sent || stream->begun != stream->looked;
            stream->looked = stream->begun;
            stream = stream->next_in_bundle;
        } while (stream != bundle->turn);
        count += bundle->outgoing && sent;
    }
    return count;
}

/*
 * Measures all outgoing links at the end of an operation. This is cheap for streams that have sent little since the
 * last measurement.
 */
static void measure_links(const struct pccl_engine *engine, const struct pccl_transfer *transfer)
{
    bool shared = count_senders(engine) > 1 || pccl_transfer_shares_lines(transfer);
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        const struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        struct pccl_stream *stream = bundle->turn;
        do {
            if (bundle->outgoing)
                pccl_stream_measure(stream, shared);
            stream = stream->next_in_bundle;
        } while (stream != bundle->turn);
    }
}

static void pause_links(const struct pccl_engine *engine)
{
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node))
        pccl_bundle_pause(PCCL_CONTAINER_OF(node, struct pccl_bundle, node));
}

static void stop_job(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (job->transfer) {
        measure_links(engine, job->transfer);
        job->traffic = pccl_transfer_traffic(job->transfer);
        if (job->due_end == PCCL_JOB_COMMITTED || job->due_end == PCCL_JOB_GIVEN_UP)
            cut_senders(engine, job->transfer);
        if (job->due_end == PCCL_JOB_BROKEN_OFF)
            pccl_exchange_break_off(engine->exchange, job->transfer);
        else
            pccl_exchange_stop(engine->exchange, job->transfer, job->due_end == PCCL_JOB_COMMITTED);
        job->transfer = NULL;
        engine->resting -= job->is_at_rest;
        if (--engine->running == 0)
            pause_links(engine);
    } else if (job->due_end != PCCL_JOB_BROKEN_OFF) { /* never started, but peers may still mention it */
        pccl_exchange_forget(engine->exchange, &job->config.instance);
        pccl_streams_resume(engine, true);
    }
    engine->events.released(engine->events.context, job);
}

static void work_on(struct pccl_engine *engine, struct pccl_engine_job *job)
{
    if (!job->started && !job->due_stop)
        start_job(engine, job);
    else if (job->due_stop)
        stop_job(engine, job); /* the job belongs to its owner again */
    pccl_engine_flush(engine);
}

/* ---- the thread ---- */

/*
 * Changes the id of this peer. First detaches all streams, because connections of the old id that are still sending
 * their goodbyes must not use the lanes of the new id.
 */
static void rename_self(struct pccl_engine *engine, const struct pccl_id *name)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&engine->bundles)))
        pccl_stream_detach(PCCL_CONTAINER_OF(node, struct pccl_bundle, node)->turn);
    pccl_exchange_rename(engine->exchange, name);
}

static void take_news(struct pccl_engine *engine, const struct pccl_engine_batch *batch)
{
    if (!batch->members && !batch->gone)
        return;
    if (batch->members) {
        pccl_exchange_admit(engine->exchange, batch->members, batch->member_count);
        pccl_inbox_release_members(batch->members, batch->member_count);
    }
    for (struct pccl_engine_gone *gone = batch->gone, *next; gone; gone = next) {
        next = gone->next;
        pccl_exchange_forget(engine->exchange, &gone->instance);
        pccl_release(pccl_heap(), gone, sizeof *gone);
    }
    pccl_streams_resume(engine, true);
    pccl_engine_flush(engine);
}

static void on_patience(struct pccl_alarm *alarm)
{
    struct pccl_engine *engine = PCCL_CONTAINER_OF(alarm, struct pccl_engine, patience);
    pccl_exchange_set_time(engine->exchange, pccl_now_us());
    pccl_bundles_lose_patience(engine);
    pccl_engine_flush(engine);
}

static void before_wait(uv_prepare_t *prepare) { pccl_engine_send_wake_bytes(prepare->data); }

static void open_handles(struct pccl_engine *engine)
{
    uv_loop_t *loop = &engine->reactor.loop;
    pccl_alarm_init(&engine->patience, loop, on_patience, engine);
    (void)uv_idle_init(loop, &engine->resends); /* these cannot fail */
    (void)uv_prepare_init(loop, &engine->before_wait);
    (void)uv_prepare_start(&engine->before_wait, before_wait);
    engine->before_wait.data = engine;
}

/* Closes the engine's handles. Wake-up bytes for the last goodbyes are no longer deferred. */
static void close_handles(struct pccl_engine *engine)
{
    engine->deferred.is_off = true;
    pccl_engine_send_wake_bytes(engine);
    pccl_alarm_close(&engine->patience, NULL);
    uv_close((uv_handle_t *)&engine->resends, NULL);
    uv_close((uv_handle_t *)&engine->before_wait, NULL);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_engine *engine = PCCL_CONTAINER_OF(reactor, struct pccl_engine, reactor);
    struct pccl_engine_batch batch;
    bool asked = pccl_owner_take_requests(&engine->owner);
    engine->unsettled = true;
    pccl_exchange_set_time(engine->exchange, pccl_now_us());
    pccl_inbox_take(engine, &batch);
    for (struct pccl_stream *stream = batch.closed, *next; stream; stream = next) {
        next = stream->next_closed;
        pccl_stream_leave(stream);
    }
    pccl_engine_flush(engine);
    if (batch.rename)
        rename_self(engine, &batch.new_name);
    take_news(engine, &batch);
    for (struct pccl_stream *stream = batch.added, *next; stream; stream = next) {
        next = stream->next_added;
        pccl_stream_open(stream, stream->closed_early);
    }
    for (struct pccl_engine_job *job = batch.jobs, *next; job; job = next) {
        next = job->next_taken;
        work_on(engine, job);
    }
    pccl_exchange_continue(engine->exchange);
    pccl_engine_flush(engine);
    if (batch.end) { /* the loop returns after the last goodbye */
        close_handles(engine);
        pccl_reactor_end(reactor);
        engine->ended = true;
    } else if (asked) {
        uv_stop(&reactor->loop); /* the thread may park */
    }
}

/* ---- creation and destruction ---- */

static void release(struct pccl_engine *engine)
{
    pccl_release(pccl_heap(), engine->scratch, sizeof *engine->scratch);
    pccl_release(pccl_heap(), engine, sizeof *engine);
}

static struct pccl_exchange *make_exchange(struct pccl_engine *engine)
{
    struct pccl_exchange_config config = {.hash_seed = engine->config.hash_seed,
                                          .self = engine->config.self,
                                          .kernels = engine->config.kernels,
                                          .scratch_bytes_max = engine->config.scratch_bytes_max,
                                          .window_bytes = engine->config.window_bytes,
                                          .kept_bytes_most = PCCL_ENGINE_COPY_MAX};
    struct pccl_exchange_effects effects = {.context = engine,
                                            .arrived = effect_arrived,
                                            .done = effect_done,
                                            .at_rest = effect_at_rest,
                                            .failed = effect_failed,
                                            .announced = effect_announced,
                                            .rests = effect_rests,
                                            .writable = effect_writable};
    return pccl_exchange_create(&config, pccl_heap(), &effects);
}

static struct pccl_engine *allocate(const struct pccl_engine_config *config, const struct pccl_engine_events *events)
{
    struct pccl_engine *engine = pccl_allocate(pccl_heap(), sizeof *engine);
    if (!engine)
        return NULL;
    engine->scratch = pccl_heap_raw(sizeof *engine->scratch);
    if (!engine->scratch) {
        pccl_release(pccl_heap(), engine, sizeof *engine);
        return NULL;
    }
    engine->config = *config;
    engine->events = *events;
    engine->added_end = &engine->added;
    pccl_list_init(&engine->known);
    pccl_list_init(&engine->waiting);
    engine->jobs_end = &engine->jobs;
    pccl_hash_key_init(&engine->hash, config->hash_seed);
    pccl_table_init(&engine->bundles, pccl_heap(), &engine->hash);
    return engine;
}

int pccl_engine_create(const struct pccl_engine_config *config, const struct pccl_engine_events *events,
                       struct pccl_engine **out, struct pccl_text *reason)
{
    static const struct pccl_reactor_events reactor_events = {.woken = on_wake};
    struct pccl_engine *engine = allocate(config, events);
    int error = UV_ENOMEM;
    if (!engine)
        goto no_engine;
    error = uv_mutex_init(&engine->lock);
    if (error)
        goto no_lock;
    error = pccl_owner_init(&engine->owner);
    if (error)
        goto no_owner;
    error = pccl_reactor_open(&engine->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    open_handles(engine);
    error = UV_ENOMEM;
    engine->exchange = make_exchange(engine);
    if (!engine->exchange)
        goto no_exchange;
    error = pccl_thread_start(&engine->thread, pccl_engine_thread, engine);
    if (error)
        goto no_thread;
    *out = engine;
    return 0;

no_thread:
    pccl_exchange_destroy(engine->exchange);
no_exchange:
    close_handles(engine);
    pccl_reactor_close(&engine->reactor);
no_reactor:
    pccl_owner_fini(&engine->owner);
no_owner:
    uv_mutex_destroy(&engine->lock);
no_lock:
    release(engine);
no_engine:
    pccl_text_format(reason, "cannot start the data plane: %s", uv_strerror(error));
    return error;
}

void pccl_engine_destroy(struct pccl_engine *engine)
{
    uv_mutex_lock(&engine->lock);
    engine->end = true;
    uv_mutex_unlock(&engine->lock);
    pccl_engine_wake(engine);
    (void)uv_thread_join(&engine->thread);
    if (engine->broken)
        return;
    pccl_inbox_drop_news(engine);
    pccl_exchange_destroy(engine->exchange);
    pccl_table_fini(&engine->bundles);
    pccl_reactor_close(&engine->reactor);
    pccl_owner_fini(&engine->owner);
    uv_mutex_destroy(&engine->lock);
    release(engine);
}
