/*
 * Error feedback for a reduction with a scaled codec. The packing error of the data that a rank packs (its own
 * elements, or a sum that includes them) is kept and added to its next contribution. Each rank packs each element at
 * most once, so over many operations only the last residual is lost. Residuals are floats in the order of the elements.
 * Pure.
 */
#ifndef PCCL_KERNELS_FEEDBACK_H
#define PCCL_KERNELS_FEEDBACK_H

#include "kernels/kernels.h"

/* Residuals in the caller's memory, one float per element. All NULL: no feedback. */
struct pccl_feedback {
    const float *kept; /* residuals of the previous operation */
    float *next;       /* residuals of this operation; each is written once, and they are valid only if it commits */
};

static inline bool pccl_feedback_is_kept(const struct pccl_feedback *feedback) { return feedback->next != NULL; }

/*
 * Adds the residuals to the elements, and stores the sums in `contribution`. `elements` must not overlap it unless they
 * are floats.
 */
void pccl_feedback_add(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const void *elements,
                       const float *kept, size_t count, float *contribution);
/*
 * Stores the difference between the intended and the decoded value, multiplied by `times`. Stores 0 where the result is
 * not finite, because NaN would otherwise persist.
 */
void pccl_feedback_keep(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const float *meant,
                        const void *came, size_t count, float times, float *next);
/*
 * Does both for elements that are sent unpacked, so that the result is the contribution. The result may be the same
 * memory as the elements.
 */
void pccl_feedback_apply(const struct pccl_kernels *kernels, enum pccl_datatype datatype,
                         const struct pccl_feedback *feedback, const void *elements, size_t count, void *result);

#endif
