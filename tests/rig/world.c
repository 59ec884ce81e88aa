/* The scheduler: picks the next of all possible steps, injects the faults, and judges how the run has ended. */
#include "rig.h"

#include <stdarg.h>
#include <stdio.h>

enum step_kind {
    STEP_START,
    STEP_GO_ON,
    STEP_ORDER,
    STEP_REPORT,
    STEP_BURY,
    STEP_THAW,
    STEP_EXPEL,
    STEP_NEXT,
    STEP_MOVE,
    STEP_DELIVER,
    STEP_CLOSE,
    STEP_DIAL
};

struct step {
    enum step_kind kind;
    uint32_t rank, op;         /* rank and operation, for steps of ranks */
    uint32_t connection, side; /* for steps of connections */
    uint32_t actor;            /* actor whose priority counts */
};

enum { STEPS_MAX = RIG_RANKS_MAX * (RIG_OPS_MAX + 5) + 1, RUN_STEPS_MAX = 800000 };

struct menu {
    struct step steps[STEPS_MAX]; /* steps of ranks and the master; steps of connections: world->possible */
    uint32_t count;
    uint32_t total; /* including the steps of connections */
};

void rig_trace(struct rig_world *world, const char *format, ...)
{
    if (!world->trace)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%6u  ", world->step);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

void rig_violation(struct rig_world *world, const char *format, ...)
{
    if (world->failed)
        return;
    world->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->reason, sizeof world->reason, format, arguments);
    va_end(arguments);
    rig_trace(world, "VIOLATION: %s", world->reason);
}

bool rig_plant(struct rig_world *world, enum rig_plant plant)
{
    if (world->plant != plant || world->planted || pccl_prng_below(&world->plant_prng, 8) != 0)
        return false;
    rig_trace(world, "here the plant goes in");
    world->planted = true;
    return true;
}

/* ---- possible steps ---- */

static void offer_rank(const struct rig_world *world, const struct rig_rank *rank, struct menu *menu)
{
    const uint32_t r = rank->number;
    if (rank->to_master.count > 0)
        menu->steps[menu->count++] = (struct step){.kind = STEP_REPORT, .rank = r, .actor = r};
    if (rank->life == RIG_FROZEN && rank->thaws && (world->view >> r & 1) == 0)
        menu->steps[menu->count++] = (struct step){.kind = STEP_THAW, .rank = r, .actor = r};
    if (rank->life == RIG_ZOMBIE)
        menu->steps[menu->count++] = (struct step){.kind = STEP_EXPEL, .rank = r, .actor = r};
    if (rank->life != RIG_ALIVE)
        return;
    if (rank->rests)
        menu->steps[menu->count++] = (struct step){.kind = STEP_GO_ON, .rank = r, .actor = r};
    if (rank->from_master.count > 0)
        menu->steps[menu->count++] = (struct step){.kind = STEP_ORDER, .rank = r, .actor = r};
    for (uint32_t op = 0; op < world->spec->op_count; op++)
        if (rig_may_start(rank, op))
            menu->steps[menu->count++] = (struct step){.kind = STEP_START, .rank = r, .op = op, .actor = r};
}

static const enum step_kind end_steps[] = {STEP_NEXT, STEP_MOVE, STEP_DELIVER, STEP_CLOSE, STEP_DIAL};

/* Bits in the order of end_steps. */
static uint8_t possible_at(struct rig_world *world, const struct rig_connection *connection, uint32_t side)
{
    const struct rig_rank *rank = rig_end_rank(world, connection, side);
    const uint8_t dial = side == 0 && rig_may_dial(world, connection) ? 16 : 0;
    if (!connection->ends[side].open || (rank->life != RIG_ALIVE && rank->life != RIG_ZOMBIE))
        return dial;
    const uint32_t peer = side == 0 ? connection->to : connection->from;
    const bool over = (connection->broken && !connection->late[side]) || (rank->view >> peer & 1) == 0;
    return (uint8_t)(dial | rig_may_next(world, connection, side) | rig_may_move(world, connection, side) << 1 |
                     rig_may_deliver(connection, side) << 2 | over << 3);
}

static uint32_t bit_count(uint8_t bits)
{
    static const uint8_t counts[32] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                       1, 2, 2, 3, 2, 3, 3, 4, 2, 3, 3, 4, 3, 4, 4, 5};
    return counts[bits];
}

static void refresh(struct rig_world *world)
{
    while (world->stale_count > 0) {
        const uint32_t number = world->stale_list[--world->stale_count];
        world->stale[number] = false;
        for (uint32_t side = 0; side < 2; side++) {
            uint8_t *possible = &world->possible[2 * number + side];
            world->possible_count -= bit_count(*possible);
            *possible = possible_at(world, &world->connections[number], side);
            world->possible_count += bit_count(*possible);
        }
    }
}

static void look_at_lanes_of(struct rig_world *world, uint32_t rank)
{
    for (uint32_t peer = 0; peer < world->spec->ranks; peer++)
        if (peer != rank) {
            rig_touch(world, rank, peer);
            rig_touch(world, peer, rank);
        }
}

static void look_everywhere(struct rig_world *world)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        rig_touch(world, world->connections[i].from, world->connections[i].to);
}

static void stop_being_late(struct rig_world *world)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        world->connections[i].late[0] = world->connections[i].late[1] = false;
    look_everywhere(world);
    refresh(world);
}

static bool may_bury(const struct rig_world *world)
{
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        if ((world->view >> i & 1) != 0 && world->ranks[i].life != RIG_ALIVE)
            return !(world->planted && world->plant == RIG_PLANT_deaf_master);
    return false;
}

static void make_menu(struct rig_world *world, struct menu *menu)
{
    menu->count = 0;
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        offer_rank(world, &world->ranks[i], menu);
    if (may_bury(world))
        menu->steps[menu->count++] = (struct step){.kind = STEP_BURY};
    refresh(world);
    if (menu->count + world->possible_count == 0)
        stop_being_late(world);
    menu->total = menu->count + world->possible_count;
}

/* The possible step of that number at this end of a connection. */
static struct step step_at(const struct rig_world *world, uint32_t end, uint32_t number)
{
    uint32_t bit = 0;
    for (;; bit++)
        if ((world->possible[end] >> bit & 1) != 0 && number-- == 0)
            break;
    return (struct step){.kind = end_steps[bit], .connection = end / 2, .side = end % 2, .actor = RIG_RANKS_MAX + end};
}

static struct step step_of_number(const struct rig_world *world, const struct menu *menu, uint32_t number)
{
    if (number < menu->count)
        return menu->steps[number];
    number -= menu->count;
    uint32_t end = 0;
    for (; number >= bit_count(world->possible[end]); end++)
        number -= bit_count(world->possible[end]);
    return step_at(world, end, number);
}

/* Returns the step whose actor is first. */
static struct step most_urgent(const struct rig_world *world, const struct menu *menu, uint32_t random)
{
    struct step best = step_of_number(world, menu, random % menu->total);
    for (uint32_t i = 0; i < menu->count; i++)
        if (world->priorities[menu->steps[i].actor] > world->priorities[best.actor])
            best = menu->steps[i];
    for (uint32_t end = 0; end < 2 * world->connection_count; end++)
        if (world->possible[end] != 0 && world->priorities[RIG_RANKS_MAX + end] > world->priorities[best.actor])
            best = step_at(world, end, random % bit_count(world->possible[end]));
    return best;
}

static struct step pick(struct rig_world *world, const struct menu *menu)
{
    const uint32_t random = (uint32_t)pccl_prng_u64(&world->prng);
    if (world->step % 64 == 0)
        world->priorities[random % PCCL_COUNT_OF(world->priorities)] = (uint32_t)pccl_prng_u64(&world->prng);
    if (world->spec->uneven && random >> 29 != 0)
        return most_urgent(world, menu, random);
    return step_of_number(world, menu, random % menu->total);
}

/* ---- steps ---- */

/* Removes one of the dead ranks, or all of them. */
static void bury(struct rig_world *world)
{
    if (rig_plant(world, RIG_PLANT_deaf_master))
        return;
    const bool all = pccl_prng_below(&world->prng, 2) == 0;
    uint32_t gone = 0;
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        if ((world->view >> i & 1) != 0 && world->ranks[i].life != RIG_ALIVE && (all || gone == 0))
            gone |= UINT32_C(1) << i;
    rig_master_buries(world, gone);
}

static void break_all(struct rig_world *world, const struct rig_rank *rank)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        if (world->connections[i].from == rank->number || world->connections[i].to == rank->number)
            rig_break(world, &world->connections[i]);
}

/* The rank learns that it was removed: its caller gets everything back. */
static void expel(struct rig_world *world, struct rig_rank *rank)
{
    for (uint32_t op = 0; op < world->spec->op_count; op++)
        if (rank->running[op] != NULL)
            rig_stop(rank->running[op], false);
    break_all(world, rank);
    rank->life = RIG_DEAD;
}

static void go_on(struct rig_rank *rank)
{
    rank->rests = false;
    pccl_exchange_continue(rank->exchange);
}

static void step_rank(struct rig_world *world, const struct step *step)
{
    struct rig_rank *rank = &world->ranks[step->rank];
    switch (step->kind) {
    case STEP_START: rig_start(rank, step->op); break;
    case STEP_GO_ON: go_on(rank); break;
    case STEP_ORDER: rig_take_order(rank); break;
    case STEP_REPORT: rig_master_hears(world, step->rank); break;
    case STEP_BURY: bury(world); break;
    case STEP_THAW: rank->life = RIG_ZOMBIE; break;
    default: expel(world, rank); break;
    }
    if (step->kind == STEP_ORDER || step->kind == STEP_THAW || step->kind == STEP_EXPEL)
        look_at_lanes_of(world, step->rank);
    rig_check_at_rest(rank);
    rig_check_state(rank);
}

static void step_connection(struct rig_world *world, const struct step *step)
{
    struct rig_connection *connection = &world->connections[step->connection];
    switch (step->kind) {
    case STEP_NEXT: rig_next(world, connection, step->side); break;
    case STEP_MOVE: rig_move(world, connection, step->side); break;
    case STEP_DELIVER: rig_deliver(world, connection, step->side); break;
    case STEP_CLOSE: rig_close_end(world, connection, step->side); break;
    default: rig_dial(world, connection); break;
    }
    rig_touch(world, connection->from, connection->to);
    struct rig_rank *rank = rig_end_rank(world, connection, step->side);
    rig_check_at_rest(rank);
    rig_check_state(rank);
}

/* ---- faults ---- */

/* Kills a process; a part of its written data may still arrive. */
static void kill_rank(struct rig_world *world, struct rig_rank *rank)
{
    break_all(world, rank);
    rank->life = RIG_DEAD;
    rank->to_master.count = (uint32_t)pccl_prng_below(&world->prng, rank->to_master.count + 1);
}

static uint32_t living(const struct rig_world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        count += world->ranks[i].life == RIG_ALIVE;
    return count;
}

static void befall(struct rig_world *world, const struct rig_fault *fault)
{
    struct rig_rank *rank = &world->ranks[fault->which % world->spec->ranks];
    if (fault->kind == RIG_BREAK) {
        struct rig_connection *connection = &world->connections[fault->which % world->connection_count];
        if (connection->broken)
            return;
        rig_trace(world, "connection %u>%u breaks", connection->from, connection->to);
        rig_break(world, connection);
        world->totals->breaks++;
        return;
    }
    if (rank->life != RIG_ALIVE)
        return;
    if (fault->kind == RIG_STARVE) {
        rank->memory.fail_at = rank->memory.requests + 1 + pccl_prng_below(&world->prng, 4);
        world->totals->starved++;
        return;
    }
    if (living(world) < 2)
        return;
    rig_trace(world, "rank %u %s", rank->number, fault->kind == RIG_KILL ? "is killed" : "stands still");
    if (fault->kind == RIG_KILL) {
        kill_rank(world, rank);
        world->totals->kills++;
    } else {
        rank->life = RIG_FROZEN;
        rank->thaws = pccl_prng_below(&world->prng, 2) == 0;
        world->totals->freezes++;
    }
}

/* ---- a run ---- */

static void count_disturbances(struct rig_world *world)
{
    static const uint32_t each[] = {[RIG_KILL] = 1, [RIG_FREEZE] = 1, [RIG_BREAK] = 2, [RIG_STARVE] = 3};
    bool odd = false, relays = false;
    for (uint32_t op = 0; op < world->spec->op_count; op++) {
        odd = odd || world->spec->ops[op].odd_rank != RIG_NOBODY;
        relays = relays || rig_passes_on(&world->spec->ops[op]);
    }
    world->disturbances = odd;
    for (uint32_t i = 0; i < world->fault_count; i++) {
        const enum rig_fault_kind kind = world->faults[i].kind;
        /* a commit without the dead one cuts connections of living ranks that pass on its data */
        const bool cuts = relays && (kind == RIG_KILL || kind == RIG_FREEZE);
        world->disturbances += each[kind] + cuts;
    }
}

static void set_up(struct rig_world *world)
{
    const struct rig_spec *spec = world->spec;
    pccl_prng_seed(&world->prng, spec->seed);
    pccl_prng_seed(&world->plant_prng, spec->seed + world->fault_count);
    world->planted = world->failed = false;
    world->step = 0;
    world->attempts = NULL;
    world->view_number = 1;
    world->view = (UINT32_C(1) << spec->ranks) - 1;
    memset(world->decisions, 0, sizeof world->decisions);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(world->priorities); i++)
        world->priorities[i] = (uint32_t)pccl_prng_u64(&world->prng);
    count_disturbances(world);
    for (uint32_t i = 0; i < spec->ranks; i++)
        PCCL_ASSERT(rig_rank_init(world, i));
    pccl_set_assert_handler(world->on_assert);
    world->stale_count = world->possible_count = 0;
    memset(world->stale, 0, sizeof world->stale);
    memset(world->possible, 0, sizeof world->possible);
    rig_links_init(world);
    rig_packs_for(world);
    look_everywhere(world);
}

static void look_at_the_end(struct rig_world *world)
{
    for (uint32_t i = 0; i < world->spec->ranks; i++) {
        const struct rig_rank *rank = &world->ranks[i];
        if (rank->life == RIG_ALIVE && !rig_rank_finished(rank))
            rig_violation(world, "deadlock: nothing can happen any more, and rank %u is not finished", i);
    }
}

static void tear_down(struct rig_world *world)
{
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        rig_rank_fini(&world->ranks[i]);
    rig_release_attempts(world);
}

bool rig_run(struct rig_world *world, struct rig_spec *spec, const struct rig_fault *faults, uint32_t fault_count)
{
    static struct menu menu;
    world->spec = spec;
    world->faults = faults;
    world->fault_count = fault_count;
    set_up(world);
    for (;;) {
        for (uint32_t i = 0; i < fault_count; i++)
            if (faults[i].step == world->step) {
                befall(world, &faults[i]);
                look_everywhere(world);
            }
        make_menu(world, &menu);
        if (menu.total == 0 || world->failed)
            break;
        const struct step step = pick(world, &menu);
        if (step.actor < RIG_RANKS_MAX)
            step_rank(world, &step);
        else
            step_connection(world, &step);
        if (++world->step == RUN_STEPS_MAX)
            rig_violation(world, "no end after %u steps", world->step);
    }
    if (!world->failed)
        look_at_the_end(world);
    tear_down(world);
    world->totals->runs++;
    world->totals->steps += world->step;
    return !world->failed;
}
