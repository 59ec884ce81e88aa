/* topology/ring: against all permutations for up to 7 nodes, and large rings with few and with many bad pairs. */
#include "unit.h"

#include <string.h>

#include "core/prng.h"
#include "topology/ring.h"

enum { NODES_MAX = 4096 };

struct graph {
    uint32_t count;
    uint64_t asked;
    bool bad[64][64];
    /* In larger graphs: pairs at most this far apart are bad. */
    uint32_t distance;
};

static bool is_bad(void *context, uint32_t a, uint32_t b)
{
    struct graph *graph = context;
    graph->asked++;
    assert_true(a != b && a < graph->count && b < graph->count);
    if (graph->count <= 64)
        return graph->bad[a][b];
    uint32_t apart = a > b ? a - b : b - a;
    return apart <= graph->distance || graph->count - apart <= graph->distance;
}

static bool is_ring(struct graph *graph, const uint32_t *order)
{
    static uint8_t seen[NODES_MAX];
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < graph->count; i++) {
        if (order[i] >= graph->count || seen[order[i]]++ != 0)
            return false;
        uint32_t next = order[(i + 1) % graph->count];
        if (graph->count > 1 && is_bad(graph, order[i], next))
            return false;
    }
    return true;
}

/* Returns true if any ring continues order[0 .. depth). */
static bool exists(struct graph *graph, uint32_t *order, uint32_t depth)
{
    if (depth == graph->count)
        return is_ring(graph, order);
    for (uint32_t i = depth; i < graph->count; i++) {
        uint32_t kept = order[depth];
        order[depth] = order[i];
        order[i] = kept;
        bool found = exists(graph, order, depth + 1);
        order[i] = order[depth];
        order[depth] = kept;
        if (found)
            return true;
    }
    return false;
}

static void shuffled(uint32_t *order, uint32_t count, struct pccl_prng *prng)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)pccl_prng_below(prng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static void make_bad(struct graph *graph, struct pccl_prng *prng, uint32_t per_million)
{
    for (uint32_t a = 0; a < graph->count; a++) {
        for (uint32_t b = 0; b < a; b++)
            graph->bad[a][b] = graph->bad[b][a] = pccl_prng_chance(prng, per_million);
    }
}

TEST(agrees_with_brute_force_up_to_seven_nodes)
{
    struct pccl_prng prng = unit_prng(11);
    uint32_t found_count = 0, none_count = 0;
    for (uint32_t count = 1; count <= 7; count++) {
        for (int round = 0; round < 400; round++) {
            static struct graph graph;
            graph.count = count;
            make_bad(&graph, &prng, (uint32_t)pccl_prng_below(&prng, 800000));
            uint32_t order[8], before[8], all[8], scratch[8];
            shuffled(order, count, &prng);
            memcpy(before, order, sizeof order);
            memcpy(all, order, sizeof order);
            bool possible = exists(&graph, all, 1);
            bool found = pccl_ring_avoiding(order, count, is_bad, &graph, scratch);
            assert_int_equal(found, possible);
            if (found) {
                assert_true(is_ring(&graph, order));
                found_count++;
            } else {
                assert_memory_equal(order, before, count * sizeof *order);
                none_count++;
            }
        }
    }
    assert_true(found_count > 500 && none_count > 500);
}

/* All 2^15 graphs of 6 nodes: every ring that exists is found. */
TEST(agrees_with_brute_force_on_all_graphs_of_six)
{
    static struct graph graph;
    graph.count = 6;
    for (uint32_t mask = 0; mask < 1u << 15; mask++) {
        uint32_t bit = 0;
        for (uint32_t a = 0; a < 6; a++) {
            for (uint32_t b = 0; b < a; b++)
                graph.bad[a][b] = graph.bad[b][a] = (mask >> bit++ & 1) != 0;
        }
        uint32_t order[] = {0, 1, 2, 3, 4, 5}, all[] = {0, 1, 2, 3, 4, 5}, scratch[6];
        bool found = pccl_ring_avoiding(order, 6, is_bad, &graph, scratch);
        assert_int_equal(found, exists(&graph, all, 1));
        assert_true(!found || is_ring(&graph, order));
    }
}

/*
 * The guarantee for 8 nodes: "not found" means that there is no such ring. Worst case: all pairs are good except those
 * of one node.
 */
TEST(eight_nodes_are_decided)
{
    static struct graph graph;
    graph.count = 8;
    struct pccl_prng prng = unit_prng(12);
    for (int round = 0; round < 60; round++) {
        make_bad(&graph, &prng, 350000 + (uint32_t)pccl_prng_below(&prng, 300000));
        uint32_t order[8], all[8], scratch[8];
        shuffled(order, 8, &prng);
        memcpy(all, order, sizeof order);
        assert_int_equal(pccl_ring_avoiding(order, 8, is_bad, &graph, scratch), exists(&graph, all, 1));
    }
    make_bad(&graph, &prng, 0);
    for (uint32_t other = 1; other < 7; other++) {
        graph.bad[7][other] = graph.bad[other][7] = true; /* 7 has one good neighbor left: 0 */
    }
    uint32_t order[] = {0, 1, 2, 3, 4, 5, 6, 7}, scratch[8];
    assert_false(pccl_ring_avoiding(order, 8, is_bad, &graph, scratch));
    graph.bad[7][3] = graph.bad[3][7] = false; /* now two: 0 and 3 must enclose it */
    assert_true(pccl_ring_avoiding(order, 8, is_bad, &graph, scratch));
    assert_true(is_ring(&graph, order));
}

TEST(small_counts)
{
    static struct graph graph;
    uint32_t order[] = {0, 1, 2}, scratch[3];
    memset(graph.bad, 0, sizeof graph.bad);
    assert_true(pccl_ring_avoiding(order, 0, is_bad, &graph, scratch));
    graph.count = 1;
    assert_true(pccl_ring_avoiding(order, 1, is_bad, &graph, scratch));
    graph.count = 2;
    assert_true(pccl_ring_avoiding(order, 2, is_bad, &graph, scratch));
    graph.bad[0][1] = graph.bad[1][0] = true;
    assert_false(pccl_ring_avoiding(order, 2, is_bad, &graph, scratch));
    graph.count = 3;
    assert_false(pccl_ring_avoiding(order, 3, is_bad, &graph, scratch));
    graph.bad[0][1] = graph.bad[1][0] = false;
    assert_true(pccl_ring_avoiding(order, 3, is_bad, &graph, scratch));
}

TEST(a_good_ring_stays_as_it_is)
{
    static struct graph graph;
    struct pccl_prng prng = unit_prng(13);
    graph.count = 40;
    uint32_t order[40], before[40], scratch[40];
    shuffled(order, 40, &prng);
    memcpy(before, order, sizeof order);
    make_bad(&graph, &prng, 900000);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t a = order[i], b = order[(i + 1) % 40];
        graph.bad[a][b] = graph.bad[b][a] = false;
    }
    assert_true(pccl_ring_avoiding(order, 40, is_bad, &graph, scratch));
    assert_memory_equal(order, before, sizeof order);
}

/* One lost link costs two pairs of the ring, not a new ring. */
TEST(one_bad_pair_changes_two_pairs)
{
    static struct graph graph;
    graph.count = 32;
    memset(graph.bad, 0, sizeof graph.bad);
    graph.bad[5][6] = graph.bad[6][5] = true;
    uint32_t order[32], scratch[32], changed = 0;
    for (uint32_t i = 0; i < 32; i++)
        order[i] = i;
    assert_true(pccl_ring_avoiding(order, 32, is_bad, &graph, scratch));
    assert_true(is_ring(&graph, order));
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t a = order[i], b = order[(i + 1) % 32];
        uint32_t apart = a > b ? a - b : b - a;
        changed += apart != 1 && apart != 31;
    }
    assert_int_equal(changed, 2);
}

/* A peer that only two others can reach, as behind a NAT. */
TEST(a_node_with_two_good_neighbors)
{
    static struct graph graph;
    struct pccl_prng prng = unit_prng(14);
    graph.count = 48;
    for (int round = 0; round < 200; round++) {
        make_bad(&graph, &prng, 50000);
        uint32_t order[48], scratch[48];
        shuffled(order, 48, &prng);
        for (uint32_t other = 1; other < 48; other++)
            graph.bad[0][other] = graph.bad[other][0] = true;
        uint32_t a = 1 + (uint32_t)pccl_prng_below(&prng, 47);
        uint32_t b = a % 47 + 1;
        graph.bad[0][a] = graph.bad[a][0] = graph.bad[0][b] = graph.bad[b][0] = false;
        assert_true(pccl_ring_avoiding(order, 48, is_bad, &graph, scratch));
        assert_true(is_ring(&graph, order));
    }
}

TEST(many_nodes)
{
    static struct graph graph;
    static uint32_t order[NODES_MAX], scratch[NODES_MAX];
    graph.count = NODES_MAX;
    graph.distance = 0;
    for (uint32_t i = 0; i < NODES_MAX; i++)
        order[i] = i;
    assert_true(pccl_ring_avoiding(order, NODES_MAX, is_bad, &graph, scratch));
    assert_int_equal(order[1], 1);
}

/* For any pairs the number of questions is bounded, and every ring that is returned is one. */
TEST(the_budget_holds)
{
    static struct graph graph;
    static uint32_t order[NODES_MAX], scratch[NODES_MAX];
    const uint32_t counts[] = {9, 10, 20, 64, 1000, NODES_MAX};
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++) {
        uint32_t count = counts[i];
        graph.count = count;
        graph.distance = count / 2; /* all pairs are bad */
        memset(graph.bad, 1, sizeof graph.bad);
        for (uint32_t a = 0; count <= 64 && a < count / 2; a++) { /* two cliques: much to try, no ring */
            for (uint32_t b = 0; b < count / 2; b++)
                graph.bad[a][b] = graph.bad[count / 2 + a][count / 2 + b] = false;
        }
        for (uint32_t k = 0; k < count; k++)
            order[k] = k;
        graph.asked = 0;
        assert_false(pccl_ring_avoiding(order, count, is_bad, &graph, scratch));
        assert_true(graph.asked <= 200000 + 64 * (uint64_t)count);
        for (uint32_t k = 0; k < count; k++)
            assert_int_equal(order[k], k);
    }
}
