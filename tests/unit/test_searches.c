/* Searches for rings on worker threads: drive/searches. */
#include "unit.h"
#include "drive/searches.h"
#include "net/heap.h"

#include <string.h>

enum { ANSWERS_MAX = 16, SMALL = 4, LARGE = 600 };

struct answered {
    uint64_t ticket;
    enum pccl_status status;
    bool exists;
    uint32_t ring[SMALL];
};

struct bench {
    uv_loop_t loop;
    struct pccl_searches searches;
    struct answered answers[ANSWERS_MAX];
    uint32_t count;
};

/* Number of allocations of this thread that succeed from now on. */
static _Thread_local uint64_t left = UINT64_MAX;

static void *scarce(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    const struct pccl_memory *heap = pccl_heap();
    if (new_bytes > 0 && left-- == 0) {
        left = 0;
        return NULL;
    }
    return heap->resize(heap->context, block, old_bytes, new_bytes);
}

static const struct pccl_memory scarce_memory = {.resize = scarce};

static void take(struct bench *bench, const struct pccl_search_result *result)
{
    assert_true(bench->count < ANSWERS_MAX);
    struct answered *answered = &bench->answers[bench->count++];
    *answered = (struct answered){.ticket = result->ticket, .status = result->status};
    if (result->status != PCCL_OK) {
        assert_null(result->answer);
        assert_null(result->ring);
        return;
    }
    answered->exists = result->answer->worth.exists;
    if (result->answer->worth.exists)
        memcpy(answered->ring, result->ring, sizeof answered->ring);
}

static void take_all(struct bench *bench)
{
    struct pccl_search_result result;
    while (pccl_searches_take(&bench->searches, &result))
        take(bench, &result);
    assert_false(pccl_searches_has_results(&bench->searches));
}

/* Returns non-zero if handles are left in the loop. */
static int run(struct bench *bench, uv_run_mode mode)
{
    int rest = uv_run(&bench->loop, mode);
    take_all(bench);
    return rest;
}

static int setup(void **state)
{
    static struct bench bench;
    memset(&bench, 0, sizeof bench);
    *state = &bench;
    bench.searches = (struct pccl_searches){.loop = &bench.loop, .memory = &scarce_memory};
    return uv_loop_init(&bench.loop);
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    int result = uv_loop_close(&bench->loop); /* fails if something is left */
    if (result != 0) {                        /* after a failure the loop is in use until its searches end */
        pccl_searches_stop_all(&bench->searches);
        (void)uv_run(&bench->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&bench->loop);
    }
    return result;
}

/* Four members: only the links 0 1, 1 3, 3 2, 2 0 and their reverses have a rate. */
static const uint64_t rates[SMALL * SMALL] = {0, 9, 9, 0, 9, 0, 0, 9, 9, 0, 0, 9, 0, 9, 9, 0};
static const uint32_t rtts_us[SMALL * SMALL];
static const uint32_t present[SMALL] = {0, 1, 2, 3};

static struct pccl_ring_problem small(void)
{
    return (struct pccl_ring_problem){.count = SMALL, .rates = rates, .rtts_us = rtts_us, .ring = present, .steps = 1};
}

/*
 * A search that would take years: the cheapest links make pairs, so every ring costs more than the bound, which the
 * search would have to reach to prove its result.
 */
static struct pccl_ring_problem endless(void)
{
    static uint64_t many_rates[LARGE * LARGE];
    static uint32_t many_rtts[LARGE * LARGE];
    for (uint32_t i = 0; i < LARGE * LARGE; i++) {
        bool pair = i / LARGE / 2 == i % LARGE / 2;
        many_rates[i] = 1000;
        many_rtts[i] = pair ? 1 : 1000;
    }
    return (struct pccl_ring_problem){
        .count = LARGE, .rates = many_rates, .rtts_us = many_rtts, .steps = UINT64_C(1) << 62};
}

TEST_IN(test_the_answer_comes_from_the_loop, setup, teardown)
{
    struct bench *bench = *unit_state;
    struct pccl_ring_problem problem = small();
    pccl_searches_start(&bench->searches, 1, &problem);
    problem.rates = NULL; /* it was copied */
    problem.ring = NULL;
    problem = small();
    problem.ring = NULL;
    pccl_searches_start(&bench->searches, 2, &problem);
    assert_int_equal(bench->count, 0);
    assert_false(pccl_searches_has_results(&bench->searches));
    assert_int_equal(run(bench, UV_RUN_DEFAULT), 0);
    assert_int_equal(bench->count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct answered *answered = &bench->answers[i];
        assert_int_equal(answered->status, PCCL_OK);
        assert_true(answered->exists);
        assert_int_equal(answered->ring[0], 0);
        assert_int_equal(answered->ring[2], 3);
    }
    assert_int_equal(bench->answers[0].ticket + bench->answers[1].ticket, 3);
}

TEST_IN(test_no_ring_is_an_answer, setup, teardown)
{
    struct bench *bench = *unit_state;
    static const uint64_t nothing[SMALL * SMALL];
    struct pccl_ring_problem problem = small();
    problem.rates = nothing;
    pccl_searches_start(&bench->searches, 1, &problem);
    assert_int_equal(run(bench, UV_RUN_DEFAULT), 0);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->answers[0].status, PCCL_OK);
    assert_false(bench->answers[0].exists);
}

TEST_IN(test_the_stopped_end_without_an_answer, setup, teardown)
{
    struct bench *bench = *unit_state;
    struct pccl_ring_problem problem = endless();
    for (uint64_t ticket = 1; ticket <= 8; ticket++) /* more than there are threads: some wait */
        pccl_searches_start(&bench->searches, ticket, &problem);
    problem = small();
    pccl_searches_start(&bench->searches, 9, &problem);
    for (uint64_t ticket = 1; ticket <= 6; ticket++)
        for (int twice = 0; twice < 2; twice++)
            pccl_searches_stop(&bench->searches, ticket);
    pccl_searches_stop(&bench->searches, 77); /* unknown ticket */
    while (bench->count == 0)
        (void)run(bench, UV_RUN_ONCE);
    assert_int_equal(bench->answers[0].status, PCCL_OK);
    assert_int_equal(bench->answers[0].ticket, 9);
    pccl_searches_stop_all(&bench->searches);
    assert_int_equal(run(bench, UV_RUN_DEFAULT), 0);
    assert_int_equal(bench->count, 1);
    pccl_searches_stop_all(&bench->searches);
}

TEST_IN(test_without_memory, setup, teardown)
{
    struct bench *bench = *unit_state;
    struct pccl_ring_problem problem = small(), long_one = endless();
    for (uint32_t fails = 0; fails < 5; fails++) {
        bench->count = 0;
        left = fails;
        pccl_searches_start(&bench->searches, 5, &problem);
        left = UINT64_MAX;
        pccl_searches_start(&bench->searches, 6, &long_one);
        left = fails;
        pccl_searches_start(&bench->searches, 7, &problem);
        left = UINT64_MAX;
        assert_int_equal(bench->count, 0);
        assert_true(pccl_searches_has_results(&bench->searches));
        take_all(bench);
        assert_int_equal(bench->count, 2);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(bench->answers[i].ticket, 5 + 2 * i);
            assert_int_equal(bench->answers[i].status, PCCL_MEMORY);
        }
        pccl_searches_stop_all(&bench->searches);
        assert_int_equal(run(bench, UV_RUN_DEFAULT), 0);
        assert_int_equal(bench->count, 2);
    }
    left = 0;
    pccl_searches_start(&bench->searches, 8, &problem);
    left = UINT64_MAX;
    assert_true(pccl_searches_has_results(&bench->searches));
    pccl_searches_stop_all(&bench->searches);
    assert_false(pccl_searches_has_results(&bench->searches));
    assert_int_equal(bench->count, 2);
}
