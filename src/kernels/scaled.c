/*
 * Computes the scale of each block, and passes whole blocks of ordinary floats to the loops of the kernels: 16-bit
 * elements are widened, short blocks are padded with zeros, and values that are not finite are handled separately.
 */
#include "kernels/scaled.h"

#include "core/prng.h"
#include "kernels/bits.h"
#include "kernels/float_mode.h"
#include "kernels/variant.h"

#include <string.h>

enum { LIMIT_F32 = 0x7f7fffff, LIMIT_BF16 = 0x7f7f0000, LIMIT_F16 = 0x477fe000, INFINITE = 0x7f800000 };

/* The fields `infinity` and `nan` contain codes. */
static const struct format {
    const char *name;
    float top; /* largest number */
    uint8_t code_bits, infinity, nan;
} formats[PCCL_SCALED_FORMATS] = {
    [PCCL_SCALED_E4M3] = {"e4m3", 448, 8, 0x7f, 0x7f}, [PCCL_SCALED_E5M2] = {"e5m2", 57344, 8, 0x7c, 0x7e},
    [PCCL_SCALED_INT4] = {"int4", 7, 4, 0x8, 0x8},     [PCCL_SCALED_E3M0] = {"e3m0", 64, 4, 0x8, 0x8},
    [PCCL_SCALED_E2M1] = {"e2m1", 6, 4, 0x8, 0x8},
};
static const uint8_t scale_bytes[PCCL_SCALED_SCALES] = {4, 2, 1};

const char *pccl_scaled_format_name(enum pccl_scaled_format format)
{
    return (unsigned)format < PCCL_SCALED_FORMATS ? formats[format].name : "?";
}

bool pccl_scaled_is_valid(const struct pccl_scaled *codec, struct pccl_text *reason)
{
    pccl_text_clear(reason);
    if ((unsigned)codec->format >= PCCL_SCALED_FORMATS)
        pccl_text_format(reason, "unknown format: %u", codec->format);
    else if ((unsigned)codec->scale >= PCCL_SCALED_SCALES)
        pccl_text_format(reason, "unknown scale: %u", codec->scale);
    else if ((unsigned)codec->rounding >= PCCL_SCALED_ROUNDINGS)
        pccl_text_format(reason, "unknown rounding: %u", codec->rounding);
    else if ((unsigned)codec->datatype >= PCCL_DATATYPES)
        pccl_text_format(reason, "unknown data type: %u", codec->datatype);
    else if (codec->datatype != PCCL_F16 && codec->datatype != PCCL_BF16 && codec->datatype != PCCL_F32)
        pccl_text_format(reason, "%s packs f16, bf16 and f32, not %s", formats[codec->format].name,
                         pccl_datatype_name(codec->datatype));
    else if (codec->block < PCCL_SCALED_BLOCK_MIN || codec->block > PCCL_SCALED_BLOCK_MAX ||
             (codec->block & (codec->block - 1)) != 0)
        pccl_text_format(reason, "invalid block size %u: expected 16, 32, 64, 128 or 256 elements", codec->block);
    return reason->length == 0;
}

/* Returns the size of a block, rounded up to a multiple of the smallest block. */
static size_t filled_up(size_t count) { return (size_t)pccl_round_up(count, PCCL_SCALED_BLOCK_MIN); }

static size_t code_bytes(const struct pccl_scaled *codec, size_t count)
{
    return filled_up(count) / 8 * formats[codec->format].code_bits;
}

/* Returns the size of one block in bytes. Like pccl_scaled_bytes, but without its divisions. */
static size_t block_bytes(const struct pccl_scaled *codec, size_t count)
{
    return scale_bytes[codec->scale] + code_bytes(codec, count);
}

size_t pccl_scaled_bytes(const struct pccl_scaled *codec, size_t count)
{
    size_t blocks = count / codec->block + (count % codec->block != 0);
    return blocks * scale_bytes[codec->scale] + code_bytes(codec, count);
}

/* ---- scales ---- */

/* Returns the smallest step with which the format reaches `top`, or the float after it. */
static float step_to(const struct format *format, float top)
{
    float step = top / format->top;
    return format->top * step < top ? pccl_f32_of(pccl_f32_bits(step) + 1) : step;
}

/*
 * Returns the transmitted scale as the bits of a float whose low bytes are zero: the largest magnitude, rounded up; or
 * the step if the scale is a power of two.
 */
static uint32_t scale_for(const struct pccl_scaled *codec, uint32_t largest)
{
    if (codec->scale == PCCL_SCALED_F32 || largest == 0)
        return largest;
    if (codec->scale == PCCL_SCALED_BF16) {
        uint32_t up = (largest + 0xffff) & 0xffff0000;
        return up < LIMIT_BF16 ? up : LIMIT_BF16;
    }
    uint32_t power = (pccl_f32_bits(step_to(&formats[codec->format], pccl_f32_of(largest))) + 0x7fffff) & 0x7f800000;
    return power > 0 ? power : UINT32_C(1) << 23;
}

static struct pccl_unscaling unscaling_for(const struct pccl_scaled *codec, uint32_t scale)
{
    const struct format *format = &formats[codec->format];
    const float limit = pccl_f32_of(codec->datatype == PCCL_F16    ? LIMIT_F16
                                    : codec->datatype == PCCL_BF16 ? LIMIT_BF16
                                                                   : LIMIT_F32);
    float number = pccl_f32_of(scale);
    struct pccl_unscaling by = {.step = number, .top = number};
    if (codec->scale == PCCL_SCALED_POWER)
        by.top = number * format->top;
    else
        by.step = step_to(format, number);
    by.top = by.top < limit ? by.top : limit;
    return by;
}

/*
 * Writes a scale. A power of two is written as one byte, the exponent. Avoids branches, because every block has a
 * scale.
 */
static void put_scale(const struct pccl_scaled *codec, uint32_t scale, uint8_t *bytes)
{
    if (codec->scale == PCCL_SCALED_POWER) {
        bytes[0] = (uint8_t)(scale >> 23);
        return;
    }
    if (codec->scale == PCCL_SCALED_F32) {
        *bytes++ = (uint8_t)scale;
        *bytes++ = (uint8_t)(scale >> 8);
    }
    bytes[0] = (uint8_t)(scale >> 16);
    bytes[1] = (uint8_t)(scale >> 24);
}

/* Reads a scale. Returns false if it is invalid. */
static bool get_scale(const struct pccl_scaled *codec, const uint8_t *bytes, uint32_t *scale)
{
    if (codec->scale == PCCL_SCALED_POWER)
        *scale = (uint32_t)bytes[0] << 23;
    else if (codec->scale == PCCL_SCALED_BF16)
        *scale = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
    else
        *scale = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    return *scale < INFINITE;
}

/* ---- values that the loops cannot process ---- */

#define UNIT 0x1p64f
#define STEP_TINY 0x1p-100f /* the inverse of a smaller step may overflow */

static uint32_t bits_at(const uint8_t *values, size_t index)
{
    uint32_t bits;
    memcpy(&bits, values + index * sizeof bits, sizeof bits);
    return bits;
}

static bool is_special(uint32_t bits) { return (bits & 0x7fffffff) >= INFINITE; }

static void copy_ordinary(const uint8_t *values, size_t count, float unit, float *to)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_at(values, i);
        to[i] = is_special(bits) ? 0 : pccl_f32_of(bits) * unit;
    }
}

static void put_special(const struct format *format, const uint8_t *values, size_t count, uint8_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_at(values, i);
        if (!is_special(bits))
            continue;
        uint8_t code = (bits & 0x7fffff) != 0 ? format->nan : format->infinity;
        if (format->code_bits == 8)
            codes[i] = (uint8_t)(code | (bits >> 31 << 7));
        else if (i < count / 2)
            codes[i] = (uint8_t)((codes[i] & 0xf0) | code);
        else
            codes[i - count / 2] = (uint8_t)((codes[i - count / 2] & 0xf) | code << 4);
    }
}

/* ---- blocks ---- */

/*
 * Derives the keys by splitmix64 from the seed and the upper half of the place. Blocks begin at multiples of their
 * size, so the lower half does not wrap around within a block.
 */
static void choose_keys(uint64_t first, uint64_t seed, struct pccl_scaling *by)
{
    const uint64_t mixed = pccl_prng_mix(seed + (first >> 32) * UINT64_C(0x9e3779b97f4a7c15));
    by->keys[0] = (uint32_t)mixed;
    by->keys[1] = (uint32_t)(mixed >> 32);
}

/* Encodes floats. Their number must be a multiple of the smallest block. */
static void encode_block(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const uint8_t *values,
                         size_t count, struct pccl_scaling *by, uint8_t *bytes)
{
    float ordinary[PCCL_SCALED_BLOCK_MAX];
    const uint8_t *source = values;
    uint8_t *codes = bytes + scale_bytes[codec->scale];
    uint32_t largest = kernels->scaled_largest(values, count);
    const bool special = largest >= INFINITE;
    if (special) {
        copy_ordinary(values, count, 1, ordinary);
        source = (const uint8_t *)ordinary;
        largest = kernels->scaled_largest(source, count);
    }
    uint32_t scale = scale_for(codec, largest);
    float step = unscaling_for(codec, scale).step;
    if (step > 0 && step < STEP_TINY) {
        copy_ordinary(values, count, UNIT, ordinary);
        source = (const uint8_t *)ordinary;
        step *= UNIT;
    }
    by->inverse = step > 0 ? 1 / step : 0;
    put_scale(codec, scale, bytes);
    kernels->scaled[codec->format].encode[codec->rounding](source, count, by, codes);
    if (special)
        put_special(&formats[codec->format], values, count, codes);
}

static void decode_block(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                         size_t count, uint8_t *values)
{
    const uint32_t nan = UINT32_C(0x7fc00000);
    uint32_t scale;
    if (get_scale(codec, bytes, &scale)) {
        struct pccl_unscaling by = unscaling_for(codec, scale);
        kernels->scaled[codec->format].decode(bytes + scale_bytes[codec->scale], count, &by, values);
    } else {
        for (size_t i = 0; i < count; i++)
            memcpy(values + i * sizeof nan, &nan, sizeof nan);
    }
}

void pccl_scaled_encode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const void *elements,
                        size_t count, uint64_t first, uint64_t seed, uint8_t *bytes)
{
    const size_t element_bytes = pccl_datatype_bytes(codec->datatype);
    const uint8_t *from = elements;
    uint64_t mode = pccl_float_mode_begin();
    while (count > 0) {
        float values[PCCL_SCALED_BLOCK_MAX];
        size_t part = count < codec->block ? count : codec->block, filled = filled_up(part);
        const uint8_t *source = (const uint8_t *)values;
        struct pccl_scaling by = {.first = (uint32_t)first};
        if (codec->rounding == PCCL_SCALED_STOCHASTIC)
            choose_keys(first, seed, &by);
        if (codec->datatype != PCCL_F32)
            kernels->widen[codec->datatype](values, from, part);
        else if (part < filled)
            memcpy(values, from, part * sizeof *values);
        else
            source = from;
        if (part < filled)
            memset(values + part, 0, (filled - part) * sizeof *values);
        encode_block(codec, kernels, source, filled, &by, bytes);
        from += part * element_bytes;
        bytes += block_bytes(codec, part);
        first += part;
        count -= part;
    }
    pccl_float_mode_end(mode);
}

void pccl_scaled_decode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                        size_t count, void *elements)
{
    const size_t element_bytes = pccl_datatype_bytes(codec->datatype);
    uint8_t *to = elements;
    uint64_t mode = pccl_float_mode_begin();
    while (count > 0) {
        float values[PCCL_SCALED_BLOCK_MAX];
        size_t part = count < codec->block ? count : codec->block, filled = filled_up(part);
        const bool direct = codec->datatype == PCCL_F32 && part == filled;
        decode_block(codec, kernels, bytes, filled, direct ? to : (uint8_t *)values);
        if (codec->datatype != PCCL_F32)
            kernels->narrow[codec->datatype](to, values, part);
        else if (!direct)
            memcpy(to, values, part * sizeof *values);
        to += part * element_bytes;
        bytes += block_bytes(codec, part);
        count -= part;
    }
    pccl_float_mode_end(mode);
}
