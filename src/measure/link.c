/*
 * One connection: picks messages out of the input and counts filler. A flood is the only message
 * that is not taken as a whole: its filler is neither kept nor its checksum verified. It counts as
 * it arrives, which on a slow path is long before the frame is complete.
 */
#include "measure/internal.h"

#include "core/bytes.h"
#include "net/heap.h"

static const struct pccl_channel_events channel_events;
static uint8_t *const nobody = NULL; /* the target of filler: nobody wants it */

static struct pccl_measure_link *link_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_measure_link, channel);
}

/* ---- life ---- */

static void on_released(struct pccl_channel *channel)
{
    struct pccl_measure_link *link = link_of(channel);
    pccl_release(pccl_heap(), link, link->bytes);
}

void pccl_measure_link_free(struct pccl_measure_link *link)
{
    pccl_channel_fini(&link->channel);
    on_released(&link->channel);
}

void *pccl_measure_link_allocate(struct pccl_measurer *measurer, const struct pccl_measure_role *role, size_t bytes,
                                 const struct pccl_id *peer, uv_os_sock_t socket)
{
    struct pccl_measure_link *link = pccl_allocate(pccl_heap(), bytes);
    if (!link)
        return NULL;
    link->measurer = measurer;
    link->role = role;
    link->bytes = bytes;
    link->peer = *peer;
    pccl_channel_init(&link->channel, pccl_heap(), socket, &channel_events);
    link->channel.out_max = PCCL_MEASURE_OUT_BYTES;
    link->channel.sink = measurer->sink;
    link->channel.sink_bytes = PCCL_MEASURE_SINK_BYTES;
    return link;
}

bool pccl_measure_link_open(struct pccl_measure_link *link)
{
    struct pccl_measurer *measurer = link->measurer;
    if (!pccl_channel_open(&link->channel, &measurer->reactor.loop)) {
        pccl_measure_link_free(link);
        return false;
    }
    pccl_list_append(&measurer->links, &link->in_measurer);
    pccl_channel_watch(&link->channel, UV_READABLE);
    return true;
}

void pccl_measure_link_close(struct pccl_measure_link *link)
{
    pccl_list_remove(&link->in_measurer);
    if (link->role->loads)
        pccl_channel_abort(&link->channel);
    else
        pccl_channel_close(&link->channel);
}

static void end(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *reason)
{
    pccl_measure_link_close(link);
    link->role->ended(link, how, reason);
}

/* ---- in ---- */

static uint32_t collected(const struct pccl_frame_reader *reader) { return reader->end - reader->start; }

static const uint8_t *header(const struct pccl_frame_reader *reader) { return reader->buffer + reader->start; }

/* Whether the reader holds the head of a flood, and this role accepts floods. */
static bool is_flood(const struct pccl_measure_link *link)
{
    const struct pccl_frame_reader *reader = &link->channel.reader;
    return link->role->takes_filler && collected(reader) >= PCCL_FRAME_HEADER_BYTES &&
           pccl_get(header(reader) + 4, 2) == PCCL_MSG_flood;
}

/* MOVED: the filler comes next. */
static enum pccl_channel_io take_flood(struct pccl_measure_link *link, struct pccl_text *reason)
{
    struct pccl_frame_reader *reader = &link->channel.reader;
    if (collected(reader) < PCCL_MEASURE_FLOOD_HEAD)
        return PCCL_CHANNEL_WAITS;
    uint64_t body = pccl_get(header(reader), 4), filler = pccl_get(header(reader) + PCCL_FRAME_HEADER_BYTES, 4);
    if (filler > PCCL_FLOOD_BYTES_MAX || body != filler + 4 || pccl_get(header(reader) + 6, 2) != 0 ||
        pccl_get(header(reader) + 28, 4) != 0) {
        pccl_text_format(reason, "a flood of %" PRIu64 " bytes in a frame of %" PRIu64, filler, body);
        return PCCL_CHANNEL_ENDED;
    }
    reader->start += PCCL_MEASURE_FLOOD_HEAD;
    pccl_channel_expect(&link->channel, &nobody, (uint32_t)filler);
    return PCCL_CHANNEL_MOVED;
}

static enum pccl_channel_io take_message(struct pccl_measure_link *link, struct pccl_text *reason)
{
    struct pccl_msg msg;
    enum pccl_channel_io io = pccl_channel_message(&link->channel, link->measurer->scratch, &msg, reason);
    return io == PCCL_CHANNEL_MOVED && !link->role->message(link, &msg, reason) ? PCCL_CHANNEL_ENDED : io;
}

/* Takes what the reader holds. ENDED, with a reason: the connection is to be closed. */
static enum pccl_channel_io digest(struct pccl_measure_link *link, struct pccl_text *reason)
{
    enum pccl_channel_io io = PCCL_CHANNEL_MOVED;
    while (io == PCCL_CHANNEL_MOVED) {
        link->filler += pccl_channel_move(&link->channel);
        if (link->channel.received < link->channel.expected)
            return PCCL_CHANNEL_WAITS;
        io = is_flood(link) ? take_flood(link, reason) : take_message(link, reason);
    }
    return io;
}

/* false: the connection has ended. */
static bool listen_to(struct pccl_measure_link *link)
{
    struct pccl_channel *channel = &link->channel;
    struct pccl_text reason;
    for (size_t budget = PCCL_MEASURE_VISIT_BYTES; budget > 0 && !channel->dry;) {
        uint32_t before = channel->received;
        enum pccl_channel_io io = pccl_channel_read(channel, &budget);
        if (io == PCCL_CHANNEL_ENDED) {
            pccl_text_format(&reason, "%s", pccl_channel_why(channel));
            end(link, pccl_channel_evidence(channel), &reason);
            return false;
        }
        link->filler += channel->received - before;
        if (io == PCCL_CHANNEL_MOVED && digest(link, &reason) == PCCL_CHANNEL_ENDED) {
            end(link, 0, &reason);
            return false;
        }
    }
    return true;
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_measure_link *link = link_of(channel);
    struct pccl_measurer *measurer = link->measurer;
    const struct pccl_measure_role *role = link->role;
    if (!(pccl_channel_begin(channel, ready) & ~UV_WRITABLE) || listen_to(link))
        pccl_measure_link_start(link);
    if (role->visited)
        role->visited(measurer);
}

static const struct pccl_channel_events channel_events = {.visit = on_visit, .released = on_released};

/* ---- out ---- */

void pccl_measure_link_start(struct pccl_measure_link *link)
{
    if (!link->channel.failed)
        link->role->speak(link);
    pccl_channel_watch(&link->channel, UV_READABLE);
}
