/* The synchronization of shared state in progress. Caller holds the lock, except in the events of its worker. */
#ifndef PCCL_DRIVE_COMM_SYNC_H
#define PCCL_DRIVE_COMM_SYNC_H

#include "peer/peer.h"
#include "sync/synchronizer.h"

struct pccl_communicator;

/*
 * Votes with the synchronizer's state, then serves and fetches data until the call has ended. Blocks; the lock is
 * released during the wait. `unable` is NULL, or the reason why this peer cannot take part; in that case there is no
 * synchronizer and no vote, and the call ends with STATE.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_synchronize(struct pccl_communicator *comm, struct pccl_worker *synchronizer,
                                                       const struct pccl_sync_vote *vote,
                                                       const struct pccl_text *unable);
void pccl_comm_effect_sync_plan(void *context, const struct pccl_sync_plan *plan);
void pccl_comm_effect_sync_donor(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                 bool holds_unequal, const struct pccl_proof *proof,
                                 const struct pccl_address *candidates, uint32_t count, bool reversed);
/* Events of the synchronizer, on the thread of the call. */
void pccl_comm_on_touching(void *comm);
void pccl_comm_on_proven(void *comm, const struct pccl_proof *proof);
void pccl_comm_on_fetched(void *comm, bool complete, const struct pccl_text *reason);

#endif
