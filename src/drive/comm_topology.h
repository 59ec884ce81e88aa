/*
 * The optimization in progress, and the request for the topology report. Caller holds the lock, except in the events of
 * the measurer.
 */
#ifndef PCCL_DRIVE_COMM_TOPOLOGY_H
#define PCCL_DRIVE_COMM_TOPOLOGY_H

#include "drive/comm_wait.h"
#include "measure/measurer.h"
#include "peer/peer.h"

struct pccl_communicator;

/* Request for the master's report on the links of the group. */
struct pccl_comm_description {
    bool outstanding; /* a thread waits for the answer */
    bool asked;       /* the state machine has not answered yet, and accepts no other request until then */
    enum pccl_status status;
    char *text; /* owned; NULL without an answer */
    size_t length;
    struct pccl_waiter *waiter;
};

struct pccl_comm_topology {
    struct pccl_comm_description description;
};

/*
 * Votes, tests paths and answers tests until the call has ended. Blocks; the lock is released during the wait. `unable`
 * is NULL, or the reason why this peer cannot take part; in that case there is no measurer, and the call ends with
 * NO_RING.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_optimize(struct pccl_communicator *comm, struct pccl_worker *measurer,
                                                    const struct pccl_text *unable);
void pccl_comm_effect_measure(void *context, const struct pccl_peer_test *test);
/* Event of the measurer, on the thread of the call. */
void pccl_comm_on_measured(void *comm, const struct pccl_measure_result *result);
/*
 * Requests the report from the master and waits for it; the lock is released during the wait. On OK the caller must
 * free *text, a block of *length + 1 bytes. Returns USAGE if this peer is not in a run or another thread waits for a
 * report, PEER_LOST if this peer left the run during the call, TIMEOUT or MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_describe(struct pccl_communicator *comm, char **text, size_t *length);
void pccl_comm_effect_described(void *context, const struct pccl_bytes *text);
/* Removes all references to this waiter. */
void pccl_comm_describe_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter);
/* Ends the request with this status and without an answer. */
static inline void pccl_comm_describe_over(struct pccl_communicator *comm, struct pccl_comm_topology *topology,
                                           enum pccl_status status)
{
    topology->description.asked = false;
    topology->description.status = status;
    pccl_comm_signal(comm, topology->description.waiter);
}

#endif
