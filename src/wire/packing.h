/*
 * Codec of a descriptor: its packing of elements, its description, and the seed for stochastic rounding. Used by peers,
 * master and callers.
 */
#ifndef PCCL_WIRE_PACKING_H
#define PCCL_WIRE_PACKING_H

#include "kernels/packing.h"
#include "wire/wire.h"

/*
 * Finds the packing for elements of this type in the operation. The type may differ from the descriptor's, because
 * partial sums may use a different type. Returns false with a reason if the packing is unsupported or invalid
 * (pccl_codec_find, pccl_scaled_is_valid).
 */
PCCL_MUST_CHECK bool pccl_packing_find(const struct pccl_descriptor *descriptor, enum pccl_datatype datatype,
                                       struct pccl_packing *packing, struct pccl_text *reason);
bool pccl_packing_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
/*
 * Appends a description such as "none", "minmax to u8" or "int4 in blocks of 128 with bf16 scales, rounded to the
 * nearest".
 */
void pccl_packing_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor);
/*
 * Returns the seed, which is the same on every machine for the same operation and rank. It differs between ranks, so
 * that their rounding errors are independent.
 */
uint64_t pccl_packing_seed(const struct pccl_instance *instance, uint32_t rank);

#endif
