#include "kernels/codec_error.h"

#include <string.h>

static double load(enum pccl_datatype datatype, const uint8_t *elements, size_t index)
{
    uint16_t half;
    float single;
    double value;
    switch (datatype) {
    case PCCL_F64: memcpy(&value, elements + index * sizeof value, sizeof value); return value;
    case PCCL_F32: memcpy(&single, elements + index * sizeof single, sizeof single); return (double)single;
    default: memcpy(&half, elements + index * sizeof half, sizeof half);
    }
    return (double)(datatype == PCCL_F16 ? pccl_f16_to_f32(half) : pccl_bf16_to_f32(half));
}

static double magnitude(double value) { return value < 0 ? -value : value; }
static double larger(double a, double b) { return a > b ? a : b; }

void pccl_codec_error_add(struct pccl_codec_error *error, enum pccl_datatype datatype, const void *elements,
                          const void *decoded, size_t count)
{
    PCCL_ASSERT(datatype >= PCCL_F16 && datatype < PCCL_DATATYPES);
    for (size_t i = 0; i < count; i++) {
        double was = load(datatype, elements, i), off = load(datatype, decoded, i) - was;
        if (off - off != 0) {
            error->not_finite++;
            continue;
        }
        error->largest = larger(error->largest, magnitude(was));
        error->largest_error = larger(error->largest_error, magnitude(off));
        error->squares += was * was;
        error->squares_of_error += off * off;
    }
}
