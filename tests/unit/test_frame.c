/* wire/frame: the header's layout, every flipped bit, limits of length, and how the reader's buffer moves and grows. */
#include "unit.h"
#include "core/prng.h"
#include "support.h"
#include "support/wire_random.h"
#include "wire/frame.h"

static struct pccl_wire_scratch made;
static uint8_t bytes[PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_BODY_MAX];

/* Feeds bytes as the buffer has room. Returns false if memory is short; *length is then the number of bytes left. */
static bool feed(struct pccl_frame_reader *reader, const uint8_t *data, size_t *length)
{
    while (*length > 0) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(reader, &room);
        if (space == NULL)
            return false;
        assert_true(room > 0);
        size_t part = room < *length ? room : *length;
        memcpy(space, data, part);
        pccl_frame_reader_filled(reader, part);
        data += part;
        *length -= part;
    }
    return true;
}

static void feed_all(struct pccl_frame_reader *reader, const uint8_t *data, size_t length)
{
    assert_true(feed(reader, data, &length));
}

static size_t random_frame(struct pccl_prng *prng, uint64_t sequence, struct pccl_msg *msg, size_t most)
{
    uint16_t type;
    do {
        do
            type = (uint16_t)pccl_prng_below(prng, PCCL_MSG_TYPES_MAX);
        while (pccl_wire_layout_of(type) == NULL);
        pccl_wire_random(type, prng, &made, msg);
    } while (pccl_frame_size(msg) > most);
    pccl_frame_encode(msg, sequence, sequence / 2, bytes);
    return pccl_frame_size(msg);
}

static void expect_frame(struct pccl_frame_reader *reader, const struct pccl_msg *msg, uint64_t sequence)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    assert_int_equal(pccl_frame_reader_next(reader, &frame, &reason), 1);
    assert_int_equal(frame.type, msg->type);
    assert_true(frame.sequence == sequence && frame.acknowledged == sequence / 2);
    assert_int_equal(frame.length + PCCL_FRAME_HEADER_BYTES, pccl_frame_size(msg));
    assert_memory_equal(frame.body, bytes + PCCL_FRAME_HEADER_BYTES, frame.length);
}

static int next(struct pccl_frame_reader *reader)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    int result = pccl_frame_reader_next(reader, &frame, &reason);
    assert_int_equal(reason.length > 0, result < 0);
    return result;
}

TEST(test_header_is_as_documented)
{
    struct pccl_msg msg = {.type = PCCL_MSG_leave};
    msg.as.leave.reason = pccl_bytes_of_string("bye");
    assert_int_equal(pccl_frame_size(&msg), 32 + 4 + 3);
    pccl_frame_encode(&msg, 0x1122334455667788, 0x99aabbccddeeff01, bytes);
    static const uint8_t expected[24] = {7,    0,    0,    0,    5,    0,    0,    0,    0x88, 0x77, 0x66, 0x55,
                                         0x44, 0x33, 0x22, 0x11, 0x01, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99};
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(bytes + 28, "\0\0\0\0\3\0\0\0bye", 11);
}

TEST(test_a_byte_at_a_time)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_prng prng = unit_prng(1);
    struct pccl_frame_reader reader;
    pccl_frame_reader_init(&reader, &m.memory);
    for (uint64_t sequence = 1; sequence <= 200; sequence++) {
        struct pccl_msg msg;
        size_t length = random_frame(&prng, sequence, &msg, PCCL_FRAME_HELLO_MAX);
        for (size_t i = 0; i < length; i++) {
            assert_int_equal(next(&reader), 0);
            feed_all(&reader, bytes + i, 1);
        }
        expect_frame(&reader, &msg, sequence);
    }
    assert_int_equal(next(&reader), 0);
    pccl_frame_reader_fini(&reader);
    assert_int_equal(m.live_blocks, 0);
}

/* A flipped bit never gives a frame, for any following bytes. */
TEST(test_every_flipped_bit_is_noticed)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_prng prng = unit_prng(2);
    static const uint8_t zeros[PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_HELLO_MAX];
    for (int round = 0; round < 12; round++) {
        struct pccl_msg msg;
        size_t length = random_frame(&prng, 5, &msg, 500);
        for (size_t bit = 0; bit < 8 * length; bit++) {
            struct pccl_frame_reader reader;
            pccl_frame_reader_init(&reader, &m.memory);
            bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            feed_all(&reader, bytes, length);
            bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            int result = next(&reader);
            if (result == 0) { /* it waits for the longer body that the header names */
                feed_all(&reader, zeros, sizeof zeros - length);
                result = next(&reader);
            }
            assert_int_equal(result, -1);
            assert_int_equal(next(&reader), -1);
            pccl_frame_reader_fini(&reader);
        }
    }
    assert_int_equal(m.live_blocks, 0);
}

TEST(test_limits_of_length)
{
    struct test_memory m;
    test_memory_init(&m);
    const uint32_t limits[2] = {PCCL_FRAME_HELLO_MAX, PCCL_FRAME_BODY_MAX};
    for (int raised = 0; raised < 2; raised++) {
        for (uint32_t over = 0; over < 2; over++) {
            struct pccl_frame_reader reader;
            pccl_frame_reader_init(&reader, &m.memory);
            if (raised)
                pccl_frame_reader_raise(&reader, PCCL_FRAME_BODY_MAX);
            uint32_t claimed = limits[raised] + over;
            uint8_t header[PCCL_FRAME_HEADER_BYTES] = {(uint8_t)claimed, (uint8_t)(claimed >> 8),
                                                       (uint8_t)(claimed >> 16), 0, 1};
            feed_all(&reader, header, sizeof header);
            assert_int_equal(next(&reader), over ? -1 : 0);
            pccl_frame_reader_fini(&reader);
        }
    }
}

/*
 * The buffer follows the bytes that arrived, not the length that was claimed; it ends at one frame and shrinks again.
 */
TEST(test_buffer_follows_the_bytes)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_frame_reader reader;
    pccl_frame_reader_init(&reader, &m.memory);
    pccl_frame_reader_raise(&reader, PCCL_FRAME_BODY_MAX);
    static struct pccl_instance instances[PCCL_OPS_HELD_MAX];
    struct pccl_msg msg = {.type = PCCL_MSG_view_ack};
    msg.as.view_ack.instances = instances;
    msg.as.view_ack.instances_count = PCCL_OPS_HELD_MAX;
    size_t length = pccl_frame_size(&msg);
    assert_true(length > 100000);
    pccl_frame_encode(&msg, 9, 4, bytes);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(next(&reader), 0);
        feed_all(&reader, bytes + i, 1);
        assert_true(m.live_bytes <= 1024 || m.live_bytes <= 2 * (i + 1));
    }
    expect_frame(&reader, &msg, 9);
    assert_true(m.peak_bytes <= 3 * (size_t)(PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_BODY_MAX));
    feed_all(&reader, bytes, 1);
    assert_int_equal(m.live_bytes, 1024);
    pccl_frame_reader_fini(&reader);
    assert_int_equal(m.live_bytes, 0);
}

TEST(test_a_full_buffer_of_small_frames_moves_on)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_prng prng = unit_prng(3);
    struct pccl_frame_reader reader;
    pccl_frame_reader_init(&reader, &m.memory);
    struct pccl_msg vote = {.type = PCCL_MSG_vote};
    size_t length = pccl_frame_size(&vote), filled = 0;
    static uint8_t stream[200 * 64];
    for (uint64_t i = 0; i < 200; i++)
        pccl_frame_encode(&vote, i + 1, 0, stream + i * length);
    uint64_t received = 0;
    while (received < 200) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(&reader, &room);
        assert_non_null(space);
        size_t part = pccl_min_u64(room, pccl_min_u64(200 * length - filled, 1 + pccl_prng_below(&prng, 2000)));
        memcpy(space, stream + filled, part);
        pccl_frame_reader_filled(&reader, part);
        filled += part;
        struct pccl_frame frame;
        struct pccl_text reason;
        int result;
        while ((result = pccl_frame_reader_next(&reader, &frame, &reason)) == 1) {
            received++;
            assert_int_equal(frame.sequence, received);
        }
        assert_int_equal(result, 0);
    }
    assert_int_equal(m.peak_bytes, 1024); /* small frames need no more */
    pccl_frame_reader_fini(&reader);
}

/* Each allocation fails once: the collected bytes are still there, and the frame arrives after another attempt. */
TEST(test_short_memory_loses_nothing)
{
    for (uint64_t fail_at = 1; fail_at <= 9; fail_at++) {
        struct test_memory m;
        test_memory_init(&m);
        m.fail_at = fail_at;
        struct pccl_frame_reader reader;
        pccl_frame_reader_init(&reader, &m.memory);
        pccl_frame_reader_raise(&reader, PCCL_FRAME_BODY_MAX);
        static struct pccl_id ids[PCCL_PEERS_MAX];
        memset(ids, 7, sizeof ids);
        struct pccl_msg msg = {.type = PCCL_MSG_resume_end};
        msg.as.resume_end.dead = ids;
        msg.as.resume_end.dead_count = PCCL_PEERS_MAX;
        size_t length = pccl_frame_size(&msg), left = length;
        pccl_frame_encode(&msg, 3, 1, bytes);
        bool fed = feed(&reader, bytes, &left);
        assert_int_equal(fed, fail_at > 8); /* 1, 2 ... 128 KiB */
        if (!fed)
            feed_all(&reader, bytes + length - left, left);
        expect_frame(&reader, &msg, 3);
        pccl_frame_reader_fini(&reader);
        assert_int_equal(m.live_blocks, 0);
    }
}
