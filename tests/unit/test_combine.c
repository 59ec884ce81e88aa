/*
 * The master's result of the contributions to a tiny operation: the order of folding, the offsets in the result, and
 * that nothing is left behind when memory is short.
 */
#include "unit.h"
#include "kernels/reduce.h"
#include "master/operations_internal.h"
#include "support.h"
#include "wire/tiny.h"

enum { WORLD = 4, COUNT = 3 };

/* For each member along the ring, the number of members that were admitted before it. */
static const uint32_t ranks[WORLD] = {2, 0, 3, 1};

struct fixture {
    struct test_memory memory;
    struct pccl_master master;
    struct pccl_remote remotes[WORLD];
    struct pccl_remote *ring[WORLD];
    struct pccl_peer_group group;
    struct pccl_part parts[WORLD];
    struct pccl_operation op;
    float values[WORLD][WORLD * COUNT]; /* by ring position */
};

/* Sums of these depend on the order. */
static float value_of(uint32_t position, uint32_t element)
{
    uint32_t mixed = (position * 31 + element + 1) * 2654435761u >> 8;
    return (float)mixed / (float)(1u << (mixed % 24));
}

static void prepare(struct fixture *f, uint8_t collective)
{
    memset(f, 0, sizeof *f);
    test_memory_init(&f->memory);
    f->master.memory = f->memory.memory;
    f->master.config.kernels = pccl_kernels_for(0);
    f->group.ring = f->ring;
    f->group.ring_count = f->op.part_count = f->op.done_count = WORLD;
    f->op.parts = f->parts;
    f->op.tiny = true;
    f->op.descriptor = (struct pccl_descriptor){.collective = collective, .datatype = PCCL_F32, .count = COUNT};
    for (uint32_t i = 0; i < WORLD; i++) {
        f->remotes[i].rank = ranks[i];
        f->ring[i] = &f->remotes[i];
        for (uint32_t k = 0; k < WORLD * COUNT; k++)
            f->values[i][k] = value_of(i, k);
        f->parts[i] = (struct pccl_part){.done = true, .payload = (uint8_t *)f->values[i]};
        f->parts[i].payload_bytes = (uint32_t)pccl_tiny_sizes(&f->op.descriptor, WORLD, i == 0).contribution;
    }
}

static void finish(struct fixture *f)
{
    pccl_master_free_result(&f->master, &f->op);
    assert_int_equal(f->memory.live_bytes, 0);
}

/* The master does not know the offsets of shares with given counts. */
static void is_folded_along_the_ring(enum pccl_collective collective, struct pccl_id counts)
{
    struct fixture f;
    float expected[COUNT];
    const void *parts[WORLD];
    prepare(&f, collective);
    f.op.descriptor.counts = counts;
    for (uint32_t i = 0; i < WORLD; i++) {
        parts[i] = f.values[i];
        f.parts[i].payload_bytes = sizeof expected;
    }
    pccl_reduce_all(PCCL_F32, PCCL_SUM, parts, WORLD, COUNT, expected);
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_true(f.op.combined);
    assert_int_equal(f.op.result_bytes, sizeof expected);
    assert_memory_equal(f.op.result, expected, sizeof expected);
    finish(&f);
}

TEST(test_tensors_are_folded_along_the_ring)
{
    is_folded_along_the_ring(PCCL_ALL_REDUCE, (struct pccl_id){{0}});
    is_folded_along_the_ring(PCCL_REDUCE, (struct pccl_id){{0}});
    is_folded_along_the_ring(PCCL_REDUCE_SCATTER, (struct pccl_id){{1}});
}

/* A share has the position of its owner in the order of admission, and the owner's part is folded last. */
TEST(test_shares_are_folded_from_the_owners_successor_on)
{
    struct fixture f;
    float expected[WORLD * COUNT];
    bool order_matters = false;
    prepare(&f, PCCL_REDUCE_SCATTER);
    for (uint32_t owner = 0; owner < WORLD; owner++) {
        const void *parts[WORLD], *others[WORLD];
        float other[COUNT];
        for (uint32_t i = 0; i < WORLD; i++) {
            parts[i] = &f.values[(owner + 1 + i) % WORLD][ranks[owner] * COUNT];
            others[i] = &f.values[i][ranks[owner] * COUNT];
        }
        pccl_reduce_all(PCCL_F32, PCCL_SUM, parts, WORLD, COUNT, &expected[ranks[owner] * COUNT]);
        pccl_reduce_all(PCCL_F32, PCCL_SUM, others, WORLD, COUNT, other);
        order_matters = order_matters || memcmp(other, &expected[ranks[owner] * COUNT], sizeof other) != 0;
    }
    assert_true(order_matters);
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_int_equal(f.op.result_bytes, sizeof expected);
    assert_memory_equal(f.op.result, expected, sizeof expected);
    finish(&f);
}

/* parts: of each contribution */
static void lie_in_the_order_of_admission(enum pccl_collective collective, uint32_t parts)
{
    const size_t bytes = parts * COUNT * sizeof(float);
    struct fixture f;
    prepare(&f, collective);
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_int_equal(f.op.result_bytes, WORLD * bytes);
    for (uint32_t i = 0; i < WORLD; i++)
        assert_memory_equal(f.op.result + ranks[i] * bytes, f.values[i], bytes);
    finish(&f);
}

TEST(test_parts_lie_in_the_order_of_admission)
{
    lie_in_the_order_of_admission(PCCL_ALL_GATHER, 1);
    lie_in_the_order_of_admission(PCCL_GATHER, 1);
    lie_in_the_order_of_admission(PCCL_ALL_TO_ALL, WORLD);
}

/* Compares the results of all members, in the order of admission. */
static void is_scanned(enum pccl_collective collective, uint32_t own)
{
    struct fixture f;
    float expected[WORLD][COUNT];
    const void *parts[WORLD];
    prepare(&f, collective);
    for (uint32_t i = 0; i < WORLD; i++)
        parts[ranks[i]] = f.values[i];
    memset(expected, 0, sizeof expected);
    for (uint32_t rank = 1 - own; rank < WORLD; rank++)
        pccl_reduce_all(PCCL_F32, PCCL_SUM, parts, rank + own, COUNT, expected[rank]);
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_int_equal(f.op.result_bytes, sizeof expected);
    assert_memory_equal(f.op.result, expected, sizeof expected);
    finish(&f);
}

TEST(test_scans_are_folded_in_the_order_of_admission)
{
    is_scanned(PCCL_EXCLUSIVE_SCAN, 0);
    is_scanned(PCCL_INCLUSIVE_SCAN, 1);
}

static void is_the_roots(enum pccl_collective collective, uint32_t parts)
{
    const size_t bytes = parts * COUNT * sizeof(float);
    struct fixture f;
    prepare(&f, collective);
    assert_int_equal(f.parts[1].payload_bytes, 0);
    f.parts[1].payload = NULL;
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_int_equal(f.op.result_bytes, bytes);
    assert_memory_equal(f.op.result, f.values[0], bytes);
    finish(&f);
}

TEST(test_broadcasts_and_scatters_are_the_roots)
{
    is_the_roots(PCCL_BROADCAST, 1);
    is_the_roots(PCCL_SCATTER, WORLD);
}

TEST(test_blobs_lie_behind_the_lengths_of_contributions)
{
    static const uint8_t expected[] = {1, 0, 0, 0, 'b', 0, 0, 0, 0, 3, 0, 0, 0, 'a', 'a', 'a', 2, 0, 0, 0, 'c', 'c'};
    static const char *const blobs[WORLD] = {"aaa", "b", "cc", ""};
    struct fixture f;
    prepare(&f, PCCL_ALL_GATHER_V);
    for (uint32_t i = 0; i < WORLD; i++) {
        f.parts[i].payload_bytes = (uint32_t)strlen(blobs[i]);
        f.parts[i].payload = f.parts[i].payload_bytes > 0 ? (uint8_t *)blobs[i] : NULL;
    }
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_int_equal(f.op.result_bytes, sizeof expected);
    assert_memory_equal(f.op.result, expected, sizeof expected);
    finish(&f);
}

TEST(test_a_barrier_has_an_empty_result)
{
    struct fixture f;
    prepare(&f, PCCL_BARRIER);
    assert_true(pccl_master_combine(&f.master, &f.group, &f.op));
    assert_true(f.op.combined);
    assert_null(f.op.result);
    assert_int_equal(f.op.result_bytes, 0);
    finish(&f);
}

TEST(test_short_memory)
{
    for (uint8_t collective = 0; collective < PCCL_COLLECTIVES; collective++)
        for (uint64_t fail_at = 1; fail_at <= 2 && collective != PCCL_FOUND; fail_at++) {
            struct fixture f;
            prepare(&f, collective);
            f.memory.fail_at = fail_at;
            bool made = pccl_master_combine(&f.master, &f.group, &f.op);
            assert_int_equal(made, collective == PCCL_BARRIER && fail_at == 2);
            assert_int_equal(f.op.combined, made);
            assert_null(f.op.result);
            finish(&f);
        }
}
