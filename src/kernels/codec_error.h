/* Coding error of any codec: the difference between decoded elements and the originals. Pure. */
#ifndef PCCL_KERNELS_CODEC_ERROR_H
#define PCCL_KERNELS_CODEC_ERROR_H

#include "kernels/reduce.h"

/* Must be zeroed first. The relative errors are largest_error / largest and sqrt(squares_of_error / squares). */
struct pccl_codec_error {
    double largest, largest_error; /* magnitudes */
    double squares, squares_of_error;
    /* number of elements left out because the original or the decoded value is not finite */
    uint64_t not_finite;
};

/* Adds `count` floats of a type from f16 to f64, in their order. They need no alignment. */
void pccl_codec_error_add(struct pccl_codec_error *error, enum pccl_datatype datatype, const void *elements,
                          const void *decoded, size_t count);

#endif
