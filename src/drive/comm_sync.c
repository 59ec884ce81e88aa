/*
 * Connects the state machine with the synchronizer, which transfers shared state (sync/synchronizer.h). The
 * synchronizer runs on the thread of the call; the state machine and the control thread pass it input under the lock.
 */
#include "drive/communicator.h"
#include "drive/comm_machine.h"
#include "drive/comm_sync.h"
#include "drive/comm_wait.h"
#include "peer/queries.h"

static struct pccl_worker *synchronizer_of(const struct pccl_communicator *comm)
{
    return comm->calls[PCCL_CALL_SYNC].worker;
}

/* ---- events during the call ---- */

void pccl_comm_effect_sync_plan(void *context, const struct pccl_sync_plan *plan)
{
    struct pccl_communicator *comm = context;
    if (!synchronizer_of(comm))
        return;
    pccl_synchronizer_plan(synchronizer_of(comm), plan->requests, plan->takes_unequal);
    pccl_comm_signal(comm, comm->calls[PCCL_CALL_SYNC].waiter);
}

void pccl_comm_effect_sync_donor(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                 bool holds_unequal, const struct pccl_proof *proof,
                                 const struct pccl_address *candidates, uint32_t count, bool reversed)
{
    struct pccl_communicator *comm = context;
    const struct pccl_sync_named named = {.peer = *peer,
                                          .ticket = *ticket,
                                          .holds_unequal = holds_unequal,
                                          .proof = *proof,
                                          .candidates = candidates,
                                          .candidate_count = count,
                                          .reversed = reversed};
    if (synchronizer_of(comm))
        pccl_synchronizer_donor(synchronizer_of(comm), &named);
}

void pccl_comm_on_touching(void *context)
{
    pccl_comm_enter(context);
    pccl_comm_step(context, &(struct pccl_peer_event){.kind = PCCL_PEER_SYNC_TOUCHED});
    pccl_comm_leave(context);
}

/*
 * Plans arrive under the lock, so a report belongs either to the state machine's current plan or to one that is known
 * to be older.
 */
void pccl_comm_on_proven(void *context, const struct pccl_proof *proof)
{
    struct pccl_communicator *comm = context;
    pccl_comm_enter(comm);
    if (synchronizer_of(comm) && !pccl_synchronizer_is_replanned(synchronizer_of(comm)))
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_SYNC_PROVEN, .proof = proof});
    pccl_comm_leave(comm);
}

void pccl_comm_on_fetched(void *context, bool complete, const struct pccl_text *reason)
{
    struct pccl_communicator *comm = context;
    struct pccl_peer_event event = {.kind = PCCL_PEER_SYNC_DONE, .complete = complete, .reason = reason};
    pccl_comm_enter(comm);
    if (synchronizer_of(comm) && !pccl_synchronizer_is_replanned(synchronizer_of(comm)))
        pccl_comm_step(comm, &event);
    pccl_comm_leave(comm);
}

/* ---- the call ---- */

enum pccl_status pccl_comm_synchronize(struct pccl_communicator *comm, struct pccl_worker *synchronizer,
                                       const struct pccl_sync_vote *vote, const struct pccl_text *unable)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_CALL, .call = PCCL_CALL_SYNC, .vote = vote, .reason = unable};
    if (synchronizer)
        pccl_synchronizer_name(synchronizer, &comm->id, pccl_peer_lineage(comm->peer), pccl_peer_sync_round(comm->peer),
                               pccl_peer_silence_ms(comm->peer));
    return pccl_comm_take_part(comm, synchronizer, &event);
}
