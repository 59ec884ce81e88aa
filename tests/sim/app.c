/*
 * The simulated caller. All callers run one program, as the peers of a training run do: chapters of steps on several
 * tags in flight, before each chapter perhaps synchronizations of shared state (app_sync.c), after it perhaps a pending
 * query and an update or an optimization of the topology. Their next actions depend only on the outcomes of their
 * calls, which are the same for all, and on a hash of the seed, so that their calls match, unless the plan is
 * `divergent`.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS_MAX = 12, STEP_WORDS = 16, UPDATE_EVERY = 3 };

uint64_t sim_app_hash(const struct sim *sim, const struct sim_app *app, uint64_t salt)
{
    return sim_mix(sim_mix(sim->seed ^ 0xa99, app->joint * 1000 + app->chapter), salt);
}

/* ---- events ---- */

static void work(struct sim *sim, struct sim_peer *peer);

/* Wakes the caller when a lane continues by itself. */
static void wait_for_lanes(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t tag = 0; tag < peer->app.lane_count && peer->app.state == SIM_APP_WORKING; tag++) {
        const struct sim_lane *lane = &peer->app.lanes[tag];
        if (lane->state == SIM_LANE_IDLE || (lane->state == SIM_LANE_FLYING && lane->decided))
            sim_app_later(sim, peer, lane->act_at > sim->now ? lane->act_at - sim->now : 0);
    }
    if (peer->app.state == SIM_APP_WORKING)
        sim_subgroups_wait(sim, peer);
    if (peer->app.state == SIM_APP_WORKING)
        sim_pairs_wait(sim, peer);
}

static void on_app(struct sim *sim, void *subject, uint64_t at, uint64_t unused)
{
    struct sim_peer *peer = subject;
    if (!peer->process.alive || peer->machine == NULL || peer->app.manual || peer->app.wakes_at != at)
        return;
    peer->app.wakes_at = 0;
    if (!sim_process_runs(&peer->process)) {
        sim_app_later(sim, peer, peer->process.stopped_until - sim->now + sim_random(sim, SIM_MS));
        return;
    }
    work(sim, peer);
    if (!peer->process.alive || peer->machine == NULL)
        return;
    wait_for_lanes(sim, peer);
    sim_check_peer(sim, peer);
    sim_process_arm(sim, &peer->process);
}

void sim_app_later(struct sim *sim, struct sim_peer *peer, uint64_t delay)
{
    uint64_t at = sim->now + delay;
    if (peer->app.wakes_at != 0 && peer->app.wakes_at <= at)
        return;
    peer->app.wakes_at = at;
    sim_at(sim, at, on_app, peer, at, 0);
}

/* ---- launching ---- */

void sim_app_await(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_AWAIT, .op = op, .blocked = true});
}

void sim_app_release(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    if (!op->tiny && sim_bulk_is_moving(sim, peer, op))
        sim_fail(sim, "I4 p%u: tag %llu use %u has returned and still moves data", peer->process.number,
                 (unsigned long long)op->instance.tag, op->instance.use);
    peer->attributes_may_change = true;
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_RELEASE, .op = op});
}

enum pccl_status sim_lane_launch(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane,
                                 struct sim_request *request)
{
    request->user = lane;
    lane->decided = false;
    lane->since = sim->now;
    enum pccl_status status = sim_app_launch(sim, peer, request, &lane->op);
    if (status != PCCL_OK)
        return status;
    lane->state = SIM_LANE_FLYING;
    lane->decided = lane->decided || lane->op->state == PCCL_OP_DECIDED;
    if (!lane->decided && sim_chance(sim, 70))
        sim_app_await(sim, peer, lane->op);
    return PCCL_OK;
}

enum pccl_status sim_lane_follow(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane,
                                 struct sim_request *request)
{
    request->after = lane->op;
    lane->op = NULL;
    lane->state = SIM_LANE_IDLE;
    return sim_lane_launch(sim, peer, lane, request);
}

enum pccl_class sim_lane_release(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane)
{
    enum pccl_class class = lane->op->class;
    sim_app_release(sim, peer, lane->op);
    lane->op = NULL;
    lane->state = SIM_LANE_IDLE;
    lane->decided = false;
    return class;
}

void sim_draw_collective(struct sim_request *request, uint64_t hash)
{
    static const uint8_t others[] = {PCCL_BROADCAST, PCCL_ALL_GATHER,     PCCL_REDUCE_SCATTER, PCCL_BARRIER,
                                     PCCL_REDUCE,    PCCL_GATHER,         PCCL_SCATTER,        PCCL_ALL_TO_ALL,
                                     PCCL_GATHER_V,  PCCL_SCATTER_V,      PCCL_ALL_TO_ALL_V,   PCCL_ALL_GATHER_V,
                                     PCCL_COALESCED, PCCL_EXCLUSIVE_SCAN, PCCL_INCLUSIVE_SCAN};
    if (hash % 24 < PCCL_COUNT_OF(others))
        request->collective = others[hash % 24];
    request->root = (uint32_t)(hash / 24);
    if (request->collective == PCCL_BARRIER || sim_is_of_blobs(request->collective)) {
        request->tiny = true;
        request->count = request->collective == PCCL_BARRIER ? 0 : 1000 + hash % 3; /* a limit */
    } else if (request->tiny && request->collective != PCCL_ALL_REDUCE) {
        request->count = 1 + request->count % 2; /* so that the parts of all members fit */
    }
}

/*
 * Draws the budget of an automatic codec, for half of the tags. The duration of an operation here (bulk.c) is
 * independent of its bytes.
 */
void sim_draw_budget(const struct sim *sim, struct sim_request *request)
{
    uint64_t drawn = sim_mix(sim->seed ^ 0xb1d9, request->tag);
    if (drawn % 4 == 1)
        request->budget_ms = 1 + (uint32_t)(drawn / 4 % (sim->plan.bulk_us / SIM_MS));
    if (drawn % 4 == 3)
        request->budget_percent = (uint8_t)(1 + drawn / 4 % PCCL_BUDGET_PERCENT_MAX);
}

/* Makes some all-reduces list members, too. */
static void draw_members(const struct sim_app *app, const struct sim_lane *lane, struct sim_request *request,
                         uint64_t hash)
{
    request->counted = hash % 24 >= 21;
    if (lane->attempt == 0 && hash / 4096 % 4 == 0) { /* queried once; a retry queries again */
        request->members = app->members;
        request->member_count = app->member_count;
    }
}

/* Changes a request, as of a caller at another step or with a bug. */
static void differ(struct sim *sim, struct sim_request *request)
{
    if (sim_is_of_blobs(request->collective) && sim_chance(sim, 50)) {
        request->count--; /* another limit */
        return;
    }
    if (sim_is_of_blobs(request->collective))
        request->count = 1;
    if (request->count == 0 || sim_chance(sim, 20)) {
        request->collective = request->collective == PCCL_ALL_REDUCE ? PCCL_ALL_GATHER : PCCL_ALL_REDUCE;
        request->count = pccl_max_u64(1, request->count);
    } else if (request->tiny && request->count > 1 && sim_chance(sim, 70)) {
        request->count--;
    } else if (request->tiny) {
        request->collective = PCCL_ALL_REDUCE;
        request->reduction = PCCL_MIN;
    } else if (sim_chance(sim, 50)) {
        request->count = 99999;
    } else {
        request->tiny = true;
        request->count = 2;
    }
}

/* Handles a launch, or its refusal. */
static void take_launched(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane, enum pccl_status status)
{
    switch (status) {
    case PCCL_OK: break;
    case PCCL_TOO_FEW_PEERS:
        lane->step++;
        lane->attempt = 0;
        lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
        break;
    case PCCL_MEMORY: /* not numbered: the caller tries again */
        if (sim->oom_at == 0)
            sim_fail(sim, "I12 p%u: a launch is refused: out of memory", peer->process.number);
        lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
        break;
    default:
        if (status != PCCL_USAGE || pccl_peer_is_connected(peer->machine))
            sim_fail(sim, "I12 p%u: a launch is refused: %s", peer->process.number, pccl_status_name(status));
        break;
    }
}

static uint64_t step_of(const struct sim_app *app, const struct sim_lane *lane)
{
    return app->joint << 24 | app->chapter << 8 | lane->step;
}

/* Launches the second step with the known lengths: the same caller moves the blobs, or leaves the run if it cannot. */
static void follow(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane, struct sim_request *request)
{
    request->step = step_of(&peer->app, lane);
    request->members = lane->members;
    request->member_count = lane->member_count;
    enum pccl_status status = sim_lane_follow(sim, peer, lane, request);
    take_launched(sim, peer, lane, status);
    if (status == PCCL_MEMORY)
        sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
}

/* Notes the members, for lengths that it may report. */
static void note_members(const struct sim_peer *peer, struct sim_lane *lane)
{
    const struct pccl_member *members = pccl_peer_view_members(peer->machine, &lane->member_count);
    PCCL_ASSERT(lane->member_count <= SIM_HOSTS_MAX);
    for (uint32_t i = 0; i < lane->member_count; i++)
        lane->members[i] = members[i].peer;
}

static void launch_lane(struct sim *sim, struct sim_peer *peer, uint32_t tag)
{
    struct sim_app *app = &peer->app;
    struct sim_lane *lane = &app->lanes[tag];
    uint64_t hash = sim_app_hash(sim, app, tag * 100 + lane->step);
    struct sim_request request = {.tag = tag,
                                  .step = step_of(app, lane),
                                  .tiny = hash % 100 >= sim->plan.bulk_percent,
                                  .reduction = hash / 128 % 4 == 0 ? PCCL_MAX : PCCL_SUM};
    sim_draw_budget(sim, &request);
    request.count = request.tiny ? 1 + hash / 1024 % SIM_ELEMENTS : 100000;
    sim_draw_collective(&request, sim_mix(hash, 0xc011));
    draw_members(app, lane, &request, sim_mix(hash, 0xc011));
    if (hash / 8192 % 1000 < sim->plan.mismatch_permille && lane->attempt == 0 && sim_chance(sim, 40))
        differ(sim, &request);
    request.given_up = app->gives_up;
    app->gives_up = PCCL_CLASS_NONE;
    note_members(peer, lane);
    take_launched(sim, peer, lane, sim_lane_launch(sim, peer, lane, &request));
}

/* Decides whether to retry: the same at all callers with the same outcomes, unless divergent. */
static bool retries(struct sim *sim, struct sim_peer *peer, const struct sim_lane *lane, uint32_t tag,
                    enum pccl_class class)
{
    uint64_t hash = sim_app_hash(sim, &peer->app, 7777 + tag * 1000 + lane->step * 50 + lane->attempt);
    if (sim->plan.divergent)
        hash = sim_mix(hash, peer->process.number);
    if (class == PCCL_CLASS_NONE || class == PCCL_CLASS_MISMATCH || lane->attempt >= ATTEMPTS_MAX)
        return false;
    return hash % 100 >= (class == PCCL_CLASS_PEER_LOST ? sim->plan.drop_percent : 50u);
}

static void take_outcome(struct sim *sim, struct sim_peer *peer, uint32_t tag)
{
    struct sim_lane *lane = &peer->app.lanes[tag];
    struct sim_request blobs;
    if (sim_follows(lane->op, lane->member_count, &blobs)) {
        follow(sim, peer, lane, &blobs);
        return;
    }
    enum pccl_class class = sim_lane_release(sim, peer, lane);
    if (class == PCCL_CLASS_NONE)
        peer->commits++;
    bool again = retries(sim, peer, lane, tag, class);
    lane->attempt = again ? lane->attempt + 1 : 0;
    lane->step += again ? 0 : 1;
    lane->act_at = sim->now + (again && sim_chance(sim, 70) ? 0 : sim_random(sim, sim->plan.pause_us));
}

/* ---- chapters ---- */

enum pending_mode { PENDING_NONE, PENDING_AFTER, PENDING_MEANWHILE };

static enum pending_mode pending_mode(const struct sim *sim, const struct sim_app *app)
{
    return (enum pending_mode)(sim_app_hash(sim, app, 11) % 3);
}

static void begin_chapter(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    sim_sync_begin(sim, peer);
    app->state = app->sync_count > 0 ? SIM_APP_SYNCING : SIM_APP_WORKING;
    app->lane_count = sim->plan.tags;
    app->member_count = sim_members(peer, app->members, SIM_HOSTS_MAX);
    app->pending_known = false;
    sim_subgroups_begin(sim, peer);
    sim_pairs_begin(sim, peer);
    for (uint32_t tag = 0; tag < app->lane_count; tag++) {
        struct sim_lane *lane = &app->lanes[tag];
        memset(lane, 0, sizeof *lane);
        lane->steps = (uint32_t)(sim_app_hash(sim, app, 20 + tag) % 4);
        lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
    }
    sim_app_later(sim, peer, sim_random(sim, sim->plan.pause_us));
}

static void ask_optimize(struct sim *sim, struct sim_peer *peer);

/* Returns true in some eras: only updates admit others. */
static bool optimizes(const struct sim *sim, const struct sim_app *app, uint64_t salt, uint64_t of)
{
    return app->joint % UPDATE_EVERY != 0 && sim_app_hash(sim, app, salt) % of < sim->plan.optimize_percent;
}

static void begin_era(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    app->joint = sim_peer_joint(peer);
    app->chapter = 0;
    if (sim->resting && app->joint >= sim->rest_joint)
        app->state = SIM_APP_RESTING;
    else if (optimizes(sim, app, 14, 300))
        ask_optimize(sim, peer);
    else
        begin_chapter(sim, peer);
}

static void ask_pending(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    app->call_over[PCCL_CALL_PENDING] = false;
    app->pending_outstanding = true;
    app->since = sim->now;
    sim_check_asked(sim, peer, PCCL_ROUND_PENDING);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_PENDING);
    sim_note(sim, "p%u asks who is pending: %s", peer->process.number, pccl_status_name(status));
    if (status == PCCL_OK) {
        if (sim_peer_call(sim, peer, PCCL_CALL_UPDATE) != PCCL_USAGE)
            sim_fail(sim, "I7 p%u updates beside its pending query", peer->process.number);
        return;
    }
    app->pending_outstanding = false;
    if (pccl_peer_is_connected(peer->machine))
        sim_fail(sim, "I12 p%u: the pending query is refused: %s", peer->process.number, pccl_status_name(status));
}

/*
 * Measures links, in a third of the seeds: each pair of hosts has a path of some latency and rate, with fluctuating
 * figures. Not drawn from the seed's generator, so that the other seeds are unchanged.
 */
static void measure(struct sim *sim, struct sim_peer *peer)
{
    const uint32_t count = peer->machine->group.count;
    const struct pccl_id *ring = peer->machine->group.ring;
    uint64_t chance = sim_mix(sim_mix(sim->seed ^ 0x3ea5, peer->process.number), sim->now);
    if (sim_mix(sim->seed, 0x3ea5) % 3 != 0 || chance % 3 == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_id *next = &ring[(i + 1) % count];
        const struct sim_peer *other = pccl_id_equal(&ring[i], &peer->id) ? sim_peer_find(sim, next) : NULL;
        if (other == NULL)
            continue;
        struct sim_path path = sim_path(sim, peer->process.host, other->process.host);
        if (chance / 4 % 16 == 0)
            path.rtt_us = 0;
        (chance / 32768 % 4 == 0 ? sim_peer_measured_share : sim_peer_measured)(
            sim, peer, next, (uint32_t)(path.rtt_us * (4 + chance / 64 % 16) / 8),
            path.rate * (1 + chance / 1024 % 32) / 8);
    }
}

static void ask_update(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    measure(sim, peer);
    app->state = SIM_APP_UPDATING;
    app->call_over[PCCL_CALL_UPDATE] = false;
    app->since = sim->now;
    sim_check_asked(sim, peer, PCCL_ROUND_UPDATE);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_UPDATE);
    sim_note(sim, "p%u updates the topology: %s", peer->process.number, pccl_status_name(status));
    if (status == PCCL_OK)
        return;
    if (pccl_peer_is_connected(peer->machine))
        sim_fail(sim, "I12 p%u: the update is refused: %s", peer->process.number, pccl_status_name(status));
    app->call_over[PCCL_CALL_UPDATE] = true;
    app->call_status[PCCL_CALL_UPDATE] = status;
}

/* Tries to launch on another thread of the caller, which must be refused: the operation would end up in two eras. */
static void try_more(struct sim *sim, struct sim_peer *peer)
{
    struct sim_request request = {.tag = 1, .tiny = true, .count = 1};
    struct pccl_peer_op *op = NULL;
    if (!peer->machine->calls[PCCL_ROUND_OPTIMIZE].outstanding || !sim_chance(sim, 10))
        return;
    if (sim_app_launch(sim, peer, &request, &op) != PCCL_USAGE ||
        sim_peer_call(sim, peer, PCCL_CALL_UPDATE) != PCCL_USAGE ||
        sim_peer_call(sim, peer, PCCL_CALL_PENDING) != PCCL_USAGE)
        sim_fail(sim, "I7 p%u goes on while its era is about to change", peer->process.number);
}

static void ask_optimize(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    measure(sim, peer);
    app->state = SIM_APP_OPTIMIZING;
    app->call_over[PCCL_CALL_OPTIMIZE] = false;
    app->since = sim->now;
    sim_check_asked(sim, peer, PCCL_ROUND_OPTIMIZE);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_OPTIMIZE);
    sim_note(sim, "p%u optimizes the topology: %s", peer->process.number, pccl_status_name(status));
    if (status == PCCL_OK) {
        try_more(sim, peer);
        return;
    }
    if (pccl_peer_is_connected(peer->machine))
        sim_fail(sim, "I12 p%u: the optimization is refused: %s", peer->process.number, pccl_status_name(status));
    app->call_over[PCCL_CALL_OPTIMIZE] = true;
    app->call_status[PCCL_CALL_OPTIMIZE] = status;
}

/*
 * Handles the end of an optimization: if it was decided, with or without a ring, the next era begins; otherwise it was
 * given up, and is requested again.
 */
static void take_optimized(struct sim *sim, struct sim_peer *peer)
{
    enum pccl_status status = peer->app.call_status[PCCL_CALL_OPTIMIZE];
    if (status == PCCL_OK || status == PCCL_NO_RING) {
        begin_era(sim, peer);
        return;
    }
    sim->totals.optimizations_withdrawn++;
    ask_optimize(sim, peer);
}

/* Requests the topology report, at any time. Not drawn from the seed's generator. */
static void describe(struct sim *sim, struct sim_peer *peer)
{
    if (peer->app.describing || sim_mix(sim_mix(sim->seed ^ 0xde5c, peer->process.number), sim->now) % 100 != 0 ||
        sim->resting || sim->plan.optimize_percent == 0)
        return;
    peer->app.describing = true;
    if (sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_DESCRIBE}) != PCCL_OK)
        sim_fail(sim, "I12 p%u may not ask how the links are seen", peer->process.number);
}

/* Reports training figures, at any time; they change nothing. */
static void report_training(struct sim *sim, struct sim_peer *peer)
{
    uint64_t chance = sim_mix(sim_mix(sim->seed ^ 0x7a11, peer->process.number), sim->now);
    struct pccl_peer_event event = {.kind = PCCL_PEER_TRAINING, .training = {.step = chance % 97, .loss = chance}};
    if (chance % 50 == 0 && sim_peer_step(sim, peer, &event) != PCCL_OK)
        sim_fail(sim, "I12 p%u may not tell of its training", peer->process.number);
}

static void end_chapter(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    bool blind = sim_app_hash(sim, app, 12) % 100 < sim->plan.blind_percent;
    if (optimizes(sim, app, 13, 100)) {
        ask_optimize(sim, peer);
        return;
    }
    if ((app->pending_known && app->pending_value) || blind || app->chapter >= 3) {
        ask_update(sim, peer);
        return;
    }
    app->chapter++;
    begin_chapter(sim, peer);
}

static void work_lanes(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    bool finished = true;
    for (uint32_t tag = 0; tag < app->lane_count && pccl_peer_is_connected(peer->machine); tag++) {
        struct sim_lane *lane = &app->lanes[tag];
        if (lane->state == SIM_LANE_FLYING && lane->decided && sim->now >= lane->act_at) {
            if (lane->act_at < lane->since && sim_chance(sim, sim->plan.late_percent))
                lane->act_at = sim->now + sim_log_between(sim, 5 * SIM_MS, 600 * SIM_MS); /* awaited late */
            else
                take_outcome(sim, peer, tag);
        }
        if (lane->state == SIM_LANE_IDLE && lane->step >= lane->steps)
            lane->state = SIM_LANE_FINISHED;
        if (lane->state == SIM_LANE_IDLE && sim->now >= lane->act_at) {
            lane->act_at = 0;
            launch_lane(sim, peer, tag);
        }
        finished = finished && lane->state == SIM_LANE_FINISHED;
    }
    finished = sim_subgroups_work(sim, peer) && finished;
    finished = sim_pairs_work(sim, peer) && finished;
    if (!finished || !pccl_peer_is_connected(peer->machine))
        return;
    if (!app->pending_known && !app->pending_outstanding && pending_mode(sim, app) == PENDING_AFTER)
        ask_pending(sim, peer);
    if (!app->pending_outstanding)
        end_chapter(sim, peer);
}

static void work_pending(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    if (app->state == SIM_APP_WORKING && !app->pending_known && !app->pending_outstanding &&
        pending_mode(sim, app) == PENDING_MEANWHILE)
        ask_pending(sim, peer);
    if (!app->pending_outstanding || !app->call_over[PCCL_CALL_PENDING])
        return;
    app->pending_outstanding = false;
    if (app->call_status[PCCL_CALL_PENDING] == PCCL_OK) {
        app->pending_known = true;
        app->pending_value = app->call_value[PCCL_CALL_PENDING];
    } else if (pccl_peer_is_connected(peer->machine)) {
        ask_pending(sim, peer);
    }
}

/* Ends a life: the communicator is dead, and every call must have ended with it (PROTOCOL 5.5). */
static void come_back(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    for (uint32_t tag = 0; tag < app->lane_count; tag++) {
        struct sim_lane *lane = &app->lanes[tag];
        if (lane->state != SIM_LANE_FLYING)
            continue;
        if (!lane->decided)
            sim_fail(sim, "I12 p%u is unconnected and tag %u never ended", peer->process.number, tag);
        sim_app_release(sim, peer, lane->op);
        lane->state = SIM_LANE_IDLE;
    }
    sim_subgroups_over(sim, peer);
    sim_pairs_over(sim, peer);
    if (app->pending_outstanding && !app->call_over[PCCL_CALL_PENDING])
        sim_fail(sim, "I12 p%u is unconnected and its pending query never ended", peer->process.number);
    if (app->state == SIM_APP_UPDATING && !app->call_over[PCCL_CALL_UPDATE])
        sim_fail(sim, "I12 p%u is unconnected and its update never ended", peer->process.number);
    if (app->state == SIM_APP_OPTIMIZING && !app->call_over[PCCL_CALL_OPTIMIZE])
        sim_fail(sim, "I12 p%u is unconnected and its optimization never ended", peer->process.number);
    if (app->describing)
        sim_fail(sim, "I12 p%u is unconnected and its question about the links was not answered", peer->process.number);
    if (app->state == SIM_APP_SYNCING && app->sync_asked && !app->call_over[PCCL_CALL_SYNC])
        sim_fail(sim, "I12 p%u is unconnected and its synchronization never ended", peer->process.number);
    sim_app_return(sim, peer);
}

static void work(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    if (app->state == SIM_APP_CONNECTING) {
        if (!app->call_over[PCCL_CALL_CONNECT])
            return;
        if (app->call_status[PCCL_CALL_CONNECT] != PCCL_OK) {
            sim_app_return(sim, peer);
            return;
        }
        if (pccl_peer_is_connected(peer->machine))
            begin_era(sim, peer);
        else
            sim_app_return(sim, peer);
        return;
    }
    if (pccl_peer_is_connected(peer->machine))
        describe(sim, peer);
    if (pccl_peer_is_connected(peer->machine))
        report_training(sim, peer);
    if (!pccl_peer_is_connected(peer->machine)) { /* perhaps because memory was short for the query */
        come_back(sim, peer);
        return;
    }
    if (app->state == SIM_APP_SYNCING && !sim_sync_work(sim, peer)) {
        if (!peer->process.alive)
            return; /* returns as a newcomer */
        app->state = SIM_APP_WORKING;
    }
    work_pending(sim, peer);
    if (app->state == SIM_APP_WORKING)
        work_lanes(sim, peer);
    if (app->state == SIM_APP_UPDATING && app->call_over[PCCL_CALL_UPDATE]) {
        if (app->call_status[PCCL_CALL_UPDATE] == PCCL_OK) {
            app->updates++;
            sim->totals.updates++;
            begin_era(sim, peer);
        } else {
            ask_update(sim, peer);
        }
    }
    if (app->state == SIM_APP_OPTIMIZING && app->call_over[PCCL_CALL_OPTIMIZE])
        take_optimized(sim, peer);
}

/* ---- joining and leaving ---- */

void sim_app_begin(struct sim *sim, struct sim_peer *peer)
{
    if (peer->app.manual)
        return;
    peer->app.state = SIM_APP_CONNECTING;
    peer->app.since = sim->now;
    if (sim_peer_call(sim, peer, PCCL_CALL_CONNECT) != PCCL_OK)
        sim_fail(sim, "I12 p%u cannot even begin to connect", peer->process.number);
}

static void on_return(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    const struct sim_peer *old = subject;
    const struct sim_process *process = &old->process;
    sim->returning--;
    if (sim->host_down[process->host] || sim_net_listener(sim, process->host, process->port) != NULL)
        return;
    (void)sim_peer_start(sim, process->host, process->port, old->group, false);
}

void sim_app_return(struct sim *sim, struct sim_peer *peer)
{
    sim->totals.expulsions++;
    sim_note(sim, "p%u is out (%s) and comes back as a newcomer", peer->process.number,
             pccl_peer_last_reason(peer->machine)->bytes);
    sim_peer_kill(sim, peer, false);
    sim->returning++;
    sim_at(sim, sim->now + sim_log_between(sim, 20 * SIM_MS, 1200 * SIM_MS), on_return, peer, 0, 0);
}

void sim_on_gone(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    struct sim_peer *peer = subject;
    if (peer->process.alive)
        sim_peer_kill(sim, peer, false);
}

void sim_app_leave(struct sim *sim, struct sim_peer *peer)
{
    sim_note(sim, "p%u leaves", peer->process.number);
    peer->app.manual = true; /* the program ends here */
    peer->attributes_may_change = true;
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
    sim_check_peer(sim, peer);
    sim_at(sim, sim->now + sim_random(sim, 3 * SIM_MS), sim_on_gone, peer, 0, 0);
}

uint64_t sim_peer_joint(const struct sim_peer *peer) { return pccl_peer_joint(peer->machine); }

uint64_t sim_app_after_update(uint64_t joint)
{
    while (joint % UPDATE_EVERY != 1)
        joint++;
    return joint;
}
