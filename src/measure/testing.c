/*
 * Tests one path at a time. Dials the first connection and measures the round trip of the idle path, which decides the
 * number of further connections. Then loads all of them, and passes the bytes that the other side reports as received
 * to the meter, until it has a figure.
 *
 * Events only change the state; `advance` acts on it at the end of every pass of the loop.
 */
#include "measure/internal.h"

#include "net/heap.h"
#include "os/interfaces.h"
#include "os/path.h"
#include "os/socket.h"

#include <string.h>

struct tester {
    struct pccl_worker_link link;
    uint64_t stamp;       /* stamp of the unanswered echo; 0 if all are answered */
    const uint8_t *flood; /* frame of the measurer */
    uint64_t floods;      /* number of floods whose transmission has begun */
    uint64_t seen;        /* number of bytes in the last report of the other side */
};

static void advance(struct pccl_measurer *measurer);

static struct tester *tester_of(struct pccl_worker_link *link) { return PCCL_CONTAINER_OF(link, struct tester, link); }

static struct pccl_measure_test *test_of(const struct pccl_worker_link *link)
{
    return &pccl_measurer_of(link->worker)->test;
}

static void fail(struct pccl_measure_test *test, enum pccl_link_end how)
{
    test->failed = true;
    test->how = how;
}

static void set_due(struct pccl_measurer *measurer, uint64_t us)
{
    measurer->test.is_due = false;
    measurer->test.due_us = pccl_now_us() + us;
    pccl_reactor_set_due(&measurer->worker.reactor, measurer->test.due_us);
}

/* ---- one connection ---- */

static uint64_t filler_sent(const struct tester *tester)
{
    /* payload_left may include the head of a frame, which is not filler */
    return tester->floods * PCCL_FLOOD_BYTES_MAX -
           pccl_min_u64(tester->link.channel.payload_left, PCCL_FLOOD_BYTES_MAX);
}

static void ask_for_echo(struct tester *tester)
{
    tester->stamp = pccl_now_us();
    struct pccl_msg msg = {.type = PCCL_MSG_echo, .as.echo = {.stamp = tester->stamp}};
    (void)pccl_channel_put_message(&tester->link.channel, &msg); /* if out of memory, the channel ends */
}

static bool on_echo(struct tester *tester, const struct pccl_msg_echo *echo)
{
    struct pccl_measure_test *test = test_of(&tester->link);
    if (!echo->answer || tester->stamp == 0 || echo->stamp != tester->stamp) {
        pccl_text_format(&tester->link.reason, "an echo of a message that was not sent");
        return false;
    }
    uint64_t took_us = pccl_max_u64(pccl_now_us() - tester->stamp, 1);
    tester->stamp = 0;
    if (test->stage != PCCL_MEASURE_REACHING)
        return true; /* too late, because the path is no longer idle */
    test->rtt_us = (uint32_t)pccl_min_u64(test->rtt_us, took_us);
    if (++test->echoes < PCCL_MEASURE_ECHOES)
        ask_for_echo(tester);
    return true;
}

static bool on_seen(struct tester *tester, uint64_t bytes)
{
    uint64_t sent = filler_sent(tester);
    if (bytes < tester->seen || bytes > sent) {
        pccl_text_format(&tester->link.reason,
                         "it reported %" PRIu64 " bytes received after reporting %" PRIu64 ", out of %" PRIu64 " sent",
                         bytes, tester->seen, sent);
        return false;
    }
    tester->seen = bytes;
    return true;
}

static bool on_message(struct pccl_worker_link *link, const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_echo)
        return on_echo(tester_of(link), &msg->as.echo);
    if (msg->type == PCCL_MSG_flood_seen)
        return on_seen(tester_of(link), msg->as.flood_seen.bytes);
    pccl_text_format(&link->reason, "'%s' is not allowed here", pccl_wire_name(msg->type));
    return false;
}

/*
 * Sends as much as the kernel accepts, up to a limit per visit, so that other links also get their turn. Needs no
 * memory, because it sends the same frame repeatedly.
 */
static void flood(struct tester *tester)
{
    struct pccl_channel *channel = &tester->link.channel;
    enum pccl_channel_io io = PCCL_CHANNEL_MOVED;
    for (size_t sent = 0; sent < PCCL_MEASURE_VISIT_BYTES && io == PCCL_CHANNEL_MOVED;
         sent += PCCL_MEASURE_FLOOD_BYTES) {
        pccl_channel_put_payload(channel, &tester->flood, PCCL_MEASURE_FLOOD_BYTES);
        tester->floods++;
        io = pccl_channel_push(channel);
    }
    if (io == PCCL_CHANNEL_MOVED)
        pccl_channel_yield(channel);
}

/* Sends everything that is due. */
static void send_due(struct pccl_worker_link *link)
{
    if (pccl_channel_push(&link->channel) == PCCL_CHANNEL_MOVED && test_of(link)->stage == PCCL_MEASURE_LOADING)
        flood(tester_of(link));
    pccl_worker_link_watch(link, true, false);
}

static bool is_connected(const struct pccl_measure_test *test)
{
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->lines[i].link)
            return true;
    return false;
}

static void end(struct pccl_worker_link *link)
{
    struct pccl_measure_test *test = test_of(link);
    /* 0 if the connection ended because of a false report */
    enum pccl_link_end how = link->channel.ended ? pccl_channel_evidence(&link->channel) : 0;
    pccl_log_line(&link->worker->config.log, how ? PCCL_LOG_INFO : PCCL_LOG_WARN,
                  "measure: a connection to peer %s closed: %s", pccl_id_str(&link->peer),
                  pccl_worker_link_why(link)->bytes);
    test->gone_bytes += tester_of(link)->seen;
    pccl_worker_link_close(link);
    bool suffices = test->stage == PCCL_MEASURE_LOADING && test->meter.mark_count > PCCL_MEASURE_WINDOWS_LEAST;
    if (how == 0 || (!is_connected(test) && !suffices))
        fail(test, how);
}

static void visit(struct pccl_worker_link *link)
{
    size_t budget = PCCL_MEASURE_VISIT_BYTES;
    if (pccl_worker_link_receive(link, &budget) == PCCL_CHANNEL_ENDED)
        end(link);
    else
        send_due(link);
    advance(pccl_measurer_of(link->worker));
}

static const struct pccl_worker_role testing = {.bytes = sizeof(struct tester),
                                                .out_max = PCCL_MEASURE_OUT_BYTES,
                                                .discards = true,
                                                .visit = visit,
                                                .message = on_message,
                                                .end = end};

/* ---- dialing ---- */

static void on_dialed(struct pccl_worker_line *line, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_measurer *measurer = pccl_measurer_of(line->worker);
    struct pccl_measure_test *test = &measurer->test;
    bool reaching = test->stage == PCCL_MEASURE_REACHING;
    if (!line->link) {
        pccl_log_line(&measurer->worker.config.log, PCCL_LOG_DEBUG, "measure: connection %u to peer %s: %s",
                      (unsigned)(line - test->lines), pccl_id_str(&line->peer), reason->bytes);
        if (reaching) /* further connections are optional */
            fail(test, test->declined ? 0 : how);
        advance(measurer);
        return;
    }
    tester_of(line->link)->flood = measurer->flood;
    if (reaching)
        ask_for_echo(tester_of(line->link));
    /* The dial succeeded although the deadline has passed, because this process was suspended. */
    if (reaching && pccl_now_us() > test->due_us)
        set_due(measurer, measurer->config.dial_ms * UINT64_C(1000));
    send_due(line->link);
    advance(measurer);
}

/* Returns false if out of memory. */
static bool dial(struct pccl_measurer *measurer, uint32_t slot, const struct pccl_address *addresses, uint32_t count)
{
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_msg_link_hello hello = {.slot = (uint8_t)slot,
                                        .authentication = pccl_bytes_of_secret(&test->order.ticket)};
    struct pccl_dial dial = {
        .addresses = addresses,
        .count = count,
        .timeout_ms = measurer->config.dial_ms,
        .declined = &test->declined, /* set if the peer itself declines, which proves that the path works */
    };
    test->lines[slot] = (struct pccl_worker_line){.worker = &measurer->worker,
                                                  .role = &testing,
                                                  .peer = test->order.peer,
                                                  .reversed = test->order.reversed,
                                                  .dialed = on_dialed};
    return pccl_worker_dial(&test->lines[slot], &hello, &dial);
}

static void dial_first(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_interfaces_plausible(test->order.candidates, test->order.candidate_count, plausible);
    set_due(measurer, measurer->config.dial_ms * UINT64_C(1000));
    if (!dial(measurer, 0, plausible, count))
        fail(test, 0);
}

/* ---- the stages ---- */

static void join(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    const struct pccl_measure_config *config = &measurer->config;
    struct pccl_path path;
    if (pccl_path_measure(test->lines[0].link->channel.socket, &path) && path.rtt_us > 0)
        test->rtt_us = (uint32_t)pccl_min_u64(test->rtt_us, path.rtt_us);
    test->stage = PCCL_MEASURE_JOINING;
    test->streams = test->rtt_us >= PCCL_LONG_PATH_RTT_US ? config->streams_long : config->streams_short;
    for (uint32_t i = 1; i < test->streams; i++)
        if (!dial(measurer, i, &test->lines[0].address, 1))
            pccl_log_line(&measurer->worker.config.log, PCCL_LOG_WARN, "measure: %s", pccl_status_text(PCCL_MEMORY));
    set_due(measurer, pccl_min_u64(PCCL_MEASURE_JOIN_RTTS * (uint64_t)test->rtt_us + PCCL_MEASURE_JOIN_US,
                                   PCCL_MEASURE_JOIN_MAX_US));
}

static bool expects_more(const struct pccl_measure_test *test)
{
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->lines[i].dialer)
            return true;
    return false;
}

static void load(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    uint64_t limit_us = test->order.limit_ms * UINT64_C(1000);
    test->stage = PCCL_MEASURE_LOADING;
    pccl_meter_begin(&test->meter, pccl_now_us(), test->rtt_us, limit_us);
    set_due(measurer, limit_us);
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->lines[i].link)
            send_due(test->lines[i].link);
}

/* Passes the reported bytes to the meter; with `anyway` even if they are unchanged. */
static void note_seen(struct pccl_measure_test *test, bool anyway)
{
    uint64_t bytes = test->gone_bytes;
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->lines[i].link)
            bytes += tester_of(test->lines[i].link)->seen;
    if (bytes == test->noted_bytes && !anyway)
        return;
    test->noted_bytes = bytes;
    pccl_meter_add(&test->meter, pccl_now_us(), bytes);
}

static void conclude(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_measure_result result = {.test = test->order.test,
                                         .failed = test->failed,
                                         .how = test->failed ? (uint8_t)test->how : 0,
                                         .rtt_us = test->echoes ? test->rtt_us : 0};
    if (!test->failed)
        result.rate = pccl_meter_rate(&test->meter);
    if (!test->failed && result.rate == 0) {
        result.failed = true;
        result.how = PCCL_LINK_SILENT;
    }
    pccl_log_line(&measurer->worker.config.log, PCCL_LOG_DEBUG,
                  "measure: test %" PRIu64 " of the path to peer %s: %s, %" PRIu64 " bytes/s, round trip %u us",
                  result.test, pccl_id_str(&test->order.peer), result.failed ? "failed" : "done", result.rate,
                  result.rtt_us);
    pccl_measure_test_stop(measurer);
    measurer->config.measured(measurer->worker.config.context, &result);
}

/* Returns true if the test is decided. */
static bool is_over(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    if (test->stage == PCCL_MEASURE_REACHING && test->is_due && test->echoes == 0 && !test->failed)
        fail(test, test->lines[0].link ? PCCL_LINK_SILENT : PCCL_LINK_TIMEOUT);
    if (test->failed || test->stage != PCCL_MEASURE_LOADING)
        return test->failed;
    note_seen(test, test->is_due);
    return test->is_due || !is_connected(test) || pccl_meter_is_done(&test->meter, pccl_now_us());
}

/* Acts on the new state. May report the result, so the caller must not use the test after this call. */
static void advance(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    if (test->stage == PCCL_MEASURE_REACHING && !test->failed && test->echoes > 0 &&
        (test->echoes == PCCL_MEASURE_ECHOES || test->is_due))
        join(measurer);
    if (test->stage == PCCL_MEASURE_JOINING && !test->failed && (test->is_due || !expects_more(test)))
        load(measurer);
    if (test->stage != PCCL_MEASURE_IDLE && is_over(measurer))
        conclude(measurer);
}

void pccl_measure_test_tick(struct pccl_measurer *measurer)
{
    measurer->test.is_due = true;
    advance(measurer);
}

/* ---- begin and end ---- */

void pccl_measure_test_begin(struct pccl_measurer *measurer, const struct pccl_measure_order *order)
{
    struct pccl_measure_test *test = &measurer->test;
    pccl_measure_test_stop(measurer);
    test->stage = PCCL_MEASURE_REACHING;
    test->order = *order;
    test->order.limit_ms = (uint32_t)pccl_min_u64(order->limit_ms, PCCL_MEASURE_MS_MAX);
    test->streams = 1;
    test->rtt_us = UINT32_MAX;
    dial_first(measurer);
    advance(measurer);
}

/* Sends link_bye if the output is at a frame boundary. The other side also accepts an end without it. */
static void send_bye(struct pccl_channel *channel)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_bye};
    if (channel->payload_left == 0 && pccl_channel_put_message(channel, &msg))
        (void)pccl_channel_push(channel);
}

void pccl_measure_test_stop(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    for (uint32_t i = 0; i < test->streams; i++) {
        if (test->lines[i].link)
            send_bye(&test->lines[i].link->channel);
        pccl_worker_line_end(&test->lines[i]);
    }
    *test = (struct pccl_measure_test){.stage = PCCL_MEASURE_IDLE};
    pccl_reactor_set_due(&measurer->worker.reactor, UINT64_MAX);
}
