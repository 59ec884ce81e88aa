/*
 * PCCL: the loop of a program that lives with peers that come, go and die.
 * pccl_collectives.h includes this file, and so does pccl.h. None of this is in PCCL 1.0.
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
    uint32_t min_peers;  /* peers that a group needs to begin a step; the same on all peers. 1: a lone peer continues */
    uint32_t wait_ms;    /* for min_peers; 0: without limit */
    uint32_t connect_ms; /* how long attempts to get into the run are repeated; while the other side accepts connections
                            and closes them, one attempt takes up to connect_retry_ms, or what is left of this */
    uint64_t first_step; /* the number of the first step of a run that begins, as of a checkpoint */
} pcclLoopOptions_t;

#define PCCL_LOOP_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(pcclLoopOptions_t), 2, 0, 60000, 0                                                                      \
    }

/* A step that has begun. */
typedef struct pcclLoopStep_t {
    size_t size;       /* set by PCCL_LOOP_STEP_INIT */
    uint64_t number;   /* steps that the run has completed before this one; the same on all peers of the group */
    uint64_t revision; /* of the shared state */
    uint64_t tx_bytes; /* of the state, sent by this peer, and received */
    uint64_t rx_bytes;
    uint32_t world; /* peers of the group */
    uint32_t rank;  /* of this peer among them */
    bool again;     /* this peer has begun the step of this number before, and it was not completed */
    bool joined;    /* admitted since its last step, or in its first: this peer now has the run's state */
    bool diverged;  /* in the run since its last step, but with another state than the others: it was replaced */
} pcclLoopStep_t;

#define PCCL_LOOP_STEP_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(pcclLoopStep_t), 0, 0, 0, 0, 0, 0, false, false, false                                                  \
    }

/*
 * Makes a loop of this communicator, which has not been connected, or has made no call since pcclConnect. state:
 * tensors that the steps change, equal on all peers of the group; NULL: none. Each step reads the struct and its
 * tensors: keep both, or replace the tensors by others of the same names, types and counts. Its revision is the
 * checkpoint's, or 0. The loop adds one tensor, "pccl.loop.steps": the number of completed steps.
 *
 * All peers of the group must use a loop. Does not block. options NULL: PCCL_LOOP_OPTIONS_INIT.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or loop_out is NULL, or an option is wrong
 * pcclInvalidUsage    comm is a group, closed, or of the parent process
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclLoopBegin(pcclComm_t *comm, pcclSharedState_t *PCCL_NULLABLE state,
                                       const pcclLoopOptions_t *PCCL_NULLABLE options, pcclLoop_t **loop_out);

/*
 * Ends a step and begins the next one: admits newcomers, waits for min_peers, and synchronizes the state. joint(all),
 * then joint(group); a peer that is not in the run gets into it, also again after it was removed or has lost its
 * master, and then holds the state of the run.
 *
 * outcome: how the step has ended here. pcclSuccess: it is completed, and counts. pcclRankConnectionLost,
 * pcclTooFewPeers, pcclMembersChanged, pcclAborted, pcclTimeout, pcclExpelled, pcclDrained and pcclMasterLost, as
 * operations return them: it is begun again, so the state must be as it was when the step began: change it after the
 * last operation of the step. The same is true of pcclInvalidUsage if this peer is out of the run. Any other outcome is
 * returned unchanged, and the step is not counted. An operation ends alike for all members, so all have the same
 * outcome. It matters only if a step has begun: not in the first call, nor after a failure.
 *
 * Operations of the step must have been awaited. One thread at a time. pcclCloseCommunicator of another thread ends it.
 * After a failure it may be called again, with pcclSuccess, which then does not count a step. Others that hold a
 * step for failed, as after pcclRankConnectionLost, begin it again together with this peer.
 * pcclSuccess         *step is set
 * pcclDrained         this peer was drained, by pcclDrain or an operator: it is out of the run, and the step that it
 *                     has ended with pcclSuccess counts for all. It does not get into the run again
 * pcclInvalidArgument loop or step is NULL, or the size of step is not set; or a tensor is wrong
 * pcclInvalidUsage    the communicator is closed; the state could not be synchronized, as the message says
 * pcclPendingAsyncOps operations are launched and not yet awaited
 * pcclTimeout         fewer than min_peers after wait_ms; or as the calls below
 * others              of pcclConnect after connect_ms, of pcclUpdateTopology and pcclSynchronizeSharedState;
 * pcclExpelled (ext.) if this peer was removed in three synchronizations, one after another, as for other tensors
 */
PCCL_EXPORT pcclResult_t pcclLoopNext(pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step);

/*
 * Frees the loop, not the communicator: this peer stays in the run until pcclDestroyCommunicator. Not while another
 * thread is in pcclLoopNext. Does not block.
 * pcclSuccess
 */
PCCL_EXPORT pcclResult_t pcclLoopEnd(pcclLoop_t *PCCL_NULLABLE loop);

/*
 * Asks for the drain of this peer: it takes part in all operations and calls until the next update of the topology, and
 * leaves with that. No operation is under way then, so none of the others fails. Its own pcclUpdateTopology returns
 * pcclDrained (extended). If no update is decided within `drain_ms` (20 s), it leaves as by pcclCloseCommunicator, and
 * its calls and operations end with pcclDrained. A restart of the master changes nothing. A peer that is not admitted
 * yet leaves at once. A drain cannot be taken back: the communicator does not connect again. A repeated call has no
 * effect, nor has a call on a communicator that is closed or out of the run.
 *
 * Safe in a handler of signals, and on any thread while the communicator exists. The library notices it within a
 * quarter of a second (a second in a large run), and installs no handler itself. Not after pcclDestroyCommunicator has
 * begun. Does not block.
 * pcclSuccess
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    comm is a group
 */
PCCL_EXPORT pcclResult_t pcclDrain(pcclComm_t *comm);

#ifdef __cplusplus
}
#endif

#endif
