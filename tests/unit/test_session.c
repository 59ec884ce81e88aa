/*
 * wire/session: numbers, acknowledgments, duplicates and gaps, and what a full queue or short
 * memory leave unchanged.
 */
#include "unit.h"
#include "core/limits.h"
#include "support.h"
#include "wire/frame.h"
#include "wire/session.h"

static struct pccl_wire_scratch scratch;

static struct pccl_msg vote(uint64_t round)
{
    struct pccl_msg msg = {.type = PCCL_MSG_vote};
    msg.as.vote.round = round;
    return msg;
}

static void push(struct pccl_session *session, uint64_t round, uint64_t mark)
{
    struct pccl_msg msg = vote(round);
    struct pccl_bytes frame;
    assert_int_equal(pccl_session_push(session, &msg, mark, &frame), PCCL_OK);
}

/* Takes the frame apart: its sequence, what it acknowledges, and the vote's round. */
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

/* The walk shows exactly the votes first..last, numbered alike. */
static void expect_queue(const struct pccl_session *session, uint64_t first, uint64_t last)
{
    const struct pccl_session_entry *entry = NULL;
    struct pccl_bytes frame;
    uint64_t expected = first, bytes = 0;
    while ((entry = pccl_session_unacknowledged(session, entry, &frame)) != NULL) {
        uint64_t sequence, acknowledged, round;
        open_frame(frame, &sequence, &acknowledged, &round);
        assert_int_equal(sequence, expected);
        assert_int_equal(round, expected);
        bytes += frame.length;
        expected++;
    }
    assert_int_equal(expected, last + 1);
    assert_int_equal(session->queued_count, last + 1 - first);
    assert_int_equal(session->queued_bytes, bytes);
}

TEST(test_numbers_keeps_and_releases)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    expect_queue(&session, 1, 0);
    for (uint64_t i = 1; i <= 10; i++)
        push(&session, i, 0);
    expect_queue(&session, 1, 10);
    bool invalid;
    assert_int_equal(pccl_session_acknowledge(&session, 4, &invalid), 0);
    assert_false(invalid);
    expect_queue(&session, 5, 10);
    assert_int_equal(pccl_session_acknowledge(&session, 3, &invalid), 0); /* late: nothing happens */
    assert_false(invalid);
    expect_queue(&session, 5, 10);
    (void)pccl_session_acknowledge(&session, 11, &invalid); /* never sent */
    assert_true(invalid);
    expect_queue(&session, 5, 10);
    (void)pccl_session_acknowledge(&session, 10, &invalid);
    expect_queue(&session, 11, 10);
    assert_int_equal(m.live_blocks, 0);
    push(&session, 11, 0);
    expect_queue(&session, 11, 11);
    pccl_session_fini(&session);
    assert_int_equal(m.live_blocks, 0);
}

TEST(test_marks)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    push(&session, 1, 100);
    push(&session, 2, 0);
    push(&session, 3, 200);
    push(&session, 4, 0);
    bool invalid;
    assert_int_equal(pccl_session_acknowledge(&session, 2, &invalid), 100);
    assert_int_equal(pccl_session_acknowledge(&session, 4, &invalid), 200);
    assert_int_equal(pccl_session_acknowledge(&session, 4, &invalid), 0);
    pccl_session_fini(&session);
}

TEST(test_duplicates_and_gaps)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    bool gap;
    assert_true(pccl_session_accept(&session, 1, &gap) && !gap);
    assert_true(pccl_session_accept(&session, 2, &gap) && !gap);
    for (uint64_t old = 0; old <= 2; old++)
        assert_true(!pccl_session_accept(&session, old, &gap) && !gap);
    assert_true(!pccl_session_accept(&session, 4, &gap) && gap);
    assert_true(!pccl_session_accept(&session, UINT64_MAX, &gap) && gap);
    assert_int_equal(session.received, 2);
    assert_true(pccl_session_accept(&session, 3, &gap) && !gap);
    pccl_session_fini(&session);
}

TEST(test_acknowledgments_ride_along)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    bool gap;
    for (uint64_t i = 1; i <= PCCL_SESSION_ACK_EVERY; i++) {
        assert_false(pccl_session_owes_acknowledgment(&session));
        assert_true(pccl_session_accept(&session, i, &gap));
    }
    assert_true(pccl_session_owes_acknowledgment(&session));
    struct pccl_msg msg = vote(1);
    struct pccl_bytes frame;
    uint64_t sequence, acknowledged, round;
    assert_int_equal(pccl_session_push(&session, &msg, 0, &frame), PCCL_OK);
    open_frame(frame, &sequence, &acknowledged, &round);
    assert_int_equal(acknowledged, PCCL_SESSION_ACK_EVERY);
    assert_false(pccl_session_owes_acknowledgment(&session));
    pccl_session_fini(&session);
}

TEST(test_reset_forgets)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    bool gap, invalid;
    push(&session, 1, 5);
    push(&session, 2, 6);
    assert_true(pccl_session_accept(&session, 1, &gap));
    (void)pccl_session_acknowledge(&session, 1, &invalid);
    pccl_session_reset(&session);
    assert_int_equal(m.live_blocks, 0);
    assert_true(pccl_session_accept(&session, 1, &gap));
    push(&session, 1, 0);
    expect_queue(&session, 1, 1);
    pccl_session_fini(&session);
}

TEST(test_full_queue_is_refused)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    struct pccl_bytes frame;
    struct pccl_msg msg = vote(0);
    pccl_session_init(&session, &m.memory);
    for (uint64_t i = 1; i <= PCCL_SESSION_QUEUE_MAX; i++)
        push(&session, i, 0);
    assert_int_equal(pccl_session_push(&session, &msg, 0, &frame), PCCL_LIMIT);
    assert_int_equal(session.sent, PCCL_SESSION_QUEUE_MAX);
    bool invalid;
    (void)pccl_session_acknowledge(&session, 1, &invalid);
    push(&session, PCCL_SESSION_QUEUE_MAX + 1, 0);
    pccl_session_fini(&session);

    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    struct pccl_msg done = {.type = PCCL_MSG_done};
    done.as.done.tiny = 1;
    done.as.done.payload = (struct pccl_bytes){payload, sizeof payload};
    pccl_session_init(&session, &m.memory);
    enum pccl_status status;
    while ((status = pccl_session_push(&session, &done, 0, &frame)) == PCCL_OK)
        assert_true(session.queued_bytes <= PCCL_SESSION_BYTES_MAX);
    assert_int_equal(status, PCCL_LIMIT);
    assert_true(session.queued_count < PCCL_SESSION_QUEUE_MAX);
    assert_true(session.queued_bytes + pccl_frame_size(&done) > PCCL_SESSION_BYTES_MAX);
    pccl_session_fini(&session);
    assert_int_equal(m.live_blocks, 0);
}

TEST(test_short_memory_changes_nothing)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_session session;
    pccl_session_init(&session, &m.memory);
    struct pccl_msg msg = vote(0);
    struct pccl_bytes frame;
    for (uint64_t i = 1; i <= 20; i++) {
        m.fail_at = m.requests + 1;
        assert_int_equal(pccl_session_push(&session, &msg, 9, &frame), PCCL_MEMORY);
        expect_queue(&session, 1, i - 1);
        push(&session, i, 0);
    }
    expect_queue(&session, 1, 20);
    pccl_session_fini(&session);
}
