/* The optimization that is under way, and the question for the links. Under the lock; the session's events come
 * without it. */
#ifndef PCCL_DRIVE_COMM_TOPOLOGY_H
#define PCCL_DRIVE_COMM_TOPOLOGY_H

#include "measure/session.h"
#include "peer/peer.h"

struct pccl_waiter;
struct pcclComm_t;

/* The question how the master sees the links of the group, until its answer is taken. */
struct pccl_comm_description {
    bool outstanding; /* a thread wants the answer */
    bool asked;       /* the machine has been asked, and has not answered: it takes one question at a time */
    enum pccl_status status;
    char *text; /* owned; NULL: there is none */
    size_t length;
    struct pccl_waiter *waiter;
};

/* Of a communicator. */
struct pccl_comm_topology {
    struct pccl_measure_session *session; /* of the call that is outstanding; NULL: none is */
    struct pccl_comm_description description;
};

/* Votes, tests paths and answers tests until the call has ended. Takes its time; the lock is released meanwhile. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_optimize(struct pcclComm_t *comm, struct pccl_measure_session *session);
/* The call has ended, by whatever its slot says. */
void pccl_comm_optimize_over(struct pcclComm_t *comm);
void pccl_comm_effect_measure(void *context, const struct pccl_peer_test *test);
/* A connection of one who tests has been through its handshake. Not OK: the socket is still the caller's. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_measure_accept(struct pcclComm_t *comm, const struct pccl_id *peer,
                                                          struct pccl_handover *handover);
/* The session's event, on the thread of the call. */
void pccl_comm_on_measured(void *comm, const struct pccl_measure_result *result);
/*
 * Asks the master, and waits; the lock is released meanwhile. OK: *text is the caller's, to be released, of *length
 * bytes. USAGE: not in a run, or another thread asks. PEER_LOST: out of the run meanwhile. TIMEOUT, MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_describe(struct pcclComm_t *comm, char **text, size_t *length);
void pccl_comm_effect_described(void *context, const struct pccl_bytes *text);
/* Nothing refers to this waiter from now on. */
void pccl_comm_describe_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter);
/* There will be no answer. */
void pccl_comm_describe_over(struct pcclComm_t *comm, enum pccl_status status);

#endif
