/* The synchronization of shared state that is under way. Under the lock; the session's events come without it. */
#ifndef PCCL_DRIVE_COMM_SYNC_H
#define PCCL_DRIVE_COMM_SYNC_H

#include "peer/peer.h"
#include "sync/session.h"

struct pcclComm_t;

/* Of a communicator. */
struct pccl_comm_sync {
    struct pccl_sync_session *session; /* of the call that is outstanding; NULL: none is */
};

/*
 * Brings the session's state before the group and serves and fetches until the call has ended. Takes its time; the lock
 * is released meanwhile.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_synchronize(struct pcclComm_t *comm, struct pccl_sync_session *session,
                                                       const struct pccl_sync_vote *vote);
/* The call has ended, by whatever its slot says. */
void pccl_comm_sync_over(struct pcclComm_t *comm);
void pccl_comm_effect_sync_plan(void *context, const struct pccl_sync_plan *plan);
void pccl_comm_effect_sync_donor(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                 bool holds_unequal, const struct pccl_proof *proof,
                                 const struct pccl_address *candidates, uint32_t count);
/* A connection of one who fetches has been through its handshake. Not OK: the socket is still the caller's. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sync_accept(struct pcclComm_t *comm, const struct pccl_id *peer,
                                                       struct pccl_handover *handover);
/* The session's events, on the thread of the call. */
void pccl_comm_on_touching(void *comm);
void pccl_comm_on_proven(void *comm, const struct pccl_proof *proof);
void pccl_comm_on_fetched(void *comm, bool complete, const struct pccl_text *reason);

#endif
