/*
 * What error feedback (kernels/feedback.h) keeps from one reduction to the next, for each handle
 * and tag. A caller's local matter: other peers know nothing of it, and keep their own. Under the
 * communicator's lock.
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
    struct pccl_table by_tag; /* struct pccl_comm_feedback, by handle and tag */
    uint64_t bytes;           /* of all together */
};

/*
 * For a reduction of so many elements here that begins: what is kept for its tag, or nothing yet. What was kept of
 * another codec or shape is dropped, and that is logged. MEMORY with a reason. Until pccl_comm_feedback_end it is in
 * use.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_begin(const struct pcclComm_t *handle, uint64_t tag,
                                                          const struct pccl_descriptor *descriptor, uint64_t count,
                                                          struct pccl_comm_feedback **feedback,
                                                          struct pccl_text *reason);
/* NULL: none. */
struct pccl_feedback pccl_comm_feedback_memory(const struct pccl_comm_feedback *feedback);
/* The reduction is over, and nobody writes any more. It has changed only if it committed. NULL: nothing. */
void pccl_comm_feedback_end(struct pccl_comm_feedback *feedback, bool committed);

/* What is kept for this tag, and of how many elements; NULL: nothing. Valid as long as the lock is held. */
const float *pccl_comm_feedback_kept(const struct pcclComm_t *handle, uint64_t tag, uint64_t *count);
/*
 * Keeps this instead, for a reduction of as many elements with whatever codec; 0: nothing. USAGE with a
 * reason: an operation with this tag is under way. MEMORY with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_feedback_set(const struct pcclComm_t *handle, uint64_t tag,
                                                        const float *kept, uint64_t count, struct pccl_text *reason);
/* Drops all of this handle; NULL: of all handles. None is in use. */
void pccl_comm_feedbacks_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle);

#endif
