/* Reductions from launch to await, in terms of the peer's machine. Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_REDUCTION_H
#define PCCL_DRIVE_REDUCTION_H

#include "drive/communicator.h"

/* What can be said of the arguments alone; no lock. ARGUMENT with words. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                                      const pcclReduceDescriptor_t *descriptor,
                                                      struct pccl_text *words);
/*
 * waiter (may be NULL) hears when the reduction is over, which may be at once. Otherwise without a trace, and `why`,
 * which was zeroed, says why.
 */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                                       const pcclReduceDescriptor_t *descriptor,
                                                       struct pccl_waiter *waiter, struct pccl_comm_op **reduction,
                                                       struct pccl_why *why);
/* What the calling thread launches from now on is called this. */
void pccl_reduction_label(const struct pccl_label *label);
/* The launched reduction with this tag, or NULL. */
struct pccl_comm_op *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag);
/* Waits until the reduction is over or the time has come. true: it is over; end it before the lock is let go. */
PCCL_MUST_CHECK bool pccl_reduction_wait(struct pcclComm_t *comm, struct pccl_comm_op *reduction, uint64_t deadline_us);
/* For a thread that waits in another way: it counts as awaiting the reduction. */
void pccl_reduction_announce_wait(struct pcclComm_t *comm, struct pccl_comm_op *reduction);
/* Waits for the outcome, writes the result, and ends the reduction. info may be NULL and is written on success only. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_comm_op *reduction,
                                                      pcclReduceInfo_t *info, struct pccl_why *why);
/* The same for one that is over. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_comm_op *reduction,
                                                    pcclReduceInfo_t *info, struct pccl_why *why);

/* Its machine is about to go: takes the outcome over. It is over. */
void pccl_reduction_keep_outcome(const struct pcclComm_t *comm, struct pccl_comm_op *reduction);
/* Asks all peers to abort it, unless it is decided. words, which say why, may be NULL. */
void pccl_reduction_abort(struct pcclComm_t *comm, const struct pccl_comm_op *reduction, const struct pccl_text *words);
/* All that are undecided are to be aborted, for all peers. */
void pccl_reductions_abort(struct pcclComm_t *comm);
/* To be called now and then: tells the machine of threads that have stopped awaiting a reduction. */
void pccl_reductions_lapse(struct pcclComm_t *comm);

#endif
