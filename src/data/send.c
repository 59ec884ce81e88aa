/* The sending half of a stream. */
#include "data/internal.h"

#include "net/clock.h"
#include "net/path.h"

enum { MEASURE_BYTES = 1 << 20 }; /* less does not show the path's rate */

void pccl_stream_watch(struct pccl_stream *stream)
{
    if (stream->channel.state == PCCL_CHANNEL_OPEN)
        pccl_channel_watch(&stream->channel, stream->waiting ? UV_DISCONNECT : UV_READABLE);
}

bool pccl_stream_is_idle(const struct pccl_stream *stream)
{
    const struct pccl_channel *channel = &stream->channel;
    return channel->state == PCCL_CHANNEL_OPEN && !stream->sending && !channel->blocked && !channel->failed;
}

void pccl_stream_sent(struct pccl_stream *stream)
{
    stream->sending = false;
    if (stream->here) {
        stream->took_us += pccl_now_us() - stream->began_us;
        atomic_store_explicit(&stream->handed_over, stream->begun, memory_order_relaxed);
    }
    if (!stream->departs)
        return;
    stream->departs = false;
    pccl_exchange_sent(stream->engine->exchange, &stream->departure);
}

/* Sends as much of the message as the kernel takes. */
static void push(struct pccl_stream *stream)
{
    if (pccl_channel_push(&stream->channel) == PCCL_CHANNEL_MOVED)
        pccl_stream_sent(stream);
    else
        pccl_stream_watch(stream); /* waits for room; or nothing can be sent any more, and reading will tell why */
}

size_t pccl_stream_send(struct pccl_stream *stream)
{
    struct pccl_channel *channel = &stream->channel;
    const struct pccl_departure *departure = &stream->departure;
    stream->departs = stream->sending = true;
    (void)pccl_channel_put_message(channel, &departure->msg); /* memory is reserved */
    PCCL_ASSERT(channel->out_end <= PCCL_STREAM_FRAME_MAX);
    size_t bytes = channel->out_end + (size_t)departure->length;
    stream->begun += bytes;
    if (stream->here)
        stream->began_us = pccl_now_us();
    pccl_channel_put_payload(channel, &departure->payload, departure->length);
    push(stream);
    return bytes;
}

void pccl_stream_yield(struct pccl_stream *stream)
{
    pccl_channel_yield(&stream->channel);
    pccl_stream_watch(stream);
}

/*
 * Of a path on this host nobody knows anything but how long it took to hand over what was sent. Its round trip is
 * unknown.
 */
static bool measure_here(const struct pccl_stream *stream, struct pccl_path *path)
{
    if (stream->sending)
        return false;
    *path = (struct pccl_path){.rate = (stream->begun - stream->measured) * 1000000 / pccl_max_u64(stream->took_us, 1)};
    return true;
}

/*
 * A lower rate is adopted gradually, because one look may come at a bad moment, and not at all if
 * we sent too little, or if other links used the same line.
 */
void pccl_stream_measure(struct pccl_stream *stream, bool shared)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_path path;
    if (stream->begun - stream->measured < MEASURE_BYTES ||
        !(stream->here ? measure_here(stream, &path) : pccl_path_measure(stream->channel.socket, &path)))
        return;
    stream->measured = stream->begun;
    stream->took_us = 0;
    uv_mutex_lock(&engine->lock);
    uint64_t kept = path.limited || shared ? stream->rate : stream->rate - stream->rate / 8;
    stream->rate = pccl_max_u64(kept, path.rate);
    stream->rtt_us = path.rtt_us;
    stream->shared = shared;
    stream->is_news = true;
    uv_mutex_unlock(&engine->lock);
}

void pccl_stream_go_on(struct pccl_stream *stream)
{
    if (stream->sending)
        push(stream);
    if (stream->bundle && pccl_stream_is_idle(stream))
        pccl_bundle_mark_writable(stream->engine, stream->bundle);
}
