/*
 * net/channel over real sockets: payload from and to the caller's memory, silence, the good-bye,
 * why it ended. Frames are tested with connections (test_connection), and what a peer sees of
 * payload with the engine (test_engine_wire).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "loopback.h"
#include "net/channel.h"

enum { SINK_BYTES = 512, PAYLOAD_BYTES = 32 << 20 /* fits into no socket buffer of the loopback */ };

struct fixture {
    uv_loop_t loop;
    struct pccl_channel channel;
    int bare;
    uint8_t sink[SINK_BYTES];
    uint8_t *target;
    const uint8_t *payload;
    /* what the events reported */
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
 * Checks what the other side receives, while the loop runs. false: a byte differs from byte_of,
 * from `from` on.
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

static void payload_follows_its_frame(void **state)
{
    struct fixture f;
    uint8_t *bytes = make_payload();
    (void)state;
    begin(&f);
    f.payload = bytes;
    begin_message(&f);
    hears_frame(&f, PCCL_MSG_link_bye);
    assert_true(hears_payload(&f, 0, PAYLOAD_BYTES));
    assert_false(pccl_channel_is_sending(&f.channel));
    assert_int_equal(f.io, PCCL_CHANNEL_MOVED);
    end(&f);
    free(bytes);
}

static void what_is_taken_back_goes_on_as_filler(void **state)
{
    struct fixture f;
    uint8_t *bytes = make_payload();
    (void)state;
    begin(&f);
    f.payload = bytes;
    begin_message(&f);
    f.payload = NULL;
    free(bytes); /* nobody looks at it any more */
    size_t before = f.channel.payload_sent;
    hears_frame(&f, PCCL_MSG_link_bye);
    assert_true(hears_payload(&f, 0, before));
    assert_false(hears_payload(&f, before, PAYLOAD_BYTES));
    end(&f);
}

static void payload_goes_to_its_target_and_the_next_frame_to_the_reader(void **state)
{
    enum { BYTES = 5000 };
    static uint8_t sent[BYTES + 256], target[BYTES];
    (void)state;
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

static void leaving_completes_what_is_under_way_and_says_good_bye(void **state)
{
    struct fixture f;
    uint8_t *bytes = make_payload(), byte;
    (void)state;
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
    assert_false(f.parted); /* our end is waited for */
    assert_int_equal(send(f.bare, "thrown away", 11, MSG_NOSIGNAL), 11);
    assert_int_equal(shutdown(f.bare, SHUT_WR), 0);
    loopback_until(&f.loop, &f.parted);
    end(&f);
    free(bytes);
}

static void leaving_does_not_wait_for_ever(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    pccl_channel_leave(&f.channel, true, 1);
    loopback_until(&f.loop, &f.parted);
    end(&f);
}

static void who_owes_something_must_move(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    pccl_channel_owed(&f.channel, 1);
    loopback_until(&f.loop, &f.late);
    pccl_channel_owed(&f.channel, 0);
    end(&f);
}

static void our_own_failure_is_told_when_the_end_has_come(void **state)
{
    struct fixture f;
    uint8_t byte = 1;
    (void)state;
    begin(&f);
    f.channel.out_max = 1;
    assert_int_equal(send(f.bare, &byte, 1, MSG_NOSIGNAL), 1);
    assert_false(pccl_channel_put(&f.channel, (const uint8_t *)"two", 2));
    assert_int_equal(pccl_channel_push(&f.channel), PCCL_CHANNEL_ENDED);
    loopback_until(&f.loop, &f.input); /* what came before is read */
    while (f.io != PCCL_CHANNEL_ENDED)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.channel.reader.end, 1);
    assert_int_equal(f.channel.ended, UV_ENOBUFS);
    assert_int_equal(pccl_channel_evidence(&f.channel), 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payload_follows_its_frame),
        cmocka_unit_test(what_is_taken_back_goes_on_as_filler),
        cmocka_unit_test(payload_goes_to_its_target_and_the_next_frame_to_the_reader),
        cmocka_unit_test(leaving_completes_what_is_under_way_and_says_good_bye),
        cmocka_unit_test(leaving_does_not_wait_for_ever),
        cmocka_unit_test(who_owes_something_must_move),
        cmocka_unit_test(our_own_failure_is_told_when_the_end_has_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
