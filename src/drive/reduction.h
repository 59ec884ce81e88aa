/* Reductions from launch to await, in terms of the peer's machine. Under the communicator's lock unless said otherwise.
 */
#ifndef PCCL_DRIVE_REDUCTION_H
#define PCCL_DRIVE_REDUCTION_H

#include "drive/communicator.h"

/* What can be said of the arguments alone; no lock. ARGUMENT with words. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                                      const pcclReduceDescriptor_t *descriptor,
                                                      struct pccl_text *words);
/* waiter (may be NULL) hears of the decision, which may come at once. Otherwise with words and without a trace. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                                       const pcclReduceDescriptor_t *descriptor,
                                                       struct pccl_waiter *waiter, struct pccl_comm_op **reduction,
                                                       struct pccl_text *words);
/* The launched reduction with this tag, or NULL. */
struct pccl_comm_op *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag);
/* Waits for the outcome, writes the result, and ends the reduction. info may be NULL and is written on success only. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_comm_op *reduction,
                                                      pcclReduceInfo_t *info, struct pccl_text *words);
/* The same for one that is decided. */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_comm_op *reduction,
                                                    pcclReduceInfo_t *info, struct pccl_text *words);

/*
 * Takes the lock itself. Carries out the list, repeating what a lost peer broke (PROTOCOL 8); returns when nothing of
 * it runs any more. info is filled on success and TOO_FEW_PEERS.
 */
PCCL_MUST_CHECK enum pccl_status pccl_reduction_list(struct pcclComm_t *comm,
                                                     const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                                     uint32_t max_in_flight, pcclReduceInfo_t *info,
                                                     struct pccl_text *words);

#endif
