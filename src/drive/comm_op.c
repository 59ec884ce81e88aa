#include "drive/communicator.h"
#include "drive/comm_op.h"
#include "drive/comm_callers.h"
#include "drive/comm_contribution.h"
#include "drive/comm_jobs.h"
#include "drive/comm_machine.h"
#include "drive/comm_sight.h"
#include "drive/comm_wait.h"
#include "drive/cpu.h"

#include "kernels/kernels.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "wire/choice.h"
#include "wire/packing.h"
#include "wire/tiny.h"

#include <string.h>

/* A caller that polls with short awaits counts as waiting in between. */
enum { WAIT_EXPIRY_MS = 500 };

/* Names of sends begin here: callers are not expected to choose such tags. */
#define SEND_NAMES UINT64_C(0x9C5EAD0000000000)

/* ---- launch ---- */

static void cancel_wait_expiry(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    if (operation->wait_expires_us)
        comm->operations.expiring_waits--;
    operation->wait_expires_us = 0;
}

/* Any number; handles that use the same tags should not share keys. */
static uint64_t key_of(const struct pcclComm_t *handle, uint64_t name)
{
    return handle->group ? name + handle->key * UINT64_C(0x9E3779B97F4A7C15) : name;
}

struct pccl_comm_op *pccl_comm_op_find(const struct pcclComm_t *handle, uint64_t name)
{
    struct pccl_table_node *node = pccl_table_find(&handle->comm->operations.by_tag, key_of(handle, name));
    for (; node; node = pccl_table_find_next(node)) {
        struct pccl_comm_op *operation = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if (operation->handle == handle && !operation->founds && operation->name == name)
            return operation;
    }
    return NULL;
}

static bool is_send(const struct pccl_op_args *args) { return args->descriptor.collective == PCCL_SEND; }

/* Many of one tag may be under way, so each gets a name that no operation of the handle has. */
static uint64_t name_of(const struct pcclComm_t *handle, const struct pccl_op_args *args)
{
    struct pccl_comm_ops *operations = &handle->comm->operations;
    if (!is_send(args))
        return args->tag;
    do
        operations->last_send++;
    while (pccl_comm_op_find(handle, SEND_NAMES + operations->last_send));
    return SEND_NAMES + operations->last_send;
}

static void explain_refusal(const struct pccl_communicator *comm, enum pccl_status status, uint64_t tag,
                            struct pccl_text *reason)
{
    switch (status) {
    case PCCL_USAGE:
        if (!pccl_comm_is_connected(comm))
            (void)pccl_comm_why_unconnected(comm, reason);
        else
            pccl_text_format(reason, "the topology is being updated by another thread");
        break;
    case PCCL_ARGUMENT:
        pccl_text_format(reason, "the tag %" PRIu64 " is in use: launched and not yet awaited", tag);
        break;
    case PCCL_TOO_FEW_PEERS: pccl_text_format(reason, "this peer is alone in its group"); break;
    case PCCL_LIMIT: pccl_text_format(reason, "too many operations or tags are outstanding"); break;
    default: pccl_text_format(reason, "%s", pccl_status_text(status)); break;
    }
}

/* *subgroup: what the machine knows of it; NULL: this peer is alone in it. */
static enum pccl_status check_open(const struct pccl_communicator *comm, const struct pccl_group_handle *group,
                                   const struct pccl_peer_subgroup **subgroup, struct pccl_text *reason)
{
    if (!pccl_id_equal(&comm->id, &group->self)) {
        pccl_text_format(reason, "the group is of an earlier connection of its communicator, and over");
        return PCCL_USAGE;
    }
    if (!group->subgroup)
        return PCCL_OK;
    *subgroup = pccl_peer_subgroup(comm->peer, group->subgroup);
    if (!*subgroup) {
        pccl_text_format(reason, "the group is closed"); /* while this thread was on its way */
        return PCCL_USAGE;
    }
    if (!(*subgroup)->ended)
        return PCCL_OK;
    pccl_text_format(reason, "the group has ended: %s", (*subgroup)->reason.bytes);
    return PCCL_PEER_LOST;
}

/* The reason for a refusal for which the machine gave none. *subgroup: of a group of several. */
static enum pccl_status may_launch(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                   const struct pccl_peer_subgroup **subgroup, struct pccl_text *reason)
{
    *subgroup = NULL;
    if (!pccl_comm_is_connected(handle->comm))
        return pccl_comm_why_unconnected(handle->comm, reason);
    enum pccl_status status = handle->group ? check_open(handle->comm, handle->group, subgroup, reason) : PCCL_OK;
    if (status != PCCL_OK || is_send(args) || !pccl_comm_op_find(handle, args->tag))
        return status;
    explain_refusal(handle->comm, PCCL_ARGUMENT, args->tag, reason);
    return PCCL_ARGUMENT;
}

/* Lists whom the caller counts on; where no list matters, who takes part. NULL: out of memory. */
static struct pccl_comm_members *list_members(const struct pcclComm_t *handle, const struct pccl_op_args *args)
{
    if (args->members)
        return pccl_comm_members_copy(handle->comm, args->members, args->member_count);
    if (handle->group)
        return pccl_comm_members_copy(handle->comm, handle->group->members, handle->group->count);
    return pccl_comm_members_share(handle->comm, !pccl_op_args_needs_members(args));
}

/* The two of a send, the source first. */
static enum pccl_status find_pair(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                  const struct pccl_comm_members *peers, struct pccl_id pair[2],
                                  struct pccl_text *reason)
{
    const struct pccl_communicator *comm = handle->comm;
    if (peers->count < 2)
        return PCCL_TOO_FEW_PEERS;
    pair[1] = comm->id;
    if (pccl_op_args_is_from_anybody(args))
        return PCCL_OK; /* pair[0] is 0 until somebody is chosen */
    if (args->root >= peers->count) {
        pccl_text_format(reason, "the other peer is rank %u, but there are %u members", args->root, peers->count);
        return PCCL_ARGUMENT;
    }
    const struct pccl_id *other = &peers->ids[args->root];
    const struct pccl_group_handle *group = handle->group;
    pair[args->sends ? 0 : 1] = comm->id;
    pair[args->sends ? 1 : 0] = *other;
    if (pccl_id_equal(other, &comm->id))
        pccl_text_format(reason, "rank %u is this peer, which cannot send to itself", args->root);
    else if (pccl_id_is_zero(other)) /* else it would be anybody */
        pccl_text_format(reason, "rank %u of the list of members has the id of nobody", args->root);
    else if (group && pccl_id_find(group->members, group->count, other) == group->count)
        pccl_text_format(reason, "peer %s is not in the group, whose members never change", pccl_id_str(other));
    else
        return PCCL_OK;
    return PCCL_ARGUMENT;
}

static void release(struct pccl_comm_op *operation)
{
    pccl_comm_blobs_drop(operation);
    pccl_release(pccl_heap(), operation->arrivals.from, operation->member_count * sizeof *operation->arrivals.from);
    pccl_release(pccl_heap(), operation->tensors, operation->tensor_count * sizeof *operation->tensors);
    pccl_comm_feedback_end(operation->feedback, operation->contributed);
    pccl_comm_members_drop(operation->list);
    pccl_release(pccl_heap(), operation, sizeof *operation);
}

/* Replaces the list of possible participants of a send by its sender and receiver. On failure *list is NULL. */
static enum pccl_status choose_pair(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                    struct pccl_comm_members **list, struct pccl_text *reason)
{
    struct pccl_id pair[2] = {{{0}}};
    enum pccl_status status = find_pair(handle, args, *list, pair, reason);
    pccl_comm_members_drop(*list);
    *list = status == PCCL_OK ? pccl_comm_members_copy(handle->comm, pair, PCCL_COUNT_OF(pair)) : NULL;
    return status == PCCL_OK && !*list ? PCCL_MEMORY : status;
}

/* It is not launched yet. */
static enum pccl_status make(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                             struct pccl_comm_op **made, struct pccl_text *reason)
{
    struct pccl_comm_members *list = list_members(handle, args);
    enum pccl_status status = list ? PCCL_OK : PCCL_MEMORY;
    if (list && is_send(args))
        status = choose_pair(handle, args, &list, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_comm_op *operation = pccl_allocate(pccl_heap(), sizeof *operation);
    if (!operation) {
        pccl_comm_members_drop(list);
        return PCCL_MEMORY;
    }
    operation->handle = handle;
    operation->list = list;
    operation->members = list->ids;
    operation->member_count = list->count;
    if (!pccl_coalesced_copy(operation, args)) {
        release(operation);
        return PCCL_MEMORY;
    }
    *made = operation;
    return PCCL_OK;
}

/* A list that the caller of an operation in a group gave. */
static enum pccl_status check_group(const struct pccl_group_handle *group, const struct pccl_comm_op *operation,
                                    struct pccl_text *reason)
{
    uint32_t same = 0;
    while (same < operation->member_count && same < group->count &&
           pccl_id_equal(&operation->members[same], &group->members[same]))
        same++;
    if (same == operation->member_count && same == group->count)
        return PCCL_OK;
    pccl_text_format(reason, "the group has other members, which never change, than this call counts on");
    return PCCL_MEMBERS_CHANGED;
}

/* A list that the caller gave. One that is wrong in another way is told from the members by all peers alike. */
static enum pccl_status check_members(const struct pcclComm_t *handle, const struct pccl_comm_op *operation,
                                      struct pccl_text *reason)
{
    uint32_t count, i = 0;
    if (handle->group)
        return check_group(handle->group, operation, reason);
    const struct pccl_member *known = pccl_peer_members(handle->comm->peer, &count);
    while (i < operation->member_count && i < count && pccl_id_equal(&operation->members[i], &known[i].peer))
        i++; /* none of these comes twice among themselves, and usually these are all */
    for (; i < operation->member_count; i++) {
        if (pccl_id_find(operation->members, operation->member_count, &operation->members[i]) == i)
            continue; /* the second one is found out at its place */
        pccl_text_format(reason, "the list of members names peer %s twice", pccl_id_str(&operation->members[i]));
        return PCCL_ARGUMENT;
    }
    return PCCL_OK;
}

/* What depends on who the members are; without ranks nothing does, and the buffers have been checked. */
static enum pccl_status place(const struct pcclComm_t *handle, struct pccl_comm_op *operation,
                              const struct pccl_op_args *args, struct pccl_descriptor *descriptor,
                              struct pccl_text *reason)
{
    enum pccl_status status = args->members ? check_members(handle, operation, reason) : PCCL_OK;
    if (status != PCCL_OK)
        return status;
    operation->rank = operation->list->rank;
    if (!pccl_op_args_needs_members(args))
        return PCCL_OK;
    if (operation->rank == operation->member_count) {
        pccl_text_format(reason, "this peer is not in the list of members");
        return PCCL_ARGUMENT;
    }
    if (pccl_collective_has_root(descriptor->collective)) {
        if (args->root >= operation->member_count) {
            pccl_text_format(reason, "the root is rank %u, but there are %u members", args->root,
                             operation->member_count);
            return PCCL_ARGUMENT;
        }
        descriptor->root = operation->members[args->root];
    }
    if (args->starts && args->part_count != operation->member_count) {
        pccl_text_format(reason, "counts has %u numbers, but there are %u members", args->part_count,
                         operation->member_count);
        return PCCL_ARGUMENT;
    }
    return pccl_op_args_check_buffers(args, operation->member_count, operation->rank, reason);
}

static enum pccl_status place_in_pair(struct pccl_comm_op *operation, const struct pccl_op_args *args,
                                      struct pccl_launch *launch, struct pccl_text *reason)
{
    operation->rank = args->sends ? 0 : 1;
    launch->descriptor.root = operation->members[0];
    launch->other = operation->members[1 - operation->rank];
    return pccl_op_args_check_buffers(args, operation->member_count, operation->rank, reason);
}

static void explain_refused_send(const struct pccl_communicator *comm, enum pccl_status status,
                                 const struct pccl_id *other, bool tiny, struct pccl_text *reason)
{
    uint32_t count;
    (void)pccl_peer_view_members(comm->peer, &count);
    if (status == PCCL_PEER_LOST)
        pccl_text_format(reason, "peer %s is no member of the group any more", pccl_id_str(other));
    else if (status == PCCL_LIMIT && !tiny && !pccl_id_is_zero(other) && !pccl_peer_has_links_with(comm->peer, other))
        pccl_text_format(reason,
                         "in a group of %u peers not all pairs have links: send %u bytes at most, or create a group of "
                         "the two first",
                         count, pccl_peer_tiny_bytes_max(comm->peer));
    pccl_peer_add_names(comm->peer, reason);
}

/*
 * Where the outcome of a tiny operation goes. Whether it is one depends only on what all peers have
 * alike.
 */
static void plan_tiny(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                      const struct pccl_op_args *args, struct pccl_launch *launch)
{
    struct pccl_op_args_extent extent = pccl_op_args_extent(args, operation->member_count, operation->rank);
    bool is_root = pccl_id_equal(&launch->descriptor.root, &comm->id);
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(&launch->descriptor, operation->member_count, is_root);
    operation->tiny = sizes.largest <= pccl_peer_tiny_bytes_max(comm->peer);
    operation->result_bytes = extent.result;
    if (!operation->tiny)
        return;
    const struct pccl_collective_row *row = pccl_collective(args->descriptor.collective);
    operation->outcome_parts = 1;
    if (pccl_row_exchanges(row)) { /* one from each contribution */
        operation->outcome_parts = operation->member_count;
        operation->outcome_skip = extent.result / operation->member_count * operation->rank;
    } else if (row->input.amount == PCCL_PART_FOR_EACH) {
        operation->outcome_skip = extent.own;
    }
    operation->traffic = (struct pccl_traffic){sizes.contribution, sizes.result};
    launch->tiny = true;
    const void *input = args->tensors ? args->tensors : args->input; /* those are put together */
    launch->payload = sizes.contribution ? input : NULL;
    launch->payload_bytes = (uint32_t)sizes.contribution;
}

static enum pccl_status step(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                             const struct pccl_launch *launch)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = launch};
    enum pccl_status status = pccl_comm_step(comm, &event);
    if (status == PCCL_OK)
        operation->op = event.op;
    else if (operation->job && operation->job->started)
        pccl_comm_op_job_await(comm, operation); /* the machine broke in this step and stopped the job */
    return status;
}

static enum pccl_status begin_feedback(const struct pcclComm_t *handle, struct pccl_comm_op *operation,
                                       const struct pccl_op_args *args, const struct pccl_descriptor *descriptor,
                                       struct pccl_text *reason)
{
    struct pccl_op_args_extent extent = pccl_op_args_extent(args, operation->member_count, operation->rank);
    uint64_t count = args->tensors ? pccl_coalesced_elements(args)
                                   : extent.input / pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype);
    return pccl_comm_feedback_begin(handle, args->tag, descriptor, count, &operation->feedback, reason);
}

/* Which codec an automatic one is. */
static void choose(const struct pccl_communicator *comm, const struct pccl_op_args *args, struct pccl_launch *launch)
{
    launch->descriptor.codec_block = args->descriptor.codec_block;
    launch->descriptor.codec_scale = args->descriptor.codec_scale;
    launch->descriptor.codec_rounding = args->descriptor.codec_rounding;
    launch->choice = pccl_peer_choose(comm->peer, launch->subgroup, launch->tag, &launch->descriptor);
}

/*
 * What is kept is in the elements' own numbers, so it does not matter how these were packed. Where an
 * automatic codec leaves as many bits that next to nothing is lost, it waits.
 */
static bool feeds_back(const struct pccl_op_args *args, const struct pccl_descriptor *descriptor)
{
    return args->feedback && (!pccl_choice_is_automatic(&args->descriptor) || descriptor->codec >= PCCL_PACKING_SCALED);
}

/* Of one that is meant. */
static enum pccl_status prepare(const struct pcclComm_t *handle, struct pccl_comm_op *operation,
                                const struct pccl_op_args *args, const struct pccl_peer_subgroup *subgroup,
                                struct pccl_launch *launch, struct pccl_text *reason)
{
    struct pccl_communicator *comm = handle->comm;
    enum pccl_status status = is_send(args) ? place_in_pair(operation, args, launch, reason)
                                            : place(handle, operation, args, &launch->descriptor, reason);
    if (status != PCCL_OK)
        return status;
    if (pccl_collective_is_of_blobs(args->descriptor.collective))
        status = pccl_comm_blobs_plan(comm, operation, args, launch, reason);
    else
        plan_tiny(comm, operation, args, launch);
    if (status != PCCL_OK)
        return status;
    bool has_peers = handle->group ? subgroup != NULL : !pccl_peer_is_alone(comm->peer);
    /* A receive from anybody may be launched alone, if others are known to be coming, and lives on when they are here.
     */
    bool moves = !operation->tiny && (has_peers || is_send(args));
    if (pccl_choice_is_automatic(&args->descriptor) && moves)
        choose(comm, args, launch);
    if (feeds_back(args, &launch->descriptor))
        status = begin_feedback(handle, operation, args, &launch->descriptor, reason);
    if (status != PCCL_OK)
        return status;
    operation->codec = moves ? launch->descriptor.codec : PCCL_CODEC_NONE;
    return !moves || pccl_comm_op_job_make(comm, operation, args, &launch->descriptor, subgroup) ? PCCL_OK
                                                                                                 : PCCL_MEMORY;
}

/* The operation is not in the table yet. After a failure its job, if any, is not the engine's. */
static enum pccl_status launch(const struct pcclComm_t *handle, struct pccl_comm_op *operation,
                               const struct pccl_op_args *args, const struct pccl_peer_subgroup *subgroup,
                               struct pccl_text *reason)
{
    bool counts_on_members = !handle->group && pccl_op_args_needs_members(args);
    struct pccl_launch launch = {.subgroup = subgroup ? subgroup->name : 0,
                                 .tag = args->tag,
                                 .descriptor = args->descriptor,
                                 .members = counts_on_members ? operation->members : NULL,
                                 .member_count = counts_on_members ? operation->member_count : 0,
                                 .deadline_us = args->deadline_us,
                                 .given_up = args->given_up,
                                 .reason = args->reason,
                                 .refusal = reason,
                                 .user = operation};
    uint8_t made[PCCL_TINY_BYTES_MAX];
    if (pccl_choice_is_automatic(&args->descriptor))
        pccl_choice_apply(PCCL_LEVEL_EXACT, &launch.descriptor, &launch.descriptor); /* until it is chosen */
    bool is_meant = args->given_up == PCCL_CLASS_NONE;
    enum pccl_status status = is_meant ? prepare(handle, operation, args, subgroup, &launch, reason) : PCCL_OK;
    if (status != PCCL_OK)
        return status;
    if (handle->group && !subgroup)
        return PCCL_TOO_FEW_PEERS; /* the machine knows nothing of a group of one */
    if (launch.payload && pccl_contribution_make(args, operation, made, launch.payload_bytes))
        launch.payload = made;
    status = step(handle->comm, operation, &launch);
    if (status != PCCL_OK && is_send(args))
        explain_refused_send(handle->comm, status, &launch.other, launch.tiny, reason);
    return status;
}

/* This peer is alone in its group: it has what the others would send, and nobody need be told. */
static enum pccl_status do_alone(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                 const struct pccl_op_args *args, struct pccl_text *reason)
{
    if (operation->member_count > 1 && pccl_op_args_needs_members(args)) {
        pccl_text_format(reason, "of the %u members that this peer counts on it is the only one left",
                         operation->member_count);
        return PCCL_MEMBERS_CHANGED;
    }
    enum pccl_status status = operation->blobs ? pccl_comm_blobs_alone(comm, operation, reason) : PCCL_OK;
    if (status != PCCL_OK)
        return status;
    pccl_contribution_alone(args, operation);
    PCCL_ASSERT(operation->member_count == 1);
    operation->world = 1;
    operation->traffic = (struct pccl_traffic){0};
    pccl_comm_op_decided(comm, operation, NULL, true);
    return PCCL_OK;
}

/* operation: NULL if there is none. */
static void refuse(struct pccl_communicator *comm, struct pccl_comm_op *operation, enum pccl_status status,
                   const struct pccl_epoch *known, struct pccl_why *why)
{
    if (status == PCCL_TOO_FEW_PEERS || status == PCCL_MEMBERS_CHANGED || status == PCCL_PEER_LOST)
        pccl_peer_departed(comm->peer, known, NULL, &why->details.departed);
    if (!operation)
        return;
    pccl_comm_op_job_leave(comm, operation);
    release(operation);
}

/* From here on it can be found by its name. */
static void begin(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t tag, uint64_t name)
{
    const struct pccl_peer_op *op = operation->op;
    operation->name = name;
    pccl_table_insert(&comm->operations.by_tag, &operation->by_tag, key_of(operation->handle, name));
    operation->why.details = (struct pccl_details){.launched = true, .tag = tag, .sequence = op ? op->instance.use : 0};
    bool may_start = op && op->state == PCCL_OP_OPEN;
    if (operation->job && !operation->job->started && !may_start) /* decided before it started, or it never will */
        pccl_comm_op_job_leave(comm, operation);
    pccl_comm_sight_launched(comm, operation, op);
    if (op && op->state == PCCL_OP_DECIDED && !operation->decided)
        pccl_comm_op_decided(comm, operation, op, op->class == PCCL_CLASS_NONE);
}

enum pccl_status pccl_comm_op_launch(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                     struct pccl_waiter *waiter, struct pccl_comm_op **operation_out,
                                     struct pccl_why *why)
{
    struct pccl_communicator *comm = handle->comm;
    struct pccl_comm_op *operation = NULL;
    const struct pccl_peer_subgroup *subgroup;
    enum pccl_status status = may_launch(handle, args, &subgroup, &why->reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_epoch known = pccl_peer_attributes(comm->peer).epoch;
    status = make(handle, args, &operation, &why->reason);
    if (operation) {
        operation->result = args->result;
        operation->waiter = waiter;
        status = launch(handle, operation, args, subgroup, &why->reason);
        if (status == PCCL_TOO_FEW_PEERS && args->alone_ok && args->given_up == PCCL_CLASS_NONE)
            status = do_alone(comm, operation, args, &why->reason);
    }
    if (status != PCCL_OK) {
        if (!why->reason.length)
            explain_refusal(comm, status, args->tag, &why->reason);
        refuse(comm, operation, status, &known, why);
        return status;
    }
    begin(comm, operation, args->tag, name_of(handle, args));
    *operation_out = operation;
    return PCCL_OK;
}

uint64_t pccl_comm_op_deadline(const struct pccl_comm_op *operation)
{
    return operation->op ? operation->op->deadline_us : UINT64_MAX; /* NULL: this peer is alone, and it has ended */
}

enum pccl_status pccl_comm_op_launch_founding(struct pccl_communicator *comm, const struct pccl_founding *founding,
                                              struct pccl_comm_op **operation_out, struct pccl_why *why)
{
    struct pccl_epoch known = pccl_peer_attributes(comm->peer).epoch;
    struct pccl_launch launch = {
        .descriptor = {.collective = PCCL_FOUND, .count = founding->count, .label = founding->label},
        .tiny = true,
        .members = founding->members,
        .member_count = founding->count,
        .timeout_ms = founding->timeout_ms};
    struct pccl_comm_op *operation = pccl_allocate(pccl_heap(), sizeof *operation);
    enum pccl_status status = PCCL_MEMORY;
    if (operation) {
        *operation = (struct pccl_comm_op){.handle = &comm->handle, .founds = true, .tiny = true};
        launch.user = operation;
        status = step(comm, operation, &launch);
    }
    if (status == PCCL_OK) {
        begin(comm, operation, 0, 0);
        *operation_out = operation;
        return PCCL_OK;
    }
    if (status == PCCL_ARGUMENT) /* the list has been checked */
        pccl_text_format(&why->reason, "a group of the same members is being founded by another thread");
    else if (status == PCCL_LIMIT)
        pccl_text_format(&why->reason, "this peer is in too many groups, or of too many members");
    else
        explain_refusal(comm, status, 0, &why->reason);
    refuse(comm, operation, status, &known, why);
    return status;
}

enum pccl_status pccl_comm_op_check(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                    struct pccl_text *reason)
{
    struct pccl_descriptor descriptor = args->descriptor;
    const struct pccl_peer_subgroup *subgroup;
    enum pccl_status status = may_launch(handle, args, &subgroup, reason);
    if (status != PCCL_OK || !pccl_op_args_needs_members(args))
        return status;
    struct pccl_comm_op *operation = NULL;
    status = make(handle, args, &operation, reason);
    if (operation) {
        status = place(handle, operation, args, &descriptor, reason);
        release(operation);
    } else {
        explain_refusal(handle->comm, status, args->tag, reason);
    }
    return status;
}

bool pccl_comm_op_is_ending(const struct pccl_comm_op *operation)
{
    return operation->decided || operation->op->abort_sent;
}

/* ---- the end ---- */

static enum pccl_status status_of(enum pccl_class class)
{
    switch (class) {
    case PCCL_CLASS_NONE: return PCCL_OK;
    case PCCL_CLASS_PEER_LOST: return PCCL_PEER_LOST;
    case PCCL_CLASS_MISMATCH: return PCCL_MISMATCH;
    case PCCL_CLASS_ABORTED: return PCCL_ABORTED;
    case PCCL_CLASS_DEADLINE: return PCCL_TIMEOUT;
    case PCCL_CLASS_MEMBERS_CHANGED: return PCCL_MEMBERS_CHANGED;
    case PCCL_CLASS_INTERNAL:
    case PCCL_CLASS_COUNT: break;
    }
    return PCCL_INTERNAL;
}

static void take_result(const struct pccl_comm_op *operation, const struct pccl_peer_op *op)
{
    size_t part = operation->result_bytes / operation->outcome_parts,
           all = op->payload_bytes / operation->outcome_parts;
    PCCL_ASSERT(operation->outcome_skip + part <= all);
    for (uint32_t i = 0; i < operation->outcome_parts; i++)
        memcpy((uint8_t *)operation->result + i * part, op->payload + i * all + operation->outcome_skip, part);
}

/* In words, of an automatic codec. */
static void describe_choice(struct pccl_comm_op *operation, const struct pccl_peer_op *op)
{
    struct pccl_text words;
    if (!pccl_choice_is_automatic(&op->descriptor))
        return;
    pccl_text_clear(&words);
    if (op->tiny)
        pccl_text_add(&words, "small: through the master, exactly");
    else
        pccl_choice_describe(&words, &op->descriptor, &op->choice);
    const size_t length = pccl_min_u64(words.length, sizeof operation->why_codec - 1);
    memcpy(operation->why_codec, words.bytes, length);
    operation->why_codec[length] = '\0';
}

static void keep_outcome(const struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    const struct pccl_peer_op *op = operation->op;
    if (!op)
        return;
    PCCL_ASSERT(operation->over);
    operation->op = NULL;
    operation->world = op->world;
    operation->why.details.sequence = op->instance.use;
    describe_choice(operation, op);
    operation->why.reason = op->reason;
    operation->status = op->lost_by != PCCL_OK ? op->lost_by : status_of(op->class);
    if (operation->blobs && operation->status == PCCL_OK)
        operation->status = pccl_comm_blobs_status(operation, &operation->why.reason);
    if (operation->status != PCCL_OK)
        pccl_peer_departed(comm->peer, &op->known, &op->attributes.epoch, &operation->why.details.departed);
    if (operation->tiny && operation->status == PCCL_OK && operation->result_bytes)
        (operation->tensors ? pccl_coalesced_take : take_result)(operation, op);
}

static void describe(const struct pccl_comm_op *operation, pcclOperationInfo_t *info)
{
    info->tag = operation->why.details.tag;
    info->sequence = operation->why.details.sequence;
    info->tx_bytes = operation->traffic.sent_bytes;
    info->rx_bytes = operation->traffic.received_bytes;
    info->world = operation->world;
    info->rank = operation->rank;
    info->codec = (pcclQuantizationAlgorithm_t)operation->codec;
    memcpy(info->why, operation->why_codec, sizeof info->why);
    if (!info->participants)
        return;
    for (uint32_t i = 0; i < operation->member_count && i < info->participants_max; i++) {
        pccl_id_write(&operation->members[i], info->participants[i].digits, PCCL_PEER_ID_SIZE - 1);
        info->participants[i].digits[PCCL_PEER_ID_SIZE - 1] = '\0';
    }
}

enum pccl_status pccl_comm_op_end(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                  pcclOperationInfo_t *info, struct pccl_why *why)
{
    struct pccl_peer_op *op = operation->op;
    keep_outcome(comm, operation);
    enum pccl_status status = operation->status;
    if (status != PCCL_OK) {
        *why = operation->why;
        pccl_comm_sight_failed(comm);
    } else if (info) {
        describe(operation, info);
    }
    operation->contributed = status == PCCL_OK;
    if (status == PCCL_OK && operation->blobs)
        pccl_comm_blobs_give(operation);
    if (op)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_RELEASE, .op = op});
    pccl_comm_op_job_leave(comm, operation);
    cancel_wait_expiry(comm, operation);
    pccl_table_remove(&comm->operations.by_tag, &operation->by_tag);
    release(operation);
    return status;
}

static void tell_awaited(struct pccl_communicator *comm, const struct pccl_comm_op *operation, bool blocked)
{
    pccl_comm_step(comm,
                   &(struct pccl_peer_event){.kind = PCCL_PEER_OP_AWAIT, .op = operation->op, .blocked = blocked});
}

void pccl_comm_op_announce_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    operation->awaited = true;
    if (operation->wait_expires_us)
        cancel_wait_expiry(comm, operation); /* the machine still counts this thread as waiting */
    else if (!operation->decided)
        tell_awaited(comm, operation, true);
}

bool pccl_comm_op_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t deadline_us)
{
    operation->awaited = true;
    pccl_comm_blobs_show(comm, operation);
    if (operation->over)
        return true;
    operation->waiter = pccl_caller_waiter();
    pccl_comm_op_announce_wait(comm, operation);
    do {
        pccl_comm_op_job_copy(comm, operation, deadline_us);
        pccl_comm_blobs_show(comm, operation);
        if (operation->over) {
            operation->waiter->fired = false; /* it was told while it did not wait */
            return true;
        }
    } while (pccl_comm_wait_until(comm, operation->waiter, deadline_us));
    operation->waiter = NULL;
    operation->awaited = false;
    if (!operation->decided) {
        operation->wait_expires_us = pccl_now_us() + WAIT_EXPIRY_MS * UINT64_C(1000);
        comm->operations.expiring_waits++;
    }
    return false;
}

enum pccl_status pccl_comm_op_await(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                    pcclOperationInfo_t *info, struct pccl_why *why)
{
    bool over = pccl_comm_op_wait(comm, operation, UINT64_MAX);
    PCCL_ASSERT(over);
    return pccl_comm_op_end(comm, operation, info, why);
}

/* ---- all of a communicator ---- */

static struct pccl_comm_op *operation_of(struct pccl_table_node *node)
{
    return node ? PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag) : NULL;
}

void pccl_comm_ops_expire_waits(struct pccl_communicator *comm)
{
    if (!comm->operations.expiring_waits)
        return;
    uint64_t now_us = pccl_now_us();
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = operation_of(node);
        if (!operation->wait_expires_us || operation->wait_expires_us > now_us)
            continue;
        cancel_wait_expiry(comm, operation);
        if (!operation->decided)
            tell_awaited(comm, operation, false);
    }
}

void pccl_comm_ops_keep_outcomes(struct pccl_communicator *comm)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node))
        keep_outcome(comm, operation_of(node));
}

void pccl_comm_ops_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = operation_of(node);
        if (operation->waiter != waiter)
            continue;
        operation->waiter = NULL;
        operation->awaited = false;
    }
}

void pccl_comm_ops_free(struct pccl_communicator *comm)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&comm->operations.by_tag))) {
        pccl_table_remove(&comm->operations.by_tag, node);
        release(operation_of(node));
    }
    pccl_table_fini(&comm->operations.by_tag);
    pccl_comm_members_drop(comm->operations.members);
    comm->operations.members = NULL;
}

void pccl_comm_op_abort(struct pccl_communicator *comm, const struct pccl_comm_op *operation, enum pccl_class class,
                        const struct pccl_text *reason)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_OP_ABORT, .op = operation->op, .class = class, .reason = reason};
    if (!operation->decided)
        pccl_comm_step(comm, &event);
}

void pccl_comm_ops_abort(struct pcclComm_t *handle)
{
    struct pccl_communicator *comm = handle->comm;
    handle->aborts++;
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node))
        if (operation_of(node)->handle == handle)
            pccl_comm_op_abort(comm, operation_of(node), PCCL_CLASS_ABORTED, NULL);
}

void pccl_comm_ops_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle)
{
    struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag);
    struct pccl_why why;
    while (node) {
        struct pccl_comm_op *operation = operation_of(node);
        bool drop = operation->handle == handle;
        if (drop)
            operation->arrivals.show = NULL;
        enum pccl_status unwanted = drop ? pccl_comm_op_await(comm, operation, NULL, &why) : PCCL_OK;
        (void)unwanted;
        /* While it waited others may have gone. */
        node = drop ? pccl_table_first(&comm->operations.by_tag) : pccl_table_after(&comm->operations.by_tag, node);
    }
}
