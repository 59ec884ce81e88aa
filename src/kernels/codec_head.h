/* The numbers at the head of a block, as VALUEs and as bytes. Part of codec_block.h. */
#ifndef PCCL_KERNELS_CODEC_HEAD_H
#define PCCL_KERNELS_CODEC_HEAD_H

#include "kernels/codec_internal.h"

#include <float.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "codecs need IEEE arithmetic in the type as written"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* SPECIAL: the block contains NaN or infinities, which are encoded as the three highest codes. */
enum mode { PLAIN, SPECIAL, MODES };
enum { SPECIAL_CODES = 3 };

/*
 * The two fields depend on the kind. MinMax: the smallest and the largest finite value. ZeroPointScale: the zero point,
 * which is an integer, and the scale.
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

/* Reads a head. Returns false if it is invalid. */
static bool get_head(const struct pccl_codec *codec, const uint8_t *bytes, struct head *head)
{
    head->mode = (enum mode)bytes[0];
    head->first = get_field(bytes + 1);
    head->second = get_field(bytes + 1 + sizeof(VALUE));
    return bytes[0] < MODES && is_finite(head->first) && is_finite(head->second) &&
           (codec->kind != PCCL_CODEC_MIN_MAX || head->first <= head->second);
}

/* Returns the highest code of a finite value. */
static uint32_t top_code(const struct pccl_codec *codec, enum mode mode)
{
    return (UINT32_MAX >> (32 - 8 * codec->packed_bytes)) - (mode == SPECIAL ? SPECIAL_CODES : 0);
}

#endif
