/*
 * Reporting of failures to callers: maps internal statuses to public result codes, and stores the reason and details of
 * each thread's last failures. The functions may be called on any thread, and never block or fail.
 */
#ifndef PCCL_CONFIG_ERRORS_H
#define PCCL_CONFIG_ERRORS_H

#include "core/base.h"
#include "core/departed.h"
#include "core/status.h"
#include "core/text.h"
#include "pccl.h"

/* Families of public functions that return the same results for the same statuses. */
enum pccl_family {
    PCCL_FAMILY_GENERAL,  /* create, destroy, attributes, options, logs */
    PCCL_FAMILY_CONNECT,  /* pcclConnect */
    PCCL_FAMILY_UPDATE,   /* pcclUpdateTopology */
    PCCL_FAMILY_OPTIMIZE, /* pcclOptimizeTopology */
    PCCL_FAMILY_PENDING,  /* pcclArePeersPending */
    PCCL_FAMILY_REDUCE,   /* launches and awaits of operations */
    PCCL_FAMILY_SYNC,     /* pcclSynchronizeSharedState */
    PCCL_FAMILY_MASTER,   /* the master functions */
    PCCL_FAMILIES
};

/* Details of a failed call in addition to its reason. */
struct pccl_details {
    bool launched; /* the call launched or awaited an operation, with this tag and sequence */
    uint64_t tag, sequence;
    struct pccl_departed departed; /* peers that left during the operation or the call */
};

/* Reason and details of a failed call. */
struct pccl_why {
    struct pccl_text reason;
    struct pccl_details details;
};

/*
 * Clears the struct as zeroing would, at less cost. Every call on the fast path has one of these, but most never use
 * it.
 */
static inline void pccl_why_clear(struct pccl_why *why)
{
    why->reason.length = 0;
    why->reason.bytes[0] = '\0';
    why->details.launched = false;
    why->details.tag = why->details.sequence = 0;
    why->details.departed.count = 0;
}

/*
 * Returns the public result code. `extended` permits codes from 13 upwards: either the option extended_results is set,
 * or PCCL 1.0 lacks the function.
 */
pcclResult_t pccl_errors_result(enum pccl_family family, enum pccl_status status, bool extended);

/* Converts an error of libuv or the system to MEMORY or SYSTEM. */
enum pccl_status pccl_errors_of_system(int error);

/* Returns the text for pcclGetErrorString, which is a constant and never NULL. */
const char *pccl_errors_text(pcclResult_t result);

/*
 * Records a failure of the calling thread and returns its public result code. `key` is 0 for calls without a
 * communicator, or a nonzero number that is unique to a communicator. `status` must not be OK; if the reason is empty,
 * its text is used. Each thread remembers the failures of at least the 8 keys that failed last.
 */
pcclResult_t pccl_errors_fail(uint64_t key, enum pccl_family family, bool extended, enum pccl_status status,
                              const struct pccl_why *why);
/* Returns the reason for the last failure, or "". Valid until the thread's next failure. */
const char *pccl_errors_last(uint64_t key);
/* Describes the same failure for pcclGetLastFailure. failure->size must be set, to at least the size of the struct. */
void pccl_errors_describe(uint64_t key, pcclFailure_t *failure);
/* Forgets the failures of this key on the calling thread, because the key will identify another communicator. */
void pccl_errors_forget(uint64_t key);

#endif
