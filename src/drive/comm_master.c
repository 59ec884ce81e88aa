/* A communicator's connection to the master: dialling, decoding, closing. */
#include "drive/comm_machine.h"
#include "drive/comm_master.h"
#include "drive/comm_wait.h"
#include "net/heap.h"

#include <string.h>

/* ---- effects: under the lock, inside the machine, on any thread ---- */

void pccl_comm_effect_dial_master(void *context)
{
    struct pcclComm_t *comm = context;
    comm->dial_master = true;
}

void pccl_comm_effect_close_master(void *context)
{
    struct pcclComm_t *comm = context;
    comm->dial_master = false;
    comm->cancel_master = true;
    if (!comm->master)
        return;
    pccl_comm_unseat_leader(comm);
    comm->master->next_dirty = comm->closing;
    comm->closing = comm->master;
    comm->master = NULL;
}

void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length)
{
    struct pcclComm_t *comm = context;
    if (comm->master)
        pccl_connection_send(comm->master, bytes, length);
}

void pccl_comm_effect_accept_master(void *context)
{
    struct pcclComm_t *comm = context;
    if (comm->master)
        pccl_connection_raise(comm->master);
}

/* ---- the connection ---- */

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct pcclComm_t *comm = connection->owner;
    struct pccl_msg msg;
    struct pccl_text reason;
    if (connection != comm->master)
        return;
    if (pccl_wire_decode(frame->type, frame->body, frame->length, comm->scratch, &msg, &reason) == PCCL_OK) {
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_RECEIVED, .frame = frame, .msg = &msg});
        return;
    }
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_GARBAGE, .words = &reason});
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *words)
{
    struct pcclComm_t *comm = connection->owner;
    if (connection != comm->master)
        return; /* already in the list of those to be closed */
    pccl_comm_unseat_leader(comm);
    comm->master = NULL;
    pccl_connection_close(connection, 0);
    enum pccl_peer_event_kind kind = how == PCCL_END_GARBAGE ? PCCL_PEER_MASTER_GARBAGE : PCCL_PEER_MASTER_DOWN;
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = kind, .words = words});
}

static const struct pccl_connection_events master_events = {
    .enter = pccl_comm_loop_enter, .leave = pccl_comm_loop_leave, .received = on_received, .ended = on_ended};

/* ---- dialling ---- */

static void master_down(struct pcclComm_t *comm, const struct pccl_text *words)
{
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_DOWN, .words = words});
}

static void on_dialled(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                       const struct pccl_text *words)
{
    struct pcclComm_t *comm = context;
    (void)how;
    comm->master_dialer = NULL;
    if (connection) {
        connection->events = &master_events;
        connection->owner = comm;
        comm->master = connection;
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_UP});
    } else {
        master_down(comm, words);
    }
}

static void out_of_memory(struct pcclComm_t *comm)
{
    struct pccl_text words;
    pccl_text_format(&words, "out of memory while dialling");
    master_down(comm, &words);
}

static void dial(struct pcclComm_t *comm, const struct pccl_address *addresses, uint32_t count)
{
    struct pccl_dial dial = {.addresses = addresses,
                             .count = (uint32_t)pccl_min_u64(count, PCCL_DIAL_ADDRESSES_MAX),
                             .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                             .timeout_ms = comm->params.connect_timeout_ms,
                             .done = on_dialled,
                             .context = comm,
                             .enter = pccl_comm_loop_enter,
                             .leave = pccl_comm_loop_leave,
                             .owner = comm};
    comm->master_dialer = pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
    if (!comm->master_dialer)
        out_of_memory(comm);
}

static void on_resolved(void *context, const struct pccl_address *addresses, uint32_t count,
                        const struct pccl_text *words)
{
    struct pcclComm_t *comm = context;
    comm->master_resolver = NULL;
    if (count)
        dial(comm, addresses, count);
    else
        master_down(comm, words);
}

static void start_dialling(struct pcclComm_t *comm)
{
    struct pccl_address addresses[PCCL_MASTER_ADDRESSES_MAX];
    uint32_t numeric = 0;
    while (numeric < comm->master_count && pccl_resolve_numeric(&comm->masters[numeric], &addresses[numeric]))
        numeric++;
    if (numeric == comm->master_count) {
        dial(comm, addresses, numeric);
        return;
    }
    struct pccl_resolve resolve = {.hosts = comm->masters,
                                   .count = comm->master_count,
                                   .done = on_resolved,
                                   .context = comm,
                                   .enter = pccl_comm_loop_enter,
                                   .leave = pccl_comm_loop_leave,
                                   .owner = comm};
    comm->master_resolver = pccl_resolver_start(&comm->reactor.loop, pccl_heap(), &resolve);
    if (!comm->master_resolver)
        out_of_memory(comm);
}

void pccl_comm_master_settle(struct pcclComm_t *comm)
{
    while (comm->closing) {
        struct pccl_connection *closing = comm->closing;
        comm->closing = closing->next_dirty;
        pccl_connection_close(closing, PCCL_COMMUNICATOR_LINGER_MS);
    }
    if (comm->cancel_master) {
        comm->cancel_master = false;
        if (comm->master_dialer)
            pccl_dialer_cancel(comm->master_dialer);
        if (comm->master_resolver && pccl_resolver_cancel(comm->master_resolver))
            comm->stuck = true;
        comm->master_dialer = NULL;
        comm->master_resolver = NULL;
    }
    if (comm->dial_master) {
        comm->dial_master = false;
        start_dialling(comm);
    }
}
