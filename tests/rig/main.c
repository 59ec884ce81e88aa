/* The rig's command line. */
#include "rig.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rig_totals totals;
static struct rig_world world = {.totals = &totals};
static struct rig_spec spec;
static char repeat[256]; /* the command that repeats the run */

static const char *const fault_names[] = {
    [RIG_KILL] = "kill", [RIG_BREAK] = "break", [RIG_FREEZE] = "freeze", [RIG_STARVE] = "starve"};
static const char *const plant_names[] = {"none",
#define PLANT_NAME(name, about) #name,
                                          RIG_PLANTS(PLANT_NAME)
#undef PLANT_NAME
};

static void on_assert(const char *file, int line, const char *expression)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\nagain: %s\n", file, line, expression, repeat);
    abort();
}

static bool run(const char *which, uint64_t number, const struct rig_fault *faults, uint32_t count)
{
    size_t length = (size_t)snprintf(repeat, sizeof repeat, "rig --%s %" PRIu64, which, number);
    for (uint32_t i = 0; i < count; i++)
        length += (size_t)snprintf(repeat + length, sizeof repeat - length, " --fault %s:%u:%u",
                                   fault_names[faults[i].kind], faults[i].which, faults[i].step);
    snprintf(repeat + length, sizeof repeat - length, " --plant %s --trace", plant_names[world.plant]);
    if (rig_run(&world, &spec, faults, count))
        return true;
    printf("FAILED at step %u: %s\n", world.step, world.reason);
    rig_spec_print(&spec);
    printf("again: %s\n", repeat);
    return false;
}

/* ---- exhaustive ---- */

/*
 * The faults that a level tries in each world. Every rank is killed at every step, or (--every) at one step in this
 * number, as are standstills and losses. All are staggered over the ranks or connections.
 */
struct level {
    uint32_t kill_stride, freeze_stride, break_stride;
    uint64_t pairs; /* pairs of kills, evenly picked */
};
static const struct level levels[] = {{1, 48, 96, 12}, {1, 1, 1, 600}, {1, 1, 1, 100000}, {1, 1, 1, UINT64_MAX}};

/* The connections that the undisturbed run uses; losing another one changes nothing. Returns their number. */
static uint32_t used_connections(uint32_t used[RIG_CONNECTIONS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world.connection_count; i++)
        if (world.connections[i].dialed)
            used[count++] = i;
    return count;
}

static bool every_single_fault(uint32_t number, const struct level *level, uint32_t steps)
{
    uint32_t used[RIG_CONNECTIONS_MAX];
    const uint32_t connections = used_connections(used);
    for (uint32_t step = 0; step <= steps; step++) {
        for (uint32_t rank = 0; rank < spec.ranks; rank++)
            if (((step + rank + number) % level->kill_stride == 0 &&
                 !run("world", number, &(struct rig_fault){RIG_KILL, step, rank}, 1)) ||
                ((step + rank) % level->freeze_stride == 0 &&
                 !run("world", number, &(struct rig_fault){RIG_FREEZE, step, rank}, 1)))
                return false;
        for (uint32_t i = 0; i < connections; i++)
            if ((step + i) % level->break_stride == 0 &&
                !run("world", number, &(struct rig_fault){RIG_BREAK, step, used[i]}, 1))
                return false;
    }
    return true;
}

/* Kills two different ranks at any two steps, or at this number of these pairs. */
static bool pairs_of_kills(uint32_t number, const struct level *level, uint32_t steps)
{
    const uint64_t last = steps + steps / 4, others = spec.ranks - 1;
    const uint64_t pairs = (uint64_t)steps * last * spec.ranks * others;
    uint64_t gap = pairs / level->pairs + 1;
    while (gap > 1 && (pairs % gap == 0 || gap % 2 == 0 || gap % 3 == 0))
        gap++;
    for (uint64_t i = 0; i < pairs; i += gap) {
        const uint32_t first = (uint32_t)(i % spec.ranks), second = (uint32_t)(i / spec.ranks % others);
        const uint64_t at = i / spec.ranks / others;
        const struct rig_fault faults[] = {{RIG_KILL, (uint32_t)(at % steps), first},
                                           {RIG_KILL, (uint32_t)(at / steps), second + (second >= first)}};
        if (!run("world", number, faults, 2))
            return false;
    }
    return true;
}

static bool exhaust(uint32_t number, const struct level *level)
{
    totals.worlds++;
    if (!run("world", number, NULL, 0))
        return false;
    const uint32_t steps = world.step;
    return every_single_fault(number, level, steps) && (spec.ranks == 2 || pairs_of_kills(number, level, steps));
}

static bool exhaustive(uint64_t number_of_level, uint64_t every, uint64_t first, uint64_t count)
{
    bool ok = number_of_level < PCCL_COUNT_OF(levels) && every > 0;
    struct level level = levels[ok ? number_of_level : 0];
    level.kill_stride *= (uint32_t)every;
    for (uint64_t number = first; ok && number - first < count && rig_spec_listed(&spec, (uint32_t)number); number++) {
        ok = exhaust((uint32_t)number, &level);
        rig_spec_release(&spec);
    }
    return ok;
}

/* ---- random ---- */

/* Runs a world once without faults, to learn its length, and then several times with faults. */
static bool run_seed(uint64_t seed)
{
    enum { DISTURBED_RUNS = 4 };
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed ^ UINT64_C(0xfa17));
    rig_spec_random(&spec, seed);
    totals.worlds++;
    bool ok = run("seed", seed, NULL, 0);
    const uint32_t steps = world.step;
    for (uint32_t i = 0; ok && i < DISTURBED_RUNS; i++) {
        struct rig_fault faults[RIG_FAULTS_MAX];
        const uint32_t count = 1 + (uint32_t)pccl_prng_below(&prng, RIG_FAULTS_MAX);
        for (uint32_t k = 0; k < count; k++) {
            static const enum rig_fault_kind kinds[] = {RIG_KILL,  RIG_KILL,   RIG_BREAK,
                                                        RIG_BREAK, RIG_FREEZE, RIG_STARVE};
            faults[k] = (struct rig_fault){kinds[pccl_prng_below(&prng, PCCL_COUNT_OF(kinds))],
                                           (uint32_t)pccl_prng_below(&prng, steps + steps / 4 + 1),
                                           (uint32_t)pccl_prng_below(&prng, 10000)};
        }
        ok = run("seed", seed, faults, count);
    }
    rig_spec_release(&spec);
    return ok;
}

static bool random_worlds(uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed - first < count; seed++)
        if (!run_seed(seed))
            return false;
    return true;
}

/* ---- plants ---- */

/* Runs each plant in a separate process, because the sanitizer or an assertion ends some of them. */
static bool all_plants(void)
{
    enum { WORLDS = 400 };
    uint32_t missed = 0;
    for (int plant = 1; plant < RIG_PLANT_COUNT; plant++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
                _exit(0);
            world.plant = (enum rig_plant)plant;
            _exit(random_worlds(1, WORLDS) ? 0 : 1);
        }
        int status = 0;
        const bool caught = child > 0 && waitpid(child, &status, 0) == child && status != 0;
        printf("%-14s %s\n", plant_names[plant], caught ? "caught" : "MISSED");
        missed += !caught;
    }
    printf("%d plants, %u missed\n", RIG_PLANT_COUNT - 1, missed);
    return missed == 0;
}

/* ---- the command line ---- */

static bool parse_fault(const char *text, struct rig_fault *fault)
{
    char name[16];
    if (sscanf(text, "%15[a-z]:%u:%u", name, &fault->which, &fault->step) != 3)
        return false;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(fault_names); i++)
        if (strcmp(name, fault_names[i]) == 0) {
            fault->kind = (enum rig_fault_kind)i;
            return true;
        }
    return false;
}

static bool parse_plant(const char *text)
{
    for (int i = 0; i < RIG_PLANT_COUNT; i++)
        if (strcmp(text, plant_names[i]) == 0) {
            world.plant = (enum rig_plant)i;
            return true;
        }
    return false;
}

static int usage(void)
{
    fprintf(stderr,
            "rig --exhaustive [--level 0|1|2|3] [--every N] [--world N]\n"
            "                                     small worlds, or one of them: each rank is killed at each step;\n"
            "                                     1: and stands still, each connection is lost; 2: many pairs\n"
            "                                     of kills; 3: all pairs (hours); --every: at\n"
            "                                     every Nth step only\n"
            "rig --first N --count N              random worlds\n"
            "rig --seed N [--fault KIND:WHICH:STEP ...] [--trace]\n"
            "rig --world N [--fault KIND:WHICH:STEP ...] [--trace]\n"
            "rig --plants | --plant NAME ...      does the rig see what is wrong?\n"
            "KIND: kill, freeze, starve (WHICH: rank), break (WHICH: connection)\n");
    return 2;
}

struct request {
    enum { REQUEST_NONE, REQUEST_SEED, REQUEST_WORLD, REQUEST_RANDOM, REQUEST_PLANTS } what;
    bool exhaustive; /* all listed worlds, or the given one */
    uint64_t first, count, level, every;
    struct rig_fault faults[RIG_FAULTS_MAX];
    uint32_t fault_count;
};

static bool parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"exhaustive", no_argument, NULL, 'e'},  {"seed", required_argument, NULL, 's'},
        {"world", required_argument, NULL, 'w'}, {"first", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'c'}, {"level", required_argument, NULL, 'l'},
        {"every", required_argument, NULL, 'y'}, {"fault", required_argument, NULL, 'x'},
        {"plants", no_argument, NULL, 'p'},      {"plant", required_argument, NULL, 'q'},
        {"trace", no_argument, NULL, 't'},       {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'e': request->exhaustive = true; break;
        case 'p': request->what = REQUEST_PLANTS; break;
        case 's':
            request->what = REQUEST_SEED;
            request->first = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            request->what = REQUEST_WORLD;
            request->first = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            request->what = REQUEST_RANDOM;
            request->first = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            request->what = REQUEST_RANDOM;
            request->count = strtoull(optarg, NULL, 10);
            break;
        case 'l': request->level = strtoull(optarg, NULL, 10); break;
        case 'y': request->every = strtoull(optarg, NULL, 10); break;
        case 'x':
            if (request->fault_count == RIG_FAULTS_MAX ||
                !parse_fault(optarg, &request->faults[request->fault_count++]))
                return false;
            break;
        case 'q':
            if (!parse_plant(optarg))
                return false;
            break;
        case 't': world.trace = true; break;
        default: return false;
        }
    return optind == argc && (request->what != REQUEST_NONE || request->exhaustive);
}

/* Runs one seed with its own faults, or one world with given ones. */
static bool run_one(const struct request *request)
{
    const bool listed = request->what == REQUEST_WORLD;
    if (!listed && request->fault_count == 0)
        return run_seed(request->first);
    if (!listed)
        rig_spec_random(&spec, request->first);
    else if (!rig_spec_listed(&spec, (uint32_t)request->first)) {
        fprintf(stderr, "there is no such world\n");
        return false;
    }
    if (world.trace)
        rig_spec_print(&spec);
    totals.worlds++;
    const bool ok = run(listed ? "world" : "seed", request->first, request->faults, request->fault_count);
    rig_spec_release(&spec);
    return ok;
}

static void print_totals(void)
{
    printf("%" PRIu64 " worlds, %" PRIu64 " runs, %" PRIu64 " kills, %" PRIu64 " connections lost, %" PRIu64
           " standstills, %" PRIu64 " times short of memory; %" PRIu64 " commits, %" PRIu64 " aborts, %" PRIu64
           " messages, %" PRIu64 " steps; %" PRIu64 " segments held, taken by %" PRIu64 " starts, %" PRIu64
           " of them of peers that differ\n",
           totals.worlds, totals.runs, totals.kills, totals.breaks, totals.freezes, totals.starved, totals.commits,
           totals.aborts, totals.messages, totals.steps, totals.held, totals.used, totals.odd_held);
}

int main(int argc, char **argv)
{
    struct request request = {.first = 1, .count = 1, .every = 1};
    if (!parse(argc, argv, &request))
        return usage();
    world.on_assert = on_assert;
    world.connections = calloc(RIG_CONNECTIONS_MAX, sizeof *world.connections);
    if (world.connections == NULL)
        return 2;
    bool ok = false;
    if (request.exhaustive) {
        const bool one = request.what == REQUEST_WORLD;
        ok = exhaustive(request.level, request.every, one ? request.first : 0, one ? 1 : UINT64_MAX);
        request.what = REQUEST_NONE;
    }
    switch (request.what) {
    case REQUEST_RANDOM: ok = random_worlds(request.first, request.count); break;
    case REQUEST_PLANTS: ok = all_plants(); break;
    case REQUEST_SEED:
    case REQUEST_WORLD: ok = run_one(&request); break;
    case REQUEST_NONE: break;
    }
    free(world.connections);
    if (request.what != REQUEST_PLANTS)
        print_totals();
    return ok ? 0 : 1;
}
