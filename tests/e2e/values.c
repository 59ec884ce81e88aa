#include "values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

static void store(uint8_t *at, int kind, double value)
{
    int64_t whole = (int64_t)value;
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    uint16_t upper = (uint16_t)(bits >> 16); /* bfloat16, exact for small whole numbers */
    switch (kind) {
    case F32: memcpy(at, &single, 4); break;
    case F64: memcpy(at, &value, 8); break;
    case BF16: memcpy(at, &upper, 2); break;
    case I64:
    case U64: memcpy(at, &whole, 8); break;
    case I32:
    case U32: memcpy(at, &whole, 4); break; /* the low bytes: little-endian machines only */
    case I16:
    case U16: memcpy(at, &whole, 2); break;
    default: memcpy(at, &whole, 1); break;
    }
}

static bool from_hex(uint8_t *at, size_t bytes, const char *text)
{
    if (strlen(text) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        char pair[] = {text[2 * i], text[2 * i + 1], 0}, *end;
        at[i] = (uint8_t)strtoul(pair, &end, 16);
        if (*end != 0)
            return false;
    }
    return true;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void from_random(uint8_t *at, int kind, size_t element_bytes, size_t count, uint64_t seed)
{
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(&state);
        if (kind == F32 || kind == F64 || kind == BF16)
            store(at + i * element_bytes, kind, (double)(int64_t)bits / 9223372036854775808.0);
        else
            memcpy(at + i * element_bytes, &bits, element_bytes);
    }
}

static bool fill(uint8_t *at, int type, size_t count, const char *pattern)
{
    int kind = types[type].kind;
    size_t element_bytes = types[type].bytes;
    if (strncmp(pattern, "hex:", 4) == 0)
        return from_hex(at, count * element_bytes, pattern + 4);
    if (kind == F16)
        return false;
    if (strncmp(pattern, "rand:", 5) == 0) {
        from_random(at, kind, element_bytes, count, strtoull(pattern + 5, NULL, 10));
        return true;
    }
    bool ramp = strncmp(pattern, "ramp:", 5) == 0;
    if (!ramp && strncmp(pattern, "const:", 6) != 0)
        return false;
    char *end;
    double first = strtod(pattern + (ramp ? 5 : 6), &end), step = ramp && *end == ':' ? strtod(end + 1, &end) : 0;
    for (size_t i = 0; i < count; i++)
        store(at + i * element_bytes, kind, first + (double)i * step);
    return *end == 0;
}

bool values_make(struct values *values, int type, size_t count, const char *pattern, bool in_place, size_t offset)
{
    memset(values, 0, sizeof *values);
    /* An unknown type is for the library to refuse; the buffers must exist for that. */
    bool known = type >= 0 && type < TYPES;
    values->bytes = count * (known ? types[type].bytes : 8);
    values->send_block = calloc(1, values->bytes + offset + 1);
    values->recv_block = in_place ? NULL : calloc(1, values->bytes + offset + 1);
    values->original = malloc(values->bytes + 1);
    if (values->send_block == NULL || values->original == NULL || (!in_place && values->recv_block == NULL))
        exit(3);
    values->send = (uint8_t *)values->send_block + offset;
    values->recv = in_place ? values->send : (uint8_t *)values->recv_block + offset;
    bool filled = !known || fill(values->send, type, count, pattern);
    memcpy(values->original, values->send, values->bytes);
    return filled;
}

bool values_intact(const struct values *values, bool success)
{
    if (success && values->send == values->recv)
        return true;
    return memcmp(values->send, values->original, values->bytes) == 0;
}

/* FNV-1a over words; only has to differ when bits differ. */
uint64_t values_digest(const void *bytes, size_t length, uint64_t seed)
{
    const uint8_t *at = bytes;
    uint64_t hash = seed ^ 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

void values_free(struct values *values)
{
    free(values->send_block);
    free(values->recv_block);
    free(values->original);
    memset(values, 0, sizeof *values);
}
