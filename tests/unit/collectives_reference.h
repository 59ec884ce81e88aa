/*
 * Reference results of each collective for unit/api_matrix, computed one element at a time in plain arithmetic. Uses
 * only the public headers and no kernel of the library.
 */
#ifndef PCCL_TESTS_UNIT_COLLECTIVES_REFERENCE_H
#define PCCL_TESTS_UNIT_COLLECTIVES_REFERENCE_H

#include "pccl.h"

#include <math.h>
#include <string.h>

/* ---- elements ---- */

enum family { UNSIGNED, SIGNED, TRUTH, REAL };

/* bits: of the elements that peers put in, few enough that sums of reals are exact before they are rounded. */
struct datatype {
    pcclDataType_t id;
    enum family family;
    unsigned bytes, exponent_bits, mantissa_bits, bits;
};

enum { DATATYPES = 15, OPERATORS = 9 };

static const struct datatype datatypes[DATATYPES] = {
    {pcclUint8, UNSIGNED, 1, 0, 0, 8},   {pcclInt8, SIGNED, 1, 0, 0, 8},       {pcclInt16, SIGNED, 2, 0, 0, 16},
    {pcclUint16, UNSIGNED, 2, 0, 0, 16}, {pcclUint32, UNSIGNED, 4, 0, 0, 32},  {pcclInt32, SIGNED, 4, 0, 0, 32},
    {pcclUint64, UNSIGNED, 8, 0, 0, 64}, {pcclInt64, SIGNED, 8, 0, 0, 64},     {pcclFloat16, REAL, 2, 5, 10, 11},
    {pcclBFloat16, REAL, 2, 8, 7, 8},    {pcclFloat, REAL, 4, 8, 23, 20},      {pcclDouble, REAL, 8, 11, 52, 40},
    {pcclBool, TRUTH, 1, 0, 0, 8},       {pcclFloat8E4M3FN, REAL, 1, 4, 3, 4}, {pcclFloat8E5M2, REAL, 1, 5, 2, 3},
};

static const pcclRedOp_t operators[OPERATORS] = {pcclSum, pcclAvg, pcclProd, pcclMax,      pcclMin,
                                                 pcclAnd, pcclOr,  pcclXor,  pcclPremulSum};

/* An element of any type: of the type REAL its value, of others its bits, extended to 64 by its sign if it has one. */
union number {
    uint64_t whole;
    double real;
};

static inline union number number_of_int(enum family family, int value)
{
    return family == REAL ? (union number){.real = value} : (union number){.whole = (uint64_t)(int64_t)value};
}

static inline int bias_of(const struct datatype *type) { return (1 << (type->exponent_bits - 1)) - 1; }

/* Rounds a finite value, or an infinity of a type that has them, to the nearest of the type, ties to even. */
static inline uint64_t bits_of_real(const struct datatype *type, double value)
{
    const int mantissa = (int)type->mantissa_bits, least = 1 - bias_of(type);
    const uint64_t sign = (uint64_t)(signbit(value) != 0) << (type->exponent_bits + type->mantissa_bits);
    int exponent = 0;
    if (isinf(value))
        return sign | ((UINT64_C(1) << type->exponent_bits) - 1) << mantissa;
    (void)frexp(value, &exponent);
    exponent = value == 0 || exponent - 1 < least ? least : exponent - 1;
    const uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(value), mantissa - exponent)); /* with the leading 1 */
    return sign | (((uint64_t)(exponent - least) << mantissa) + steps);
}

static inline double real_of_bits(const struct datatype *type, uint64_t bits)
{
    const unsigned mantissa = type->mantissa_bits;
    const uint64_t exponent = bits >> mantissa & ((UINT64_C(1) << type->exponent_bits) - 1);
    const uint64_t fraction = bits & ((UINT64_C(1) << mantissa) - 1);
    const double size = exponent == 0 ? (double)fraction : (double)(fraction + (UINT64_C(1) << mantissa));
    const double value = ldexp(size, (exponent == 0 ? 1 : (int)exponent) - bias_of(type) - (int)mantissa);
    return bits >> (mantissa + type->exponent_bits) & 1 ? -value : value;
}

static inline union number read_number(const struct datatype *type, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, type->bytes); /* little-endian */
    if (type->family == REAL)
        return (union number){.real = real_of_bits(type, bits)};
    if (type->family == SIGNED && type->bytes < 8 && bits >> (8 * type->bytes - 1) & 1)
        bits |= ~UINT64_C(0) << 8 * type->bytes;
    return (union number){.whole = type->family == TRUTH ? bits != 0 : bits};
}

static inline void write_number(const struct datatype *type, union number number, void *at)
{
    const uint64_t bits = type->family == REAL ? bits_of_real(type, number.real) : number.whole;
    memcpy(at, &bits, type->bytes);
}

/* ---- reductions ---- */

static inline bool fits(const struct datatype *type, pcclRedOp_t op)
{
    switch (op) {
    case pcclAnd:
    case pcclOr:
    case pcclXor: return type->family != REAL;
    case pcclAvg: return type->family != TRUTH;
    case pcclPremulSum: return type->family == REAL;
    default: return true;
    }
}

static inline double reduce_reals(pcclRedOp_t op, double a, double b)
{
    return op == pcclProd ? a * b : op == pcclMax ? (a > b ? a : b) : op == pcclMin ? (a < b ? a : b) : a + b;
}

static inline uint64_t reduce_truths(pcclRedOp_t op, uint64_t a, uint64_t b)
{
    return op == pcclXor ? a ^ b : op == pcclProd || op == pcclMin || op == pcclAnd ? a & b : a | b;
}

static inline uint64_t reduce_wholes(enum family family, pcclRedOp_t op, uint64_t a, uint64_t b)
{
    const bool less = family == SIGNED ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case pcclProd: return a * b;
    case pcclMax: return less ? b : a;
    case pcclMin: return less ? a : b;
    case pcclAnd: return a & b;
    case pcclOr: return a | b;
    case pcclXor: return a ^ b;
    default: return a + b;
    }
}

/* Result of a reduction of nothing, which an exclusive scan gives rank 0. */
static inline union number identity_of(const struct datatype *type, pcclRedOp_t op)
{
    const uint64_t ones = ~UINT64_C(0), top = UINT64_C(1) << (8 * type->bytes - 1);
    if (type->family == REAL && (op == pcclMax || op == pcclMin)) {
        const double most = type->id == pcclFloat8E4M3FN ? 448 : INFINITY;
        return (union number){.real = op == pcclMax ? -most : most};
    }
    if (type->family == TRUTH)
        return (union number){.whole = op == pcclProd || op == pcclMin || op == pcclAnd};
    switch (op) {
    case pcclProd: return number_of_int(type->family, 1);
    case pcclAnd: return (union number){.whole = ones};
    case pcclMax: return (union number){.whole = type->family == SIGNED ? 0 - top : 0};
    case pcclMin: return (union number){.whole = type->family == SIGNED ? top - 1 : ones};
    default: return number_of_int(type->family, 0);
    }
}

/* The average of whole numbers is the sum, as the type holds it, divided toward 0. */
static inline union number average(const struct datatype *type, union number sum, unsigned count)
{
    if (type->family == REAL)
        return (union number){.real = sum.real / count};
    write_number(type, sum, &sum);
    sum = read_number(type, &sum);
    return (union number){.whole = type->family == SIGNED ? (uint64_t)((int64_t)sum.whole / (int64_t)count)
                                                          : sum.whole / count};
}

static inline union number reduce_numbers(const struct datatype *type, pcclRedOp_t op, const union number *given,
                                          unsigned count)
{
    union number result = count > 0 ? given[0] : identity_of(type, op);
    for (unsigned i = 1; i < count; i++) {
        if (type->family == REAL)
            result.real = reduce_reals(op, result.real, given[i].real);
        else
            result.whole = type->family == TRUTH ? reduce_truths(op, result.whole, given[i].whole)
                                                 : reduce_wholes(type->family, op, result.whole, given[i].whole);
    }
    return op == pcclAvg ? average(type, result, count) : result;
}

/* ---- collectives ---- */

enum size { NOTHING, ONE_PART, PART_FOR_EACH }; /* size of a peer's buffer */

struct collective {
    const char *name;
    pcclCollective_t id;
    enum size gives, gets;
    bool root_gives, root_gets; /* only the root */
    bool reduces, has_codec;
};

enum { COLLECTIVES = 11 };

/* A new collective of elements gets a row here, a case in source_of and one in unit/api_matrix' launch. */
static const struct collective collectives[COLLECTIVES] = {
    {"all-reduce", pcclCollectiveAllReduce, ONE_PART, ONE_PART, false, false, true, true},
    {"broadcast", pcclCollectiveBroadcast, ONE_PART, ONE_PART, true, false, false, true},
    {"all-gather", pcclCollectiveAllGather, ONE_PART, PART_FOR_EACH, false, false, false, true},
    {"reduce-scatter", pcclCollectiveReduceScatter, PART_FOR_EACH, ONE_PART, false, false, true, true},
    {"reduce", pcclCollectiveReduce, ONE_PART, ONE_PART, false, true, true, true},
    {"gather", pcclCollectiveGather, ONE_PART, PART_FOR_EACH, false, true, false, true},
    {"scatter", pcclCollectiveScatter, PART_FOR_EACH, ONE_PART, true, false, false, true},
    {"all-to-all", pcclCollectiveAllToAll, PART_FOR_EACH, PART_FOR_EACH, false, false, false, true},
    {"exclusive scan", pcclCollectiveExclusiveScan, ONE_PART, ONE_PART, false, false, true, false},
    {"inclusive scan", pcclCollectiveInclusiveScan, ONE_PART, ONE_PART, false, false, true, false},
    {"barrier", pcclCollectiveBarrier, NOTHING, NOTHING, false, false, false, false},
};

/* The elements that make element `at` of a rank's result: of ranks from `first` on, `ranks` of them, the one at `at`.
 */
struct source {
    uint32_t first, ranks;
    size_t at;
};

/* share_first: of a reduce-scatter, where the rank's share begins. */
static inline struct source source_of(pcclCollective_t id, uint32_t world, uint32_t root, size_t count, uint32_t rank,
                                      size_t share_first, size_t at)
{
    const uint32_t part = count > 0 ? (uint32_t)(at / count) : 0;
    switch (id) {
    case pcclCollectiveReduceScatter: return (struct source){0, world, share_first + at};
    case pcclCollectiveExclusiveScan: return (struct source){0, rank, at};
    case pcclCollectiveInclusiveScan: return (struct source){0, rank + 1, at};
    case pcclCollectiveBroadcast: return (struct source){root, 1, at};
    case pcclCollectiveScatter: return (struct source){root, 1, rank * count + at};
    case pcclCollectiveAllGather:
    case pcclCollectiveGather: return (struct source){part, 1, at % count};
    case pcclCollectiveAllToAll: return (struct source){part, 1, rank * count + at % count};
    default: return (struct source){0, world, at}; /* an all-reduce, a reduce */
    }
}

#endif
