/*
 * One block of a codec, computed in VALUE: the code of codec_f32.c and codec_f64.c, which say what VALUE is and include
 * this once. docs/CODECS.md has the formulas.
 *
 * Peers must agree on every bit, so: plain operations in the order written, no contraction into fused ones (the build
 * switches that off; the tests know the bits), no division or rounding that a library does. The loops work on whole
 * blocks only, so that compilers vectorise them without remainders; a short block is filled up.
 */
#ifndef PCCL_KERNELS_CODEC_BLOCK_H
#define PCCL_KERNELS_CODEC_BLOCK_H

#include "kernels/codec_internal.h"

#include <float.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "codecs need IEEE arithmetic in the type as written"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED static inline
#endif

enum { BLOCK = PCCL_CODEC_BLOCK, COLUMNS = 64 };

/* ---- a block's head ---- */

/* SPECIAL: there are NaN or infinities; the three highest codes stand for them. */
enum mode { PLAIN, SPECIAL, MODES };
enum { SPECIAL_CODES = 3 };

/*
 * What the two fields mean depends on the kind. MinMax: the smallest and the largest finite value. ZeroPointScale: the
 * zero point, an integer, and the scale.
 */
struct head {
    enum mode mode;
    VALUE first, second;
};

static VALUE_BITS bits_of(VALUE value)
{
    VALUE_BITS bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static VALUE value_of(VALUE_BITS bits)
{
    VALUE value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static VALUE infinity(void) { return value_of(INFINITY_BITS); }
static bool is_finite(VALUE value) { return value - value == 0; }
static VALUE larger(VALUE a, VALUE b) { return a > b ? a : b; }

static void put_field(uint8_t *bytes, VALUE field)
{
    VALUE_BITS bits = bits_of(field);
    for (size_t i = 0; i < sizeof bits; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
}

static VALUE get_field(const uint8_t *bytes)
{
    VALUE_BITS bits = 0;
    for (size_t i = 0; i < sizeof bits; i++)
        bits |= (VALUE_BITS)bytes[i] << (8 * i);
    return value_of(bits);
}

static void put_head(const struct head *head, uint8_t *bytes)
{
    bytes[0] = (uint8_t)head->mode;
    put_field(bytes + 1, head->first);
    put_field(bytes + 1 + sizeof(VALUE), head->second);
}

/* False: no encoder writes this. */
static bool get_head(const struct pccl_codec *codec, const uint8_t *bytes, struct head *head)
{
    head->mode = (enum mode)bytes[0];
    head->first = get_field(bytes + 1);
    head->second = get_field(bytes + 1 + sizeof(VALUE));
    return bytes[0] < MODES && is_finite(head->first) && is_finite(head->second) &&
           (codec->kind != PCCL_CODEC_MIN_MAX || head->first <= head->second);
}

/* The highest code of a finite value. */
static uint32_t top_code(const struct pccl_codec *codec, enum mode mode)
{
    return (UINT32_MAX >> (32 - 8 * codec->packed_bytes)) - (mode == SPECIAL ? SPECIAL_CODES : 0);
}

/* ---- loops over a whole block ---- */

struct extent {
    VALUE low, high; /* NaN left out */
    bool special;
};

/* code = round((value * unit - origin) * inverse); a code is at least 0 and fits by how the numbers are chosen. */
struct quantizer {
    VALUE unit, origin, inverse;
};

/* value = min(low + code * step, high) * back */
struct ramp {
    VALUE low, high, step, back;
};

/* value = (code - zero_point) * scale, kept within the limits */
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

/* Columns, because compilers may not change the order of a fold of floats. */
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

/* What is packed travels little-endian. */
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
 * Adding ROUNDER leaves no bits behind the point, rounded to nearest even, and the integer in the lowest bits: no
 * conversion, so nothing undefined whatever the value, and it vectorises.
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

/* The loops, compiled once for each set of instructions. */
struct packed_loops {
    void (*quantize)(const uint8_t *restrict values, const struct quantizer *by, uint8_t *restrict out);
    void (*ramp)(const uint8_t *restrict codes, const struct ramp *by, uint8_t *restrict values);
    void (*lattice)(const uint8_t *restrict codes, const struct lattice *by, uint8_t *restrict values);
};
struct loops {
    void (*measure)(const uint8_t *values, struct extent *extent);
    struct packed_loops of[5]; /* by the bytes of a packed value */
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

/* ---- how the numbers of a block are chosen ---- */

/*
 * A power of two that takes the values of a block to where neither their range overflows nor a step loses digits. What
 * is multiplied by it keeps all digits that matter: a tiny range means that all values are small.
 */
static VALUE unit_for(VALUE low, VALUE high)
{
    VALUE range = high - low;
    return !(range <= RANGE_HUGE) ? (VALUE)0.25 : range < RANGE_TINY && range > 0 ? UNIT_TINY : 1;
}

/*
 * Where rounding keeps the highest code from reaching `high`, the step is a little wider, and what is beyond is cut:
 * both ends of the range travel exactly.
 */
static struct ramp ramp_of(const struct head *head, uint32_t top)
{
    VALUE unit = unit_for(head->first, head->second);
    struct ramp ramp = {.low = head->first * unit, .high = head->second * unit, .back = 1 / unit};
    ramp.step = (ramp.high - ramp.low) / (VALUE)top;
    VALUE reached = (VALUE)top * ramp.step;
    reached = ramp.low + reached;
    if (reached < ramp.high)
        ramp.step *= WIDER;
    return ramp;
}

static struct quantizer quantizer_of_ramp(const struct ramp *ramp)
{
    return (struct quantizer){1 / ramp->back, ramp->low, ramp->step > 0 ? 1 / ramp->step : 0};
}

/* One value only: one step from zero, so exact. */
static struct head constant_lattice(VALUE value, struct quantizer *quantizer)
{
    *quantizer = (struct quantizer){1, 0, 0};
    return (struct head){.first = (VALUE)(value > 0 ? -1 : value < 0), .second = value > 0 ? value : -value};
}

static VALUE floor_of(VALUE value)
{
    VALUE nearest = (value + ROUNDER) - ROUNDER;
    return nearest > value ? nearest - 1 : nearest;
}

/*
 * The lattice has the multiples of the scale as its points, so zero is one. One step more than the range needs, because
 * `low` is between two points. A scale not below a FINEST-th of the largest value keeps the zero point and every
 * difference from it exact.
 */
static struct head lattice_for(VALUE low, VALUE high, uint32_t top, struct quantizer *quantizer)
{
    if (low == high)
        return constant_lattice(low, quantizer);
    VALUE unit = unit_for(low, high);
    VALUE wanted = (high * unit - low * unit) / (VALUE)(top - 1);
    wanted = larger(wanted, larger(high, -low) * unit / FINEST);
    VALUE scale = wanted / unit;
    if (scale * unit < wanted) /* rounded to a subnormal: the next one */
        scale += SMALLEST;
    VALUE step = scale * unit;
    quantizer->unit = unit;
    quantizer->inverse = 1 / step;
    VALUE lowest = floor_of(low * unit * quantizer->inverse);
    quantizer->origin = lowest * step;
    return (struct head){.first = 0 - lowest, .second = scale};
}

/* ---- NaN and infinities ---- */

/* The finite values; in the place of others the lowest of them. */
static void leave_out_special(const uint8_t *values, VALUE *finite, struct extent *extent)
{
    bool found = false;
    extent->low = extent->high = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        VALUE value = load(values, i);
        if (!is_finite(value))
            continue;
        extent->low = found && extent->low < value ? extent->low : value;
        extent->high = found && extent->high > value ? extent->high : value;
        found = true;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        VALUE value = load(values, i);
        finite[i] = is_finite(value) ? value : extent->low;
    }
}

/* Codes of special values, counted from the highest of a finite one. */
enum { CODE_NAN = 1, CODE_MINUS_INFINITY, CODE_INFINITY };

static void put_special(const struct pccl_codec *codec, const uint8_t *values, uint8_t *codes)
{
    uint32_t top = top_code(codec, SPECIAL);
    for (size_t i = 0; i < BLOCK; i++) {
        VALUE value = load(values, i);
        if (is_finite(value))
            continue;
        uint32_t code = top + (value > 0 ? CODE_INFINITY : value < 0 ? CODE_MINUS_INFINITY : CODE_NAN);
        for (uint32_t k = 0; k < codec->packed_bytes; k++)
            codes[i * codec->packed_bytes + k] = (uint8_t)(code >> (8 * k));
    }
}

static void get_special(const struct pccl_codec *codec, const uint8_t *codes, size_t count, uint8_t *values)
{
    uint32_t top = top_code(codec, SPECIAL);
    const VALUE special[1 + SPECIAL_CODES] = {0, value_of(QUIET_NAN), -infinity(), infinity()};
    for (size_t i = 0; i < count; i++) {
        uint32_t code = 0;
        for (uint32_t k = 0; k < codec->packed_bytes; k++)
            code |= (uint32_t)codes[i * codec->packed_bytes + k] << (8 * k);
        if (code > top)
            memcpy(values + i * sizeof(VALUE), &special[code - top], sizeof(VALUE));
    }
}

/* ---- blocks ---- */

static void encode_whole(const struct pccl_codec *codec, const struct loops *loops, const uint8_t *values,
                         struct head *head, uint8_t *codes)
{
    VALUE finite[BLOCK];
    const uint8_t *source = values;
    struct extent extent;
    loops->measure(values, &extent);
    if (extent.special) {
        leave_out_special(values, finite, &extent);
        source = (const uint8_t *)finite;
    }
    enum mode mode = extent.special ? SPECIAL : PLAIN;
    struct quantizer quantizer;
    if (codec->kind == PCCL_CODEC_MIN_MAX) {
        *head =
            (struct head){.first = extent.low + 0, .second = extent.high + 0}; /* + 0: which zero is left to chance */
        struct ramp ramp = ramp_of(head, top_code(codec, mode));
        quantizer = quantizer_of_ramp(&ramp);
    } else {
        *head = lattice_for(extent.low, extent.high, top_code(codec, mode), &quantizer);
    }
    head->mode = mode;
    loops->of[codec->packed_bytes].quantize(source, &quantizer, codes);
    if (mode == SPECIAL)
        put_special(codec, values, codes);
}

static void decode_whole(const struct pccl_codec *codec, const struct loops *loops, const struct head *head,
                         const uint8_t *codes, uint8_t *values)
{
    const struct packed_loops *packed = &loops->of[codec->packed_bytes];
    if (codec->kind == PCCL_CODEC_MIN_MAX) {
        struct ramp ramp = ramp_of(head, top_code(codec, head->mode));
        packed->ramp(codes, &ramp, values);
    } else {
        struct lattice lattice = {head->first, head->second, (VALUE)codec->limit};
        packed->lattice(codes, &lattice, values);
    }
    if (head->mode == SPECIAL)
        get_special(codec, codes, BLOCK, values);
}

static void all_nan(size_t count, uint8_t *values)
{
    const VALUE_BITS nan = QUIET_NAN;
    for (size_t i = 0; i < count; i++)
        memcpy(values + i * sizeof nan, &nan, sizeof nan);
}

void ENCODE(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *values, size_t count,
            uint8_t *bytes)
{
    const struct loops *loops = &all_loops[variant];
    uint8_t *codes = bytes + pccl_codec_head_bytes(codec);
    struct head head;
    if (count == BLOCK) {
        encode_whole(codec, loops, values, &head, codes);
    } else { /* filled up with what is there anyway, which changes neither range nor mode */
        VALUE whole[BLOCK];
        uint8_t whole_codes[BLOCK * sizeof(uint32_t)];
        memcpy(whole, values, count * sizeof(VALUE));
        for (size_t i = count; i < BLOCK; i++)
            whole[i] = whole[0];
        encode_whole(codec, loops, (const uint8_t *)whole, &head, whole_codes);
        memcpy(codes, whole_codes, count * codec->packed_bytes);
    }
    put_head(&head, bytes);
}

void DECODE(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *bytes, size_t count,
            uint8_t *values)
{
    const struct loops *loops = &all_loops[variant];
    const uint8_t *codes = bytes + pccl_codec_head_bytes(codec);
    struct head head;
    if (!get_head(codec, bytes, &head)) {
        all_nan(count, values);
    } else if (count == BLOCK) {
        decode_whole(codec, loops, &head, codes, values);
    } else {
        VALUE whole[BLOCK];
        uint8_t whole_codes[BLOCK * sizeof(uint32_t)] = {0};
        memcpy(whole_codes, codes, count * codec->packed_bytes);
        decode_whole(codec, loops, &head, whole_codes, (uint8_t *)whole);
        memcpy(values, whole, count * sizeof(VALUE));
    }
}

#endif
