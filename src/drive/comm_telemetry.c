#include "drive/comm_telemetry.h"
#include "drive/communicator.h"

#include "drive/text_file.h"
#include "log/logger.h"
#include "net/heap.h"
#include "os/file.h"
#include "os/terminal.h"
#include "peer/queries.h"
#include "ops/dump.h"
#include "wire/subgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FILE_EVERY_US = 1000000, /* minimum interval between writes of a file, even if many operations fail */
    ANNOUNCED_MAX = 256,     /* maximum number of announced operations of other peers in a dump */
};

/* ---- creation and destruction ---- */

enum pccl_status pccl_comm_telemetry_check(const struct pccl_params *params, struct pccl_text *reason)
{
    int error = params->recorder_dir[0] == '\0' ? 0 : pccl_directory_check_write(params->recorder_dir);
    if (error == 0)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_ARGUMENT, "invalid value '%s' for recorder_dir: expected a writable directory: %s",
                     params->recorder_dir, uv_strerror(error));
}

bool pccl_comm_telemetry_init(struct pccl_communicator *comm)
{
    comm->telemetry.recorder = pccl_recorder_create(pccl_heap(), comm->params.recorder_operations);
    return comm->telemetry.recorder != NULL;
}

void pccl_comm_telemetry_fini(struct pccl_communicator *comm)
{
    pccl_recorder_destroy(comm->telemetry.recorder);
    pccl_comm_members_drop(comm->telemetry.list);
}

/* ---- entries ---- */

static void describe(struct pccl_recorder_entry *entry, const struct pccl_comm_op *operation)
{
    const struct pccl_peer_op *op = operation->op;
    entry->number = operation->number;
    entry->instance = op->instance;
    entry->descriptor = op->descriptor;
    entry->tiny = op->tiny;
    entry->restarts = op->restarts;
    entry->world = op->world;
    entry->rank = operation->members->rank;
    entry->entered_us = operation->launched_us;
    entry->sent_bytes = operation->traffic.sent_bytes;
    entry->received_bytes = operation->traffic.received_bytes;
}

/* Records an operation that has ended. The recorder keeps one list for consecutive operations with the same members. */
static struct pccl_recorder_entry *add_ended(struct pccl_comm_telemetry *telemetry,
                                             const struct pccl_comm_op *operation)
{
    const bool same = operation->members == telemetry->list;
    if (!same) {
        pccl_comm_members_drop(telemetry->list);
        telemetry->list = pccl_comm_members_hold(operation->members);
    }
    return pccl_recorder_add(telemetry->recorder, same ? NULL : operation->members->ids, operation->members->count);
}

void pccl_comm_telemetry_decided(struct pccl_communicator *comm, const struct pccl_comm_op *operation)
{
    const struct pccl_peer_op *op = operation->op;
    struct pccl_recorder *recorder = comm->telemetry.recorder;
    if (!op || op->instance.pair == PCCL_OPEN_PAIR) /* no sender is chosen, so other peers cannot identify it */
        return;
    struct pccl_recorder_entry *entry = add_ended(&comm->telemetry, operation);
    describe(entry, operation);
    entry->state = PCCL_TELEMETRY_ENDED;
    entry->class = op->class;
    entry->lost_by = op->lost_by;
    entry->ended_us = comm->stepped_us;
    if (operation->number == 0) { /* the operation ended in the step that launched it */
        entry->number = comm->telemetry.launches + 1;
        entry->entered_us = op->launched_us;
    }
    if (op->reason.length)
        pccl_recorder_add_reason(recorder, entry, &op->reason);
    if (operation->job)
        operation->job->entry = entry->number;
}

static void add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                      const struct pccl_comm_op_job *job)
{
    pccl_recorder_add_flows(recorder, entry, job->job.config.telemetry, job->job.config.telemetry_count,
                            job->job.config.ring);
}

void pccl_comm_telemetry_released(struct pccl_communicator *comm, const struct pccl_comm_op_job *job)
{
    struct pccl_recorder *recorder = comm->telemetry.recorder;
    struct pccl_recorder_entry *entry = job->entry ? pccl_recorder_find(recorder, job->entry) : NULL;
    if (!entry)
        return;
    entry->sent_bytes = job->job.traffic.sent_bytes;
    entry->received_bytes = job->job.traffic.received_bytes;
    add_flows(recorder, entry, job);
}

void pccl_comm_telemetry_failed(struct pccl_communicator *comm)
{
    if (comm->params.recorder_dir[0] != '\0')
        atomic_store(&comm->telemetry.due, true);
}

/* ---- dumps ---- */

enum pccl_telemetry_state pccl_comm_telemetry_state(const struct pccl_peer_op *op)
{
    switch (op->state) {
    case PCCL_OP_OPEN:
    case PCCL_OP_RUNNING: return PCCL_TELEMETRY_MOVING;
    case PCCL_OP_FAILED: return PCCL_TELEMETRY_FAILED;
    case PCCL_OP_DONE:
    case PCCL_OP_DECIDED: /* the operation continues, or ends in this step */
    case PCCL_OP_TOMBSTONE: break;
    }
    return PCCL_TELEMETRY_COMPLETE;
}

static struct pccl_comm_op *operation_of(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
}

bool pccl_comm_telemetry_is_under_way(const struct pccl_comm_op *operation)
{
    return !operation->decided && operation->op && operation->op->state != PCCL_OP_OPEN;
}

static void add_under_way(struct pccl_recorder *recorder, const struct pccl_comm_op *operation)
{
    struct pccl_recorder_entry *entry = pccl_recorder_add(recorder, operation->members->ids, operation->members->count);
    describe(entry, operation);
    entry->state = pccl_comm_telemetry_state(operation->op);
    if (!operation->job)
        return;
    add_flows(recorder, entry, operation->job);
    const struct pccl_recorder_flow *flows = pccl_recorder_flows(recorder, entry);
    entry->sent_bytes = entry->received_bytes = 0;
    for (uint32_t i = 0; flows && i < entry->flows.count; i++)
        *(flows[i].counters.place & PCCL_TELEMETRY_OUTGOING ? &entry->sent_bytes : &entry->received_bytes) +=
            flows[i].counters.bytes;
}

static int by_number(const void *a, const void *b)
{
    const struct pccl_recorder_entry *left = a, *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* Returns a copy of the recorder to which the operations in progress are added, or NULL if out of memory. */
static struct pccl_recorder *copy_recorder(const struct pccl_communicator *comm)
{
    uint32_t count = 0, ids = 0;
    const struct pccl_table *operations = &comm->operations.by_tag;
    for (struct pccl_table_node *node = pccl_table_first(operations); node; node = pccl_table_after(operations, node)) {
        count++;
        ids += operation_of(node)->members->count;
    }
    for (const struct pccl_comm_op_job *job = comm->data.jobs; job; job = job->next)
        count++; /* leaves room for flows that are not in the recorder yet */
    struct pccl_recorder *copy = pccl_recorder_copy(comm->telemetry.recorder, pccl_heap(), count, ids);
    if (!copy)
        return NULL;
    for (const struct pccl_comm_op_job *job = comm->data.jobs; job; job = job->next) {
        struct pccl_recorder_entry *entry = job->entry ? pccl_recorder_find(copy, job->entry) : NULL;
        if (entry)
            add_flows(copy, entry, job);
    }
    for (struct pccl_table_node *node = pccl_table_first(operations); node; node = pccl_table_after(operations, node))
        if (pccl_comm_telemetry_is_under_way(operation_of(node)))
            add_under_way(copy, operation_of(node));
    return copy;
}

static void note_announced(void *context, const struct pccl_id *from, const struct pccl_instance *instance,
                           const struct pccl_descriptor *descriptor)
{
    struct pccl_telemetry_dump *dump = context;
    if (dump->announced_count < ANNOUNCED_MAX)
        dump->announced[dump->announced_count++] =
            (struct pccl_telemetry_announced){.from = *from, .instance = *instance, .descriptor = *descriptor};
}

/* Collects the state of the peer's state machine. Returns false if out of memory. */
static bool note_peer(const struct pccl_communicator *comm, struct pccl_telemetry_dump *dump)
{
    const struct pccl_peer *peer = comm->peer;
    if (!peer)
        return true;
    dump->connected = pccl_peer_is_connected(peer);
    dump->epoch = pccl_peer_attributes(peer).epoch;
    dump->why = *pccl_peer_last_reason(peer);
    dump->waits = *pccl_peer_waiting(peer);
    const struct pccl_member *members = pccl_peer_view_members(peer, &dump->member_count);
    dump->announced = pccl_allocate(pccl_heap(), ANNOUNCED_MAX * sizeof *dump->announced);
    if (dump->member_count)
        dump->members = pccl_allocate(pccl_heap(), dump->member_count * sizeof *dump->members);
    if (!dump->announced || (dump->member_count && !dump->members))
        return false;
    for (uint32_t i = 0; i < dump->member_count; i++) {
        const char *name = pccl_peer_name_of(peer, &members[i].peer);
        dump->members[i].peer = members[i].peer;
        pccl_text_format(&dump->members[i].name, "%s", name ? name : "");
    }
    pccl_peer_each_announcement(peer, note_announced, dump);
    return true;
}

/* Collects everything that requires the lock. Returns false if out of memory. */
static bool note_all(struct pccl_communicator *comm, struct pccl_telemetry_dump *dump, struct pccl_engine **engine)
{
    pccl_comm_enter(comm);
    struct timespec wall = pccl_terminal_now();
    dump->now_us = pccl_now_us();
    dump->wall_us = (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000;
    dump->self = comm->id;
    dump->process = (uint64_t)uv_os_getpid();
    dump->group = comm->params.peer_group;
    *engine = comm->started ? comm->data.engine : NULL;
    bool noted = note_peer(comm, dump);
    if (noted)
        dump->recorder = copy_recorder(comm);
    pccl_comm_leave(comm);
    return noted && dump->recorder;
}

/* Collects the engine's connections; sets *room to the size of the array. Returns false if out of memory. */
static bool note_connections(struct pccl_engine *engine, struct pccl_telemetry_dump *dump, uint32_t *room)
{
    *room = engine ? pccl_engine_connections(engine, NULL, 0) : 0;
    if (*room == 0)
        return true;
    dump->connections = pccl_allocate(pccl_heap(), *room * sizeof *dump->connections);
    if (!dump->connections)
        return false;
    dump->connection_count = (uint32_t)pccl_min_u64(pccl_engine_connections(engine, dump->connections, *room), *room);
    return true;
}

static void free_dump(struct pccl_telemetry_dump *dump, uint32_t room)
{
    pccl_release(pccl_heap(), dump->members, dump->member_count * sizeof *dump->members);
    pccl_release(pccl_heap(), dump->announced, ANNOUNCED_MAX * sizeof *dump->announced);
    pccl_release(pccl_heap(), dump->connections, room * sizeof *dump->connections);
    pccl_recorder_destroy(dump->recorder);
    pccl_release(pccl_heap(), dump, sizeof *dump);
}

enum pccl_status pccl_comm_telemetry_text(struct pccl_communicator *comm, char **text, size_t *bytes)
{
    struct pccl_engine *engine;
    uint32_t room = 0;
    enum pccl_status status = PCCL_MEMORY;
    struct pccl_telemetry_dump *dump = pccl_allocate(pccl_heap(), sizeof *dump);
    if (!dump)
        return PCCL_MEMORY;
    if (note_all(comm, dump, &engine) && note_connections(engine, dump, &room)) {
        qsort(dump->recorder->entries, pccl_recorder_kept(dump->recorder), sizeof(struct pccl_recorder_entry),
              by_number);
        pccl_recorder_count_attempts(dump->recorder);
        *bytes = pccl_telemetry_write(dump, NULL, 0);
        *text = pccl_allocate(pccl_heap(), *bytes);
        if (*text) {
            (void)pccl_telemetry_write(dump, *text, *bytes);
            status = PCCL_OK;
        }
    }
    free_dump(dump, room);
    return status;
}

/* ---- files ---- */

enum pccl_status pccl_comm_telemetry_write(struct pccl_communicator *comm, const char *name, struct pccl_text *reason)
{
    char *text = NULL;
    size_t bytes = 0;
    enum pccl_status status = pccl_comm_telemetry_text(comm, &text, &bytes);
    if (status != PCCL_OK) {
        pccl_text_format(reason, "out of memory for the flight recorder's text");
        return status;
    }
    status = pccl_text_file_write(name, text, bytes - 1, reason);
    pccl_release(pccl_heap(), text, bytes);
    return status;
}

/* Returns true if this thread must write the file, with the name of the file. */
static bool begin_file(struct pccl_communicator *comm, char *name, size_t size)
{
    struct pccl_comm_telemetry *telemetry = &comm->telemetry;
    uint64_t now_us = pccl_now_us();
    char id[33] = {0};
    pccl_comm_enter(comm);
    bool turn = !telemetry->writing && (telemetry->written_us == 0 || now_us - telemetry->written_us >= FILE_EVERY_US);
    if (turn) {
        telemetry->writing = true;
        atomic_store(&telemetry->due, false);
    }
    pccl_id_write(&comm->id, id, sizeof id - 1);
    pccl_comm_leave(comm);
    (void)snprintf(name, size, "%s/pccl-%s.json", comm->params.recorder_dir, id);
    return turn;
}

void pccl_comm_telemetry_after_call(struct pccl_communicator *comm)
{
    char name[PCCL_TEXT_FILE_NAME_MAX];
    struct pccl_text reason;
    if (!atomic_load_explicit(&comm->telemetry.due, memory_order_relaxed) || !begin_file(comm, name, sizeof name))
        return;
    enum pccl_status status = pccl_comm_telemetry_write(comm, name, &reason);
    pccl_comm_enter(comm);
    bool tell = status != PCCL_OK && !comm->telemetry.told;
    comm->telemetry.told = status != PCCL_OK;
    comm->telemetry.writing = false;
    comm->telemetry.written_us = pccl_now_us();
    pccl_comm_leave(comm);
    if (tell)
        pccl_logger_print(PCCL_LOG_WARN, "recorder", "%s", reason.bytes);
}
