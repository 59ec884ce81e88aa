#include "drive/comm_blobs.h"
#include "drive/comm_jobs.h"
#include "drive/comm_op_next.h"
#include "drive/communicator.h"

#include "net/heap.h"
#include "peer/queries.h"
#include "wire/tiny.h"

#include <string.h>

/* Memory of the caller's result: a descriptor ("line") for each blob, followed by the data of the blobs. */
struct memory {
    size_t bytes;
    pcclBlob_t blobs[];
};

struct blobs {
    pcclBlobs_t *out;
    const struct pccl_collective_row *row;
    uint32_t root;
    uint64_t bytes_max;
    struct memory *memory; /* with room for the data of a tiny operation until the first operation ends */
    bool is_given;         /* true if the memory was passed to the caller, who now owns it */
    uint32_t count;        /* number of blobs that this peer sends */
    pcclPart_t own[];
};

static struct blobs *part_of(const struct pccl_comm_op *operation) { return operation->part; }

/* Lengths of the blobs of all members, ordered by sender. */
struct lengths {
    uint64_t starts[PCCL_TINY_BLOBS_MAX + 1]; /* start of each blob and end of the last one */
    uint32_t count;
    bool are_all; /* true if the blobs have arrived with their lengths */
};

/* ---- senders and receivers ---- */

static bool has_one_for_each(const struct blobs *blobs) { return blobs->row->input.amount == PCCL_PART_FOR_EACH; }

static uint32_t line_count(const struct pccl_comm_op *operation)
{
    const struct blobs *blobs = operation->part;
    return pccl_parts_of(&blobs->row->result, operation->members->count, operation->members->rank == blobs->root);
}

/* Returns the index, among all blobs, of the blob in line `line` of this rank's result. */
static uint32_t blob_of(const struct pccl_comm_op *operation, uint32_t rank, uint32_t line)
{
    return has_one_for_each(part_of(operation)) ? line * operation->members->count + rank : line;
}

/* Returns the rank that sends the blob in this line. */
static uint32_t giver_of(const struct pccl_comm_op *operation, uint32_t line)
{
    return part_of(operation)->row->input.by == PCCL_BY_ROOT ? part_of(operation)->root : line;
}

static uint64_t length_of(const struct lengths *lengths, uint32_t blob)
{
    return lengths->starts[blob + 1] - lengths->starts[blob];
}

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
    return (uint8_t *)&part_of(operation)->memory->blobs[line_count(operation)];
}

/* Replaces the memory with one that has room for `bytes` bytes of blobs. Returns false if out of memory. */
static bool make_room(struct pccl_comm_op *operation, uint64_t bytes)
{
    free_memory(part_of(operation)->memory);
    part_of(operation)->memory = make_memory(line_count(operation), bytes);
    return part_of(operation)->memory != NULL;
}

static uint64_t bytes_for(const struct pccl_comm_op *operation, uint32_t rank, const struct lengths *lengths)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < line_count(operation); i++)
        bytes = pccl_sum_u64(bytes, length_of(lengths, blob_of(operation, rank, i)));
    return bytes;
}

/* Fills in the lines: sender, address and length of each blob. */
static void lay_out(struct pccl_comm_op *operation, const struct lengths *lengths)
{
    pcclBlob_t *lines = part_of(operation)->memory->blobs;
    const uint8_t *data = data_of(operation);
    for (uint32_t i = 0; i < line_count(operation); i++) {
        pccl_id_write(&operation->members->ids[giver_of(operation, i)], lines[i].peer.digits, PCCL_PEER_ID_SIZE - 1);
        lines[i].peer.digits[PCCL_PEER_ID_SIZE - 1] = '\0';
        lines[i].data = data;
        lines[i].length = (size_t)length_of(lengths, blob_of(operation, operation->members->rank, i));
        data += lines[i].length;
    }
}

/* Passes ownership of the memory to the caller. */
static void hand_over(struct pccl_comm_op *operation)
{
    struct blobs *blobs = operation->part;
    blobs->is_given = true;
    blobs->out->blobs = blobs->memory->blobs;
}

static void give(struct pccl_comm_op *operation)
{
    struct blobs *blobs = operation->part;
    uint32_t count = line_count(operation);
    if (count == 0)
        return;
    hand_over(operation);
    const pcclBlob_t *last = &blobs->memory->blobs[count - 1];
    blobs->out->count = count;
    blobs->out->bytes = (size_t)((const uint8_t *)last->data - data_of(operation)) + last->length;
}

static size_t bytes_of(const struct blobs *blobs) { return sizeof *blobs + blobs->count * sizeof *blobs->own; }

static void end(struct pccl_comm_op *operation, bool succeeded)
{
    struct blobs *blobs = operation->part;
    if (!blobs)
        return;
    if (succeeded)
        give(operation);
    if (!blobs->is_given)
        free_memory(blobs->memory);
    pccl_release(pccl_heap(), blobs, bytes_of(blobs));
}

/* ---- arrivals ---- */

/*
 * Records arrivals: in a tiny operation all parts at once; in a bulk operation only the empty ones, before the transfer
 * of the others begins.
 */
static void note_arrivals(struct pccl_communicator *comm, struct pccl_comm_op *operation, bool only_empty)
{
    for (uint32_t i = 0; i < line_count(operation); i++) {
        if (!only_empty || part_of(operation)->memory->blobs[i].length == 0)
            pccl_comm_op_arrived(comm, operation, giver_of(operation, i));
    }
}

static void show(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    struct pccl_comm_arrivals *arrivals = &operation->arrivals;
    while (arrivals->show && arrivals->shown < arrivals->count &&
           (!operation->decided || pccl_comm_op_has_committed(operation))) {
        uint32_t line = arrivals->from[arrivals->shown++];
        if (part_of(operation)->row->result.amount == PCCL_ONE_PART)
            line = 0;
        hand_over(operation);
        pccl_comm_leave(comm);
        arrivals->show(&part_of(operation)->memory->blobs[line], arrivals->user_data);
        pccl_comm_enter(comm);
    }
}

static bool expect_arrivals(struct pccl_comm_op *operation, const struct pccl_op_args *args)
{
    struct pccl_comm_arrivals *arrivals = &operation->arrivals;
    arrivals->show = args->on_arrival;
    arrivals->user_data = args->user_data;
    if (arrivals->show)
        arrivals->from = pccl_allocate(pccl_heap(), operation->members->count * sizeof *arrivals->from);
    return !arrivals->show || arrivals->from;
}

/* ---- first operation: exchange of the lengths ---- */

static bool make_blobs(struct pccl_comm_op *operation, const struct pccl_op_args *args)
{
    const struct pccl_collective_row *row = pccl_collective(args->launch.descriptor.collective);
    uint32_t count = pccl_parts_of(&row->input, operation->members->count, operation->members->rank == args->root);
    struct blobs *blobs = pccl_allocate(pccl_heap(), sizeof *blobs + count * sizeof *blobs->own);
    if (!blobs)
        return false;
    operation->part = blobs;
    blobs->out = args->out;
    blobs->row = row;
    blobs->root = args->root;
    blobs->bytes_max = args->launch.descriptor.count;
    blobs->count = count;
    for (uint32_t i = 0; i < count; i++)
        blobs->own[i] = args->blobs ? args->blobs[i] : (pcclPart_t){args->buffers.input.memory, (size_t)args->length};
    return expect_arrivals(operation, args) && make_room(operation, PCCL_TINY_BYTES_MAX);
}

static void empty(const struct pccl_comm_op *operation)
{
    pcclBlobs_t *out = part_of(operation)->out;
    const size_t size = out->size;
    memset(out, 0, size); /* includes the fields of later versions */
    out->size = size;
}

static enum pccl_status begin(const struct pccl_communicator *comm, struct pccl_comm_op *operation,
                              struct pccl_op_args *args, struct pccl_text *reason)
{
    const uint8_t collective = args->launch.descriptor.collective;
    uint32_t world = operation->members->count, most = pccl_tiny_members_max(collective);
    if (world > most) {
        pccl_text_format(reason, "too many members for this operation: %u at most, the group has %u", most, world);
        return PCCL_LIMIT;
    }
    if (!make_blobs(operation, args))
        return PCCL_MEMORY;
    const struct blobs *blobs = operation->part;
    struct pccl_tiny_blob own[PCCL_TINY_BLOBS_MAX];
    for (uint32_t i = 0; i < blobs->count; i++)
        own[i] = (struct pccl_tiny_blob){blobs->own[i].length, blobs->own[i].data};
    struct pccl_launch *launch = &args->launch;
    operation->goes_on = launch->tiny = launch->followed = true;
    launch->payload = data_of(operation);
    launch->payload_bytes = pccl_tiny_put_blobs(data_of(operation), collective, own, blobs->count, world,
                                                pccl_peer_tiny_bytes_max(comm->peer));
    return PCCL_OK;
}

static void add(struct lengths *lengths, uint64_t length)
{
    const uint64_t before = lengths->starts[lengths->count++];
    lengths->starts[lengths->count] = pccl_sum_u64(before, length);
}

/* Reads the lengths of all blobs, and any blobs that arrived with them. */
static void read_lengths(const struct pccl_comm_op *operation, struct pccl_tiny_blob *blobs, struct lengths *lengths)
{
    uint32_t count = pccl_tiny_list_blobs(operation->op->descriptor.collective, operation->members->count,
                                          operation->op->payload, blobs);
    *lengths = (struct lengths){.are_all = true};
    for (uint32_t i = 0; i < count; i++) {
        add(lengths, blobs[i].length);
        lengths->are_all = lengths->are_all && blobs[i].data;
    }
}

static uint32_t longest_source(const struct pccl_comm_op *operation, uint32_t rank, const struct lengths *lengths)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < line_count(operation); i++)
        if (length_of(lengths, blob_of(operation, rank, i)) > length_of(lengths, blob_of(operation, rank, longest)))
            longest = i;
    return giver_of(operation, longest);
}

/* Checks the lengths against bytes_max. All peers compare the same figures, so the result is the same on all. */
static enum pccl_status check(const struct pccl_comm_op *operation, const struct lengths *lengths,
                              struct pccl_text *reason)
{
    const struct blobs *blobs = operation->part;
    const bool gathers = !has_one_for_each(blobs);
    uint32_t longest = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < operation->members->count; i++) {
        uint64_t bytes = gathers ? length_of(lengths, i) : bytes_for(operation, i, lengths);
        longest = bytes > most ? i : longest;
        most = pccl_max_u64(most, bytes);
    }
    if ((gathers ? lengths->starts[lengths->count] : most) <= blobs->bytes_max)
        return PCCL_OK;
    if (gathers)
        pccl_text_format(
            reason,
            "the blobs have %" PRIu64 " bytes in total, more than max_bytes (%" PRIu64 "); the longest is peer %s's",
            lengths->starts[lengths->count], blobs->bytes_max, pccl_id_str(&operation->members->ids[longest]));
    else
        pccl_text_format(reason,
                         "the blobs for peer %s have %" PRIu64 " bytes in total, more than max_bytes (%" PRIu64
                         "); the longest is peer %s's",
                         pccl_id_str(&operation->members->ids[longest]), most, blobs->bytes_max,
                         pccl_id_str(&operation->members->ids[longest_source(operation, longest, lengths)]));
    return PCCL_MISMATCH;
}

/* Copies the blobs that arrived with their lengths to the caller. */
static void take(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct lengths *lengths,
                 const struct pccl_tiny_blob *blobs)
{
    lay_out(operation, lengths);
    for (uint32_t i = 0; i < line_count(operation); i++) {
        const struct pccl_tiny_blob *blob = &blobs[blob_of(operation, operation->members->rank, i)];
        if (blob->length)
            memcpy((uint8_t *)(uintptr_t)part_of(operation)->memory->blobs[i].data, blob->data, (size_t)blob->length);
    }
    note_arrivals(comm, operation, false);
}

static enum pccl_status do_alone(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                 struct pccl_text *reason)
{
    const pcclPart_t *own = part_of(operation)->own;
    const struct pccl_tiny_blob blob = {own->length, own->data};
    struct lengths lengths = {0};
    add(&lengths, own->length);
    enum pccl_status status = check(operation, &lengths, reason);
    if (status != PCCL_OK)
        return status;
    if (!make_room(operation, own->length))
        return PCCL_MEMORY;
    take(comm, operation, &lengths, &blob);
    return PCCL_OK;
}

/* ---- second operation: transfer of the blobs ---- */

/* Fills `list`, which has room for all blobs that this member sends, with their extents. */
static struct pccl_extents input_of(const struct blobs *blobs, struct pccl_extent *list)
{
    size_t from = 0;
    for (uint32_t i = 0; i < blobs->count; i++) {
        list[i] = (struct pccl_extent){from, (uint8_t *)(uintptr_t)blobs->own[i].data};
        from += blobs->own[i].length;
    }
    struct pccl_extents input = pccl_extents_of(blobs->count ? list[0].memory : NULL);
    if (blobs->count > 1) {
        input.list = list;
        input.count = blobs->count;
    }
    return input;
}

/* Launches the second operation, on bytes; each peer now knows the lengths that it sends and receives. */
static void move(struct pccl_communicator *comm, struct pccl_comm_op *operation, const struct lengths *lengths)
{
    struct pccl_extent list[PCCL_TINY_BLOBS_MAX];
    const struct pccl_descriptor *first = &operation->op->descriptor;
    struct pccl_op_args args = {.launch.descriptor = {.collective = first->collective,
                                                      .datatype = PCCL_U8,
                                                      .count = lengths->starts[lengths->count],
                                                      .root = first->root,
                                                      .counts = pccl_op_args_digest(lengths->starts, lengths->count),
                                                      .label = first->label},
                                .starts = lengths->starts,
                                .part_count = lengths->count};
    bool has_room = make_room(operation, bytes_for(operation, operation->members->rank, lengths));
    if (has_room) {
        lay_out(operation, lengths);
        note_arrivals(comm, operation, true);
        args.buffers.input = input_of(operation->part, list);
        args.buffers.result = pccl_extents_of(data_of(operation));
    }
    pccl_comm_op_next(comm, operation, &args, has_room);
}

/* Returns the number of bytes that this peer sent and received through the master. */
static struct pccl_traffic traffic_of(const struct pccl_comm_op *operation, const struct lengths *lengths)
{
    const struct blobs *blobs = operation->part;
    struct pccl_traffic traffic = {.received_bytes = bytes_for(operation, operation->members->rank, lengths)};
    for (uint32_t i = 0; i < blobs->count; i++)
        traffic.sent_bytes += blobs->own[i].length;
    return traffic;
}

static void go_on(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    struct pccl_tiny_blob blobs[PCCL_TINY_BLOBS_MAX];
    struct lengths lengths;
    comm->operations.due = NULL;
    if (operation->decided)
        return; /* the state machine broke */
    read_lengths(operation, blobs, &lengths);
    operation->status = check(operation, &lengths, &operation->reason);
    if (operation->status == PCCL_OK && !lengths.are_all) {
        move(comm, operation, &lengths);
        return;
    }
    if (operation->status == PCCL_OK) {
        take(comm, operation, &lengths, blobs);
        operation->traffic = traffic_of(operation, &lengths);
    }
    pccl_comm_op_decided(comm, operation);
}

const struct pccl_comm_composition pccl_comm_blobs = {
    .begin = begin, .alone = do_alone, .launched = empty, .go_on = go_on, .show = show, .end = end};
