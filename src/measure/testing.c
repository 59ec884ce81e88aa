/*
 * Testing: one path at a time. The first connection is dialed, and the round trip of the idle path
 * measured. This decides how many more connections are worthwhile. Then all of them are loaded, and
 * the bytes that the other side reports to have seen go to the meter until it has a figure.
 *
 * Events only change the state; `advance`, at the end of every visit of the loop, draws the
 * consequences.
 */
#include "measure/internal.h"

#include "net/heap.h"
#include "net/interfaces.h"
#include "net/path.h"
#include "net/socket.h"

#include <string.h>

struct pccl_measure_tester {
    struct pccl_measure_link link; /* must come first */
    struct pccl_measure_slot *slot;
    uint64_t stamp;       /* of the unanswered echo; 0: there is none */
    const uint8_t *flood; /* a frame; the measurer's */
    uint64_t floods;      /* floods whose sending has begun */
    uint64_t seen;        /* bytes, by the other side's report */
};

static void advance(struct pccl_measurer *measurer);
static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason);

static struct pccl_measure_tester *tester_of(struct pccl_measure_link *link)
{
    return (struct pccl_measure_tester *)(void *)link;
}

static struct pccl_measure_test *test_of(const struct pccl_measure_link *link) { return &link->measurer->test; }

static void fail(struct pccl_measure_test *test, enum pccl_link_end how)
{
    test->failed = true;
    test->how = how;
}

static void set_due(struct pccl_measurer *measurer, uint64_t us)
{
    measurer->test.is_due = false;
    measurer->test.due_us = pccl_now_us() + us;
    pccl_reactor_set_due(&measurer->reactor, measurer->test.due_us);
}

/* ---- one connection ---- */

static uint64_t filler_sent(const struct pccl_measure_tester *tester)
{
    /* payload_left may include the head of a frame, which is not filler. */
    return tester->floods * PCCL_FLOOD_BYTES_MAX -
           pccl_min_u64(tester->link.channel.payload_left, PCCL_FLOOD_BYTES_MAX);
}

static void ask_for_echo(struct pccl_measure_tester *tester)
{
    tester->stamp = pccl_now_us();
    struct pccl_msg msg = {.type = PCCL_MSG_echo, .as.echo = {.stamp = tester->stamp}};
    (void)pccl_channel_put_message(&tester->link.channel, &msg); /* the channel ends if there is no memory */
}

static bool on_echo(struct pccl_measure_tester *tester, const struct pccl_msg_echo *echo, struct pccl_text *reason)
{
    struct pccl_measure_test *test = test_of(&tester->link);
    if (!echo->answer || tester->stamp == 0 || echo->stamp != tester->stamp) {
        pccl_text_format(reason, "an echo of what was not said");
        return false;
    }
    uint64_t took_us = pccl_max_u64(pccl_now_us() - tester->stamp, 1);
    tester->stamp = 0;
    if (test->stage != PCCL_MEASURE_REACHING)
        return true; /* too late: the path is no longer idle */
    test->rtt_us = (uint32_t)pccl_min_u64(test->rtt_us, took_us);
    if (++test->echoes < PCCL_MEASURE_ECHOES)
        ask_for_echo(tester);
    return true;
}

static bool on_seen(struct pccl_measure_tester *tester, uint64_t bytes, struct pccl_text *reason)
{
    uint64_t sent = filler_sent(tester);
    if (bytes < tester->seen || bytes > sent) {
        pccl_text_format(reason, "it says that it has seen %" PRIu64 " bytes, after %" PRIu64 ", of %" PRIu64, bytes,
                         tester->seen, sent);
        return false;
    }
    tester->seen = bytes;
    return true;
}

static bool on_message(struct pccl_measure_link *link, const struct pccl_msg *msg, struct pccl_text *reason)
{
    if (msg->type == PCCL_MSG_echo)
        return on_echo(tester_of(link), &msg->as.echo, reason);
    if (msg->type == PCCL_MSG_flood_seen)
        return on_seen(tester_of(link), msg->as.flood_seen.bytes, reason);
    pccl_text_format(reason, "'%s' is not allowed here", pccl_wire_name(msg->type));
    return false;
}

/*
 * Sends as much as the kernel takes, within a bound for one visit so that others get their turn.
 * Needs no memory of ours, because the same frame is sent again and again.
 */
static void flood(struct pccl_measure_tester *tester)
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

static void speak(struct pccl_measure_link *link)
{
    if (pccl_channel_push(&link->channel) == PCCL_CHANNEL_MOVED && test_of(link)->stage == PCCL_MEASURE_LOADING)
        flood(tester_of(link));
}

static bool stands(const struct pccl_measure_test *test)
{
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->slots[i].tester)
            return true;
    return false;
}

static void on_ended(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_measure_tester *tester = tester_of(link);
    struct pccl_measure_test *test = test_of(link);
    pccl_log_line(&link->measurer->events.log, how ? PCCL_LOG_INFO : PCCL_LOG_WARN,
                  "measure: a connection to peer %s has ended: %s", pccl_id_str(&link->peer), reason->bytes);
    tester->slot->tester = NULL;
    test->gone_bytes += tester->seen;
    bool suffices = test->stage == PCCL_MEASURE_LOADING && test->meter.mark_count > PCCL_MEASURE_WINDOWS_LEAST;
    if (how == 0 || (!stands(test) && !suffices))
        fail(test, how);
}

static const struct pccl_measure_role testing = {
    .loads = true, .message = on_message, .speak = speak, .ended = on_ended, .visited = advance};

/* ---- dialing ---- */

/* false: out of memory. */
static bool dial(struct pccl_measure_slot *slot, const struct pccl_address *addresses, uint32_t count)
{
    struct pccl_measurer *measurer = slot->measurer;
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_msg_link_hello hello = {.lineage = measurer->config.lineage,
                                        .from = measurer->config.self,
                                        .to = test->order.peer,
                                        .kind = PCCL_LINK_MEASURE,
                                        .slot = (uint8_t)(slot - test->slots),
                                        .authentication = pccl_bytes_of_secret(&test->order.ticket)};
    struct pccl_dial dial = {
        .addresses = addresses,
        .count = count,
        .local = measurer->config.local,
        .stagger_ms = measurer->config.stagger_ms,
        .timeout_ms = measurer->config.dial_ms,
        .hello = &hello,
        .keys = measurer->config.keys,
        .declined = &test->declined, /* set if the peer itself declines, which proves that the path works */
        .done = on_dialed,
        .context = slot};
    slot->dialer = pccl_dialer_start(&measurer->reactor.loop, pccl_heap(), &dial);
    return slot->dialer != NULL;
}

static void dial_first(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_interfaces_plausible(test->order.candidates, test->order.candidate_count, plausible);
    set_due(measurer, measurer->config.dial_ms * UINT64_C(1000));
    if (!dial(&test->slots[0], plausible, count))
        fail(test, 0);
}

/* Takes the connection after its handshake. false, with a reason and `how`: it is closed. */
static bool take_over(struct pccl_measure_slot *slot, struct pccl_connection *connection, enum pccl_link_end *how,
                      struct pccl_text *reason)
{
    struct pccl_measure_test *test = &slot->measurer->test;
    struct pccl_handover handover;
    test->address = connection->address;
    *how = PCCL_LINK_CLOSED;
    pccl_text_format(reason, "it failed at once");
    if (!pccl_connection_detach(connection, &handover)) {
        pccl_connection_close(connection, 0);
        return false;
    }
    *how = 0;
    bool speaks = pccl_handover_has_input(&handover);
    pccl_text_format(reason, "%s", speaks ? "it speaks before it is asked" : pccl_status_text(PCCL_MEMORY));
    struct pccl_measure_tester *tester = NULL;
    if (!speaks)
        tester =
            pccl_measure_link_allocate(slot->measurer, &testing, sizeof *tester, &test->order.peer, handover.socket);
    if (!tester) {
        pccl_handover_drop(&handover);
        return false;
    }
    pccl_channel_adopt(&tester->link.channel, &handover);
    if (!pccl_measure_link_open(&tester->link))
        return false;
    tester->slot = slot;
    tester->flood = slot->measurer->flood;
    slot->tester = tester;
    return true;
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct pccl_measure_slot *slot = context;
    struct pccl_measurer *measurer = slot->measurer;
    struct pccl_measure_test *test = &measurer->test;
    struct pccl_text why = *reason;
    slot->dialer = NULL;
    if (connection && take_over(slot, connection, &how, &why)) {
        if (test->stage == PCCL_MEASURE_REACHING)
            ask_for_echo(slot->tester);
        /* The deadline has passed although the dial succeeded: this process was suspended. */
        if (test->stage == PCCL_MEASURE_REACHING && pccl_now_us() > test->due_us)
            set_due(measurer, measurer->config.dial_ms * UINT64_C(1000));
        pccl_measure_link_start(&slot->tester->link);
    } else {
        pccl_log_line(&measurer->events.log, PCCL_LOG_DEBUG, "measure: connection %u to peer %s: %s",
                      (unsigned)(slot - test->slots), pccl_id_str(&test->order.peer), why.bytes);
        if (test->stage == PCCL_MEASURE_REACHING) /* later connections are optional */
            fail(test, test->declined ? 0 : how);
    }
    advance(measurer);
}

/* ---- the stages ---- */

static void join(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    const struct pccl_measure_config *config = &measurer->config;
    struct pccl_path path;
    if (pccl_path_measure(test->slots[0].tester->link.channel.socket, &path) && path.rtt_us > 0)
        test->rtt_us = (uint32_t)pccl_min_u64(test->rtt_us, path.rtt_us);
    test->stage = PCCL_MEASURE_JOINING;
    test->streams = test->rtt_us >= PCCL_LONG_PATH_RTT_US ? config->streams_long : config->streams_short;
    for (uint32_t i = 1; i < test->streams; i++)
        if (!dial(&test->slots[i], &test->address, 1))
            pccl_log_line(&measurer->events.log, PCCL_LOG_WARN, "measure: %s", pccl_status_text(PCCL_MEMORY));
    set_due(measurer, pccl_min_u64(PCCL_MEASURE_JOIN_RTTS * (uint64_t)test->rtt_us + PCCL_MEASURE_JOIN_US,
                                   PCCL_MEASURE_JOIN_MAX_US));
}

static bool expects_more(const struct pccl_measure_test *test)
{
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->slots[i].dialer)
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
        if (test->slots[i].tester)
            pccl_measure_link_start(&test->slots[i].tester->link);
}

/* Tells the meter the bytes seen. `anyway`: even if they are unchanged. */
static void note_seen(struct pccl_measure_test *test, bool anyway)
{
    uint64_t bytes = test->gone_bytes;
    for (uint32_t i = 0; i < test->streams; i++)
        if (test->slots[i].tester)
            bytes += test->slots[i].tester->seen;
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
    pccl_log_line(&measurer->events.log, PCCL_LOG_DEBUG,
                  "measure: test %" PRIu64 " of the path to peer %s: %s, %" PRIu64 " bytes/s, round trip %u us",
                  result.test, pccl_id_str(&test->order.peer), result.failed ? "failed" : "done", result.rate,
                  result.rtt_us);
    pccl_measure_test_stop(measurer);
    measurer->events.measured(measurer->events.context, &result);
}

/* Whether the test is decided. */
static bool is_over(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    if (test->stage == PCCL_MEASURE_REACHING && test->is_due && test->echoes == 0 && !test->failed)
        fail(test, test->slots[0].tester ? PCCL_LINK_SILENT : PCCL_LINK_TIMEOUT);
    if (test->failed || test->stage != PCCL_MEASURE_LOADING)
        return test->failed;
    note_seen(test, test->is_due);
    return test->is_due || !stands(test) || pccl_meter_is_done(&test->meter, pccl_now_us());
}

/*
 * Draws the consequences of what has happened. May report, so the caller must not touch the test
 * afterward.
 */
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
    for (uint32_t i = 0; i < PCCL_POOL_MAX; i++)
        test->slots[i].measurer = measurer;
    dial_first(measurer);
    advance(measurer);
}

/*
 * Says good-bye, if the output is at a frame boundary; the other side accepts the end without it as
 * well.
 */
static void say_bye(struct pccl_measure_tester *tester)
{
    struct pccl_channel *channel = &tester->link.channel;
    struct pccl_msg msg = {.type = PCCL_MSG_link_bye};
    if (channel->payload_left == 0 && pccl_channel_put_message(channel, &msg))
        (void)pccl_channel_push(channel);
}

void pccl_measure_test_stop(struct pccl_measurer *measurer)
{
    struct pccl_measure_test *test = &measurer->test;
    for (uint32_t i = 0; i < test->streams; i++) {
        struct pccl_measure_slot *slot = &test->slots[i];
        if (slot->dialer)
            pccl_dialer_cancel(slot->dialer);
        if (!slot->tester)
            continue;
        say_bye(slot->tester);
        pccl_measure_link_close(&slot->tester->link);
    }
    *test = (struct pccl_measure_test){.stage = PCCL_MEASURE_IDLE};
    pccl_reactor_set_due(&measurer->reactor, UINT64_MAX);
}
