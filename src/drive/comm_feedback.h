/*
 * Residuals that error feedback (kernels/feedback.h) carries from one reduction to the next, for each handle and tag.
 * Local to the caller: other peers do not know them, and have their own. Under the communicator's lock.
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

/* A communicator's part. */
struct pccl_comm_feedbacks {
    struct pccl_table by_tag; /* struct pccl_comm_feedback, by tag */
    uint64_t bytes;           /* total size of all residuals */
};

/*
 * Returns the residual of this tag, made if needed, for a reduction of `count` elements that begins. Drops a residual
 * of another codec or shape, and logs that. It is in use until pccl_comm_feedback_end. Returns MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_begin(const struct pcclComm_t *handle, uint64_t tag,
                                                          const struct pccl_descriptor *descriptor, uint64_t count,
                                                          struct pccl_comm_feedback **feedback,
                                                          struct pccl_text *reason);
/* Returns the memory of the residual; zeros for NULL. */
struct pccl_feedback pccl_comm_feedback_memory(const struct pccl_comm_feedback *feedback);
/*
 * Ends the use of a residual after a reduction that no longer writes. The residual changes only if it committed. NULL
 * is allowed.
 */
void pccl_comm_feedback_end(struct pccl_comm_feedback *feedback, bool committed);

/* Returns the residual of this tag and its number of elements, or NULL. Valid while the lock is held. */
const float *pccl_comm_feedback_kept(const struct pcclComm_t *handle, uint64_t tag, uint64_t *count);
/*
 * Replaces the residual by this one, for a reduction of as many elements with any codec; a count of 0 removes it.
 * Returns USAGE with a reason if an operation with this tag is under way, or MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_set(const struct pcclComm_t *handle, uint64_t tag,
                                                        const float *kept, uint64_t count, struct pccl_text *reason);
/* Drops all residuals of this handle, or of all handles (NULL). No residual may be in use. */
void pccl_comm_feedbacks_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);

#endif
