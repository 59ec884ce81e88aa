/*
 * Data sent ahead on a long path, before the receiver's READY: its amount, its fate, and that no peer learns of a
 * success before the peers have been compared.
 */
#include "unit.h"
#include "core/limits.h"
#include "unit/exchange_alone.h"

static struct world world;

enum {
    SEGMENT = 64 << 10,                /* segment on a long path */
    MOST = PCCL_EARLY_BYTES / SEGMENT, /* segments ahead on a lane */
    HELD_MOST = PCCL_EARLY_BUFFER_BYTES / SEGMENT,
    SPARE = PCCL_EARLY_SPARE_COST / (SEGMENT + PCCL_EARLY_SEGMENT_COST), /* for peers without a separate room */
};
static const struct pccl_exchange_config roomy = {.scratch_bytes_max = 96 << 20, .window_bytes = 16 << 20};
static const struct pccl_exchange_config narrow = {.scratch_bytes_max = 1, .window_bytes = 1};

static uint64_t elements_of(uint32_t ranks, uint64_t stripes) { return stripes * ranks * (SEGMENT / 4); }

static struct pccl_exchange *mine(void) { return exchange_of(&alone.world, 0); }

static size_t held(void) { return pccl_exchange_early_bytes(mine()); }

/* Sends all that can be sent over the lane to the next rank. The number of segments. */
static uint32_t send_all(uint32_t step)
{
    uint32_t count = 0;
    struct pccl_departure departure;
    for (; next_to(1, true, &departure); count++) {
        assert_int_equal(departure.msg.as.data.step, step);
        pccl_exchange_sent(mine(), &departure);
    }
    return count;
}

/* Sends READY of the next rank. */
static void grant(uint64_t stripes)
{
    struct pccl_msg ready = ready_of(stripes);
    assert_int_equal(tell_ready(1, &ready), PCCL_OK);
}

/* Takes a whole segment of rank 2. Returns false if it has no place. */
static bool take(const struct pccl_msg *data)
{
    struct pccl_arrival arrival;
    assert_int_equal(tell(2, false, data, &arrival), PCCL_OK);
    if (arrival.payload == NULL)
        return false;
    pccl_exchange_received(mine(), &arrival);
    return true;
}

/* Sends a complete segment of zeros from this rank. */
static void hear(uint32_t from, uint64_t stripe, uint32_t step, uint32_t length)
{
    struct pccl_msg data = data_of(stripe, step, length);
    struct pccl_arrival arrival;
    assert_int_equal(tell(from, false, &data, &arrival), PCCL_OK);
    assert_non_null(arrival.payload);
    memset(arrival.payload, 0, arrival.length);
    pccl_exchange_received(mine(), &arrival);
}

static int set_up(void **state)
{
    be_alone_with(elements_of(3, 2), &long_ring, &roomy);
    return 0;
}

static int tear_down(void **state)
{
    end_alone();
    return 0;
}

/* Starts alone in a ring of three, on a long path, with two stripes. */
#define ALONE_TEST(name) TEST_IN(name, set_up, tear_down)

/* ---- sending ---- */

TEST(a_part_is_sent_without_ready)
{
    be_alone_with(elements_of(3, 3 * MOST), &long_ring, &roomy);
    start_alone();
    assert_int_equal(send_all(0), MOST);
    grant(MOST + 5);
    assert_int_equal(send_all(0), 5);
    end_alone();
    be_alone_with(elements_of(3, 3 * MOST), &no_mesh, &roomy);
    start_alone();
    assert_int_equal(send_all(0), 0);
    end_alone();
    be_alone_with(elements_of(3, 3 * MOST), &long_ring, &narrow); /* only the operation that is open here */
    start_alone();
    assert_int_equal(send_all(0), 1);
    end_alone();
}

/* Flows that use one line at the same time have one allowance, and one window. */
TEST(who_sends_to_all_at_once_sends_no_more_ahead)
{
    enum { STRIPES = MOST / 2 + 8 };
    struct pccl_exchange_config config = roomy;
    struct pccl_departure departure;
    be_alone_with(elements_of(3, STRIPES), &long_mesh, &config);
    start_alone();
    assert_int_equal(send_all(0), MOST / 2);
    grant(STRIPES);
    assert_int_equal(send_all(0), STRIPES - MOST / 2);
    end_alone();
    config.window_bytes = 8 * SEGMENT; /* 4 stripes of two flows; fewer if there are more, as results take room */
    for (uint64_t stripes = 3; stripes <= 5; stripes++) {
        be_alone_with(elements_of(3, stripes), &long_mesh, &config);
        start_alone();
        assert_true(next_to(1, false, &departure));
        assert_int_equal(departure.msg.as.ready.granted, stripes > 4 ? 2 : stripes);
        end_alone();
    }
}

/* Granted in the first READY for an all-to-all: to the one before, and in a mesh to the other one, too. */
static uint64_t granted_of_exchange(const struct pccl_cost *cost, const struct pccl_exchange_config *config)
{
    const struct pccl_descriptor descriptor = {
        .collective = PCCL_ALL_TO_ALL, .datatype = PCCL_U32, .count = elements_of(3, 100)};
    struct pccl_departure departure;
    world_init(&alone.world, 5, 3, 1, true, config);
    alone.world.expects_trouble = true;
    job_init(&alone.world, &alone.job, 0, 9, &descriptor, cost, false);
    fill(&alone.job, 1);
    start_alone();
    assert_true(next_to(2, false, &departure));
    const uint64_t granted = departure.msg.as.ready.granted;
    pccl_exchange_sent(mine(), &departure);
    assert_int_equal(next_to(1, false, &departure), cost->mesh);
    if (cost->mesh) {
        assert_int_equal(departure.msg.as.ready.granted, granted);
        pccl_exchange_sent(mine(), &departure);
    }
    end_alone();
    return granted;
}

/* Around the ring each link carries other bytes, and has its own window. */
TEST(an_all_to_all_has_one_window_for_all)
{
    struct pccl_exchange_config config = roomy;
    config.window_bytes = 8 * SEGMENT;
    assert_int_equal(granted_of_exchange(&long_mesh, &config), 8 + 3); /* every third one stays here: it is complete */
    assert_in_range(granted_of_exchange(&long_ring, &config), 16, 64);
}

ALONE_TEST(later_steps_wait_for_ready)
{
    start_alone();
    assert_int_equal(send_all(0), 2);
    hear(2, 0, 0, SEGMENT); /* and it has no READY of ours */
    assert_int_equal(send_all(1), 0);
    grant(1);
    assert_int_equal(send_all(1), 1);
}

/* The step of the next segment to the next rank. */
static uint32_t next_step(void)
{
    struct pccl_departure departure;
    assert_true(next_to(1, true, &departure));
    pccl_exchange_sent(mine(), &departure);
    return departure.msg.as.data.step;
}

/* The segment with the longest way left is sent first; on a short path the one that arrived first. */
TEST(earlier_steps_go_first)
{
    for (int is_long = 0; is_long < 2; is_long++) {
        const uint32_t segment = is_long ? SEGMENT : 4 * SEGMENT;
        be_alone_with(2 * 3 * (segment / 4), is_long ? &long_ring : &no_mesh, &roomy);
        start_alone();
        grant(2);
        assert_int_equal(send_all(0), 2);
        struct pccl_departure ours; /* READY */
        assert_true(next_to(2, false, &ours));
        pccl_exchange_sent(mine(), &ours);
        hear(2, 0, 0, segment);
        hear(2, 0, 1, segment);
        hear(2, 1, 0, segment);
        assert_int_equal(next_step(), 1);
        assert_int_equal(next_step(), is_long ? 1 : 2);
        assert_int_equal(next_step(), is_long ? 2 : 1);
        end_alone();
    }
}

static bool awaits_credit(void) { return pccl_exchange_awaits_credit(lane_of(&alone.world.ring[1], true)); }

TEST(it_is_known_who_waits_for_credit)
{
    be_alone_with(elements_of(3, 2 * MOST), &long_ring, &roomy);
    assert_false(awaits_credit());
    start_alone();
    assert_int_equal(send_all(0), MOST);
    assert_true(awaits_credit());
    grant(MOST + 1);
    assert_false(awaits_credit()); /* it has something to send */
    assert_int_equal(send_all(0), 1);
    assert_true(awaits_credit());
    grant(2 * MOST);
    assert_int_equal(send_all(0), MOST - 1);
    assert_false(awaits_credit());
    end_alone();
    be_alone_with(elements_of(3, 1), &long_ring, &roomy);
    start_alone();
    assert_int_equal(send_all(0), 1);
    hear(2, 0, 0, SEGMENT);
    assert_true(awaits_credit()); /* the next step of it */
    end_alone();
}

/* Tags of operations that run at the same time differ by less than there are configs. */
static struct pccl_transfer *start_another(uint64_t tag)
{
    static struct pccl_transfer_config configs[2 * PCCL_EARLY_SEGMENTS];
    struct pccl_transfer_config *config = &configs[tag % PCCL_COUNT_OF(configs)];
    struct pccl_transfer *transfer;
    struct pccl_text reason;
    *config = alone.job.config;
    config->instance.tag = tag;
    assert_int_equal(pccl_exchange_start(mine(), config, &transfer, &reason), PCCL_OK);
    return transfer;
}

/* Sending that had not begun when READY arrived follows its credit. */
TEST(nothing_more_is_sent_ahead_behind_ready)
{
    be_alone_with(elements_of(3, 2 * MOST), &long_ring, &roomy);
    start_alone();
    struct pccl_departure departure;
    assert_true(next_to(1, true, &departure));
    grant(1);
    assert_int_equal(send_all(0), 0);
    struct pccl_transfer *another = start_another(10);
    assert_int_equal(send_all(0), MOST);
    pccl_exchange_stop(mine(), another, false);
    end_alone();
}

/* One lane, one bound: it is free again when all that was sent ahead is granted, or the operation has ended. */
TEST(operations_share_what_may_be_sent_ahead)
{
    be_alone_with(elements_of(3, 2 * MOST), &long_ring, &roomy);
    start_alone();
    struct pccl_transfer *second = start_another(10);
    assert_int_equal(send_all(0), MOST);
    grant(MOST - 1);
    struct pccl_transfer *third = start_another(11);
    assert_int_equal(send_all(0), 0);
    grant(MOST);
    struct pccl_transfer *fourth = start_another(12);
    assert_int_equal(send_all(0), MOST);
    struct pccl_transfer *fifth = start_another(13);
    assert_int_equal(send_all(0), 0);
    pccl_exchange_stop(mine(), fourth, false);
    struct pccl_transfer *sixth = start_another(14);
    assert_int_equal(send_all(0), MOST);
    pccl_exchange_stop(mine(), second, false);
    pccl_exchange_stop(mine(), third, false);
    pccl_exchange_stop(mine(), fifth, false);
    pccl_exchange_stop(mine(), sixth, false);
    end_alone();
}

TEST(ready_that_is_here_leaves_the_bound_to_others)
{
    be_alone_with(elements_of(3, 2 * MOST), &long_ring, &roomy);
    grant(1);
    start_alone();
    assert_int_equal(send_all(0), 1);
    struct pccl_transfer *second = start_another(10);
    assert_int_equal(send_all(0), MOST);
    pccl_exchange_stop(mine(), second, false);
    end_alone();
}

/* ---- holding ---- */

ALONE_TEST(it_is_held_until_the_start)
{
    struct pccl_msg whole = data_of(1, 0, SEGMENT);
    struct pccl_arrival arrival;
    hear(2, 0, 0, SEGMENT);
    assert_int_equal(tell(2, false, &whole, &arrival), PCCL_OK); /* half of it is here when it starts */
    assert_non_null(arrival.payload);
    assert_int_equal(held(), 2 * SEGMENT);
    start_alone();
    assert_int_equal(held(), 0);
    assert_ptr_equal(arrival.transfer, alone.job.transfer);
    memset(arrival.payload, 0, arrival.length);
    pccl_exchange_received(mine(), &arrival);
    assert_int_equal(pccl_transfer_traffic(alone.job.transfer).received_bytes, 2 * SEGMENT);
    assert_int_equal(send_all(0), 2);
    grant(2);
    assert_int_equal(send_all(1), 2);
}

TEST(it_is_held_until_the_group_opens)
{
    be_alone_with(elements_of(3, 3), &long_ring, &narrow);
    hear(2, 2, 0, SEGMENT);
    start_alone();
    hear(2, 1, 0, SEGMENT);
    assert_int_equal(held(), 2 * SEGMENT);
    expect_malformed(2, false, data_of(1, 0, SEGMENT)); /* for the second time */
    expect_malformed(2, false, data_of(1, 1, SEGMENT)); /* a later step of a stripe that is not granted */
    job_stop(&alone.world, &alone.job, 0, false);
    assert_int_equal(held(), 0);
    assert_int_equal(pccl_exchange_scratch_bytes(mine(), NULL), 0);
    end_alone();
}

ALONE_TEST(what_breaks_off_is_not_held)
{
    struct pccl_msg data = data_of(1, 0, SEGMENT);
    struct pccl_arrival arrival;
    hear(2, 0, 0, SEGMENT);
    assert_non_null(pccl_exchange_connected(mine(), &alone.world.ring[2], false, NULL));
    assert_int_equal(tell(2, false, &data, &arrival), PCCL_OK);
    pccl_exchange_dropped(mine(), NULL, &arrival);
    pccl_exchange_disconnected(lane_of(&alone.world.ring[2], false), false);
    assert_int_equal(held(), SEGMENT); /* a complete segment is good */
    struct pccl_transfer_config other = alone.job.config;
    other.instance.tag++; /* needs the lane */
    struct pccl_transfer *transfer;
    struct pccl_text reason;
    assert_int_equal(pccl_exchange_start(mine(), &other, &transfer, &reason), PCCL_OK);
    pccl_exchange_disconnected(lane_of(&alone.world.ring[2], false), false);
    assert_int_equal(held(), 0); /* no connection is left that its sender could rely on */
    pccl_exchange_stop(mine(), transfer, false);
}

ALONE_TEST(the_latest_connection_is_told_of_output)
{
    int earlier, later;
    start_alone(); /* READY is to be sent */
    struct pccl_lane *lane = pccl_exchange_connected(mine(), &alone.world.ring[2], false, &earlier);
    assert_ptr_equal(alone.world.peers[0].writable, &earlier);
    assert_ptr_equal(pccl_exchange_connected(mine(), &alone.world.ring[2], false, &later), lane);
    assert_ptr_equal(alone.world.peers[0].writable, &later);
    job_stop(&alone.world, &alone.job, 0, false);
}

ALONE_TEST(what_is_over_is_not_held)
{
    struct pccl_msg data = data_of(0, 0, SEGMENT);
    struct pccl_arrival arrival, under_way;
    hear(2, 0, 0, SEGMENT);
    data.as.data.view.number++; /* its sender starts it in the next view */
    assert_int_equal(tell(2, false, &data, &arrival), PCCL_OK);
    assert_int_equal(held(), SEGMENT);
    pccl_exchange_received(mine(), &arrival);
    data.as.data.view.number--;
    assert_false(take(&data)); /* the older one */
    start_alone();
    assert_int_equal(held(), SEGMENT); /* here it runs in the older one, and may begin again in that */
    job_stop(&alone.world, &alone.job, 0, false);
    assert_int_equal(held(), 0);
    assert_false(take(&data)); /* ended */
    data.as.data.instance.tag++;
    assert_int_equal(tell(2, false, &data, &under_way), PCCL_OK);
    assert_non_null(under_way.payload);
    data.as.data.instance.sync++;
    assert_true(take(&data));
    assert_int_equal(held(), 2 * SEGMENT);
    alone.job.config.instance.sync++; /* the next era */
    alone.job.stopped = false;
    start_alone();
    assert_int_equal(held(), SEGMENT);
    assert_null(under_way.payload);
    job_stop(&alone.world, &alone.job, 0, false);
    alone.job.config.instance.sync++;
    alone.job.config.view.number++; /* the next view */
    alone.job.stopped = false;
    start_alone();
    assert_int_equal(held(), 0);
    data.as.data.instance.sync += 5;
    assert_false(take(&data)); /* of the view before */
    data.as.data.view.number++;
    assert_int_equal(tell(2, false, &data, &arrival), PCCL_OK);
    assert_int_equal(held(), SEGMENT);
    job_stop(&alone.world, &alone.job, 0, false);
    pccl_exchange_rename(mine(), &alone.world.ring[0]);
    assert_int_equal(held(), 0);
    assert_null(arrival.payload);
}

/*
 * More data arrives than may be held: all of it is dropped, with the connection, and the sender fails whatever uses it.
 */
ALONE_TEST(what_is_held_is_bounded)
{
    struct pccl_msg data = data_of(0, 0, SEGMENT);
    struct pccl_arrival arrival;
    for (uint64_t i = 0; i < HELD_MOST; i++) {
        data.as.data.instance.tag = 100 + i / 5;
        data.as.data.stripe = i % 5;
        assert_int_equal(tell(2, false, &data, &arrival), PCCL_OK);
        if (i + 1 < HELD_MOST)
            pccl_exchange_received(mine(), &arrival);
    }
    assert_int_equal(held(), PCCL_EARLY_BUFFER_BYTES);
    struct pccl_msg other = data_of(0, 0, SEGMENT);
    struct pccl_arrival from_other;
    assert_int_equal(tell(1, false, &other, &from_other), PCCL_OK); /* each lane has its own */
    pccl_exchange_received(mine(), &from_other);
    expect_refused(2, false, other,
                   PCCL_MEMORY); /* the sender may know of ended operations that this peer does not know */
    assert_int_equal(held(), SEGMENT);
    assert_null(arrival.payload);
}

/* One byte each, in the worst order, of one operation or of as many operations: the same bound, and little memory. */
TEST(segments_held_are_counted)
{
    for (int one = 0; one < 2; one++) {
        be_alone_with(elements_of(3, 2), &long_ring, &roomy);
        const struct test_memory *memory = &alone.world.peers[0].memory;
        const size_t before = memory->live_bytes;
        struct pccl_msg data = data_of(0, 0, 1);
        for (uint64_t i = 0; i < PCCL_EARLY_BUFFER_SEGMENTS; i++) {
            *(one != 0 ? &data.as.data.stripe : &data.as.data.instance.tag) = 100 + PCCL_EARLY_BUFFER_SEGMENTS - i;
            assert_true(take(&data));
        }
        assert_true(memory->live_bytes - before < 1 << 20);
        data.as.data.stripe = data.as.data.instance.tag = 1;
        expect_refused(2, false, data, PCCL_MEMORY);
        assert_int_equal(held(), 0);
        end_alone();
    }
}

/* The number of segments sent ahead is bounded too, however small they are. */
TEST(segments_sent_ahead_are_counted)
{
    enum { SMALL = 2 * PCCL_EARLY_SEGMENTS };
    static struct pccl_transfer *transfers[SMALL];
    be_alone_with(3, &long_ring, &roomy);
    for (uint32_t i = 0; i < SMALL; i++)
        transfers[i] = start_another(100 + i);
    assert_int_equal(send_all(0), PCCL_EARLY_SEGMENTS);
    for (uint32_t i = 0; i < SMALL; i++)
        pccl_exchange_stop(mine(), transfers[i], false);
    struct pccl_transfer *another = start_another(10);
    assert_int_equal(send_all(0), 1); /* all of it is free again */
    pccl_exchange_stop(mine(), another, false);
    end_alone();
}

static enum pccl_status tell_from(const struct pccl_id *peer, uint64_t stripe)
{
    struct pccl_msg data = data_of(stripe, 0, SEGMENT);
    struct pccl_arrival arrival;
    struct pccl_text reason;
    data.as.data.instance.tag = 500;
    enum pccl_status status = pccl_exchange_receive(lane_of(peer, false), &data, &arrival, &reason);
    if (status == PCCL_OK)
        pccl_exchange_received(mine(), &arrival);
    return status;
}

enum { OTHERS = 3 };
static struct pccl_id others[OTHERS];

/* Peers with connections use up all the room that exists for unknown operations. */
static void others_take_all_room(void)
{
    for (uint32_t i = 0; i < OTHERS; i++) {
        others[i] = alone.world.ring[0];
        others[i].bytes[3] ^= (uint8_t)(1 + i);
        assert_non_null(pccl_exchange_connected(mine(), &others[i], false, NULL));
    }
    for (uint32_t told = 0; told < SPARE; told++)
        assert_int_equal(tell_from(&others[told % OTHERS], told), PCCL_OK);
}

/*
 * Peers that take part in no operation share one room and wait for it. A peer that sends to an operation of the view
 * has a separate room, and is dropped if it takes more when no room is left.
 */
ALONE_TEST(all_that_is_held_is_bounded)
{
    start_alone(); /* rank 2 precedes us on the ring, and sends to us */
    others_take_all_room();
    for (uint32_t i = 0; i < OTHERS; i++)
        assert_int_equal(tell_from(&others[i], SPARE + i), PCCL_LIMIT);
    for (uint64_t i = 0; i < MOST; i++)
        assert_int_equal(tell_from(&alone.world.ring[2], i), PCCL_OK);
    const uint64_t room = pccl_exchange_room(mine());
    struct pccl_msg more = data_of(MOST + 40, 0, 4 << 20);
    more.as.data.instance.tag = 501;
    expect_refused(2, false, more, PCCL_MEMORY);
    assert_int_equal(pccl_exchange_room(mine()), room); /* its own room is no room for others */
    assert_int_equal(held(), SPARE * SEGMENT);
    pccl_exchange_disconnected(lane_of(&others[0], false), false);
    assert_int_not_equal(pccl_exchange_room(mine()), room);
    assert_int_equal(tell_from(&others[1], SPARE), PCCL_OK);
    for (uint32_t i = 1; i < OTHERS; i++)
        pccl_exchange_disconnected(lane_of(&others[i], false), false);
    assert_int_equal(held(), 0);
}

/* The shared room is used up: members have separate rooms, before their first message and after. */
TEST(newcomers_leave_members_their_room)
{
    for (int early = 0; early < 2; early++) {
        be_alone_with(elements_of(3, 2), &long_ring, &roomy);
        const struct pccl_id *ring = alone.world.ring;
        if (early)
            pccl_exchange_admit(mine(), ring, 3);
        others_take_all_room();
        if (!early)
            assert_int_equal(tell_from(&ring[2], 0), PCCL_LIMIT);
        pccl_exchange_admit(mine(), ring, 3);
        for (uint64_t i = 0; i < MOST; i++)
            assert_int_equal(tell_from(&ring[2], i), PCCL_OK);
        assert_int_equal(tell_from(&others[0], SPARE), PCCL_LIMIT);
        pccl_exchange_admit(mine(), ring, 2); /* it is out */
        assert_int_equal(tell_from(&ring[2], MOST), PCCL_LIMIT);
        const uint64_t room = pccl_exchange_room(mine());
        pccl_exchange_admit(mine(), others, 1); /* its data is in its own room: the others have the shared room now */
        assert_int_not_equal(pccl_exchange_room(mine()), room);
        end_alone();
    }
}

/* A start concerns only those waiting streams that send to it, or that it makes obsolete. */
ALONE_TEST(a_start_concerns_few_that_wait)
{
    const struct pccl_id *other = &others[0];
    others_take_all_room();
    assert_int_equal(tell_from(&alone.world.ring[2], 0), PCCL_LIMIT);
    struct pccl_msg_data waiting = data_of(0, 0, SEGMENT).as.data, old = waiting, of_it = waiting;
    waiting.instance.tag = 500;
    old.instance.tag = 501;
    alone.job.config.view.number++;
    of_it.view.number++;
    waiting.view.number++;
    assert_false(pccl_exchange_is_due(lane_of(&alone.world.ring[2], false), &waiting));
    assert_false(pccl_exchange_is_due(lane_of(other, false), &old));
    const uint64_t room = pccl_exchange_room(mine());
    waiting.view.number++;
    start_alone();
    assert_int_not_equal(pccl_exchange_room(mine()), room); /* changed by the streams that the start made obsolete */
    assert_int_equal(held(), 0);
    assert_true(pccl_exchange_is_due(lane_of(&alone.world.ring[2], false), &waiting));
    assert_true(pccl_exchange_is_due(lane_of(other, false), &old));
    assert_true(pccl_exchange_is_due(lane_of(other, false), &of_it));
    assert_false(pccl_exchange_is_due(lane_of(other, false), &waiting));
    const uint64_t room_then = pccl_exchange_room(mine());
    struct pccl_transfer *next = start_another(10);
    assert_int_equal(pccl_exchange_room(mine()), room_then); /* it changes nothing for other peers */
    hear(2, 1, 0, SEGMENT);
    pccl_exchange_stop(mine(), next, false);
    assert_int_equal(pccl_exchange_room(mine()), room_then); /* a lane's own room is no room for others */
}

/* Aborted and never started here: data sent ahead is dropped, and later data is not held. */
ALONE_TEST(what_is_gone_is_not_held)
{
    struct test_memory *memory = &alone.world.peers[0].memory;
    struct pccl_msg data = data_of(0, 0, SEGMENT);
    struct pccl_arrival under_way;
    for (uint64_t i = 0; i < 3 * MOST; i++) { /* the number that a sender begins that starts again after each abort */
        data.as.data.instance.tag = 100 + i;
        assert_true(take(&data));
        data.as.data.stripe++;
        assert_int_equal(tell(2, false, &data, &under_way), PCCL_OK);
        pccl_exchange_forget(mine(), &data.as.data.instance);
        assert_null(under_way.payload);
        assert_int_equal(held(), 0);
        data.as.data.stripe++;
        assert_false(take(&data));
    }
    pccl_exchange_forget(mine(), &data.as.data.instance); /* once more, by another master */
    data.as.data.instance.tag = 99;
    assert_true(take(&data));
    memory->fail_at = memory->requests + 1;
    pccl_exchange_forget(mine(), &data.as.data.instance);
    assert_int_equal(held(), 0);
}

ALONE_TEST(short_memory_ends_the_connection)
{
    struct test_memory *memory = &alone.world.peers[0].memory;
    const size_t blocks = memory->live_blocks;
    struct pccl_msg data = data_of(0, 0, SEGMENT);
    struct pccl_arrival arrival;
    for (uint64_t k = 1; k <= 3; k++) {
        memory->fail_at = memory->requests + k;
        assert_int_equal(tell(2, false, &data, &arrival), PCCL_MEMORY);
        assert_int_equal(memory->live_blocks, blocks);
    }
    memory->fail_at = 0;
    assert_int_equal(tell(2, false, &data, &arrival), PCCL_OK);
    pccl_exchange_dropped(mine(), NULL, &arrival);
    assert_int_equal(held(), 0);
}

/* ---- peers that differ ---- */

static void expect_mismatch(uint32_t from, struct pccl_msg data, bool before)
{
    be_alone_with(elements_of(3, 2), &long_ring, &roomy);
    struct pccl_arrival arrival;
    if (!before)
        start_alone();
    assert_int_equal(tell(from, false, &data, &arrival), PCCL_OK);
    assert_int_equal(arrival.length, data.as.data.length);
    pccl_exchange_received(mine(), &arrival);
    if (before)
        start_alone();
    alone_must_differ_from(from);
    assert_int_equal(send_all(0), 0);
    end_alone();
}

/* READY or data arrives first: neither is a breach of the protocol, or a lost connection. */
TEST(what_does_not_fit_is_a_mismatch)
{
    alone.job.config.view = (struct pccl_epoch){1, 5};
    for (int before = 0; before < 2; before++) {
        expect_mismatch(2, data_of(0, 0, SEGMENT - 4), before);
        expect_mismatch(2, data_of(2, 0, SEGMENT), before);
        expect_mismatch(2, data_of(UINT64_MAX, 0, SEGMENT), before);
    }
}

/*
 * By our plan no peer sends this: it proves nothing and does no harm. The previous peer, which sent
 * it, reports the mismatch.
 */
TEST(only_the_one_before_shows_a_mismatch)
{
    for (int before = 0; before < 2; before++) {
        be_alone_with(elements_of(3, 2), &long_ring, &roomy);
        struct pccl_msg data = data_of(0, 0, SEGMENT);
        struct pccl_arrival arrival;
        if (!before)
            start_alone();
        assert_int_equal(tell(1, false, &data, &arrival), PCCL_OK);
        assert_int_equal(arrival.length, SEGMENT);
        pccl_exchange_received(mine(), &arrival);
        if (before)
            start_alone();
        assert_false(alone.job.failed);
        assert_int_equal(held(), 0);
        hear(2, 0, 0, SEGMENT);
        assert_int_equal(pccl_transfer_traffic(alone.job.transfer).received_bytes, SEGMENT);
        end_alone();
    }
}

/* A peer's segments do not count before those that receive from it agree. */
TEST(nobody_is_done_without_comparing)
{
    be_alone_among(2, elements_of(2, 1), &long_ring, &roomy);
    start_alone();
    assert_int_equal(send_all(0), 1);
    hear(1, 0, 0, SEGMENT);
    struct pccl_departure ours;
    assert_true(next_to(1, false, &ours));
    pccl_exchange_sent(mine(), &ours);
    hear(1, 0, 1, SEGMENT); /* the result is complete */
    assert_false(alone.job.done || alone.job.at_rest);
    grant(1);
    assert_true(alone.job.done && !alone.job.at_rest);
    assert_int_equal(send_all(1), 1);
    assert_true(alone.job.at_rest);
    end_alone();
}

TEST(the_last_one_may_be_done_at_once)
{
    be_alone_among(2, 1, &long_ring, &roomy); /* a single element, which arrives here; we send none */
    alone.job.config.ring = (struct pccl_id[2]){alone.world.ring[1], alone.world.ring[0]};
    grant(1);
    hear(1, 0, 0, 4);
    start_alone();
    assert_true(alone.job.done && !alone.job.at_rest);
    end_alone();
}

/* Moves all messages except READY of this rank and for it. */
static void run_without_ready_of(uint32_t rank)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < world.pipe_count; i++) {
            const struct pipe_end *pipe = &world.pipes[i];
            const bool waits = !pipe->data && (pipe->from == rank || pipe->to == rank);
            moved |= !waits && world_step(&world, i, false);
        }
    }
}

/* The same lengths, but a different operation at one rank: for any folds, no peer learns of a success. */
TEST(another_operation_of_the_same_length_fails)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const bool direct = (seed & 1) != 0;
        const uint32_t ranks = 2 + (uint32_t)(seed / 2 % 4);
        struct pccl_exchange_config config = {.scratch_bytes_max = 1 << 20,
                                              .window_bytes = (seed & 32) != 0 ? 1 << 20 : 1};
        world_init(&world, seed, ranks, 1 + (uint32_t)(seed % 3), direct, &config);
        world.expects_trouble = true;
        struct job jobs[RANKS_MOST];
        const uint32_t odd = (uint32_t)world_below(&world, ranks);
        struct pccl_text reason;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct pccl_descriptor descriptor = sum_of(1 + seed % 7 * (seed % 2 != 0 ? 1 : 20000));
            if (rank == odd)
                descriptor.operation = PCCL_MAX;
            job_init(&world, &jobs[rank], rank, 3, &descriptor, direct ? &long_mesh : &long_ring, (seed & 8) != 0);
            fill(&jobs[rank], rank);
            assert_int_equal(job_start(&world, &jobs[rank], rank, &reason), PCCL_OK);
            if ((seed & 64) != 0)
                world_run(&world, 1 + world_below(&world, 200));
        }
        run_without_ready_of(odd);
        world_run(&world, 0);
        uint32_t failed = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            assert_false(jobs[rank].done);
            assert_true(!jobs[rank].failed || jobs[rank].class == PCCL_CLASS_MISMATCH);
            failed += jobs[rank].failed;
        }
        assert_true(failed > 0);
        for (uint32_t rank = 0; rank < ranks; rank++)
            job_stop(&world, &jobs[rank], rank, false);
        world_run(&world, 0);
        for (uint32_t rank = 0; rank < ranks; rank++)
            job_fini(&jobs[rank]);
        world_fini(&world);
    }
}

/* ---- all together ---- */

enum { OPERATIONS = 12, RANKS = 3 };
static struct job jobs[OPERATIONS][RANKS];

/* Started at different times, more than may be sent ahead, with one group open each. */
TEST(many_operations_come_ahead)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world_init(&world, seed, RANKS, 2, true, (seed & 1) != 0 ? &narrow : &roomy);
        const struct pccl_cost *cost = (seed & 2) != 0 ? &long_mesh : &long_ring;
        const struct pccl_descriptor descriptor = sum_of(elements_of(RANKS, 8) + seed);
        struct pccl_text reason;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            for (uint32_t i = 0; i < OPERATIONS; i++) {
                job_init(&world, &jobs[i][rank], rank, i, &descriptor, cost, (i & 1) != 0);
                fill(&jobs[i][rank], rank);
                assert_int_equal(job_start(&world, &jobs[i][rank], rank, &reason), PCCL_OK);
            }
            world_run(&world, rank == 0 ? 0 : 1 + world_below(&world, 3000));
            for (uint32_t other = rank + 1; rank == 0 && other < RANKS; other++) {
                const size_t ahead = pccl_exchange_early_bytes(exchange_of(&world, other));
                assert_true(ahead <= PCCL_EARLY_BYTES);
                assert_int_equal(ahead > 0, other == 1 || cost == &long_mesh);
            }
        }
        world_run(&world, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(pccl_exchange_early_bytes(exchange_of(&world, rank)), 0);
            for (uint32_t i = 0; i < OPERATIONS; i++) {
                assert_true(jobs[i][rank].done && jobs[i][rank].at_rest);
                assert_true(is_sum(jobs[i], RANKS, rank));
                job_stop(&world, &jobs[i][rank], rank, true);
            }
        }
        for (uint32_t i = 0; i < OPERATIONS * RANKS; i++)
            job_fini(&jobs[i / RANKS][i % RANKS]);
        world_fini(&world);
    }
}

/* A connection is lost before some of the ranks start: its sender fails, and no other rank gets a success. */
TEST(connections_break_before_the_start)
{
    uint32_t with_something_held = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct job *one = jobs[0];
        const bool direct = (seed & 1) != 0;
        world_init(&world, seed, RANKS, 1 + (uint32_t)(seed / 2 % 2), direct, (seed & 4) != 0 ? &narrow : &roomy);
        world.expects_trouble = true;
        const struct pccl_descriptor descriptor = sum_of(1 + world_below(&world, 60000));
        struct pccl_text reason;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            job_init(&world, &one[rank], rank, 3, &descriptor, direct ? &long_mesh : &long_ring, (seed & 8) != 0);
            fill(&one[rank], rank);
        }
        assert_int_equal(job_start(&world, &one[0], 0, &reason), PCCL_OK);
        world_run(&world, 1 + world_below(&world, 200));
        uint32_t index = 0;
        while (world.pipes[index].from != 0 || !world.pipes[index].data)
            index++;
        const uint32_t to = world.pipes[index].to;
        with_something_held += pccl_exchange_early_bytes(exchange_of(&world, to)) > 0;
        world_break(&world, index);
        assert_true(one[0].failed && one[0].class == PCCL_CLASS_PEER_LOST);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            assert_int_equal(job_start(&world, &one[rank], rank, &reason), PCCL_OK);
        world_run(&world, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_false(one[rank].done || (rank > 0 && one[rank].failed));
            job_stop(&world, &one[rank], rank, false);
        }
        world_run(&world, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            job_fini(&one[rank]);
        world_fini(&world);
    }
    assert_true(with_something_held > 100);
}
