/*
 * Verdicts (PROTOCOL 9.8). The machine that compares reports runs with reports of modeled groups, very many of them:
 * planted faults are found, and nothing else. And real machines: the receivers of a verdict, and its end.
 */
#include "scenario.h"
#include "master/verdicts.h"
#include "peer/queries.h"

#include <string.h>

enum {
    PEERS_MAX = 16,
    GROUP_MAX = 3 * PEERS_MAX,
    SECOND_US = 1000000,
    REPORTS = 12,
    SOUND = 6,
    ENDS_AFTER = 8, /* reports after the end of a fault, until its verdict must have ended */
    ROUNDS = 4,     /* operations in a second */
    SEEDS = 10000,
    LIARS_SEEDS = 2000,
    MILD_SEEDS = 1000
};

enum plant {
    NOTHING,
    LINK,
    SENDER,
    RECEIVER,
    LATE,
    STALLED,
    LOSS,
    CONGESTED, /* all links are slower */
    BUSY,      /* in each operation another peer is late */
    ABSENT,
    STOPPED,
    CUT,
    EARLY,
    PLANTS
};

/*
 * A group that does operations, one after another, over a ring or with links between all pairs. If they hang, it may be
 * a part of a larger one, whose others compute.
 */
struct world {
    struct sim *sim;
    struct pccl_prng prng;
    uint32_t peers, group;
    bool mesh;
    bool unlike;     /* each link has another rate, and the first peer a tenth of it */
    bool pauses;     /* the program computes in four of five seconds, so that there are no operations to report */
    bool free_paces; /* a slow pace delays nothing */
    bool large;      /* a round has a small operation and then a large one, for which no member is late */
    enum plant plant;
    uint32_t late_percent;   /* share of the time of the others in an operation by which the culprit is late */
    const uint32_t *is_late; /* another peer that is late, beside the plant; NULL: none */
    uint32_t culprit, other;
    uint32_t stride; /* from one to the next in the ring */
    uint64_t now_us, number;
    uint32_t late_now[ROUNDS]; /* busy: peers that are late in the operations of this second */
    uint64_t took_us[ROUNDS];  /* usual durations of these operations */
    uint64_t first_round;      /* key of the first operation of the second in progress */
    struct pccl_witness witnesses[GROUP_MAX];
    struct pccl_witness *all[GROUP_MAX];
    struct pccl_witnesses reports;
    struct pccl_verdicts verdicts;
};

static uint32_t find(const void *context, const struct pccl_id *id)
{
    const struct world *world = context;
    for (uint32_t i = 0; i < world->group; i++)
        if (pccl_id_equal(&world->witnesses[i].id, id))
            return i;
    return world->group;
}

static bool takes_part(const void *context, uint32_t i, const struct pccl_instance *instance)
{
    const struct world *world = context;
    return i < world->peers || instance->subgroup == 0;
}

static bool uses(const void *context, uint32_t from, uint32_t to)
{
    const struct world *world = context;
    if (from >= world->peers || to >= world->peers || from == to)
        return false;
    return world->mesh || to == (from + world->stride) % world->peers;
}

static uint64_t noisy(struct world *world, uint64_t value)
{
    return value * (85 + pccl_prng_below(&world->prng, 31)) / 100;
}

static bool is_hang(enum plant plant) { return plant == ABSENT || plant == STOPPED || plant == CUT || plant == EARLY; }

static void begin(struct sim *sim, struct world *world, uint64_t seed, enum plant plant)
{
    memset(world, 0, sizeof *world);
    world->sim = sim;
    pccl_prng_seed(&world->prng, seed);
    world->peers = 3 + (uint32_t)pccl_prng_below(&world->prng, 6);
    if (pccl_prng_chance(&world->prng, 20000))
        world->peers = PEERS_MAX;
    world->large = pccl_prng_chance(&world->prng, 300000);
    world->late_percent = 83;
    world->mesh = pccl_prng_chance(&world->prng, 500000);
    world->unlike = pccl_prng_chance(&world->prng, 300000);
    world->pauses = !is_hang(plant) && pccl_prng_chance(&world->prng, 300000);
    world->plant = plant;
    world->stride = 1;
    world->culprit = (uint32_t)pccl_prng_below(&world->prng, world->peers);
    world->other = (world->culprit + 1) % world->peers;
    world->group = world->peers;
    if (is_hang(plant) && pccl_prng_chance(&world->prng, 500000))
        world->group += (uint32_t)pccl_prng_below(&world->prng, GROUP_MAX - world->peers);
    for (uint32_t i = 0; i < world->group; i++) {
        world->witnesses[i].id.bytes[0] = (uint8_t)(1 + i);
        world->all[i] = &world->witnesses[i];
    }
    world->now_us = SECOND_US;
    world->reports = (struct pccl_witnesses){.all = world->all,
                                             .count = world->group,
                                             .find = find,
                                             .takes_part = takes_part,
                                             .uses = uses,
                                             .context = world};
}

static bool is_slow(const struct world *world, uint32_t from, uint32_t to)
{
    switch (world->plant) {
    case LINK: return from == world->culprit && to == world->other;
    case SENDER: return from == world->culprit;
    case RECEIVER: return to == world->culprit;
    case CONGESTED: return true;
    default: return false;
    }
}

/* Returns true if a slow link is in use or a peer is late, which delays all others. */
static bool is_delayed(const struct world *world)
{
    if (world->plant == LATE)
        return true;
    for (uint32_t from = 0; from < world->peers; from++)
        for (uint32_t to = 0; to < world->peers; to++)
            if (uses(world, from, to) && is_slow(world, from, to))
                return true;
    return false;
}

static bool is_fault(enum plant plant)
{
    return plant != NOTHING && plant != CONGESTED && plant != BUSY && plant != EARLY;
}

/* Returns the factor by which a link is slower than others by nature. */
static uint32_t factor_of(const struct world *world, uint32_t from, uint32_t to)
{
    if (!world->unlike)
        return 1;
    return from == 0 || to == 0 ? 10 : 1 + (from * 5 + to * 3) % 4;
}

static void add_link(struct world *world, uint32_t from, uint32_t to, bool planted, struct pccl_msg_sight *telemetry,
                     struct pccl_seen_link *links)
{
    bool stands = planted && is_hang(world->plant);
    bool cut = planted && world->plant == CUT && from == world->culprit && to == world->other;
    struct pccl_seen_link *link = &links[telemetry->links_count++];
    *link = (struct pccl_seen_link){
        .peer = world->witnesses[to].id, .rtt_us = 1000, .lately_us = (uint32_t)noisy(world, 45000)};
    if (stands) {
        link->busy_us = cut ? 990000 : 0;
        return;
    }
    /* a fault delays all, and a slow link is slower than the links that are slow by nature */
    uint32_t delay = !planted || world->free_paces || !is_delayed(world) ? 1 : world->unlike ? 6 : 2;
    uint32_t factor = factor_of(world, from, to) * delay;
    bool slow = planted && is_slow(world, from, to);
    /* in a ring the links after a slow one wait for data, and send it in small parts */
    bool starved = delay > 1 && world->plant != LATE && !world->mesh && !slow;
    link->bytes = noisy(world, (8 << 20) / factor);
    uint32_t busy_us = world->mesh ? 250000 : 600000;
    link->busy_us = (uint32_t)noisy(world, (starved ? busy_us * 21 / 10 : busy_us) / delay);
    if (starved)
        link->lately_us = (uint32_t)noisy(world, 4000);
    if (slow)
        link->busy_us = (uint32_t)noisy(world, world->unlike || !world->mesh ? 850000 : 375000);
    link->resent =
        planted && world->plant == LOSS && from == world->culprit && to == world->other ? link->bytes / 50 : 0;
}

static void add_waits(struct world *world, uint32_t i, struct pccl_msg_sight *telemetry, struct pccl_seen_wait *waits,
                      uint32_t for_ms)
{
    uint32_t before = (i + world->peers - 1) % world->peers, after = (i + 1) % world->peers;
    bool absent = world->plant == ABSENT || world->plant == EARLY;
    if ((after == world->culprit && world->plant != CUT) || world->plant == EARLY)
        waits[telemetry->waits_count++] = (struct pccl_seen_wait){.peer = world->witnesses[after].id,
                                                                  .what = absent ? PCCL_WAIT_READY : PCCL_WAIT_CREDIT,
                                                                  .begun = !absent,
                                                                  .for_ms = for_ms};
    waits[telemetry->waits_count++] =
        (struct pccl_seen_wait){.peer = world->witnesses[before].id,
                                .what = PCCL_WAIT_DATA,
                                .begun = !absent || (world->plant == ABSENT && before != world->culprit),
                                .for_ms = for_ms};
}

/* Returns the time that this peer spends in operation number k of a second. */
static uint64_t took_us_of(struct world *world, uint32_t i, uint32_t k, bool planted)
{
    bool is_large = world->large && k % 2 == 1;
    bool late = (world->plant == LATE && i == world->culprit) || (world->plant == BUSY && i == world->late_now[k]) ||
                (world->is_late != NULL && i == *world->is_late);
    uint64_t usual_us = world->took_us[k] * (is_large ? 2 : 1) * (97 + pccl_prng_below(&world->prng, 7)) / 100;
    return planted && late && !is_large ? usual_us * (100 - world->late_percent) / 100 : usual_us;
}

/* Takes the report of this peer for the last second; with links only if it sends. */
static void report_links(struct world *world, uint32_t i, bool planted, uint32_t for_ms, bool sends)
{
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    struct pccl_seen_wait waits[PCCL_TELEMETRY_WAITS_MAX];
    struct pccl_seen_round rounds[ROUNDS];
    struct pccl_msg_sight telemetry = {.window_ms = 1000,
                                       .rounds = rounds,
                                       .links = links,
                                       .instance = {.subgroup = world->group > world->peers ? 7 : 0},
                                       .waits = waits};
    bool stands = planted && is_hang(world->plant);
    if (stands && world->plant != CUT && (i == world->culprit) != (world->plant == EARLY))
        return; /* it is stopped, or does not know of the operation */
    if (!stands) {
        telemetry.operations = telemetry.rounds_count = ROUNDS;
        for (uint32_t k = 0; k < ROUNDS; k++) {
            uint64_t took_us = took_us_of(world, i, k, planted);
            telemetry.took_us += took_us;
            rounds[k] = (struct pccl_seen_round){world->first_round + k, (uint32_t)took_us, 0};
        }
    }
    telemetry.stalled_ms = (uint32_t)pccl_prng_below(&world->prng, 60);
    if (planted && world->plant == STALLED && i == world->culprit)
        telemetry.stalled_ms = (uint32_t)noisy(world, 600);
    for (uint32_t to = 0; to < world->peers; to++)
        if (sends && uses(world, i, to))
            add_link(world, i, to, planted, &telemetry, links);
    if (stands)
        add_waits(world, i, &telemetry, waits, for_ms);
    pccl_witness_take(&world->witnesses[i], world->now_us, &telemetry);
}

static void report(struct world *world, uint32_t i, bool planted, uint32_t for_ms)
{
    report_links(world, i, planted, for_ms, true);
}

static bool judge(struct world *world)
{
    bool changed =
        pccl_verdicts_judge(&world->verdicts, &world->sim->driver_hook, &world->reports, world->now_us, &world->number);
    MUST(world->sim, pccl_verdicts_broken_rule(&world->verdicts) == NULL);
    return changed;
}

static void begin_second(struct world *world)
{
    world->first_round += ROUNDS;
    for (uint32_t k = 0; k < ROUNDS; k++) {
        world->took_us[k] = noisy(world, 230000);
        world->late_now[k] = (uint32_t)pccl_prng_below(&world->prng, world->peers);
    }
}

static bool second(struct world *world, bool planted, uint32_t for_ms)
{
    begin_second(world);
    for (uint32_t i = 0; i < world->peers; i++) {
        world->now_us += 1000 + pccl_prng_below(&world->prng, 5000);
        report(world, i, planted, for_ms);
    }
    bool changed = false;
    for (uint32_t i = 0; i < (world->pauses ? 5 : 1); i++) {
        world->now_us += SECOND_US;
        changed = judge(world) || changed;
    }
    return changed;
}

static enum pccl_verdict_class expected(const struct world *world)
{
    switch (world->plant) {
    case LINK:
    case LOSS: return PCCL_VERDICT_SLOW_LINK;
    case SENDER: return world->mesh ? PCCL_VERDICT_SLOW_SENDER : PCCL_VERDICT_SLOW_LINK;
    case RECEIVER: return world->mesh ? PCCL_VERDICT_SLOW_RECEIVER : PCCL_VERDICT_SLOW_LINK;
    case LATE: return PCCL_VERDICT_SLOW_COMPUTATION;
    case STALLED: return PCCL_VERDICT_SLOW_PEER;
    case ABSENT: return PCCL_VERDICT_NOT_ENTERED;
    default: return PCCL_VERDICT_HANG;
    }
}

static void assert_verdict(const struct world *world, uint64_t seed)
{
    const struct pccl_verdict_entry *entry = pccl_verdicts_at(&world->verdicts, 0);
    bool around = world->plant == RECEIVER && !world->mesh; /* a ring shows the one link to it */
    uint32_t from = around ? (world->culprit + world->peers - 1) % world->peers : world->culprit;
    if (entry == NULL || pccl_verdicts_at(&world->verdicts, 1) != NULL || entry->class != expected(world) ||
        !pccl_id_equal(&entry->peer, &world->witnesses[from].id))
        sim_fail(world->sim, "seed %" PRIu64 ", plant %d, %u peers, mesh %d: %s", seed, (int)world->plant, world->peers,
                 world->mesh, entry == NULL ? "no verdict" : entry->evidence.bytes);
    bool link = world->plant == LINK || world->plant == LOSS || world->plant == CUT;
    if (link && !pccl_id_equal(&entry->other, &world->witnesses[world->other].id))
        sim_fail(world->sim, "seed %" PRIu64 ": the other end is not named", seed);
    bool of_peer = entry->class != PCCL_VERDICT_SLOW_LINK && !is_hang(world->plant);
    bool enough = of_peer && (!world->unlike || entry->enough); /* by nature most need not be faster */
    MUST(world->sim, entry->enough == enough && (entry->enough_us != 0) == enough);
    MUST(world->sim, entry->evidence.length > 0);
}

/* Links that are unlike from the start are findings, which also begin and end. */
static bool has_verdict(const struct world *world, bool changed)
{
    return changed && pccl_verdicts_at(&world->verdicts, 0) != NULL;
}

/* Nothing at first; then the plant, within six seconds; then nothing again, and the verdict ends. */
static void run_seed(struct sim *sim, uint64_t seed, enum plant plant)
{
    struct world world;
    struct pccl_verdict_entry over;
    begin(sim, &world, seed, plant);
    for (uint32_t i = 0; i < SOUND; i++)
        if (has_verdict(&world, second(&world, false, 0)))
            sim_fail(sim, "seed %" PRIu64 ": a verdict where nothing is wrong: %s", seed,
                     pccl_verdicts_at(&world.verdicts, 0)->evidence.bytes);
    uint32_t found = 0;
    for (uint32_t i = 1; i <= REPORTS; i++)
        if (has_verdict(&world, second(&world, plant != NOTHING, i * 1000 + 200)) && found == 0)
            found = i;
    MUST(sim, is_fault(plant) || found == 0);
    if (is_fault(plant)) {
        assert_verdict(&world, seed);
        MUST(sim, world.unlike || pccl_verdicts_or_finding_at(&world.verdicts, 1) == NULL);
        if (found < 2 || found > 6)
            sim_fail(sim, "seed %" PRIu64 ", plant %d: found after %u seconds", seed, (int)plant, found);
        for (uint32_t i = 0; pccl_verdicts_at(&world.verdicts, 0) != NULL; i++) {
            MUST(sim, i < ENDS_AFTER);
            (void)second(&world, false, 0);
        }
        do {
            MUST(sim, pccl_verdicts_take_over(&world.verdicts, &over));
        } while (over.finding);
    }
    MUST(sim, pccl_verdicts_at(&world.verdicts, 0) == NULL);
    MUST(sim, world.unlike || pccl_verdicts_or_finding_at(&world.verdicts, 0) == NULL);
    pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
}

/* The planted faults of ten thousand modeled groups are found, and no others. */
SCENARIO(verdicts_of_models)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(sim, seed, (enum plant)(seed % PLANTS));
}

/* Runs a few seconds without a fault, because only a change is a verdict. */
static void be_sound(struct world *world)
{
    for (uint32_t i = 0; i < SOUND; i++)
        MUST(world->sim, !has_verdict(world, second(world, false, 0)));
}

/* Returns true if the verdict names the slow link, or a peer that is late. */
static bool is_of_plant(const struct world *world, const struct pccl_verdict_entry *entry)
{
    uint32_t peer = find(world, &entry->peer);
    if (entry->class == PCCL_VERDICT_SLOW_LINK)
        return world->plant == LINK && peer == world->culprit && find(world, &entry->other) == world->other;
    return entry->class == PCCL_VERDICT_SLOW_COMPUTATION &&
           ((world->plant == LATE && peer == world->culprit) || (world->is_late != NULL && peer == *world->is_late));
}

/* Runs the fault for some of the reports. Checks that no other one is named. Returns the largest number of verdicts. */
static uint32_t run_mild_seed(struct world *world, uint64_t seed, uint32_t planted)
{
    const struct pccl_verdict_entry *entry;
    struct pccl_verdict_entry over;
    uint32_t most = 0, n;
    be_sound(world);
    for (uint32_t i = 0; i < REPORTS; i++) {
        (void)second(world, i < planted, 0);
        for (n = 0; (entry = pccl_verdicts_at(&world->verdicts, n)) != NULL; n++)
            if (!is_of_plant(world, entry))
                sim_fail(world->sim, "seed %" PRIu64 ", plant %d, %u peers, mesh %d: %s", seed, (int)world->plant,
                         world->peers, world->mesh, entry->evidence.bytes);
        most = n > most ? n : most;
        while (pccl_verdicts_take_over(&world->verdicts, &over))
            continue;
    }
    pccl_verdicts_free(&world->verdicts, &world->sim->driver_hook);
    return most;
}

/* The pace of a link changes and the operations take as long as before, as on a recorded busy host: no verdict. */
SCENARIO(verdicts_of_free_paces)
{
    for (uint64_t seed = 1; seed <= MILD_SEEDS / 10; seed++) {
        struct world world;
        begin(sim, &world, seed, LINK);
        be_sound(&world);
        world.free_paces = true;
        for (uint32_t i = 0; i < REPORTS; i++)
            MUST(sim, !has_verdict(&world, second(&world, true, 0)));
        pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
    }
}

/* A fault of three seconds, and a peer that is late by a tenth: silent or right. Two faults: both are named. */
SCENARIO(verdicts_of_mild_faults)
{
    for (uint64_t seed = 1; seed <= MILD_SEEDS; seed++) {
        struct world world;
        begin(sim, &world, seed, seed % 4 < 2 ? LINK : LATE);
        if (seed % 2 == 0) {
            (void)run_mild_seed(&world, seed, 3);
        } else if (world.plant == LATE) {
            world.late_percent = 10;
            (void)run_mild_seed(&world, seed, REPORTS);
        } else {
            uint32_t late = (world.other + 1) % world.peers;
            world.is_late = &late;
            MUST(sim, run_mild_seed(&world, seed, REPORTS) == 2);
        }
    }
}

/* This verdict; `other` of a link, else the same as `peer`, and then beside one on a link. */
static void shows(const struct world *world, uint64_t seed, enum pccl_verdict_class class, uint32_t peer,
                  uint32_t other)
{
    const struct pccl_verdict_entry *entry = NULL;
    uint32_t count = 0, links = 0;
    for (const struct pccl_verdict_entry *one; (one = pccl_verdicts_at(&world->verdicts, count)) != NULL; count++) {
        links += one->class == PCCL_VERDICT_SLOW_LINK;
        MUST(world->sim, one->enough == (one->class != PCCL_VERDICT_SLOW_LINK));
        entry = one->class == class ? one : entry;
    }
    if (entry == NULL || links != 1 || count != (other == peer ? 2 : 1) ||
        !pccl_id_equal(&entry->peer, &world->witnesses[peer].id) ||
        (other != peer && !pccl_id_equal(&entry->other, &world->witnesses[other].id)))
        sim_fail(world->sim, "seed %" PRIu64 ", plant %d, %u peers: %s", seed, (int)world->plant, world->peers,
                 entry == NULL ? "no verdict" : entry->evidence.bytes);
}

static void seconds(struct world *world, uint32_t count)
{
    struct pccl_verdict_entry over;
    for (uint32_t i = 0; i < count; i++)
        (void)second(world, true, 0);
    while (pccl_verdicts_take_over(&world->verdicts, &over))
        continue;
}

/*
 * A ring shows one link of each peer, so the verdict names a link. The next ring has other links: a peer that is slow
 * on them, too, is named. If it was the link no peer is named, and the next slow link of the two is another link.
 */
static void run_two_rings(struct sim *sim, uint64_t seed, enum plant plant)
{
    struct world world;
    begin(sim, &world, seed, plant);
    world.mesh = world.unlike = false; /* a new link is compared with the others */
    uint32_t culprit = world.culprit, before = (culprit + world.peers - 1) % world.peers;
    be_sound(&world);
    seconds(&world, REPORTS);
    if (plant == RECEIVER)
        shows(&world, seed, PCCL_VERDICT_SLOW_LINK, before, culprit);
    else
        shows(&world, seed, PCCL_VERDICT_SLOW_LINK, culprit, world.other);
    for (uint32_t i = 0; plant != LINK && i < 2; i++)
        (void)second(&world, false, 0); /* fewer than 3 good reports do not clear the suspected end */
    world.stride = world.peers - 1;
    seconds(&world, REPORTS);
    if (plant == SENDER)
        shows(&world, seed, PCCL_VERDICT_SLOW_SENDER, culprit, culprit);
    else if (plant == RECEIVER)
        shows(&world, seed, PCCL_VERDICT_SLOW_RECEIVER, culprit, culprit);
    else
        MUST(sim, pccl_verdicts_at(&world.verdicts, 0) == NULL);
    world.other = before;
    seconds(&world, REPORTS);
    if (plant == LINK)
        shows(&world, seed, PCCL_VERDICT_SLOW_LINK, culprit, before);
    pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
}

/* All pairs show that it is the link. A ring right after that, of which another link of the sender is slow, is news. */
static void run_mesh_and_ring(struct sim *sim, uint64_t seed)
{
    struct world world;
    begin(sim, &world, seed, LINK);
    uint32_t culprit = world.culprit, before = (culprit + world.peers - 1) % world.peers;
    world.mesh = true;
    world.unlike = false;
    be_sound(&world);
    while (pccl_verdicts_at(&world.verdicts, 0) == NULL)
        (void)second(&world, true, 0);
    world.mesh = false;
    world.stride = world.peers - 1;
    world.other = before;
    seconds(&world, REPORTS);
    shows(&world, seed, PCCL_VERDICT_SLOW_LINK, culprit, before);
    pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
}

/* A second ring shows whether a link is slow, or its sender or receiver. */
SCENARIO(verdicts_of_two_rings)
{
    static const enum plant plants[] = {LINK, SENDER, RECEIVER};
    for (uint64_t seed = 1; seed <= 300; seed++)
        run_two_rings(sim, seed, plants[seed % 3]);
    for (uint64_t seed = 1; seed <= 100; seed++)
        run_mesh_and_ring(sim, seed);
}

/* All are equally slow: a busy host, or a slow network. */
SCENARIO(verdicts_all_alike)
{
    struct world world;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(sim, &world, seed, NOTHING);
        for (uint32_t k = 0; k < REPORTS; k++) {
            for (uint32_t i = 0; i < world.peers; i++) {
                struct pccl_seen_link link = {.peer = world.witnesses[(i + 1) % world.peers].id,
                                              .bytes = 1 << 20,
                                              .busy_us = (uint32_t)noisy(&world, 800000),
                                              .resent = noisy(&world, 40000)};
                uint64_t took_us = noisy(&world, 900000);
                struct pccl_seen_round round = {k, (uint32_t)took_us, 0};
                struct pccl_msg_sight telemetry = {.window_ms = 1000,
                                                   .stalled_ms = (uint32_t)noisy(&world, 500),
                                                   .operations = 1,
                                                   .took_us = took_us,
                                                   .rounds = &round,
                                                   .rounds_count = 1,
                                                   .links = &link,
                                                   .links_count = 1};
                pccl_witness_take(&world.witnesses[i], world.now_us, &telemetry);
            }
            world.now_us += SECOND_US;
            MUST(sim, !judge(&world));
        }
        pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
    }
}

/* Any claim of a peer is limited to possible values, without overflow. */
SCENARIO(verdicts_lies)
{
    struct world world;
    begin(sim, &world, 3, NOTHING);
    for (uint32_t k = 0; k < 200; k++) {
        for (uint32_t i = 0; i < world.peers; i++) {
            struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
            struct pccl_seen_wait waits[PCCL_TELEMETRY_WAITS_MAX];
            struct pccl_seen_round rounds[PCCL_TELEMETRY_ROUNDS_MAX];
            for (uint32_t n = 0; n < PCCL_TELEMETRY_LINKS_MAX; n++) {
                uint64_t wild = pccl_prng_u64(&world.prng);
                struct pccl_id id = {{(uint8_t)(1 + n)}};
                links[n] = (struct pccl_seen_link){id, wild, pccl_prng_u64(&world.prng), (uint32_t)wild, 1, 1};
                waits[n] = (struct pccl_seen_wait){id, (uint8_t)(1 + wild % 5), wild & 1, (uint32_t)(wild >> 32)};
            }
            for (uint32_t n = 0; n < PCCL_TELEMETRY_ROUNDS_MAX; n++)
                rounds[n] = (struct pccl_seen_round){pccl_prng_below(&world.prng, 8) + (UINT64_C(10) * (k + n)),
                                                     (uint32_t)pccl_prng_u64(&world.prng), 0};
            struct pccl_msg_sight telemetry = {.window_ms = 1 + (uint32_t)pccl_prng_below(&world.prng, 3600000),
                                               .stalled_ms = UINT32_MAX,
                                               .operations = UINT32_MAX,
                                               .took_us = pccl_prng_u64(&world.prng),
                                               .rounds = rounds,
                                               .rounds_count = PCCL_TELEMETRY_ROUNDS_MAX,
                                               .links = links,
                                               .links_count = PCCL_TELEMETRY_LINKS_MAX,
                                               .waits = waits,
                                               .waits_count = k % 2 == 0 ? PCCL_TELEMETRY_WAITS_MAX : 0};
            pccl_witness_take(&world.witnesses[i], world.now_us, &telemetry);
        }
        world.now_us += SECOND_US;
        uint64_t before = world.number;
        bool changed = judge(&world);
        MUST(sim, changed || world.number == before);
    }
    pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
}

/* Takes the report of a liar for this second: valid, with arbitrary figures of links and operations. */
static void report_lie(struct world *world, uint32_t i)
{
    static const uint32_t busy_us[] = {100, 20000, 250000, 600000, 990000}, took_us[] = {1000, 40000, 230000, 5000000};
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    struct pccl_seen_round rounds[2 * ROUNDS];
    struct pccl_msg_sight telemetry = {
        .window_ms = 1000, .operations = ROUNDS, .rounds = rounds, .rounds_count = 2 * ROUNDS, .links = links};
    for (uint32_t to = 0; to < world->peers; to++)
        if (to != i && pccl_prng_chance(&world->prng, 700000))
            links[telemetry.links_count++] =
                (struct pccl_seen_link){.peer = world->witnesses[to].id,
                                        .bytes = UINT64_C(1) << (18 + pccl_prng_below(&world->prng, 6)),
                                        .resent = pccl_prng_below(&world->prng, 4) << 16,
                                        .busy_us = busy_us[(to * 7 + i + world->stride) % 5],
                                        .rtt_us = 1000,
                                        .lately_us = 1000};
    telemetry.took_us = UINT64_C(4) * took_us[(i + world->culprit + world->stride) % 4];
    for (uint32_t k = 0; k < 2 * ROUNDS; k++) /* it repeats the operations of the last second */
        rounds[k] = (struct pccl_seen_round){world->first_round - ROUNDS + k,
                                             took_us[(i + world->culprit + world->stride) % 4], 0};
    telemetry.stalled_ms = pccl_prng_chance(&world->prng, 100000) ? 700 : 0;
    pccl_witness_take(&world->witnesses[i], world->now_us, &telemetry);
}

/*
 * Some members lie, each always about the same peers; the others, a majority, report the truth: no peer is slow. Some
 * have no data to send. No suspicion suffices to expel an honest member.
 */
SCENARIO(verdicts_of_liars)
{
    struct pccl_verdict_entry over;
    for (uint64_t seed = 1; seed <= LIARS_SEEDS; seed++) {
        struct world world;
        begin(sim, &world, seed, NOTHING);
        uint32_t liars = 1 + (uint32_t)pccl_prng_below(&world.prng, (world.peers - 1) / 2);
        bool alone = pccl_prng_chance(&world.prng, 300000); /* only one honest member reports links */
        world.stride = 1 + (uint32_t)pccl_prng_below(&world.prng, 4);
        for (uint32_t k = 0; k < REPORTS; k++) {
            begin_second(&world);
            for (uint32_t i = 0; i < liars; i++)
                report_lie(&world, i);
            for (uint32_t i = liars; i < world.peers; i++)
                report_links(&world, i, false, 0, !alone || i == liars);
            world.now_us += SECOND_US;
            (void)judge(&world);
            const struct pccl_verdict_entry *entry;
            for (uint32_t n = 0; (entry = pccl_verdicts_at(&world.verdicts, n)) != NULL; n++)
                if (entry->enough && find(&world, &entry->peer) >= liars)
                    sim_fail(sim, "seed %" PRIu64 ", %u of %u lie: %s", seed, liars, world.peers,
                             entry->evidence.bytes);
            while (pccl_verdicts_take_over(&world.verdicts, &over))
                continue;
        }
        pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
    }
}

/* Only the master knows the members that an outcome waits for: a report that names one is a lie, and not a wait. */
SCENARIO(verdicts_lies_of_outcomes)
{
    struct world world;
    begin(sim, &world, 3, NOTHING);
    for (uint32_t k = 0; k < REPORTS; k++) {
        struct pccl_seen_wait wait = {world.witnesses[1].id, PCCL_WAIT_OUTCOME, 1, 5000 + k * 1000};
        struct pccl_msg_sight telemetry = {.window_ms = 1000, .waits = &wait, .waits_count = 1};
        pccl_witness_take(&world.witnesses[0], world.now_us, &telemetry);
        world.now_us += SECOND_US;
        MUST(sim, !judge(&world));
    }
    pccl_verdicts_free(&world.verdicts, &sim->driver_hook);
}

/* ---- real machines ---- */

enum { HOSTS = 20, MANY = 2 * HOSTS }; /* more than twice as many as a report has room for */

static struct sim_peer *p[MANY]; /* peers of the running scenario */

static uint32_t known(const struct sim_peer *peer)
{
    uint32_t count;
    (void)pccl_peer_verdicts(peer->machine, &count);
    return count;
}

/* All report a second in which one of them did not run, or did. */
static void report_all(struct sim *sim, uint32_t count, uint32_t stalled_ms)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_msg_sight telemetry = {
            .window_ms = 1000, .stalled_ms = i == 0 ? stalled_ms : 0, .operations = 5, .took_us = 500000};
        (void)sim_peer_step(sim, p[i], &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
    }
    scenario_run_ms(sim, 1100);
}

static void begin_verdict(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < 5 && known(p[0]) == 0; i++)
        report_all(sim, count, 600);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t told;
        MUST(sim, known(p[i]) == 1);
        const struct pccl_peer_verdict *verdict = pccl_peer_verdicts(p[i]->machine, &told);
        MUST(sim, verdict->class == PCCL_VERDICT_SLOW_PEER && pccl_id_equal(&verdict->peer, &p[0]->machine->config.id));
        MUST(sim, verdict->evidence.length > 0 && verdict->action.length > 0);
    }
}

/* All receive it and its end, a newcomer, too. */
CLUSTER_SCENARIO(verdicts_told, 3, 1)
{
    begin_verdict(sim, 3);
    p[3] = scenario_join(sim, 4, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, pccl_peer_is_connected(p[3]->machine) && known(p[3]) == 1);
    for (uint32_t i = 0; i < 6; i++)
        report_all(sim, 4, 0);
    for (uint32_t i = 0; i < 4; i++)
        MUST(sim, known(p[i]) == 0);
}

/* It ends with the membership of its peer. */
CLUSTER_SCENARIO(verdicts_death, 3, 1)
{
    begin_verdict(sim, 3);
    sim_peer_kill(sim, p[0], false);
    WAIT(sim, 1000, known(p[1]) == 0 && known(p[2]) == 0);
}

/* A restarted master has none, and peers forget the last master's. */
CLUSTER_SCENARIO(verdicts_restart, 3, 1)
{
    begin_verdict(sim, 3);
    scenario_restart_master(sim, 100);
    WAIT(sim, 15000, known(p[0]) == 0 && known(p[1]) == 0 && known(p[2]) == 0);
    scenario_commit_all(sim, p, 3, 1, 1);
    begin_verdict(sim, 3);
}

/* ---- consequences for slow peers ---- */

enum { LIMIT_S = 5, COOL_DOWN_MS = 4 * 1000 * LIMIT_S };

static void expel_slow_peers(struct sim *sim, uint32_t floor)
{
    struct pccl_master_config *config = &sim->master->machine->config;
    config->expel_slow_peers = true;
    config->slow_peer_limit_s = LIMIT_S;
    config->slow_peer_floor = floor;
}

static bool is_out(const struct sim_peer *peer) { return peer->machine->state == PCCL_PEER_OVER; }

/* Lets p[0] stall, visible to all, for `seconds` seconds of a verdict. */
static void stall(struct sim *sim, uint32_t count, uint32_t seconds)
{
    begin_verdict(sim, count);
    for (uint32_t i = 0; i < seconds && !is_out(p[0]); i++)
        report_all(sim, count, 600);
}

/* Starts a peer with p[0]'s name, which the master sees at this host, and which claims to be at another one. */
static struct sim_peer *start_namesake(struct sim *sim, uint32_t host, uint32_t says)
{
    memcpy(sim->plan.peer.name, p[0]->config.name, sizeof sim->plan.peer.name);
    struct sim_peer *peer = scenario_join(sim, host, 0);
    sim->plan.peer.name[0] = '\0';
    peer->machine->config.candidates[0] = sim_address(says, peer->machine->config.candidates[0].port);
    scenario_run_ms(sim, 500);
    return peer;
}

static void start_again(struct sim *sim) { p[0] = start_namesake(sim, 1, 1); }

/* Checks that it is refused with a reason and a time of at most `ms`. */
static void stays_out(struct sim *sim, uint32_t ms)
{
    start_again(sim);
    MUST(sim, is_out(p[0]));
    MUST(sim, strstr(pccl_peer_last_reason(p[0]->machine)->bytes, "it was slow, and may join again in") != NULL);
    scenario_run_ms(sim, ms);
}

static void comes_back(struct sim *sim)
{
    start_again(sim);
    MUST(sim, !is_out(p[0]));
    scenario_update_all(sim, &p[1], 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[0]->machine));
}

/* Not before the limit. The others continue; it stays out, and twice as long the next time. */
CLUSTER_SCENARIO(slow_peer_goes, 3, 1)
{
    expel_slow_peers(sim, 2);
    stall(sim, 3, LIMIT_S - 2);
    MUST(sim, !is_out(p[0]));
    stall(sim, 3, 4);
    MUST(sim, is_out(p[0]) && pccl_peer_why_over(p[0]->machine) == PCCL_EXPELLED);
    MUST(sim, strstr(pccl_peer_last_reason(p[0]->machine)->bytes, "slow peer for") != NULL);
    MUST(sim, known(p[1]) == 0 && sim->master->machine->member_count == 2);
    MUST(sim, sim->master->machine->tally.members_removed[PCCL_REFUSAL_SLOW] == 1);
    scenario_commit_all(sim, &p[1], 2, 1, 1);
    stays_out(sim, COOL_DOWN_MS);
    comes_back(sim);
    stall(sim, 3, LIMIT_S + 2);
    MUST(sim, is_out(p[0]));
    stays_out(sim, COOL_DOWN_MS);
    stays_out(sim, COOL_DOWN_MS);
    comes_back(sim);
}

/* Its namesakes elsewhere may join, also behind the same address, and so may others of its host. */
CLUSTER_SCENARIO(slow_peer_is_known, 3, 1)
{
    expel_slow_peers(sim, 2);
    stall(sim, 3, LIMIT_S + 2);
    MUST(sim, is_out(p[0]));
    p[3] = scenario_join(sim, 1, 0);
    scenario_run_ms(sim, 500);
    MUST(sim, !is_out(p[3]));
    MUST(sim, !is_out(start_namesake(sim, 4, 4)));
    MUST(sim, !is_out(start_namesake(sim, 4, 1)));
    MUST(sim, !is_out(start_namesake(sim, 1, 4)));
    MUST(sim, is_out(start_namesake(sim, 1, 1)));
}

/* Its name was not chosen, so it is not recognized: it may join again at once, and so may others of its host. */
SCENARIO(slow_peer_without_name)
{
    scenario_cluster(sim, &p[1], 3, 1);
    sim->plan.peer.named = false;
    p[0] = scenario_join(sim, 4, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, &p[1], 3);
    WAIT(sim, 1000, pccl_peer_is_connected(p[0]->machine));
    expel_slow_peers(sim, 2);
    stall(sim, 4, LIMIT_S + 2);
    MUST(sim, is_out(p[0]));
    MUST(sim, strstr(pccl_peer_last_reason(p[0]->machine)->bytes, "may not join") == NULL);
    MUST(sim, !is_out(start_namesake(sim, 4, 4)));
    sim->plan.peer.named = true;
    MUST(sim, !is_out(start_namesake(sim, 4, 4)));
}

/* A verdict that ends in time, too few others, and a master that only warns. */
CLUSTER_SCENARIO(slow_peer_stays, 3, 1)
{
    expel_slow_peers(sim, 2);
    sim->master->machine->config.expel_slow_peers = false;
    stall(sim, 3, 3 * LIMIT_S);
    expel_slow_peers(sim, 3);
    stall(sim, 3, 3 * LIMIT_S);
    for (uint32_t i = 0; i < 6; i++)
        report_all(sim, 3, 0);
    expel_slow_peers(sim, 2);
    for (uint32_t k = 0; k < 3; k++) {
        stall(sim, 3, LIMIT_S - 2);
        for (uint32_t i = 0; i < 6; i++)
            report_all(sim, 3, 0);
        MUST(sim, known(p[1]) == 0 && !is_out(p[0]));
    }
}

/* An expelled peer may join while there are not enough others. */
CLUSTER_SCENARIO(slow_peer_is_needed, 3, 1)
{
    expel_slow_peers(sim, 2);
    stall(sim, 3, LIMIT_S + 2);
    MUST(sim, is_out(p[0]));
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 1000, sim->master->machine->member_count == 1);
    start_again(sim);
    MUST(sim, !is_out(p[0]));
}

/* All of a group depart just after they have reported, while another group continues. */
CLUSTER_SCENARIO(verdicts_of_nobody, 4, 2)
{
    struct sim_peer *stay[] = {p[0], p[2]};
    struct pccl_msg_sight telemetry = {.window_ms = 1000, .operations = 5, .took_us = 500000};
    for (uint32_t k = 0; k < 2; k++) /* the first one is compared at once */
        for (uint32_t i = 1; i < 4; i += 2)
            (void)sim_peer_step(sim, p[i],
                                &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
    scenario_run_ms(sim, 10);
    sim_peer_kill(sim, p[1], false);
    sim_peer_kill(sim, p[3], false);
    scenario_run_ms(sim, 3000);
    MUST(sim, sim->master->machine->member_count == 2);
    scenario_commit_all(sim, stay, 2, 1, 1);
}

static void report_wait(struct sim *sim, struct sim_peer *peer, const struct pccl_instance *instance,
                        struct pccl_seen_wait wait)
{
    struct pccl_msg_sight telemetry = {.window_ms = 1000, .instance = *instance, .waits = &wait, .waits_count = 1};
    (void)sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
}

/*
 * The first `count` members report how long they have waited for the outcome of an operation through the master. The
 * last `elsewhere` members report short waits in another operation.
 */
static void wait_for_outcome(struct sim *sim, const struct pccl_peer_op *op, uint32_t count, uint32_t elsewhere)
{
    struct pccl_instance other = op->instance;
    other.tag++;
    for (uint32_t k = 1; k <= 5; k++) {
        for (uint32_t i = 0; i < count; i++)
            report_wait(sim, p[i], &op->instance,
                        (struct pccl_seen_wait){.what = PCCL_WAIT_OUTCOME, .for_ms = 1000 * k + 100});
        for (uint32_t i = MANY - elsewhere; i < MANY; i++)
            report_wait(sim, p[i], &other,
                        (struct pccl_seen_wait){.peer = p[i - 1]->id, .what = PCCL_WAIT_DATA, .for_ms = 100});
        scenario_run_ms(sim, 1100);
    }
}

/*
 * One of many members enters an operation long before the others, half of which are in another one: the master names
 * no member. Then all but one have entered, and the master names that one.
 */
SCENARIO(verdicts_early)
{
    struct pccl_peer_op *ops[MANY];
    scenario_cluster(sim, p, HOSTS, 1);
    for (uint32_t i = HOSTS; i < MANY; i++)
        p[i] = scenario_join(sim, 1 + i - HOSTS, 0);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p, HOSTS);
    WAIT(sim, 2000, sim->master->machine->member_count == MANY);
    ops[0] = scenario_tiny(sim, p[0], 1, 1);
    wait_for_outcome(sim, ops[0], 1, HOSTS - 1);
    MUST(sim, known(p[0]) == 0);
    for (uint32_t i = 1; i < MANY - 1; i++)
        ops[i] = scenario_tiny(sim, p[i], 1, 1);
    wait_for_outcome(sim, ops[0], MANY - 1, 0);
    uint32_t told;
    MUST(sim, known(p[0]) == 1);
    const struct pccl_peer_verdict *verdict = pccl_peer_verdicts(p[0]->machine, &told);
    MUST(sim, verdict->class == PCCL_VERDICT_NOT_ENTERED && pccl_id_equal(&verdict->peer, &p[MANY - 1]->id));
    ops[MANY - 1] = scenario_tiny(sim, p[MANY - 1], 1, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}
