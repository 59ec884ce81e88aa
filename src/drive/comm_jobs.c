/*
 * Operations in the engine. This layer is below the state machine: effects of the state machine start and stop jobs
 * here, and this file does not step the state machine.
 */
#include "drive/comm_jobs.h"
#include "drive/communicator.h"

#include "core/prng.h"
#include "net/heap.h"
#include "peer/queries.h"

#include <string.h>

/* ---- the end of an operation ---- */

/*
 * Returns true if the operation is over. A success is over when the engine no longer needs the buffers, a failure when
 * the engine has released them, because the input is restored only at that time.
 */
static bool is_over(const struct pccl_comm_op *operation)
{
    return operation->decided &&
           (!operation->job || (operation->job->at_rest && pccl_comm_op_has_committed(operation)));
}

static void finish_if_over(struct pccl_comm_op *operation, struct pccl_communicator *comm)
{
    struct pccl_waiter *waiter = operation->waiter;
    if (operation->over || !is_over(operation))
        return;
    operation->over = true;
    if (!waiter)
        return;
    operation->next_over = waiter->over;
    waiter->over = operation;
    pccl_comm_signal(comm, waiter);
}

/* Returns a digest of the operation's name that is the same at all members. */
static uint64_t key_of(const struct pccl_instance *instance)
{
    uint64_t era = pccl_prng_mix(pccl_prng_mix(instance->joint) + instance->sync);
    return pccl_prng_mix(pccl_prng_mix(era + instance->tag) + instance->use);
}

/*
 * Keeps an operation for the next report: a round of the program begins with it, because all earlier ones had ended. If
 * there are too many, the smallest keys stay.
 */
static void note_round(struct pccl_comm_watch *watch, const struct pccl_instance *instance, uint64_t took_us,
                       uint64_t blocked_us)
{
    const struct pccl_seen_round round = {key_of(instance), (uint32_t)pccl_min_u64(took_us, UINT32_MAX),
                                          (uint32_t)pccl_min_u64(pccl_min_u64(blocked_us, took_us), UINT32_MAX)};
    uint32_t at = watch->round_count;
    if (at == PCCL_TELEMETRY_ROUNDS_MAX && watch->rounds[--at].key <= round.key)
        return;
    for (; at > 0 && watch->rounds[at - 1].key > round.key; at--)
        watch->rounds[at] = watch->rounds[at - 1];
    if (at > 0 && watch->rounds[at - 1].key == round.key)
        return; /* two names with equal digests */
    watch->rounds[at] = round;
    watch->round_count += watch->round_count < PCCL_TELEMETRY_ROUNDS_MAX;
}

void pccl_comm_op_unblock(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t now_us)
{
    if (!operation->blocks)
        return;
    const uint64_t waited_us = pccl_comm_time_unblock(&comm->time, now_us);
    operation->blocks = false;
    operation->blocked_us += waited_us;
    comm->time.open_us += waited_us;
}

/* Adds the time for which the program has waited for an ended operation to one of the sums. */
static void count_time(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    struct pccl_comm_time *time = &comm->time;
    const struct pccl_peer_op *op = operation->op;
    const bool good = operation->status == PCCL_OK && (!op || (op->class == PCCL_CLASS_NONE && op->lost_by == PCCL_OK));
    pccl_comm_op_unblock(comm, operation, comm->stepped_us);
    time->open_us -= operation->blocked_us;
    *(good ? &time->times.operating_us : &time->times.lost_us) += operation->blocked_us;
    time->unreported = true;
}

/* Adds an operation to the counters for the reports to the master (comm_watch.h). */
static void count_ended(struct pccl_communicator *comm, const struct pccl_peer_op *op, uint64_t blocked_us)
{
    struct pccl_comm_watch *watch = &comm->watch;
    if (op->class != PCCL_CLASS_NONE || !pccl_is_of_whole_group(&op->instance))
        return; /* operations of only part of the group cannot be compared between members */
    watch->operations++;
    watch->bulk += !op->tiny;
    watch->took_us += comm->stepped_us - op->launched_us;
    if (op->launched_us >= watch->ended_us) {
        comm->time.times.rounds_us += blocked_us;
        note_round(watch, &op->instance, comm->stepped_us - op->launched_us, blocked_us);
    }
    watch->ended_us = comm->stepped_us;
}

void pccl_comm_op_decided(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    const struct pccl_peer_op *op = operation->op;
    PCCL_ASSERT(!operation->decided);
    operation->decided = true;
    if (op && op->from_any)
        operation->members->ids[0] = op->descriptor.root;
    if (operation->job && !operation->job->started)
        pccl_comm_op_job_leave(comm, operation); /* no sender was chosen */
    pccl_comm_telemetry_decided(comm, operation);
    count_time(comm, operation);
    if (op)
        count_ended(comm, op, operation->blocked_us);
    finish_if_over(operation, comm);
}

void pccl_comm_effect_op_decided(void *context, struct pccl_peer_op *op)
{
    struct pccl_communicator *comm = context;
    struct pccl_comm_op *operation = op->user;
    operation->op = op; /* it may end in the step that launches it */
    if (op->class != PCCL_CLASS_NONE || !operation->goes_on) {
        pccl_comm_op_decided(comm, operation);
        return;
    }
    PCCL_ASSERT(!comm->operations.due); /* a step either commits one operation or only aborts */
    comm->operations.due = operation;
}

void pccl_comm_op_arrived(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint32_t rank)
{
    struct pccl_comm_arrivals *arrivals = &operation->arrivals;
    bool again = false; /* true if the part had already arrived before the operation was restarted */
    for (uint32_t i = 0; i < arrivals->count && arrivals->show; i++)
        again = again || arrivals->from[i] == rank;
    if (!arrivals->show || again)
        return;
    PCCL_ASSERT(arrivals->count < operation->members->count);
    arrivals->from[arrivals->count++] = rank;
    pccl_comm_signal(comm, operation->waiter);
}

void pccl_comm_ops_give_up(struct pccl_communicator *comm)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if ((operation->op && !operation->detached) || !operation->decided) {
            operation->op = NULL;
            operation->status = PCCL_INTERNAL;
            pccl_text_format(&operation->reason, "%s", pccl_status_text(PCCL_INTERNAL));
        }
        if (!operation->decided)
            pccl_comm_op_decided(comm, operation);
    }
}

/* ---- jobs ---- */

/* Returns the largest number of flows of an operation: to all others, or to neighbors if not all pairs have links. */
static uint32_t flows_of(uint32_t ranks)
{
    return (uint32_t)pccl_min_u64(2 * ((uint64_t)ranks - 1), PCCL_TELEMETRY_FLOWS_MAX);
}

/* Copies a list into the space after the job, and advances *room past it. Returns NULL if the list is empty. */
static void *put(uint8_t **room, const void *list, size_t bytes)
{
    void *copy = bytes ? memcpy(*room, list, bytes) : NULL;
    *room += bytes;
    return copy;
}

/* Allocates one block for the job and the lists of its config, which are in order of decreasing alignment. */
static struct pccl_comm_op_job *make_job(const struct pccl_peer_participants *all, const struct pccl_op_args *args)
{
    const struct pccl_buffers *given = &args->buffers;
    const size_t flows = flows_of(all->count) * sizeof(struct pccl_telemetry_flow),
                 starts = args->starts ? (args->part_count + 1) * sizeof *args->starts : 0,
                 inputs = given->input.count * sizeof *given->input.list,
                 results = given->result.count * sizeof *given->result.list,
                 sections = given->section_count * sizeof *given->sections, ring = all->count * sizeof *all->ring,
                 positions = all->count * sizeof *all->positions;
    const size_t bytes =
        sizeof(struct pccl_comm_op_job) + flows + starts + inputs + results + sections + ring + positions;
    struct pccl_comm_op_job *job = pccl_allocate(pccl_heap(), bytes);
    if (!job)
        return NULL;
    struct pccl_transfer_config *config = &job->job.config;
    uint8_t *room = (uint8_t *)job->telemetry + flows;
    job->bytes = bytes;
    config->starts = put(&room, args->starts, starts);
    config->buffers = *given;
    config->buffers.input.list = put(&room, given->input.list, inputs);
    config->buffers.result.list = put(&room, given->result.list, results);
    config->buffers.sections = put(&room, given->sections, sections);
    config->ring = job->ring = put(&room, all->ring, ring);
    config->positions = job->positions = put(&room, all->positions, positions);
    config->ranks = all->count;
    config->telemetry = job->telemetry;
    config->telemetry_count = flows_of(all->count);
    return job;
}

struct pccl_comm_op_job *pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                               const struct pccl_op_args *args)
{
    const struct pccl_descriptor *descriptor = &args->launch.descriptor;
    /* A send has the same plan at both ends in any view. */
    struct pccl_peer_participants two = {.count = 2, .ring = operation->members->ids, .positions = (uint32_t[]){0, 1}};
    const struct pccl_peer_participants *all =
        descriptor->collective == PCCL_SEND ? &two : pccl_peer_participants(comm->peer, args->launch.subgroup);
    struct pccl_comm_op_job *job = make_job(all, args);
    if (!job)
        return NULL;
    struct pccl_transfer_config *config = &job->job.config;
    config->descriptor = *descriptor;
    config->cost = all->cost;
    if (pccl_collective_has_root(descriptor->collective)) /* the state machine refuses a root that is not a member */
        config->root = pccl_id_find(all->ring, all->count, &descriptor->root);
    config->tells_arrivals = operation->arrivals.show != NULL;
    config->factor = args->factor;
    config->feedback = pccl_comm_feedback_memory(operation->feedback);
    job->operation = operation;
    operation->job = job;
    job->next = comm->data.jobs;
    if (comm->data.jobs)
        comm->data.jobs->previous = job;
    comm->data.jobs = job;
    return job;
}

static void free_job(struct pccl_communicator *comm, struct pccl_comm_op_job *job)
{
    if (job->previous)
        job->previous->next = job->next;
    else
        comm->data.jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    if (comm->data.lone == job)
        comm->data.lone = NULL;
    pccl_release(pccl_heap(), job, job->bytes);
}

void pccl_comm_op_job_leave(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    struct pccl_comm_op_job *job = operation->job;
    if (!job)
        return;
    operation->job = NULL;
    job->operation = NULL;
    if (!job->started)
        free_job(comm, job);
}

void pccl_comm_jobs_abandon(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (struct pccl_comm_op_job *job = comm->data.jobs, *next; job; job = next) {
        next = job->next;
        if (job->operation && job->operation->waiter == waiter)
            job->operation->waiter = NULL;
        if (!job->started)
            pccl_comm_op_job_leave(comm, job->operation);
    }
}

static void stop(struct pccl_communicator *comm, struct pccl_comm_op_job *job, enum pccl_job_end end)
{
    job->stopped = true;
    pccl_engine_stop(comm->data.engine, &job->job, end);
}

void pccl_comm_op_jobs_stop(struct pccl_communicator *comm)
{
    for (struct pccl_comm_op_job *job = comm->data.jobs; job; job = job->next) {
        if (job->started && !job->stopped)
            stop(comm, job, PCCL_JOB_GIVEN_UP);
    }
}

void pccl_comm_op_job_await(struct pccl_communicator *comm, const struct pccl_comm_op *operation)
{
    pccl_comm_flush(comm);
    pccl_engine_wake(comm->data.engine); /* a parked thread may not have handled the stop yet */
    while (operation->job)
        uv_cond_wait(&comm->changed, &comm->lock);
}

void pccl_comm_op_jobs_await(struct pccl_communicator *comm)
{
    pccl_comm_flush(comm);
    if (comm->data.jobs)
        pccl_engine_wake(comm->data.engine);
    while (comm->data.jobs)
        uv_cond_wait(&comm->changed, &comm->lock);
}

/* ---- effects ---- */

/* Returns true if no other job runs. */
static bool is_alone(const struct pccl_communicator *comm, const struct pccl_comm_op_job *job)
{
    for (const struct pccl_comm_op_job *other = comm->data.jobs; other; other = other->next)
        if (other != job && other->started && !other->stopped)
            return false;
    return true;
}

static void start(struct pccl_communicator *comm, struct pccl_comm_op_job *job, struct pccl_peer_op *op)
{
    job->started = true;
    job->started_us = comm->stepped_us;
    job->job.config.instance = op->instance;
    job->job.config.view = op->start_view;
    struct pccl_comm_data *data = &comm->data;
    data->lone = is_alone(comm, job) ? job : NULL;
    data->promised = pccl_engine_start(data->engine, &job->job, data->caller_drives);
    data->wants_loop = data->caller_drives;
    data->caller_drives = false;
}

void pccl_comm_effect_op_start(void *context, struct pccl_peer_op *op)
{
    struct pccl_comm_op *operation = op->user;
    struct pccl_comm_op_job *job = operation->job;
    if (!job)
        return; /* the job could not be allocated; the state machine is notified after the step */
    if (op->from_any) {
        operation->members->ids[0] = job->ring[0] = op->descriptor.root;
        job->job.config.descriptor = op->descriptor;
        job->job.config.root = 0;
    }
    start(context, job, op);
}

/*
 * Restarts a released job over the current ring. The buffers are unchanged since the launch; the members are the same
 * in a different order.
 */
static void restart(struct pccl_communicator *comm, struct pccl_comm_op_job *job)
{
    struct pccl_transfer_config *config = &job->job.config;
    const struct pccl_peer_participants *all = pccl_peer_participants(comm->peer, 0);
    PCCL_ASSERT(all->count == config->ranks);
    memcpy(job->ring, all->ring, all->count * sizeof *all->ring);
    memcpy(job->positions, all->positions, all->count * sizeof *all->positions);
    memset(job->telemetry, 0, config->telemetry_count * sizeof *job->telemetry);
    if (pccl_collective_has_root(config->descriptor.collective))
        config->root = pccl_id_find(all->ring, all->count, &config->descriptor.root);
    config->cost = all->cost;
    job->restarts = job->stopped = job->at_rest = false;
    start(comm, job, job->operation->op);
}

void pccl_comm_effect_op_restart(void *context, struct pccl_peer_op *op)
{
    struct pccl_communicator *comm = context;
    struct pccl_comm_op *operation = op->user;
    struct pccl_comm_op_job *job = operation->job;
    if (!job || job->restarts)
        return; /* no job, or a job that is not released yet and will start in the latest view */
    job->restarts = true;
    stop(comm, job, PCCL_JOB_BROKEN_OFF);
}

void pccl_comm_effect_op_stop(void *context, struct pccl_peer_op *op)
{
    struct pccl_comm_op *operation = op->user;
    struct pccl_comm_op_job *job = operation->job;
    if (!job || job->stopped)
        return;
    if (op->lost_by != PCCL_OK)
        stop(context, job, PCCL_JOB_GIVEN_UP);
    else
        stop(context, job, op->class == PCCL_CLASS_NONE ? PCCL_JOB_COMMITTED : PCCL_JOB_ABORTED);
}

void pccl_comm_effect_op_gone(void *context, const struct pccl_instance *instance)
{
    struct pccl_communicator *comm = context;
    pccl_engine_forget(comm->data.engine, instance);
}

void pccl_comm_effect_ring_changed(void *context, const struct pccl_id *ring, uint32_t count)
{
    struct pccl_communicator *comm = context;
    pccl_engine_admit(comm->data.engine, ring, count);
}

/* ---- completion of jobs, reported by the engine ---- */

void pccl_comm_job_rests(struct pccl_communicator *comm, struct pccl_comm_op_job *job)
{
    job->at_rest = true;
    if (job->operation)
        finish_if_over(job->operation, comm);
}

static void end_job(struct pccl_communicator *comm, struct pccl_comm_op_job *job)
{
    struct pccl_comm_op *operation = job->operation;
    free_job(comm, job);
    if (!operation)
        return;
    operation->job = NULL;
    finish_if_over(operation, comm);
}

void pccl_comm_job_released(struct pccl_communicator *comm, struct pccl_comm_op_job *job)
{
    if (job->restarts && job->operation && !job->operation->decided) {
        restart(comm, job);
        return;
    }
    if (job->restarts)
        pccl_engine_forget(comm->data.engine, &job->job.config.instance);
    pccl_comm_telemetry_released(comm, job);
    end_job(comm, job);
    uv_cond_broadcast(&comm->changed);
}

void pccl_comm_jobs_lost(struct pccl_communicator *comm)
{
    while (comm->data.jobs)
        end_job(comm, comm->data.jobs);
    uv_cond_broadcast(&comm->changed);
}
