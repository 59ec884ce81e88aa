/*
 * The sparse codec: of each chunk of floats those of the largest magnitude, as indices of twelve bits
 * and values of two. On every machine and with all kernels, the same elements give the same bytes, and
 * the same bytes the same bits. docs/CODECS.md has the layout. Pure.
 */
#ifndef PCCL_KERNELS_SPARSE_H
#define PCCL_KERNELS_SPARSE_H

#include "core/text.h"
#include "kernels/kernels.h"

enum { PCCL_SPARSE_CHUNK_ELEMENTS = 4096 }; /* elements: as many as twelve bits tell apart */

/*
 * Of a whole chunk `kept` elements are kept, 1 to PCCL_SPARSE_CHUNK_ELEMENTS, of a shorter one at the end as
 * large a part, rounded up.
 */
struct pccl_sparse {
    size_t count; /* of all elements, kept or not; at most SIZE_MAX / sizeof(float) */
    uint32_t kept;
};

size_t pccl_sparse_bytes(const struct pccl_sparse *sparse);
/*
 * Elements become what the bytes do not have: they, less what the bytes decode to. false: one of them
 * is not finite; nothing was written.
 */
PCCL_MUST_CHECK bool pccl_sparse_encode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels,
                                        float *elements, uint8_t *bytes);
/*
 * Bytes from a network are not trusted: whether an encoder may have made them; if not, why. *square:
 * the sum of the squares of what they decode to; the same bits on all machines.
 */
bool pccl_sparse_check(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t length, double *square, struct pccl_text *reason);
/* To the sums of the elements that were kept, adds factor * element. The bytes have been checked. */
void pccl_sparse_add(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                     float factor, float *sums);

#endif
