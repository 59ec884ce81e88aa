/* Coding error: the distance of decoded elements from the originals, for any codec. Pure. */
#ifndef PCCL_KERNELS_CODEC_ERROR_H
#define PCCL_KERNELS_CODEC_ERROR_H

#include "kernels/reduce.h"

/*
 * Starts zeroed. Relative errors: largest_error / largest; of the mean square, the root of squares_of_error / squares.
 */
struct pccl_codec_error {
    double largest, largest_error; /* magnitudes */
    double squares, squares_of_error;
    uint64_t not_finite; /* elements left out: original or decoded value is NaN or infinite */
};

/* Adds `count` floats of a type (f16 to f64), in their order, at any address. */
void pccl_codec_error_add(struct pccl_codec_error *error, enum pccl_datatype datatype, const void *elements,
                          const void *decoded, size_t count);

#endif
