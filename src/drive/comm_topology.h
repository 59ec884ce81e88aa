/*
 * The optimization that is in progress, and the request for the topology report. Under the lock;
 * the measurer's events come without it.
 */
#ifndef PCCL_DRIVE_COMM_TOPOLOGY_H
#define PCCL_DRIVE_COMM_TOPOLOGY_H

#include "drive/comm_wait.h"
#include "measure/measurer.h"
#include "peer/peer.h"

struct pccl_communicator;

/* The request for the master's report on the group's links, until its answer is taken. */
struct pccl_comm_description {
    bool outstanding; /* a thread wants the answer */
    bool asked;       /* the machine has not answered yet; it takes one request at a time */
    enum pccl_status status;
    char *text; /* owned, or NULL */
    size_t length;
    struct pccl_waiter *waiter;
};

/* A communicator's part. */
struct pccl_comm_topology {
    struct pccl_comm_description description;
};

/*
 * Votes, tests paths and answers tests until the call has ended. Blocks; the lock is released
 * meanwhile. unable: NULL; or why this peer cannot take part, without a measurer: the call then ends with NO_RING.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_optimize(struct pccl_communicator *comm, struct pccl_worker *measurer,
                                                    const struct pccl_text *unable);
void pccl_comm_effect_measure(void *context, const struct pccl_peer_test *test);
/* The measurer's event, on the thread of the call. */
void pccl_comm_on_measured(void *comm, const struct pccl_measure_result *result);
/*
 * Asks the master for the report and waits; the lock is released meanwhile. OK: *text, of *length
 * bytes, is the caller's to release. USAGE: not in a run, or another thread is asking. PEER_LOST:
 * the run was left meanwhile. TIMEOUT, MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_describe(struct pccl_communicator *comm, char **text, size_t *length);
void pccl_comm_effect_described(void *context, const struct pccl_bytes *text);
/* Removes all references to this waiter. */
void pccl_comm_describe_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Ends the request, with this status and without an answer. */
static inline void pccl_comm_describe_over(struct pccl_communicator *comm, struct pccl_comm_topology *topology,
                                           enum pccl_status status)
{
    topology->description.asked = false;
    topology->description.status = status;
    pccl_comm_signal(comm, topology->description.waiter);
}

#endif
