/* One exchange whose other peers send only the messages of the test; and jobs that add 32-bit numbers. */
#ifndef PCCL_TESTS_EXCHANGE_ALONE_H
#define PCCL_TESTS_EXCHANGE_ALONE_H

#include "collective/internal.h"
#include "unit/exchange_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct pccl_cost no_mesh = {0};
static const struct pccl_cost long_ring = {.rtt_us = 50000};
static const struct pccl_cost long_mesh = {.mesh = 1, .rtt_us = 1000000, .rate = 1000000000, .mesh_rate = 1000000000};

static inline struct pccl_descriptor sum_of(uint64_t count)
{
    return (struct pccl_descriptor){.datatype = PCCL_U32, .operation = PCCL_SUM, .count = count};
}

static inline void fill(struct job *job, uint32_t seed)
{
    for (size_t i = 0; i < job->bytes / 4; i++) {
        uint32_t element = (uint32_t)i * 2654435761u + seed;
        memcpy(job->input + 4 * i, &element, sizeof element); /* a part of 16-bit elements may begin anywhere */
    }
    job_keep_input(job);
}

static inline bool is_sum(const struct job *jobs, uint32_t ranks, uint32_t rank)
{
    for (size_t i = 0; i < jobs[rank].bytes / 4; i++) {
        uint32_t sum = 0;
        for (uint32_t r = 0; r < ranks; r++)
            sum += ((const uint32_t *)(void *)jobs[r].before)[i];
        if (((const uint32_t *)(void *)jobs[rank].result)[i] != sum)
            return false;
    }
    return true;
}

static const struct pccl_instance an_instance = {.joint = 1, .tag = 9, .use = 1};

/* A ring with our exchange at rank 0; the other ranks send only the messages of the test. */
struct alone {
    struct world world;
    struct job job;
};
static struct alone alone;

static inline void be_alone_among(uint32_t ranks, uint64_t count, const struct pccl_cost *cost,
                                  const struct pccl_exchange_config *config)
{
    world_init(&alone.world, 5, ranks, 1, true, config);
    alone.world.expects_trouble = true;
    struct pccl_descriptor descriptor = sum_of(count);
    job_init(&alone.world, &alone.job, 0, 9, &descriptor, cost, true);
    fill(&alone.job, 1);
}

static inline void be_alone_with(uint64_t count, const struct pccl_cost *cost,
                                 const struct pccl_exchange_config *config)
{
    be_alone_among(3, count, cost, config);
}

static inline void be_alone(uint64_t count, const struct pccl_cost *cost)
{
    const struct pccl_exchange_config config = {.scratch_bytes_max = 4 << 20, .window_bytes = 1 << 20};
    be_alone_with(count, cost, &config);
}

static inline void start_alone(void)
{
    struct pccl_text reason;
    assert_int_equal(job_start(&alone.world, &alone.job, 0, &reason), PCCL_OK);
}

static inline void end_alone(void)
{
    if (alone.job.transfer != NULL && !alone.job.stopped)
        job_stop(&alone.world, &alone.job, 0, false);
    job_fini(&alone.job);
    world_fini(&alone.world);
}

static inline struct pccl_msg ready_of(uint64_t granted)
{
    struct pccl_plan plan;
    struct pccl_text reason;
    const struct pccl_transfer_config *config = &alone.job.config;
    assert_int_equal(pccl_plan_make(&config->descriptor, &config->cost,
                                    (struct pccl_seat){.ranks = config->ranks, .rank = 1, .root = config->root},
                                    config->positions, config->starts, &plan, &reason),
                     PCCL_OK);
    return (struct pccl_msg){.type = PCCL_MSG_ready,
                             .as.ready = {.instance = an_instance,
                                          .view = config->view,
                                          .descriptor = config->descriptor,
                                          .algorithm = (uint8_t)plan.algorithm,
                                          .segment_elements = plan.segment_elements,
                                          .granted = granted}};
}

static inline struct pccl_msg data_of(uint64_t group, uint32_t step, uint32_t length)
{
    return (struct pccl_msg){
        .type = PCCL_MSG_data,
        .as.data = {
            .instance = an_instance, .view = alone.job.config.view, .stripe = group, .step = step, .length = length}};
}

static inline struct pccl_lane *lane_of(const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_find(exchange_of(&alone.world, 0), peer, outgoing);
    assert_non_null(lane);
    return lane;
}

static inline enum pccl_status tell(uint32_t from, bool outgoing, const struct pccl_msg *msg,
                                    struct pccl_arrival *arrival)
{
    struct pccl_text reason;
    pccl_text_clear(&reason);
    enum pccl_status status = pccl_exchange_receive(lane_of(&alone.world.ring[from], outgoing), msg, arrival, &reason);
    assert_true(status == PCCL_OK || reason.length > 0);
    return status;
}

static inline enum pccl_status tell_ready(uint32_t from, const struct pccl_msg *msg)
{
    struct pccl_arrival arrival;
    enum pccl_status status = tell(from, true, msg, &arrival);
    assert_int_equal(arrival.length, 0);
    return status;
}

static inline bool next_to(uint32_t to, bool outgoing, struct pccl_departure *departure)
{
    return pccl_exchange_next(lane_of(&alone.world.ring[to], outgoing), departure);
}

static inline void expect_refused(uint32_t from, bool outgoing, struct pccl_msg msg, enum pccl_status status)
{
    struct pccl_arrival arrival;
    assert_int_equal(tell(from, outgoing, &msg, &arrival), status);
    assert_null(arrival.transfer);
    assert_false(alone.job.failed);
}

static inline void expect_malformed(uint32_t from, bool outgoing, struct pccl_msg msg)
{
    expect_refused(from, outgoing, msg, PCCL_MALFORMED);
}

/* The operation has failed since it differs from this rank's. */
static inline void alone_must_differ_from(uint32_t from)
{
    assert_true(alone.job.failed);
    assert_int_equal(alone.job.class, PCCL_CLASS_MISMATCH);
    struct pccl_text id;
    for (uint32_t rank = 0; rank <= from; rank += from) {
        pccl_text_format(&id, "peer %s", pccl_id_str(&alone.world.ring[rank]));
        assert_non_null(strstr(alone.job.reason.bytes, id.bytes));
    }
}

#endif
