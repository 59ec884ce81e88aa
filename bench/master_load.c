/*
 * What the master costs: N real peer machines and one real master machine in one process, joined by
 * byte queues. Only the master's work (framing, decoding, stepping, encoding) is timed.
 *
 *   master_load [PEERS [OPERATIONS [BYTES]]]      prints lines of key=value: the operations, then the pages, at rest
 *                                                 and while all but one wait in an operation. OPERATIONS 0: only the
 *                                                 pages, and all join at once, which takes less time
 *   master_load views PEERS                       lets the last newcomers of PEERS join, which gate.py counts;
 *                                                 prints the views that all peers together have received
 */
#include "kernels/reduce.h"
#include "ops/metrics.h"
#include "ops/pages.h"
#include "net/build.h"
#include "peer/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct queue {
    uint8_t *bytes;
    size_t length, capacity;
};

struct node {
    struct pccl_peer *peer;
    struct pccl_id id;
    struct queue up, down; /* to the master, from the master */
    struct pccl_frame_reader up_reader, down_reader;
    bool dialed, connected;
    uint32_t decided;
    struct pccl_peer_op *op;
    struct world *world;
};

struct world {
    struct pccl_master *master;
    struct node *nodes;
    uint32_t count;
    uint64_t now_us, peer_views;
    double master_s;
    size_t master_bytes, peer_bytes;
};

enum { WANTED_MAX = 64 << 10, LAST = 16, OF_ADDRESS = 16 };

static struct pccl_wire_scratch scratch;

static void *counted_resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    size_t *total = context;
    *total += new_bytes - old_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_bytes);
}

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void put(struct queue *queue, const uint8_t *bytes, size_t length)
{
    if (queue->length + length > queue->capacity) {
        queue->capacity = 2 * (queue->length + length);
        queue->bytes = realloc(queue->bytes, queue->capacity);
        if (queue->bytes == NULL)
            abort();
    }
    memcpy(queue->bytes + queue->length, bytes, length);
    queue->length += length;
}

/* ---- effects ---- */

static void master_send(void *context, pccl_conn conn, const uint8_t *bytes, size_t length)
{
    struct world *world = context;
    put(&world->nodes[conn - 1].down, bytes, length);
}

static void master_accept(void *context, pccl_conn conn)
{
    struct world *world = context;
    pccl_frame_reader_raise(&world->nodes[conn - 1].up_reader, PCCL_FRAME_BODY_MAX);
}

static void master_close(void *context, pccl_conn conn)
{
    (void)context;
    fprintf(stderr, "the master closed connection %llu\n", (unsigned long long)conn);
    exit(1);
}

static bool master_probe(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                         const struct pccl_id *ticket, const struct pccl_address *address)
{
    (void)context, (void)peer, (void)lineage, (void)ticket, (void)address;
    return true;
}

static void quiet(void *context, enum pccl_log_level level, const char *line)
{
    (void)context;
    if (level >= PCCL_LOG_ERROR)
        fprintf(stderr, "%s\n", line);
}

static void quiet_master(void *context, enum pccl_log_level level, const char *line,
                         const struct pccl_log_fields *fields)
{
    (void)fields;
    quiet(context, level, line);
}

static void dial_master(void *context) { ((struct node *)context)->dialed = true; }

static void nothing(void *context) { (void)context; }

static void accept_master(void *context)
{
    pccl_frame_reader_raise(&((struct node *)context)->down_reader, PCCL_FRAME_BODY_MAX);
}

static void send_master(void *context, const uint8_t *bytes, size_t length)
{
    put(&((struct node *)context)->up, bytes, length);
}

static struct pccl_id wanted_links[WANTED_MAX];
static struct node *wanting[WANTED_MAX];
static uint32_t wanted_count;

static void dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                      const struct pccl_address *candidates, uint32_t count, bool reversed)
{
    (void)ticket, (void)candidates, (void)count, (void)reversed;
    if (wanted_count == WANTED_MAX)
        abort();
    wanting[wanted_count] = context;
    wanted_links[wanted_count++] = *peer;
}

static void close_link(void *context, const struct pccl_id *peer, bool incoming)
{
    (void)context, (void)peer, (void)incoming;
}

static void call_done(void *context, enum pccl_call call, enum pccl_status status, bool value)
{
    (void)call, (void)value;
    ((struct node *)context)->connected = status == PCCL_OK;
}

static void op_decided(void *context, struct pccl_peer_op *op)
{
    ((struct node *)context)->decided += op->class == PCCL_CLASS_NONE;
}

static void ring_changed(void *context, const struct pccl_id *ring, uint32_t count)
{
    (void)ring, (void)count;
    ((struct node *)context)->world->peer_views++;
}

static void op_ignored(void *context, struct pccl_peer_op *op) { (void)context, (void)op; }

/* ---- moving bytes ---- */

static int next_message(struct pccl_frame_reader *reader, struct queue *queue, size_t *at, struct pccl_frame *frame,
                        struct pccl_msg *msg)
{
    struct pccl_text reason;
    int got;
    while ((got = pccl_frame_reader_next(reader, frame, &reason)) == 0 && *at < queue->length) {
        size_t room, left = queue->length - *at;
        uint8_t *space = pccl_frame_reader_space(reader, &room);
        size_t length = left < room ? left : room;
        memcpy(space, queue->bytes + *at, length);
        pccl_frame_reader_filled(reader, length);
        *at += length;
    }
    if (got == 1 && pccl_wire_decode(frame->type, frame->body, frame->length, &scratch, msg, &reason) != PCCL_OK)
        got = -1;
    if (got < 0) {
        fprintf(stderr, "broken frame: %s\n", reason.bytes);
        exit(1);
    }
    return got;
}

static bool pump_master(struct world *world)
{
    bool any = false;
    double begun_s = cpu_s();
    for (uint32_t i = 0; i < world->count; i++) {
        struct node *node = &world->nodes[i];
        struct pccl_frame frame;
        struct pccl_msg msg;
        size_t at = 0;
        while (next_message(&node->up_reader, &node->up, &at, &frame, &msg) == 1) {
            pccl_master_step(world->master, &(struct pccl_master_event){.kind = PCCL_MASTER_RECEIVED,
                                                                        .now_us = world->now_us,
                                                                        .conn = i + 1,
                                                                        .frame = &frame,
                                                                        .msg = &msg});
            any = true;
        }
        node->up.length = 0;
    }
    pccl_master_step(world->master, &(struct pccl_master_event){.kind = PCCL_MASTER_IDLE, .now_us = world->now_us});
    world->master_s += cpu_s() - begun_s;
    return any;
}

static enum pccl_status tell(struct node *node, struct pccl_peer_event *event)
{
    event->now_us = node->world->now_us;
    return pccl_peer_step(node->peer, event);
}

static void call(struct node *node, enum pccl_call call)
{
    if (tell(node, &(struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = call}) != PCCL_OK)
        abort();
}

__attribute__((noinline)) static bool pump_peers(struct world *world)
{
    bool any = wanted_count > 0;
    for (uint32_t i = 0; i < wanted_count; i++)
        tell(wanting[i], &(struct pccl_peer_event){.kind = PCCL_PEER_LINK_UP, .peer = wanted_links[i]});
    wanted_count = 0;
    for (uint32_t i = 0; i < world->count; i++) {
        struct node *node = &world->nodes[i];
        struct pccl_frame frame;
        struct pccl_msg msg;
        size_t at = 0;
        while (next_message(&node->down_reader, &node->down, &at, &frame, &msg) == 1) {
            tell(node, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_RECEIVED, .frame = &frame, .msg = &msg});
            any = true;
        }
        node->down.length = 0;
    }
    return any;
}

static void pump(struct world *world)
{
    bool any = true;
    while (any) {
        any = pump_master(world);
        any = pump_peers(world) || any;
        world->now_us += 10;
    }
}

/* ---- the run ---- */

/* One more comes to the master. */
static void greet(struct world *world, uint32_t index)
{
    struct node *node = &world->nodes[index];
    node->world = world;
    struct pccl_memory memory = {counted_resize, &world->peer_bytes};
    struct pccl_peer_config config = pccl_peer_defaults();
    config.build = *pccl_build_own();
    memset(config.id.bytes, 0, sizeof config.id.bytes);
    memcpy(config.id.bytes, &(uint32_t){index + 1}, 4);
    memset(config.token.bytes, 7, sizeof config.token.bytes);
    config.link_key = config.token;
    config.port = 1;
    struct pccl_peer_effects effects = {.context = node,
                                        .dial_master = dial_master,
                                        .close_master = nothing,
                                        .send_master = send_master,
                                        .accept_master = accept_master,
                                        .dial_link = dial_link,
                                        .close_link = close_link,
                                        .ring_changed = ring_changed,
                                        .call_done = call_done,
                                        .op_decided = op_decided,
                                        .op_start = op_ignored,
                                        .op_stop = op_ignored,
                                        .log = quiet};
    static struct pccl_memory peer_memory;
    peer_memory = memory;
    node->peer = pccl_peer_create(&config, &peer_memory, &effects, world->now_us);
    pccl_frame_reader_init(&node->up_reader, &peer_memory);
    pccl_frame_reader_init(&node->down_reader, &peer_memory);
    call(node, PCCL_CALL_CONNECT);
    struct pccl_master_event opened = {.kind = PCCL_MASTER_OPENED, .now_us = world->now_us, .conn = index + 1};
    opened.address = pccl_address_v4(127, 0, (uint8_t)(index / OF_ADDRESS / 256), (uint8_t)(index / OF_ADDRESS), 1);
    pccl_master_step(world->master, &opened);
    tell(node, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_UP});
}

/* Those who are members let in who has come. Returns how many are members then. */
static uint32_t update(struct world *world)
{
    uint32_t members = 0;
    for (uint32_t i = 0; i < world->count; i++)
        if (world->nodes[i].connected)
            call(&world->nodes[i], PCCL_CALL_UPDATE);
    pump(world);
    for (uint32_t i = 0; i < world->count; i++)
        members += world->nodes[i].connected;
    return members;
}

static void expect_members(const struct world *world, uint32_t members)
{
    if (members == world->count)
        return;
    fprintf(stderr, "of %u peers %u were admitted\n", world->count, members);
    exit(1);
}

static void join_one_by_one(struct world *world, uint32_t count)
{
    while (world->count < count) {
        greet(world, world->count++);
        pump(world);
        expect_members(world, update(world));
    }
}

static void join_at_once(struct world *world, uint32_t count)
{
    uint32_t members = 0;
    while (world->count < count) {
        greet(world, world->count++);
        if (world->count % (PCCL_STRANGERS_MAX / 2) == 0)
            pump(world); /* their hellos */
    }
    pump(world);
    for (uint32_t before = 1; members < count && members != before; members = update(world))
        before = members;
    expect_members(world, members);
}

/* Its return ends what gate.py counts. */
__attribute__((noinline)) static void join_the_last(struct world *world, uint32_t count)
{
    world->peer_views = 0;
    join_at_once(world, count);
}

static void reduce(struct world *world, uint32_t bytes)
{
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    struct pccl_launch launch = {.tag = 1, .payload = payload, .payload_bytes = bytes, .tiny = true};
    launch.descriptor = (struct pccl_descriptor){.datatype = PCCL_F32, .operation = PCCL_SUM, .count = bytes / 4};
    for (uint32_t i = 0; i < world->count; i++) {
        struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
        if (tell(&world->nodes[i], &event) != PCCL_OK)
            abort();
        world->nodes[i].op = event.op;
    }
    pump(world);
    for (uint32_t i = 0; i < world->count; i++)
        tell(&world->nodes[i], &(struct pccl_peer_event){.kind = PCCL_PEER_OP_RELEASE, .op = world->nodes[i].op});
}

/* What the pages of a run of this size cost: bytes, time of all slices, of the longest, and of the copy. */
static void print_pages(struct world *world)
{
    enum { SLICE_ITEMS = 64, PAGE_BYTES_MAX = 64 << 20 };
    struct pccl_memory memory = {counted_resize, &(size_t){0}};
    struct pccl_figures figures;
    struct pccl_print metrics, json;
    double begun_s = cpu_s(), copied_s, longest_s = 0;
    if (!pccl_figures_take(world->master, true, &memory, &figures))
        abort();
    figures.driver.version = "0";
    copied_s = cpu_s();
    pccl_print_init(&json, &memory, PAGE_BYTES_MAX);
    pccl_print_init(&metrics, &memory, PAGE_BYTES_MAX);
    bool more = true;
    for (uint32_t at = 0; more;) {
        double slice_s = cpu_s();
        for (int i = 0; more && i < SLICE_ITEMS; i++)
            more = pccl_page_json(&figures, &at, &json);
        slice_s = cpu_s() - slice_s;
        longest_s = slice_s > longest_s ? slice_s : longest_s;
    }
    double made_s = cpu_s();
    static struct pccl_link_blocks blocks;
    pccl_link_blocks_visit(&blocks, world->master, PCCL_FIGURES_ROWS_MAX);
    double visited_s = cpu_s();
    pccl_metrics_write(&figures, &metrics);
    printf("peers=%u calls=%u metrics_bytes=%u metrics_ms=%.3f status_bytes=%u status_ms=%.3f copy_ms=%.3f "
           "longest_slice_ms=%.3f blocks=%u blocks_ms=%.3f\n",
           world->count, figures.wait_count, metrics.length, (cpu_s() - visited_s) * 1e3, json.length,
           (made_s - begun_s) * 1e3, (copied_s - begun_s) * 1e3, longest_s * 1e3, blocks.count,
           (visited_s - made_s) * 1e3);
    pccl_print_fini(&json);
    pccl_print_fini(&metrics);
    pccl_figures_fini(&figures);
}

/* All but the last wait in an operation, and the pages say so. */
static void print_busy_pages(struct world *world)
{
    struct pccl_launch launch = {.tag = 2, .payload = (const uint8_t *)"1234", .payload_bytes = 4, .tiny = true};
    launch.descriptor = (struct pccl_descriptor){.datatype = PCCL_F32, .operation = PCCL_SUM, .count = 1};
    for (uint32_t i = 0; i + 1 < world->count; i++)
        if (tell(&world->nodes[i], &(struct pccl_peer_event){.kind = PCCL_PEER_LAUNCH, .launch = &launch}) != PCCL_OK)
            abort();
    pump(world);
    print_pages(world);
}

/* false: not all were committed. */
static bool operate(struct world *world, uint32_t operations, uint32_t bytes)
{
    double join_s = world->master_s;
    size_t master_bytes = world->master_bytes;
    uint32_t count = world->count;
    world->master_s = 0;
    for (uint32_t i = 0; i < operations; i++)
        reduce(world, bytes);
    uint64_t decided = 0;
    for (uint32_t i = 0; i < count; i++)
        decided += world->nodes[i].decided;
    printf("peers=%u operations=%u bytes=%u committed=%s master_us_per_peer_and_operation=%.2f master_ms_per_join=%.3f "
           "master_bytes_per_peer=%zu\n",
           count, operations, bytes, decided == (uint64_t)count * operations ? "all" : "NOT ALL",
           world->master_s * 1e6 / count / operations, join_s * 1e3 / count, master_bytes / count);
    return decided == (uint64_t)count * operations;
}

int main(int argc, char **argv)
{
    bool views = argc == 3 && strcmp(argv[1], "views") == 0;
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[views ? 2 : 1], NULL, 10) : 1000;
    uint32_t operations = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100;
    uint32_t bytes = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 4;
    if (count == 0 || bytes == 0 || bytes % 4 != 0 || bytes > PCCL_TINY_BYTES_MAX) {
        fprintf(stderr, "usage: master_load [PEERS [OPERATIONS [BYTES, a multiple of 4 up to %d]]]\n",
                PCCL_TINY_BYTES_MAX);
        return 2;
    }
    struct world world = {.count = 0, .now_us = 1000000};
    world.nodes = calloc(count, sizeof *world.nodes);
    struct pccl_memory memory = {counted_resize, &world.master_bytes};
    struct pccl_master_effects effects = {.context = &world, /* nobody optimizes here */
                                          .send = master_send,
                                          .accept = master_accept,
                                          .close = master_close,
                                          .probe = master_probe,
                                          .log = quiet_master};
    struct pccl_master_config config = pccl_master_defaults();
    config.build = *pccl_build_own();
    config.boot = 1;
    world.master = pccl_master_create(&config, &memory, &effects, world.now_us);
    if (views) {
        join_at_once(&world, count - LAST);
        join_the_last(&world, count);
        printf("%llu\n", (unsigned long long)world.peer_views);
        return 0;
    }
    (operations > 0 ? join_one_by_one : join_at_once)(&world, count);
    bool good = operations == 0 || operate(&world, operations, bytes);
    print_pages(&world);
    print_busy_pages(&world);
    return good ? 0 : 1;
}
