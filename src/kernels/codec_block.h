/*
 * Encodes and decodes one block of a codec, computed in the type VALUE. codec_f32.c and codec_f64.c define VALUE and
 * include this file once, together with codec_head.h, codec_loops.h and codec_numbers.h. docs/CODECS.md has the
 * formulas.
 *
 * Peers must agree on every bit. The code therefore uses no division, no rounding by a library, and only plain
 * operations in the order written, which must not be contracted to fused ones (the build forbids that, and tests
 * compare the bits). A short block is padded.
 */
#ifndef PCCL_KERNELS_CODEC_BLOCK_H
#define PCCL_KERNELS_CODEC_BLOCK_H

#include "kernels/codec_numbers.h"

/* ---- NaN and infinities ---- */

/* Copies the values, replacing those that are not finite with the minimum of the others. */
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

/* Codes of special values, relative to the highest code of a finite value. */
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
            /* + 0 normalizes the sign of zero, which is arbitrary */
            (struct head){.first = extent.low + 0, .second = extent.high + 0};
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
    } else { /* padded with one of the block's values, which changes neither range nor mode */
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
