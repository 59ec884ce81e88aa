/*
 * Premultiplied sums, and reductions that do not fit their types, through the public functions: three
 * peers here, with payloads that go through the master and such that do not.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_world.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 20011 };
static const size_t counts[] = {1, 600, LARGE};
/* The second one's contribution is its input. */
static const double factors[PEERS] = {0.5, 1, -2};

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static float value(int peer, size_t index) { return (float)((index * 7 + (size_t)peer * 3) % 61); }

static float sum(size_t index) { return 0.5f * value(0, index) + value(1, index) - 2 * value(2, index); }

static pcclCollectiveOptions_t options_of(int peer, uint64_t tag)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = tag;
    options.factor = factors[peer];
    return options;
}

/* The buffers of one operation: the input of each peer, and its result; in place the result is not used. */
struct buffers {
    float in[PEERS][PEERS * LARGE], out[PEERS][PEERS * LARGE];
};
static struct buffers buffers;

static void fill(void)
{
    for (int i = 0; i < PEERS; i++) {
        for (size_t k = 0; k < PEERS * LARGE; k++)
            buffers.in[i][k] = value(i, k);
    }
}

static void check(const float *found, size_t count, size_t from)
{
    for (size_t k = 0; k < count; k++)
        assert_true(found[k] == sum(from + k));
}

static void check_input(int peer, size_t count)
{
    for (size_t k = 0; k < count; k++)
        assert_true(buffers.in[peer][k] == value(peer, k));
}

/* An all-reduce of one peer. */
static void launch(struct world *world, int peer, float *result, size_t count, pcclRedOp_t op,
                   const pcclCollectiveOptions_t *options, pcclAsyncReduceOp_t *handle)
{
    assert_int_equal(pcclAllReduceWithOptionsAsync(buffers.in[peer], result, count, pcclFloat, op, options,
                                                   world->peers[peer], handle),
                     pcclSuccess);
}

static void await_all(pcclAsyncReduceOp_t *handles, pcclResult_t result)
{
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), result);
}

static void each_contribution_is_multiplied(void **state)
{
    struct world *world = *state;
    pcclAsyncReduceOp_t handles[PEERS];
    for (size_t c = 0; c < 2 * sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c / 2];
        const bool in_place = c % 2;
        fill();
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = options_of(i, 1);
            float *to = in_place ? buffers.in[i] : buffers.out[i];
            launch(world, i, to, count, pcclPremulSum, &options, &handles[i]);
        }
        await_all(handles, pcclSuccess);
        for (int i = 0; i < PEERS; i++) {
            check(in_place ? buffers.in[i] : buffers.out[i], count, 0);
            if (!in_place)
                check_input(i, count);
        }
    }
}

static void shares_and_one_for_a_root_too(void **state)
{
    struct world *world = *state;
    pcclAsyncReduceOp_t handles[PEERS];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        fill();
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = options_of(i, 2);
            assert_int_equal(pcclReduceScatterAsync(buffers.in[i], buffers.out[i], counts[c], pcclFloat, pcclPremulSum,
                                                    &options, world->peers[i], &handles[i]),
                             pcclSuccess);
        }
        await_all(handles, pcclSuccess);
        for (int i = 0; i < PEERS; i++) {
            check(buffers.out[i], counts[c], (size_t)i * counts[c]);
            check_input(i, PEERS * counts[c]);
        }
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = options_of(i, 4);
            assert_int_equal(pcclReduceAsync(buffers.in[i], buffers.out[i], counts[c], pcclFloat, pcclPremulSum, 1,
                                             &options, world->peers[i], &handles[i]),
                             pcclSuccess);
        }
        await_all(handles, pcclSuccess);
        check(buffers.out[1], counts[c], 0);
    }
}

static void quantized_it_is_close(void **state)
{
    struct world *world = *state;
    pcclAsyncReduceOp_t handles[PEERS];
    fill();
    for (int i = 0; i < PEERS; i++) {
        pcclCollectiveOptions_t options = options_of(i, 3);
        options.quantization = (pcclQuantizationOptions_t){pcclUint16, pcclQuantZeroPointScale};
        launch(world, i, buffers.out[i], LARGE, pcclPremulSum, &options, &handles[i]);
    }
    await_all(handles, pcclSuccess);
    for (size_t k = 0; k < LARGE; k++)
        assert_true(buffers.out[0][k] > sum(k) - 0.1f && buffers.out[0][k] < sum(k) + 0.1f);
    for (int i = 1; i < PEERS; i++)
        assert_memory_equal(buffers.out[i], buffers.out[0], LARGE * sizeof(float));
}

struct listed {
    int peer;
    pcclComm_t *comm;
    pcclResult_t result;
};

/* In a list, beside one that is not multiplied. */
static void run_list(void *argument)
{
    struct listed *listed = argument;
    const int peer = listed->peer;
    pcclCollectiveOptions_t scaled = options_of(peer, 5), plain = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclOperation_t list[2] = {PCCL_OPERATION_INIT, PCCL_OPERATION_INIT};
    plain.tag = 6;
    for (int i = 0; i < 2; i++) {
        list[i].sendbuf = buffers.in[peer] + (size_t)i * LARGE;
        list[i].recvbuf = buffers.out[peer] + (size_t)i * LARGE;
        list[i].count = LARGE;
        list[i].datatype = pcclFloat;
        list[i].op = i ? pcclMax : pcclPremulSum;
        list[i].options = i ? &plain : &scaled;
    }
    listed->result = pcclRunOperations(list, 2, NULL, listed->comm);
}

static void it_may_be_in_a_list(void **state)
{
    struct world *world = *state;
    struct listed listed[PEERS];
    uv_thread_t threads[PEERS];
    fill();
    for (int i = 0; i < PEERS; i++) {
        listed[i] = (struct listed){.peer = i, .comm = world->peers[i]};
        assert_int_equal(uv_thread_create(&threads[i], run_list, &listed[i]), 0);
    }
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(listed[i].result, pcclSuccess);
    }
    for (int i = 0; i < PEERS; i++)
        check(buffers.out[i], LARGE, 0);
}

/* One multiplies, the others do not. */
static void who_does_not_multiply_is_told(void **state)
{
    struct world *world = *state;
    pcclAsyncReduceOp_t handles[PEERS];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        fill();
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = options_of(i, 7);
            options.factor = i == 0 ? 3 : 1;
            launch(world, i, buffers.in[i], counts[c], i == 0 ? pcclPremulSum : pcclSum, &options, &handles[i]);
        }
        for (int i = 0; i < PEERS; i++) {
            pcclResult_t expected = i == 2 ? pcclPeerMismatch : pcclInvalidUsage;
            assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), expected);
            words_say(world->peers[i], "premultiplied sum");
            check_input(i, counts[c]);
        }
        update_all(world);
    }
}

static void refuse(struct world *world, pcclDataType_t datatype, pcclRedOp_t op, double factor, const char *words)
{
    static double x[4], y[4];
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.factor = factor;
    assert_int_equal(pcclAllReduceWithOptions(x, y, 4, datatype, op, &options, world->peers[0], NULL),
                     pcclInvalidArgument);
    words_say(world->peers[0], words);
}

static void what_does_not_fit_is_explained(void **state)
{
    struct world *world = *state;
    refuse(world, pcclFloat, pcclAnd, 1, "and, or and xor take integers and bool, no floats");
    refuse(world, pcclFloat8E4M3FN, pcclXor, 1, "no floats");
    refuse(world, pcclBool, pcclAvg, 1, "bool has no average");
    refuse(world, pcclInt32, pcclPremulSum, 2, "a premultiplied sum takes floats only");
    refuse(world, pcclBool, pcclPremulSum, 2, "a premultiplied sum takes floats only");
    refuse(world, pcclFloat, pcclSum, 2, "only a premultiplied sum is given a factor");
    float x = 1, y = 0;
    pcclAsyncReduceOp_t handle;
    pcclReduceDescriptor_t descriptor = {.count = 1, .op = pcclPremulSum, .src_descriptor = {.datatype = pcclFloat}};
    assert_int_equal(pcclAllReduceAsync(&x, &y, &descriptor, world->peers[0], &handle), pcclInvalidArgument);
    words_say(world->peers[0], "is given its factor by pcclAllReduceWithOptions");
}

static void alone_it_is_multiplied(void **state)
{
    struct world *world = *state;
    pcclCollectiveOptions_t options = options_of(2, 1);
    options.alone_ok = true;
    float x[3] = {1, 2, 3}, y[3];
    assert_int_equal(pcclAllReduceWithOptions(x, y, 3, pcclFloat, pcclPremulSum, &options, world->peers[0], NULL),
                     pcclSuccess);
    assert_true(y[0] == -2 && y[1] == -4 && y[2] == -6 && x[2] == 3);
    assert_int_equal(pcclReduceScatter(x, x, 3, pcclFloat, pcclPremulSum, &options, world->peers[0], NULL),
                     pcclSuccess);
    assert_memory_equal(x, y, sizeof x);
    options.factor = 1;
    uint8_t given[3] = {0, 1, 7}, got[3];
    assert_int_equal(pcclAllReduceWithOptions(given, got, 3, pcclBool, pcclSum, &options, world->peers[0], NULL),
                     pcclSuccess);
    assert_true(got[0] == 0 && got[1] == 1 && got[2] == 1);
}

int main(void)
{
    const struct CMUnitTest three[] = {
        cmocka_unit_test(each_contribution_is_multiplied), cmocka_unit_test(shares_and_one_for_a_root_too),
        cmocka_unit_test(quantized_it_is_close),           cmocka_unit_test(it_may_be_in_a_list),
        cmocka_unit_test(who_does_not_multiply_is_told),   cmocka_unit_test(what_does_not_fit_is_explained),
    };
    const struct CMUnitTest one[] = {cmocka_unit_test(alone_it_is_multiplied)};
    return cmocka_run_group_tests(three, start_three, end_world) + cmocka_run_group_tests(one, start_one, end_world);
}
