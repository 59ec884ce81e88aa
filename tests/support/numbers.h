/*
 * Elements of all data types, and their reductions, in plain arithmetic: the reference of all tests that compare
 * results of reductions. Uses only the public headers and no kernel of the library. Little-endian machines only.
 */
#ifndef PCCL_TESTS_SUPPORT_NUMBERS_H
#define PCCL_TESTS_SUPPORT_NUMBERS_H

#include "pccl.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- elements ---- */

enum family { UNSIGNED, SIGNED, TRUTH, REAL };

/* bits: of the elements that peers put in, few enough that sums of reals are exact before they are rounded. */
struct datatype {
    pcclDataType_t id;
    enum family family;
    unsigned bytes, exponent_bits, mantissa_bits, bits;
};

enum { DATATYPES = 15 };

static const struct datatype datatypes[DATATYPES] = {
    {pcclUint8, UNSIGNED, 1, 0, 0, 8},   {pcclInt8, SIGNED, 1, 0, 0, 8},       {pcclInt16, SIGNED, 2, 0, 0, 16},
    {pcclUint16, UNSIGNED, 2, 0, 0, 16}, {pcclUint32, UNSIGNED, 4, 0, 0, 32},  {pcclInt32, SIGNED, 4, 0, 0, 32},
    {pcclUint64, UNSIGNED, 8, 0, 0, 64}, {pcclInt64, SIGNED, 8, 0, 0, 64},     {pcclFloat16, REAL, 2, 5, 10, 11},
    {pcclBFloat16, REAL, 2, 8, 7, 8},    {pcclFloat, REAL, 4, 8, 23, 20},      {pcclDouble, REAL, 8, 11, 52, 40},
    {pcclBool, TRUTH, 1, 0, 0, 8},       {pcclFloat8E4M3FN, REAL, 1, 4, 3, 4}, {pcclFloat8E5M2, REAL, 1, 5, 2, 3},
};

/* An element of any type: of the type REAL its value, of others its bits, extended to 64 by its sign if it has one. */
union number {
    uint64_t whole;
    double real;
};

static inline double value_of(const struct datatype *type, union number number)
{
    return type->family == REAL ? number.real : (double)(int64_t)number.whole;
}

static inline int bias_of(const struct datatype *type) { return (1 << (type->exponent_bits - 1)) - 1; }

/* Bits of the exponent: the infinity of a type that has one, and the first NaN of the others. */
static inline uint64_t top_of(const struct datatype *type)
{
    return ((UINT64_C(1) << type->exponent_bits) - 1) << type->mantissa_bits;
}

/*
 * Rounds a value to the nearest of the type, ties to even. Larger values become infinity or, without infinity, the
 * largest number. Each type has one NaN that reductions result in. The functions are the
 * compiler's, since the macros of MinGW convert their argument in one branch.
 */
static inline uint64_t bits_of_real(const struct datatype *type, double value)
{
    const int mantissa = (int)type->mantissa_bits, least = 1 - bias_of(type);
    const uint64_t most = type->id == pcclFloat8E4M3FN ? 0x7e : top_of(type);
    const uint64_t sign = (uint64_t)(__builtin_signbit(value) != 0) << (type->exponent_bits + type->mantissa_bits);
    const float single = (float)value;
    uint64_t native = 0;
    int exponent = 0;
    if (__builtin_isnan(value))
        return type->bytes == 1 ? 0x7f : top_of(type) | UINT64_C(1) << (mantissa - 1);
    if (__builtin_isinf(value))
        return sign | most;
    if (type->bytes >= 4) { /* types of C */
        memcpy(&native, type->bytes == 4 ? (const void *)&single : &value, type->bytes);
        return native;
    }
    (void)frexp(value, &exponent);
    exponent = value == 0 || exponent - 1 < least ? least : exponent - 1;
    const uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(value), mantissa - exponent)); /* with the leading 1 */
    const uint64_t bits = ((uint64_t)(exponent - least) << mantissa) + steps;
    return sign | (bits < most ? bits : most);
}

static inline double real_of_bits(const struct datatype *type, uint64_t bits)
{
    const unsigned mantissa = type->mantissa_bits;
    float single;
    double native;
    memcpy(&single, &bits, sizeof single);
    memcpy(&native, &bits, sizeof native);
    if (type->bytes >= 4)
        return type->bytes == 4 ? (double)single : native;
    const uint64_t exponent = bits >> mantissa & ((UINT64_C(1) << type->exponent_bits) - 1);
    const uint64_t fraction = bits & ((UINT64_C(1) << mantissa) - 1);
    const double size = exponent == 0 ? (double)fraction : (double)(fraction + (UINT64_C(1) << mantissa));
    double value = ldexp(size, (exponent == 0 ? 1 : (int)exponent) - bias_of(type) - (int)mantissa);
    if (type->id == pcclFloat8E4M3FN ? (bits & 0x7f) == 0x7f : exponent << mantissa == top_of(type))
        value = fraction == 0 ? INFINITY : NAN;
    return bits >> (mantissa + type->exponent_bits) & 1 ? -value : value;
}

static inline union number read_number(const struct datatype *type, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, type->bytes);
    if (type->family == REAL)
        return (union number){.real = real_of_bits(type, bits)};
    if (type->family == SIGNED && type->bytes < 8 && bits >> (8 * type->bytes - 1) & 1)
        bits |= ~UINT64_C(0) << 8 * type->bytes;
    return (union number){.whole = type->family == TRUTH ? bits != 0 : bits};
}

/* Integers wrap to the range of the type. */
static inline union number number_of(const struct datatype *type, double value)
{
    const int64_t whole = type->family == REAL ? 0 : (int64_t)value;
    return type->family == REAL ? (union number){.real = value} : read_number(type, &whole);
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

/* Rounds a step of a reduction: the types of up to 32 bits are reduced in single precision. */
static inline double round_step(const struct datatype *type, double value)
{
    return type->bytes == 8 ? value : (double)(float)value;
}

/* NaN wins, -0 is below +0. */
static inline double greater_of(double a, double b)
{
    if (__builtin_isnan(a) || __builtin_isnan(b))
        return NAN;
    return a > b || (a == b && !__builtin_signbit(a)) ? a : b;
}

static inline double reduce_reals(pcclRedOp_t op, double a, double b)
{
    switch (op) {
    case pcclProd: return a * b;
    case pcclMax: return greater_of(a, b);
    case pcclMin: return -greater_of(-a, -b);
    default: return a + b;
    }
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
    case pcclProd: return number_of(type, 1);
    case pcclAnd: return (union number){.whole = ones};
    case pcclMax: return (union number){.whole = type->family == SIGNED ? 0 - top : 0};
    case pcclMin: return (union number){.whole = type->family == SIGNED ? top - 1 : ones};
    default: return number_of(type, 0);
    }
}

/* The average of whole numbers is the sum, as the type holds it, divided toward 0. */
static inline union number average(const struct datatype *type, union number sum, unsigned count)
{
    if (type->family == REAL)
        return (union number){.real = round_step(type, sum.real / count)};
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
            result.real = round_step(type, reduce_reals(op, result.real, given[i].real));
        else
            result.whole = type->family == TRUTH ? reduce_truths(op, result.whole, given[i].whole)
                                                 : reduce_wholes(type->family, op, result.whole, given[i].whole);
    }
    return op == pcclAvg ? average(type, result, count) : result;
}

/* The operand of a premultiplied sum. */
static inline union number scale_number(const struct datatype *type, union number number, double factor)
{
    const uint64_t bits = bits_of_real(type, round_step(type, number.real * round_step(type, factor)));
    return read_number(type, &bits);
}

/* ---- buffers ---- */

static inline void scale_elements(const struct datatype *type, void *elements, size_t count, double factor)
{
    for (uint8_t *at = elements, *end = at + count * type->bytes; at < end; at += type->bytes)
        write_number(type, scale_number(type, read_number(type, at), factor), at);
}

enum { PARTS_MAX = 32 };

/* Reduces buffers in their order, rounding the result once. The result may be one of them; of no buffers, the identity.
 */
static inline void reduce_elements(const struct datatype *type, pcclRedOp_t op, const void *const *parts,
                                   unsigned count, size_t elements, void *result)
{
    union number given[PARTS_MAX];
    for (size_t at = 0; at < elements * type->bytes; at += type->bytes) {
        for (unsigned i = 0; i < count; i++)
            given[i] = read_number(type, (const uint8_t *)parts[i] + at);
        write_number(type, reduce_numbers(type, op, given, count), (uint8_t *)result + at);
    }
}

#endif
