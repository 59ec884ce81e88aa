/*
 * Scaled codecs pack floats into eight or four bits. Each block of elements has one scale, and each element a code,
 * which is a small number in the codec's format. All machines and all kernels compute the same bytes from the same
 * elements, and the same bits from the same bytes. docs/CODECS.md has the formats, the layout and the error bounds.
 * Pure.
 *
 * To add a format, add a row to the table in scaled.c and a line to scaled_loops.h.
 */
#ifndef PCCL_KERNELS_SCALED_H
#define PCCL_KERNELS_SCALED_H

#include "core/text.h"
#include "kernels/kernels.h"

enum pccl_scaled_format {
    PCCL_SCALED_E4M3, /* eight bits: sign, 4 bits of exponent, 3 of mantissa */
    PCCL_SCALED_E5M2,
    PCCL_SCALED_INT4, /* four bits: integers from -7 to 7 */
    PCCL_SCALED_E3M0, /* 0 and powers of two */
    PCCL_SCALED_E2M1,
    PCCL_SCALED_FORMATS
};

/* Encoding of a block's scale: f32, bf16 (rounded up), or a power of two in one byte. */
enum pccl_scaled_scale { PCCL_SCALED_F32, PCCL_SCALED_BF16, PCCL_SCALED_POWER, PCCL_SCALED_SCALES };

/*
 * Rounding: to the nearest number of the format; or to one of the two neighbors, with a probability that is higher for
 * the nearer one, so that the mean of many roundings is the element (to within 2^-17 of a step).
 */
enum pccl_scaled_rounding { PCCL_SCALED_NEAREST, PCCL_SCALED_STOCHASTIC, PCCL_SCALED_ROUNDINGS };

enum { PCCL_SCALED_BLOCK_MIN = 16, PCCL_SCALED_BLOCK_MAX = 256 };

struct pccl_scaled {
    enum pccl_datatype datatype; /* type of the elements: f16, bf16 or f32 */
    enum pccl_scaled_format format;
    enum pccl_scaled_scale scale;
    enum pccl_scaled_rounding rounding;
    uint32_t block; /* number of elements in a block: a power of two within the limits above */
};

const char *pccl_scaled_format_name(enum pccl_scaled_format format); /* "e4m3" */

/* Returns true if this codec is valid; otherwise writes the reason. The functions below require a valid codec. */
bool pccl_scaled_is_valid(const struct pccl_scaled *codec, struct pccl_text *reason);
/*
 * Returns the size of `count` packed elements with their scales in bytes, 0 for 0. Additive over whole blocks, which
 * can be decoded separately.
 */
size_t pccl_scaled_bytes(const struct pccl_scaled *codec, size_t count);
/*
 * Encodes elements. `first` is the position of the first element in the whole packed data, a multiple of the block.
 * With stochastic rounding, an element's random number depends only on its position and the seed, so that encoding in
 * pieces gives the same bytes as encoding the whole.
 *
 * The pointers need no alignment, and the memory must not overlap. NaN decodes to NaN. Infinities decode to themselves
 * with e5m2, and to NaN with the other formats. They do not affect other elements.
 */
void pccl_scaled_encode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const void *elements,
                        size_t count, uint64_t first, uint64_t seed, uint8_t *bytes);
/*
 * Decodes bytes. Bytes from the network are not trusted, so any bytes are accepted: a block with an invalid scale
 * decodes to NaN.
 */
void pccl_scaled_decode(const struct pccl_scaled *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                        size_t count, void *elements);

#endif
