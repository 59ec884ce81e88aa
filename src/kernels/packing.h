/*
 * Packs an operation's elements for transfer, if requested: with a codec of PCCL 1.0 (codec.h) or a scaled codec
 * (scaled.h). Code that moves elements uses this interface for both. Pure.
 */
#ifndef PCCL_KERNELS_PACKING_H
#define PCCL_KERNELS_PACKING_H

#include "kernels/codec.h"
#include "kernels/scaled.h"

/* Values of pcclQuantizationAlgorithm_t: enum pccl_codec_kind, then the scaled formats in their order. */
enum { PCCL_PACKING_SCALED = PCCL_CODEC_KINDS, PCCL_PACKING_KINDS = PCCL_CODEC_KINDS + (int)PCCL_SCALED_FORMATS };

enum { PCCL_PACKING_BLOCK = PCCL_CODEC_BLOCK }; /* a multiple of the block size of every codec */

/* A zeroed struct means that elements are sent unpacked. */
struct pccl_packing {
    const struct pccl_codec *codec; /* codec of PCCL 1.0, or NULL */
    struct pccl_scaled scaled;      /* used if its block is not 0 */
};

static inline bool pccl_packing_is_scaled(const struct pccl_packing *packing) { return packing->scaled.block > 0; }
static inline bool pccl_packing_packs(const struct pccl_packing *packing)
{
    return packing->codec != NULL || pccl_packing_is_scaled(packing);
}

/* Returns a name such as "minmax" or "int4". */
const char *pccl_packing_kind_name(uint32_t kind);
/* Returns the packed size of `count` elements in bytes. Additive over whole blocks of PCCL_PACKING_BLOCK. */
size_t pccl_packing_bytes(const struct pccl_packing *packing, size_t count);
/*
 * Encode and decode elements. place: position of the first one. Stochastic rounding depends on place and seed
 * (scaled.h).
 */
void pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const void *elements,
                         size_t count, uint64_t place, uint64_t seed, uint8_t *bytes);
void pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const uint8_t *bytes,
                         size_t count, void *elements);
/* Does the same for elements that will not be read soon, and writes them like pccl_copy_streaming. */
void pccl_packing_decode_streaming(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                   const uint8_t *bytes, size_t count, void *elements);

#endif
