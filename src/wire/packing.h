/*
 * What the codec of a descriptor means: how elements are packed, in words, and the seed of stochastic
 * rounding. Peers, master and callers judge it alike.
 */
#ifndef PCCL_WIRE_PACKING_H
#define PCCL_WIRE_PACKING_H

#include "kernels/packing.h"
#include "wire/wire.h"

/*
 * How elements of this type are packed in the operation; of any type, as sums may be of another one.
 * false, with a reason: this is not supported or makes no sense (pccl_codec_find,
 * pccl_scaled_is_valid).
 */
PCCL_MUST_CHECK bool pccl_packing_find(const struct pccl_descriptor *descriptor, enum pccl_datatype datatype,
                                       struct pccl_packing *packing, struct pccl_text *reason);
bool pccl_packing_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
/* "none", "minmax to u8", "int4 in blocks of 128 with bf16 scales, rounded to the nearest". Appends. */
void pccl_packing_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor);
/*
 * The same on every machine for the same operation and rank. Ranks differ, so that what they round
 * is not off in the same direction.
 */
uint64_t pccl_packing_seed(const struct pccl_instance *instance, uint32_t rank);

#endif
