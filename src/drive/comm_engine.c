/*
 * Events of the engine. They run on the thread that owns the engine's loop, take the communicator's lock and step the
 * state machine.
 */
#include "config/errors.h"
#include "drive/communicator.h"
#include "drive/comm_engine.h"
#include "drive/comm_links.h"
#include "drive/comm_machine.h"
#include "os/cpu.h"
#include "kernels/kernels.h"

/* ---- events of the engine ---- */

static struct pccl_comm_op_job *enter(void *context, struct pccl_engine_job *engine_job)
{
    struct pccl_comm_op_job *job = PCCL_CONTAINER_OF(engine_job, struct pccl_comm_op_job, job);
    pccl_comm_enter(context);
    if (job->operation)
        job->operation->traffic = engine_job->traffic;
    return job;
}

static void on_arrived(void *context, struct pccl_engine_job *engine_job, uint32_t position)
{
    struct pccl_comm_op_job *job = enter(context, engine_job);
    if (job->operation && !job->stopped)
        pccl_comm_op_arrived(context, job->operation, position);
    pccl_comm_leave(context);
}

static void on_done(void *context, struct pccl_engine_job *engine_job, bool at_rest)
{
    struct pccl_comm_op_job *job = enter(context, engine_job);
    job->at_rest = at_rest;
    if (!job->stopped)
        pccl_comm_step(context, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_DONE, .op = job->operation->op});
    pccl_comm_leave(context);
}

static void on_at_rest(void *context, struct pccl_engine_job *engine_job)
{
    pccl_comm_job_rests(context, enter(context, engine_job));
    pccl_comm_leave(context);
}

static void on_failed(void *context, struct pccl_engine_job *engine_job, enum pccl_class class,
                      const struct pccl_text *reason)
{
    struct pccl_comm_op_job *job = enter(context, engine_job);
    if (!job->stopped)
        pccl_comm_step(context,
                       &(struct pccl_peer_event){
                           .kind = PCCL_PEER_OP_FAILED, .op = job->operation->op, .class = class, .reason = reason});
    pccl_comm_leave(context);
}

static void on_released(void *context, struct pccl_engine_job *engine_job)
{
    pccl_comm_job_released(context, enter(context, engine_job));
    pccl_comm_leave(context);
}

static void on_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    pccl_comm_enter(context);
    pccl_comm_step(context, &(struct pccl_peer_event){.kind = PCCL_PEER_ANNOUNCED, .peer = *from, .ready = ready});
    pccl_comm_leave(context);
}

static void on_ended(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot, enum pccl_link_end how,
                     bool purposely, const struct pccl_text *rejected)
{
    pccl_comm_enter(context);
    pccl_comm_link_ended(context, peer, outgoing, slot, how, purposely, rejected);
    pccl_comm_leave(context);
}

/* Ends the communicator after the engine broke; the engine has released everything. */
static void on_broken(void *context)
{
    struct pccl_communicator *comm = context;
    pccl_comm_enter_after_fault(comm);
    pccl_comm_break(comm, "during a data transfer; buffers reduced in place may be partly overwritten");
    pccl_comm_jobs_lost(comm);
    pccl_comm_leave(comm);
}

/* ---- link measurements from operations ---- */

void pccl_comm_measure(struct pccl_communicator *comm)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_MEASURED};
    for (struct pccl_table_node *node = pccl_table_first(&comm->links.by_peer); node;
         node = pccl_table_after(&comm->links.by_peer, node)) {
        const struct pccl_comm_link *link = PCCL_CONTAINER_OF(node, struct pccl_comm_link, by_peer);
        event.peer = link->peer;
        if (link->outgoing &&
            pccl_engine_link_figures(comm->data.engine, &link->peer, &event.rtt_us, &event.rate, &event.shared))
            pccl_comm_step(comm, &event);
    }
}

/* ---- starting ---- */

enum pccl_status pccl_comm_engine_start(struct pccl_communicator *comm, struct pccl_text *reason)
{
    if (comm->data.engine)
        return PCCL_OK;
    struct pccl_engine_config config = {.hash_seed = comm->hash_seed,
                                        .kernels = pccl_kernels_for(pccl_cpu_features()),
                                        .scratch_bytes_max = comm->params.scratch_bytes,
                                        .window_bytes = comm->params.window_bytes,
                                        .linger_ms = PCCL_COMMUNICATOR_LINGER_MS,
                                        .spin_us = comm->params.spin_us};
    struct pccl_engine_events events = {.context = comm,
                                        .arrived = on_arrived,
                                        .done = on_done,
                                        .at_rest = on_at_rest,
                                        .failed = on_failed,
                                        .released = on_released,
                                        .announced = on_announced,
                                        .ended = on_ended,
                                        .broken = on_broken};
    int error = pccl_engine_create(&config, &events, &comm->data.engine, reason);
    if (error == 0)
        return PCCL_OK;
    comm->data.engine = NULL;
    return pccl_errors_of_system(error);
}
