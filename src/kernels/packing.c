#include "kernels/packing.h"

#include "kernels/prefetch.h"

_Static_assert(PCCL_PACKING_BLOCK % PCCL_SCALED_BLOCK_MAX == 0, "whole blocks of every codec");

const char *pccl_packing_kind_name(uint32_t kind)
{
    if (kind < PCCL_PACKING_SCALED)
        return pccl_codec_kind_name((enum pccl_codec_kind)kind);
    return pccl_scaled_format_name((enum pccl_scaled_format)(kind - PCCL_PACKING_SCALED));
}

size_t pccl_packing_bytes(const struct pccl_packing *packing, size_t count)
{
    return packing->codec != NULL ? pccl_codec_bytes(packing->codec, count)
                                  : pccl_scaled_bytes(&packing->scaled, count);
}

void pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const void *elements,
                         size_t count, uint64_t place, uint64_t seed, uint8_t *bytes)
{
    if (packing->codec != NULL)
        pccl_codec_encode(packing->codec, kernels, elements, count, bytes);
    else
        pccl_scaled_encode(&packing->scaled, kernels, elements, count, place, seed, bytes);
}

void pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels, const uint8_t *bytes,
                         size_t count, void *elements)
{
    if (packing->codec != NULL)
        pccl_codec_decode(packing->codec, kernels, bytes, count, elements);
    else
        pccl_scaled_decode(&packing->scaled, kernels, bytes, count, elements);
}

void pccl_packing_decode_streaming(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                   const uint8_t *bytes, size_t count, void *elements)
{
    if (packing->codec != NULL) {
        pccl_codec_decode_streaming(packing->codec, kernels, bytes, count, elements);
        return;
    }
    const size_t element_bytes = pccl_datatype_bytes(packing->scaled.datatype);
    for (size_t first = 0, part; first < count; first += part) {
        _Alignas(PCCL_CACHE_LINE) uint8_t block[PCCL_PACKING_BLOCK * sizeof(float)];
        part = count - first < PCCL_PACKING_BLOCK ? count - first : PCCL_PACKING_BLOCK;
        pccl_scaled_decode(&packing->scaled, kernels, bytes, part, block);
        pccl_copy_streaming(kernels, (uint8_t *)elements + first * element_bytes, block, part * element_bytes);
        bytes += pccl_scaled_bytes(&packing->scaled, part);
    }
}
