/*
 * The packing is greedy. Each of 256 parts of the tensor uses the tree after which the highest load of a line is the
 * lowest: a known tree, or the cheapest one where the price of a line rises steeply with its load. As an edge costs the
 * sum of the prices of its lines, the cheapest tree is a minimum spanning tree, which by itself has the form that the
 * network needs: a star around the member with the cheapest lines, one edge across the line of each site, a detour
 * around a slow link.
 *
 * An edge loads its lines alike in both directions, so the slower direction of a line is its capacity. Capacities are
 * stored as the inverse of their ratio to the bound, in units of 1 / INVERSE_ONE.
 */
#include "topology/trees.h"

#include <string.h>

enum {
    INVERSE_ONE = 1 << 18,
    RATIO_MOST = 128, /* a line of this many times the bound is never the limit */
    LINK_PARTS = 256, /* a link below this part of the bound would be the limit with one part of the tensor: no edge */
    RATIO_BITS = 24,  /* prices: precision of the ratio of a load to the highest load */
    CHILDREN_MOST = 15,               /* so that a member of a large group does not receive from all others at once */
    WORTH_PERCENT = 98,               /* trees without that limit must be faster by this much */
    LINES = 2 * PCCL_TREES_PEERS_MAX, /* lines of members, then lines of sites */
};

#define NO_LINK UINT32_MAX
#define NO_TREE UINT64_MAX

struct known_tree {
    uint32_t weight;
    uint8_t parents[PCCL_TREES_PEERS_MAX];
    uint8_t passes[LINES]; /* number of edges that use each line */
};

struct packer {
    const struct pccl_lines *lines;
    uint32_t members, children_most;
    uint32_t inverse[LINES]; /* of the capacities; 0: no limit */
    uint32_t loads[LINES];   /* edges of the trees so far */
    uint64_t prices[LINES];
    /* the same for slow links, at [lower number][higher number]; NO_LINK: carries no data */
    uint32_t link_inverse[PCCL_TREES_PEERS_MAX][PCCL_TREES_PEERS_MAX];
    uint16_t link_loads[PCCL_TREES_PEERS_MAX][PCCL_TREES_PEERS_MAX];
    uint64_t highest; /* highest load of a line or link, relative to its capacity */
    uint32_t known_count;
    struct known_tree known[PCCL_TREES_MAX + 1]; /* the last one is the candidate */
};

/* ---- capacities ---- */

static uint64_t slower(uint64_t up, uint64_t down) { return pccl_min_u64(up, down); }

/* Returns the bound of the lines if each direction has the capacity of the slower one. */
static uint64_t bound_of_trees(const struct pccl_lines *lines)
{
    struct pccl_lines even = *lines;
    for (uint32_t i = 0; i < lines->pairs.count; i++) {
        even.up[i] = even.down[i] = slower(lines->up[i], lines->down[i]);
        even.site_up[i] = even.site_down[i] = slower(lines->site_up[i], lines->site_down[i]);
    }
    return pccl_lines_bound(&even).rate;
}

static uint32_t inverse_of(uint64_t rate, uint64_t bound)
{
    return (uint32_t)(rate / RATIO_MOST >= bound ? INVERSE_ONE / RATIO_MOST : bound * INVERSE_ONE / rate);
}

static void set_link(struct packer *packer, uint64_t bound, uint32_t a, uint32_t b)
{
    const struct pccl_lines *lines = packer->lines;
    uint64_t rate = slower(pccl_lines_link(lines, a, b), pccl_lines_link(lines, b, a));
    if (rate < pccl_divide_up(bound, LINK_PARTS))
        packer->link_inverse[a][b] = NO_LINK;
    else if (pccl_lines_is_slow(lines, a, b) || pccl_lines_is_slow(lines, b, a))
        packer->link_inverse[a][b] = inverse_of(rate, bound);
}

static void set_capacities(struct packer *packer, uint64_t bound)
{
    const struct pccl_lines *lines = packer->lines;
    for (uint32_t i = 0; i < packer->members; i++) {
        uint64_t site = slower(lines->site_up[i], lines->site_down[i]);
        packer->inverse[i] = inverse_of(slower(lines->up[i], lines->down[i]), bound);
        if (site != PCCL_LINE_NONE)
            packer->inverse[PCCL_TREES_PEERS_MAX + i] = inverse_of(site, bound);
        for (uint32_t k = i + 1; k < packer->members; k++)
            set_link(packer, bound, i, k);
    }
}

/* ---- prices ---- */

/* Returns the price of one more edge over a line: the 24th power of its relative load, divided by its capacity. */
static uint64_t price_of(uint64_t load, uint64_t inverse, uint64_t highest)
{
    uint64_t ratio = highest > 0 ? (load * inverse << RATIO_BITS) / highest : 0;
    uint64_t power = ratio;
    for (uint32_t i = 0; i < 3; i++)
        power = power * power >> RATIO_BITS; /* the 8th power */
    power = power * (power * power >> RATIO_BITS) >> RATIO_BITS;
    return (power + 1) * inverse;
}

static void set_prices(struct packer *packer)
{
    for (uint32_t i = 0; i < LINES; i++)
        packer->prices[i] = price_of(packer->loads[i], packer->inverse[i], packer->highest);
}

static uint64_t cost_of(const struct packer *packer, uint32_t a, uint32_t b)
{
    const uint32_t *site = packer->lines->site;
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    const uint32_t inverse = packer->link_inverse[low][high];
    uint64_t cost = packer->prices[a] + packer->prices[b];
    if (inverse == NO_LINK)
        return NO_TREE;
    if (inverse > 0)
        cost += price_of(packer->link_loads[low][high], inverse, packer->highest);
    if (site[a] != site[b])
        cost += packer->prices[PCCL_TREES_PEERS_MAX + site[a]] + packer->prices[PCCL_TREES_PEERS_MAX + site[b]];
    return cost;
}

/* ---- the cheapest tree ---- */

/* A tree that grows from its root. */
struct growth {
    uint8_t *parents;
    uint64_t costs[PCCL_TREES_PEERS_MAX]; /* of the cheapest edge of a member to the tree; 0: it is in the tree */
    uint32_t children[PCCL_TREES_PEERS_MAX];
};

static bool is_inside(const struct growth *growth, uint32_t member) { return growth->costs[member] == 0; }

static bool is_full(const struct packer *packer, const struct growth *growth, uint32_t member)
{
    return growth->children[member] >= packer->children_most;
}

static void offer(const struct packer *packer, struct growth *growth, uint32_t member, uint32_t parent)
{
    uint64_t cost = cost_of(packer, member, parent);
    if (cost < growth->costs[member]) { /* of equal parents the one that is nearer to the root */
        growth->costs[member] = cost;
        growth->parents[member] = (uint8_t)parent;
    }
}

/* Adds a member to the tree and updates the edges of the others. */
static void take_in(const struct packer *packer, struct growth *growth, uint32_t member)
{
    const uint32_t parent = growth->parents[member];
    growth->costs[member] = 0;
    growth->children[parent] += parent != member;
    for (uint32_t i = 0; i < packer->members; i++) {
        if (is_inside(growth, i))
            continue;
        if (growth->costs[i] != NO_TREE && growth->parents[i] == parent && is_full(packer, growth, parent)) {
            growth->costs[i] = NO_TREE;
            for (uint32_t k = 0; k < packer->members; k++)
                if (is_inside(growth, k) && !is_full(packer, growth, k))
                    offer(packer, growth, i, k);
        } else {
            offer(packer, growth, i, member);
        }
    }
}

static uint32_t cheapest(const uint64_t *costs, uint32_t count)
{
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++)
        if (costs[i] > 0 && costs[i] != NO_TREE && (best == count || costs[i] < costs[best]))
            best = i;
    return best;
}

/* Makes the cheapest tree. Returns false if no tree exists. */
static bool grow_tree(const struct packer *packer, struct known_tree *tree)
{
    struct growth growth = {.parents = tree->parents};
    uint32_t next = cheapest(packer->prices, packer->members);
    memset(tree, 0, sizeof *tree);
    for (uint32_t i = 0; i < packer->members; i++)
        growth.costs[i] = NO_TREE;
    tree->parents[next] = (uint8_t)next;
    for (uint32_t i = 0; i < packer->members && next < packer->members; i++) {
        const uint32_t parent = tree->parents[next], *site = packer->lines->site;
        take_in(packer, &growth, next);
        if (parent != next) {
            tree->passes[next]++;
            tree->passes[parent]++;
        }
        if (site[parent] != site[next]) {
            tree->passes[PCCL_TREES_PEERS_MAX + site[parent]]++;
            tree->passes[PCCL_TREES_PEERS_MAX + site[next]]++;
        }
        if (i + 1 == packer->members)
            return true;
        next = cheapest(growth.costs, packer->members);
    }
    return false;
}

/* ---- the choice of a tree ---- */

struct choice {
    uint64_t highest, cost; /* highest load after the tree is used once more; sum of its prices */
};

static bool is_better(struct choice a, struct choice b)
{
    return a.highest < b.highest || (a.highest == b.highest && a.cost < b.cost);
}

/* Returns the load of the slow link between a member and its parent; *load is NULL if the edge is not a slow link. */
static uint32_t slow_link(struct packer *packer, const struct known_tree *tree, uint32_t member, uint16_t **load)
{
    const uint32_t parent = tree->parents[member];
    const uint32_t low = member < parent ? member : parent, high = member < parent ? parent : member;
    uint32_t inverse = packer->link_inverse[low][high];
    *load = low != high && inverse > 0 ? &packer->link_loads[low][high] : NULL;
    return inverse;
}

static struct choice judge(struct packer *packer, const struct known_tree *tree)
{
    struct choice choice = {packer->highest, 0};
    for (uint32_t i = 0; i < LINES; i++) {
        uint64_t load = ((uint64_t)packer->loads[i] + tree->passes[i]) * packer->inverse[i];
        choice.highest = tree->passes[i] > 0 ? pccl_max_u64(choice.highest, load) : choice.highest;
        choice.cost += tree->passes[i] * packer->prices[i];
    }
    for (uint32_t i = 0; i < packer->members; i++) {
        uint16_t *load;
        uint64_t inverse = slow_link(packer, tree, i, &load);
        if (load == NULL)
            continue;
        choice.highest = pccl_max_u64(choice.highest, (*load + UINT64_C(1)) * inverse);
        choice.cost += price_of(*load, inverse, packer->highest);
    }
    return choice;
}

/* Gives one more part of the tensor to the tree. */
static void use(struct packer *packer, struct known_tree *tree, struct choice choice)
{
    packer->highest = choice.highest;
    tree->weight++;
    for (uint32_t i = 0; i < LINES; i++)
        packer->loads[i] += tree->passes[i];
    for (uint32_t i = 0; i < packer->members; i++) {
        uint16_t *load;
        (void)slow_link(packer, tree, i, &load);
        if (load != NULL)
            (*load)++;
    }
}

/* Packs trees. Returns false if no tree exists. */
static bool pack(struct packer *packer)
{
    for (uint32_t part = 0; part < PCCL_TREES_WEIGHT; part++) {
        struct known_tree *candidate = &packer->known[packer->known_count], *best = NULL;
        struct choice least = {0, 0};
        uint32_t count = packer->known_count;
        set_prices(packer);
        if (count < PCCL_TREES_MAX)
            count += grow_tree(packer, candidate);
        for (uint32_t i = 0; i < count; i++) {
            struct choice choice = judge(packer, &packer->known[i]);
            if (best != NULL && !is_better(choice, least))
                continue;
            best = &packer->known[i];
            least = choice;
        }
        if (best == NULL)
            return false;
        packer->known_count += best == candidate && packer->known_count < PCCL_TREES_MAX;
        use(packer, best, least);
    }
    return true;
}

/* ---- the table ---- */

/* Returns the rate at which a line carries its load, which is in parts of a tensor. */
static uint64_t rate_for(uint64_t capacity, uint32_t load)
{
    return load == 0 || capacity == PCCL_LINE_NONE ? UINT64_MAX : capacity * PCCL_TREES_WEIGHT / load;
}

static uint64_t rate_of_trees(const struct packer *packer)
{
    const struct pccl_lines *lines = packer->lines;
    uint64_t rate = UINT64_MAX;
    for (uint32_t i = 0; i < packer->members; i++) {
        uint32_t load = packer->loads[i], crossing = packer->loads[PCCL_TREES_PEERS_MAX + i];
        rate = pccl_min_u64(rate, rate_for(slower(lines->up[i], lines->down[i]), load));
        rate = pccl_min_u64(rate, rate_for(slower(lines->site_up[i], lines->site_down[i]), crossing));
        for (uint32_t k = i + 1; k < packer->members; k++) {
            uint64_t link = slower(pccl_lines_link(lines, i, k), pccl_lines_link(lines, k, i));
            rate = pccl_min_u64(rate, rate_for(link, packer->link_loads[i][k]));
        }
    }
    return rate;
}

static void write_table(const struct packer *packer, struct pccl_trees *trees)
{
    trees->rate = rate_of_trees(packer);
    trees->count = packer->known_count;
    for (uint32_t i = 0; i < packer->known_count; i++) {
        trees->weights[i] = (uint16_t)packer->known[i].weight;
        memcpy(trees->parents[i], packer->known[i].parents, sizeof trees->parents[i]);
    }
}

enum pccl_status pccl_trees_pack(const struct pccl_lines *lines, const struct pccl_memory *memory,
                                 struct pccl_trees *trees)
{
    static const uint32_t limits[] = {CHILDREN_MOST, PCCL_TREES_PEERS_MAX};
    const uint64_t bound = bound_of_trees(lines);
    struct packer *packer = pccl_allocate(memory, sizeof *packer);
    if (packer == NULL)
        return PCCL_MEMORY;
    memset(trees, 0, sizeof *trees);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(limits) && bound > 0; i++) {
        if (i > 0 && lines->pairs.count <= CHILDREN_MOST + 1)
            break; /* the same trees */
        memset(packer, 0, sizeof *packer);
        packer->lines = lines;
        packer->members = lines->pairs.count;
        packer->children_most = limits[i];
        set_capacities(packer, bound);
        if (pack(packer) && (i == 0 || rate_of_trees(packer) * WORTH_PERCENT / 100 > trees->rate))
            write_table(packer, trees);
    }
    pccl_release(memory, packer, sizeof *packer);
    return PCCL_OK;
}
