/*
 * How the elements of an operation are packed for transport, if they are: by a codec of PCCL 1.0
 * (codec.h), or by a scaled one (scaled.h). Whoever moves elements uses this, and need not know
 * which. Pure.
 */
#ifndef PCCL_KERNELS_PACKING_H
#define PCCL_KERNELS_PACKING_H

#include "kernels/codec.h"
#include "kernels/scaled.h"

/* Values of pcclQuantizationAlgorithm_t: enum pccl_codec_kind, then the scaled formats in their order. */
enum { PCCL_PACKING_SCALED = PCCL_CODEC_KINDS, PCCL_PACKING_KINDS = PCCL_CODEC_KINDS + PCCL_SCALED_FORMATS };

enum { PCCL_PACKING_BLOCK = PCCL_CODEC_BLOCK }; /* a multiple of every codec's blocks */

/* All zero: elements travel as they are. */
struct pccl_packing {
    const struct pccl_codec *codec; /* of PCCL 1.0 */
    struct pccl_scaled scaled;      /* with a block that is not 0 */
};

static inline bool pccl_packing_is_scaled(const struct pccl_packing *packing) { return packing->scaled.block > 0; }
static inline bool pccl_packing_packs(const struct pccl_packing *packing)
{
    return packing->codec != NULL || pccl_packing_is_scaled(packing);
}

/* "minmax", "int4" */
const char *pccl_packing_kind_name(uint32_t kind);
/* Bytes of `count` elements. Additive over whole blocks of PCCL_PACKING_BLOCK. */
size_t pccl_packing_bytes(const struct pccl_packing *packing, size_t count);
/* Of elements, the first of which has this place; place and seed are for stochastic rounding (scaled.h). */
void pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const void *elements,
                         size_t count, uint64_t place, uint64_t seed, uint8_t *bytes);
void pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const uint8_t *bytes,
                         size_t count, void *elements);
/* The same for elements that nobody will read soon: they are written as pccl_copy_streaming does. */
void pccl_packing_decode_streaming(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                   const uint8_t *bytes, size_t count, void *elements);

#endif
