/*
 * Error feedback in every schedule: the inputs and residuals of all ranks equal the results and the next residuals, and
 * each rank writes each place of its residual.
 */
#include "unit.h"
#include "unit/exchange_world.h"

#include <math.h>

enum { COUNT = 2900, RANKS = 6 };

static struct world world;
static float kept[RANKS][RANKS * COUNT], next[RANKS][RANKS * COUNT];
static double given[RANKS * COUNT];

static size_t input_count(const struct pccl_descriptor *descriptor)
{
    return descriptor->count * (descriptor->collective == PCCL_REDUCE_SCATTER ? world.ranks : 1);
}

static void fill(struct job *job, uint32_t rank)
{
    const bool scales = job->config.descriptor.operation == PCCL_PREMUL_SUM;
    for (size_t k = 0, count = input_count(&job->config.descriptor); k < count; k++) {
        float value = (float)(1 + pccl_prng_below(&world.prng, 1000)) / 500;
        memcpy(job->input + k * sizeof value, &value, sizeof value);
        kept[rank][k] = (float)pccl_prng_below(&world.prng, 100) / 5000;
        next[rank][k] = NAN;
        given[k] += (scales ? job->config.factor : 1) * (double)value + (double)kept[rank][k];
    }
    job->config.feedback = (struct pccl_feedback){kept[rank], next[rank]};
    job_keep_input(job);
}

static void check(const struct job *job, const float *result, size_t count, size_t from)
{
    const struct pccl_descriptor *descriptor = &job->config.descriptor;
    const double times = descriptor->operation == PCCL_AVG ? world.ranks : 1;
    for (size_t k = 0; k < count; k++) {
        double came = times * (double)result[k];
        for (uint32_t rank = 0; rank < world.ranks; rank++) {
            assert_false(isnan(next[rank][from + k]));
            came += (double)next[rank][from + k];
        }
        if (!(fabs(came - given[from + k]) <= 1e-5 * fabs(given[from + k]) + 1e-5))
            fail_msg("%u ranks, collective %u, operation %u, codec %u: %zu is %g, not %g", world.ranks,
                     descriptor->collective, descriptor->operation, descriptor->codec, from + k, came, given[from + k]);
    }
}

static void run(const struct pccl_descriptor *descriptor, uint32_t ranks, bool direct, bool in_place, uint64_t seed)
{
    const struct pccl_cost cost = {.mesh = direct, .rtt_us = direct ? 1000000 : 0, .mesh_rtt_us = direct};
    const struct pccl_exchange_config config = {.scratch_bytes_max = 1 << 20, .window_bytes = 1 << 20};
    struct job jobs[RANKS];
    struct pccl_text reason;
    world_init(&world, seed, ranks, 1, direct, &config);
    memset(given, 0, sizeof given);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        job_init(&world, &jobs[rank], rank, 7, descriptor, &cost, in_place);
        fill(&jobs[rank], rank);
    }
    for (uint32_t rank = 0; rank < ranks; rank++)
        assert_int_equal(job_start(&world, &jobs[rank], rank, &reason), PCCL_OK);
    world_run(&world, 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const bool shares = descriptor->collective == PCCL_REDUCE_SCATTER;
        const size_t from = shares ? world.positions[rank] * descriptor->count : 0;
        assert_true(jobs[rank].done && !jobs[rank].failed);
        if (jobs[rank].result_bytes > 0)
            check(&jobs[rank], (const float *)(const void *)jobs[rank].result, descriptor->count, from);
        job_stop(&world, &jobs[rank], rank, true);
        job_fini(&jobs[rank]);
    }
    world_fini(&world);
}

TEST(nothing_is_lost)
{
    static const enum pccl_collective collectives[] = {PCCL_ALL_REDUCE, PCCL_REDUCE_SCATTER, PCCL_REDUCE};
    static const enum pccl_reduce_op operations[] = {PCCL_SUM, PCCL_AVG, PCCL_PREMUL_SUM};
    for (unsigned i = 0; i < 3 * 3 * 2 * 5; i++) {
        const struct pccl_descriptor descriptor = {.collective = (uint8_t)collectives[i % 3],
                                                   .datatype = PCCL_F32,
                                                   .operation = (uint8_t)operations[i / 3 % 3],
                                                   .codec = (uint8_t)(PCCL_PACKING_SCALED + i % PCCL_SCALED_FORMATS),
                                                   .codec_rounding = i / 2 % PCCL_SCALED_ROUNDINGS,
                                                   .codec_block = PCCL_SCALED_BLOCK_MIN,
                                                   .count = COUNT - i};
        run(&descriptor, 2 + i / 18, i / 9 % 2 == 1, i % 4 == 3, 1 + i);
    }
}
