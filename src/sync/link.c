/*
 * One connection: its channel and its place in the synchronizer. Its role decides what is sent and
 * received.
 */
#include "sync/internal.h"

#include "net/heap.h"
#include "net/socket.h"

static const struct pccl_channel_events channel_events;

static struct pccl_sync_link *link_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_sync_link, channel);
}

/* ---- life ---- */

static void on_released(struct pccl_channel *channel)
{
    struct pccl_sync_link *link = link_of(channel);
    link->role->release(link);
    pccl_release(pccl_heap(), link, link->bytes);
}

void pccl_sync_link_free(struct pccl_sync_link *link)
{
    pccl_channel_fini(&link->channel);
    on_released(&link->channel);
}

void *pccl_sync_link_allocate(struct pccl_synchronizer *synchronizer, const struct pccl_sync_role *role, size_t bytes,
                              const struct pccl_id *peer, uv_os_sock_t socket)
{
    struct pccl_sync_link *link = pccl_allocate(pccl_heap(), bytes);
    if (!link)
        return NULL;
    link->synchronizer = synchronizer;
    link->role = role;
    link->bytes = bytes;
    link->peer = *peer;
    pccl_channel_init(&link->channel, pccl_heap(), socket, &channel_events);
    link->channel.sink = synchronizer->sink;
    link->channel.sink_bytes = PCCL_SYNC_SINK_BYTES;
    return link;
}

bool pccl_sync_link_open(struct pccl_sync_link *link)
{
    struct pccl_synchronizer *synchronizer = link->synchronizer;
    if (!pccl_channel_open(&link->channel, &synchronizer->reactor.loop))
        return false;
    pccl_socket_limit_silence(link->channel.socket, synchronizer->config.silence_ms);
    pccl_list_append(&synchronizer->links, &link->in_synchronizer);
    return true;
}

void pccl_sync_link_close(struct pccl_sync_link *link)
{
    pccl_list_remove(&link->in_synchronizer);
    pccl_channel_close(&link->channel);
}

/* ---- waiting ---- */

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_sync_link *link = link_of(channel);
    (void)pccl_channel_begin(channel, ready); /* the channel knows whether there is input */
    link->role->visit(link);
}

static void on_late(struct pccl_channel *channel)
{
    struct pccl_sync_link *link = link_of(channel);
    pccl_text_format(&link->reason, "nothing for %s", pccl_duration_str(pccl_now_us() - channel->moved_us));
    link->role->silent(link);
}

static const struct pccl_channel_events channel_events = {.visit = on_visit, .late = on_late, .released = on_released};

void pccl_sync_link_watch(struct pccl_sync_link *link, bool input, bool owes)
{
    if (link->channel.state == PCCL_CHANNEL_CLOSED)
        return;
    pccl_channel_watch(&link->channel, input ? UV_READABLE : 0);
    pccl_channel_owed(&link->channel, owes ? link->synchronizer->config.silence_ms : 0);
}

/* ---- in and out ---- */

static enum pccl_channel_io explain(struct pccl_sync_link *link, enum pccl_channel_io io)
{
    if (io == PCCL_CHANNEL_ENDED)
        pccl_text_format(&link->reason, "%s", pccl_channel_why(&link->channel));
    return io;
}

enum pccl_channel_io pccl_sync_link_read(struct pccl_sync_link *link, size_t *budget)
{
    return explain(link, pccl_channel_read(&link->channel, budget));
}

enum pccl_channel_io pccl_sync_link_message(struct pccl_sync_link *link, struct pccl_msg *msg)
{
    return pccl_channel_message(&link->channel, link->synchronizer->scratch, msg, &link->reason);
}

enum pccl_channel_io pccl_sync_link_push(struct pccl_sync_link *link)
{
    return explain(link, pccl_channel_push(&link->channel));
}

bool pccl_sync_link_put(struct pccl_sync_link *link, const struct pccl_msg *msg)
{
    bool put = pccl_channel_put_message(&link->channel, msg);
    (void)explain(link, put ? PCCL_CHANNEL_MOVED : PCCL_CHANNEL_ENDED);
    return put;
}
