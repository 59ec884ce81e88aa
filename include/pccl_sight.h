/*
 * PCCL: the flight recorder, verdicts, progress, and reports of the training. pccl_collectives.h includes this file,
 * and so does pccl.h. Nothing in this file exists in PCCL 1.0.
 */
#ifndef PCCL_SIGHT_H
#define PCCL_SIGHT_H

#include "pccl_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ records */

/*
 * Writes the content of this peer's flight recorder as JSON: its latest `recorder_operations` completed operations and
 * all unfinished ones, with times, bytes, outcome and members; for each neighbor, the amounts of granted, sent and
 * received data and the time spent waiting for the neighbor; the peers that unfinished operations wait for, and the
 * waiting times; and statistics, at most a second old, of the connections to other peers. docs/guide/operations.md
 * explains the JSON members. A group shares the recorder of its communicator. Any thread, in particular while another
 * thread is blocked in a call on comm. Does not block.
 *
 * *needed (may be NULL unless text is) receives the length of the text with its terminator in bytes. With text NULL and
 * size 0 the function only sets it. The text may grow between calls.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL; text is NULL although size is not 0 or needed is NULL; or size is too small:
 *                     *needed was set
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclDumpFlightRecorder(const pcclComm_t *comm, char *PCCL_NULLABLE text, size_t size,
                                                size_t *PCCL_NULLABLE needed);

/*
 * Writes the content of the flight recorder to a file atomically: readers see either the old or the new content. Any
 * thread, as above. For dumps on a signal, call it from a thread that waits for the signal (sigwait), not from a signal
 * handler; the library handles no signals.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or file is NULL, or file is empty
 * pcclInternalError   the file cannot be written; its old content is unchanged
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclWriteFlightRecorder(const pcclComm_t *comm, const char *file);

/* Class of a verdict. Later versions may add classes; display an unknown class by its name. */
typedef enum pcclVerdictClass_t {
    pcclVerdictNotEntered = 1,      /* others wait in an operation that this peer has not entered */
    pcclVerdictHang = 2,            /* all have entered the operation, but it is stuck because of this peer or link */
    pcclVerdictSlowLink = 3,        /* the link carries less than others, or loses more */
    pcclVerdictSlowSender = 4,      /* all data that the peer sends is slow */
    pcclVerdictSlowReceiver = 5,    /* all data that others send to the peer is slow */
    pcclVerdictSlowPeer = 6,        /* its process is runnable but does not run */
    pcclVerdictSlowComputation = 7, /* the peer enters operations later than the others */
} pcclVerdictClass_t;

#define PCCL_VERDICTS_AT_ONCE 8     /* maximum number of current verdicts of a group */
#define PCCL_VERDICT_WORDS_SIZE 512 /* with the terminating zero */

/* A conclusion of the master from the peers' reports. */
typedef struct pcclVerdict_t {
    uint32_t verdict_class; /* pcclVerdictClass_t */
    uint32_t for_ms;        /* minimum time for which the condition has lasted */
    uint64_t number;        /* identifies the verdict while it is current */
    pcclPeerId_t peer;
    pcclPeerId_t other; /* for a link: its receiver, while `peer` is its sender; otherwise "" */
    char name[32];      /* name of the class: "slow link" */
    char evidence[PCCL_VERDICT_WORDS_SIZE];
    char action[PCCL_VERDICT_WORDS_SIZE]; /* action that the master has taken or plans */
} pcclVerdict_t;

/*
 * Returns the master's current verdicts on this communicator's group: the causes of slow or stuck operations (see
 * docs/guide/operations.md). Writes at most `max` verdicts, the oldest first; *count receives the number of current
 * verdicts. Any thread, even while another thread is blocked in a call on comm. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or count is NULL, or verdicts is NULL although max is not 0
 */
PCCL_EXPORT pcclResult_t pcclGetVerdicts(const pcclComm_t *comm, pcclVerdict_t *PCCL_NULLABLE verdicts, size_t max,
                                         size_t *count);

/* ------------------------------------------------------------------------------------------------ progress */

/* Call in which a thread of this process waits. */
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
    uint64_t done;         /* fetched bytes of shared state */
    uint64_t total;        /* bytes of shared state to fetch, as far as known; 0: nothing to fetch, or unknown */
    uint64_t rate;         /* bytes per second so far; 0: unknown */
    uint64_t remaining_ms; /* remaining time at this rate; 0: unknown */
} pcclProgress_t;
#define PCCL_PROGRESS_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(pcclProgress_t), pcclProgressNone, 0, 0, 0, 0, 0                                                        \
    }

/*
 * Returns the progress of the longest waiting call on this communicator. Any thread, in particular while another thread
 * is blocked in a call on comm. Does not block: poll it to draw a progress bar; pcclDescribeWaits names the missing
 * peers.
 * pcclSuccess         call is pcclProgressNone if no thread waits
 * pcclNotInitialized
 * pcclInvalidArgument comm or progress is NULL, or its size is not set
 */
PCCL_EXPORT pcclResult_t pcclGetProgress(const pcclComm_t *comm, pcclProgress_t *progress);

/*
 * Receives the progress of a call. Never runs concurrently with itself. May call any function that is allowed on any
 * thread at any time, except pcclDestroyCommunicator.
 */
typedef void (*pcclProgressCallback_t)(const pcclProgress_t *progress, void *user_data);

/*
 * Reports the progress of waiting calls to `callback` as pcclGetProgress would: once a second, starting with a call's
 * third second, on a thread that waits in the call. NULL disables it. Applies to later calls on comm and its groups; a
 * previous callback that has begun may still run when this function returns. Any thread, any time.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 */
PCCL_EXPORT pcclResult_t pcclSetProgressCallback(const pcclComm_t *comm, pcclProgressCallback_t PCCL_NULLABLE callback,
                                                 void *PCCL_NULLABLE user_data);

/*
 * Reports the loss of a training step to the master, which shows it on its page and in /status.json. Has no other
 * effect. Reports are best effort: the library sends at most ten per second, and none while the master is away; it
 * drops the others. A loss that is not finite is shown as such. Does not block. Any thread, any time. Not in PCCL 1.0.
 * pcclSuccess         even if the report was dropped
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    unconnected
 * pcclInternalError   a bug in the library
 */
PCCL_EXPORT pcclResult_t pcclReportTraining(const pcclComm_t *comm, uint64_t step, double loss);

#ifdef __cplusplus
}
#endif

#endif
