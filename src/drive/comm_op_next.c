#include "drive/comm_op_next.h"
#include "drive/comm_jobs.h"
#include "drive/comm_machine.h"
#include "drive/communicator.h"

#include "peer/queries.h"

/*
 * Ends the operation after a failed launch. The other members wait for this launch, so this peer leaves the run, unless
 * it has already left or the group has ended.
 */
static void leave_run(struct pccl_communicator *comm, struct pccl_comm_op *operation, enum pccl_status status)
{
    operation->status = status;
    if (status == PCCL_USAGE) {
        operation->status = pccl_comm_why_unconnected(comm, &operation->reason);
    } else if (operation->handle->group && !operation->handle->group->open) {
        operation->status = PCCL_PEER_LOST;
        pccl_text_format(&operation->reason, "the group is closed"); /* closed by another thread of this peer */
    } else {
        pccl_text_format(&operation->reason, "%s; this peer leaves the run", pccl_status_text(status));
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
    }
    pccl_comm_op_job_leave(comm, operation);
    if (!operation->decided)
        pccl_comm_op_decided(comm, operation);
}

/* Continues with the second operation, which has been launched; this peer cannot undo a launch. */
static void follow(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_peer_op *op,
                   bool has_room)
{
    operation->op = op;
    if (operation->job && !operation->job->started)
        pccl_comm_op_job_leave(comm, operation);
    if (op->state == PCCL_OP_DECIDED) {
        if (!operation->decided)
            pccl_comm_op_decided(comm, operation);
        return;
    }
    struct pccl_peer_event awaited = {.kind = PCCL_PEER_OP_AWAIT, .op = op, .blocked = true};
    if (operation->awaited || operation->wait_expires_us)
        pccl_comm_step(comm, &awaited);
    if (has_room || operation->decided)
        return;
    struct pccl_text reason;
    pccl_text_format(&reason, "out of memory for a result of %" PRIu64 " bytes", op->descriptor.count);
    struct pccl_peer_event failed = {
        .kind = PCCL_PEER_OP_FAILED, .op = op, .class = PCCL_CLASS_INTERNAL, .reason = &reason};
    pccl_comm_step(comm, &failed);
}

void pccl_comm_op_next(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_op_args *args,
                       bool has_room)
{
    struct pccl_peer_op *before = operation->op;
    const struct pccl_group_handle *group = operation->handle->group; /* this peer may have closed the group */
    args->launch = (struct pccl_launch){.subgroup = before->instance.subgroup,
                                        .tag = before->instance.tag,
                                        .descriptor = args->launch.descriptor,
                                        .members = group ? NULL : operation->members->ids,
                                        .member_count = group ? 0 : operation->members->count,
                                        .after = before,
                                        .deadline_us = before->deadline_us,
                                        .user = operation};
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &args->launch};
    has_room = has_room && pccl_peer_participants(comm->peer, args->launch.subgroup) &&
               pccl_comm_op_job_make(comm, operation, args) != NULL;
    operation->goes_on = false;
    operation->op = NULL;
    enum pccl_status status = pccl_comm_step(comm, &event);
    if (status == PCCL_OK)
        follow(comm, operation, event.op, has_room);
    else if (!operation->decided)
        leave_run(comm, operation, status);
}
