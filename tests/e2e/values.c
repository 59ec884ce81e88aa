/* Generates operands from patterns, and digests results. */
#include "values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };

/* In the order of pcclDataType_t. */
static const struct {
    const char *name;
    size_t bytes;
    int kind;
} types[] = {
    {"u8", 1, U8},   {"i8", 1, I8},   {"i16", 2, I16}, {"u16", 2, U16},   {"u32", 4, U32}, {"i32", 4, I32},
    {"u64", 8, U64}, {"i64", 8, I64}, {"f16", 2, F16}, {"bf16", 2, BF16}, {"f32", 4, F32}, {"f64", 8, F64},
};
static const char *const ops[] = {"sum", "avg", "prod", "max", "min"};

enum { TYPES = sizeof types / sizeof *types, OPS = sizeof ops / sizeof *ops };

static int plain_number(const char *name)
{
    char *end;
    long value = strtol(name, &end, 10);
    return *name != 0 && *end == 0 ? (int)value : -1;
}

int values_type(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return i;
    return plain_number(name);
}

int values_op(const char *name)
{
    for (int i = 0; i < OPS; i++)
        if (strcmp(ops[i], name) == 0)
            return i;
    return plain_number(name);
}

static int kind_of(int type) { return type >= 0 && type < TYPES ? types[type].kind : U64; }

size_t values_element_bytes(int type) { return type >= 0 && type < TYPES ? types[type].bytes : 8; }

bool values_is_float(int type) { return kind_of(type) >= F16; }

bool values_is_small_float(int type) { return kind_of(type) == F16 || kind_of(type) == BF16; }

double values_wrapped(int type, double number)
{
    uint64_t bits = (uint64_t)(int64_t)number;
    switch (kind_of(type)) {
    case I8: return (int8_t)bits;
    case U8: return (uint8_t)bits;
    case I16: return (int16_t)bits;
    case U16: return (uint16_t)bits;
    case I32: return (int32_t)bits;
    case U32: return (uint32_t)bits;
    case I64:
    case U64: return (double)(int64_t)bits;
    default: return number;
    }
}

/* Keeps the upper bits of a float, rounded to the nearest, ties to even. */
static uint32_t shorten(uint32_t bits, int dropped)
{
    uint32_t half = UINT32_C(1) << (dropped - 1);
    return (bits + half - 1 + (bits >> dropped & 1)) >> dropped;
}

/* Converts a normal number or zero. */
static uint16_t half_float(float single)
{
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t shifted = magnitude == 0 ? 0 : shorten(magnitude - (UINT32_C(112) << 23), 13);
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)shifted;
}

static float from_half_float(uint16_t half)
{
    uint32_t magnitude = half & 0x7FFF, bits = magnitude == 0 ? 0 : (magnitude << 13) + (UINT32_C(112) << 23);
    bits |= (uint32_t)(half & 0x8000) << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return single;
}

void values_store(uint8_t *at, int type, double value)
{
    int64_t whole = (int64_t)value;
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    uint16_t half = half_float(single), upper = (uint16_t)shorten(bits, 16);
    switch (kind_of(type)) {
    case F32: memcpy(at, &single, 4); break;
    case F64: memcpy(at, &value, 8); break;
    case F16: memcpy(at, &half, 2); break;
    case BF16: memcpy(at, &upper, 2); break;
    default: memcpy(at, &whole, values_element_bytes(type)); break; /* the low bytes: little-endian machines only */
    }
}

double values_load(int type, const uint8_t *at)
{
    uint64_t whole = 0;
    double number;
    float single;
    uint16_t half;
    switch (kind_of(type)) {
    case F32: memcpy(&single, at, 4); return single;
    case F64: memcpy(&number, at, 8); return number;
    case F16: memcpy(&half, at, 2); return from_half_float(half);
    case BF16:
        memcpy((uint8_t *)&single + 2, at, 2);
        memset(&single, 0, 2);
        return single;
    default: memcpy(&whole, at, values_element_bytes(type)); return values_wrapped(type, (double)(int64_t)whole);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void from_random(uint8_t *at, int type, size_t count, uint64_t seed)
{
    size_t element_bytes = values_element_bytes(type);
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(&state);
        if (values_is_float(type))
            values_store(at + i * element_bytes, type, (double)(int64_t)bits / 9223372036854775808.0);
        else
            memcpy(at + i * element_bytes, &bits, element_bytes);
    }
}

static bool fill(uint8_t *at, int type, size_t count, const char *pattern)
{
    size_t element_bytes = values_element_bytes(type);
    if (strncmp(pattern, "rand:", 5) == 0) {
        from_random(at, type, count, strtoull(pattern + 5, NULL, 10));
        return true;
    }
    bool ramp = strncmp(pattern, "ramp:", 5) == 0;
    if (!ramp && strncmp(pattern, "const:", 6) != 0)
        return false;
    char *end;
    double first = strtod(pattern + (ramp ? 5 : 6), &end), step = ramp && *end == ':' ? strtod(end + 1, &end) : 0;
    for (size_t i = 0; i < count; i++)
        values_store(at + i * element_bytes, type, first + (double)i * step);
    return *end == 0;
}

bool values_make(struct values *values, const struct values_wish *wish)
{
    memset(values, 0, sizeof *values);
    values->marks = (struct marks){
        .type = wish->type, .op = wish->op, .count = wish->count, .salt = wish->salt, .rough = wish->rough};
    /* The library must refuse an unknown type; the buffers must exist for that. */
    bool known = wish->type >= 0 && wish->type < TYPES;
    bool marked = known && marks_parse(&values->marks, wish->pattern);
    bool keep = values->marks.kind != MARKS_SPARSE;
    values->bytes = wish->count * values_element_bytes(wish->type);
    values->send_block = calloc(1, values->bytes + wish->offset + 1);
    values->recv_block = wish->in_place ? NULL : calloc(1, values->bytes + wish->offset + 1);
    values->original = keep ? malloc(values->bytes + 1) : NULL;
    if (values->send_block == NULL || (keep && values->original == NULL) ||
        (!wish->in_place && values->recv_block == NULL))
        exit(3);
    values->send = (uint8_t *)values->send_block + wish->offset;
    values->recv = wish->in_place ? values->send : (uint8_t *)values->recv_block + wish->offset;
    bool filled = !known || marked || fill(values->send, wish->type, wish->count, wish->pattern);
    if (marked)
        marks_fill(&values->marks, values->send);
    if (keep)
        memcpy(values->original, values->send, values->bytes);
    return filled;
}

bool values_intact(const struct values *values, bool success)
{
    if (success && values->send == values->recv)
        return true;
    if (values->original == NULL)
        return marks_check(&values->marks, values->send, UINT64_C(1) << values->marks.bit).right;
    return memcmp(values->send, values->original, values->bytes) == 0;
}

uint64_t values_digest(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

void values_free(struct values *values)
{
    free(values->send_block);
    free(values->recv_block);
    free(values->original);
    memset(values, 0, sizeof *values);
}
