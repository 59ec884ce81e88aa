/*
 * Loops over the VALUEs of one whole block, compiled once for each instruction set. Part of codec_block.h;
 * codec_numbers.h chooses their parameters. They process only whole blocks, so that compilers vectorize them without
 * remainder loops.
 */
#ifndef PCCL_KERNELS_CODEC_LOOPS_H
#define PCCL_KERNELS_CODEC_LOOPS_H

#include "kernels/codec_head.h"

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED static inline
#endif

enum { BLOCK = PCCL_CODEC_BLOCK, COLUMNS = 64 };

struct extent {
    VALUE low, high; /* ignores NaN */
    bool special;
};

/* code = round((value * unit - origin) * inverse). The numbers are chosen so that codes are in range. */
struct quantizer {
    VALUE unit, origin, inverse;
};

/* value = min(low + code * step, high) * back */
struct ramp {
    VALUE low, high, step, back;
};

/* value = (code - zero_point) * scale, clamped to the limits */
struct lattice {
    VALUE zero_point, scale, limit;
};

INLINED VALUE load(const uint8_t *values, size_t index)
{
    VALUE value;
    memcpy(&value, values + index * sizeof value, sizeof value);
    return value;
}

INLINED void fold_columns(VALUE *low, VALUE *high, VALUE_BITS *unordered, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        low[i] = low[i + width] < low[i] ? low[i + width] : low[i];
        high[i] = high[i + width] > high[i] ? high[i + width] : high[i];
        unordered[i] |= unordered[i + width];
    }
}

/* Computes minimum and maximum in columns, because compilers may not reorder a fold of floats. */
INLINED void measure(const uint8_t *values, struct extent *extent)
{
    VALUE low[COLUMNS], high[COLUMNS];
    VALUE_BITS unordered[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        low[i] = infinity();
        high[i] = -infinity();
        unordered[i] = 0;
    }
    for (size_t row = 0; row < BLOCK; row += (size_t)4 * COLUMNS) {
        for (size_t i = 0; i < COLUMNS; i++) {
            VALUE a = load(values, row + i), b = load(values, row + COLUMNS + i);
            VALUE c = load(values, row + (size_t)2 * COLUMNS + i), d = load(values, row + (size_t)3 * COLUMNS + i);
            VALUE least = low[i], most = high[i];
            least = a < least ? a : least;
            least = b < least ? b : least;
            least = c < least ? c : least;
            least = d < least ? d : least;
            most = a > most ? a : most;
            most = b > most ? b : most;
            most = c > most ? c : most;
            most = d > most ? d : most;
            low[i] = least;
            high[i] = most;
            unordered[i] |= (VALUE_BITS)(a != a) | (VALUE_BITS)(b != b) | (VALUE_BITS)(c != c) | (VALUE_BITS)(d != d);
        }
    }
    fold_columns(low, high, unordered, 32);
    fold_columns(low, high, unordered, 16);
    fold_columns(low, high, unordered, 8);
    fold_columns(low, high, unordered, 4);
    fold_columns(low, high, unordered, 2);
    fold_columns(low, high, unordered, 1);
    extent->low = low[0];
    extent->high = high[0];
    extent->special = unordered[0] != 0 || !is_finite(low[0]) || !is_finite(high[0]);
}

/* Packed values are stored in little-endian order. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ORDERED_uint8_t(x) (x)
#define ORDERED_uint16_t(x) __builtin_bswap16(x)
#define ORDERED_uint32_t(x) __builtin_bswap32(x)
#else
#define ORDERED_uint8_t(x) (x)
#define ORDERED_uint16_t(x) (x)
#define ORDERED_uint32_t(x) (x)
#endif

/*
 * Adding ROUNDER rounds to the nearest integer, ties to even, and leaves it in the lowest bits. Unlike a conversion,
 * this is defined for all values and can be vectorized.
 */
#define DEFINE_PACKED_LOOPS(name, target, packed)                                                                      \
    INLINED void quantize_##packed(const uint8_t *restrict values, const struct quantizer *by, uint8_t *restrict out)  \
    {                                                                                                                  \
        const struct quantizer q = *by;                                                                                \
        for (size_t i = 0; i < BLOCK; i++) {                                                                           \
            VALUE code = (load(values, i) * q.unit - q.origin) * q.inverse;                                            \
            packed bits = (packed)bits_of(code + ROUNDER);                                                             \
            bits = ORDERED_##packed(bits);                                                                             \
            memcpy(out + i * sizeof bits, &bits, sizeof bits);                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    INLINED void ramp_##packed(const uint8_t *restrict codes, const struct ramp *by, uint8_t *restrict values)         \
    {                                                                                                                  \
        const struct ramp r = *by;                                                                                     \
        for (size_t i = 0; i < BLOCK; i++) {                                                                           \
            packed code;                                                                                               \
            memcpy(&code, codes + i * sizeof code, sizeof code);                                                       \
            VALUE value = (VALUE)ORDERED_##packed(code) * r.step;                                                      \
            value = r.low + value;                                                                                     \
            value = value < r.high ? value : r.high;                                                                   \
            value = value * r.back;                                                                                    \
            memcpy(values + i * sizeof value, &value, sizeof value);                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    INLINED void lattice_##packed(const uint8_t *restrict codes, const struct lattice *by, uint8_t *restrict values)   \
    {                                                                                                                  \
        const struct lattice l = *by;                                                                                  \
        for (size_t i = 0; i < BLOCK; i++) {                                                                           \
            packed code;                                                                                               \
            memcpy(&code, codes + i * sizeof code, sizeof code);                                                       \
            VALUE value = ((VALUE)ORDERED_##packed(code) - l.zero_point) * l.scale;                                    \
            value = value < l.limit ? value : l.limit;                                                                 \
            value = value > -l.limit ? value : -l.limit;                                                               \
            memcpy(values + i * sizeof value, &value, sizeof value);                                                   \
        }                                                                                                              \
    }

EACH_PACKED(DEFINE_PACKED_LOOPS, , )

/* The loops for one instruction set. */
struct packed_loops {
    void (*quantize)(const uint8_t *restrict values, const struct quantizer *by, uint8_t *restrict out);
    void (*ramp)(const uint8_t *restrict codes, const struct ramp *by, uint8_t *restrict values);
    void (*lattice)(const uint8_t *restrict codes, const struct lattice *by, uint8_t *restrict values);
};
struct loops {
    void (*measure)(const uint8_t *values, struct extent *extent);
    struct packed_loops of[5]; /* indexed by the size of a packed value in bytes */
};

#define DEFINE_PACKED_VARIANT(name, target, packed)                                                                    \
    target static void quantize_##packed##_##name(const uint8_t *restrict values, const struct quantizer *by,          \
                                                  uint8_t *restrict out)                                               \
    {                                                                                                                  \
        quantize_##packed(values, by, out);                                                                            \
    }                                                                                                                  \
    target static void ramp_##packed##_##name(const uint8_t *restrict codes, const struct ramp *by,                    \
                                              uint8_t *restrict values)                                                \
    {                                                                                                                  \
        ramp_##packed(codes, by, values);                                                                              \
    }                                                                                                                  \
    target static void lattice_##packed##_##name(const uint8_t *restrict codes, const struct lattice *by,              \
                                                 uint8_t *restrict values)                                             \
    {                                                                                                                  \
        lattice_##packed(codes, by, values);                                                                           \
    }
#define PACKED_VARIANT(name, target, packed)                                                                           \
    [sizeof(packed)] = {quantize_##packed##_##name, ramp_##packed##_##name, lattice_##packed##_##name},

#define DEFINE_VARIANT(name, target)                                                                                   \
    target static void measure_##name(const uint8_t *values, struct extent *extent) { measure(values, extent); }       \
    EACH_PACKED(DEFINE_PACKED_VARIANT, name, target)
#define VARIANT(name)                                                                                                  \
    {                                                                                                                  \
        measure_##name, { EACH_PACKED(PACKED_VARIANT, name, ) }                                                        \
    }

DEFINE_VARIANT(baseline, )
#if defined(__x86_64__) && defined(__GNUC__)
DEFINE_VARIANT(avx2, __attribute__((target("avx2"))))
DEFINE_VARIANT(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
static const struct loops all_loops[PCCL_CODEC_VARIANTS] = {VARIANT(baseline), VARIANT(avx2), VARIANT(avx512)};
#else
static const struct loops all_loops[PCCL_CODEC_VARIANTS] = {VARIANT(baseline), VARIANT(baseline), VARIANT(baseline)};
#endif

#endif
