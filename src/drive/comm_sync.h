/*
 * The synchronization of shared state that is in progress. Under the lock; the synchronizer's events
 * come without it.
 */
#ifndef PCCL_DRIVE_COMM_SYNC_H
#define PCCL_DRIVE_COMM_SYNC_H

#include "peer/peer.h"
#include "sync/synchronizer.h"

struct pccl_communicator;

/* A communicator's part. */
struct pccl_comm_sync {
    struct pccl_synchronizer *synchronizer; /* of the outstanding call, or NULL */
};

/*
 * Votes with the synchronizer's state, then serves and fetches until the call has ended. Blocks; the
 * lock is released meanwhile. unable: NULL; or why this peer cannot take part, without synchronizer and vote: the call
 * then ends with STATE.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_synchronize(struct pccl_communicator *comm,
                                                       struct pccl_synchronizer *synchronizer,
                                                       const struct pccl_sync_vote *vote,
                                                       const struct pccl_text *unable);
/* The call has ended, with the status in its slot. */
static inline void pccl_comm_sync_over(const struct pccl_comm_sync *sync)
{
    if (sync->synchronizer)
        pccl_synchronizer_end(sync->synchronizer);
}
void pccl_comm_effect_sync_plan(void *context, const struct pccl_sync_plan *plan);
void pccl_comm_effect_sync_donor(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                 bool holds_unequal, const struct pccl_proof *proof,
                                 const struct pccl_address *candidates, uint32_t count);
/*
 * Passes the synchronizer a connection of a requester, which has completed its handshake. Not OK: the
 * socket still belongs to the caller.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sync_accept(struct pccl_communicator *comm, const struct pccl_id *peer,
                                                       struct pccl_handover *handover);
/* The synchronizer's events, on the thread of the call. */
void pccl_comm_on_touching(void *comm);
void pccl_comm_on_proven(void *comm, const struct pccl_proof *proof);
void pccl_comm_on_fetched(void *comm, bool complete, const struct pccl_text *reason);

#endif
