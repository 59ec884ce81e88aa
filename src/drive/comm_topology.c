/*
 * Connects the state machine with the measurer, which tests paths on the thread of the call (measure/measurer.h). Also
 * requests the topology report from the master.
 */
#include "drive/communicator.h"
#include "drive/comm_callers.h"
#include "drive/comm_machine.h"
#include "drive/comm_topology.h"
#include "drive/comm_wait.h"

#include "net/heap.h"
#include "peer/queries.h"

#include <string.h>

/* ---- events during an optimization ---- */

void pccl_comm_effect_measure(void *context, const struct pccl_peer_test *test)
{
    struct pccl_communicator *comm = context;
    const struct pccl_call_slot *slot = &comm->calls[PCCL_CALL_OPTIMIZE];
    if (!slot->worker)
        return;
    struct pccl_measure_order order = {.test = test->number,
                                       .peer = test->peer,
                                       .ticket = test->ticket,
                                       .limit_ms = test->limit_ms,
                                       .candidate_count = test->candidate_count,
                                       .reversed = test->reversed};
    PCCL_ASSERT(test->candidate_count <= PCCL_CANDIDATES_MAX);
    if (test->candidate_count)
        memcpy(order.candidates, test->candidates, test->candidate_count * sizeof *test->candidates);
    pccl_measurer_order(slot->worker, &order);
    pccl_comm_signal(comm, slot->waiter);
}

void pccl_comm_on_measured(void *context, const struct pccl_measure_result *result)
{
    struct pccl_peer_measurement measurement = {.test = result->test,
                                                .failed = result->failed,
                                                .how = result->how,
                                                .rtt_us = result->rtt_us,
                                                .rate = result->rate};
    pccl_comm_enter(context);
    pccl_comm_step(context, &(struct pccl_peer_event){.kind = PCCL_PEER_TEST_DONE, .measurement = &measurement});
    pccl_comm_leave(context);
}

/* ---- the call ---- */

enum pccl_status pccl_comm_optimize(struct pccl_communicator *comm, struct pccl_worker *measurer,
                                    const struct pccl_text *unable)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_CALL, .call = PCCL_CALL_OPTIMIZE, .reason = unable};
    return pccl_comm_take_part(comm, measurer, &event);
}

/* ---- the topology report ---- */

void pccl_comm_effect_described(void *context, const struct pccl_bytes *text)
{
    struct pccl_communicator *comm = context;
    struct pccl_comm_description *description = &comm->topology.description;
    enum pccl_status status = text ? PCCL_OK : PCCL_PEER_LOST;
    if (text && description->outstanding) {
        description->text = pccl_heap_raw((size_t)text->length + 1);
        description->length = text->length;
        if (!description->text)
            status = PCCL_MEMORY;
        else if (text->length)
            memcpy(description->text, text->data, text->length);
    }
    pccl_comm_describe_over(comm, &comm->topology, status);
}

/* Waits for the state machine's answer. Returns false if the deadline has passed. */
static bool await_answer(struct pccl_communicator *comm, uint64_t deadline_us)
{
    struct pccl_comm_description *description = &comm->topology.description;
    bool answered = true;
    description->waiter = pccl_caller_waiter();
    if (description->asked)
        answered = pccl_comm_wait_until(comm, description->waiter, deadline_us);
    description->waiter = NULL;
    return answered;
}

static void drop_text(struct pccl_comm_description *description)
{
    if (description->text)
        pccl_release(pccl_heap(), description->text, description->length + 1);
    description->text = NULL;
}

/* Sends a request and waits for the answer. */
static enum pccl_status ask(struct pccl_communicator *comm, uint64_t deadline_us)
{
    struct pccl_comm_description *description = &comm->topology.description;
    description->asked = true;
    enum pccl_status status = pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_DESCRIBE});
    if (status != PCCL_OK) {
        description->asked = false;
        return status;
    }
    return await_answer(comm, deadline_us) ? description->status : PCCL_TIMEOUT;
}

enum pccl_status pccl_comm_describe(struct pccl_communicator *comm, char **text, size_t *length)
{
    struct pccl_comm_description *description = &comm->topology.description;
    uint32_t timeout_ms = comm->params.call_timeout_ms;
    uint64_t deadline_us = timeout_ms ? pccl_now_us() + timeout_ms * UINT64_C(1000) : UINT64_MAX;
    if (description->outstanding)
        return PCCL_USAGE;
    description->outstanding = true;
    /*
     * Waits for the answer to an earlier request that timed out and drops it, because it may be older than this call.
     */
    bool free = await_answer(comm, deadline_us);
    drop_text(description);
    enum pccl_status status = free ? ask(comm, deadline_us) : PCCL_TIMEOUT;
    if (status == PCCL_OK) {
        *text = description->text;
        *length = description->length;
        description->text = NULL;
    }
    drop_text(description);
    description->outstanding = false;
    return status;
}

void pccl_comm_describe_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    if (comm->topology.description.waiter == waiter)
        comm->topology.description.waiter = NULL;
}
