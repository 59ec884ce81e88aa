/*
 * Top-k codec: keeps the largest floats of each chunk as 12-bit indices and 2-bit values. On every machine and with all
 * kernels, the same elements give the same bytes, and the same bytes the same bits. docs/CODECS.md has the layout.
 * Pure.
 */
#ifndef PCCL_KERNELS_SPARSE_H
#define PCCL_KERNELS_SPARSE_H

#include "core/text.h"
#include "kernels/kernels.h"

enum { PCCL_SPARSE_CHUNK_ELEMENTS = 4096 }; /* range of a 12-bit index */

/*
 * Parameters. A whole chunk keeps `kept` elements, 1 to PCCL_SPARSE_CHUNK_ELEMENTS; a shorter one at the end keeps the
 * same fraction, rounded up.
 */
struct pccl_sparse {
    size_t count; /* of all elements, kept or not; at most SIZE_MAX / sizeof(float) */
    uint32_t kept;
};

size_t pccl_sparse_bytes(const struct pccl_sparse *sparse);
/*
 * Encodes elements, and subtracts the decoded values from them. Returns false, with nothing written, if one of them is
 * not finite.
 */
PCCL_MUST_CHECK bool pccl_sparse_encode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels,
                                        float *elements, uint8_t *bytes);
/*
 * Returns true if an encoder may have made these bytes; otherwise writes the reason. Bytes from a network are not
 * trusted. *square becomes the sum of the squares of the decoded values, with the same bits on all machines.
 */
bool pccl_sparse_check(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t length, double *square, struct pccl_text *reason);
/* Adds factor * element to the sums of the kept elements. The bytes must have been checked. */
void pccl_sparse_add(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                     float factor, float *sums);

#endif
