/*
 * Top-k codec: keeps the largest floats of each chunk as 12-bit indices and 2-bit values. All machines and all kernels
 * compute the same bytes from the same elements, and the same bits from the same bytes. docs/CODECS.md has the layout.
 * Pure.
 */
#ifndef PCCL_KERNELS_SPARSE_H
#define PCCL_KERNELS_SPARSE_H

#include "core/text.h"
#include "kernels/kernels.h"

enum { PCCL_SPARSE_CHUNK_ELEMENTS = 4096 }; /* the range of a 12-bit index */

/*
 * Parameters. A whole chunk keeps `kept` elements, 1 to PCCL_SPARSE_CHUNK_ELEMENTS. A shorter chunk at the end keeps
 * the same fraction, rounded up.
 */
struct pccl_sparse {
    size_t count; /* total number of elements, at most SIZE_MAX / sizeof(float) */
    uint32_t kept;
};

size_t pccl_sparse_bytes(const struct pccl_sparse *sparse);
/*
 * Encodes elements, and subtracts the decoded values from them. Returns false without writing anything if one is not
 * finite.
 */
PCCL_MUST_CHECK bool pccl_sparse_encode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels,
                                        float *elements, uint8_t *bytes);
/*
 * Returns true if the bytes can come from an encoder; otherwise writes the reason. Bytes from the network are not
 * trusted. Sets *square to the sum of the squared decoded values, with the same bits on all machines.
 */
bool pccl_sparse_check(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t length, double *square, struct pccl_text *reason);
/* Adds factor * element to `sums` for each kept element. The bytes must have been checked. */
void pccl_sparse_add(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                     float factor, float *sums);

#endif
