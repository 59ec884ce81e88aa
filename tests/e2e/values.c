/* Generates operands from patterns, and digests results. */
#include "values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* In the order of pcclDataType_t. */
static const char *const types[] = {"u8", "i8", "i16", "u16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"};
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
        if (strcmp(types[i], name) == 0)
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

const struct datatype *values_datatype(int type) { return &datatypes[type >= 0 && type < TYPES ? type : pcclUint64]; }

size_t values_element_bytes(int type) { return values_datatype(type)->bytes; }

static void store(uint8_t *at, const struct datatype *type, double value)
{
    write_number(type, number_of(type, value), at);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void from_random(uint8_t *at, const struct datatype *type, size_t count, uint64_t seed)
{
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(&state);
        if (type->family == REAL)
            store(at + i * type->bytes, type, (double)(int64_t)bits / 9223372036854775808.0);
        else
            memcpy(at + i * type->bytes, &bits, type->bytes);
    }
}

static bool fill(uint8_t *at, const struct datatype *type, size_t count, const char *pattern)
{
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
        store(at + i * type->bytes, type, first + (double)i * step);
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
    bool filled = !known || marked || fill(values->send, values_datatype(wish->type), wish->count, wish->pattern);
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
