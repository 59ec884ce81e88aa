/* Sessions that measure the paths between them, over real connections, and with peers played by hand. */
#include "unit.h"
#include "measure_node.h"
#include "support.h"

#include <netinet/tcp.h>
#include <stdatomic.h>

enum {
    LIMIT_MS = 5000,
    AT_ONCE_MS = 300, /* for events that depend on nothing else */
    SOON_MS = 3000,   /* for events that depend on the work of a busy machine */
    FRAME_BYTES = PCCL_FRAME_HEADER_BYTES + 4 + PCCL_FLOOD_BYTES_MAX,
    ECHOES = 3, /* number that a tester requests before it loads the path */
};

/* ---- measurers among themselves ---- */

static void measure_one_path(uint32_t streams_short)
{
    struct node tester, answerer;
    node_prepare(&tester, 1);
    tester.streams_short = streams_short;
    node_begin(&tester);
    node_make(&answerer, 2);
    node_order(&tester, 42, 2, &answerer.address, LIMIT_MS);
    struct pccl_measure_result result = node_expect_rate(&tester, 1);
    assert_int_equal(result.test, 42);
    test_figure(streams_short == 1 ? "a path over one connection" : "a path over several", (double)result.rate * 1e-6,
                "MB/s");
    assert_int_equal(tester.warned + answerer.warned, 0);
    assert_int_equal(answerer.measured, 0);
    node_until_count(&answerer, &answerer.over, 1); /* it learns of the end */
    node_finish(&tester);
    node_finish(&answerer);
}

TEST(a_path_is_measured) { measure_one_path(1); }

TEST(a_path_is_measured_over_sixteen_connections) { measure_one_path(16); }

TEST(both_directions_at_once)
{
    struct node a, b;
    node_make(&a, 1);
    node_make(&b, 2);
    node_order(&a, 1, 2, &b.address, LIMIT_MS);
    node_order(&b, 2, 1, &a.address, LIMIT_MS);
    (void)node_expect_rate(&a, 1);
    (void)node_expect_rate(&b, 1);
    node_finish(&a);
    node_finish(&b);
}

/* Each tests its path to the next and then to the one after, while two others test theirs to it. */
TEST(three_measure_all_their_paths)
{
    enum { NODES = 3 };
    struct node nodes[NODES];
    for (uint8_t i = 0; i < NODES; i++)
        node_make(&nodes[i], (uint8_t)(i + 1));
    for (uint32_t step = 1; step < NODES; step++) {
        for (uint32_t i = 0; i < NODES; i++)
            node_order(&nodes[i], step, nodes[(i + step) % NODES].id.bytes[0], &nodes[(i + step) % NODES].address,
                       LIMIT_MS);
        for (uint32_t i = 0; i < NODES; i++)
            assert_int_equal(node_expect_rate(&nodes[i], step).test, step);
    }
    for (uint32_t i = 0; i < NODES; i++)
        node_finish(&nodes[i]);
}

/* ---- a path with a low rate ---- */

/* A peer played by hand, on a separate thread that limits the bytes that pass by its clock. */
struct slow {
    int bare;
    uint64_t rate, read, let_through; /* let_through: rate that resulted, bytes per second */
    uv_thread_t thread;
};

static void read_slowly(void *argument)
{
    struct slow *slow = argument;
    static uint8_t bytes[16384];
    struct pollfd readable = {.fd = slow->bare, .events = POLLIN}, nothing = {.fd = -1};
    const uint64_t begun = uv_hrtime(), burst = slow->rate / 100;
    uint64_t before = begun, allowed = 0;
    for (uint8_t i = 0; i < ECHOES; i++)
        bare_echo(slow->bare);
    for (;;) {
        uint64_t now = uv_hrtime(), passed_us = (now - before) / 1000;
        before += passed_us * 1000;
        allowed = pccl_min_u64(allowed + passed_us * slow->rate / 1000000, burst);
        if (allowed < 1000) {
            (void)poll(&nothing, 1, 1);
            continue;
        }
        (void)poll(&readable, 1, LOOPBACK_HANG_MS);
        ssize_t got = recv(slow->bare, bytes, pccl_min_u64(sizeof bytes, allowed), 0);
        if (got <= 0)
            break;
        allowed -= (uint64_t)got;
        slow->read += (uint64_t)got;
        struct pccl_msg msg = {.type = PCCL_MSG_flood_seen, .as.flood_seen = {.bytes = slow->read}};
        uint8_t frame[64];
        uint64_t filler = slow->read / FRAME_BYTES * PCCL_FLOOD_BYTES_MAX;
        uint64_t begun_frame = slow->read % FRAME_BYTES, head = PCCL_FRAME_HEADER_BYTES + 4;
        msg.as.flood_seen.bytes = filler + (begun_frame > head ? begun_frame - head : 0);
        pccl_frame_encode(&msg, 0, 0, frame);
        if (send(slow->bare, frame, pccl_frame_size(&msg), MSG_NOSIGNAL) <= 0)
            break;
    }
    slow->let_through = slow->read * 1000000000 / (uv_hrtime() - begun);
}

TEST(a_slow_path_is_measured)
{
    struct node tester;
    struct slow slow = {.rate = 8000000};
    struct pccl_address address;
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    slow.bare = bare_accept(listening);
    bare_welcome(slow.bare, 9);
    assert_int_equal(uv_thread_create(&slow.thread, read_slowly, &slow), 0);
    struct pccl_measure_result result = node_expect_rate(&tester, 1);
    assert_int_equal(uv_thread_join(&slow.thread), 0);
    test_figure("measured, of what a slow path lets through", (double)result.rate / (double)slow.let_through, "share");
    close(slow.bare);
    close(listening);
    node_finish(&tester);
}

/* ---- peers that cannot be tested ---- */

TEST(a_port_that_refuses_is_reported)
{
    struct node tester;
    struct pccl_address address;
    node_make(&tester, 1);
    close(bare_listen(&address));
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    node_expect_failure(&tester, 1, PCCL_LINK_REFUSED);
    struct pccl_measure_order nowhere = {.test = 2, .peer = node_id(9), .limit_ms = LIMIT_MS};
    pccl_measurer_order(tester.worker, &nowhere);
    node_expect_failure(&tester, 2, PCCL_LINK_UNREACHABLE);
    node_finish(&tester);
}

TEST(what_answers_to_a_hello_is_told_apart)
{
    struct node tester, other;
    struct pccl_address address;
    struct pccl_msg refusal = {.type = PCCL_MSG_refused, .as.refused = {.version = PCCL_PROTOCOL_VERSION}};
    node_make(&tester, 1);
    node_make(&other, 2);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS); /* another peer */
    int bare = bare_accept(listening);
    bare_welcome(bare, 8);
    node_expect_failure(&tester, 1, PCCL_LINK_OTHER);
    close(bare);
    node_order(&tester, 2, 9, &address, LIMIT_MS); /* it reports that itself */
    bare = bare_accept(listening);
    refusal.as.refused.code = PCCL_REFUSAL_IDENTITY;
    bare_say(bare, &refusal);
    node_expect_failure(&tester, 2, PCCL_LINK_OTHER);
    close(bare);
    node_order(&tester, 3, 9, &address, LIMIT_MS); /* the right one, which does not measure now */
    bare = bare_accept(listening);
    refusal.as.refused.code = PCCL_REFUSAL_STATE;
    bare_say(bare, &refusal);
    node_expect_failure(&tester, 3, 0);
    close(bare);
    node_order(&tester, 4, 9, &address, LIMIT_MS); /* closes */
    close(bare_accept(listening));
    node_expect_failure(&tester, 4, PCCL_LINK_CLOSED);
    node_order(&tester, 5, 9, &address, LIMIT_MS); /* garbage */
    bare = bare_accept(listening);
    bare_write(bare, "GET / HTTP/1.1\r\nHost: nowhere.example\r\n\r\n", 41);
    node_expect_failure(&tester, 5, PCCL_LINK_OTHER);
    close(bare);
    node_order(&tester, 6, 2, &other.address, LIMIT_MS); /* and it continues to work */
    (void)node_expect_rate(&tester, 6);
    close(listening);
    node_finish(&tester);
    node_finish(&other);
}

static void node_make_with(struct node *node, uint32_t dial_ms)
{
    node_prepare(node, 1);
    node->dial_ms = dial_ms;
    node_begin(node);
}

TEST(who_never_answers_is_given_up)
{
    struct node tester;
    struct pccl_address address;
    node_make_with(&tester, AT_ONCE_MS);
    int listening = bare_listen(&address); /* the system accepts, and no other process */
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    node_expect_failure(&tester, 1, PCCL_LINK_TIMEOUT);
    close(listening);
    node_finish(&tester);
}

TEST(who_says_no_more_is_given_up)
{
    struct node tester;
    struct pccl_address address;
    struct pccl_msg msg;
    node_make_with(&tester, SOON_MS);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    int bare = bare_accept(listening);
    bare_welcome(bare, 9);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_echo);
    node_expect_failure(&tester, 1, PCCL_LINK_SILENT);
    bare_hear_end(bare);
    close(bare);
    close(listening);
    node_finish(&tester);
}

/* One echo is enough for a round trip if the others are late; after that no sent byte is acknowledged. */
TEST(who_never_sees_anything_is_silent)
{
    struct node tester;
    struct pccl_address address;
    node_make_with(&tester, SOON_MS);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, AT_ONCE_MS);
    int bare = bare_accept(listening);
    bare_welcome(bare, 9);
    bare_echo(bare);
    node_expect_failure(&tester, 1, PCCL_LINK_SILENT);
    assert_true(tester.results[0].rtt_us > 0);
    close(bare);
    close(listening);
    node_finish(&tester);
}

/* Returns the connection of the peer played by hand, which is under load now; the peer does not read. */
static int bare_loaded(struct node *tester, int listening, const struct pccl_address *address, uint64_t test,
                       uint32_t limit_ms)
{
    node_order(tester, test, 9, address, limit_ms);
    int bare = bare_accept(listening);
    bare_welcome(bare, 9);
    for (int i = 0; i < ECHOES; i++)
        bare_echo(bare);
    static uint8_t frame[FRAME_BYTES];
    loopback_read(bare, frame, sizeof frame); /* the most that may be claimed */
    assert_int_equal(frame[4], PCCL_MSG_flood);
    return bare;
}

static void let_time_pass(uint64_t since, uint32_t ms)
{
    struct pollfd nothing = {.fd = -1};
    while (uv_hrtime() < since + ms * UINT64_C(1000000))
        (void)poll(&nothing, 1, 1);
}

TEST(a_path_that_breaks_is_reported)
{
    struct node tester;
    struct pccl_address address;
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    int bare = bare_loaded(&tester, listening, &address, 1, LIMIT_MS);
    close(bare);
    node_expect_failure(&tester, 1, PCCL_LINK_CLOSED);
    close(listening);
    node_finish(&tester);
}

/* Waits until the tester has handled all earlier events: lets another peer in and sees its end. */
static void until_taken(struct node *tester)
{
    struct pccl_id bystander = node_id(7);
    uint32_t over = tester->over;
    close(bare_link(tester, &bystander, 0));
    node_until_count(tester, &tester->over, over + 1);
}

/* The rate that it sees keeps changing, so the test does not settle; each report is handled separately. */
static void report_for_a_while(struct node *tester, int bare)
{
    enum { REPORTS = 8, APART_MS = 12 };
    for (int i = 1; i <= REPORTS; i++) {
        uint8_t frame[64];
        struct pccl_msg msg = {.type = PCCL_MSG_flood_seen,
                               .as.flood_seen = {.bytes = PCCL_FLOOD_BYTES_MAX >> (REPORTS - i)}};
        let_time_pass(uv_hrtime(), APART_MS);
        pccl_frame_encode(&msg, 0, 0, frame);
        (void)send(bare, frame, pccl_frame_size(&msg), MSG_NOSIGNAL);
        until_taken(tester);
    }
}

/* Earlier results are kept. */
TEST(a_path_that_breaks_late_has_a_rate)
{
    struct node tester;
    struct pccl_address address;
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    int bare = bare_loaded(&tester, listening, &address, 1, LIMIT_MS);
    report_for_a_while(&tester, bare);
    close(bare);
    (void)node_expect_rate(&tester, 1);
    close(listening);
    node_finish(&tester);
}

TEST(a_path_that_stalls_is_not_as_fast_as_it_was)
{
    enum { SEEN = 1000 };
    struct node tester;
    struct pccl_address address;
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    int bare = bare_loaded(&tester, listening, &address, 1, SOON_MS);
    bare_seen(bare, SEEN);
    struct pccl_measure_result result = node_expect_rate(&tester, 1);
    assert_true(result.rate <= SEEN * 1000 / SOON_MS + 1);
    bare_hear_end(bare);
    close(bare);
    close(listening);
    node_finish(&tester);
}

TEST(lies_and_garbage_are_no_fault_of_the_path)
{
    enum { LIES = 6 };
    struct node tester;
    struct pccl_address address;
    struct pccl_msg echo = {.type = PCCL_MSG_echo, .as.echo = {.answer = 1, .stamp = 1}};
    struct pccl_msg bye = {.type = PCCL_MSG_link_bye};
    uint8_t flood[FRAME_BYTES] = {0};
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    for (uint32_t lie = 0; lie < LIES; lie++) {
        int bare = bare_loaded(&tester, listening, &address, lie + 1, LIMIT_MS);
        switch (lie) {
        case 0: bare_seen(bare, UINT64_C(1) << 50); break;
        case 1:
            bare_seen(bare, 1000);
            bare_seen(bare, 999);
            break;
        case 2: bare_write(bare, "no frame at all, but long enough to be one", 42); break;
        case 3: bare_say(bare, &echo); break;
        case 4: bare_say(bare, &bye); break;
        default: { /* it floods back */
            struct pccl_msg msg = {.type = PCCL_MSG_flood, .as.flood = {.filler = {.data = flood, .length = 100}}};
            bare_say(bare, &msg);
        }
        }
        node_expect_failure(&tester, lie + 1, 0);
        assert_int_equal(tester.warned, lie + 1);
        close(bare);
    }
    assert_non_null(strstr(tester.warning.bytes, "flood"));
    close(listening);
    node_finish(&tester);
}

TEST(who_speaks_before_it_is_asked_is_not_measured)
{
    struct node tester;
    struct pccl_address address;
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok,
                           .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = node_id(9)}};
    uint8_t bytes[2 * NODE_FRAME_MAX];
    node_make(&tester, 1);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    int bare = bare_accept(listening);
    size_t length = pccl_frame_size(&msg);
    pccl_frame_encode(&msg, 0, 0, bytes);
    msg = (struct pccl_msg){.type = PCCL_MSG_flood_seen};
    pccl_frame_encode(&msg, 0, 0, bytes + length);
    bare_write(bare, bytes, length + pccl_frame_size(&msg));
    node_expect_failure(&tester, 1, 0);
    close(bare);
    close(listening);
    node_finish(&tester);
}

/* ---- several connections, some of which break ---- */

struct drain {
    int bare;
    uint64_t most; /* bytes that it reads before it closes; 0: all */
    uv_thread_t thread;
};

/* Reads and reports everything, until the other side ends the connection or the limit of this end is reached. */
static void drain_main(void *argument)
{
    struct drain *drain = argument;
    uint8_t *bytes = malloc(FRAME_BYTES);
    uint64_t frames = 0;
    while (bytes && recv(drain->bare, bytes, FRAME_BYTES, MSG_WAITALL) == FRAME_BYTES) {
        struct pccl_msg msg = {.type = PCCL_MSG_flood_seen,
                               .as.flood_seen = {.bytes = ++frames * PCCL_FLOOD_BYTES_MAX}};
        uint8_t frame[64];
        pccl_frame_encode(&msg, 0, 0, frame);
        if (send(drain->bare, frame, pccl_frame_size(&msg), MSG_NOSIGNAL) <= 0)
            break;
        if (drain->most && frames * FRAME_BYTES >= drain->most)
            break;
    }
    free(bytes);
    close(drain->bare);
}

TEST(the_rest_goes_on_when_one_breaks)
{
    enum { STREAMS = 4 };
    struct node tester;
    struct pccl_address address;
    struct drain drains[STREAMS];
    node_prepare(&tester, 1);
    tester.streams_short = STREAMS;
    node_begin(&tester);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    for (uint32_t i = 0; i < STREAMS; i++) {
        drains[i] = (struct drain){.bare = bare_accept(listening), .most = i % 2 ? 0 : FRAME_BYTES};
        if (i == 1) { /* not let in at all */
            close(drains[i].bare);
            continue;
        }
        bare_welcome(drains[i].bare, 9);
        for (int echo = 0; echo < ECHOES && i == 0; echo++)
            bare_echo(drains[i].bare);
        assert_int_equal(uv_thread_create(&drains[i].thread, drain_main, &drains[i]), 0);
    }
    (void)node_expect_rate(&tester, 1);
    for (uint32_t i = 0; i < STREAMS; i++)
        if (i != 1)
            assert_int_equal(uv_thread_join(&drains[i].thread), 0);
    close(listening);
    node_finish(&tester);
}

/* ---- a suspended measurer ---- */

/* Stops the measurer's thread inside a log line, from now until node_set. */
static void stand_still(struct node *node, int bystander)
{
    node_set(node, &node->hold, true);
    close(bystander);
    node_until(node, &node->held);
}

/* Input that arrived while it was suspended counts, although its time had passed when it continued. */
TEST(a_measurer_that_stood_still_looks_first)
{
    enum { STILL_MS = SOON_MS + 400 };
    struct node tester;
    struct pccl_address address;
    struct pccl_id self = node_id(7);
    node_make_with(&tester, SOON_MS);
    int bystanders[2] = {bare_link(&tester, &self, 0), bare_link(&tester, &self, 1)};
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS);
    struct drain drain = {.bare = bare_accept(listening)};
    int bare = drain.bare;
    stand_still(&tester, bystanders[0]);
    uint64_t since = uv_hrtime();
    bare_welcome(bare, 9);
    let_time_pass(since, STILL_MS);
    node_set(&tester, &tester.hold, false);
    struct pccl_msg echo;
    bare_hear(bare, &echo);
    assert_int_equal(echo.type, PCCL_MSG_echo);
    stand_still(&tester, bystanders[1]);
    since = uv_hrtime();
    echo.as.echo.answer = 1;
    bare_say(bare, &echo);
    let_time_pass(since, STILL_MS);
    node_set(&tester, &tester.hold, false);
    bare_hear(bare, &echo); /* the next one, which gets no answer: the test does not wait for it */
    assert_int_equal(echo.type, PCCL_MSG_echo);
    assert_int_equal(uv_thread_create(&drain.thread, drain_main, &drain), 0);
    (void)node_expect_rate(&tester, 1);
    assert_int_equal(uv_thread_join(&drain.thread), 0);
    assert_int_equal(tester.measured, 1);
    close(listening);
    node_finish(&tester);
}

/* ---- orders that follow each other, and the end ---- */

TEST(a_new_order_replaces_the_one_under_way)
{
    struct node tester, answerer;
    struct pccl_address address;
    node_make(&tester, 1);
    node_make(&answerer, 2);
    int listening = bare_listen(&address);
    node_order(&tester, 1, 9, &address, LIMIT_MS); /* being dialed */
    int dialed = bare_accept(listening);
    int loaded = bare_loaded(&tester, listening, &address, 2, LIMIT_MS);
    bare_hear_end(dialed);
    node_order(&tester, 3, 2, &answerer.address, LIMIT_MS);
    assert_int_equal(node_expect_rate(&tester, 1).test, 3);
    bare_hear_end(loaded);
    assert_int_equal(tester.measured, 1);
    close(dialed);
    close(loaded);
    close(listening);
    node_finish(&tester);
    node_finish(&answerer);
}

TEST(a_measurer_ends_in_the_middle)
{
    struct node tester, answerer, dialing;
    struct pccl_address address;
    node_make(&tester, 1);
    node_make(&answerer, 2);
    node_make(&dialing, 3);
    int listening = bare_listen(&address);
    int bare = bare_loaded(&tester, listening, &address, 1, LIMIT_MS);
    node_order(&dialing, 1, 9, &address, LIMIT_MS);
    int dialed = bare_accept(listening);
    struct pccl_id self = node_id(7);
    int asking = bare_link(&answerer, &self, 0);
    struct pccl_msg echo = {.type = PCCL_MSG_echo, .as.echo = {.stamp = 5}};
    bare_say(asking, &echo);
    bare_hear(asking, &echo);
    node_finish(&tester);
    node_finish(&answerer);
    node_finish(&dialing);
    bare_hear_end(bare);
    bare_hear_end(asking);
    bare_hear_end(dialed);
    assert_int_equal(tester.measured + dialing.measured, 0);
    close(bare);
    close(asking);
    close(dialed);
    close(listening);
}

/* ---- at the answerer ---- */

TEST(an_answerer_counts_what_comes_bit_by_bit)
{
    struct node answerer;
    struct pccl_id self = node_id(7);
    static uint8_t filler[1000], frame[2000];
    struct pccl_msg msg = {.type = PCCL_MSG_flood, .as.flood = {.filler = {.data = filler, .length = sizeof filler}}};
    node_make(&answerer, 2);
    int bare = bare_link(&answerer, &self, 0);
    int nodelay = 1;
    (void)setsockopt(bare, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay);
    pccl_frame_encode(&msg, 0, 0, frame);
    size_t size = pccl_frame_size(&msg), head = PCCL_FRAME_HEADER_BYTES + 4;
    for (size_t i = 0; i < head; i++)
        bare_write(bare, frame + i, 1);
    bare_write(bare, frame + head, 500);
    bare_hear(bare, &msg); /* of a frame that is not complete */
    assert_int_equal(msg.type, PCCL_MSG_flood_seen);
    assert_true(msg.as.flood_seen.bytes > 0 && msg.as.flood_seen.bytes <= 500);
    bare_write(bare, frame + head + 500, size - head - 500);
    struct pccl_msg echo = {.type = PCCL_MSG_echo, .as.echo = {.stamp = 99}}; /* behind it, in the same stream */
    bare_say(bare, &echo);
    do
        bare_hear(bare, &msg);
    while (msg.type == PCCL_MSG_flood_seen && msg.as.flood_seen.bytes <= sizeof filler);
    assert_int_equal(msg.type, PCCL_MSG_echo);
    assert_int_equal(msg.as.echo.answer, 1);
    assert_int_equal(msg.as.echo.stamp, 99);
    msg = (struct pccl_msg){.type = PCCL_MSG_link_bye};
    bare_say(bare, &msg);
    bare_hear_end(bare);
    close(bare);
    assert_int_equal(answerer.warned, 0);
    node_finish(&answerer);
}

static void expect_closed(struct node *answerer, const void *bytes, size_t length, const char *reason)
{
    struct pccl_id self = node_id(7);
    uint32_t over = answerer->over;
    int bare = bare_link(answerer, &self, 0);
    bare_write(bare, bytes, length);
    bare_hear_end(bare);
    close(bare);
    node_until_count(answerer, &answerer->over, over + 1);
    if (!strstr(answerer->reason.bytes, reason))
        fail_msg("'%s' is not in: %s", reason, answerer->reason.bytes);
}

TEST(an_answerer_closes_what_makes_no_sense)
{
    struct node answerer;
    static uint8_t frame[NODE_FRAME_MAX], filler[4];
    struct pccl_msg msg = {.type = PCCL_MSG_echo, .as.echo = {.answer = 1, .stamp = 1}};
    node_make(&answerer, 2);
    expect_closed(&answerer, "GET / HTTP/1.1\r\nHost: nowhere.example\r\n\r\n", 41, "frame");
    pccl_frame_encode(&msg, 0, 0, frame); /* an answer to nothing */
    expect_closed(&answerer, frame, pccl_frame_size(&msg), "echo");
    frame[PCCL_FRAME_HEADER_BYTES] ^= 1; /* a checksum */
    expect_closed(&answerer, frame, pccl_frame_size(&msg), "checksum");
    msg = (struct pccl_msg){.type = PCCL_MSG_flood_seen, .as.flood_seen = {.bytes = 1}};
    pccl_frame_encode(&msg, 0, 0, frame);
    expect_closed(&answerer, frame, pccl_frame_size(&msg), "flood_seen");
    msg = (struct pccl_msg){.type = PCCL_MSG_flood, .as.flood = {.filler = {.data = filler, .length = 4}}};
    pccl_frame_encode(&msg, 0, 0, frame);
    frame[PCCL_FRAME_HEADER_BYTES] = 5; /* more filler than frame */
    expect_closed(&answerer, frame, pccl_frame_size(&msg), "flood of 5");
    frame[2] = frame[PCCL_FRAME_HEADER_BYTES + 2] = 2; /* more than may be sent */
    frame[PCCL_FRAME_HEADER_BYTES] = 4;
    expect_closed(&answerer, frame, pccl_frame_size(&msg), "flood of 131076");
    node_finish(&answerer);
}

/* A peer that requests echoes and never reads the answers: they do not pile up. */
TEST(an_answerer_does_not_hoard_answers)
{
    struct node answerer;
    struct pccl_id self = node_id(7);
    struct pccl_msg msg = {.type = PCCL_MSG_echo};
    uint8_t frame[64];
    node_make(&answerer, 2);
    int bare = bare_link(&answerer, &self, 0);
    pccl_frame_encode(&msg, 0, 0, frame);
    while (send(bare, frame, pccl_frame_size(&msg), MSG_NOSIGNAL) > 0)
        continue;
    node_until_count(&answerer, &answerer.over, 1);
    close(bare);
    node_finish(&answerer);
}

TEST(a_peer_that_dials_too_often_loses_its_oldest)
{
    struct node answerer;
    struct pccl_id self = node_id(7), other = node_id(8);
    int bare[PCCL_POOL_MAX + 1];
    node_make(&answerer, 2);
    int bystander = bare_link(&answerer, &other, 0);
    for (int i = 0; i <= PCCL_POOL_MAX; i++)
        bare[i] = bare_link(&answerer, &self, (uint8_t)(i % PCCL_POOL_MAX));
    bare_hear_end(bare[0]);
    struct pccl_msg echo = {.type = PCCL_MSG_echo, .as.echo = {.stamp = 5}};
    bare_say(bare[1], &echo);
    bare_hear(bare[1], &echo);
    assert_int_equal(echo.as.echo.answer, 1);
    echo.as.echo.answer = 0;
    bare_say(bystander, &echo);
    bare_hear(bystander, &echo);
    assert_int_equal(echo.as.echo.answer, 1);
    for (int i = 0; i <= PCCL_POOL_MAX; i++)
        close(bare[i]);
    close(bystander);
    node_finish(&answerer);
}
