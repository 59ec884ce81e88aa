/* What stays with a peer is copied by threads that wait for the operation, or by the engine's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_node.h"

#include <stdlib.h>

enum { COUNT = 3 * (64 << 10) + 5, COPIERS = 3 }; /* elements of a part: three pieces and a bit */

static uint32_t value_of(uint32_t from, uint32_t to, uint32_t i) { return from * 1000003 + to * 4099 + i; }

/* An all-to-all of two. */
struct exchanged {
    struct node nodes[2];
    struct work works[2];
    uint32_t *inputs[2], *results[2];
};

static void begin(struct exchanged *all)
{
    static const uint32_t positions[] = {0, 1};
    for (uint32_t rank = 0; rank < 2; rank++)
        node_begin(&all->nodes[rank], (uint8_t)(rank + 1));
    node_connect(&all->nodes[0], &all->nodes[1], 0);
    node_connect(&all->nodes[1], &all->nodes[0], 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        all->inputs[rank] = malloc(2 * COUNT * sizeof(uint32_t));
        all->results[rank] = calloc(2 * COUNT, sizeof(uint32_t));
        assert_true(all->inputs[rank] != NULL && all->results[rank] != NULL);
        for (uint32_t i = 0; i < 2 * COUNT; i++)
            all->inputs[rank][i] = value_of(rank, i / COUNT, i % COUNT);
        struct work *work = &all->works[rank];
        work_prepare(work, &all->nodes[rank], 1, 2, COUNT, all->inputs[rank], all->results[rank]);
        struct pccl_transfer_config *config = &work->job.config;
        config->descriptor.collective = PCCL_ALL_TO_ALL;
        config->positions = positions;
        config->ring = work->ring;
        config->stay = pccl_stay_of(config, &all->nodes[rank].id);
        assert_int_equal(config->stay.bytes, COUNT * sizeof(uint32_t));
    }
}

static void end(struct exchanged *all)
{
    for (uint32_t rank = 0; rank < 2; rank++)
        node_end(&all->nodes[rank]);
    for (uint32_t rank = 0; rank < 2; rank++) {
        free(all->inputs[rank]);
        free(all->results[rank]);
    }
}

static void finish(struct exchanged *all)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        node_until(&all->nodes[rank], &all->works[rank].at_rest);
        for (uint32_t i = 0; i < 2 * COUNT; i++)
            assert_int_equal(all->results[rank][i], value_of(i / COUNT, rank, i % COUNT));
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        work_stop(&all->works[rank], PCCL_JOB_COMMITTED);
}

static void the_engine_copies_alone(void **state)
{
    struct exchanged all = {0};
    (void)state;
    begin(&all);
    for (uint32_t rank = 0; rank < 2; rank++)
        work_start(&all.works[rank]);
    finish(&all);
    end(&all);
}

static void join_and_copy(void *argument)
{
    struct work *work = argument;
    if (pccl_engine_join(work->node->engine, &work->job))
        pccl_engine_copy(work->node->engine, &work->job, UINT64_MAX);
}

static void several_threads_copy_beside_it(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        struct exchanged all = {0};
        uv_thread_t threads[2 * COPIERS];
        begin(&all);
        for (uint32_t rank = 0; rank < 2; rank++)
            work_start(&all.works[rank]);
        for (uint32_t i = 0; i < 2 * COPIERS; i++)
            assert_int_equal(uv_thread_create(&threads[i], join_and_copy, &all.works[i % 2]), 0);
        for (uint32_t i = 0; i < 2 * COPIERS; i++)
            assert_int_equal(uv_thread_join(&threads[i]), 0);
        finish(&all);
        end(&all);
    }
}

/* It copies a piece at most. */
static void who_has_no_time_leaves_the_rest_to_others(void **state)
{
    struct exchanged all = {0};
    (void)state;
    begin(&all);
    for (uint32_t rank = 0; rank < 2; rank++)
        work_start(&all.works[rank]);
    for (uint32_t rank = 0; rank < 2; rank++)
        if (pccl_engine_join(all.nodes[rank].engine, &all.works[rank].job))
            pccl_engine_copy(all.nodes[rank].engine, &all.works[rank].job, 0);
    finish(&all);
    end(&all);
}

static void a_job_is_not_released_while_a_thread_copies(void **state)
{
    static const enum pccl_job_end ends[] = {PCCL_JOB_ABORTED, PCCL_JOB_BROKEN_OFF, PCCL_JOB_GIVEN_UP};
    (void)state;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(ends); i++) {
        struct exchanged all = {0};
        static float other_input[64], other_result[64];
        struct work *work = &all.works[0], other, refused;
        struct node *node = &all.nodes[0];
        begin(&all);
        work_prepare(&refused, node, 3, 2, 64, other_input, other_result);
        refused.job.config.descriptor.codec = 77;
        uv_mutex_lock(&node->lock); /* at which the engine's thread stops, telling of the failure */
        work_start(&refused);
        work_start(work);
        assert_true(pccl_engine_join(node->engine, &work->job));
        pccl_engine_stop(node->engine, &work->job, ends[i]);
        assert_false(pccl_engine_join(node->engine, &work->job)); /* nobody else begins */
        uv_mutex_unlock(&node->lock);
        work_stop(&refused, PCCL_JOB_ABORTED);
        work_prepare(&other, node, 2, 2, 64, other_input, other_result);
        work_start(&other);
        work_stop(&other, PCCL_JOB_ABORTED); /* the thread has seen both stops */
        uv_mutex_lock(&node->lock);
        assert_false(work->released);
        uv_mutex_unlock(&node->lock);
        pccl_engine_copy(node->engine, &work->job, UINT64_MAX);
        node_until(node, &work->released);
        if (ends[i] == PCCL_JOB_BROKEN_OFF)
            pccl_engine_forget(node->engine, &work->job.config.instance);
        end(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_copies_alone),
        cmocka_unit_test(several_threads_copy_beside_it),
        cmocka_unit_test(who_has_no_time_leaves_the_rest_to_others),
        cmocka_unit_test(a_job_is_not_released_while_a_thread_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
