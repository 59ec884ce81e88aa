/*
 * Answers on a connection that another peer dialed to test its path to this one. A flood is the only message that is
 * not received as a whole: its filler is discarded and its checksum is not verified. Filler is counted as it arrives,
 * because on a slow path the frame is complete only much later.
 */
#include "measure/internal.h"

#include "core/bytes.h"

struct answerer {
    struct pccl_worker_link link;
    uint64_t filler;                /* bytes of complete floods */
    uint64_t reported, reported_us; /* bytes and time of the last flood_seen */
};

static uint8_t *const discarded = NULL; /* destination that makes the channel discard the filler */

static struct answerer *answerer_of(struct pccl_worker_link *link)
{
    return PCCL_CONTAINER_OF(link, struct answerer, link);
}

static uint64_t seen(const struct answerer *answerer) { return answerer->filler + answerer->link.channel.received; }

/* ---- receiving ---- */

static uint32_t collected(const struct pccl_frame_reader *reader) { return reader->end - reader->start; }

static const uint8_t *header(const struct pccl_frame_reader *reader) { return reader->buffer + reader->start; }

/* Returns true if the reader contains the head of a flood. */
static bool is_flood(const struct pccl_frame_reader *reader)
{
    return collected(reader) >= PCCL_FRAME_HEADER_BYTES && pccl_get(header(reader) + 4, 2) == PCCL_MSG_flood;
}

/* Handles the head of a flood. Returns MOVED if the filler follows. */
static enum pccl_channel_io take_flood(struct pccl_worker_link *link)
{
    struct pccl_frame_reader *reader = &link->channel.reader;
    if (collected(reader) < PCCL_MEASURE_FLOOD_HEAD)
        return PCCL_CHANNEL_WAITS;
    uint64_t body = pccl_get(header(reader), 4), filler = pccl_get(header(reader) + PCCL_FRAME_HEADER_BYTES, 4);
    if (filler > PCCL_FLOOD_BYTES_MAX || body != filler + 4 || pccl_get(header(reader) + 6, 2) != 0 ||
        pccl_get(header(reader) + 28, 4) != 0) {
        pccl_text_format(&link->reason, "a flood of %" PRIu64 " bytes in a frame of %" PRIu64 " bytes", filler, body);
        return PCCL_CHANNEL_ENDED;
    }
    reader->start += PCCL_MEASURE_FLOOD_HEAD;
    pccl_channel_expect(&link->channel, &discarded, (uint32_t)filler);
    return PCCL_CHANNEL_MOVED;
}

static bool on_message(struct pccl_worker_link *link, const struct pccl_msg *msg)
{
    struct pccl_text *reason = &link->reason;
    if (msg->type == PCCL_MSG_link_bye) {
        pccl_text_format(reason, "it closed the connection");
        return false;
    }
    if (msg->type != PCCL_MSG_echo || msg->as.echo.answer) {
        pccl_text_format(reason, "'%s' is not allowed here", pccl_wire_name(msg->type));
        return false;
    }
    struct pccl_msg answer = {.type = PCCL_MSG_echo, .as.echo = {.answer = 1, .stamp = msg->as.echo.stamp}};
    if (pccl_channel_put_message(&link->channel, &answer))
        return true;
    pccl_text_format(reason, "it requests more than it may receive");
    return false;
}

static enum pccl_channel_io take(struct pccl_worker_link *link)
{
    answerer_of(link)->filler += link->channel.expected;
    pccl_channel_expect(&link->channel, &discarded, 0);
    return is_flood(&link->channel.reader) ? take_flood(link) : pccl_worker_link_take(link);
}

/* ---- sending ---- */

/*
 * Reports the received bytes. Sends at most one report per visit, and none while the last one is unsent, so that
 * reports do not accumulate.
 */
static void report_seen(struct answerer *answerer)
{
    struct pccl_channel *channel = &answerer->link.channel;
    uint64_t bytes = seen(answerer), fresh = bytes - answerer->reported, now_us = pccl_now_us();
    if (channel->out_start < channel->out_end || fresh == 0 ||
        (fresh < PCCL_MEASURE_SEEN_BYTES && now_us - answerer->reported_us < PCCL_MEASURE_SEEN_US))
        return;
    struct pccl_msg msg = {.type = PCCL_MSG_flood_seen, .as.flood_seen = {.bytes = bytes}};
    if (!pccl_channel_put_message(channel, &msg))
        return;
    answerer->reported = bytes;
    answerer->reported_us = now_us;
}

static void end(struct pccl_worker_link *link)
{
    pccl_log_line(&link->worker->config.log, PCCL_LOG_DEBUG,
                  "measure: a connection from peer %s closed after %" PRIu64 " bytes: %s", pccl_id_str(&link->peer),
                  seen(answerer_of(link)), pccl_worker_link_why(link)->bytes);
    pccl_worker_link_close(link);
}

static void visit(struct pccl_worker_link *link)
{
    size_t budget = PCCL_MEASURE_VISIT_BYTES;
    if (pccl_worker_link_receive(link, &budget) == PCCL_CHANNEL_ENDED) {
        end(link);
        return;
    }
    report_seen(answerer_of(link));
    (void)pccl_channel_push(&link->channel); /* the next visit sends the rest */
    pccl_worker_link_watch(link, true, false);
}

const struct pccl_worker_role pccl_measure_answering = {.bytes = sizeof(struct answerer),
                                                        .out_max = PCCL_MEASURE_OUT_BYTES,
                                                        .visit = visit,
                                                        .message = on_message,
                                                        .take = take,
                                                        .end = end};
