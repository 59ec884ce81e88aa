#include "drive/comm_blobs.h"
#include "drive/comm_engine.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

#include "net/heap.h"
#include "peer/queries.h"
#include "wire/tiny.h"

#include <string.h>

/* What a caller gets: a line for each member, and their blobs, one behind the other. */
struct memory {
    size_t bytes;
    pcclBlob_t blobs[];
};

struct pccl_comm_blobs {
    pcclBlobs_t *out; /* the caller's */
    const void *input;
    uint64_t length, bytes_max;
    struct memory *memory; /* owned; at first with room for what comes through the master */
    bool is_moving;        /* the second step runs */
};

/* Those of all members. */
struct lengths {
    uint64_t starts[PCCL_TINY_BLOBS_MAX + 1]; /* where each blob begins, and the last one ends */
    uint32_t longest;
    bool are_all; /* the blobs have come with their lengths */
};

/* ---- memory ---- */

static struct memory *make_memory(uint32_t count, uint64_t bytes)
{
    size_t lines = sizeof(struct memory) + count * sizeof(pcclBlob_t);
    struct memory *memory = bytes < SIZE_MAX - lines ? pccl_heap_raw(lines + (size_t)bytes) : NULL;
    if (memory)
        memory->bytes = lines + (size_t)bytes;
    return memory;
}

static void free_memory(struct memory *memory) { pccl_release(pccl_heap(), memory, memory ? memory->bytes : 0); }

void pccl_comm_blobs_free(const pcclBlob_t *blobs)
{
    free_memory(blobs ? PCCL_CONTAINER_OF((pcclBlob_t *)(uintptr_t)blobs, struct memory, blobs) : NULL);
}

static uint8_t *data_of(const struct pccl_comm_op *operation)
{
    return (uint8_t *)&operation->blobs->memory->blobs[operation->member_count];
}

/* Says where the blobs are, or will be. */
static void lay_out(struct pccl_comm_op *operation, const uint64_t *starts)
{
    pcclBlob_t *lines = operation->blobs->memory->blobs;
    for (uint32_t i = 0; i < operation->member_count; i++) {
        pccl_id_write(&operation->members[i], lines[i].peer.digits, PCCL_PEER_ID_SIZE - 1);
        lines[i].peer.digits[PCCL_PEER_ID_SIZE - 1] = '\0';
        lines[i].data = data_of(operation) + starts[i];
        lines[i].length = (size_t)(starts[i + 1] - starts[i]);
    }
}

void pccl_comm_blobs_give(struct pccl_comm_op *operation)
{
    struct pccl_comm_blobs *blobs = operation->blobs;
    const pcclBlob_t *last = &blobs->memory->blobs[operation->member_count - 1];
    blobs->out->count = operation->member_count;
    blobs->out->blobs = blobs->memory->blobs;
    blobs->out->bytes = (size_t)((const uint8_t *)last->data - data_of(operation)) + last->length;
    blobs->memory = NULL;
}

void pccl_comm_blobs_drop(struct pccl_comm_op *operation)
{
    if (!operation->blobs)
        return;
    free_memory(operation->blobs->memory);
    pccl_release(pccl_heap(), operation->blobs, sizeof *operation->blobs);
    operation->blobs = NULL;
}

/* ---- the first step ---- */

enum pccl_status pccl_comm_blobs_plan(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                      const struct pccl_request *request, struct pccl_launch *launch,
                                      struct pccl_text *reason)
{
    uint32_t world = operation->member_count, most = pccl_peer_tiny_bytes_max(comm->peer);
    if (world > PCCL_TINY_BLOBS_MAX) {
        pccl_text_format(reason, "blobs can be gathered from up to %u members, and there are %u", PCCL_TINY_BLOBS_MAX,
                         world);
        return PCCL_LIMIT;
    }
    struct pccl_comm_blobs *blobs = pccl_allocate(pccl_heap(), sizeof *blobs);
    if (!blobs)
        return PCCL_MEMORY;
    operation->blobs = blobs;
    *blobs = (struct pccl_comm_blobs){.out = request->result,
                                      .input = request->input,
                                      .length = request->length,
                                      .bytes_max = request->descriptor.count};
    blobs->memory = make_memory(world, PCCL_TINY_BYTES_MAX);
    if (!blobs->memory)
        return PCCL_MEMORY;
    operation->tiny = launch->tiny = true;
    launch->payload = data_of(operation);
    launch->payload_bytes = pccl_tiny_put_blob(data_of(operation), blobs->input, blobs->length, world, most);
    return PCCL_OK;
}

static void add(struct lengths *lengths, uint32_t i, uint64_t length)
{
    uint64_t before = lengths->starts[i];
    lengths->starts[i + 1] = length > UINT64_MAX - before ? UINT64_MAX : before + length;
    if (length > lengths->starts[lengths->longest + 1] - lengths->starts[lengths->longest])
        lengths->longest = i;
}

static void read_lengths(const struct pccl_comm_op *operation, const struct pccl_peer_op *op, struct lengths *lengths)
{
    const uint8_t *at = op->payload;
    *lengths = (struct lengths){.are_all = true};
    for (uint32_t i = 0; i < operation->member_count; i++) {
        struct pccl_tiny_blob blob;
        at = pccl_tiny_next_blob(at, &blob);
        add(lengths, i, blob.length);
        lengths->are_all = lengths->are_all && blob.data;
    }
}

/* All peers compare the same figures, so they all say the same. */
static enum pccl_status check(const struct pccl_comm_op *operation, const struct lengths *lengths,
                              struct pccl_text *reason)
{
    uint64_t all = lengths->starts[operation->member_count], most = operation->blobs->bytes_max;
    if (all <= most)
        return PCCL_OK;
    pccl_text_format(reason,
                     "the blobs of all are %" PRIu64 " bytes long, more than the %" PRIu64
                     " that max_bytes permits; the longest is that of peer %s",
                     all, most, pccl_id_str(&operation->members[lengths->longest]));
    return PCCL_MISMATCH;
}

enum pccl_status pccl_comm_blobs_alone(struct pccl_comm_op *operation, struct pccl_text *reason)
{
    struct pccl_comm_blobs *blobs = operation->blobs;
    struct lengths lengths = {0};
    add(&lengths, 0, blobs->length);
    enum pccl_status status = check(operation, &lengths, reason);
    if (status != PCCL_OK)
        return status;
    free_memory(blobs->memory);
    blobs->memory = make_memory(1, blobs->length);
    if (!blobs->memory)
        return PCCL_MEMORY;
    lay_out(operation, lengths.starts);
    if (blobs->length)
        memcpy(data_of(operation), blobs->input, blobs->length);
    return PCCL_OK;
}

enum pccl_status pccl_comm_blobs_take(struct pccl_comm_op *operation, const struct pccl_peer_op *op,
                                      struct pccl_text *reason)
{
    struct lengths lengths;
    if (operation->blobs->is_moving)
        return PCCL_OK; /* they have come from the peers */
    read_lengths(operation, op, &lengths);
    enum pccl_status status = check(operation, &lengths, reason);
    if (status != PCCL_OK)
        return status;
    const uint8_t *at = op->payload;
    for (uint32_t i = 0; i < operation->member_count; i++) {
        struct pccl_tiny_blob blob;
        at = pccl_tiny_next_blob(at, &blob);
        memcpy(data_of(operation) + lengths.starts[i], blob.data, blob.length);
    }
    lay_out(operation, lengths.starts);
    operation->traffic = (struct pccl_traffic){operation->blobs->length, lengths.starts[operation->member_count]};
    return PCCL_OK;
}

/* ---- the second step ---- */

bool pccl_comm_blobs_note(struct pccl_communicator *comm, struct pccl_comm_op *operation, bool committed)
{
    if (!operation->blobs || operation->blobs->is_moving || !committed)
        return false;
    PCCL_ASSERT(!comm->operations.told_lengths); /* a step tells one outcome, or else only aborts */
    comm->operations.told_lengths = operation;
    return true;
}

/* false: out of memory. */
static bool make_room(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct lengths *lengths,
                      const struct pccl_launch *launch, const struct pccl_peer_subgroup *subgroup)
{
    static const uint8_t nothing;
    struct pccl_comm_blobs *blobs = operation->blobs;
    struct pccl_request request = {.input = blobs->length ? blobs->input : &nothing,
                                   .starts = lengths->starts,
                                   .part_count = operation->member_count};
    free_memory(blobs->memory);
    blobs->memory = make_memory(operation->member_count, launch->descriptor.count);
    if (!blobs->memory)
        return false;
    lay_out(operation, lengths->starts);
    operation->result = data_of(operation);
    return pccl_comm_op_job_make(comm, operation, &request, &launch->descriptor, subgroup) != NULL;
}

/* The others wait for a launch that will never come, unless the group has ended or this peer leaves the run. */
static void leave(struct pccl_communicator *comm, struct pccl_comm_op *operation, enum pccl_status status)
{
    operation->status = status;
    if (status == PCCL_USAGE) {
        operation->status = pccl_comm_why_unconnected(comm, &operation->why.reason);
    } else if (operation->handle->group && !operation->handle->group->open) {
        operation->status = PCCL_PEER_LOST;
        pccl_text_format(&operation->why.reason, "the group is closed"); /* by another thread of this peer */
    } else {
        pccl_text_format(&operation->why.reason, "%s; this peer leaves the run", pccl_status_text(status));
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
    }
    pccl_comm_op_job_leave(comm, operation);
    if (!operation->decided)
        pccl_comm_op_decided(comm, operation, false);
}

/* It has been launched, which nothing at this peer can undo. */
static void follow(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_peer_op *op,
                   bool has_room)
{
    operation->op = op;
    operation->why.details.sequence = op->instance.use;
    if (operation->job && !operation->job->started)
        pccl_comm_op_job_leave(comm, operation);
    if (op->state == PCCL_OP_DECIDED) {
        if (!operation->decided)
            pccl_comm_op_decided(comm, operation, op->class == PCCL_CLASS_NONE);
        return;
    }
    struct pccl_peer_event awaited = {.kind = PCCL_PEER_OP_AWAIT, .op = op, .blocked = true};
    if (operation->awaited || operation->wait_expires_us)
        pccl_comm_step(comm, &awaited);
    if (has_room || operation->decided)
        return;
    struct pccl_text reason;
    pccl_text_format(&reason, "out of memory for blobs of %" PRIu64 " bytes", op->descriptor.count);
    struct pccl_peer_event failed = {
        .kind = PCCL_PEER_OP_FAILED, .op = op, .class = PCCL_CLASS_INTERNAL, .reason = &reason};
    pccl_comm_step(comm, &failed);
}

/*
 * All peers do so in the same view, that of the first step: one that has changed would have aborted
 * it. Nothing else can happen in between; but this peer may have closed the group before.
 */
static void move(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct lengths *lengths)
{
    struct pccl_peer_op *first = operation->op;
    uint32_t count = operation->member_count;
    uint64_t now_us = pccl_now_us();
    const struct pccl_group_handle *group = operation->handle->group;
    const struct pccl_peer_subgroup *subgroup = group ? pccl_peer_subgroup(comm->peer, group->subgroup) : NULL;
    struct pccl_launch launch = {.subgroup = first->instance.subgroup,
                                 .tag = first->instance.tag,
                                 .descriptor = {.collective = PCCL_ALL_GATHER_V,
                                                .datatype = PCCL_U8,
                                                .count = lengths->starts[count],
                                                .counts = pccl_request_digest(lengths->starts, count),
                                                .label = first->descriptor.label},
                                 .members = group ? NULL : operation->members,
                                 .member_count = group ? 0 : count,
                                 .after = first,
                                 .user = operation};
    if (first->deadline_us != UINT64_MAX) /* it counts from the first launch */
        launch.timeout_ms = first->deadline_us > now_us ? 1 + (uint32_t)((first->deadline_us - now_us) / 1000) : 1;
    bool has_room = (!group || subgroup) && make_room(comm, operation, lengths, &launch, subgroup);
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
    operation->tiny = false;
    operation->blobs->is_moving = true;
    operation->op = NULL;
    enum pccl_status status = pccl_comm_step(comm, &event);
    if (status == PCCL_OK)
        follow(comm, operation, event.op, has_room);
    else if (!operation->decided)
        leave(comm, operation, status);
}

void pccl_comm_blobs_go_on(struct pccl_communicator *comm)
{
    struct pccl_comm_op *operation = comm->operations.told_lengths;
    struct lengths lengths;
    comm->operations.told_lengths = NULL;
    if (operation->decided)
        return; /* the machine broke */
    read_lengths(operation, operation->op, &lengths);
    if (lengths.are_all || lengths.starts[operation->member_count] > operation->blobs->bytes_max)
        pccl_comm_op_decided(comm, operation, true);
    else
        move(comm, operation, &lengths);
}
