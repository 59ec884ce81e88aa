/*
 * The donor's side: answers a requester's wants in order, with the bytes of chunks straight from
 * the caller's memory. A few wants are taken ahead, so that a device is read while the previous
 * answer is sent. The others wait in the socket, so a requester that asks without reading costs
 * only its connection.
 */
#include "state/serve.h"
#include "sync/internal.h"

struct want {
    struct pccl_msg_state_want msg;
    struct pccl_device_copier *copier; /* reads the chunk into its buffer of the want's number; NULL: host memory */
};

struct server {
    struct pccl_sync_link link;
    struct pccl_sync_copiers copiers;
    struct want wants[PCCL_SYNC_AHEAD];
    uint32_t first, count;
    bool sending; /* the answer to the first want */
    const uint8_t *payload;
    uint32_t payload_length;
};

static struct server *server_of(struct pccl_sync_link *link) { return PCCL_CONTAINER_OF(link, struct server, link); }

static void end(struct server *server)
{
    const struct pccl_sync_link *link = &server->link;
    enum pccl_log_level level = server->count ? PCCL_LOG_INFO : PCCL_LOG_DEBUG;
    pccl_log_line(&link->synchronizer->events.log, level, "state: peer %s is no longer served: %s",
                  pccl_id_str(&link->peer), link->reason.bytes);
    pccl_sync_link_close(&server->link);
}

/* ---- wants ---- */

/* Composes the answer. false, with a reason: the connection is to be closed. */
static bool find_answer(struct server *server, const struct pccl_msg_state_want *want, struct pccl_msg *answer)
{
    struct pccl_synchronizer *synchronizer = server->link.synchronizer;
    return pccl_serve(&synchronizer->state, synchronizer->round, want, synchronizer->roots, answer,
                      &server->link.reason) == PCCL_OK;
}

/* Begins to read the chunk if it is on a device. */
static bool read_ahead(struct server *server, uint32_t number)
{
    struct want *want = &server->wants[number];
    const struct pccl_synchronizer *synchronizer = server->link.synchronizer;
    struct pccl_text *reason = &server->link.reason;
    struct pccl_msg answer;
    if (want->msg.what != PCCL_WANT_DATA)
        return true;
    if (!find_answer(server, &want->msg, &answer))
        return false;
    const struct pccl_sync_tensor *tensor = &synchronizer->config.tensors[want->msg.tensor];
    if (!tensor->device)
        return true;
    return pccl_sync_copiers_find(&server->copiers, tensor, &want->copier, reason) == PCCL_OK &&
           pccl_device_read(want->copier, number, pccl_sync_chunk(tensor, want->msg.first), answer.as.state_data.length,
                            reason) == PCCL_OK;
}

static bool take_want(struct server *server, const struct pccl_msg *msg)
{
    struct pccl_text *reason = &server->link.reason;
    uint32_t number = (server->first + server->count) % PCCL_SYNC_AHEAD;
    if (msg->type != PCCL_MSG_state_want) {
        pccl_text_format(reason, "it sent %s instead of state_want", pccl_wire_name(msg->type));
        return false;
    }
    if (!pccl_sync_is_servable(server->link.synchronizer)) {
        pccl_text_format(reason, "the state is not complete here");
        return false;
    }
    server->wants[number] = (struct want){.msg = msg->as.state_want};
    if (!read_ahead(server, number))
        return false;
    server->count++;
    return true;
}

static enum pccl_channel_io take_wants(struct server *server)
{
    struct pccl_msg msg;
    enum pccl_channel_io io = PCCL_CHANNEL_MOVED;
    while (server->count < PCCL_SYNC_AHEAD && io == PCCL_CHANNEL_MOVED) {
        io = pccl_sync_link_message(&server->link, &msg);
        if (io == PCCL_CHANNEL_MOVED && !take_want(server, &msg))
            return PCCL_CHANNEL_ENDED;
    }
    return io;
}

/* ---- answers ---- */

static bool begin_answer(struct server *server)
{
    struct pccl_sync_link *link = &server->link;
    const struct want *want = &server->wants[server->first];
    struct pccl_msg answer;
    if (!find_answer(server, &want->msg, &answer) || !pccl_sync_link_put(link, &answer))
        return false;
    server->payload_length = answer.type == PCCL_MSG_state_data ? answer.as.state_data.length : 0;
    server->sending = true;
    if (!server->payload_length)
        return true;
    server->payload = want->copier
                          ? pccl_device_copier_buffer(want->copier, server->first)
                          : pccl_sync_chunk(&link->synchronizer->config.tensors[want->msg.tensor], want->msg.first);
    pccl_channel_put_payload(&link->channel, &server->payload, server->payload_length);
    return !want->copier || pccl_device_wait(want->copier, server->first, &link->reason) == PCCL_OK;
}

static void end_answer(struct server *server)
{
    server->link.synchronizer->sent += server->payload_length;
    server->sending = false;
    server->first = (server->first + 1) % PCCL_SYNC_AHEAD;
    server->count--;
}

static enum pccl_channel_io send_answers(struct server *server, size_t *budget)
{
    while (server->count && *budget && !server->link.channel.blocked) {
        if (!server->sending && !begin_answer(server))
            return PCCL_CHANNEL_ENDED;
        enum pccl_channel_io io = pccl_sync_link_push(&server->link);
        if (io != PCCL_CHANNEL_MOVED)
            return io;
        *budget -= (size_t)pccl_min_u64(*budget, PCCL_FRAME_HEADER_BYTES + server->payload_length);
        end_answer(server);
    }
    return PCCL_CHANNEL_MOVED;
}

/* ---- visits ---- */

/* Takes wants, answers and reads, until none of these is possible or the budget is spent. */
static enum pccl_channel_io serve_some(struct server *server)
{
    size_t budget = PCCL_SYNC_VISIT_BYTES;
    while (budget) {
        enum pccl_channel_io io = take_wants(server);
        bool all_taken = io == PCCL_CHANNEL_WAITS;
        if (io != PCCL_CHANNEL_ENDED)
            io = send_answers(server, &budget);
        if (io == PCCL_CHANNEL_ENDED)
            return io;
        if (!all_taken && !server->link.channel.blocked)
            continue;
        if (!all_taken || server->link.channel.dry)
            return PCCL_CHANNEL_WAITS;
        io = pccl_sync_link_read(&server->link, &budget);
        if (io != PCCL_CHANNEL_MOVED)
            return io;
    }
    return PCCL_CHANNEL_MOVED;
}

static void visit(struct pccl_sync_link *link)
{
    struct server *server = server_of(link);
    if (!link->synchronizer->planned)
        return;
    enum pccl_channel_io io = serve_some(server);
    if (io == PCCL_CHANNEL_ENDED) {
        end(server);
        return;
    }
    bool owes = link->channel.blocked;
    if (server->count > 0 ||
        io == PCCL_CHANNEL_MOVED) /* continues when there is room and other links have had their turn */
        pccl_channel_yield(&link->channel);
    pccl_sync_link_watch(link, server->count < PCCL_SYNC_AHEAD, owes);
}

static void silent(struct pccl_sync_link *link) { end(server_of(link)); }

static void release(struct pccl_sync_link *link) { pccl_sync_copiers_close(&server_of(link)->copiers); }

static const struct pccl_sync_role serving = {.visit = visit, .silent = silent, .release = release};

/* ---- life ---- */

struct pccl_sync_link *pccl_sync_server_create(struct pccl_synchronizer *synchronizer, const struct pccl_id *peer,
                                               uv_os_sock_t socket)
{
    struct server *server = pccl_sync_link_allocate(synchronizer, &serving, sizeof *server, peer, socket);
    return server ? &server->link : NULL;
}

/* Bounds the connections of a requester that dials again and again. */
static void make_room(struct pccl_synchronizer *synchronizer, const struct pccl_id *peer)
{
    uint32_t count = 0;
    struct pccl_sync_link *oldest = NULL;
    for (struct pccl_list_node *at = synchronizer->links.previous; at != &synchronizer->links; at = at->previous) {
        struct pccl_sync_link *link = pccl_sync_link_in(at);
        if (link->role == &serving && pccl_id_equal(&link->peer, peer)) {
            oldest = link;
            count++;
        }
    }
    if (count < PCCL_SYNC_LINKS_PER_PEER_MAX)
        return;
    pccl_text_format(&oldest->reason, "it has made room for a newer connection");
    end(server_of(oldest));
}

void pccl_sync_server_open(struct pccl_sync_link *link)
{
    make_room(link->synchronizer, &link->peer);
    if (!pccl_sync_link_open(link))
        pccl_sync_link_free(link);
}

void pccl_sync_servers_advance(struct pccl_synchronizer *synchronizer)
{
    for (struct pccl_list_node *at = synchronizer->links.previous, *older; at != &synchronizer->links; at = older) {
        struct pccl_sync_link *link = pccl_sync_link_in(at);
        older = at->previous; /* a visit ends no link but its own */
        if (link->role == &serving)
            visit(link);
    }
}

void pccl_sync_servers_close(struct pccl_synchronizer *synchronizer)
{
    for (struct pccl_list_node *at = synchronizer->links.previous, *older; at != &synchronizer->links; at = older) {
        struct pccl_sync_link *link = pccl_sync_link_in(at);
        older = at->previous;
        if (link->role != &serving)
            continue;
        pccl_text_format(&link->reason, "the state is about to change");
        end(server_of(link));
    }
}
