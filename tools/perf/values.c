#include "values.h"

#include <math.h>
#include <string.h>

enum { PATTERN = 251, PERIOD = PATTERN * 7 }; /* period of the values, in elements */

/*
 * Returns a value: 1 or 2 for products, 0 or 1 for bools, and 0 to 7 otherwise. Results are exact for at least eight
 * peers in every data type of 16 or more bits.
 */
static unsigned value_of(size_t i, uint32_t peer, const struct perf_options *options)
{
    unsigned value = (unsigned)((i % PATTERN * 5 + peer * 3 + i % 7) % 8);
    return options->datatype == pcclBool ? value % 2 : options->operation == pcclProd ? 1 + value % 2 : value;
}

static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits << 1 == 0)
        return (uint16_t)(bits >> 16);
    int exponent = (int)(bits >> 23 & 0xff) - 127; /* always normal, because all values are whole numbers below 2048 */
    return (uint16_t)((uint32_t)(exponent + 15) << 10 | (bits >> 13 & 0x3ff));
}

/* Converts to an 8-bit float. The upper half of an f16 is an e5m2. */
static uint8_t f8_of(unsigned value, bool e5m2)
{
    uint16_t half = half_of((float)value);
    int exponent = half >> 10;
    return (uint8_t)(e5m2 ? half >> 8 : value ? (exponent - 15 + 7) << 3 | (half >> 7 & 7) : 0);
}

static double of_f8(uint8_t bits, bool e5m2)
{
    /* there is no sign, because all values are positive */
    const int fraction = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7, least = 1 - bias - fraction;
    const int low = bits & ((1 << fraction) - 1), exponent = bits >> fraction;
    return ldexp(exponent ? low + (1 << fraction) : low, least + (exponent ? exponent - 1 : 0));
}

static double of_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double value = exponent ? ldexp(1.0 + (bits & 0x3ff) / 1024.0, exponent - 15) : ldexp((bits & 0x3ff) / 1024.0, -14);
    return bits & 0x8000 ? -value : exponent == 31 ? (double)INFINITY : value;
}

static void store(uint8_t *at, pcclDataType_t datatype, unsigned value)
{
    uint64_t whole = value;
    float single = (float)value;
    double twice = value;
    uint32_t bits;
    uint16_t upper;
    switch (datatype) {
    case pcclFloat: memcpy(at, &single, sizeof single); break;
    case pcclDouble: memcpy(at, &twice, sizeof twice); break;
    case pcclFloat16:
        upper = half_of(single);
        memcpy(at, &upper, sizeof upper);
        break;
    case pcclBFloat16:
        memcpy(&bits, &single, sizeof bits);
        upper = (uint16_t)(bits >> 16);
        memcpy(at, &upper, sizeof upper);
        break;
    case pcclFloat8E4M3FN:
    case pcclFloat8E5M2: *at = f8_of(value, datatype == pcclFloat8E5M2); break;
    default: memcpy(at, &whole, perf_datatype_bytes(datatype)); break; /* requires a little-endian machine */
    }
}

static double load(const uint8_t *at, pcclDataType_t datatype)
{
    uint64_t whole = 0;
    float single;
    double twice;
    uint32_t bits;
    uint16_t upper;
    switch (datatype) {
    case pcclFloat: memcpy(&single, at, sizeof single); return (double)single;
    case pcclDouble: memcpy(&twice, at, sizeof twice); return twice;
    case pcclFloat16: memcpy(&upper, at, sizeof upper); return of_half(upper);
    case pcclBFloat16:
        memcpy(&upper, at, sizeof upper);
        bits = (uint32_t)upper << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    case pcclFloat8E4M3FN:
    case pcclFloat8E5M2: return of_f8(*at, datatype == pcclFloat8E5M2);
    /* never negative in this program */
    default: memcpy(&whole, at, perf_datatype_bytes(datatype)); return (double)whole;
    }
}

static bool is_whole(pcclDataType_t datatype) { return datatype < pcclFloat16 || datatype == pcclBool; }

static double expected_of(size_t i, const struct perf_options *options)
{
    double result = value_of(i, 0, options);
    for (uint32_t peer = 1; peer < options->peers; peer++) {
        double value = value_of(i, options->alike ? 0 : peer, options);
        switch (options->operation) {
        case pcclSum:
        case pcclAvg:
        case pcclPremulSum: result += value; break;
        case pcclProd: result *= value; break;
        case pcclMax: result = value > result ? value : result; break;
        case pcclMin: result = value < result ? value : result; break;
        case pcclAnd: result = (unsigned)result & (unsigned)value; break;
        case pcclOr: result = (unsigned)result | (unsigned)value; break;
        case pcclXor: result = (unsigned)result ^ (unsigned)value; break;
        }
    }
    if (options->datatype == pcclBool && result > 1)
        result = 1;
    if (options->operation == pcclPremulSum)
        result *= PERF_FACTOR;
    unsigned bits = (unsigned)(8 * perf_datatype_bytes(options->datatype));
    if (is_whole(options->datatype) && bits < 53) { /* integers wrap; for signed ones, load() reads these bits */
        result = fmod(result, ldexp(1.0, (int)bits));
        if (options->operation == pcclAvg && options->datatype == pcclInt8 && result > 127)
            result = (double)NAN; /* not checked: with more than 18 peers, the value is negative after wrapping */
    }
    if (options->operation == pcclAvg)
        result = is_whole(options->datatype) ? floor(result / options->peers) : result / options->peers;
    return result;
}

/* Returns the number of the codec's steps at the largest magnitude, where they are widest. */
static double levels_of(const pcclQuantizationOptions_t *codec)
{
    static const double levels[] = {[pcclQuantE4M3] = 28, [pcclQuantE5M2] = 14, [pcclQuantInt4] = 14,
                                    [pcclQuantE3M0] = 4,  [pcclQuantE2M1] = 6,  [pcclQuantAuto] = 6};
    if (codec->algorithm < pcclQuantE4M3)
        return ldexp(1.0, (int)(8 * perf_datatype_bytes(codec->quantized_datatype))) - 1;
    return levels[codec->algorithm] / 4; /* power-of-two scales and stochastic rounding each double the step */
}

/*
 * Returns the tolerated error: the rounding error of the data type plus, with a codec, the codec's error in every hop.
 */
static double tolerance_of(double expected, const struct perf_options *options)
{
    static const double relative[] = {[pcclFloat16] = 2e-3,
                                      [pcclBFloat16] = 2e-2,
                                      [pcclFloat] = 1e-6,
                                      [pcclFloat8E4M3FN] = 7e-2,
                                      [pcclFloat8E5M2] = 0.13};
    double tolerance = options->datatype == pcclDouble ? 1e-12 * fabs(expected)
                       : is_whole(options->datatype)   ? 0
                                                       : relative[options->datatype] * (fabs(expected) + 1);
    if (options->codec.algorithm != pcclQuantNone) {
        double range = options->operation == pcclProd ? pow(2.0, options->peers) : 7.0 * options->peers;
        tolerance += range * options->peers / levels_of(&options->codec);
    }
    return tolerance;
}

void perf_values_fill(void *buffer, size_t count, const struct perf_options *options)
{
    size_t bytes = perf_datatype_bytes(options->datatype);
    uint32_t peer = options->alike ? 0 : options->index;
    for (size_t i = 0; i < count; i++)
        store((uint8_t *)buffer + i * bytes, options->datatype, value_of(i, peer, options));
}

uint64_t perf_values_differ(const void *buffer, size_t count, const struct perf_options *options)
{
    size_t bytes = perf_datatype_bytes(options->datatype);
    uint32_t peer = options->alike ? 0 : options->index;
    uint64_t wrong = 0;
    struct perf_options once = *options;
    once.peers = 1;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = (const uint8_t *)buffer + i * bytes;
        unsigned value = value_of(i, peer, options);
        uint8_t element[8];
        store(element, options->datatype, value);
        if (options->codec.algorithm == pcclQuantNone)
            wrong += memcmp(element, at, bytes) != 0;
        else
            wrong += !(fabs(load(at, options->datatype) - value) <= tolerance_of(value, &once));
    }
    return wrong;
}

uint64_t perf_values_wrong(const void *buffer, size_t count, const struct perf_options *options)
{
    size_t bytes = perf_datatype_bytes(options->datatype);
    uint64_t wrong = 0;
    double expected[PERIOD], tolerance[PERIOD];
    for (size_t i = 0; i < PERIOD; i++) {
        expected[i] = expected_of(i, options);
        tolerance[i] = tolerance_of(expected[i], options);
    }
    for (size_t i = 0; i < count; i++) {
        double want = expected[i % PERIOD], have = load((const uint8_t *)buffer + i * bytes, options->datatype);
        wrong += want == want && !(fabs(have - want) <= tolerance[i % PERIOD]);
    }
    return wrong;
}
