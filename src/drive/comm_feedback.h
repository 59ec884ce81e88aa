/*
 * Residuals of error feedback (kernels/feedback.h): one for each handle and tag, kept from one reduction to the next.
 * They are local; other peers have separate ones. Caller holds the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_FEEDBACK_H
#define PCCL_DRIVE_COMM_FEEDBACK_H

#include "kernels/feedback.h"
#include "core/status.h"
#include "core/table.h"
#include "core/text.h"

struct pccl_comm_feedback;
struct pccl_communicator;
struct pccl_descriptor;
struct pcclComm_t;

struct pccl_comm_feedbacks {
    struct pccl_table by_tag; /* struct pccl_comm_feedback, keyed by tag */
    uint64_t bytes;           /* total size of all residuals */
};

/*
 * Returns the residual of this tag for a reduction of `count` elements that is about to begin, and creates it if
 * needed. Drops a residual of another codec or length and logs a warning. The residual is in use until
 * pccl_comm_feedback_end. Returns MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_begin(const struct pcclComm_t *handle, uint64_t tag,
                                                          const struct pccl_descriptor *descriptor, uint64_t count,
                                                          struct pccl_comm_feedback **feedback,
                                                          struct pccl_text *reason);
/* Returns the memory of the residual, or a zeroed struct for NULL. */
struct pccl_feedback pccl_comm_feedback_memory(const struct pccl_comm_feedback *feedback);
/*
 * Ends the use of a residual after the reduction has stopped writing to it. The residual changes only if the reduction
 * committed. `feedback` may be NULL.
 */
void pccl_comm_feedback_end(struct pccl_comm_feedback *feedback, bool committed);

/* Returns the residual of this tag and its number of elements, or NULL. The pointer is valid while the lock is held. */
const float *pccl_comm_feedback_kept(const struct pcclComm_t *handle, uint64_t tag, uint64_t *count);
/*
 * Replaces the residual, for a reduction of `count` elements with any codec; a count of 0 removes it. Returns MEMORY
 * with a reason, or USAGE with a reason if an operation with this tag is in progress.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_set(const struct pcclComm_t *handle, uint64_t tag,
                                                        const float *kept, uint64_t count, struct pccl_text *reason);
/* Drops all residuals of this handle, or of all handles if NULL. No residual may be in use. */
void pccl_comm_feedbacks_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);

#endif
