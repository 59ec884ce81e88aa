/*
 * The master's state machine, as strangers and members use it: connections, hellos of a few peers, messages in any
 * order and at any time. Its invariants hold after every step. Bytes choose the steps; a message is a random valid one
 * of its type, mostly with the ids and numbers that the state machine expects, or is decoded from the bytes.
 */
#include "fuzz.h"

#include "core/hash.h"
#include "master/state.h"
#include "net/heap.h"
#include "support/master_check.h"
#include "support/wire_random.h"

#include <string.h>

enum {
    CONNECTIONS = 6, /* limit at one time */
    STEPS_MAX = 400,
    BOOT = 7,
};

struct world {
    const uint8_t *data;
    size_t left;
    struct pccl_master *master;
    uint64_t now_us;
    pccl_conn last, open[CONNECTIONS]; /* 0: closed */
    uint64_t sent[CONNECTIONS];
    struct pccl_id probed; /* zero: none */
    uint64_t solving;      /* 0: nothing */
};

static struct pccl_wire_scratch scratch;

static uint8_t take(struct world *world)
{
    if (world->left == 0)
        return 0;
    world->left--;
    return *world->data++;
}

static struct pccl_id some_id(struct world *world) { return (struct pccl_id){{(uint8_t)(take(world) % 8 + 1)}}; }

/* ---- effects ---- */

static void on_send(void *context, pccl_conn conn, const uint8_t *bytes, size_t length)
{
    (void)context, (void)conn, (void)bytes, (void)length;
}

static void on_accept(void *context, pccl_conn conn) { (void)context, (void)conn; }

static void on_close(void *context, pccl_conn conn)
{
    struct world *world = context;
    for (int i = 0; i < CONNECTIONS; i++)
        world->open[i] = world->open[i] == conn ? 0 : world->open[i];
}

static void on_log(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields)
{
    (void)context, (void)level, (void)line, (void)fields;
}

static bool on_probe(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                     const struct pccl_id *ticket, const struct pccl_address *address)
{
    struct world *world = context;
    (void)lineage, (void)ticket, (void)address;
    if (!pccl_id_is_zero(&world->probed))
        return false;
    world->probed = *peer;
    return true;
}

static void on_solve(void *context, uint64_t ticket, const struct pccl_ring_problem *problem)
{
    (void)problem;
    ((struct world *)context)->solving = ticket;
}

static void on_stop_solving(void *context, uint64_t ticket)
{
    (void)ticket;
    ((struct world *)context)->solving = 0;
}

/* ---- steps ---- */

static void step(struct world *world, struct pccl_master_event *event)
{
    event->now_us = world->now_us;
    pccl_master_step(world->master, event);
    const char *rule = pccl_master_check(world->master);
    if (rule)
        fprintf(stderr, "does not hold: %s\n", rule);
    EXPECT(rule == NULL);
}

static void open_one(struct world *world, int slot)
{
    if (world->open[slot])
        return;
    struct pccl_master_event event = {.kind = PCCL_MASTER_OPENED, .conn = ++world->last};
    event.address.ip[0] = take(world) % 4;
    world->open[slot] = event.conn;
    world->sent[slot] = 0;
    step(world, &event);
}

static void receive(struct world *world, int slot, const struct pccl_msg *msg, uint64_t sequence)
{
    const struct pccl_frame frame = {.type = msg->type, .sequence = sequence, .acknowledged = take(world) % 4};
    struct pccl_master_event event = {
        .kind = PCCL_MASTER_RECEIVED, .conn = world->open[slot], .frame = &frame, .msg = msg};
    if (world->open[slot] && !pccl_wire_invalid(msg))
        step(world, &event);
}

static void say_hello(struct world *world, int slot)
{
    uint8_t how = take(world);
    struct pccl_msg msg = {.type = PCCL_MSG_hello,
                           .as.hello = {.build = {.version = PCCL_PROTOCOL_VERSION},
                                        .peer = some_id(world),
                                        .token = {{(uint8_t)(1 + (how & 1))}},
                                        .link_key = {{1}},
                                        .group = how >> 1 & 1,
                                        .boot = how & 4 ? BOOT : how >> 3 & 1,
                                        .run_key = {{(uint8_t)(how >> 4 & 3)}},
                                        .received = how >> 6}};
    receive(world, slot, &msg, 0);
}

/* Returns the number that the state machine expects, or in one of eight cases a near one. */
static uint64_t near(struct world *world, uint64_t number)
{
    uint8_t how = take(world);
    return how % 8 ? number : number + how / 8 % 4 - 1;
}

static const struct pccl_remote *find_remote(const struct world *world, int slot)
{
    const struct pccl_master *master = world->master;
    for (uint32_t i = 0; i < master->remote_count; i++)
        if (master->remotes[i]->conn == world->open[slot])
            return master->remotes[i];
    return NULL;
}

static void patch_instance(struct world *world, const struct pccl_remote *from, struct pccl_instance *instance)
{
    uint8_t how = take(world);
    *instance = (struct pccl_instance){.joint = near(world, pccl_master_joint(world->master)),
                                       .sync = from->group ? from->group->sync : 0,
                                       .tag = how & 3,
                                       .use = how >> 2 & 1};
    if (how >> 5 == 7)
        instance->pair = (UINT64_C(1) << 32 | 2) << take(world) % 3;
}

static void patch_epoch(struct world *world, const struct pccl_remote *from, struct pccl_epoch *epoch)
{
    *epoch = from->group ? from->group->view : world->master->epoch;
    epoch->number = near(world, epoch->number);
}

static struct pccl_id some_peer(struct world *world)
{
    const struct pccl_master *master = world->master;
    return master->remote_count > 0 ? master->remotes[take(world) % master->remote_count]->id : some_id(world);
}

/* Changes a message so that it may concern the state. */
static void patch(struct world *world, const struct pccl_remote *from, struct pccl_msg *msg)
{
    const struct pccl_master *master = world->master;
    uint64_t sync = from->group ? from->group->sync : 0;
    switch (msg->type) {
    case PCCL_MSG_vote:
        msg->as.vote.kind = take(world) % PCCL_ROUND_SYNC;
        msg->as.vote.round = near(world, master->rounds[msg->as.vote.kind]);
        msg->as.vote.unable = (struct pccl_bytes){NULL, 0};
        break;
    case PCCL_MSG_withdraw: msg->as.withdraw.round = near(world, master->rounds[PCCL_ROUND_UPDATE]); break;
    case PCCL_MSG_done:
        patch_instance(world, from, &msg->as.done.instance);
        patch_epoch(world, from, &msg->as.done.view);
        break;
    case PCCL_MSG_failed:
        patch_instance(world, from, &msg->as.failed.instance);
        patch_epoch(world, from, &msg->as.failed.view);
        break;
    case PCCL_MSG_abort_request:
        patch_instance(world, from, &msg->as.abort_request.instance);
        patch_epoch(world, from, &msg->as.abort_request.view);
        break;
    case PCCL_MSG_view_ack:
        patch_epoch(world, from, &msg->as.view_ack.view);
        msg->as.view_ack.instances_count = 0;
        break;
    case PCCL_MSG_link_up: msg->as.link_up.peer = some_peer(world); break;
    case PCCL_MSG_link_lost: msg->as.link_lost.peer = some_peer(world); break;
    case PCCL_MSG_link_gone: msg->as.link_gone.peer = some_peer(world); break;
    case PCCL_MSG_want_link: msg->as.want_link.peer = some_peer(world); break;
    case PCCL_MSG_sync_vote: msg->as.sync_vote.round = near(world, sync); break;
    case PCCL_MSG_sync_done: msg->as.sync_done.round = near(world, sync); break;
    case PCCL_MSG_sync_proof: msg->as.sync_proof.round = near(world, sync); break;
    case PCCL_MSG_resume: patch_epoch(world, from, &msg->as.resume.epoch); break;
    default: break;
    }
}

static void say_random(struct world *world, int slot)
{
    static struct pccl_wire_scratch own;
    struct pccl_prng prng;
    struct pccl_msg msg;
    uint16_t type = take(world) % (PCCL_MSG_want_link + 1);
    if (type <= PCCL_MSG_hello_ok || type == 27) /* types without a message */
        return;
    pccl_prng_seed(&prng, take(world));
    pccl_wire_random(type, &prng, &own, &msg);
    const struct pccl_remote *from = find_remote(world, slot);
    if (!world->open[slot] || !from)
        return;
    patch(world, from, &msg);
    bool numbered = type != PCCL_MSG_heartbeat && type != PCCL_MSG_refused;
    receive(world, slot, &msg, numbered ? ++world->sent[slot] : 0);
}

static void say_bytes(struct world *world, int slot)
{
    struct pccl_msg msg;
    struct pccl_text reason;
    uint16_t type = take(world);
    uint32_t wanted = take(world), length = (uint32_t)pccl_min_u64(wanted, world->left);
    const uint8_t *body = world->data;
    world->data += length;
    world->left -= length;
    if (pccl_wire_decode(type, body, length, &scratch, &msg, &reason) == PCCL_OK)
        receive(world, slot, &msg, take(world) % 4 ? ++world->sent[slot] : 0);
}

static void pass_time(struct world *world)
{
    world->now_us += take(world) * UINT64_C(100000);
    if (pccl_master_deadline(world->master) <= world->now_us)
        step(world, &(struct pccl_master_event){.kind = PCCL_MASTER_TICK});
}

static void answer(struct world *world)
{
    struct pccl_master_event event = {.kind = PCCL_MASTER_PROBED, .peer = world->probed, .answered = take(world) & 1};
    event.how = event.answered ? 0 : PCCL_LINK_TIMEOUT;
    if (!pccl_id_is_zero(&world->probed)) {
        world->probed = (struct pccl_id){{0}};
        step(world, &event);
    }
    if (world->solving) {
        event = (struct pccl_master_event){.kind = PCCL_MASTER_SOLVED, .ticket = world->solving, .status = PCCL_MEMORY};
        world->solving = 0;
        step(world, &event);
    }
}

static void do_one(struct world *world)
{
    uint8_t what = take(world);
    int slot = what / 8 % CONNECTIONS;
    switch (what % 8) {
    case 0: open_one(world, slot); break;
    case 1:
        if (world->open[slot] && (what & 128)) {
            struct pccl_master_event event = {.kind = PCCL_MASTER_CLOSED, .conn = world->open[slot]};
            world->open[slot] = 0;
            step(world, &event);
        }
        break;
    case 2: say_hello(world, slot); break;
    case 3:
    case 4: say_random(world, slot); break;
    case 5: say_bytes(world, slot); break;
    case 6: pass_time(world); break;
    default: answer(world); break;
    }
    step(world, &(struct pccl_master_event){.kind = PCCL_MASTER_IDLE});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {.data = data, .left = size, .now_us = 1000000};
    struct pccl_master_config config = pccl_master_defaults();
    const struct pccl_master_effects effects = {.context = &world,
                                                .log = on_log,
                                                .probe = on_probe,
                                                .close = on_close,
                                                .solve = on_solve,
                                                .accept = on_accept,
                                                .send = on_send,
                                                .stop_solving = on_stop_solving};
    config.boot = BOOT;
    config.found_after_ms = 0;
    world.master = pccl_master_create(&config, pccl_heap(), &effects, world.now_us);
    EXPECT(world.master != NULL);
    for (int i = 0; i < STEPS_MAX && world.left > 0; i++)
        do_one(&world);
    pccl_master_destroy(world.master);
    return 0;
}
