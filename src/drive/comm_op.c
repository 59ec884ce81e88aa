#include "drive/communicator.h"
#include "drive/comm_op.h"
#include "drive/comm_contribution.h"
#include "drive/comm_jobs.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"

#include "net/heap.h"
#include "peer/queries.h"
#include "wire/choice.h"
#include "wire/tiny.h"

/* First name that is not a tag. Callers are not expected to use tags in this range. */
#define OTHER_NAMES UINT64_C(0x9C5EAD0000000000)

/* Hashes a handle and a name. Equal tags of different handles should have different keys. */
static uint64_t key_of(const struct pcclComm_t *handle, uint64_t name)
{
    return handle->group ? name + handle->key * UINT64_C(0x9E3779B97F4A7C15) : name;
}

struct pccl_comm_op *pccl_comm_op_find(const struct pcclComm_t *handle, uint64_t name)
{
    struct pccl_table_node *node = pccl_table_find(&handle->comm->operations.by_tag, key_of(handle, name));
    for (; node; node = pccl_table_find_next(node)) {
        struct pccl_comm_op *operation = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if (operation->handle == handle && operation->name == name)
            return operation;
    }
    return NULL;
}

/*
 * Returns a name that no other operation of the handle has. Used for sends, because several may have the same tag, and
 * for the creation of groups, which has no tag.
 */
static uint64_t other_name(const struct pcclComm_t *handle)
{
    struct pccl_comm_ops *operations = &handle->comm->operations;
    do
        operations->last_name++;
    while (pccl_comm_op_find(handle, OTHER_NAMES + operations->last_name));
    return OTHER_NAMES + operations->last_name;
}

static void explain_refusal(const struct pccl_communicator *comm, enum pccl_status status, uint64_t tag,
                            struct pccl_text *reason)
{
    switch (status) {
    case PCCL_USAGE:
        if (!pccl_comm_is_connected(comm))
            (void)pccl_comm_why_unconnected(comm, reason);
        else
            pccl_text_format(reason, "another thread is updating the topology");
        break;
    case PCCL_ARGUMENT:
        pccl_text_format(reason, "tag %" PRIu64 " is in use by an operation that has not been awaited", tag);
        break;
    case PCCL_TOO_FEW_PEERS: pccl_text_format(reason, "this peer is alone in its group"); break;
    case PCCL_LIMIT: pccl_text_format(reason, "too many operations or tags are outstanding"); break;
    default: pccl_text_format(reason, "%s", pccl_status_text(status)); break;
    }
}

static enum pccl_status check_open(const struct pccl_communicator *comm, const struct pccl_group_handle *group,
                                   struct pccl_text *reason)
{
    if (!pccl_id_equal(&comm->id, &group->self)) {
        pccl_text_format(reason, "the group ended when its communicator reconnected");
        return PCCL_USAGE;
    }
    if (!group->subgroup)
        return PCCL_OK;
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(comm->peer, group->subgroup);
    if (!subgroup) {
        pccl_text_format(reason, "the group is closed"); /* closed after this thread entered the call */
        return PCCL_USAGE;
    }
    if (!subgroup->all.ended)
        return PCCL_OK;
    pccl_text_format(reason, "the group has ended: %s", subgroup->reason.bytes);
    return PCCL_PEER_LOST;
}

/* State of a launch, passed through its stages. */
struct launching {
    const struct pcclComm_t *handle;
    struct pccl_op_args *args;
    struct pccl_comm_op *operation; /* NULL until created */
    const struct kind *kind;
    bool moves; /* true if elements move between peers */
    struct pccl_text *reason;
};

/* Differences between the launches of collectives and of sends. */
struct kind {
    /*
     * Lists the participants, or the members that the caller expects. Returns ARGUMENT or TOO_FEW_PEERS with a
     * reason, or MEMORY.
     */
    enum pccl_status (*list)(const struct launching *l, struct pccl_comm_members **members);
    /* Checks the members that the caller lists; NULL: `list` has checked them. */
    enum pccl_status (*check)(const struct launching *l);
    /* Fills in the root of a collective that has one. Returns ARGUMENT with a reason. */
    enum pccl_status (*find_root)(const struct launching *l);
    /* Explains why the state machine refused the launch; may be NULL. */
    void (*explain)(const struct launching *l, enum pccl_status status);
    bool shares_tags;  /* several operations may have one tag, and get other names */
    bool starts_alone; /* may be launched by a lone peer while others are joining; continues once they have joined */
};

/*
 * Makes the checks that precede a step of the state machine: connected, group open, tag unused. Returns OK or a status
 * with a reason.
 */
static enum pccl_status may_launch(const struct launching *l)
{
    const struct pcclComm_t *handle = l->handle;
    if (!pccl_comm_is_connected(handle->comm))
        return pccl_comm_why_unconnected(handle->comm, l->reason);
    enum pccl_status status = handle->group ? check_open(handle->comm, handle->group, l->reason) : PCCL_OK;
    if (status != PCCL_OK || l->kind->shares_tags || !pccl_comm_op_find(handle, l->args->launch.tag))
        return status;
    explain_refusal(handle->comm, PCCL_ARGUMENT, l->args->launch.tag, l->reason);
    return PCCL_ARGUMENT;
}

/*
 * Returns the list of members that the operation requires or, if it accepts any members, its participants. Returns NULL
 * if out of memory.
 */
static struct pccl_comm_members *list_all(const struct pcclComm_t *handle, const struct pccl_op_args *args)
{
    if (args->members)
        return pccl_comm_members_copy(handle->comm, args->members, args->member_count);
    if (handle->group)
        return pccl_comm_members_copy(handle->comm, handle->group->members, handle->group->count);
    return pccl_comm_members_share(handle->comm, !args->needs_members);
}

static enum pccl_status list_members(const struct launching *l, struct pccl_comm_members **members)
{
    *members = list_all(l->handle, l->args);
    return *members ? PCCL_OK : PCCL_MEMORY;
}

/* Finds the two peers of a send, the sender first. */
static enum pccl_status find_pair(const struct pcclComm_t *handle, const struct pccl_op_args *args,
                                  const struct pccl_comm_members *peers, struct pccl_id pair[2],
                                  struct pccl_text *reason)
{
    const struct pccl_communicator *comm = handle->comm;
    if (peers->count < 2)
        return PCCL_TOO_FEW_PEERS;
    pair[1] = comm->id;
    if (pccl_op_args_is_from_any(args))
        return PCCL_OK; /* pair[0] is zero until a sender is chosen */
    if (args->root >= peers->count) {
        pccl_text_format(reason, "invalid rank %u of the other peer: the group has %u members", args->root,
                         peers->count);
        return PCCL_ARGUMENT;
    }
    const struct pccl_id *other = &peers->ids[args->root];
    const struct pccl_group_handle *group = handle->group;
    pair[args->sends ? 0 : 1] = comm->id;
    pair[args->sends ? 1 : 0] = *other;
    if (pccl_id_equal(other, &comm->id))
        pccl_text_format(reason, "rank %u is this peer: a peer cannot send to itself", args->root);
    else if (pccl_id_is_zero(other)) /* a zero id would mean any sender */
        pccl_text_format(reason, "entry %u of the member list is an empty id", args->root);
    else if (group && pccl_id_find(group->members, group->count, other) == group->count)
        pccl_text_format(reason, "peer %s is not a member of the group, whose membership is fixed", pccl_id_str(other));
    else
        return PCCL_OK;
    return PCCL_ARGUMENT;
}

static enum pccl_status list_pair(const struct launching *l, struct pccl_comm_members **members)
{
    struct pccl_comm_members *possible = list_all(l->handle, l->args);
    struct pccl_id pair[2] = {{{0}}};
    if (!possible)
        return PCCL_MEMORY;
    enum pccl_status status = find_pair(l->handle, l->args, possible, pair, l->reason);
    pccl_comm_members_drop(possible);
    if (status != PCCL_OK)
        return status;
    *members = pccl_comm_members_copy(l->handle->comm, pair, PCCL_COUNT_OF(pair));
    return *members ? PCCL_OK : PCCL_MEMORY;
}

/* Creates an operation that is not launched yet. Takes ownership of the list. */
static enum pccl_status make_op(const struct pcclComm_t *handle, struct pccl_comm_members *members,
                                struct pccl_comm_op **operation)
{
    *operation = pccl_allocate(pccl_heap(), sizeof **operation);
    if (!*operation) {
        pccl_comm_members_drop(members);
        return PCCL_MEMORY;
    }
    (*operation)->handle = handle;
    (*operation)->members = members;
    return PCCL_OK;
}

static enum pccl_status make(struct launching *l)
{
    struct pccl_comm_members *members;
    enum pccl_status status = l->kind->list(l, &members);
    return status == PCCL_OK ? make_op(l->handle, members, &l->operation) : status;
}

/* Checks a member list passed for an operation in a group. */
static enum pccl_status check_group(const struct pccl_group_handle *group, const struct pccl_comm_op *operation,
                                    struct pccl_text *reason)
{
    uint32_t same = 0;
    while (same < operation->members->count && same < group->count &&
           pccl_id_equal(&operation->members->ids[same], &group->members[same]))
        same++;
    if (same == operation->members->count && same == group->count)
        return PCCL_OK;
    pccl_text_format(reason, "the member list does not match this group, whose membership is fixed");
    return PCCL_MEMBERS_CHANGED;
}

/* Checks a list that the caller gave. Other errors in it are found in the same way by all peers, from the members. */
static enum pccl_status check_members(const struct launching *l)
{
    const struct pccl_comm_op *operation = l->operation;
    uint32_t count, i = 0;
    if (l->handle->group)
        return check_group(l->handle->group, operation, l->reason);
    const struct pccl_member *known = pccl_peer_members(l->handle->comm->peer, &count);
    while (i < operation->members->count && i < count && pccl_id_equal(&operation->members->ids[i], &known[i].peer))
        i++; /* the known members are distinct, and the lists are usually equal */
    for (; i < operation->members->count; i++) {
        if (pccl_id_find(operation->members->ids, operation->members->count, &operation->members->ids[i]) == i)
            continue; /* the second occurrence is reported */
        pccl_text_format(l->reason, "duplicate peer in the member list: %s", pccl_id_str(&operation->members->ids[i]));
        return PCCL_ARGUMENT;
    }
    return PCCL_OK;
}

static enum pccl_status find_root(const struct launching *l)
{
    const struct pccl_comm_members *members = l->operation->members;
    if (l->args->root >= members->count) {
        pccl_text_format(l->reason, "invalid root rank %u: the group has %u members", l->args->root, members->count);
        return PCCL_ARGUMENT;
    }
    l->args->launch.descriptor.root = members->ids[l->args->root];
    return PCCL_OK;
}

/* Fills in the source of a send, which is the root of its pair, and the other peer. */
static enum pccl_status find_source(const struct launching *l)
{
    const struct pccl_comm_members *pair = l->operation->members;
    l->args->launch.descriptor.root = pair->ids[0];
    l->args->launch.other = pair->ids[1 - pair->rank];
    return PCCL_OK;
}

/* Checks the arguments that depend on the members. If ranks do not matter, all arguments have already been checked. */
static enum pccl_status place(struct launching *l)
{
    const struct pccl_op_args *args = l->args;
    struct pccl_comm_op *operation = l->operation;
    enum pccl_status status = PCCL_OK;
    if (args->members && l->kind->check)
        status = l->kind->check(l);
    if (status != PCCL_OK || !args->needs_members)
        return status;
    if (operation->members->rank == operation->members->count) {
        pccl_text_format(l->reason, "this peer is not in the member list");
        return PCCL_ARGUMENT;
    }
    if (pccl_collective_has_root(args->launch.descriptor.collective))
        status = l->kind->find_root(l);
    if (status != PCCL_OK)
        return status;
    if (args->starts && args->part_count != operation->members->count) {
        pccl_text_format(l->reason, "counts has %u entries, but the group has %u members", args->part_count,
                         operation->members->count);
        return PCCL_ARGUMENT;
    }
    return pccl_op_args_check_buffers(args, operation->members->count, operation->members->rank, l->reason);
}

static void explain_refused_send(const struct launching *l, enum pccl_status status)
{
    if (status == PCCL_PEER_LOST)
        pccl_text_format(l->reason, "peer %s is no longer a member of the group", pccl_id_str(&l->args->launch.other));
    pccl_peer_add_names(l->handle->comm->peer, l->reason);
}

static const struct kind *kind_of(const struct pccl_op_args *args)
{
    static const struct kind collective = {.list = list_members, .check = check_members, .find_root = find_root};
    static const struct kind send = {.list = list_pair,
                                     .find_root = find_source,
                                     .explain = explain_refused_send,
                                     .shares_tags = true,
                                     .starts_alone = true};
    return args->launch.descriptor.collective == PCCL_SEND ? &send : &collective;
}

/*
 * Plans the contribution and the result of a tiny operation. Whether an operation is tiny depends only on values that
 * are equal on all peers.
 */
static enum pccl_status plan_tiny(struct launching *l)
{
    const struct pccl_communicator *comm = l->handle->comm;
    const struct pccl_op_args *args = l->args;
    const struct pccl_collective_row *row = pccl_collective(args->launch.descriptor.collective);
    struct pccl_comm_op *operation = l->operation;
    struct pccl_op_args_extent extent = pccl_op_args_extent(args, operation->members->count, operation->members->rank);
    struct pccl_launch *launch = &l->args->launch;
    bool is_root = pccl_id_equal(&launch->descriptor.root, &comm->id);
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(&launch->descriptor, operation->members->count, is_root);
    launch->tiny = sizes.largest <= pccl_peer_tiny_bytes_max(comm->peer);
    operation->result_bytes = extent.result;
    if (!launch->tiny)
        return PCCL_OK;
    operation->outcome_skip = pccl_row_divides(row) ? pccl_op_args_part_at(args, operation->members->rank) : 0;
    operation->traffic = (struct pccl_traffic){sizes.contribution, sizes.result};
    launch->payload = sizes.contribution ? args->buffers.input.memory : NULL;
    launch->payload_bytes = (uint32_t)sizes.contribution;
    return pccl_contribution_keep_result(operation, args) ? PCCL_OK : PCCL_MEMORY;
}

static enum pccl_status plan(struct launching *l)
{
    struct pccl_comm_op *operation = l->operation;
    operation->composed = l->args->composed;
    if (operation->composed)
        return operation->composed->begin(l->handle->comm, operation, l->args, l->reason);
    enum pccl_status status = plan_tiny(l);
    bool has_peers = l->handle->group ? l->handle->group->subgroup != 0 : !pccl_peer_is_alone(l->handle->comm->peer);
    l->moves = !l->args->launch.tiny && (has_peers || l->kind->starts_alone);
    return status;
}

static enum pccl_status step(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                             const struct pccl_launch *launch)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = launch};
    enum pccl_status status = pccl_comm_step(comm, &event);
    if (status == PCCL_OK)
        operation->op = event.op;
    else if (operation->job && operation->job->started)
        pccl_comm_op_job_await(comm, operation); /* the state machine broke in this step and stopped the job */
    return status;
}

static void choose_codec(struct launching *l)
{
    struct pccl_launch *launch = &l->args->launch;
    struct pccl_descriptor *descriptor = &launch->descriptor;
    if (!pccl_choice_is_automatic(descriptor))
        ;
    else if (l->moves)
        launch->choice = pccl_peer_choose(l->handle->comm->peer, launch->subgroup, launch->tag, descriptor);
    else
        pccl_choice_apply(PCCL_LEVEL_EXACT, descriptor, descriptor);
}

/*
 * Begins error feedback, unless the launch uses none or its automatic codec has chosen a level that is almost lossless.
 * Residuals are in the elements' data type, so the packing does not matter.
 */
static enum pccl_status begin_feedback(struct launching *l)
{
    const struct pccl_op_args *args = l->args;
    const struct pccl_descriptor *descriptor = &args->launch.descriptor;
    struct pccl_comm_op *operation = l->operation;
    if (!args->feedback || (pccl_choice_is_automatic(descriptor) && descriptor->codec < PCCL_PACKING_SCALED))
        return PCCL_OK;
    struct pccl_op_args_extent extent = pccl_op_args_extent(args, operation->members->count, operation->members->rank);
    uint64_t count = 0;
    for (uint32_t i = 0; i == 0 || i < args->buffers.section_count; i++)
        count += pccl_op_args_section(args, i, extent.input).count;
    return pccl_comm_feedback_begin(l->handle, args->launch.tag, descriptor, count, &operation->feedback, l->reason);
}

static enum pccl_status make_job(struct launching *l)
{
    bool made = !l->moves || pccl_comm_op_job_make(l->handle->comm, l->operation, l->args) != NULL;
    return made ? PCCL_OK : PCCL_MEMORY;
}

/* Launches the operation in the state machine. After a failure, the engine does not have its job. */
static enum pccl_status ask_machine(struct launching *l)
{
    uint8_t made[PCCL_TINY_BYTES_MAX];
    if (l->handle->group && !l->handle->group->subgroup)
        return PCCL_TOO_FEW_PEERS; /* the state machine has no groups of one member */
    if (l->args->launch.payload && pccl_contribution_make(l->args, l->operation, made, l->args->launch.payload_bytes))
        l->args->launch.payload = made;
    enum pccl_status status = step(l->handle->comm, l->operation, &l->args->launch);
    if (status != PCCL_OK && l->kind->explain)
        l->kind->explain(l, status);
    return status;
}

static void begin_launch(struct launching *l)
{
    struct pccl_launch *launch = &l->args->launch;
    launch->subgroup = l->handle->group ? l->handle->group->subgroup : 0;
    if (!l->handle->group && l->args->needs_members) {
        launch->members = l->operation->members->ids;
        launch->member_count = l->operation->members->count;
    }
    launch->refusal = l->reason;
    launch->user = l->operation;
}

/* Prepares a launch, unless the operation was given up. */
static enum pccl_status prepare(struct launching *l)
{
    enum pccl_status status = place(l);
    if (status == PCCL_OK)
        status = plan(l);
    if (status != PCCL_OK)
        return status;
    choose_codec(l);
    status = begin_feedback(l);
    return status == PCCL_OK ? make_job(l) : status;
}

/* Launches an operation that is not in the table yet. */
static enum pccl_status launch(struct launching *l)
{
    begin_launch(l);
    enum pccl_status status = l->args->launch.given_up == PCCL_CLASS_NONE ? prepare(l) : PCCL_OK;
    return status == PCCL_OK ? ask_machine(l) : status;
}

/* Performs the operation locally; there are no other peers to take part or to notify. */
static enum pccl_status do_alone(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                 const struct pccl_op_args *args, struct pccl_text *reason)
{
    if (operation->members->count > 1 && args->needs_members) {
        pccl_text_format(reason, "this peer is the only one left of the %u expected members",
                         operation->members->count);
        return PCCL_MEMBERS_CHANGED;
    }
    enum pccl_status status = operation->composed ? operation->composed->alone(comm, operation, reason) : PCCL_OK;
    if (status != PCCL_OK)
        return status;
    pccl_contribution_alone(args, operation);
    PCCL_ASSERT(operation->members->count == 1);
    operation->traffic = (struct pccl_traffic){0};
    pccl_comm_op_decided(comm, operation);
    return PCCL_OK;
}

/*
 * Adds the departed members to `why` if they explain why the launch was refused, and frees the operation, which may be
 * NULL.
 */
static void refuse(struct pccl_communicator *comm, struct pccl_comm_op *operation, enum pccl_status status,
                   const struct pccl_epoch *known, struct pccl_why *why)
{
    if (status == PCCL_TOO_FEW_PEERS || status == PCCL_MEMBERS_CHANGED || status == PCCL_PEER_LOST)
        pccl_peer_departed(comm->peer, known, NULL, &why->details.departed);
    if (!operation)
        return;
    pccl_comm_op_job_leave(comm, operation);
    pccl_comm_op_release(operation, false);
}

/* Inserts a launched operation into the table under its name. */
static void begin(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t tag, uint64_t name)
{
    const struct pccl_peer_op *op = operation->op;
    operation->name = name;
    pccl_table_insert(&comm->operations.by_tag, &operation->by_tag, key_of(operation->handle, name));
    operation->tag = tag;
    bool may_start = op && op->state == PCCL_OP_OPEN;
    if (operation->job && !operation->job->started && !may_start) /* decided before its start, or never to start */
        pccl_comm_op_job_leave(comm, operation);
    operation->number = ++comm->telemetry.launches;
    operation->launched_us = comm->stepped_us;
    if (op && op->state == PCCL_OP_DECIDED && !operation->decided)
        pccl_comm_op_decided(comm, operation);
}

enum pccl_status pccl_comm_op_launch(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                     struct pccl_waiter *waiter, struct pccl_comm_op **operation_out,
                                     struct pccl_why *why)
{
    struct pccl_communicator *comm = handle->comm;
    struct launching l = {.handle = handle, .args = args, .kind = kind_of(args), .reason = &why->reason};
    enum pccl_status status = may_launch(&l);
    if (status != PCCL_OK)
        return status;
    struct pccl_epoch known = pccl_peer_attributes(comm->peer).epoch;
    status = make(&l);
    if (status == PCCL_OK) {
        l.operation->waiter = waiter;
        status = launch(&l);
        if (status == PCCL_TOO_FEW_PEERS && args->alone_ok && args->launch.given_up == PCCL_CLASS_NONE)
            status = do_alone(comm, l.operation, args, &why->reason);
    }
    if (status != PCCL_OK) {
        if (!why->reason.length)
            explain_refusal(comm, status, args->launch.tag, &why->reason);
        refuse(comm, l.operation, status, &known, why);
        return status;
    }
    if (l.operation->composed)
        l.operation->composed->launched(l.operation);
    begin(comm, l.operation, args->launch.tag, l.kind->shares_tags ? other_name(handle) : args->launch.tag);
    *operation_out = l.operation;
    return PCCL_OK;
}

uint64_t pccl_comm_op_deadline(const struct pccl_comm_op *operation)
{
    return operation->op ? operation->op->deadline_us : UINT64_MAX; /* NULL: alone, and already ended */
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
    struct pccl_comm_op *operation = NULL;
    struct pccl_comm_members *members = pccl_comm_members_copy(comm, founding->members, founding->count);
    enum pccl_status status = members ? make_op(&comm->handle, members, &operation) : PCCL_MEMORY;
    if (status == PCCL_OK) {
        launch.user = operation;
        status = step(comm, operation, &launch);
    }
    if (status == PCCL_OK) {
        begin(comm, operation, 0, other_name(&comm->handle));
        *operation_out = operation;
        return PCCL_OK;
    }
    if (status == PCCL_ARGUMENT) /* the list has already been checked */
        pccl_text_format(&why->reason, "another thread is already creating a group with the same members");
    else if (status == PCCL_LIMIT)
        pccl_text_format(&why->reason, "too many groups, or too many members across this peer's groups");
    else
        explain_refusal(comm, status, 0, &why->reason);
    refuse(comm, operation, status, &known, why);
    return status;
}

enum pccl_status pccl_comm_op_check(const struct pcclComm_t *handle, struct pccl_op_args *args,
                                    struct pccl_text *reason)
{
    struct launching l = {.handle = handle, .args = args, .kind = kind_of(args), .reason = reason};
    enum pccl_status status = may_launch(&l);
    if (status != PCCL_OK || !args->needs_members)
        return status;
    status = make(&l);
    if (status == PCCL_OK)
        status = place(&l);
    else
        explain_refusal(handle->comm, status, args->launch.tag, reason);
    if (l.operation)
        pccl_comm_op_release(l.operation, false);
    return status;
}

bool pccl_comm_op_is_ending(const struct pccl_comm_op *operation)
{
    return operation->decided || operation->op->abort_sent;
}
