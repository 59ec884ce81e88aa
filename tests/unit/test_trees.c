/*
 * topology/trees: trees of drawn networks against a bound and loads that are computed here, from the network and not
 * from its figures; bad input; the same trees on every machine.
 */
#include "unit.h"
#include "core/prng.h"
#include "support.h"
#include "topology/trees.h"

#include <stdlib.h>

enum { MBIT = 125000, WITHIN_US = 500, BETWEEN_US = 20000, HEIGHT_MOST = 6, MOST = PCCL_TREES_PEERS_MAX };

/* ---- networks ---- */

struct net {
    uint32_t count, sites;
    uint64_t up[MOST], down[MOST], site_up[MOST], site_down[MOST]; /* UINT64_MAX: the site has no line */
    uint32_t site[MOST];
    uint64_t bad_pair; /* rate between members 0 and 1, in both directions; UINT64_MAX: like others */
};

/* Returns a value of a geometric sequence from `low` to about `high`. */
static uint64_t draw(struct pccl_prng *prng, uint64_t low, uint64_t high)
{
    uint32_t steps = 0;
    for (uint64_t value = low; value < high; value += value / 16 + 1)
        steps++;
    for (uint64_t i = pccl_prng_below(prng, steps + 1); i > 0; i--)
        low += low / 16 + 1;
    return low;
}

static void clear(struct net *net, uint32_t count, uint64_t rate)
{
    net->count = net->sites = count;
    net->bad_pair = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        net->up[i] = net->down[i] = rate;
        net->site[i] = i;
        net->site_up[i] = net->site_down[i] = UINT64_MAX;
    }
}

static void split(struct net *net, uint32_t sites)
{
    net->sites = sites;
    for (uint32_t i = 0; i < net->count; i++)
        net->site[i] = i * sites / net->count;
}

static void draw_equal(struct net *net, struct pccl_prng *prng)
{
    net->bad_pair = pccl_prng_below(prng, 2) == 0 ? UINT64_MAX : 1000 * MBIT;
}

static void draw_half(struct net *net, struct pccl_prng *prng)
{
    uint64_t slow = pccl_prng_below(prng, net->count);
    net->up[slow] = net->down[slow] = 500 * MBIT;
}

static void draw_tenth(struct net *net, struct pccl_prng *prng)
{
    uint64_t slow = pccl_prng_below(prng, net->count);
    net->up[slow] = net->down[slow] = 100 * MBIT;
}

static void draw_two_sites(struct net *net, struct pccl_prng *prng)
{
    split(net, 2);
    for (uint32_t i = 0; i < 2; i++)
        net->site_up[i] = net->site_down[i] = draw(prng, 100 * MBIT, 400 * MBIT);
}

static void draw_three_sites(struct net *net, struct pccl_prng *prng)
{
    split(net, 3);
    for (uint32_t i = 0; i < 3; i++) {
        net->site_up[i] = draw(prng, 100 * MBIT, 500 * MBIT);
        net->site_down[i] = net->site_up[i] * (100 + pccl_prng_below(prng, 200)) / 100;
    }
}

static void draw_homes(struct net *net, struct pccl_prng *prng)
{
    for (uint32_t i = 0; i < net->count; i++) {
        net->up[i] = draw(prng, 10 * MBIT, 300 * MBIT);
        net->down[i] = pccl_min_u64(1000 * MBIT, net->up[i] * (100 + pccl_prng_below(prng, 900)) / 100);
    }
}

static void draw_mixed(struct net *net, struct pccl_prng *prng)
{
    for (uint32_t i = 0; i < net->count; i++) {
        net->up[i] = draw(prng, 10 * MBIT, 1000 * MBIT);
        net->down[i] = draw(prng, 10 * MBIT, 1000 * MBIT);
    }
}

static void draw_mild(struct net *net, struct pccl_prng *prng)
{
    for (uint32_t i = 0; i < net->count; i++) {
        net->up[i] = draw(prng, 100 * MBIT, 400 * MBIT);
        net->down[i] = draw(prng, 100 * MBIT, 400 * MBIT);
    }
}

static void draw_bad_pair(struct net *net, struct pccl_prng *prng) { net->bad_pair = draw(prng, MBIT, 100 * MBIT); }

static void draw_strong(struct net *net, struct pccl_prng *prng)
{
    uint64_t strong = pccl_prng_below(prng, net->count);
    net->up[strong] = net->down[strong] = UINT64_C(100000) * MBIT;
}

static const struct {
    const char *name;
    void (*draw)(struct net *net, struct pccl_prng *prng);
    /* Least share of the bound. An edge loads both directions, so less is possible if up and down differ by chance. */
    uint32_t percent;
} kinds[] = {
    {"equal", draw_equal, 95},       {"a half", draw_half, 95},         {"a tenth", draw_tenth, 95},
    {"2 sites", draw_two_sites, 95}, {"3 sites", draw_three_sites, 95}, {"homes", draw_homes, 95},
    {"mixed", draw_mixed, 85},       {"mild", draw_mild, 70},           {"bad pair", draw_bad_pair, 95},
    {"strong", draw_strong, 95},
};

/* ---- figures ---- */

/* The figures of a network as tests without other traffic would find them. */
struct figures {
    struct pccl_pairs pairs;
    uint64_t rates[MOST * MOST];
    uint32_t rtts_us[MOST * MOST];
};

static uint64_t link_of(const struct net *net, uint32_t i, uint32_t k)
{
    uint64_t rate = pccl_min_u64(net->up[i], net->down[k]);
    if (net->site[i] != net->site[k])
        rate = pccl_min_u64(rate, pccl_min_u64(net->site_up[net->site[i]], net->site_down[net->site[k]]));
    return i + k == 1 ? pccl_min_u64(rate, net->bad_pair) : rate;
}

static void measure(struct figures *figures, const struct net *net)
{
    for (uint32_t i = 0; i < net->count; i++)
        for (uint32_t k = 0; k < net->count; k++) {
            figures->rates[i * net->count + k] = i != k ? link_of(net, i, k) : PCCL_RATE_UNKNOWN;
            figures->rtts_us[i * net->count + k] = net->site[i] == net->site[k] ? WITHIN_US : BETWEEN_US;
        }
    figures->pairs = (struct pccl_pairs){net->count, figures->rates, figures->rtts_us};
}

/* The lines of the network itself. */
static void true_lines(struct pccl_lines *lines, const struct figures *figures, const struct net *net)
{
    pccl_lines_find(lines, &figures->pairs);
    for (uint32_t i = 0; i < net->count; i++) {
        lines->up[i] = net->up[i];
        lines->down[i] = net->down[i];
        lines->site[i] = net->site[i];
        lines->site_up[i] = i < net->sites ? net->site_up[i] : UINT64_MAX;
        lines->site_down[i] = i < net->sites ? net->site_down[i] : UINT64_MAX;
    }
}

/* ---- a bound and loads ---- */

/* Tensors per second at most: one through each line, 2 (n - 1) through all lines. */
static double lines_bound(const uint64_t *lines, uint32_t count)
{
    double least = 1e300, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        least = lines[i] < least ? (double)lines[i] : least;
        sum += (double)lines[i];
    }
    return sum / (2.0 * (count - 1)) < least ? sum / (2.0 * (count - 1)) : least;
}

static double bound_of(const struct net *net)
{
    double bound = 1e300;
    const uint64_t *const ends[2] = {net->up, net->down}, *const sites[2] = {net->site_up, net->site_down};
    for (uint32_t way = 0; way < 2; way++) {
        uint64_t shared[MOST] = {0};
        for (uint32_t i = 0; i < net->count; i++)
            shared[net->site[i]] += ends[way][i];
        for (uint32_t s = 0; s < net->sites; s++)
            shared[s] = pccl_min_u64(shared[s], sites[way][s]);
        double of_ends = lines_bound(ends[way], net->count);
        double of_sites = net->sites > 1 ? lines_bound(shared, net->sites) : of_ends;
        bound = of_ends < bound ? of_ends : bound;
        bound = of_sites < bound ? of_sites : bound;
    }
    return bound;
}

/* Returns the bound if both directions of each line have the capacity of the slower one. */
static double bound_of_trees(const struct net *net)
{
    struct net even = *net;
    for (uint32_t i = 0; i < net->count; i++) {
        even.up[i] = even.down[i] = pccl_min_u64(net->up[i], net->down[i]);
        even.site_up[i] = even.site_down[i] = pccl_min_u64(net->site_up[i], net->site_down[i]);
    }
    return bound_of(&even);
}

/* Checks that each tree connects all members, and that the weights are complete. Returns the height of the highest. */
static uint32_t check_trees(const struct pccl_trees *trees, uint32_t members)
{
    uint32_t sum = 0, height = 0;
    assert_in_range(trees->count, 1, PCCL_TREES_MAX);
    for (uint32_t t = 0; t < trees->count; t++) {
        uint32_t roots = 0;
        sum += trees->weights[t];
        assert_int_not_equal(trees->weights[t], 0);
        for (uint32_t i = 0; i < members; i++) {
            uint32_t at = i, hops = 0;
            while (trees->parents[t][at] != at) {
                at = trees->parents[t][at];
                assert_true(at < members && ++hops < members);
            }
            roots += at == i;
            height = pccl_max_u32(height, hops);
        }
        assert_int_equal(roots, 1);
        for (uint32_t other = 0; other < t; other++)
            assert_memory_not_equal(trees->parents[t], trees->parents[other], members);
    }
    assert_int_equal(sum, PCCL_TREES_WEIGHT);
    return height;
}

/* Returns the rate of an all-reduce over the trees on the network itself. */
static double rate_on(const struct net *net, const struct pccl_trees *trees)
{
    double ends[MOST] = {0}, sites[MOST] = {0}, bad = 0, rate = 1e300;
    for (uint32_t t = 0; t < trees->count; t++)
        for (uint32_t i = 0; i < net->count; i++) {
            uint32_t parent = trees->parents[t][i];
            double share = (double)trees->weights[t] / PCCL_TREES_WEIGHT;
            if (parent == i)
                continue;
            ends[i] += share;
            ends[parent] += share;
            bad += i + parent == 1 ? share : 0;
            if (net->site[i] == net->site[parent])
                continue;
            sites[net->site[i]] += share;
            sites[net->site[parent]] += share;
        }
    for (uint32_t i = 0; i < net->count; i++)
        rate = (double)pccl_min_u64(net->up[i], net->down[i]) / ends[i] < rate
                   ? (double)pccl_min_u64(net->up[i], net->down[i]) / ends[i]
                   : rate;
    for (uint32_t s = 0; s < net->sites; s++)
        rate = (double)pccl_min_u64(net->site_up[s], net->site_down[s]) / (sites[s] + 1e-9) < rate
                   ? (double)pccl_min_u64(net->site_up[s], net->site_down[s]) / sites[s]
                   : rate;
    return (double)net->bad_pair / (bad + 1e-9) < rate ? (double)net->bad_pair / bad : rate;
}

static void pack(const struct pccl_lines *lines, struct pccl_trees *trees)
{
    struct test_memory memory;
    test_memory_init(&memory);
    memset(trees, '!', sizeof *trees);
    assert_int_equal(pccl_trees_pack(lines, &memory.memory, trees), PCCL_OK);
    assert_int_equal(memory.live_blocks, 0);
}

static void check_network(const struct net *net, uint32_t percent, const char *name)
{
    static struct figures figures;
    struct pccl_lines lines;
    struct pccl_trees trees;
    const double bound = bound_of(net), reachable = bound_of_trees(net);
    measure(&figures, net);
    true_lines(&lines, &figures, net);
    pack(&lines, &trees);
    const uint32_t height = check_trees(&trees, net->count);
    const double rate = rate_on(net, &trees);
    if ((double)trees.rate > rate || (double)trees.rate < rate * 0.999999 - 1)
        fail_msg("%u members, %s: %.0f promised, %.0f carried", net->count, name, (double)trees.rate, rate);
    if (rate > reachable * 1.000001 || rate < reachable * 0.95 || rate < bound * percent / 100)
        fail_msg("%u members, %s: %.3f of the bound, %.3f of the bound of trees", net->count, name, rate / bound,
                 rate / reachable);
    if (height > HEIGHT_MOST)
        fail_msg("%u members, %s: a tree of height %u", net->count, name, height);
    const double found = (double)pccl_lines_bound(&lines).rate;
    if (found > bound || found < bound * 0.999999 - 1)
        fail_msg("%u members, %s: bound %.0f, not %.0f", net->count, name, found, bound);
    pccl_lines_find(&lines, &figures.pairs); /* the lines as far as the figures show them */
    pack(&lines, &trees);
    (void)check_trees(&trees, net->count);
    if ((double)trees.rate > rate_on(net, &trees) * 1.000001)
        fail_msg("%u members, %s: promises more than the network carries", net->count, name);
}

/* Draws a network of 4 to 64 members; every power of two occurs. */
static void draw_network(struct net *net, uint32_t kind, uint32_t run, struct pccl_prng *prng)
{
    static const uint32_t sizes[] = {4, 8, 16, 32, 64};
    uint32_t count = run < PCCL_COUNT_OF(sizes) ? sizes[run] : 4 + (uint32_t)pccl_prng_below(prng, run < 30 ? 29 : 61);
    clear(net, count, 1000 * MBIT);
    kinds[kind].draw(net, prng);
}

TEST(reaches_its_share_of_the_bound)
{
    struct pccl_prng prng = unit_prng(61);
    static struct net net;
    for (uint32_t k = 0; k < PCCL_COUNT_OF(kinds); k++)
        for (uint32_t run = 0; run < 33; run++) {
            draw_network(&net, k, run, &prng);
            check_network(&net, kinds[k].percent, kinds[k].name);
        }
}

TEST(two_and_three_members)
{
    static struct net net;
    clear(&net, 2, 100 * MBIT);
    check_network(&net, 100, "two");
    net.up[1] = 10 * MBIT;
    check_network(&net, 100, "two");
    clear(&net, 3, 100 * MBIT);
    net.up[0] = net.up[1] = net.down[0] = net.down[1] = 20 * MBIT;
    check_network(&net, 100, "three");
    clear(&net, 3, 100 * MBIT);
    net.bad_pair = 10; /* the only tree without it leads through member 2 */
    static struct figures figures;
    struct pccl_lines lines;
    struct pccl_trees trees;
    measure(&figures, &net);
    pccl_lines_find(&lines, &figures.pairs);
    pack(&lines, &trees);
    assert_int_equal(trees.count, 1);
    assert_int_equal(trees.rate, 50 * MBIT);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(trees.parents[0][i] == i || trees.parents[0][i] == 2 || i == 2);
}

static void measure_equal(struct figures *figures, uint32_t count)
{
    static struct net net;
    clear(&net, count, 100 * MBIT);
    measure(figures, &net);
}

/* Sets the figure of a link in both directions. */
static void set_both(struct figures *figures, uint32_t i, uint32_t k, uint64_t rate)
{
    figures->rates[i * figures->pairs.count + k] = figures->rates[k * figures->pairs.count + i] = rate;
}

/* Returns the number of members that member 0 reaches over links that carry data in both directions. */
static uint32_t reached(const struct figures *figures)
{
    const uint32_t count = figures->pairs.count;
    uint32_t queue[MOST] = {0}, length = 1;
    bool seen[MOST] = {true};
    for (uint32_t at = 0; at < length; at++)
        for (uint32_t k = 0; k < count; k++)
            if (!seen[k] && k != queue[at] && figures->rates[queue[at] * count + k] != PCCL_RATE_NONE &&
                figures->rates[k * count + queue[at]] != PCCL_RATE_NONE) {
                seen[k] = true;
                queue[length++] = k;
            }
    return length;
}

/* Checks that each edge of the trees carries data in both directions. */
static void check_links(const struct figures *figures, const struct pccl_trees *trees)
{
    const uint32_t count = figures->pairs.count;
    for (uint32_t t = 0; t < trees->count; t++)
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t parent = trees->parents[t][i];
            assert_true(i == parent || (figures->rates[i * count + parent] != PCCL_RATE_NONE &&
                                        figures->rates[parent * count + i] != PCCL_RATE_NONE));
        }
}

/* Some links are unknown, others carry no data, in one direction or both, or less than others. */
TEST(missing_and_slow_links)
{
    struct pccl_prng prng = unit_prng(62);
    static struct figures figures;
    uint32_t none = 0;
    for (uint32_t run = 0; run < 300; run++) {
        const uint32_t count = 2 + (uint32_t)pccl_prng_below(&prng, run % 10 == 0 ? MOST - 1 : 8);
        const uint32_t percent = (uint32_t)pccl_prng_below(&prng, 100);
        static const uint64_t rates[] = {PCCL_RATE_NONE, PCCL_RATE_NONE, PCCL_RATE_UNKNOWN, 4 * MBIT, 200 * MBIT};
        measure_equal(&figures, count);
        for (uint32_t i = 0; i < count * count; i++)
            if (pccl_prng_below(&prng, 100) < percent)
                figures.rates[i] = rates[pccl_prng_below(&prng, PCCL_COUNT_OF(rates))];
        struct pccl_lines lines;
        struct pccl_trees trees;
        bool known = true;
        pccl_lines_find(&lines, &figures.pairs);
        for (uint32_t i = 0; i < count; i++)
            known = known && lines.up[i] > 0 && lines.down[i] > 0;
        pack(&lines, &trees);
        assert_int_equal(trees.count > 0, known && reached(&figures) == count);
        assert_int_equal(trees.rate > 0, trees.count > 0);
        none += trees.count == 0;
        if (trees.count == 0)
            continue;
        (void)check_trees(&trees, count);
        check_links(&figures, &trees);
    }
    assert_in_range(none, 10, 200);
}

/* Two halves that a single slow link joins. */
TEST(a_slow_link_that_all_trees_need)
{
    static struct figures figures;
    struct pccl_lines lines;
    struct pccl_trees trees;
    measure_equal(&figures, 8);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 4; k < 8; k++)
            set_both(&figures, i, k, PCCL_RATE_NONE);
    set_both(&figures, 1, 6, 10 * MBIT);
    figures.rates[6 * 8 + 1] = 7 * MBIT;
    pccl_lines_find(&lines, &figures.pairs);
    pack(&lines, &trees);
    (void)check_trees(&trees, 8);
    assert_int_equal(trees.rate, 7 * MBIT);
}

/* A ring around two sites crosses their lines once or twice in each direction. */
TEST(the_rate_of_a_ring)
{
    static const uint32_t once[] = {0, 1, 2, 3}, twice[] = {0, 2, 1, 3};
    static struct figures figures;
    static struct net net;
    struct pccl_lines lines;
    clear(&net, 4, 100 * MBIT);
    split(&net, 2);
    net.site_up[0] = net.site_down[0] = net.site_up[1] = net.site_down[1] = 24 * MBIT;
    measure(&figures, &net);
    pccl_lines_find(&lines, &figures.pairs);
    assert_int_equal(pccl_lines_ring(&lines, once), 16 * MBIT);
    assert_int_equal(pccl_lines_ring(&lines, twice), 8 * MBIT);
    lines.site_up[0] = lines.site_up[2] = 48 * MBIT;
    assert_int_equal(pccl_lines_ring(&lines, twice), 8 * MBIT);
    lines.site_down[0] = lines.site_down[2] = 96 * MBIT;
    assert_int_equal(pccl_lines_ring(&lines, twice), 16 * MBIT);
    set_both(&figures, 1, 3, MBIT);
    assert_int_equal(pccl_lines_ring(&lines, twice), MBIT * 2 / 3);
}

TEST(a_member_without_figures_has_no_trees)
{
    static struct figures figures;
    struct pccl_lines lines;
    struct pccl_trees trees;
    measure_equal(&figures, 8);
    for (uint32_t i = 0; i < 7; i++)
        set_both(&figures, i, 7, PCCL_RATE_UNKNOWN);
    pccl_lines_find(&lines, &figures.pairs);
    assert_int_equal(pccl_lines_bound(&lines).rate, 0);
    pack(&lines, &trees);
    assert_int_equal(trees.count + trees.rate, 0);
    set_both(&figures, 0, 7, 100 * MBIT);
    pccl_lines_find(&lines, &figures.pairs);
    pack(&lines, &trees);
    (void)check_trees(&trees, 8);
    assert_in_range(trees.rate, 100 * MBIT * 8 / 14 * 96 / 100, 100 * MBIT * 8 / 14);
}

/* Rates that no network has: there may be no trees, but no other harm. */
TEST(absurd_rates)
{
    static const uint64_t rates[] = {PCCL_RATE_NONE, PCCL_RATE_UNKNOWN, 2, 3, 1000, UINT64_MAX / 2, UINT64_MAX};
    struct pccl_prng prng = unit_prng(63);
    static struct figures figures;
    uint32_t some = 0;
    for (uint32_t run = 0; run < 300; run++) {
        const uint32_t count = 2 + (uint32_t)pccl_prng_below(&prng, run % 10 == 0 ? MOST - 1 : 8);
        struct pccl_lines lines;
        struct pccl_trees trees;
        uint32_t ring[MOST];
        measure_equal(&figures, count);
        for (uint32_t i = 0; i < count * count; i++) {
            figures.rates[i] = rates[pccl_prng_below(&prng, PCCL_COUNT_OF(rates))];
            figures.rtts_us[i] = (uint32_t)pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 32);
        }
        for (uint32_t i = 0; i < count; i++)
            ring[i] = i;
        pccl_lines_find(&lines, &figures.pairs);
        assert_true(pccl_lines_ring(&lines, ring) <= pccl_lines_bound(&lines).rate);
        pack(&lines, &trees);
        assert_true(trees.rate <= pccl_lines_bound(&lines).rate);
        if (trees.count > 0)
            (void)check_trees(&trees, count);
        check_links(&figures, &trees);
        some += trees.count > 0;
    }
    assert_in_range(some, 30, 300);
}

TEST(memory_is_short)
{
    static struct figures figures;
    struct pccl_lines lines;
    struct pccl_trees trees = {.rate = 42};
    struct test_memory memory;
    measure_equal(&figures, 8);
    pccl_lines_find(&lines, &figures.pairs);
    test_memory_init(&memory);
    memory.fail_at = 1;
    assert_int_equal(pccl_trees_pack(&lines, &memory.memory, &trees), PCCL_MEMORY);
    assert_int_equal(trees.rate, 42);
    assert_int_equal(memory.live_blocks, 0);
}

/* Reports contain tables and are compared, so another compiler or processor must not change one bit of a table. */
TEST(the_same_trees_on_every_machine)
{
    struct pccl_prng prng;
    static struct figures figures;
    static struct net net;
    uint64_t digest = 0;
    pccl_prng_seed(&prng, 5);
    for (uint32_t k = 0; k < PCCL_COUNT_OF(kinds); k++)
        for (uint32_t run = 0; run < 6; run++) {
            struct pccl_lines lines;
            struct pccl_trees trees;
            draw_network(&net, k, run, &prng);
            measure(&figures, &net);
            pccl_lines_find(&lines, &figures.pairs);
            pack(&lines, &trees);
            digest = pccl_prng_mix(digest ^ trees.rate ^ trees.count);
            for (uint32_t t = 0; t < trees.count; t++)
                for (uint32_t i = 0; i < net.count; i++)
                    digest = pccl_prng_mix(digest ^ ((uint64_t)trees.weights[t] << 8) ^ trees.parents[t][i]);
        }
    assert_int_equal(digest, UINT64_C(0xa7854b93d62241eb));
}
