/*
 * net/channel over real sockets, and through pipes: payload from and to the caller's memory, silence, the good-bye, and
 * the reason of the end. Frames are tested with connections (test_connection), and payload as a peer sees it with the
 * engine (test_engine_wire).
 */
#include "unit.h"
#include "loopback.h"
#include "net/channel.h"

enum { SINK_BYTES = 512, PAYLOAD_BYTES = 32 << 20 /* more than the socket buffers of the loopback hold */ };

struct fixture {
    uv_loop_t loop;
    struct pccl_channel channel;
    int bare;
    uint8_t sink[SINK_BYTES];
    uint8_t *target;
    const uint8_t *payload;
    /* results of the events */
    bool input, late, parting, parted, released, all_received;
    enum pccl_channel_io io;
};

static struct fixture *fixture_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct fixture, channel);
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct fixture *f = fixture_of(channel);
    size_t budget = 1 << 20;
    int news = pccl_channel_begin(channel, ready);
    if (news & UV_WRITABLE)
        f->io = pccl_channel_push(channel);
    if (news & ~UV_WRITABLE)
        f->io = pccl_channel_read(channel, &budget);
    f->input = f->input || (news & ~UV_WRITABLE);
    f->all_received = channel->received == channel->expected;
    pccl_channel_watch(channel, f->io == PCCL_CHANNEL_ENDED ? 0 : UV_READABLE);
}

static void on_late(struct pccl_channel *channel) { fixture_of(channel)->late = true; }
static void on_parting(struct pccl_channel *channel) { fixture_of(channel)->parting = true; }
static void on_parted(struct pccl_channel *channel) { fixture_of(channel)->parted = true; }
static void on_released(struct pccl_channel *channel) { fixture_of(channel)->released = true; }

static const struct pccl_channel_events events = {
    .visit = on_visit, .late = on_late, .parting = on_parting, .parted = on_parted, .released = on_released};

static void begin(struct fixture *f)
{
    uv_os_sock_t ours;
    memset(f, 0, sizeof *f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    loopback_pair(&ours, &f->bare);
    pccl_channel_init(&f->channel, pccl_heap(), ours, &events);
    f->channel.sink = f->sink;
    f->channel.sink_bytes = sizeof f->sink;
    assert_true(pccl_channel_open(&f->channel, &f->loop));
    pccl_channel_watch(&f->channel, UV_READABLE);
}

static void end(struct fixture *f)
{
    if (f->channel.state == PCCL_CHANNEL_OPEN)
        pccl_channel_close(&f->channel);
    close(f->bare);
    loopback_end(&f->loop);
    assert_true(f->released);
}

static uint8_t byte_of(size_t at) { return (uint8_t)(at * 31 + at / 251); }

static uint8_t *make_payload(void)
{
    uint8_t *bytes = malloc(PAYLOAD_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < PAYLOAD_BYTES; i++)
        bytes[i] = byte_of(i);
    return bytes;
}

/*
 * Checks the bytes that the other side receives, while the loop runs. Returns false if a byte from offset `from` on
 * differs from byte_of.
 */
static bool hears_payload(struct fixture *f, size_t from, size_t to)
{
    static uint8_t got[256 << 10];
    bool right = true;
    while (from < to) {
        loopback_until_readable(&f->loop, f->bare);
        ssize_t more = recv(f->bare, got, (size_t)pccl_min_u64(sizeof got, to - from), MSG_DONTWAIT);
        assert_true(more > 0);
        for (ssize_t i = 0; i < more; i++)
            right = right && got[i] == byte_of(from + (size_t)i);
        from += (size_t)more;
    }
    return right;
}

static void hears_frame(struct fixture *f, uint16_t type)
{
    uint8_t frame[PCCL_FRAME_HEADER_BYTES + UINT8_MAX];
    loopback_until_readable(&f->loop, f->bare);
    loopback_read(f->bare, frame, PCCL_FRAME_HEADER_BYTES);
    assert_int_equal(frame[4] | frame[5] << 8, type);
    loopback_read(f->bare, frame + PCCL_FRAME_HEADER_BYTES, frame[0]);
}

static void begin_message(struct fixture *f)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_bye}; /* any will do */
    assert_true(pccl_channel_put_message(&f->channel, &msg));
    pccl_channel_put_payload(&f->channel, &f->payload, PAYLOAD_BYTES);
    assert_int_equal(pccl_channel_push(&f->channel), PCCL_CHANNEL_WAITS);
    assert_true(f->channel.blocked);
    pccl_channel_watch(&f->channel, UV_READABLE);
}

/* Begins with a message whose payload is being sent. Returns the payload, which the test frees. */
static uint8_t *begin_with_payload(struct fixture *f)
{
    uint8_t *bytes = make_payload();
    begin(f);
    f->payload = bytes;
    begin_message(f);
    return bytes;
}

TEST(payload_follows_its_frame)
{
    struct fixture f;
    uint8_t *bytes = begin_with_payload(&f);
    hears_frame(&f, PCCL_MSG_link_bye);
    assert_true(hears_payload(&f, 0, PAYLOAD_BYTES));
    assert_false(pccl_channel_is_sending(&f.channel));
    assert_int_equal(f.io, PCCL_CHANNEL_MOVED);
    end(&f);
    free(bytes);
}

TEST(what_is_taken_back_goes_on_as_filler)
{
    struct fixture f;
    uint8_t *bytes = begin_with_payload(&f);
    f.payload = NULL;
    free(bytes); /* no thread reads it from now on */
    size_t before = f.channel.payload_sent;
    hears_frame(&f, PCCL_MSG_link_bye);
    assert_true(hears_payload(&f, 0, before));
    assert_false(hears_payload(&f, before, PAYLOAD_BYTES));
    end(&f);
}

TEST(payload_goes_to_its_target_and_the_next_frame_to_the_reader)
{
    enum { BYTES = 5000 };
    static uint8_t sent[BYTES + 256], target[BYTES];
    for (int wanted = 0; wanted < 2; wanted++) {
        struct fixture f;
        struct pccl_frame frame;
        struct pccl_text reason;
        begin(&f);
        for (size_t i = 0; i < BYTES; i++)
            sent[i] = byte_of(i);
        size_t length = loopback_frame("behind it", sent + BYTES, sizeof sent - BYTES);
        f.target = wanted ? target : NULL;
        pccl_channel_expect(&f.channel, &f.target, BYTES);
        assert_int_equal(send(f.bare, sent, BYTES + length, MSG_NOSIGNAL), (ssize_t)(BYTES + length));
        loopback_until(&f.loop, &f.all_received);
        int got = 0;
        while ((got = pccl_frame_reader_next(&f.channel.reader, &frame, &reason)) == 0)
            uv_run(&f.loop, UV_RUN_ONCE);
        assert_int_equal(got, 1);
        loopback_words(&frame, &reason);
        assert_string_equal(reason.bytes, "behind it");
        if (wanted)
            assert_memory_equal(target, sent, BYTES);
        end(&f);
    }
}

TEST(leaving_completes_what_is_under_way_and_says_good_bye)
{
    struct fixture f;
    uint8_t *bytes = make_payload(), byte;
    begin(&f);
    f.payload = bytes;
    begin_message(&f);
    pccl_channel_leave(&f.channel, true, LOOPBACK_HANG_MS);
    assert_false(f.parting);
    hears_frame(&f, PCCL_MSG_link_bye); /* the message's own */
    assert_true(hears_payload(&f, 0, PAYLOAD_BYTES));
    hears_frame(&f, PCCL_MSG_link_bye);
    loopback_until_readable(&f.loop, f.bare);
    assert_int_equal(recv(f.bare, &byte, 1, 0), 0); /* an orderly end */
    assert_true(f.parting);
    assert_false(f.parted); /* the channel waits for our end */
    assert_int_equal(send(f.bare, "thrown away", 11, MSG_NOSIGNAL), 11);
    assert_int_equal(shutdown(f.bare, SHUT_WR), 0);
    loopback_until(&f.loop, &f.parted);
    end(&f);
    free(bytes);
}

TEST(leaving_does_not_wait_for_ever)
{
    struct fixture f;
    begin(&f);
    pccl_channel_leave(&f.channel, true, 1);
    loopback_until(&f.loop, &f.parted);
    end(&f);
}

TEST(who_owes_something_must_move)
{
    struct fixture f;
    begin(&f);
    pccl_channel_owed(&f.channel, 1);
    loopback_until(&f.loop, &f.late);
    pccl_channel_owed(&f.channel, 0);
    end(&f);
}

TEST(our_own_failure_is_told_when_the_end_has_come)
{
    struct fixture f;
    uint8_t byte = 1;
    begin(&f);
    f.channel.out_max = 1;
    assert_int_equal(send(f.bare, &byte, 1, MSG_NOSIGNAL), 1);
    assert_false(pccl_channel_put(&f.channel, (const uint8_t *)"two", 2));
    assert_int_equal(pccl_channel_push(&f.channel), PCCL_CHANNEL_ENDED);
    loopback_until(&f.loop, &f.input); /* bytes that arrived before the end are read */
    while (f.io != PCCL_CHANNEL_ENDED)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.channel.reader.end, 1);
    assert_int_equal(f.channel.ended, UV_ENOBUFS);
    assert_int_equal(pccl_channel_evidence(&f.channel), 0);
    end(&f);
}

/* ---- with a pipe ---- */

/* One of two channels on one loop, with a pipe between them. */
struct half {
    struct pccl_channel channel;
    uint8_t sink[SINK_BYTES];
    uint8_t *target;
    const uint8_t *payload;
    int watched; /* events of the input that it watches */
    int news;    /* all events of its visits */
    uint32_t visits, turns, messages, messages_of_other;
    struct half *other;
    bool got_all, sent_all, heard_bye, heard_end, parted, released;
};

struct pair {
    uv_loop_t loop;
    struct half here, there;
};

static struct half *half_of(struct pccl_channel *channel) { return PCCL_CONTAINER_OF(channel, struct half, channel); }

static void hear_frames(struct half *half)
{
    static struct pccl_wire_scratch scratch;
    struct pccl_channel *channel = &half->channel;
    struct pccl_msg msg;
    struct pccl_text reason;
    enum pccl_channel_io io;
    if (channel->received < channel->expected)
        return;
    while ((io = pccl_channel_message(channel, &scratch, &msg, &reason)) == PCCL_CHANNEL_MOVED) {
        half->messages++;
        half->heard_bye = half->heard_bye || msg.type == PCCL_MSG_link_bye;
    }
    assert_int_equal(io, PCCL_CHANNEL_WAITS);
}

static void read_half(struct half *half)
{
    struct pccl_channel *channel = &half->channel;
    size_t budget = 1 << 20;
    enum pccl_channel_io io = PCCL_CHANNEL_MOVED;
    while (io == PCCL_CHANNEL_MOVED && budget) {
        io = pccl_channel_read(channel, &budget);
        if (io == PCCL_CHANNEL_MOVED)
            hear_frames(half);
    }
    half->heard_end = io == PCCL_CHANNEL_ENDED;
    half->got_all = channel->received == channel->expected;
}

static void put_small_message(struct half *half)
{
    struct pccl_msg msg = {.type = PCCL_MSG_leave};
    assert_true(pccl_channel_put_message(&half->channel, &msg));
}

/* Sends one message, and then lets others have their turn. */
static void take_turn(struct half *half)
{
    half->turns--;
    half->messages_of_other = half->other->messages;
    put_small_message(half);
    assert_int_equal(pccl_channel_push(&half->channel), PCCL_CHANNEL_MOVED);
    if (half->turns)
        pccl_channel_yield(&half->channel);
}

static void visit_half(struct pccl_channel *channel, int ready)
{
    struct half *half = half_of(channel);
    int news = pccl_channel_begin(channel, ready);
    half->visits++;
    half->news |= news;
    if ((news & UV_WRITABLE) && half->turns)
        take_turn(half);
    if ((news & UV_WRITABLE) && pccl_channel_push(channel) == PCCL_CHANNEL_MOVED)
        half->sent_all = true;
    if (news & ~UV_WRITABLE)
        read_half(half);
    pccl_channel_watch(channel, half->heard_end ? 0 : half->watched);
}

static void half_parted(struct pccl_channel *channel) { half_of(channel)->parted = true; }
static void half_released(struct pccl_channel *channel) { half_of(channel)->released = true; }

static const struct pccl_channel_events half_events = {
    .visit = visit_half, .late = on_late, .parted = half_parted, .released = half_released};

static void begin_half(struct half *half, uv_loop_t *loop, uv_os_sock_t socket, struct pccl_pipe *pipe)
{
    struct pccl_handover handover = loopback_handover(socket, (const uint8_t *)"\0", 1); /* an early wake-up byte */
    handover.pipe = pipe;
    half->watched = UV_READABLE;
    half->channel.sink = half->sink;
    half->channel.sink_bytes = sizeof half->sink;
    pccl_channel_init(&half->channel, pccl_heap(), socket, &half_events);
    pccl_channel_adopt(&half->channel, &handover);
    assert_true(pccl_channel_open(&half->channel, loop));
    pccl_channel_watch(&half->channel, half->watched);
}

static void begin_pair(struct pair *p)
{
    int sockets[2];
    uint8_t byte = 1;
    struct pccl_pipe *offered = pccl_pipe_offer(pccl_heap()), *taken;
    if (!offered)
        skip(); /* this system has no pipes */
    memset(p, 0, sizeof *p);
    p->here.other = &p->there;
    p->there.other = &p->here;
    assert_int_equal(uv_loop_init(&p->loop), 0);
    bare_pair(sockets);
    assert_int_equal(pccl_pipe_send_offer(offered, sockets[0], &byte, 1), 1);
    assert_int_equal(pccl_pipe_read_offer(pccl_heap(), sockets[1], &byte, 1, &taken), 1);
    assert_non_null(taken);
    begin_half(&p->here, &p->loop, sockets[0], offered);
    begin_half(&p->there, &p->loop, sockets[1], taken);
}

static void end_pair(struct pair *p)
{
    if (p->here.channel.state == PCCL_CHANNEL_OPEN)
        pccl_channel_close(&p->here.channel);
    if (p->there.channel.state == PCCL_CHANNEL_OPEN)
        pccl_channel_close(&p->there.channel);
    loopback_end(&p->loop);
    assert_true(p->here.released && p->there.released);
}

/* Makes the visits that are due without an event from outside. */
static void settle(struct pair *p)
{
    for (uint32_t before = UINT32_MAX; before != p->here.visits + p->there.visits;) {
        before = p->here.visits + p->there.visits;
        uv_run(&p->loop, UV_RUN_NOWAIT);
        uv_run(&p->loop, UV_RUN_NOWAIT);
    }
}

static void send_payload(struct half *half, const uint8_t *bytes)
{
    half->payload = bytes;
    pccl_channel_put_payload(&half->channel, &half->payload, PAYLOAD_BYTES);
    assert_int_equal(pccl_channel_push(&half->channel), PCCL_CHANNEL_WAITS); /* larger than the pipe */
    pccl_channel_watch(&half->channel, half->watched);
}

static void expect_payload(struct half *half)
{
    half->target = malloc(PAYLOAD_BYTES);
    assert_non_null(half->target);
    pccl_channel_expect(&half->channel, &half->target, PAYLOAD_BYTES);
}

TEST(payloads_go_both_ways_at_once)
{
    struct pair p;
    begin_pair(&p);
    uint8_t *bytes = make_payload();
    expect_payload(&p.here);
    expect_payload(&p.there);
    send_payload(&p.here, bytes);
    send_payload(&p.there, bytes);
    loopback_until(&p.loop, &p.here.got_all);
    loopback_until(&p.loop, &p.there.got_all);
    loopback_until(&p.loop, &p.here.sent_all);
    loopback_until(&p.loop, &p.there.sent_all);
    assert_memory_equal(p.here.target, bytes, PAYLOAD_BYTES);
    assert_memory_equal(p.there.target, bytes, PAYLOAD_BYTES);
    end_pair(&p);
    free(p.here.target);
    free(p.there.target);
    free(bytes);
}

TEST(a_pipe_brings_everything_and_the_good_bye)
{
    for (int back = 0; back < 2; back++) {
        struct pair p;
        begin_pair(&p);
        struct half *leaves = back ? &p.there : &p.here, *stays = leaves->other;
        uint8_t *bytes = make_payload();
        expect_payload(stays);
        send_payload(leaves, bytes);
        pccl_channel_leave(&leaves->channel, true, LOOPBACK_HANG_MS);
        loopback_until(&p.loop, &stays->heard_end);
        assert_true(stays->got_all);
        assert_memory_equal(stays->target, bytes, PAYLOAD_BYTES);
        assert_true(stays->heard_bye);
        assert_int_equal(stays->channel.ended, UV_EOF);
        assert_false(leaves->parted); /* the channel waits for our end */
        pccl_channel_close(&stays->channel);
        loopback_until(&p.loop, &leaves->parted);
        end_pair(&p);
        free(stays->target);
        free(bytes);
    }
}

/* The messages of the side that stays silent are discarded, and delay no other side. */
TEST(who_leaves_through_a_pipe_discards_what_comes)
{
    struct pair p;
    begin_pair(&p);
    uint8_t *bytes = make_payload();
    send_payload(&p.there, bytes);
    pccl_channel_leave(&p.here.channel, true, LOOPBACK_HANG_MS);
    loopback_until(&p.loop, &p.there.heard_end);
    assert_true(p.there.heard_bye);
    assert_int_equal(p.there.channel.ended, UV_EOF);
    pccl_channel_close(&p.there.channel);
    loopback_until(&p.loop, &p.here.parted);
    end_pair(&p);
    free(bytes);
}

TEST(both_leave_through_a_pipe)
{
    struct pair p;
    begin_pair(&p);
    pccl_channel_leave(&p.here.channel, true, LOOPBACK_HANG_MS);
    pccl_channel_leave(&p.there.channel, true, LOOPBACK_HANG_MS);
    loopback_until(&p.loop, &p.here.parted);
    loopback_until(&p.loop, &p.there.parted);
    end_pair(&p);
}

TEST(who_watches_for_the_end_alone_is_told_of_no_input)
{
    struct pair p;
    begin_pair(&p);
    settle(&p);
    p.there.watched = UV_DISCONNECT;
    pccl_channel_watch(&p.there.channel, UV_DISCONNECT);
    put_small_message(&p.here);
    assert_int_equal(pccl_channel_push(&p.here.channel), PCCL_CHANNEL_MOVED);
    settle(&p);
    assert_int_equal(p.there.news, 0);
    assert_int_equal(p.there.messages, 0);
    pccl_channel_close(&p.here.channel);
    loopback_until(&p.loop, &p.there.heard_end);
    assert_true(p.there.news & UV_DISCONNECT);
    assert_int_equal(p.there.messages, 1);
    assert_int_equal(p.there.channel.ended, UV_EOF);
    end_pair(&p);
}

/* There is no wake-up byte: it was due when no side waited. */
TEST(who_watches_for_input_again_is_told_of_what_is_there)
{
    struct pair p;
    begin_pair(&p);
    pccl_channel_watch(&p.there.channel, p.there.watched = UV_DISCONNECT);
    put_small_message(&p.here);
    assert_int_equal(pccl_channel_push(&p.here.channel), PCCL_CHANNEL_MOVED);
    settle(&p);
    assert_int_equal(p.there.messages, 0);
    pccl_channel_watch(&p.there.channel, p.there.watched = UV_READABLE);
    settle(&p);
    assert_int_equal(p.there.messages, 1);
    end_pair(&p);
}

TEST(what_was_written_into_a_pipe_before_the_end_is_read)
{
    for (int resets = 0; resets < 2; resets++) {
        struct pair p;
        begin_pair(&p);
        uint8_t *bytes = make_payload();
        expect_payload(&p.there);
        send_payload(&p.here, bytes);
        uint32_t sent = p.here.channel.payload_sent;
        assert_in_range(sent, 1, PAYLOAD_BYTES - 1);
        if (resets)
            pccl_channel_abort(&p.here.channel);
        else
            pccl_channel_close(&p.here.channel);
        loopback_until(&p.loop, &p.there.heard_end);
        assert_int_equal(p.there.channel.received, sent);
        assert_memory_equal(p.there.target, bytes, sent);
        assert_false(p.there.got_all);
        assert_int_equal(p.there.channel.ended, UV_EOF);
        assert_int_equal(pccl_channel_evidence(&p.there.channel), PCCL_LINK_CLOSED);
        end_pair(&p);
        free(p.there.target);
        free(bytes);
    }
}

/* The other side has its turn before our next one: it has read each message by then. */
TEST(who_yields_goes_on_after_the_others)
{
    enum { TURNS = 10 };
    struct pair p;
    begin_pair(&p);
    settle(&p);
    p.here.turns = TURNS;
    pccl_channel_yield(&p.here.channel);
    assert_int_equal(pccl_channel_push(&p.here.channel), PCCL_CHANNEL_MOVED); /* there was nothing */
    pccl_channel_watch(&p.here.channel, UV_READABLE);
    loopback_until(&p.loop, &p.here.sent_all);
    while (p.here.turns) {
        uint32_t before = p.here.turns;
        uv_run(&p.loop, UV_RUN_NOWAIT);
        if (p.here.turns < before)
            assert_int_equal(p.here.messages_of_other, TURNS - before);
    }
    settle(&p);
    assert_int_equal(p.there.messages, TURNS);
    assert_false(p.here.channel.blocked);
    end_pair(&p);
}

/* After our own failure the cause is ours, whatever the other side does. */
TEST(our_own_failure_ends_a_pipe)
{
    struct pair p;
    begin_pair(&p);
    settle(&p);
    put_small_message(&p.there);
    assert_int_equal(pccl_channel_push(&p.there.channel), PCCL_CHANNEL_MOVED);
    pccl_channel_fail(&p.here.channel, UV_ENOBUFS);
    assert_int_equal(pccl_channel_push(&p.here.channel), PCCL_CHANNEL_ENDED);
    loopback_until(&p.loop, &p.here.heard_end);
    assert_int_equal(p.here.messages, 1); /* bytes that arrived before the end are read */
    assert_int_equal(p.here.channel.ended, UV_ENOBUFS);
    assert_int_equal(pccl_channel_evidence(&p.here.channel), 0);
    loopback_until(&p.loop, &p.there.heard_end);
    assert_int_equal(p.there.channel.ended, UV_EOF);
    end_pair(&p);
}
