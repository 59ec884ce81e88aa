/*
 * The donor's side: answers a requester's wants in order, with the bytes of chunks directly from the caller's memory.
 * Reads a few wants ahead, so that a device is read while the previous answer is sent. Further wants stay in the socket
 * buffer, so a requester that sends without reading blocks only its own connection.
 */
#include "state/serve.h"
#include "sync/internal.h"

struct want {
    struct pccl_msg_state_want msg;
    /* reads the chunk into the buffer with the want's index; NULL if it is in host memory */
    struct pccl_device_copier *copier;
};

struct server {
    struct pccl_worker_link link;
    struct pccl_sync_copiers copiers;
    struct want wants[PCCL_SYNC_AHEAD];
    uint32_t first, count;
    bool sending; /* true while the answer to the first want is being sent */
    const uint8_t *payload;
    uint32_t payload_length;
};

static struct server *server_of(struct pccl_worker_link *link) { return PCCL_CONTAINER_OF(link, struct server, link); }

static struct pccl_synchronizer *synchronizer_of(const struct server *server)
{
    return pccl_sync_of(server->link.worker);
}

static void end(struct pccl_worker_link *link)
{
    enum pccl_log_level level = server_of(link)->count ? PCCL_LOG_INFO : PCCL_LOG_DEBUG;
    pccl_log_line(&link->worker->config.log, level, "state: no longer serving peer %s: %s", pccl_id_str(&link->peer),
                  pccl_worker_link_why(link)->bytes);
    pccl_worker_link_close(link);
}

/* ---- wants ---- */

/* Composes the answer. Returns false with a reason if the connection must be closed. */
static bool find_answer(struct server *server, const struct pccl_msg_state_want *want, struct pccl_msg *answer)
{
    struct pccl_synchronizer *synchronizer = synchronizer_of(server);
    return pccl_serve(&synchronizer->state, synchronizer->config.round, want, synchronizer->roots, answer,
                      &server->link.reason) == PCCL_OK;
}

/* Begins to read the chunk if it is on a device. Returns false with a reason on failure. */
static bool read_ahead(struct server *server, uint32_t number)
{
    struct want *want = &server->wants[number];
    const struct pccl_synchronizer *synchronizer = synchronizer_of(server);
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

static bool take_want(struct pccl_worker_link *link, const struct pccl_msg *msg)
{
    struct server *server = server_of(link);
    struct pccl_text *reason = &link->reason;
    uint32_t number = (server->first + server->count) % PCCL_SYNC_AHEAD;
    if (msg->type != PCCL_MSG_state_want) {
        pccl_text_format(reason, "it sent %s instead of state_want", pccl_wire_name(msg->type));
        return false;
    }
    if (!pccl_sync_is_servable(synchronizer_of(server))) {
        pccl_text_format(reason, "the state is incomplete on this peer");
        return false;
    }
    server->wants[number] = (struct want){.msg = msg->as.state_want};
    if (!read_ahead(server, number))
        return false;
    server->count++;
    link->pauses = server->count == PCCL_SYNC_AHEAD;
    return true;
}

/* ---- answers ---- */

static bool begin_answer(struct server *server)
{
    struct pccl_worker_link *link = &server->link;
    const struct want *want = &server->wants[server->first];
    struct pccl_msg answer;
    if (!find_answer(server, &want->msg, &answer) || !pccl_channel_put_message(&link->channel, &answer))
        return false;
    server->payload_length = answer.type == PCCL_MSG_state_data ? answer.as.state_data.length : 0;
    server->sending = true;
    if (!server->payload_length)
        return true;
    server->payload =
        want->copier ? pccl_device_copier_buffer(want->copier, server->first)
                     : pccl_sync_chunk(&synchronizer_of(server)->config.tensors[want->msg.tensor], want->msg.first);
    pccl_channel_put_payload(&link->channel, &server->payload, server->payload_length);
    return !want->copier || pccl_device_wait(want->copier, server->first, &link->reason) == PCCL_OK;
}

static void end_answer(struct server *server)
{
    synchronizer_of(server)->sent += server->payload_length;
    server->sending = false;
    server->first = (server->first + 1) % PCCL_SYNC_AHEAD;
    server->count--;
    server->link.pauses = false;
}

static enum pccl_channel_io send_answers(struct server *server, size_t *budget)
{
    while (server->count && *budget && !server->link.channel.blocked) {
        if (!server->sending && !begin_answer(server))
            return PCCL_CHANNEL_ENDED;
        enum pccl_channel_io io = pccl_channel_push(&server->link.channel);
        if (io != PCCL_CHANNEL_MOVED)
            return io;
        *budget -= (size_t)pccl_min_u64(*budget, PCCL_FRAME_HEADER_BYTES + server->payload_length);
        end_answer(server);
    }
    return PCCL_CHANNEL_MOVED;
}

/* ---- visits ---- */

/* Reads wants and sends answers until neither is possible or the budget is used up. */
static enum pccl_channel_io serve_some(struct server *server)
{
    const struct pccl_channel *channel = &server->link.channel;
    size_t budget = PCCL_SYNC_VISIT_BYTES;
    while (budget) {
        enum pccl_channel_io taken = pccl_worker_link_receive(&server->link, &budget);
        if (taken == PCCL_CHANNEL_ENDED || send_answers(server, &budget) == PCCL_CHANNEL_ENDED)
            return PCCL_CHANNEL_ENDED;
        if (taken == PCCL_CHANNEL_MOVED ? channel->blocked : channel->dry)
            return PCCL_CHANNEL_WAITS;
    }
    return PCCL_CHANNEL_MOVED;
}

static void visit(struct pccl_worker_link *link)
{
    struct server *server = server_of(link);
    if (!synchronizer_of(server)->planned)
        return;
    enum pccl_channel_io io = serve_some(server);
    if (io == PCCL_CHANNEL_ENDED) {
        end(link);
        return;
    }
    bool awaits = link->channel.blocked;
    if (server->count > 0 ||
        io == PCCL_CHANNEL_MOVED) /* continues when there is room and other links have been visited */
        pccl_channel_yield(&link->channel);
    pccl_worker_link_watch(link, server->count < PCCL_SYNC_AHEAD, awaits);
}

static void release(struct pccl_worker_link *link) { pccl_sync_copiers_close(&server_of(link)->copiers); }

const struct pccl_worker_role pccl_sync_serving = {
    .bytes = sizeof(struct server), .visit = visit, .message = take_want, .end = end, .release = release};

/* ---- all servers ---- */

/* Calls `act` for every server. `act` may end only its own link. */
static void for_each(struct pccl_synchronizer *synchronizer, void (*act)(struct pccl_worker_link *link))
{
    struct pccl_worker *worker = &synchronizer->worker;
    for (struct pccl_worker_link *link = pccl_worker_link_in(worker, worker->links.previous), *older; link;
         link = older) {
        older = pccl_worker_link_in(worker, link->in_links.previous);
        if (link->role == &pccl_sync_serving)
            act(link);
    }
}

void pccl_sync_servers_advance(struct pccl_synchronizer *synchronizer) { for_each(synchronizer, visit); }

static void end_unserved(struct pccl_worker_link *link)
{
    pccl_text_format(&link->reason, "the state is about to change");
    end(link);
}

void pccl_sync_servers_close(struct pccl_synchronizer *synchronizer) { for_each(synchronizer, end_unserved); }
