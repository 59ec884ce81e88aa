/*
 * Error feedback of a reduction with a scaled codec: the packing error of data that a rank packs (its own elements, or
 * a sum that includes them) is kept, and is part of its next contribution. Each rank packs each element once at most,
 * so over many operations only the last residual is missing. Kept as float, in the order of the elements. Pure.
 */
#ifndef PCCL_KERNELS_FEEDBACK_H
#define PCCL_KERNELS_FEEDBACK_H

#include "kernels/kernels.h"

/* Residuals, in the caller's memory, one float for each element; all NULL: no feedback. */
struct pccl_feedback {
    const float *kept; /* from the previous operation */
    float *next;       /* from this one: written once for each element; valid only if it commits */
};

static inline bool pccl_feedback_is_kept(const struct pccl_feedback *feedback) { return feedback->next != NULL; }

/* Adds elements and residuals to a contribution. `elements` must not overlap it unless they are floats. */
void pccl_feedback_add(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const void *elements,
                       const float *kept, size_t count, float *contribution);
/*
 * Keeps `times` the difference between the intended and the decoded value; 0 where it is not finite, so that one NaN
 * does not stay forever.
 */
void pccl_feedback_keep(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const float *meant,
                        const void *came, size_t count, float times, float *next);
/* Does both for elements that are sent unpacked: the result is the contribution. It may be the elements. */
void pccl_feedback_apply(const struct pccl_kernels *kernels, enum pccl_datatype datatype,
                         const struct pccl_feedback *feedback, const void *elements, size_t count, void *result);

#endif
