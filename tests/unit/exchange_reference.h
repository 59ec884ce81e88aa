/* The inputs of operations and the expected results: exact ones from a reference, quantized ones within bounds. */
#ifndef PCCL_TESTS_EXCHANGE_REFERENCE_H
#define PCCL_TESTS_EXCHANGE_REFERENCE_H

#include "support/numbers.h"
#include "unit/exchange_world.h"
#include "unit/test_codec_cases.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- numbers ---- */

static inline bool is_narrow(enum pccl_datatype datatype)
{
    return pccl_datatype_is_float(datatype) && pccl_datatype_bytes(datatype) < 4;
}

/*
 * Narrow floats that show at which step they are rounded: sums beyond the largest value whose average is in range, a
 * large number with small ones, random bits, and numbers that round in every sum.
 */
static inline void put_telling(const struct job *job, size_t index, uint32_t rank, uint64_t random)
{
    enum pccl_datatype datatype = (enum pccl_datatype)job->config.descriptor.datatype;
    uint16_t bits = (uint16_t)(random >> 32);
    const size_t size = pccl_datatype_bytes(datatype);
    switch (index % 4) {
    case 0: put_element(datatype, job->input, index, datatype == PCCL_F8_E4M3FN ? 300 : 40000); break;
    case 1: put_element(datatype, job->input, index, rank == 0 ? 256 : 1); break;
    case 2: memcpy(job->input + index * size, &bits, size); break;
    default: put_element(datatype, job->input, index, (double)(random % 100000) / 20000.0 - 2.5);
    }
}

static inline void fill_input(struct world *w, struct job *job, uint32_t rank)
{
    enum pccl_datatype datatype = (enum pccl_datatype)job->config.descriptor.datatype;
    bool telling = is_narrow(datatype) && job->config.descriptor.codec == PCCL_CODEC_NONE;
    size_t size = pccl_datatype_bytes(datatype);
    for (size_t i = 0; i < job->bytes; i += size) {
        uint64_t random = pccl_prng_u64(&w->prng);
        if (telling)
            put_telling(job, i / size, rank, random);
        else if (pccl_datatype_is_float(datatype))
            put_element(datatype, job->input + i, 0, (double)(random % 100000) / 20000.0 - 2.5);
        else
            memcpy(job->input + i, &random, size);
    }
    if (job->other_block != NULL)
        memset(job->result, 0xee, job->result_bytes);
    job_keep_input(job);
}

/* ---- the reference ---- */

static inline bool is_reduce(const struct pccl_plan *plan)
{
    return plan->algorithm == PCCL_REDUCE_CHAIN || plan->algorithm == PCCL_REDUCE_DIRECT;
}

/* The i-th rank whose part is folded into this segment: the owner of a share is last, and so is a root. */
static inline uint32_t rank_folded(const struct pccl_plan *plan, uint32_t piece, uint32_t i)
{
    uint32_t first = is_reduce(plan) ? plan->seat.root + 1 : piece + (plan->positions != NULL);
    return (first + i) % plan->seat.ranks;
}

/* The elements that a rank contributes to a segment, after its own conversion. The caller frees them. */
static inline uint8_t *contribution(const struct pccl_plan *plan, const struct job *job, struct pccl_segment segment)
{
    const size_t bytes = (size_t)segment.count * plan->element_bytes;
    uint8_t *made = malloc(bytes);
    assert_non_null(made);
    memcpy(made, job->before + (size_t)segment.first * plan->element_bytes, bytes);
    if (plan->reduction == PCCL_PREMUL_SUM)
        scale_elements(&datatypes[plan->datatype], made, segment.count, job->config.factor);
    return made;
}

static inline void expect_fold(const struct pccl_plan *plan, const struct job *jobs, uint8_t *result)
{
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe++)
        for (uint32_t piece = 0; piece < plan->pieces; piece++) {
            struct pccl_segment segment = pccl_plan_segment(plan, stripe, piece);
            size_t at = (size_t)segment.first * plan->element_bytes;
            uint8_t *made[RANKS_MOST];
            const void *parts[RANKS_MOST];
            if (segment.count == 0)
                continue;
            for (uint32_t i = 0; i < plan->seat.ranks; i++)
                parts[i] = made[i] = contribution(plan, &jobs[rank_folded(plan, piece, i)], segment);
            reduce_elements(&datatypes[plan->datatype], (pcclRedOp_t)plan->reduction, parts, plan->seat.ranks,
                            segment.count, result + at);
            for (uint32_t i = 0; i < plan->seat.ranks; i++)
                free(made[i]);
        }
}

/* ---- error of quantized results: the bounds of docs/CODECS.md, through all hops ---- */

/* The exact numbers of a segment, and the largest difference of the peers' numbers from them. */
struct numbers {
    number *exact;
    size_t count;
    number error;
};

/* `off`: the most by which the largest value may exceed the exact one. */
static inline number largest(const struct numbers *numbers, number off)
{
    number most = 0;
    for (size_t i = 0; i < numbers->count; i++)
        most = fmaxl(most, fabsl(numbers->exact[i]));
    return most + off;
}

static inline number range_of(const struct numbers *numbers)
{
    number low = numbers->exact[0], high = low;
    for (size_t i = 1; i < numbers->count; i++) {
        low = fminl(low, numbers->exact[i]);
        high = fmaxl(high, numbers->exact[i]);
    }
    return high - low + 2 * numbers->error;
}

/* Rounds the numbers once to the type of the elements. */
static inline void round_off(struct numbers *numbers, enum pccl_datatype datatype)
{
    const struct float_format format = format_of(datatype);
    numbers->error += (number)format.half_ulp * largest(numbers, numbers->error) + 2 * (number)format.smallest;
}

/*
 * Rounds the numbers by a scaled codec. The error is the widest step of its format, as a share of the largest number;
 * all of it under stochastic rounding, and twice as wide with a power of two as scale.
 */
static inline number scaled_error(const struct pccl_descriptor *descriptor, number most)
{
    static const number steps[PCCL_SCALED_FORMATS] = {32 / 448.0L, 8192 / 57344.0L, 1 / 7.0L, 0.5L, 2 / 6.0L};
    number step = steps[descriptor->codec - PCCL_PACKING_SCALED] * most * 1.01L;
    if (descriptor->codec_scale == PCCL_SCALED_POWER)
        step *= 2;
    return descriptor->codec_rounding == PCCL_SCALED_STOCHASTIC ? step : step / 2;
}

/* Packs and unpacks the numbers once. The range of a block is at most the segment's. */
static inline void pack(struct numbers *numbers, const struct pccl_descriptor *descriptor)
{
    if (descriptor->codec >= PCCL_PACKING_SCALED) {
        numbers->error += scaled_error(descriptor, largest(numbers, numbers->error));
        return;
    }
    const bool is_double = descriptor->datatype == PCCL_F64;
    const number unit_of_rounding = is_double ? 0x1p-53L : 0x1p-24L;
    const number codes = powl(256, (number)pccl_datatype_bytes((enum pccl_datatype)descriptor->codec_datatype)) - 1;
    const number range = range_of(numbers), most = largest(numbers, numbers->error);
    number step = range / codes;
    if (descriptor->codec == PCCL_CODEC_ZERO_POINT_SCALE)
        step = fmaxl(range / (codes - 1), most / (is_double ? 0x1p48L : 0x1p20L));
    numbers->error += step / 2 + unit_of_rounding * (8 * range + 4 * most);
}

static inline void combine(struct numbers *sum, const struct numbers *part, enum pccl_reduce_op reduction)
{
    switch (reduction) {
    case PCCL_SUM:
    case PCCL_PREMUL_SUM:
    case PCCL_AVG: sum->error += part->error; break;
    case PCCL_PROD: sum->error = largest(sum, sum->error) * part->error + largest(part, 0) * sum->error; break;
    default: sum->error = fmaxl(sum->error, part->error);
    }
    for (size_t i = 0; i < sum->count; i++)
        switch (reduction) {
        case PCCL_SUM:
        case PCCL_PREMUL_SUM:
        case PCCL_AVG: sum->exact[i] += part->exact[i]; break;
        case PCCL_PROD: sum->exact[i] *= part->exact[i]; break;
        case PCCL_MAX: sum->exact[i] = fmaxl(sum->exact[i], part->exact[i]); break;
        default: sum->exact[i] = fminl(sum->exact[i], part->exact[i]);
        }
}

static inline struct numbers numbers_of(const struct pccl_plan *plan, const struct job *job,
                                        struct pccl_segment segment)
{
    struct numbers numbers = {.exact = calloc(segment.count, sizeof(number)), .count = segment.count};
    uint8_t *made = contribution(plan, job, segment);
    assert_non_null(numbers.exact);
    for (size_t i = 0; i < segment.count; i++)
        numbers.exact[i] = (number)get_element(plan->datatype, made, i);
    free(made);
    return numbers;
}

/*
 * Along the ring sums are packed; in direct exchange the parts of all ranks except the owner. The result is packed
 * last, unless no other rank gets it. With 16 bits the sums are floats; the result and the numbers unpacked from it are
 * rounded.
 */
static inline struct numbers fold_numbers(const struct pccl_plan *plan, const struct job *jobs, uint32_t piece,
                                          struct pccl_segment segment)
{
    const struct pccl_descriptor *descriptor = &jobs->config.descriptor;
    const bool ring =
        plan->algorithm == PCCL_RING || plan->algorithm == PCCL_SCATTER_RING || plan->algorithm == PCCL_REDUCE_CHAIN;
    const enum pccl_datatype sums = is_narrow(plan->datatype) ? PCCL_F32 : plan->datatype;
    struct numbers sum = numbers_of(plan, &jobs[rank_folded(plan, piece, 0)], segment);
    for (uint32_t i = 1; i < plan->seat.ranks; i++) {
        struct numbers part = numbers_of(plan, &jobs[rank_folded(plan, piece, i)], segment);
        if (ring || i == 1)
            pack(&sum, descriptor);
        if (!ring && i + 1 < plan->seat.ranks)
            pack(&part, descriptor);
        combine(&sum, &part, plan->reduction);
        round_off(&sum, sums);
        free(part.exact);
    }
    if (plan->reduction == PCCL_AVG) {
        for (size_t i = 0; i < sum.count; i++)
            sum.exact[i] /= plan->seat.ranks;
        sum.error /= plan->seat.ranks;
        round_off(&sum, sums);
    }
    if (is_narrow(plan->datatype))
        round_off(&sum, plan->datatype);
    if (plan->positions != NULL || is_reduce(plan))
        return sum;
    pack(&sum, descriptor);
    if (is_narrow(plan->datatype))
        round_off(&sum, plan->datatype);
    return sum;
}

static inline void expect_near(const struct pccl_plan *plan, const struct job *jobs, const uint8_t *result)
{
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe++)
        for (uint32_t piece = 0; piece < plan->pieces; piece++) {
            const struct pccl_segment segment = pccl_plan_segment(plan, stripe, piece);
            if (segment.count == 0)
                continue;
            struct numbers expected = fold_numbers(plan, jobs, piece, segment);
            for (size_t i = 0; i < segment.count; i++) {
                const number found = (number)get_element(plan->datatype, result, (size_t)segment.first + i);
                if (!(fabsl(found - expected.exact[i]) <= expected.error))
                    fail_msg("element %llu: %Lg, expected %Lg, within %Lg", (unsigned long long)segment.first + i,
                             found, expected.exact[i], expected.error);
            }
            free(expected.exact);
        }
}

#endif
