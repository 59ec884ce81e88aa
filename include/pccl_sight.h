/*
 * PCCL: the flight recorder, verdicts, progress, and news of the training.
 * pccl_collectives.h includes this file, and so does pccl.h. None of this is in PCCL 1.0.
 */
#ifndef PCCL_SIGHT_H
#define PCCL_SIGHT_H

#include "pccl_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ records */

/*
 * Writes what the flight recorder of this peer holds as JSON: its latest `recorder_operations` operations that have
 * ended, and all that have not, with times, bytes, outcome and members; for each neighbor what was permitted, sent
 * and received, and how long this peer waited for it; whom those that have not ended wait for, and since when; and
 * the figures of the connections to other peers, at most a second old. docs/guide/operations.md explains the members.
 * A group's is that of its communicator. Any thread, and in particular while another thread is blocked in a call on
 * comm. Waits for nobody.
 *
 * needed (may be NULL, unless text is) becomes the bytes that the text takes, with its terminator.
 * With text NULL and size 0 nothing else happens. The text may grow from one call to the next.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL; text is NULL although size is not 0 or needed is NULL; or size is
 *                     too small: *needed was set
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclDumpFlightRecorder(const pcclComm_t *comm, char *PCCL_NULLABLE text, size_t size,
                                                size_t *PCCL_NULLABLE needed);

/*
 * Writes the same to a file, as a whole: readers see the old content or the new one. Any thread, as
 * above. A process that wants dumps on a signal calls it from a thread that waits for the signal
 * (sigwait), not from a signal handler: the library itself takes no signals.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or file is NULL, or file is empty
 * pcclInternalError   the file cannot be written; what was there is still there
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclWriteFlightRecorder(const pcclComm_t *comm, const char *file);

/* What a verdict says: what is wrong. More may come; what is not known is to be shown by its words. */
typedef enum pcclVerdictClass_t {
    pcclVerdictNotEntered = 1,      /* others wait in an operation that this peer has not entered */
    pcclVerdictHang = 2,            /* all have entered it, and it stands still because of this peer or link */
    pcclVerdictSlowLink = 3,        /* the link carries less than others, or loses more */
    pcclVerdictSlowSender = 4,      /* all that the peer sends is slow */
    pcclVerdictSlowReceiver = 5,    /* all that is sent to the peer is slow */
    pcclVerdictSlowPeer = 6,        /* its process does not run when it wants to */
    pcclVerdictSlowComputation = 7, /* the peer enters operations later than the others */
} pcclVerdictClass_t;

#define PCCL_VERDICTS_AT_ONCE 8     /* that hold for a group at most */
#define PCCL_VERDICT_WORDS_SIZE 512 /* with the terminating zero */

/* What the master concludes from the reports of the peers. */
typedef struct pcclVerdict_t {
    uint32_t verdict_class; /* pcclVerdictClass_t */
    uint32_t for_ms;        /* how long it has been so, at least */
    uint64_t number;        /* the same verdict has the same number as long as it holds */
    pcclPeerId_t peer;
    pcclPeerId_t other; /* of a link, which goes from `peer` to this one; otherwise "" */
    char name[32];      /* of the class, in words: "slow link" */
    char evidence[PCCL_VERDICT_WORDS_SIZE];
    char action[PCCL_VERDICT_WORDS_SIZE]; /* what was done, or will be */
} pcclVerdict_t;

/*
 * Who or what makes the group of this communicator slow, or its operations stand still, as the master
 * told last: docs/guide/operations.md. Writes at most `max` verdicts, the oldest first; *count becomes
 * how many hold. Any thread, also while another thread is blocked in a call on comm. Waits for nobody.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or count is NULL, or verdicts is NULL although max is not 0
 */
PCCL_EXPORT pcclResult_t pcclGetVerdicts(const pcclComm_t *comm, pcclVerdict_t *PCCL_NULLABLE verdicts, size_t max,
                                         size_t *count);

/* ------------------------------------------------------------------------------------------------ progress */

/* What a thread of this process waits in. */
typedef enum pcclProgressCall_t {
    pcclProgressNone = 0,
    pcclProgressUpdate = 1, /* pcclUpdateTopology */
    pcclProgressPending = 2,
    pcclProgressOperation = 3, /* an operation of any kind */
    pcclProgressConnect = 4,
    pcclProgressSynchronize = 5,
    pcclProgressOptimize = 6
} pcclProgressCall_t;

typedef struct pcclProgress_t {
    size_t size; /* set by PCCL_PROGRESS_INIT */
    pcclProgressCall_t call;
    uint64_t elapsed_ms;
    uint64_t done;         /* bytes of shared state that have been fetched */
    uint64_t total;        /* ... and are to be fetched, as far as is known; 0: nothing is, or not yet */
    uint64_t rate;         /* bytes per second so far; 0: unknown */
    uint64_t remaining_ms; /* at this rate; 0: unknown */
} pcclProgress_t;
#define PCCL_PROGRESS_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(pcclProgress_t), pcclProgressNone, 0, 0, 0, 0, 0                                                        \
    }

/*
 * Says how far the call of this communicator has come that a thread has waited in for longest. Any
 * thread, and in particular while another one is blocked in a call on comm. Does not block: ask
 * again and again, as a thread that draws a bar does; pcclDescribeWaits says for whom it waits.
 * pcclSuccess         call is pcclProgressNone if no thread waits
 * pcclNotInitialized
 * pcclInvalidArgument comm or progress is NULL, or its size is not set
 */
PCCL_EXPORT pcclResult_t pcclGetProgress(const pcclComm_t *comm, pcclProgress_t *progress);

/* Runs once at a time. May call what any thread may at any time, but pcclDestroyCommunicator. */
typedef void (*pcclProgressCallback_t)(const pcclProgress_t *progress, void *user_data);

/*
 * Tells `callback` once a second what pcclGetProgress would say, from a call's third second on, on a
 * thread that waits in it. NULL: no longer. It holds for later calls on comm and its groups; a former one
 * that has begun may still run when this returns. Any thread, at any time.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 */
PCCL_EXPORT pcclResult_t pcclSetProgressCallback(const pcclComm_t *comm, pcclProgressCallback_t PCCL_NULLABLE callback,
                                                 void *PCCL_NULLABLE user_data);

/*
 * Tells the master how the training goes: the loss of a step, for those who watch the run on the
 * master's page and in its /status.json. Nothing else depends on it. It is news, not a promise: at
 * most ten words a second go out, and none while the master is away; what is not told is dropped.
 * A loss that is not finite is shown as such. Does not block. Any thread, at any time. Not in PCCL 1.0.
 * pcclSuccess         also if the word was dropped
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    unconnected
 * pcclInternalError   a defect of the library
 */
PCCL_EXPORT pcclResult_t pcclReportTraining(const pcclComm_t *comm, uint64_t step, double loss);

#ifdef __cplusplus
}
#endif

#endif
