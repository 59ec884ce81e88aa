/*
 * Scaled codecs pack floats into eight or four bits: each block of elements has one scale, and each element a code,
 * which is a small number of the codec's format. On every machine and with all kernels, the same elements give the same
 * bytes, and the same bytes the same bits. docs/CODECS.md has the formats, the layout and the bounds of the error.
 * Pure.
 *
 * A further format is a row of the table in scaled.c and its line in scaled_loops.h.
 */
#ifndef PCCL_KERNELS_SCALED_H
#define PCCL_KERNELS_SCALED_H

#include "core/text.h"
#include "kernels/kernels.h"

enum pccl_scaled_format {
    PCCL_SCALED_E4M3, /* eight bits: 1 of sign, 4 of exponent, 3 of mantissa */
    PCCL_SCALED_E5M2,
    PCCL_SCALED_INT4, /* four bits: -7 to 7 */
    PCCL_SCALED_E3M0, /* 0 and powers of two */
    PCCL_SCALED_E2M1,
    PCCL_SCALED_FORMATS
};

/* Form of a block's scale: f32, bf16 (rounded up), or a power of two in one byte. */
enum pccl_scaled_scale { PCCL_SCALED_F32, PCCL_SCALED_BF16, PCCL_SCALED_POWER, PCCL_SCALED_SCALES };

/*
 * To the nearest number of the format; or to one of the two neighbors, with a probability that rises with its nearness,
 * so that the mean of many roundings is the element (to 2^-17 of a step).
 */
enum pccl_scaled_rounding { PCCL_SCALED_NEAREST, PCCL_SCALED_STOCHASTIC, PCCL_SCALED_ROUNDINGS };

enum { PCCL_SCALED_BLOCK_MIN = 16, PCCL_SCALED_BLOCK_MAX = 256 };

struct pccl_scaled {
    enum pccl_datatype datatype; /* of the elements: f16, bf16 or f32 */
    enum pccl_scaled_format format;
    enum pccl_scaled_scale scale;
    enum pccl_scaled_rounding rounding;
    uint32_t block; /* elements of a block: a power of two within the limits above */
};

const char *pccl_scaled_format_name(enum pccl_scaled_format format); /* "e4m3" */

/* Returns true if this codec exists; otherwise writes the reason. The functions below need a valid one. */
bool pccl_scaled_is_valid(const struct pccl_scaled *codec, struct pccl_text *reason);
/*
 * Returns the bytes of `count` packed elements with their scales; 0 for 0. Additive over whole blocks, which decode
 * alone.
 */
size_t pccl_scaled_bytes(const struct pccl_scaled *codec, size_t count);
/*
 * Encodes elements. `first` is the place of the first element in the whole packed data, a multiple of the block. Under
 * stochastic rounding it and the seed alone choose an element's random number, so pieces give the same bytes as the
 * whole.
 *
 * Neither side needs alignment; bytes and elements must not overlap. NaN decodes to NaN; infinities to themselves under
 * e5m2, to NaN under the other formats. They do not disturb their neighbors.
 */
void pccl_scaled_encode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const void *elements,
                        size_t count, uint64_t first, uint64_t seed, uint8_t *bytes);
/*
 * Decodes bytes. Bytes from a network are not trusted, so any bytes decode: a block with a scale that no encoder writes
 * decodes to NaN.
 */
void pccl_scaled_decode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                        size_t count, void *elements);

#endif
