/* Connections that the listener has accepted: their hellos, and the parts of the communicator that take them. */
#include "drive/communicator.h"
#include "drive/comm_links.h"
#include "drive/comm_links_serve.h"
#include "drive/comm_machine.h"

#include "net/handshake.h"
#include "peer/queries.h"

/* A tester waits for echoes before it loads the path, so data that immediately follows violates the protocol. */
static void pass_to_worker(struct pccl_communicator *comm, struct pccl_connection *connection,
                           const struct pccl_msg_link_hello *hello)
{
    pccl_listener_adopt(connection);
    pccl_comm_pass_on(comm, connection, hello->kind, &hello->from, hello->reversed ? hello->number : 0,
                      hello->kind == PCCL_LINK_STATE);
}

static void take_ring_link(struct pccl_communicator *comm, struct pccl_connection *connection,
                           const struct pccl_msg_link_hello *hello)
{
    struct pccl_comm_link *link = pccl_comm_link_make(comm, &hello->from);
    if (!link) {
        pccl_connection_close(connection, 0);
        return;
    }
    pccl_listener_adopt(connection);
    pccl_comm_link_take_incoming(link, connection, hello->slot, hello->number, false);
}

/* Returns the slot that waits for this connection; NULL if no slot does. */
static struct pccl_comm_slot *find_awaited(struct pccl_communicator *comm, const struct pccl_msg_link_hello *hello)
{
    struct pccl_comm_link *link = pccl_comm_link_find(comm, &hello->from);
    struct pccl_comm_slot *slot = link ? &link->slots[hello->slot] : NULL;
    return slot && slot->awaited && slot->dialed == hello->number ? slot : NULL;
}

static void greet(struct pccl_communicator *comm, struct pccl_connection *connection,
                  const struct pccl_msg_link_hello *hello)
{
    struct pccl_text reason;
    enum pccl_refusal refusal = PCCL_REFUSAL_IDENTITY;
    pccl_text_format(&reason, "this peer is not connected to a run");
    if (!comm->data.engine || !comm->peer || pccl_peer_judge_link(comm->peer, hello, &refusal, &reason) != PCCL_OK) {
        pccl_handshake_refuse(connection, refusal, &reason, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    if (!pccl_comm_has_use_for(comm, hello->kind, &reason)) {
        refusal = hello->kind == PCCL_LINK_STATE ? PCCL_REFUSAL_STATE : PCCL_REFUSAL_MALFORMED;
        pccl_handshake_refuse(connection, refusal, &reason, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    bool is_back = hello->kind == PCCL_LINK_RING && hello->reversed;
    struct pccl_comm_slot *awaited = is_back ? find_awaited(comm, hello) : NULL;
    if (is_back && !awaited) {
        pccl_text_format(&reason, "this peer does not wait for that connection");
        pccl_handshake_refuse(connection, PCCL_REFUSAL_STATE, &reason, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    pccl_handshake_welcome(connection, &comm->id);
    if (hello->kind == PCCL_LINK_PROBE) {
        pccl_connection_close(connection, PCCL_COMMUNICATOR_LINGER_MS);
    } else if (awaited) {
        pccl_listener_adopt(connection);
        pccl_comm_link_end_wait(awaited, connection);
    } else if (hello->kind == PCCL_LINK_RING)
        take_ring_link(comm, connection, hello);
    else
        pass_to_worker(comm, connection, hello);
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct pccl_communicator *comm = connection->owner;
    struct pccl_msg msg;
    if (pccl_handshake_is_understood(connection, frame, comm->scratch, &msg, PCCL_COMMUNICATOR_LINGER_MS))
        greet(comm, connection, &msg.as.link_hello);
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    if (how == PCCL_END_GARBAGE)
        pccl_handshake_refuse(connection, PCCL_REFUSAL_MALFORMED, reason, PCCL_COMMUNICATOR_LINGER_MS);
    else
        pccl_connection_close(connection, 0);
}

uint64_t pccl_comm_want_back(void *context, const struct pccl_id *peer, enum pccl_link_kind kind, uint32_t slot)
{
    struct pccl_communicator *comm = context;
    pccl_comm_enter(comm);
    uint64_t number = ++comm->links.dialed;
    pccl_comm_step(comm, &(struct pccl_peer_event){
                             .kind = PCCL_PEER_WANT_BACK, .peer = *peer, .link = kind, .slot = slot, .number = number});
    pccl_comm_leave(comm);
    return number;
}

void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection)
{
    (void)owner;
    (void)connection; /* unknown until its hello arrives */
}

const struct pccl_connection_events pccl_comm_link_events = {
    .enter = pccl_comm_links_enter, .leave = pccl_comm_loop_leave, .received = on_received, .ended = on_ended};
