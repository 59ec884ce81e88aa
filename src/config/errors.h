/*
 * Path of failures to the caller: the public code of an internal status, by function family, and the words and details
 * of a thread's last failure. Any thread; never blocks or fails.
 */
#ifndef PCCL_CONFIG_ERRORS_H
#define PCCL_CONFIG_ERRORS_H

#include "core/base.h"
#include "core/departed.h"
#include "core/status.h"
#include "core/text.h"
#include "pccl.h"

/* Families of public functions with the same results. */
enum pccl_family {
    PCCL_FAMILY_GENERAL,  /* create, destroy, attributes, options, logs */
    PCCL_FAMILY_CONNECT,  /* pcclConnect */
    PCCL_FAMILY_UPDATE,   /* pcclUpdateTopology */
    PCCL_FAMILY_OPTIMIZE, /* pcclOptimizeTopology */
    PCCL_FAMILY_PENDING,  /* pcclArePeersPending */
    PCCL_FAMILY_REDUCE,   /* launches and awaits */
    PCCL_FAMILY_SYNC,     /* pcclSynchronizeSharedState */
    PCCL_FAMILY_MASTER,   /* the master functions */
    PCCL_FAMILIES
};

/* Details of a failed call beside its words. */
struct pccl_details {
    bool launched; /* it concerned this reduction: */
    uint64_t tag, sequence;
    struct pccl_departed departed; /* peers that left during the reduction, or the call */
};

/* Reason of a failed call. */
struct pccl_why {
    struct pccl_text reason;
    struct pccl_details details;
};

/* Clears like zeroing, at less cost: each call on the fast path has one, and most need nothing of it. */
static inline void pccl_why_clear(struct pccl_why *why)
{
    why->reason.length = 0;
    why->reason.bytes[0] = '\0';
    why->details.launched = false;
    why->details.tag = why->details.sequence = 0;
    why->details.departed.count = 0;
}

/*
 * Returns the public code. extended: codes from 13 upwards are allowed (option extended_results, or a function that
 * PCCL 1.0 does not have).
 */
pcclResult_t pccl_errors_result(enum pccl_family family, enum pccl_status status, bool extended);

/* Returns the status of an error of libuv or of the system: a shortage of memory, or of another resource. */
enum pccl_status pccl_errors_of_system(int error);

/* Returns the text for pcclGetErrorString: never NULL, constant. */
const char *pccl_errors_text(pcclResult_t result);

/*
 * Records a failure of the calling thread and returns its code. key: any number other than 0 that is unique to a
 * communicator, or 0 for calls without one. An empty reason becomes the text of the status, which is not OK. A thread
 * remembers the keys it failed on most recently, at least 8.
 */
pcclResult_t pccl_errors_fail(uint64_t key, enum pccl_family family, bool extended, enum pccl_status status,
                              const struct pccl_why *why);
/* Returns the reason of the last failure, or "". Valid until the thread's next failure. */
const char *pccl_errors_last(uint64_t key);
/* Describes the same failure for pcclGetLastFailure; failure->size is set and at least the size of the struct. */
void pccl_errors_describe(uint64_t key, pcclFailure_t *failure);
/* Forgets the key, which is about to mean another communicator, in the calling thread only. */
void pccl_errors_forget(uint64_t key);

#endif
