/*
 * A communicator's links to other peers: one dialled by us and one accepted from each. Both begin with link_hello and
 * its answer; then they are silent, and their end is evidence.
 */
#include "drive/communicator.h"

#include "net/heap.h"
#include "net/interfaces.h"

#include <string.h>

/* ---- the records ---- */

static struct pccl_comm_link *find(const struct pcclComm_t *comm, const struct pccl_id *peer)
{
    for (struct pccl_node *node = pccl_table_find(&comm->links, pccl_id_hash(peer)); node;
         node = pccl_table_find_next(node)) {
        struct pccl_comm_link *link = PCCL_CONTAINER_OF(node, struct pccl_comm_link, by_peer);
        if (pccl_id_equal(&link->peer, peer))
            return link;
    }
    return NULL;
}

static struct pccl_comm_link *find_or_make(struct pcclComm_t *comm, const struct pccl_id *peer)
{
    struct pccl_comm_link *link = find(comm, peer);
    if (link)
        return link;
    link = pccl_allocate(pccl_heap(), sizeof *link);
    if (!link)
        return NULL;
    link->comm = comm;
    link->peer = *peer;
    pccl_table_insert(&comm->links, &link->by_peer, pccl_id_hash(peer));
    return link;
}

static void release_if_unused(struct pccl_comm_link *link)
{
    if (link->dialer || link->outgoing || link->incoming || link->queued)
        return;
    pccl_table_remove(&link->comm->links, &link->by_peer);
    pccl_release(pccl_heap(), link, sizeof *link);
}

static void enqueue(struct pccl_comm_link *link)
{
    if (link->queued)
        return;
    link->queued = true;
    link->next_queued = link->comm->queued_links;
    link->comm->queued_links = link;
}

/* ---- effects: under the lock, inside the machine, on any thread ---- */

void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_address *candidates,
                                uint32_t count)
{
    struct pcclComm_t *comm = context;
    struct pccl_comm_link *link = find_or_make(comm, peer);
    if (!link) {
        comm->starved = true;
        return;
    }
    PCCL_ASSERT(count <= PCCL_CANDIDATES_MAX);
    if (count)
        memcpy(link->candidates, candidates, count * sizeof *candidates);
    link->candidate_count = count;
    link->dial = true;
    enqueue(link);
}

void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming)
{
    struct pccl_comm_link *link = find(context, peer);
    if (!link)
        return;
    if (incoming) {
        link->close_incoming = true;
    } else {
        link->close_outgoing = true;
        link->dial = false;
    }
    enqueue(link);
}

void pccl_comm_links_close_all(struct pcclComm_t *comm)
{
    for (struct pccl_node *node = pccl_table_first(&comm->links); node; node = pccl_table_after(&comm->links, node)) {
        struct pccl_comm_link *link = PCCL_CONTAINER_OF(node, struct pccl_comm_link, by_peer);
        link->close_incoming = link->close_outgoing = true;
        link->dial = false;
        enqueue(link);
    }
}

/* ---- events ---- */

static void link_up(struct pccl_comm_link *link, bool incoming)
{
    pccl_comm_step(link->comm,
                   &(struct pccl_peer_event){.kind = PCCL_PEER_LINK_UP, .peer = link->peer, .incoming = incoming});
}

static void link_down(struct pccl_comm_link *link, bool incoming, enum pccl_link_end how, bool purposely)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_LINK_DOWN, .peer = link->peer, .incoming = incoming, .how = how, .purposely = purposely};
    pccl_comm_step(link->comm, &event);
}

/* The link's connection is over, by the other side's doing. */
static void lose(struct pccl_connection *connection, enum pccl_link_end how, bool purposely)
{
    struct pccl_comm_link *link = connection->item;
    bool incoming = connection == link->incoming;
    connection->item = NULL;
    pccl_connection_close(connection, 0);
    if (incoming)
        link->incoming = NULL;
    else
        link->outgoing = NULL;
    enqueue(link); /* the next settle lets go of it if nothing is left */
    link_down(link, incoming, how, purposely);
}

static void refuse(struct pccl_connection *connection, enum pccl_refusal code, const struct pccl_text *words)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_refused,
        .as.refused = {.version = PCCL_PROTOCOL_VERSION, .code = (uint16_t)code, .words = pccl_bytes_of_text(words)}};
    pccl_connection_send_message(connection, &msg);
    pccl_connection_close(connection, PCCL_COMMUNICATOR_LINGER_MS);
}

static void refuse_unknown(struct pccl_connection *connection, const struct pccl_frame *frame, struct pccl_text *reason)
{
    uint32_t version;
    enum pccl_refusal code = PCCL_REFUSAL_MALFORMED;
    if (frame->type == PCCL_MSG_link_hello && pccl_wire_peek_hello(frame->body, frame->length, &version) &&
        version != PCCL_PROTOCOL_VERSION) {
        code = PCCL_REFUSAL_VERSION;
        pccl_text_format(reason, "this peer speaks protocol version %u, the caller %u", (uint64_t)PCCL_PROTOCOL_VERSION,
                         (uint64_t)version);
    }
    refuse(connection, code, reason);
}

static void say_ok(struct pcclComm_t *comm, struct pccl_connection *connection)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok,
                           .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = comm->id}};
    pccl_connection_send_message(connection, &msg);
}

static void greet(struct pcclComm_t *comm, struct pccl_connection *connection, const struct pccl_msg_link_hello *hello)
{
    struct pccl_text words;
    enum pccl_refusal refusal = PCCL_REFUSAL_IDENTITY;
    pccl_text_format(&words, "this peer is not in a run");
    if (pccl_comm_judge_link(comm, hello, &refusal, &words) != PCCL_OK) {
        refuse(connection, refusal, &words);
        return;
    }
    say_ok(comm, connection);
    if (hello->kind == PCCL_LINK_PROBE) {
        pccl_connection_close(connection, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    struct pccl_comm_link *link = find_or_make(comm, &hello->from);
    if (!link) {
        pccl_connection_close(connection, 0);
        return;
    }
    if (link->incoming) { /* the caller knows better than we that the older one is dead */
        link->incoming->item = NULL;
        pccl_connection_close(link->incoming, 0);
    }
    link->incoming = connection;
    connection->item = link;
    pccl_listener_adopt(connection);
    pccl_socket_limit_silence(connection->socket, comm->params.link_silence_ms);
    if (!pccl_connection_flush(connection))
        pccl_connection_arm(connection);
    link_up(link, true);
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct pcclComm_t *comm = connection->owner;
    struct pccl_msg msg;
    struct pccl_text reason;
    bool understood =
        pccl_wire_decode(frame->type, frame->body, frame->length, comm->scratch, &msg, &reason) == PCCL_OK;
    if (connection->item) {
        lose(connection, PCCL_LINK_CLOSED, understood && msg.type == PCCL_MSG_link_bye);
    } else if (understood && msg.type == PCCL_MSG_link_hello) {
        greet(comm, connection, &msg.as.link_hello);
    } else {
        if (understood)
            pccl_text_format(&reason, "a link begins with link_hello, not %s", pccl_wire_name(msg.type));
        refuse_unknown(connection, frame, &reason);
    }
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *words)
{
    if (connection->item)
        lose(connection, how == PCCL_END_SILENT ? PCCL_LINK_SILENT : PCCL_LINK_CLOSED, false);
    else if (how == PCCL_END_GARBAGE)
        refuse(connection, PCCL_REFUSAL_MALFORMED, words);
    else
        pccl_connection_close(connection, 0);
}

void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection)
{
    (void)owner;
    connection->item = NULL; /* a stranger until its hello */
}

const struct pccl_connection_events pccl_comm_link_events = {
    .enter = pccl_comm_loop_enter, .leave = pccl_comm_loop_leave, .received = on_received, .ended = on_ended};

/* ---- dialling ---- */

static enum pccl_link_end judge_answer(void *context, const struct pccl_frame *frame, struct pccl_text *words)
{
    struct pccl_comm_link *link = context;
    struct pccl_msg msg;
    if (pccl_wire_decode(frame->type, frame->body, frame->length, link->comm->scratch, &msg, words) != PCCL_OK)
        return PCCL_LINK_OTHER;
    if (msg.type == PCCL_MSG_link_ok && pccl_id_equal(&msg.as.link_ok.peer, &link->peer))
        return 0;
    if (msg.type != PCCL_MSG_refused) {
        pccl_text_format(words, "another process answers there");
        return PCCL_LINK_OTHER;
    }
    pccl_text_clear(words);
    pccl_text_add_bytes(words, (const char *)msg.as.refused.words.data, msg.as.refused.words.length);
    /* Not the peer meant; any other refusal comes from the peer itself, so it is no evidence of its death. */
    return msg.as.refused.code == PCCL_REFUSAL_IDENTITY ? PCCL_LINK_OTHER : PCCL_LINK_UNREACHABLE;
}

static void on_dialled(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                       const struct pccl_text *words)
{
    struct pccl_comm_link *link = context;
    struct pcclComm_t *comm = link->comm;
    (void)words;
    link->dialer = NULL;
    if (connection) {
        connection->events = &pccl_comm_link_events;
        connection->owner = comm;
        connection->item = link;
        link->outgoing = connection;
        pccl_socket_limit_silence(connection->socket, comm->params.link_silence_ms);
        link_up(link, false);
    } else {
        enqueue(link);
        link_down(link, false, how, false);
    }
}

static void start_dialling(struct pccl_comm_link *link)
{
    struct pcclComm_t *comm = link->comm;
    if (!comm->peer)
        return;
    struct pccl_msg msg = {.type = PCCL_MSG_link_hello,
                           .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                             .version = PCCL_PROTOCOL_VERSION,
                                             .lineage = *pccl_peer_lineage(comm->peer),
                                             .from = comm->id,
                                             .to = link->peer,
                                             .kind = PCCL_LINK_RING}};
    uint8_t hello[512]; /* far more than it takes without an authentication */
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    struct pccl_dial dial = {.addresses = plausible,
                             .count = pccl_interfaces_plausible(link->candidates, link->candidate_count, plausible),
                             .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                             .timeout_ms = comm->params.connect_timeout_ms,
                             .hello = hello,
                             .hello_length = pccl_frame_size(&msg),
                             .judge = judge_answer,
                             .done = on_dialled,
                             .context = link,
                             .enter = pccl_comm_loop_enter,
                             .leave = pccl_comm_loop_leave,
                             .owner = comm};
    PCCL_ASSERT(dial.hello_length <= sizeof hello);
    pccl_frame_encode(&msg, 0, 0, hello);
    link->dialer = pccl_dialer_start(&comm->loop, pccl_heap(), &dial);
    if (!link->dialer)
        link_down(link, false, PCCL_LINK_UNREACHABLE, false);
}

/* ---- what the effects noted ---- */

static void say_bye(struct pccl_connection *connection)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_bye};
    pccl_connection_send_message(connection, &msg);
    connection->item = NULL;
    pccl_connection_close(connection, PCCL_COMMUNICATOR_LINGER_MS);
}

static void close_outgoing(struct pccl_comm_link *link)
{
    if (link->dialer)
        pccl_dialer_cancel(link->dialer);
    if (link->outgoing)
        say_bye(link->outgoing);
    link->dialer = NULL;
    link->outgoing = NULL;
}

static void settle(struct pccl_comm_link *link)
{
    if (link->close_outgoing || link->dial)
        close_outgoing(link);
    if (link->close_incoming && link->incoming) {
        say_bye(link->incoming);
        link->incoming = NULL;
    }
    bool dial = link->dial;
    link->dial = link->close_outgoing = link->close_incoming = false;
    if (dial)
        start_dialling(link);
}

void pccl_comm_links_settle(struct pcclComm_t *comm)
{
    while (comm->queued_links) {
        struct pccl_comm_link *link = comm->queued_links;
        comm->queued_links = link->next_queued;
        link->queued = false;
        settle(link);
        release_if_unused(link);
    }
}
