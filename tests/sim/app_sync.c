/*
 * Shared state of a caller: it synchronizes the state before some chapters, once or twice (the second time as in
 * DiLoCo: newcomers receive, the others send). Between two synchronizations all callers advance it in the same way. In
 * some seeds callers drift, fail to count the revision, count too far, bring other tensors or choose a strategy that
 * contradicts the others'.
 *
 * A failure for all is retried by all; then with a checkpoint, since all holders of the state may be gone. A failure of
 * one caller alone is not retried: the others have continued, so it will be outdated at the next synchronization.
 */
#include "check.h"
#include "master/rounds_election.h"

enum { CHECKPOINT_AFTER = 2, SHAPES = 3 };

static const struct pccl_shape shapes[SHAPES] = {{.hash = 11}, {.hash = 22}, {.hash = 33}};
static const struct pccl_tensor_line lines[SHAPES] = {{.name = {(const uint8_t *)"a", 1}, .count = 1},
                                                      {.name = {(const uint8_t *)"b", 1}, .count = 2},
                                                      {.name = {(const uint8_t *)"c", 1}, .count = 3}};
static const struct pccl_tensor_line odd_lines[SHAPES] = {
    {.name = {(const uint8_t *)"a", 1}, .count = 1},
    {.name = {(const uint8_t *)"b", 1}, .count = 2},
    {.name = {(const uint8_t *)"c", 1}, .count = 4, .datatype = 10}};
static const struct pccl_shape odd_shapes[SHAPES] = {{.hash = 11}, {.hash = 22}, {.hash = 44}};

/* ---- the plan ---- */

static uint32_t draw(struct pccl_prng *prng, uint32_t percent, uint32_t low, uint32_t high)
{
    uint32_t value = low + (uint32_t)pccl_prng_below(prng, high - low + 1u);
    return pccl_prng_below(prng, 100) < percent ? value : 0;
}

/* Draws the plan. Not from the seed's generator, so that runs without synchronizations are unchanged. */
void sim_sync_draw_plan(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, sim_mix(sim->seed, 0x5ca7e));
    plan->sync_percent = draw(&prng, 75, 15, 90);
    plan->second_percent = draw(&prng, 40, 10, 100);
    plan->state_us = (UINT64_C(2) * SIM_MS) << pccl_prng_below(&prng, 8);
    plan->state_failure_percent = draw(&prng, 40, 1, 30);
    plan->unequal = pccl_prng_below(&prng, 100) < 30;
    bool orderly = pccl_prng_below(&prng, 100) < 55;
    plan->drift_permille = draw(&prng, orderly ? 30 : 50, 5, 300);
    plan->lazy_permille = draw(&prng, orderly ? 30 : 50, 5, 300);
    plan->jump_permille = draw(&prng, orderly ? 0 : 40, 2, 60);
    plan->odd_permille = draw(&prng, orderly ? 0 : 40, 2, 60);
    plan->strategy_permille = draw(&prng, orderly ? 0 : 40, 2, 60);
}

/* Does the same for optimizations. */
void sim_topology_draw_plan(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, sim_mix(sim->seed, 0x0b71));
    plan->optimize_percent = draw(&prng, 75, 10, 70);
    plan->stall_permille = draw(&prng, 40, 5, 300);
    plan->search_failure_permille = draw(&prng, 30, 5, 300);
    plan->wayless_permille = draw(&prng, 40, 5, 300);
    plan->search_us = UINT64_C(1000) << pccl_prng_below(&prng, 11);
    if (pccl_prng_below(&prng, 100) < 50)
        plan->master.fresh_ms = 100u << pccl_prng_below(&prng, 8);
    plan->master.optimize_ms = 50u << pccl_prng_below(&prng, 6);
}

static bool happens(struct sim *sim, uint32_t permille)
{
    return permille > 0 && !sim->faults_stopped && sim_random(sim, 1000) < permille;
}

/* ---- the state between synchronizations ---- */

static void advance(struct sim *sim, struct sim_peer *peer)
{
    struct sim_state *state = &peer->state;
    if (!peer->app.sync_current)
        return; /* failed, or none: brought again unchanged */
    state->content = sim_mix(state->content, state->revision);
    if (!happens(sim, sim->plan.lazy_permille))
        state->revision++;
}

static void choose_strategy(struct sim *sim, struct sim_peer *peer)
{
    struct sim_state *state = &peer->state;
    const struct sim_app *app = &peer->app;
    state->strategy = PCCL_ENFORCE_POPULAR;
    if (app->sync_index > 0) {
        state->strategy = app->sync_old && app->sync_current ? PCCL_SEND_ONLY : PCCL_RECEIVE_ONLY;
        if (state->strategy == PCCL_RECEIVE_ONLY && sim_chance(sim, 50))
            state->content = pccl_prng_u64(&sim->prng);
    } else if (happens(sim, sim->plan.strategy_permille)) {
        state->strategy = sim_chance(sim, 50) ? PCCL_SEND_ONLY : PCCL_RECEIVE_ONLY;
    }
}

static void prepare(struct sim *sim, struct sim_peer *peer)
{
    struct sim_state *state = &peer->state;
    advance(sim, peer);
    choose_strategy(sim, peer);
    state->unequal = sim->plan.unequal;
    state->odd = happens(sim, sim->plan.odd_permille);
    if (happens(sim, sim->plan.drift_permille))
        state->content = pccl_prng_u64(&sim->prng);
    if (happens(sim, sim->plan.jump_permille))
        state->revision += sim_between(sim, 1, 2);
}

/* Loads the checkpoint saved when the group reached this revision; the same for all loaders. */
static void load_checkpoint(struct sim *sim, struct sim_peer *peer)
{
    struct sim_state *state = &peer->state;
    state->revision = peer->machine->revision;
    state->content = sim_mix(sim_mix(sim->seed ^ 0xc4ec4, peer->group), state->revision);
    peer->app.sync_old = true;
    sim_note(sim, "p%u loads a checkpoint of revision %llu", peer->process.number, (unsigned long long)state->revision);
}

/* ---- the calls ---- */

enum pccl_status sim_sync_ask(struct sim *sim, struct sim_peer *peer)
{
    struct sim_state *state = &peer->state;
    struct pccl_sync_vote vote = {.revision = state->revision,
                                  .strategy = state->strategy,
                                  .unequal = state->unequal,
                                  .structure = sim_state_digest(state->odd ? 44 : 33),
                                  .content = sim_state_shown(state),
                                  .shapes = state->odd ? odd_shapes : shapes,
                                  .shape_count = SHAPES,
                                  .lines = state->odd ? odd_lines : lines,
                                  .line_count = SHAPES};
    peer->app.call_over[PCCL_CALL_SYNC] = false;
    state->failed = false;
    sim_check_asked(sim, peer, PCCL_ROUND_SYNC);
    struct pccl_peer_event event = {.kind = PCCL_PEER_CALL, .call = PCCL_CALL_SYNC, .vote = &vote};
    if (peer->process.starved)
        event.reason = &sim_shortage;
    enum pccl_status status = sim_peer_step(sim, peer, &event);
    sim_note(sim, "p%u synchronizes revision %llu in round %llu, strategy %u: %s", peer->process.number,
             (unsigned long long)state->revision, (unsigned long long)peer->asked_round[PCCL_ROUND_SYNC],
             state->strategy, pccl_status_name(status));
    return status;
}

/* Tries to launch on another thread of the caller, which must be refused: the operation would end up in two eras. */
static void try_to_launch(struct sim *sim, struct sim_peer *peer)
{
    struct sim_request request = {.tag = 1, .tiny = true, .count = 1};
    struct pccl_peer_op *op = NULL;
    if (!peer->machine->calls[PCCL_ROUND_SYNC].outstanding || !sim_chance(sim, 10))
        return;
    if (sim_app_launch(sim, peer, &request, &op) != PCCL_USAGE)
        sim_fail(sim, "I7 p%u launches while its era is about to change", peer->process.number);
}

static void ask(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    app->sync_asked = true;
    app->since = sim->now;
    enum pccl_status status = sim_sync_ask(sim, peer);
    if (status == PCCL_OK) {
        try_to_launch(sim, peer);
        return;
    }
    if (pccl_peer_is_connected(peer->machine))
        sim_fail(sim, "I12 p%u: the synchronization is refused: %s", peer->process.number, pccl_status_name(status));
    app->call_over[PCCL_CALL_SYNC] = true;
    app->call_status[PCCL_CALL_SYNC] = status;
    sim_app_later(sim, peer, SIM_MS); /* no other event wakes it */
}

/* ---- results ---- */

static void next(struct sim_app *app)
{
    app->sync_index++;
    app->sync_attempt = 0;
    app->sync_asked = app->sync_prepared = false;
}

static void again(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    app->sync_asked = false;
    app->sync_attempt++;
    if (app->sync_attempt < CHECKPOINT_AFTER)
        return;
    if (peer->machine->sync.torn)
        sim_app_return(sim, peer); /* no other member has its content: starts over */
    else
        load_checkpoint(sim, peer);
}

static void take_result(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    enum pccl_status status = app->call_status[PCCL_CALL_SYNC];
    const struct pccl_peer *p = peer->machine;
    bool decided = pccl_peer_sync_round(p) != peer->asked_round[PCCL_ROUND_SYNC];
    *(status == PCCL_OK ? &sim->totals.syncs : &sim->totals.syncs_failed) += 1;
    app->sync_current = app->sync_current && !decided;
    if (status == PCCL_OK) {
        app->sync_current = true;
        peer->state.revision = pccl_peer_sync_revision(p);
        next(app);
    } else if (!decided) {
        app->sync_asked = false; /* withdrawn: repeats the call */
    } else if (p->last_outcome[PCCL_ROUND_SYNC] == PCCL_ROUND_FAILED) {
        again(sim, peer);
    } else {
        next(app);
    }
}

void sim_sync_begin(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    uint64_t hash = sim_app_hash(sim, app, 31337 + peer->group);
    app->sync_index = app->sync_attempt = app->sync_count = 0;
    app->sync_asked = app->sync_prepared = false;
    if (hash % 100 < sim->plan.sync_percent)
        app->sync_count = hash / 128 % 100 < sim->plan.second_percent ? 2 : 1;
    app->sync_old = peer->machine->sync.synced || peer->machine->revision == 0; /* at first all are equally old */
}

bool sim_sync_work(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    if (app->sync_asked && !app->call_over[PCCL_CALL_SYNC])
        return true;
    if (app->sync_asked)
        take_result(sim, peer);
    if (!peer->process.alive || app->sync_index >= app->sync_count)
        return false;
    if (!app->sync_prepared)
        prepare(sim, peer);
    app->sync_prepared = true;
    ask(sim, peer);
    return true;
}
