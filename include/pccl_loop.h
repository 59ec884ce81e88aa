/*
 * PCCL: the loop of a program whose peers may join, leave and fail. pccl_collectives.h includes this file, and so does
 * pccl.h. Nothing in this file exists in PCCL 1.0.
 *
 *     pcclResult_t result = pcclSuccess;
 *     while ((result = pcclLoopNext(loop, result, &step)) == pcclSuccess) {
 *         compute(gradient);
 *         result = pcclAllReduce(gradient, gradient, &average, comm, &info);
 *         if (result == pcclSuccess)
 *             apply(gradient);
 *     }
 */
#ifndef PCCL_LOOP_H
#define PCCL_LOOP_H

#include "pccl_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A loop over the steps of a run. Opaque. */
typedef struct pcclLoop_t pcclLoop_t;

typedef struct pcclLoopOptions_t {
    size_t size;         /* set by PCCL_LOOP_OPTIONS_INIT */
    uint32_t min_peers;  /* minimum number of peers in the group for a step to begin; equal on all peers. 1: a lone peer
                            continues */
    uint32_t wait_ms;    /* time limit for waiting for min_peers; 0: no limit */
    uint32_t connect_ms; /* time limit for repeated attempts to join the run; while the other side accepts connections
                            and closes them, one attempt takes up to connect_retry_ms or the remaining time */
    uint64_t first_step; /* number of the first step of a new run, for example from a checkpoint */
} pcclLoopOptions_t;

#define PCCL_LOOP_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(pcclLoopOptions_t), 2, 0, 60000, 0                                                                      \
    }

/* A step that has begun. */
typedef struct pcclLoopStep_t {
    size_t size;       /* set by PCCL_LOOP_STEP_INIT */
    uint64_t number;   /* number of steps that the run completed before this one; equal on all peers of the group */
    uint64_t revision; /* revision of the shared state */
    uint64_t tx_bytes; /* bytes of the state that this peer sent */
    uint64_t rx_bytes;
    uint32_t world; /* peers of the group */
    uint32_t rank;  /* rank of this peer among them */
    bool again;     /* true if this peer has begun the step with this number before without completing it */
    bool joined;    /* true in the first step after this peer was admitted: it now has the run's state */
    bool diverged;  /* true if this peer stayed in the run, but its state differed from the others' and was replaced */
} pcclLoopStep_t;

#define PCCL_LOOP_STEP_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(pcclLoopStep_t), 0, 0, 0, 0, 0, 0, false, false, false                                                  \
    }

/*
 * Creates a loop on this communicator, which must not have been connected yet, or must have made no call since
 * pcclConnect. state: tensors that the steps change and that are equal on all peers of the group; NULL: no state. Each
 * step reads the struct and its tensors: keep both, or replace the tensors with others with the same names, types and
 * counts. Set its revision to the checkpoint's, or to 0. The loop adds one tensor, "pccl.loop.steps": the number of
 * completed steps.
 *
 * All peers of the group must use a loop. Does not block. options NULL: PCCL_LOOP_OPTIONS_INIT.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or loop_out is NULL, or an option is invalid
 * pcclInvalidUsage    comm is a group, closed, or belongs to the parent process
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclLoopBegin(pcclComm_t *comm, pcclSharedState_t *PCCL_NULLABLE state,
                                       const pcclLoopOptions_t *PCCL_NULLABLE options, pcclLoop_t **loop_out);

/*
 * Ends a step and begins the next one: admits newcomers, waits for min_peers, and synchronizes the state. Joint(all),
 * then joint(group). A peer that is not in the run joins it, even after it was removed or lost its master, and then has
 * the state of the run.
 *
 * outcome: result of the step on this peer. pcclSuccess: the step is complete and counts. pcclRankConnectionLost,
 * pcclTooFewPeers, pcclMembersChanged, pcclAborted, pcclTimeout, pcclExpelled, pcclDrained and pcclMasterLost, as
 * returned by operations: the step is repeated, so the state must be unchanged since the beginning of the step: change
 * the state only after the last operation of the step. This also applies to pcclInvalidUsage if this peer has left the
 * run. Any other outcome is returned unchanged, and the step does not count. Operations have the same outcome on all
 * members, so all pass the same outcome. The outcome is ignored in the first call and after a failure,
 * because no step has begun then.
 *
 * Operations of the step must have been awaited. One thread at a time. pcclCloseCommunicator on another thread ends the
 * call. After a failure the function may be called again with pcclSuccess, which then does not count a step. Other
 * peers on which the step failed, for example with pcclRankConnectionLost, repeat it together with this peer.
 * pcclSuccess         *step is set
 * pcclDrained         this peer was drained, by pcclDrain or an operator: it has left the run, and the step that it
 *                     ended with pcclSuccess counts for all. It cannot join the run again
 * pcclInvalidArgument loop or step is NULL, or the size of step is not set; or a tensor is invalid
 * pcclInvalidUsage    the communicator is closed; or the state could not be synchronized, for the reason in the message
 * pcclPendingAsyncOps operations have been launched and not yet awaited
 * pcclTimeout         fewer than min_peers after wait_ms; or as for the calls below
 * others              the results of pcclConnect after connect_ms, or at once if the master does not accept the token;
 *                     the results of pcclUpdateTopology and pcclSynchronizeSharedState
 * pcclExpelled (ext.) this peer was removed in three consecutive synchronizations, for example for different tensors
 */
PCCL_EXPORT pcclResult_t pcclLoopNext(pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step);

/*
 * Frees the loop, but not the communicator: this peer stays in the run until pcclDestroyCommunicator. Must not be
 * called while another thread is in pcclLoopNext. Does not block.
 * pcclSuccess
 */
PCCL_EXPORT pcclResult_t pcclLoopEnd(pcclLoop_t *PCCL_NULLABLE loop);

/*
 * Drains this peer: it takes part in all operations and calls until the next update of the topology, and then leaves
 * the run. No operation is running at that time, so operations of the others do not fail. Its own pcclUpdateTopology
 * returns pcclDrained (extended). If no update completes within `drain_ms` (20 s), it leaves as if by
 * pcclCloseCommunicator, and its calls and operations end with pcclDrained. A restart of the master has no effect on a
 * drain. A peer that has not been admitted yet leaves immediately. A drain cannot be revoked: the communicator cannot
 * connect again. A repeated call has no effect; the same applies to a call on a communicator that is closed or has left
 * the run.
 *
 * Safe in a signal handler, and on any thread while the communicator exists. The library notices the drain within a
 * quarter of a second (a second in a large run), and installs no handler itself. Must not be called once
 * pcclDestroyCommunicator has begun. Does not block.
 * pcclSuccess
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    comm is a group
 */
PCCL_EXPORT pcclResult_t pcclDrain(pcclComm_t *comm);

#ifdef __cplusplus
}
#endif

#endif
