/*
 * Error feedback of a reduction with a scaled codec: what packing takes from what a rank packs, its
 * own elements or a sum with them in it, is kept, and is part of its next contribution. Each rank
 * packs each element once at most, so over many operations only what is kept last is missing. Kept
 * as float, in the places of the elements. Pure.
 */
#ifndef PCCL_KERNELS_FEEDBACK_H
#define PCCL_KERNELS_FEEDBACK_H

#include "kernels/kernels.h"

/* Both are the caller's, one float for each element; all NULL: none is kept. */
struct pccl_feedback {
    const float *kept; /* by the operation before */
    float *next;       /* by this one: written once for each element; counts only if it commits */
};

static inline bool pccl_feedback_is_kept(const struct pccl_feedback *feedback) { return feedback->next != NULL; }

/* The contribution: elements, which do not overlap it unless they are floats, and what was kept. */
void pccl_feedback_add(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const void *elements,
                       const float *kept, size_t count, float *contribution);
/*
 * Keeps `times` of what was meant and has not come; where it is not finite nothing, so that one NaN
 * does not stay forever.
 */
void pccl_feedback_keep(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const float *meant,
                        const void *came, size_t count, float times, float *next);
/* For elements that travel as they are: the result is the contribution. It may be the elements. */
void pccl_feedback_apply(const struct pccl_kernels *kernels, enum pccl_datatype datatype,
                         const struct pccl_feedback *feedback, const void *elements, size_t count, void *result);

#endif
