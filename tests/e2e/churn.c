/*
 * churn BIT SEED OPS BYTES_MIN BYTES_MAX: steps of bulk reductions until stopped, for tests that
 * kill. Seed and step determine a step, so all peers know it: up to OPS sums, their sizes and types,
 * exact or quantized. Each peer decides whether it reduces in place. All are launched, all awaited,
 * and failed ones are launched again. Marks show the contributors of each sum. Events:
 *   failed  number of failures in this round, and whether their inputs are unchanged
 *   step    {"ops":[[mask,digest,world,bytes],...],"right":...}
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>

enum { OPS_IN_STEP = 8, FIRST_TAG = 1000, ROOM = 64 };

struct churned {
    struct marks marks;
    pcclReduceDescriptor_t descriptor;
    uint8_t *send, *recv; /* `recv` equals `send` when in place */
    size_t bytes;
    bool in_flight, done;
    pcclAsyncReduceOp_t handle;
    pcclReduceInfo_t info;
};

struct churn {
    struct loop loop; /* must be the first member */
    uint64_t seed, ops_max, bytes_min, bytes_max;
    int bit;
    uint8_t *blocks[OPS_IN_STEP][2];
    struct churned ops[OPS_IN_STEP];
    uint64_t count; /* number of operations in this step */
    uint64_t random, own_random;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t mixed = (*state ^ *state >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return (mixed ^ mixed >> 31) % below;
}

/* Draws a size; small and large ones are equally frequent. */
static size_t draw_bytes(struct churn *churn)
{
    size_t bytes = churn->bytes_min;
    while (bytes * 2 <= churn->bytes_max && draw(&churn->random, 4) != 0)
        bytes *= 2;
    bytes += draw(&churn->random, bytes);
    return bytes < churn->bytes_max ? bytes : churn->bytes_max;
}

static void prepare(struct churn *churn, uint64_t index)
{
    static const char *const exact[] = {"f32", "i64", "f64", "u32", "i32"};
    struct churned *op = &churn->ops[index];
    bool quantized = draw(&churn->random, 4) == 0;
    int type = values_type(quantized ? "f32" : exact[draw(&churn->random, 5)]);
    size_t element = values_element_bytes(type);
    size_t shift = draw(&churn->own_random, 2) ? draw(&churn->own_random, ROOM) : 0;
    char pattern[16];
    snprintf(pattern, sizeof pattern, "%s:%d", quantized ? "pair" : "mark", churn->bit);
    memset(op, 0, sizeof *op);
    op->marks.type = type;
    if (!marks_parse(&op->marks, pattern))
        exit(3);
    op->marks.op = values_op("sum");
    op->marks.count = draw_bytes(churn) / element;
    op->marks.salt = churn->loop.step * OPS_IN_STEP + index;
    op->marks.rough = quantized;
    op->bytes = op->marks.count * element;
    op->send = churn->blocks[index][0] + shift;
    op->recv = draw(&churn->own_random, 2) ? op->send : churn->blocks[index][1] + shift;
    op->descriptor = (pcclReduceDescriptor_t){.count = op->marks.count,
                                              .op = pcclSum,
                                              .tag = FIRST_TAG + index,
                                              .src_descriptor = {(pcclDataType_t)type, pcclDistributionNone}};
    if (quantized) {
        op->descriptor.quantization_options.algorithm = pcclQuantMinMax;
        op->descriptor.quantization_options.quantized_datatype = pcclUint8;
    }
    marks_fill(&op->marks, op->send);
}

static bool input_intact(const struct churned *op)
{
    struct marks own = op->marks;
    own.rough = false;
    return marks_check(&own, op->send, UINT64_C(1) << own.bit).right;
}

static pcclResult_t launch_missing(struct churn *churn)
{
    pcclResult_t result = pcclSuccess;
    for (uint64_t i = 0; i < churn->count && result == pcclSuccess; i++) {
        struct churned *op = &churn->ops[i];
        if (op->done)
            continue;
        result = pcclAllReduceAsync(op->send, op->recv, &op->descriptor, churn->loop.comm, &op->handle);
        op->in_flight = result == pcclSuccess;
    }
    return result;
}

static void report_failure(const struct churn *churn, uint64_t failed, bool intact, uint64_t at_us)
{
    struct line line;
    begin_line(&line);
    add(&line,
        "{\"id\":%s,\"event\":\"failed\",\"step\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"intact\":%s,\"at\":%" PRIu64,
        churn->loop.command->id, churn->loop.step, failed, intact ? "true" : "false", at_us);
    add_text(&line, "words", pcclGetLastError(churn->loop.comm));
    end_line(&line);
}

/* Returns success, or a failure that a retry does not fix. */
static pcclResult_t await_launched(struct churn *churn)
{
    pcclResult_t result = pcclSuccess;
    uint64_t failed = 0, at_us = 0;
    bool intact = true;
    for (uint64_t i = 0; i < churn->count; i++) {
        struct churned *op = &churn->ops[i];
        if (!op->in_flight)
            continue;
        pcclResult_t awaited = pcclAwaitAsyncReduce(&op->handle, &op->info);
        op->in_flight = false;
        op->done = awaited == pcclSuccess;
        if (op->done)
            continue;
        if (failed++ == 0)
            at_us = now_us();
        intact = input_intact(op) && intact;
        if (awaited != pcclRankConnectionLost)
            result = awaited;
    }
    if (failed > 0)
        report_failure(churn, failed, intact, at_us);
    return intact ? result : pcclInternalError;
}

static bool all_done(const struct churn *churn)
{
    for (uint64_t i = 0; i < churn->count; i++)
        if (!churn->ops[i].done)
            return false;
    return true;
}

static void report_step(const struct churn *churn, uint64_t end_us)
{
    struct line line;
    bool right = true;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"at\":%" PRIu64 ",\"ops\":[",
        churn->loop.command->id, churn->loop.step, end_us);
    for (uint64_t i = 0; i < churn->count; i++) {
        const struct churned *op = &churn->ops[i];
        struct marks_found found = marks_check(&op->marks, op->recv, 0);
        uint32_t peers = (uint32_t)__builtin_popcountll(found.mask);
        right = right && found.right && (found.mask >> op->marks.bit & 1) != 0 && peers == op->info.local_world_size &&
                (op->recv == op->send || input_intact(op));
        add(&line, "%s[%" PRIu64 ",\"%016" PRIx64 "\",%u,%zu]", i > 0 ? "," : "", found.mask,
            values_digest(op->recv, op->bytes, 0), op->info.local_world_size, op->bytes);
    }
    add(&line, "],\"right\":%s", right ? "true" : "false");
    end_line(&line);
}

static pcclResult_t make_step(struct loop *loop)
{
    struct churn *churn = (struct churn *)loop;
    pcclResult_t result = pcclSuccess;
    churn->random = churn->seed + loop->step * 0x100000001B3u;
    churn->count = 1 + draw(&churn->random, churn->ops_max);
    for (uint64_t i = 0; i < churn->count; i++)
        prepare(churn, i);
    while (result == pcclSuccess && !all_done(churn)) {
        pcclResult_t launched = launch_missing(churn);
        result = await_launched(churn);
        if (launched != pcclSuccess)
            result = launched;
    }
    if (result == pcclSuccess)
        report_step(churn, now_us());
    return result;
}

void do_churn(struct command *command)
{
    struct churn *churn = calloc(1, sizeof *churn);
    if (churn == NULL)
        exit(3);
    churn->loop = (struct loop){
        .command = command, .comm = command->slot->comm, .joined = true, .fresh = true, .make = make_step};
    churn->bit = (int)number(command, 0);
    churn->seed = number(command, 1);
    churn->ops_max = number(command, 2);
    churn->bytes_min = number(command, 3);
    churn->bytes_max = number(command, 4);
    churn->own_random = churn->seed * 31 + (uint64_t)churn->bit;
    if (churn->ops_max < 1 || churn->ops_max > OPS_IN_STEP || churn->bit > 23)
        bad_command(command, "out of range");
    for (uint64_t i = 0; i < churn->ops_max * 2; i++)
        if ((churn->blocks[i / 2][i % 2] = malloc(churn->bytes_max + ROOM)) == NULL)
            exit(3);
    run_loop(&churn->loop);
    for (uint64_t i = 0; i < churn->ops_max * 2; i++)
        free(churn->blocks[i / 2][i % 2]);
    free(churn);
}
