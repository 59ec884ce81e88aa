#include "drive/comm_links_serve.h"
#include "drive/communicator.h"

static struct pccl_call_slot *call_of(struct pccl_communicator *comm, uint8_t kind)
{
    return &comm->calls[kind == PCCL_LINK_STATE ? PCCL_CALL_SYNC : PCCL_CALL_OPTIMIZE];
}

bool pccl_comm_has_use_for(struct pccl_communicator *comm, uint8_t kind, struct pccl_text *reason)
{
    bool serves_call = kind == PCCL_LINK_STATE || kind == PCCL_LINK_MEASURE;
    if (!serves_call || call_of(comm, kind)->worker)
        return true;
    pccl_text_format(reason, "no %s in progress on this peer",
                     kind == PCCL_LINK_STATE ? "synchronization of shared state" : "optimization");
    return false;
}

void pccl_comm_pass_on(struct pccl_communicator *comm, struct pccl_connection *connection, uint8_t kind,
                       const struct pccl_id *from, uint64_t number, bool may_begin)
{
    struct pccl_call_slot *slot = call_of(comm, kind);
    struct pccl_handover handover;
    pccl_socket_limit_silence(connection->channel.socket, comm->params.link_silence_ms);
    if (!pccl_connection_detach(connection, &handover)) {
        pccl_connection_close(connection, 0);
        return;
    }
    enum pccl_status status = PCCL_MALFORMED;
    if (may_begin || !pccl_handover_has_input(&handover))
        status = number != 0 ? pccl_worker_answer(slot->worker, from, number, &handover)
                             : pccl_worker_accept(slot->worker, from, &handover);
    if (status != PCCL_OK)
        pccl_handover_drop(&handover);
    else
        pccl_comm_signal(comm, slot->waiter); /* the worker now has work */
}
