/*
 * The checks of the kernels: every variant that this processor can run produces the bits of the reference. Does not use
 * cmocka, so that the same checks run in test_kernels.c and, compiled for another processor, in kernels_plain.c. A
 * check prints the difference and returns false.
 */
#ifndef PCCL_TESTS_UNIT_KERNELS_CHECK_H
#define PCCL_TESTS_UNIT_KERNELS_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/prng.h"
#include "kernels/scaled.h"
#include "kernels/sparse.h"
#include "kernels/variant.h"

#include "cpu.h"

enum {
    OFFSETS = 64,           /* every misalignment within a line of the cache */
    BUFFER_BYTES = 1 << 19, /* 65536 pairs, 8 bytes an element */
    GUARD_BYTES = 64,
    GUARD = 0xa5,
    PARTS = 9,
};

struct buffer {
    uint8_t bytes[BUFFER_BYTES + OFFSETS + 2 * GUARD_BYTES];
};

/* ---- data: special values, values near each other, random bits ---- */

static uint64_t ones(size_t size) { return size == 8 ? UINT64_MAX : (UINT64_C(1) << (size * 8)) - 1; }

/* Zero, the least, the greatest; of floats also subnormals, one, infinity, and NaNs of all kinds; of either sign. */
static uint64_t special(enum pccl_datatype type, uint64_t choice)
{
    static const uint64_t of_floats[][9] = {
        {0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7c01, 0x7e12},
        {0, 1, 0x7f, 0x80, 0x3f80, 0x7f7f, 0x7f80, 0x7f81, 0x7fd2},
        {0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc01234},
        {0, 1, 0xfffffffffffff, 0x10000000000000, 0x3ff0000000000000, 0x7fefffffffffffff, 0x7ff0000000000000,
         0x7ff0000000000001, 0x7ff8000000012345},
        {0, 1, 2, 3, 0x7f, 0x7e, 0x55, 0xaa, 0x70}, /* bools */
        {0, 1, 7, 8, 0x38, 0x7d, 0x7e, 0x7f, 0x7f},
        {0, 1, 3, 4, 0x3c, 0x7b, 0x7c, 0x7d, 0x7f},
    };
    const size_t size = pccl_datatype_bytes(type);
    const uint64_t sign = UINT64_C(1) << (size * 8 - 1);
    if (type >= PCCL_F16)
        return of_floats[type - PCCL_F16][choice / 2 % 9] | (choice % 2 != 0 ? sign : 0);
    const uint64_t of_integers[] = {0, 1, ones(size), sign, sign - 1, sign + 1};
    return of_integers[choice % PCCL_COUNT_OF(of_integers)];
}
enum { SPECIALS = 18 };

/* Little-endian machines only, as everywhere in the tests. */
static void put(uint8_t *elements, size_t i, size_t size, uint64_t bits) { memcpy(elements + i * size, &bits, size); }

static void fill(struct pccl_prng *prng, enum pccl_datatype type, uint8_t *elements, size_t count)
{
    const size_t size = pccl_datatype_bytes(type);
    const uint64_t near = special(type, 8) - (UINT64_C(3) << (size * 4)); /* floats around one: sums that round */
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = pccl_prng_u64(prng);
        uint64_t kind = bits >> 56 & 7;
        if (kind == 0) {
            bits = special(type, bits);
        } else if (kind < 4) {
            bits = near + (bits & ones(size) >> size * 2);
        }
        put(elements, i, size, bits);
    }
}

/* ---- comparison ---- */

struct subject {
    const struct pccl_kernels *kernels;
    enum pccl_datatype type;
    enum pccl_reduce_op reduction;
};

static bool same(struct subject subject, const char *what, const uint8_t *got, const uint8_t *expected, size_t count)
{
    const size_t size = pccl_datatype_bytes(subject.type);
    if (memcmp(got, expected, count * size) == 0)
        return true;
    size_t i = 0;
    while (memcmp(got + i * size, expected + i * size, size) == 0)
        i++;
    uint64_t got_bits = 0, expected_bits = 0;
    memcpy(&got_bits, got + i * size, size);
    memcpy(&expected_bits, expected + i * size, size);
    printf("%s %s %s: %s: element %zu of %zu is %" PRIx64 ", not %" PRIx64 "\n", pccl_kernels_name(subject.kernels),
           pccl_datatype_name(subject.type), pccl_reduce_op_name(subject.reduction), what, i, count, got_bits,
           expected_bits);
    return false;
}

static bool untouched(const uint8_t *bytes)
{
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD)
            return false;
    }
    return true;
}

/* The average of a pair is the sum until the end. */
static enum pccl_reduce_op without_end(enum pccl_reduce_op reduction)
{
    return reduction == PCCL_AVG ? PCCL_SUM : reduction;
}

/* Calls check for each type and reduction. */
static bool for_each(const struct pccl_kernels *kernels, bool (*check)(struct subject subject))
{
    for (int type = 0; type < PCCL_DATATYPES; type++) {
        for (int reduction = 0; reduction < PCCL_REDUCE_OPS; reduction++) {
            const struct subject s = {kernels, (enum pccl_datatype)type, (enum pccl_reduce_op)reduction};
            if (pccl_reduction_misfit(s.type, s.reduction) == NULL && !check(s))
                return false;
        }
    }
    return true;
}

static struct buffer left, right, result, expected;

/*
 * result = left op right at each place: at a third one, over one operand, over the other, over both if they are the
 * same.
 */
static bool combines(struct subject s, uint8_t *a, uint8_t *b, uint8_t *c, size_t count)
{
    const size_t size = pccl_datatype_bytes(s.type);
    const void *const parts[] = {a, b};
    pccl_reduce_all(s.type, without_end(s.reduction), parts, 2, count, expected.bytes);
    memset(c - GUARD_BYTES, GUARD, count * size + 2 * GUARD_BYTES);
    pccl_combine(s.kernels, s.type, s.reduction, c, a, b, count);
    if (!same(s, "apart", c, expected.bytes, count))
        return false;
    if (!untouched(c - GUARD_BYTES) || !untouched(c + count * size)) {
        printf("%s %s: %zu elements: more was written\n", s.kernels->name, pccl_datatype_name(s.type), count);
        return false;
    }
    memcpy(c, a, count * size);
    pccl_combine(s.kernels, s.type, s.reduction, c, c, b, count);
    if (!same(s, "over a", c, expected.bytes, count))
        return false;
    memcpy(c, b, count * size);
    pccl_combine(s.kernels, s.type, s.reduction, c, a, c, count);
    if (!same(s, "over b", c, expected.bytes, count))
        return false;
    const void *const twice[] = {a, a};
    pccl_reduce_all(s.type, without_end(s.reduction), twice, 2, count, expected.bytes);
    memcpy(c, a, count * size);
    pccl_combine(s.kernels, s.type, s.reduction, c, c, c, count);
    return same(s, "over both", c, expected.bytes, count);
}

/* ---- the checks ---- */

static bool all_pairs_of_bytes_of(struct subject s)
{
    if (pccl_datatype_bytes(s.type) != 1)
        return true;
    for (uint32_t i = 0; i < 65536; i++) {
        left.bytes[i] = (uint8_t)(i >> 8);
        right.bytes[i] = (uint8_t)i;
    }
    return combines(s, left.bytes, right.bytes, result.bytes + GUARD_BYTES, 65536);
}

static bool all_pairs_of_bytes(const struct pccl_kernels *kernels) { return for_each(kernels, all_pairs_of_bytes_of); }

static bool all_pairs_of_specials_of(struct subject s)
{
    const size_t size = pccl_datatype_bytes(s.type);
    for (size_t i = 0; i < SPECIALS * SPECIALS; i++) {
        put(left.bytes, i, size, special(s.type, i / SPECIALS));
        put(right.bytes, i, size, special(s.type, i % SPECIALS));
    }
    return combines(s, left.bytes, right.bytes, result.bytes + GUARD_BYTES, SPECIALS * SPECIALS);
}

static bool all_pairs_of_specials(const struct pccl_kernels *kernels)
{
    return for_each(kernels, all_pairs_of_specials_of);
}

static bool many_random_pairs_of(struct subject s)
{
    enum { COUNT = 32749 };
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 1);
    fill(&prng, s.type, left.bytes + 1, COUNT);
    fill(&prng, s.type, right.bytes + 3, COUNT);
    return combines(s, left.bytes + 1, right.bytes + 3, result.bytes + GUARD_BYTES + 5, COUNT);
}

static bool many_random_pairs(const struct pccl_kernels *kernels) { return for_each(kernels, many_random_pairs_of); }

static bool every_small_count_of(struct subject s)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 2);
    for (size_t count = 0; count <= 130; count++) {
        uint64_t offsets = pccl_prng_u64(&prng);
        uint8_t *a = left.bytes + offsets % OFFSETS;
        uint8_t *b = right.bytes + (offsets >> 8) % OFFSETS;
        fill(&prng, s.type, a, count);
        fill(&prng, s.type, b, count);
        if (!combines(s, a, b, result.bytes + GUARD_BYTES + (offsets >> 16) % OFFSETS, count))
            return false;
    }
    return true;
}

static bool every_small_count(const struct pccl_kernels *kernels) { return for_each(kernels, every_small_count_of); }

/* Puts each operand at each alignment while the other two stay. */
static bool every_misalignment_of(struct subject s)
{
    enum { COUNT = 301 };
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 3);
    for (size_t i = 0; i < (size_t)3 * OFFSETS; i++) {
        size_t offsets[3];
        for (size_t operand = 0; operand < 3; operand++)
            offsets[operand] = i / OFFSETS == operand ? i % OFFSETS : pccl_prng_below(&prng, OFFSETS);
        fill(&prng, s.type, left.bytes + offsets[0], COUNT);
        fill(&prng, s.type, right.bytes + offsets[1], COUNT);
        if (!combines(s, left.bytes + offsets[0], right.bytes + offsets[1], result.bytes + GUARD_BYTES + offsets[2],
                      COUNT)) {
            return false;
        }
    }
    return true;
}

static bool every_misalignment(const struct pccl_kernels *kernels) { return for_each(kernels, every_misalignment_of); }

/* Any number of parts, counts around the blocks they are folded in, the result apart and over each part. */
static bool all_parts_at_once_of(struct subject s)
{
    static struct buffer buffers[PARTS];
    const size_t size = pccl_datatype_bytes(s.type);
    const size_t block = pccl_folded_type(s.type, PCCL_SUM) != s.type ? 1024 : 8192 / size;
    const size_t counts[] = {0, block - 1, 1, block, 7, block + 1, 2 * block + 17};
    const void *parts[PARTS];
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 4);
    for (uint32_t part = 0; part < PARTS; part++) {
        parts[part] = buffers[part].bytes + part;
        fill(&prng, s.type, buffers[part].bytes + part, 2 * block + 17);
    }
    for (uint32_t part_count = 1; part_count <= PARTS; part_count++) {
        for (uint32_t over = 0; over <= part_count; over++) {
            const size_t count = counts[(part_count + over) % PCCL_COUNT_OF(counts)];
            uint8_t *to = over < part_count ? buffers[over].bytes + over : result.bytes + GUARD_BYTES;
            pccl_reduce_all(s.type, s.reduction, parts, part_count, count, expected.bytes);
            memset(result.bytes, GUARD, count * size + 2 * GUARD_BYTES);
            pccl_combine_all(s.kernels, s.type, s.reduction, parts, part_count, count, to);
            if (!same(s, "all at once", to, expected.bytes, count))
                return false;
            if (!untouched(result.bytes) || !untouched(result.bytes + GUARD_BYTES + count * size)) {
                printf("%s %s: more was written\n", s.kernels->name, pccl_datatype_name(s.type));
                return false;
            }
            fill(&prng, s.type, buffers[over % PARTS].bytes + over % PARTS, count);
        }
    }
    return true;
}

static bool all_parts_at_once(const struct pccl_kernels *kernels) { return for_each(kernels, all_parts_at_once_of); }

/*
 * Folding part by part, with the partial result apart from, or in the place of, the result, gives
 * the same as folding all parts at once.
 */
static bool step_by_step_of(struct subject s)
{
    static struct buffer buffers[PARTS], folded[2];
    const size_t counts[] = {0, 1023, 1, 1024, 7, 1025, 2065};
    const void *parts[PARTS];
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 10);
    for (uint32_t part = 0; part < PARTS; part++) {
        parts[part] = buffers[part].bytes + part;
        fill(&prng, s.type, buffers[part].bytes + part, 2065);
    }
    for (uint32_t i = 0; i < 2 * PCCL_COUNT_OF(counts) * (PARTS - 1); i++) {
        const uint32_t part_count = 2 + i % (PARTS - 1);
        const size_t count = counts[i % PCCL_COUNT_OF(counts)];
        const bool apart = i % 2 == 0;
        const void *from = parts[0];
        struct pccl_step step = {.datatype = s.type, .from = s.type, .to = s.type, .reduction = s.reduction};
        for (uint32_t part = 1; part < part_count; part++) {
            const bool last = part + 1 == part_count;
            step.to = last ? s.type : pccl_folded_type(s.type, s.reduction);
            step.ranks = last ? part_count : 0;
            const size_t bytes = count * pccl_datatype_bytes(step.to);
            uint8_t *to = folded[apart && part % 2 == 0].bytes + GUARD_BYTES + i % OFFSETS;
            if (from != to)
                memset(to - GUARD_BYTES, GUARD, bytes + 2 * GUARD_BYTES);
            pccl_combine_step(s.kernels, &step, to, from, parts[part], count);
            if (!untouched(to - GUARD_BYTES) || (from != to && !untouched(to + bytes))) {
                printf("%s %s: more was written\n", s.kernels->name, pccl_datatype_name(s.type));
                return false;
            }
            from = to;
            step.from = step.to;
        }
        pccl_reduce_all(s.type, s.reduction, parts, part_count, count, expected.bytes);
        if (!same(s, "step by step", from, expected.bytes, count))
            return false;
    }
    return true;
}

static bool step_by_step(const struct pccl_kernels *kernels) { return for_each(kernels, step_by_step_of); }

/* AVG of x equals the reference for x and parts that add nothing (-0, or 0). */
static bool finishes(struct subject s, const uint8_t *source, uint32_t ranks, size_t count)
{
    enum { RANKS_MAX = 300 };
    const size_t size = pccl_datatype_bytes(s.type);
    struct pccl_step step = {.datatype = s.type, .from = s.type, .to = s.type, .reduction = PCCL_AVG, .ranks = ranks};
    static struct buffer nothing, copy;
    static const void *parts[RANKS_MAX];
    uint8_t *to = result.bytes + GUARD_BYTES;
    for (size_t i = 0; i < count; i++)
        put(nothing.bytes, i, size, pccl_datatype_is_float(s.type) ? special(s.type, 1) : 0);
    for (uint32_t part = 0; part < ranks; part++)
        parts[part] = part == 0 ? source : nothing.bytes;
    pccl_reduce_all(s.type, PCCL_AVG, parts, ranks, count, expected.bytes);
    memset(result.bytes, GUARD, count * size + 2 * GUARD_BYTES);
    pccl_combine_step(s.kernels, &step, to, source, nothing.bytes, count);
    if (!same(s, "finished apart", to, expected.bytes, count))
        return false;
    if (!untouched(result.bytes) || !untouched(to + count * size)) {
        printf("%s %s: more was written\n", s.kernels->name, pccl_datatype_name(s.type));
        return false;
    }
    memcpy(to, source, count * size);
    memset(copy.bytes, GUARD, count * size + 2 * GUARD_BYTES);
    step.copy = copy.bytes + GUARD_BYTES;
    pccl_combine_step(s.kernels, &step, to, to, nothing.bytes, count);
    pccl_copied_streaming(s.kernels);
    return same(s, "finished in place", to, expected.bytes, count) &&
           same(s, "copied", step.copy, expected.bytes, count) && untouched(copy.bytes) &&
           untouched(copy.bytes + GUARD_BYTES + count * size);
}

static bool the_end_of(struct subject s)
{
    static const uint32_t ranks[] = {1, 2, 3, 5, 7, 10, 100, 127, 128, 129, 255, 256, 257, 300};
    struct pccl_prng prng;
    if (s.reduction != PCCL_AVG)
        return true;
    pccl_prng_seed(&prng, 5);
    for (size_t i = 0; i < PCCL_COUNT_OF(ranks); i++) {
        const size_t count = i % 2 == 0 ? 3001 : 131;
        fill(&prng, s.type, left.bytes + i, count);
        if (!finishes(s, left.bytes + i, ranks[i], count))
            return false;
    }
    return true;
}

static bool the_end(const struct pccl_kernels *kernels) { return for_each(kernels, the_end_of); }

static int64_t signed_value(enum pccl_datatype type, uint64_t bits)
{
    const size_t shift = 64 - pccl_datatype_bytes(type) * 8;
    return (int64_t)(bits << shift) >> shift;
}

/* Compares with integer arithmetic, also for numbers of ranks above the range of the type and of exact floats. */
static bool integers_divide_of(struct subject s)
{
    static const uint32_t ranks[] = {1,   2,   3,     5,     7,        10,       41,         49,         255,
                                     256, 257, 32767, 65535, 16777216, 16777217, 2147483647, 2147483648, 4294967295};
    const size_t size = pccl_datatype_bytes(s.type), count = size <= 2 ? 65536 : 8192;
    const bool is_signed = s.type == PCCL_I8 || s.type == PCCL_I16 || s.type == PCCL_I32 || s.type == PCCL_I64;
    if (pccl_datatype_is_float(s.type) || s.reduction != PCCL_AVG)
        return true;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 6);
    fill(&prng, s.type, left.bytes, count);
    memset(right.bytes, 0, count * size);
    for (size_t r = 0; r < PCCL_COUNT_OF(ranks); r++) {
        for (size_t i = 0; i < count; i++) {
            uint64_t bits = 0;
            if (size <= 2) {
                put(left.bytes, i, size, i); /* every value of the type */
            } else if (i % 3 == 0) {         /* close to the multiples of the divisor, where rounding might be wrong */
                put(left.bytes, i, size, ranks[r] * pccl_prng_u64(&prng) - i % 2);
            }
            memcpy(&bits, left.bytes + i * size, size);
            put(expected.bytes, i, size,
                is_signed ? (uint64_t)(signed_value(s.type, bits) / (int64_t)ranks[r]) : bits / ranks[r]);
        }
        const struct pccl_step step = {
            .datatype = s.type, .from = s.type, .to = s.type, .reduction = PCCL_AVG, .ranks = ranks[r]};
        pccl_combine_step(s.kernels, &step, result.bytes, left.bytes, right.bytes, count);
        if (!same(s, "divided", result.bytes, expected.bytes, count))
            return false;
    }
    return true;
}

static bool integers_divide(const struct pccl_kernels *kernels) { return for_each(kernels, integers_divide_of); }

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All 65,536 values up; each value, the middle to the next, their neighbors, and random floats down. */
static bool conversions(const struct pccl_kernels *kernels)
{
    enum { ROWS = 6, COUNT = 65536 };
    static float wide[COUNT], wide_expected[COUNT];
    for (int type = PCCL_F16; type <= PCCL_BF16; type++) {
        const struct subject s = {kernels, (enum pccl_datatype)type, PCCL_SUM};
        float (*const widen)(uint16_t bits) = type == PCCL_F16 ? pccl_f16_to_f32 : pccl_bf16_to_f32;
        uint16_t (*const narrow)(float value) = type == PCCL_F16 ? pccl_f32_to_f16 : pccl_f32_to_bf16;
        const uint32_t half_step = type == PCCL_F16 ? 0x1000 : 0x8000;
        struct pccl_prng prng;
        pccl_prng_seed(&prng, 7);
        for (uint32_t bits = 0; bits < COUNT; bits++) {
            put(left.bytes, bits, 2, bits);
            wide_expected[bits] = widen((uint16_t)bits);
        }
        kernels->widen[type](wide, left.bytes, COUNT);
        if (memcmp(wide, wide_expected, sizeof wide) != 0) {
            return same((struct subject){kernels, PCCL_F32, PCCL_SUM}, "widened", (const uint8_t *)wide,
                        (const uint8_t *)wide_expected, COUNT);
        }
        for (int row = 0; row < ROWS; row++) {
            const uint32_t steps[ROWS - 1] = {0, half_step, half_step - 1, half_step + 1, half_step / 2};
            for (uint32_t i = 0; i < COUNT; i++) {
                uint32_t bits;
                memcpy(&bits, &wide_expected[i], sizeof bits);
                wide[i] = float_of(row < ROWS - 1 ? bits + steps[row] : (uint32_t)pccl_prng_u64(&prng));
                put(expected.bytes, i, 2, narrow(wide[i]));
            }
            kernels->narrow[type](result.bytes + 1, wide, COUNT);
            if (!same(s, "narrowed", result.bytes + 1, expected.bytes, COUNT))
                return false;
        }
    }
    return true;
}

/* The same check for floats of 8 bits. */
static bool narrow_conversions(const struct pccl_kernels *kernels)
{
    enum { STEPS = 5, COUNT = 256 * STEPS + 100000 };
    static float wide[COUNT];
    for (int type = PCCL_F8_E4M3FN; type <= PCCL_F8_E5M2; type++) {
        const struct subject s = {kernels, (enum pccl_datatype)type, PCCL_SUM};
        const bool e4m3fn = type == PCCL_F8_E4M3FN;
        const uint32_t half_step = e4m3fn ? 0x80000 : 0x100000;
        const uint32_t steps[STEPS] = {0, half_step, half_step - 1, half_step + 1, half_step / 2};
        struct pccl_prng prng;
        pccl_prng_seed(&prng, 11);
        for (uint32_t bits = 0; bits < 256; bits++) {
            const float value = e4m3fn ? pccl_f8_e4m3fn_to_f32((uint8_t)bits) : pccl_f8_e5m2_to_f32((uint8_t)bits);
            left.bytes[1 + bits] = (uint8_t)bits;
            memcpy(expected.bytes + bits * sizeof value, &value, sizeof value);
        }
        kernels->widen[type](wide, left.bytes + 1, 256);
        if (!same((struct subject){kernels, PCCL_F32, PCCL_SUM}, "widened", (const uint8_t *)wide, expected.bytes,
                  256)) {
            return false;
        }
        for (uint32_t i = 256; i < COUNT; i++) { /* neighbors of each value, and random floats, many of them small */
            uint32_t bits;
            memcpy(&bits, &wide[i % 256], sizeof bits);
            wide[i] =
                float_of(i < 256 * STEPS ? bits + steps[i / 256]
                                         : (uint32_t)pccl_prng_u64(&prng) & (i % 2 != 0 ? 0xbfffffff : 0xffffffff));
        }
        for (uint32_t i = 0; i < COUNT; i++)
            expected.bytes[i] = e4m3fn ? pccl_f32_to_f8_e4m3fn(wide[i]) : pccl_f32_to_f8_e5m2(wide[i]);
        kernels->narrow[type](result.bytes + 1, wide, COUNT);
        if (!same(s, "narrowed", result.bytes + 1, expected.bytes, COUNT))
            return false;
    }
    return true;
}

/* A product with 1 in two steps: the contribution of a member, and its sum with nothing. */
static bool scales_of(struct subject s)
{
    static const double factors[] = {1, 0.5, -3, 1.0 / 3, 0, 1e300, 1e-40};
    const size_t size = pccl_datatype_bytes(s.type);
    static struct buffer factor;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 12);
    if (s.reduction != PCCL_PREMUL_SUM)
        return true;
    for (size_t i = 0; i < PCCL_COUNT_OF(factors); i++) {
        const size_t count = i % 2 == 0 ? 3001 : 131;
        const double wide = s.type == PCCL_F64 ? factors[i] : (double)(float)factors[i];
        const float single = (float)wide;
        const bool is_wide = pccl_datatype_bytes(s.type) >= 4;
        fill(&prng, s.type, left.bytes + i, count);
        for (size_t at = 0; at < count; at++) {
            float element = 0, product;
            const uint8_t *from = left.bytes + i + at * size;
            uint16_t half = 0;
            memcpy(&half, from, size < 2 ? size : 2);
            if (s.type == PCCL_F64) {
                memcpy(factor.bytes + at * size, &wide, size);
            } else if (s.type == PCCL_F32) {
                memcpy(factor.bytes + at * size, &single, size);
            } else {
                element = s.type == PCCL_F16         ? pccl_f16_to_f32(half)
                          : s.type == PCCL_BF16      ? pccl_bf16_to_f32(half)
                          : s.type == PCCL_F8_E4M3FN ? pccl_f8_e4m3fn_to_f32((uint8_t)half)
                                                     : pccl_f8_e5m2_to_f32((uint8_t)half);
                product = element * single;
                if (product != product)
                    product = float_of(0x7fc00000);
                put(expected.bytes, at, size,
                    s.type == PCCL_F16         ? pccl_f32_to_f16(product)
                    : s.type == PCCL_BF16      ? pccl_f32_to_bf16(product)
                    : s.type == PCCL_F8_E4M3FN ? pccl_f32_to_f8_e4m3fn(product)
                                               : pccl_f32_to_f8_e5m2(product));
            }
        }
        if (is_wide) {
            pccl_reduce_all(s.type, PCCL_PROD, (const void *const[]){left.bytes + i, factor.bytes}, 2, count,
                            expected.bytes);
        }
        uint8_t *to = result.bytes + GUARD_BYTES + i;
        memset(to - GUARD_BYTES, GUARD, count * size + 2 * GUARD_BYTES);
        pccl_scale(s.kernels, s.type, to, left.bytes + i, count, factors[i]);
        if (!same(s, "scaled", to, expected.bytes, count) || !untouched(to - GUARD_BYTES) ||
            !untouched(to + count * size)) {
            return false;
        }
        memcpy(to, left.bytes + i, count * size);
        pccl_scale(s.kernels, s.type, to, to, count, factors[i]);
        if (!same(s, "scaled in place", to, expected.bytes, count))
            return false;
    }
    return true;
}

static bool scales(const struct pccl_kernels *kernels) { return for_each(kernels, scales_of); }

/* ---- the float mode of the thread ---- */

#if defined(__x86_64__)
static void set_float_mode(uint64_t mode)
{
    uint32_t word = (uint32_t)mode;
    __asm__ volatile("ldmxcsr %0" ::"m"(word) : "memory");
}
static uint64_t get_float_mode(void)
{
    uint32_t word;
    __asm__ volatile("stmxcsr %0" : "=m"(word)::"memory");
    return word;
}
enum { ODD_FLOAT_MODE = 0xd040 }; /* flush to zero, subnormals are zero, up, all traps except inexact results */
#elif defined(__aarch64__)
static void set_float_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
static uint64_t get_float_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
    return mode;
}
enum { ODD_FLOAT_MODE = 1 << 24 | 1 << 25 | 1 << 22 }; /* flush, default NaN, up */
#endif

/* Whatever an application has done to its thread, the bits are the same, and it finds the mode as it was. */
static bool float_mode_does_not_matter(const struct pccl_kernels *kernels)
{
#if defined(__x86_64__) || defined(__aarch64__)
    enum { COUNT = 5000 };
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 8);
    for (int type = PCCL_F16; type < PCCL_DATATYPES; type++) {
        for (int reduction = 0; reduction < PCCL_REDUCE_OPS; reduction++) {
            const struct subject s = {kernels, (enum pccl_datatype)type, (enum pccl_reduce_op)reduction};
            static struct buffer reference;
            if (pccl_reduction_misfit(s.type, s.reduction) != NULL)
                continue;
            fill(&prng, s.type, left.bytes, COUNT);
            fill(&prng, s.type, right.bytes, COUNT);
            const void *const parts[] = {left.bytes, right.bytes};
            pccl_reduce_all(s.type, s.reduction, parts, 2, COUNT, expected.bytes);
            const uint64_t found = get_float_mode();
            set_float_mode(ODD_FLOAT_MODE);
            pccl_reduce_all(s.type, s.reduction, parts, 2, COUNT, reference.bytes);
            pccl_combine_all(s.kernels, s.type, s.reduction, parts, 2, COUNT, result.bytes);
            const struct pccl_step step = {
                .datatype = s.type, .from = s.type, .to = s.type, .reduction = s.reduction, .ranks = 2};
            pccl_combine_step(s.kernels, &step, left.bytes, left.bytes, right.bytes, COUNT);
            const uint64_t left_behind = get_float_mode();
            set_float_mode(found);
            if (left_behind != ODD_FLOAT_MODE) {
                printf("the float mode was %x and is %" PRIx64 "\n", (unsigned)ODD_FLOAT_MODE, left_behind);
                return false;
            }
            if (!same(s, "reference in an odd float mode", reference.bytes, expected.bytes, COUNT) ||
                !same(s, "all at once in an odd float mode", result.bytes, expected.bytes, COUNT) ||
                !same(s, "in a step in an odd float mode", left.bytes, expected.bytes, COUNT)) {
                return false;
            }
        }
    }
#else
    (void)kernels;
#endif
    return true;
}

/* Every length and both misalignments, and nothing beside it is touched. */
static bool copies_away(const struct pccl_kernels *kernels)
{
    enum { MOST = 300, PLACES = 64, UNTOUCHED = 0xa5 };
    static uint8_t source[MOST + PLACES], target[MOST + 2 * PLACES];
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 9);
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)pccl_prng_u64(&prng);
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        for (size_t place = 0; place < PLACES; place++) {
            const uint8_t *from = source + (bytes + place) % PLACES;
            memset(target, UNTOUCHED, sizeof target);
            pccl_copy_streaming(kernels, target + place, from, bytes);
            bool touched = false;
            for (size_t i = 0; i < sizeof target; i++)
                touched = touched || ((i < place || i >= place + bytes) && target[i] != UNTOUCHED);
            if (touched || memcmp(target + place, from, bytes) != 0) {
                printf("%s: %zu bytes copied to place %zu\n", pccl_kernels_name(kernels), bytes, place);
                return false;
            }
        }
    }
    return true;
}

/* ---- all kernels ---- */

struct kernels_check {
    const char *name;
    bool (*run)(const struct pccl_kernels *kernels);
};
/* Bytes of every small length, and of some large ones, at every place: as the scalar variant digests them. */
static bool digests(const struct pccl_kernels *kernels)
{
    static uint8_t bytes[20000];
    const struct pccl_kernels *scalar = pccl_kernels_variant(0, &(uint32_t){0});
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 5);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)pccl_prng_u64(&prng);
    for (size_t length = 0; length < sizeof bytes - 64; length += length < 1100 ? 1 : 977) {
        uint64_t got[2], want[2];
        pccl_digest_128(kernels, bytes + length % 64, length, got);
        pccl_digest_128(scalar, bytes + length % 64, length, want);
        if (got[0] != want[0] || got[1] != want[1]) {
            printf("%s: another digest of %zu bytes\n", pccl_kernels_name(kernels), length);
            return false;
        }
    }
    return true;
}

/* The hashes of Python's hashlib. */
static bool is_hash(const uint8_t hash[PCCL_SHA256_BYTES], const char *want)
{
    char got[2 * PCCL_SHA256_BYTES + 1];
    for (size_t i = 0; i < PCCL_SHA256_BYTES; i++)
        snprintf(got + 2 * i, 3, "%02x", hash[i]);
    return strcmp(got, want) == 0;
}

static bool hashes(const struct pccl_kernels *kernels)
{
    static const struct {
        const char *message, *hash;
    } messages[] = {
        /* vectors of FIPS 180-4 */
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    static const struct {
        size_t length;
        const char *hash;
    } bulks[] = {
        {0, "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"},
        {1, "2ae1c19c0cbd378e46c927a9f3611923ec07cc1ae357502a09536d455275cf21"},
        {64, "26ec2720317d202d708e0b183cacc84c79c7d5f2fc39686d7b7d9fa454bfcdce"},
        {1023, "520639fa7eed2d846f42430de76ba802f91d1af9b5ee16f130e7d8995698dcfb"},
        {1024, "4b162847619d93d14099723a349a98250faf718f6079d84d83041c4351a314f1"},
        {1025, "73ba93214af1239d89e31a933aabe918555d63173ac974390572bd9e0904654b"},
        {4096, "a2e5cd20cddea71963d48f7814b47a99a724f1b4358cb95ea26530668e4545e2"},
        {20000, "8342b2fb5f2a7684b83c9a1779c113bb04ee9327ed140eaea488730feb2177a5"},
    };
    static uint8_t bytes[20000 + 1];
    uint8_t hash[PCCL_SHA256_BYTES];
    for (size_t i = 0; i < PCCL_COUNT_OF(messages); i++) {
        struct pccl_sha256 sha;
        pccl_sha256_begin(&sha, kernels);
        pccl_sha256_add(&sha, messages[i].message, strlen(messages[i].message));
        pccl_sha256_end(&sha, hash);
        if (!is_hash(hash, messages[i].hash)) {
            printf("%s: another SHA-256 of '%s'\n", pccl_kernels_name(kernels), messages[i].message);
            return false;
        }
    }
    for (size_t i = 0; i + 1 < sizeof bytes; i++)
        bytes[i + 1] = (uint8_t)(i * 7 + i / 251);
    for (size_t i = 0; i < PCCL_COUNT_OF(bulks); i++) {
        pccl_bulk_hash(kernels, bytes + 1, bulks[i].length, hash);
        if (!is_hash(hash, bulks[i].hash)) {
            printf("%s: another hash of %zu bytes\n", pccl_kernels_name(kernels), bulks[i].length);
            return false;
        }
    }
    return true;
}

/* Every scaled codec: the bits are these on every machine. */
static bool packs(const struct pccl_kernels *kernels)
{
    enum { COUNT = 1000, FORMATS = PCCL_SCALED_FORMATS * PCCL_SCALED_SCALES * PCCL_SCALED_ROUNDINGS };
    static const enum pccl_datatype types[] = {PCCL_F32, PCCL_F16, PCCL_BF16};
    struct pccl_prng prng;
    uint64_t hash = 0;
    pccl_prng_seed(&prng, 11);
    for (uint32_t i = 0; i < 3 * FORMATS; i++) {
        const struct pccl_scaled codec = {types[i / FORMATS], (enum pccl_scaled_format)(i % PCCL_SCALED_FORMATS),
                                          (enum pccl_scaled_scale)(i / PCCL_SCALED_FORMATS % PCCL_SCALED_SCALES),
                                          (enum pccl_scaled_rounding)(i / PCCL_SCALED_FORMATS % 2), 16U << i % 4};
        fill(&prng, codec.datatype, left.bytes + 1, COUNT);
        pccl_scaled_encode(&codec, kernels, left.bytes + 1, COUNT, 0, i, right.bytes + 3);
        pccl_scaled_decode(&codec, kernels, right.bytes + 3, COUNT, result.bytes + 5);
        for (size_t k = 0; k < pccl_scaled_bytes(&codec, COUNT); k++)
            hash = (hash ^ right.bytes[3 + k]) * UINT64_C(0x100000001b3);
        for (size_t k = 0; k < COUNT * pccl_datatype_bytes(codec.datatype); k++)
            hash = (hash ^ result.bytes[5 + k]) * UINT64_C(0x100000001b3);
    }
    if (hash != UINT64_C(0x1f9d35b67357a6ab))
        printf("%s: packed otherwise: %" PRIx64 "\n", pccl_kernels_name(kernels), hash);
    return hash == UINT64_C(0x1f9d35b67357a6ab);
}

/* Checks the sparse codec: the bytes it packs, the residual, and sums of decoded elements. */
static bool packs_the_largest(const struct pccl_kernels *kernels)
{
    enum { COUNT = 2 * PCCL_SPARSE_CHUNK_ELEMENTS + 77 };
    static float values[COUNT], sums[COUNT];
    struct pccl_prng prng;
    uint64_t hash = 0;
    pccl_prng_seed(&prng, 12);
    for (uint32_t i = 0; i < 12; i++) {
        const struct pccl_sparse sparse = {COUNT - i * 700, 1 + i * i * 33};
        for (size_t k = 0; k < sparse.count; k++) /* some are equal */
            values[k] = (float)((int32_t)pccl_prng_below(&prng, 2000000) - 1000000) * (i % 2 == 0 ? 0x1p-140f : 1e-3f);
        memset(sums, 0, sizeof sums);
        if (!pccl_sparse_encode(&sparse, kernels, values, right.bytes))
            return false;
        pccl_sparse_add(&sparse, kernels, right.bytes, 0.3f, sums);
        for (size_t k = 0; k < pccl_sparse_bytes(&sparse); k++)
            hash = (hash ^ right.bytes[k]) * UINT64_C(0x100000001b3);
        for (size_t k = 0; k < sparse.count; k++) {
            uint32_t bits[2];
            memcpy(&bits[0], values + k, sizeof bits[0]);
            memcpy(&bits[1], sums + k, sizeof bits[1]);
            hash = ((hash ^ bits[0]) * UINT64_C(0x100000001b3) ^ bits[1]) * UINT64_C(0x100000001b3);
        }
    }
    if (hash != UINT64_C(0x454d26eeff84aa77))
        printf("%s: packed the largest otherwise: %" PRIx64 "\n", pccl_kernels_name(kernels), hash);
    return hash == UINT64_C(0x454d26eeff84aa77);
}

static const struct kernels_check kernels_checks[] = {
    {"packs", packs},
    {"packs_the_largest", packs_the_largest},
    {"all_pairs_of_bytes", all_pairs_of_bytes},
    {"all_pairs_of_specials", all_pairs_of_specials},
    {"many_random_pairs", many_random_pairs},
    {"every_small_count", every_small_count},
    {"every_misalignment", every_misalignment},
    {"all_parts_at_once", all_parts_at_once},
    {"step_by_step", step_by_step},
    {"the_end", the_end},
    {"integers_divide", integers_divide},
    {"conversions", conversions},
    {"narrow_conversions", narrow_conversions},
    {"scales", scales},
    {"float_mode_does_not_matter", float_mode_does_not_matter},
    {"copies_away", copies_away},
    {"digests", digests},
    {"hashes", hashes},
};

/* The check for each variant that this processor can run. */
static bool run_kernels_check(const struct kernels_check *check)
{
    const struct pccl_kernels *kernels;
    bool all_well = true;
    for (uint32_t i = 0; (kernels = kernels_here(i)) != NULL; i++) {
        if (!check->run(kernels))
            all_well = false;
    }
    return all_well;
}

#endif
