/*
 * wire/session: numbers, acknowledgments, duplicates and gaps, and the state that a full queue or short memory leaves
 * unchanged.
 */
#include "unit.h"
#include "core/limits.h"
#include "support.h"
#include "wire/frame.h"
#include "wire/session.h"

static struct pccl_wire_scratch scratch;
static struct test_memory memory;
static struct pccl_session session;

static int begin(void **state)
{
    test_memory_init(&memory);
    pccl_session_init(&session, &memory.memory);
    return 0;
}

static int end(void **state)
{
    pccl_session_fini(&session);
    assert_int_equal(memory.live_blocks, 0);
    return 0;
}

#define SESSION_TEST(name) TEST_IN(name, begin, end)

static enum pccl_status try_push(uint64_t round, uint64_t mark, struct pccl_bytes *frame)
{
    struct pccl_msg msg = {.type = PCCL_MSG_vote, .as.vote = {.round = round}};
    return pccl_session_push(&session, &msg, mark, frame);
}

static void push(uint64_t round, uint64_t mark)
{
    struct pccl_bytes frame;
    assert_int_equal(try_push(round, mark, &frame), PCCL_OK);
}

/* Acknowledges a valid number; this returns `mark`. */
static void acknowledge(uint64_t number, uint64_t mark)
{
    bool invalid;
    assert_int_equal(pccl_session_acknowledge(&session, number, &invalid), mark);
    assert_false(invalid);
}

/* Decodes the frame: its sequence, the sequence it acknowledges, and the vote's round. */
static void open_frame(struct pccl_bytes bytes, uint64_t *sequence, uint64_t *acknowledged, uint64_t *round)
{
    struct test_memory m;
    struct pccl_frame_reader reader;
    struct pccl_frame frame;
    struct pccl_text reason;
    struct pccl_msg msg;
    size_t room;
    test_memory_init(&m);
    pccl_frame_reader_init(&reader, &m.memory);
    uint8_t *space = pccl_frame_reader_space(&reader, &room);
    assert_true(space != NULL && room >= bytes.length);
    memcpy(space, bytes.data, bytes.length);
    pccl_frame_reader_filled(&reader, bytes.length);
    assert_int_equal(pccl_frame_reader_next(&reader, &frame, &reason), 1);
    assert_int_equal(pccl_wire_decode(frame.type, frame.body, frame.length, &scratch, &msg, &reason), PCCL_OK);
    *sequence = frame.sequence;
    *acknowledged = frame.acknowledged;
    *round = msg.as.vote.round;
    pccl_frame_reader_fini(&reader);
}

/* Checks that the walk shows exactly the votes first..last, with these numbers. */
static void expect_queue(uint64_t first, uint64_t last)
{
    const struct pccl_session_entry *entry = NULL;
    struct pccl_bytes frame;
    uint64_t expected = first, bytes = 0;
    while ((entry = pccl_session_unacknowledged(&session, entry, &frame)) != NULL) {
        uint64_t sequence, acknowledged, round;
        open_frame(frame, &sequence, &acknowledged, &round);
        assert_int_equal(sequence, expected);
        assert_int_equal(round, expected);
        bytes += frame.length;
        expected++;
    }
    assert_int_equal(expected, last + 1);
    assert_int_equal(session.queued_count, last + 1 - first);
    assert_int_equal(session.queued_bytes, bytes);
}

SESSION_TEST(test_numbers_keeps_and_releases)
{
    bool invalid;
    expect_queue(1, 0);
    for (uint64_t i = 1; i <= 10; i++)
        push(i, 0);
    expect_queue(1, 10);
    acknowledge(4, 0);
    expect_queue(5, 10);
    acknowledge(3, 0); /* late: nothing happens */
    expect_queue(5, 10);
    (void)pccl_session_acknowledge(&session, 11, &invalid); /* never sent */
    assert_true(invalid);
    expect_queue(5, 10);
    acknowledge(10, 0);
    expect_queue(11, 10);
    assert_int_equal(memory.live_blocks, 0);
    push(11, 0);
    expect_queue(11, 11);
}

SESSION_TEST(test_marks)
{
    static const uint64_t marks[] = {100, 0, 200, 0, 300, 50};
    for (uint64_t i = 0; i < PCCL_COUNT_OF(marks); i++)
        push(i, marks[i]);
    acknowledge(2, 100);
    acknowledge(4, 200);
    acknowledge(4, 0);
    acknowledge(6, 300);
}

SESSION_TEST(test_duplicates_and_gaps)
{
    static const struct {
        uint64_t sequence;
        bool accepted, gap;
    } rows[] = {{1, true, false},  {2, true, false}, {0, false, false},         {1, false, false},
                {2, false, false}, {4, false, true}, {UINT64_MAX, false, true}, {3, true, false}};
    bool gap;
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        assert_int_equal(pccl_session_accept(&session, rows[i].sequence, &gap), rows[i].accepted);
        assert_int_equal(gap, rows[i].gap);
        assert_int_equal(session.received, i == 0 ? 1 : rows[i].sequence == 3 ? 3 : 2);
    }
}

SESSION_TEST(test_acknowledgments_ride_along)
{
    bool gap;
    for (uint64_t i = 1; i <= PCCL_SESSION_ACK_EVERY; i++) {
        assert_false(pccl_session_needs_acknowledgment(&session));
        assert_true(pccl_session_accept(&session, i, &gap));
    }
    assert_true(pccl_session_needs_acknowledgment(&session));
    struct pccl_bytes frame;
    uint64_t sequence, acknowledged, round;
    assert_int_equal(try_push(1, 0, &frame), PCCL_OK);
    open_frame(frame, &sequence, &acknowledged, &round);
    assert_int_equal(acknowledged, PCCL_SESSION_ACK_EVERY);
    assert_false(pccl_session_needs_acknowledgment(&session));
}

SESSION_TEST(test_reset_forgets)
{
    bool gap;
    push(1, 5);
    push(2, 6);
    assert_true(pccl_session_accept(&session, 1, &gap));
    acknowledge(1, 5);
    pccl_session_reset(&session);
    assert_int_equal(memory.live_blocks, 0);
    assert_true(pccl_session_accept(&session, 1, &gap));
    push(1, 0);
    expect_queue(1, 1);
}

SESSION_TEST(test_full_queue_is_refused)
{
    struct pccl_bytes frame;
    for (uint64_t i = 1; i <= PCCL_SESSION_QUEUE_MAX; i++)
        push(i, 0);
    assert_int_equal(try_push(0, 0, &frame), PCCL_LIMIT);
    assert_int_equal(session.sent, PCCL_SESSION_QUEUE_MAX);
    acknowledge(1, 0);
    push(PCCL_SESSION_QUEUE_MAX + 1, 0);
}

SESSION_TEST(test_queue_full_of_bytes_is_refused)
{
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    struct pccl_msg done = {.type = PCCL_MSG_done, .as.done = {.tiny = 1, .payload = {payload, sizeof payload}}};
    struct pccl_bytes frame;
    enum pccl_status status;
    while ((status = pccl_session_push(&session, &done, 0, &frame)) == PCCL_OK)
        assert_true(session.queued_bytes <= PCCL_SESSION_BYTES_MAX);
    assert_int_equal(status, PCCL_LIMIT);
    assert_true(session.queued_count < PCCL_SESSION_QUEUE_MAX);
    assert_true(session.queued_bytes + pccl_frame_size(&done) > PCCL_SESSION_BYTES_MAX);
}

SESSION_TEST(test_short_memory_changes_nothing)
{
    struct pccl_bytes frame;
    for (uint64_t i = 1; i <= 20; i++) {
        memory.fail_at = memory.requests + 1;
        assert_int_equal(try_push(0, 9, &frame), PCCL_MEMORY);
        expect_queue(1, i - 1);
        push(i, 0);
    }
    expect_queue(1, 20);
}
