/* Fills operands with marks and reads the contributors from results. */
#include "marks.h"

#include "values.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 24, ELEMENT_MAX = 8, SPARSE_EVERY = 1 << 24, SPARSE_FIRST = 5 };

/* Returns the number of bits whose sums the type holds exactly. */
static int width(const struct marks *marks)
{
    const struct datatype *type = values_datatype(marks->type);
    return type->bytes > 2 ? WIDTH_MAX : type->bytes == 2 && type->family != REAL ? 15 : 8;
}

bool marks_parse(struct marks *marks, const char *pattern)
{
    static const char *const names[] = {[MARKS_MARK] = "mark:", [MARKS_PAIR] = "pair:", [MARKS_SPARSE] = "sparse:"};
    marks->kind = MARKS_NONE;
    for (int kind = MARKS_MARK; kind <= MARKS_SPARSE; kind++)
        if (strncmp(pattern, names[kind], strlen(names[kind])) == 0)
            marks->kind = (enum marks_kind)kind;
    if (marks->kind == MARKS_NONE)
        return false;
    char *end;
    marks->bit = (int)strtol(strchr(pattern, ':') + 1, &end, 10);
    return *end == 0 && marks->bit >= 0 && marks->bit < width(marks);
}

static bool sparse_place(const struct marks *marks, size_t i)
{
    return i % SPARSE_EVERY == SPARSE_FIRST || i == marks->count - 1;
}

/* Returns a number in [0, width) that differs between neighbors and between salts. */
static unsigned phase(const struct marks *marks, size_t i)
{
    if (marks->kind == MARKS_SPARSE)
        return sparse_place(marks, i);
    uint64_t mixed = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u + marks->salt * 0xD1B54A32D192ED03u;
    return (unsigned)((mixed >> 48) * (uint64_t)width(marks) >> 16);
}

/* Returns the element of the peer with this bit in this phase. */
static double value(const struct marks *marks, int bit, unsigned at)
{
    static const double factors[] = {1, 2, 0.5, -1, 1};
    unsigned turn = ((unsigned)bit + at) % 5;
    if (marks->kind != MARKS_MARK)
        return at % 2 != 0 ? (double)(1 << bit) : 0;
    if (marks->op != pcclProd)
        return (double)(1 << ((unsigned)bit + at) % (unsigned)width(marks));
    return values_datatype(marks->type)->family == REAL ? factors[turn] : 3 + 2 * turn;
}

static union number expected(const struct marks *marks, uint64_t mask, unsigned at)
{
    const struct datatype *type = values_datatype(marks->type);
    union number given[WIDTH_MAX];
    unsigned peers = 0;
    for (int bit = 0; bit < width(marks); bit++)
        if ((mask >> bit & 1) != 0)
            given[peers++] = number_of(type, value(marks, bit, at));
    return peers > 0 ? reduce_numbers(type, (pcclRedOp_t)marks->op, given, peers) : number_of(type, 0);
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    switch (bytes) { /* copies of constant size compile to single moves */
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8); break;
    }
}

static bool same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    switch (bytes) {
    case 1: return *a == *b;
    case 2: return memcmp(a, b, 2) == 0;
    case 4: return memcmp(a, b, 4) == 0;
    default: return memcmp(a, b, 8) == 0;
    }
}

static void make_table(const struct marks *marks, uint64_t mask, uint8_t table[WIDTH_MAX][ELEMENT_MAX])
{
    for (unsigned at = 0; at < (unsigned)width(marks); at++)
        write_number(values_datatype(marks->type), expected(marks, mask, at), table[at]);
}

/* Returns the next index from i on that can be nonzero. */
static size_t skip(const struct marks *marks, size_t i)
{
    if (marks->kind != MARKS_SPARSE || sparse_place(marks, i))
        return i;
    size_t next = i - i % SPARSE_EVERY + SPARSE_FIRST + (i % SPARSE_EVERY > SPARSE_FIRST ? SPARSE_EVERY : 0);
    return next < marks->count ? next : marks->count - 1;
}

void marks_fill(const struct marks *marks, void *elements)
{
    uint8_t table[WIDTH_MAX][ELEMENT_MAX];
    size_t bytes = values_element_bytes(marks->type);
    struct marks own = *marks;
    own.op = marks->op == pcclAvg ? pcclSum : marks->op;
    make_table(&own, UINT64_C(1) << marks->bit, table);
    for (size_t i = skip(marks, 0); i < marks->count; i = i + 1 < marks->count ? skip(marks, i + 1) : marks->count)
        copy((uint8_t *)elements + i * bytes, table[phase(marks, i)], bytes);
}

/* Returns the contributors of a sum, from one of its elements. */
static uint64_t find_mask(const struct marks *marks, const uint8_t *elements)
{
    size_t i = 0;
    if (marks->op != pcclSum)
        return 0;
    while (marks->kind != MARKS_MARK && phase(marks, i) % 2 == 0 && i + 1 < marks->count)
        i = skip(marks, i + 1);
    unsigned bits = (unsigned)width(marks);
    const struct datatype *type = values_datatype(marks->type);
    double sum = value_of(type, read_number(type, elements + i * type->bytes));
    uint64_t rotated = (uint64_t)(int64_t)(sum + (sum < 0 ? -0.5 : 0.5)) & ((UINT64_C(1) << bits) - 1);
    if (marks->kind != MARKS_MARK)
        return rotated;
    unsigned at = phase(marks, i);
    return (rotated >> at | rotated << (bits - at)) & ((UINT64_C(1) << bits) - 1);
}

static bool close_to(const struct marks *marks, const uint8_t *element, const uint8_t *wanted)
{
    const struct datatype *type = values_datatype(marks->type);
    double got = value_of(type, read_number(type, element)), want = value_of(type, read_number(type, wanted));
    double difference = got > want ? got - want : want - got, size = want < 0 ? -want : want;
    return difference <= 1e-3 * (size > 1 ? size : 1);
}

static bool all_zero(const uint8_t *bytes, size_t length)
{
    static const uint8_t zeros[4096];
    for (size_t i = 0; i < length; i += sizeof zeros)
        if (memcmp(bytes + i, zeros, length - i < sizeof zeros ? length - i : sizeof zeros) != 0)
            return false;
    return true;
}

struct marks_found marks_check(const struct marks *marks, const void *elements, uint64_t mask)
{
    uint8_t table[WIDTH_MAX][ELEMENT_MAX];
    size_t bytes = values_element_bytes(marks->type);
    const uint8_t *at = elements;
    struct marks_found found = {.mask = mask != 0 ? mask : find_mask(marks, elements)};
    make_table(marks, found.mask, table);
    for (size_t i = 0; i < marks->count; i++) {
        size_t next = skip(marks, i);
        found.wrong = i;
        if (!all_zero(at + i * bytes, (next - i) * bytes))
            return found;
        found.wrong = i = next;
        const uint8_t *wanted = table[phase(marks, i)];
        if (!same(at + i * bytes, wanted, bytes) && !(marks->rough && close_to(marks, at + i * bytes, wanted)))
            return found;
    }
    found.right = found.mask != 0;
    return found;
}
