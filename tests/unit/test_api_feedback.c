/*
 * Error feedback through the public functions, with three peers. The delivered sums and the residuals together equal
 * the input, after any failure in between.
 */
#include "api_world.h"

#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

enum { COUNT = 6007, SHORT_COUNT = 100 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_two(void **state) { return start_world(state, 2, "8192"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static pcclQuantizationOptions_t codec_of(pcclQuantizationAlgorithm_t format)
{
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    pcclQuantizationOptions_t codec;
    params.format = format;
    params.block = 64;
    params.rounding = format == pcclQuantE3M0 ? pcclRoundStochastic : pcclRoundNearest;
    params.feedback = true;
    assert_int_equal(pcclCreateCodec(&params, &codec), pcclSuccess);
    return codec;
}

static pcclCollectiveOptions_t options_of(pcclQuantizationAlgorithm_t format, uint64_t tag)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = tag;
    options.quantization = codec_of(format);
    options.alone_ok = true;
    return options;
}

/* A sequence of operations of one kind. */
struct sequence {
    const char *name;
    pcclQuantizationAlgorithm_t format;
    pcclDataType_t datatype;
    pcclRedOp_t op;
    size_t count;
    int rounds, aborted; /* every `aborted` rounds one round is aborted */
    bool in_place, scatters;
};

static int aborted;
static double given[3 * COUNT], delivered[3 * COUNT];
static float inputs[PEERS][3 * COUNT], results[PEERS][3 * COUNT], kept[PEERS][3 * COUNT];

static void store(pcclDataType_t datatype, void *elements, size_t index, float value)
{
    if (datatype == pcclFloat)
        ((float *)elements)[index] = value;
    else
        ((uint16_t *)elements)[index] = datatype == pcclFloat16 ? pccl_f32_to_f16(value) : pccl_f32_to_bf16(value);
}

static float load(pcclDataType_t datatype, const void *elements, size_t index)
{
    uint16_t half = ((const uint16_t *)elements)[index];
    return datatype == pcclFloat     ? ((const float *)elements)[index]
           : datatype == pcclFloat16 ? pccl_f16_to_f32(half)
                                     : pccl_bf16_to_f32(half);
}

static float value(int peer, int round, size_t index)
{
    return (float)((index * 31 + (size_t)peer * 17 + (size_t)round * 7) % 101 + 1) * 0.013f;
}

static size_t input_count(const struct sequence *s, const struct world *world)
{
    return s->scatters ? s->count * (size_t)world->count : s->count;
}

static void launch(const struct sequence *s, struct world *world, int peer, pcclAsyncReduceOp_t *handle)
{
    pcclCollectiveOptions_t options = options_of(s->format, 9);
    float *to = s->in_place ? inputs[peer] : results[peer];
    if (s->op == pcclPremulSum)
        options.factor = 0.5;
    if (s->scatters)
        assert_int_equal(pcclReduceScatterAsync(inputs[peer], to, s->count, s->datatype, s->op, &options,
                                                world->peers[peer], handle),
                         pcclSuccess);
    else
        assert_int_equal(pcclAllReduceWithOptionsAsync(inputs[peer], to, s->count, s->datatype, s->op, &options,
                                                       world->peers[peer], handle),
                         pcclSuccess);
}

static void get_kept(const struct sequence *s, struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        size_t count = input_count(s, world);
        assert_int_equal(pcclGetFeedback(world->peers[i], 9, kept[i], &count), pcclSuccess);
    }
}

/* Runs a round that may be aborted, in one of two ways. Returns true if it has committed. */
static bool run(const struct sequence *s, struct world *world, int round)
{
    pcclAsyncReduceOp_t handles[PEERS];
    const bool gives_up = s->aborted && round % s->aborted == 0, before_all_have_come = round % 2 == 0;
    int committed = 0, last = world->count - 1;
    for (int i = 0; i <= last; i++) {
        launch(s, world, i, &handles[i]);
        if (gives_up && (before_all_have_come ? i == 0 : i == last))
            assert_int_equal(pcclAbortOperations(world->peers[i]), pcclSuccess);
    }
    for (int i = 0; i <= last; i++)
        committed += pcclAwaitOperation(&handles[i], UINT32_MAX, NULL) == pcclSuccess;
    assert_true(committed == world->count || (committed == 0 && gives_up));
    aborted += committed == 0;
    return committed > 0;
}

static void account(const struct sequence *s, struct world *world, int round)
{
    const double times = s->op == pcclAvg ? world->count : 1, factor = s->op == pcclPremulSum ? 0.5 : 1;
    const void *found = s->in_place ? inputs : results;
    for (int i = 0; i < world->count; i++) {
        for (size_t k = 0, count = input_count(s, world); k < count; k++)
            given[k] += factor * (double)value(i, round, k);
        const void *peers = (const char *)found + (size_t)i * sizeof inputs[0];
        if (s->scatters || i == 0) {
            for (size_t k = 0; k < s->count; k++)
                delivered[(s->scatters ? (size_t)i * s->count : 0) + k] += times * (double)load(s->datatype, peers, k);
        } else {
            assert_memory_equal(peers, found, s->count * (s->datatype == pcclFloat ? 4 : 2));
        }
    }
}

static void all_arrives_sooner_or_later(struct world *world, const struct sequence *s)
{
    const size_t count = input_count(s, world);
    const double share = s->datatype == pcclFloat ? 1e-5 : s->datatype == pcclFloat16 ? 1e-3 : 8e-3;
    memset(given, 0, sizeof given);
    memset(delivered, 0, sizeof delivered);
    for (int i = 0; i < world->count; i++) {
        for (size_t k = 0; k < count; k++)
            given[k] += (double)(kept[i][k] = 1e-4f * (float)(k % 7));
        assert_int_equal(pcclSetFeedback(world->peers[i], 9, kept[i], count), pcclSuccess);
    }
    for (int round = 0; round < s->rounds; round++) {
        for (int i = 0; i < world->count; i++) {
            for (size_t k = 0; k < count; k++)
                store(s->datatype, inputs[i], k, value(i, round, k));
        }
        if (run(s, world, round))
            account(s, world, round);
    }
    get_kept(s, world);
    double missing = 0;
    for (size_t k = 0; k < count; k++) {
        double sum = delivered[k];
        for (int i = 0; i < world->count; i++) {
            sum += (double)kept[i][k];
            missing += fabs((double)kept[i][k]);
        }
        if (!(fabs(sum - given[k]) <= share * given[k]))
            fail_msg("%s: element %zu: %g was given, %g came", s->name, k, given[k], sum);
    }
    assert_true(missing > 0); /* otherwise nothing was packed, and the test proved nothing */
}

GROUP(start_three, end_world)

/* Some of the 50 aborted operations may have been decided before. */
WORLD_TEST(sums_of_many)
{
    const struct sequence s = {"int4", pcclQuantInt4, pcclFloat, pcclSum, COUNT, 1000, 20, false, false};
    aborted = 0;
    all_arrives_sooner_or_later(world, &s);
    assert_true(aborted > 0);
}

WORLD_TEST(all_kinds)
{
    static const struct sequence sequences[] = {
        {"e3m0, average, in place", pcclQuantE3M0, pcclFloat, pcclAvg, COUNT, 60, 5, true, false},
        {"e2m1, times a factor", pcclQuantE2M1, pcclFloat, pcclPremulSum, COUNT, 20, 0, false, false},
        {"e4m3, bf16", pcclQuantE4M3, pcclBFloat16, pcclSum, COUNT, 20, 7, false, false},
        {"int4, f16, average", pcclQuantInt4, pcclFloat16, pcclAvg, COUNT, 20, 7, true, false},
        {"int4, bf16, times a factor", pcclQuantInt4, pcclBFloat16, pcclPremulSum, COUNT, 20, 0, false, false},
        {"int4, shares", pcclQuantInt4, pcclFloat, pcclSum, COUNT, 20, 7, false, true},
        {"through the master, f16", pcclQuantInt4, pcclFloat16, pcclSum, SHORT_COUNT, 20, 7, false, false},
    };
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        all_arrives_sooner_or_later(world, &sequences[i]);
}

WORLD_TEST(what_is_not_finite_is_not_kept)
{
    const struct sequence s = {"NaN", pcclQuantInt4, pcclFloat, pcclSum, COUNT, 1, 0, false, false};
    for (int i = 0; i < world->count; i++) {
        for (size_t k = 0; k < COUNT; k++)
            inputs[i][k] = k % 100 == 7 && i == 1 ? k % 200 == 7 ? NAN : INFINITY : value(i, 0, k);
    }
    assert_true(run(&s, world, 0));
    get_kept(&s, world);
    for (int i = 0; i < world->count; i++) {
        for (size_t k = 0; k < COUNT; k++)
            assert_true(isfinite(kept[i][k]) && (k % 100 != 7 || isnan(results[i][k])));
    }
}

WORLD_TEST(it_is_handed_out_and_in)
{
    const struct sequence s = {"", pcclQuantInt4, pcclFloat, pcclSum, COUNT, 1, 0, false, false};
    struct sequence other = s;
    static float first[PEERS][3 * COUNT];
    pcclAsyncReduceOp_t handles[PEERS];
    size_t count = 7;
    for (int i = 0; i < world->count; i++) {
        for (size_t k = 0; k < COUNT; k++)
            inputs[i][k] = value(i, 0, k);
        assert_int_equal(pcclSetFeedback(world->peers[i], 9, inputs[i], COUNT), pcclSuccess);
    }
    get_kept(&s, world);
    assert_memory_equal(kept[1], inputs[1], COUNT * sizeof(float));
    assert_true(run(&s, world, 0));
    memcpy(first, results, sizeof first);
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclSetFeedback(world->peers[i], 9, kept[i], COUNT), pcclSuccess);
    assert_true(run(&s, world, 0));
    assert_memory_equal(first, results, sizeof first); /* the same inputs give the same results */
    assert_int_equal(pcclGetFeedback(world->peers[0], 9, results[0], &count), pcclInvalidArgument);
    words_say(world->peers[0], "6007 floats of error feedback, not 7");
    assert_int_equal(pcclGetFeedback(world->peers[0], 9, NULL, &count), pcclSuccess);
    assert_int_equal(count, COUNT);
    assert_int_equal(pcclGetFeedback(world->peers[0], 9, NULL, NULL), pcclInvalidArgument);
    assert_int_equal(pcclSetFeedback(world->peers[0], 9, NULL, 1), pcclInvalidArgument);
    launch(&s, world, 0, &handles[0]);
    assert_int_equal(pcclSetFeedback(world->peers[0], 9, NULL, 0), pcclInvalidUsage);
    words_say(world->peers[0], "not yet awaited");
    for (int i = 1; i < world->count; i++)
        launch(&s, world, i, &handles[i]);
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclSuccess);
    other.count = COUNT - 1; /* another shape: the residual is dropped */
    assert_true(run(&other, world, 0));
    assert_int_equal(pcclGetFeedback(world->peers[0], 9, NULL, &count), pcclSuccess);
    assert_int_equal(count, COUNT - 1);
    get_kept(&other, world);
    memcpy(first, kept, sizeof first);
    other.format = pcclQuantE2M1; /* and so it is with another codec */
    assert_true(run(&other, world, 0));
    memcpy(first, results, sizeof first);
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclSetFeedback(world->peers[i], 9, NULL, 0), pcclSuccess);
    assert_true(run(&other, world, 0));
    assert_memory_equal(first[0], results[0], sizeof first[0]);
}

WORLD_TEST(what_has_none_is_explained)
{
    pcclCollectiveOptions_t options = options_of(pcclQuantInt4, 9);
    assert_int_equal(
        pcclAllReduceWithOptions(inputs[0], results[0], COUNT, pcclFloat, pcclMax, &options, world->peers[0], NULL),
        pcclInvalidArgument);
    words_say(world->peers[0], "a sum or an average");
    assert_int_equal(pcclBroadcast(inputs[0], COUNT, pcclFloat, 0, &options, world->peers[0], NULL),
                     pcclInvalidArgument);
    words_say(world->peers[0], "a sum or an average");
    assert_int_equal(pcclSetFeedback(world->peers[0], 1, inputs[0], (size_t)1 << 40), pcclInternalError);
    words_say(world->peers[0], "feedback_mib");
}

GROUP(start_one, end_world)

WORLD_TEST(alone_it_is_added)
{
    const float x[2] = {1, 2}, more[2] = {0.5f, -0.25f};
    float y[2];
    size_t count = 2;
    pcclCollectiveOptions_t options = options_of(pcclQuantInt4, 9);
    assert_int_equal(pcclSetFeedback(world->peers[0], 9, more, 2), pcclSuccess);
    assert_int_equal(pcclAllReduceWithOptions(x, y, 2, pcclFloat, pcclSum, &options, world->peers[0], NULL),
                     pcclSuccess);
    assert_true(y[0] == 1.5f && y[1] == 1.75f);
    assert_int_equal(pcclGetFeedback(world->peers[0], 9, y, &count), pcclSuccess);
    assert_true(y[0] == 0 && y[1] == 0);
}

GROUP(start_two, end_world)
AGAIN(all_kinds)
