/* Fills operands with marks and reads the contributors from results. */
#include "marks.h"

#include "values.h"

#include <stdlib.h>
#include <string.h>

enum { SUM, AVG, PROD, MAX, MIN };
enum { WIDTH_MAX = 24, ELEMENT_MAX = 8, SPARSE_EVERY = 1 << 24, SPARSE_FIRST = 5 };

/* Returns the number of bits whose sums the type holds exactly. */
static int width(const struct marks *marks)
{
    return values_element_bytes(marks->type) == 1 || values_is_small_float(marks->type) ? 8
           : values_element_bytes(marks->type) == 2                                     ? 15
                                                                                        : WIDTH_MAX;
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
    if (marks->op != PROD)
        return (double)(1 << ((unsigned)bit + at) % (unsigned)width(marks));
    return values_is_float(marks->type) ? factors[turn] : 3 + 2 * turn;
}

static double combine(int op, double a, double b)
{
    switch (op) {
    case PROD: return a * b;
    case MAX: return a > b ? a : b;
    case MIN: return a < b ? a : b;
    default: return a + b;
    }
}

static double expected(const struct marks *marks, uint64_t mask, unsigned at)
{
    double result = 0;
    int peers = 0;
    for (int bit = 0; bit < width(marks); bit++) {
        if ((mask >> bit & 1) == 0)
            continue;
        double own = values_wrapped(marks->type, value(marks, bit, at));
        result = peers == 0 ? own : combine(marks->op, result, own);
        peers++;
    }
    result = values_wrapped(marks->type, result);
    if (marks->op != AVG || peers == 0)
        return result;
    if (!values_is_float(marks->type))
        return (double)((int64_t)result / peers);
    return values_element_bytes(marks->type) == 8 ? result / peers : (double)((float)result / (float)peers);
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
        values_store(table[at], marks->type, expected(marks, mask, at));
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
    own.op = marks->op == AVG ? SUM : marks->op;
    make_table(&own, UINT64_C(1) << marks->bit, table);
    for (size_t i = skip(marks, 0); i < marks->count; i = i + 1 < marks->count ? skip(marks, i + 1) : marks->count)
        copy((uint8_t *)elements + i * bytes, table[phase(marks, i)], bytes);
}

/* Returns the contributors of a sum, from one of its elements. */
static uint64_t find_mask(const struct marks *marks, const uint8_t *elements)
{
    size_t i = 0;
    if (marks->op != SUM)
        return 0;
    while (marks->kind != MARKS_MARK && phase(marks, i) % 2 == 0 && i + 1 < marks->count)
        i = skip(marks, i + 1);
    unsigned bits = (unsigned)width(marks);
    double sum = values_load(marks->type, elements + i * values_element_bytes(marks->type));
    uint64_t rotated = (uint64_t)(int64_t)(sum + (sum < 0 ? -0.5 : 0.5)) & ((UINT64_C(1) << bits) - 1);
    if (marks->kind != MARKS_MARK)
        return rotated;
    unsigned at = phase(marks, i);
    return (rotated >> at | rotated << (bits - at)) & ((UINT64_C(1) << bits) - 1);
}

static bool close_to(const struct marks *marks, const uint8_t *element, const uint8_t *wanted)
{
    double got = values_load(marks->type, element), want = values_load(marks->type, wanted);
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
