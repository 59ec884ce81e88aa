/* Sends. The lane from the source carries all messages of both ends. */
#include "unit.h"
#include "unit/exchange_alone.h"

#include "wire/subgroup.h"

enum { SOURCE, DESTINATION };
static const uint64_t sizes[] = {1, 5000, 300000};

static struct world world;
static struct job source, destination;

static void prepare(struct job *job, uint32_t rank, uint64_t elements)
{
    struct pccl_descriptor descriptor = sum_of(elements);
    const struct pccl_cost unknown = {.mesh = 0};
    descriptor.collective = PCCL_SEND;
    descriptor.operation = 0;
    job_init(&world, job, rank, 1, &descriptor, &unknown, false);
    job->config.instance.pair = pccl_pair_name(1, 2);
    job->config.view = (struct pccl_epoch){0, 0};
    memset(job->result, 0, job->result_bytes);
    for (size_t i = 0; i < job->bytes; i++)
        job->input[i] = (uint8_t)(i * 7 + rank);
    job_keep_input(job);
}

static void set_up(uint64_t seed, uint32_t connections, uint64_t elements)
{
    const struct pccl_exchange_config config = {.scratch_bytes_max = 8 << 20, .window_bytes = 1 << 20};
    world_init(&world, seed, 2, 0, false, &config);
    for (uint32_t i = 0; i < connections; i++)
        world_connect(&world, SOURCE, DESTINATION);
    prepare(&source, SOURCE, elements);
    prepare(&destination, DESTINATION, elements);
}

static void start(struct job *job, uint32_t rank)
{
    struct pccl_text reason;
    assert_int_equal(job_start(&world, job, rank, &reason), PCCL_OK);
}

static bool is_received(void)
{
    return source.at_rest && destination.at_rest && memcmp(destination.result, source.before, source.bytes) == 0;
}

static void stop(bool committed)
{
    if (source.transfer != NULL)
        job_stop(&world, &source, SOURCE, committed);
    if (destination.transfer != NULL)
        job_stop(&world, &destination, DESTINATION, committed);
    job_fini(&source);
    job_fini(&destination);
    world_fini(&world);
}

TEST(either_end_may_come_first)
{
    for (uint32_t i = 0; i < 2 * PCCL_COUNT_OF(sizes); i++) {
        bool source_first = i % 2 == 0;
        set_up(100 + i, 1 + i % 3, sizes[i / 2]);
        start(source_first ? &source : &destination, source_first ? SOURCE : DESTINATION);
        world_run(&world, 0);
        assert_false(source.done || destination.done);
        assert_int_equal(world.peers[DESTINATION].announced > 0, source_first);
        assert_int_equal(world.peers[SOURCE].announced > 0, !source_first);
        start(source_first ? &destination : &source, source_first ? DESTINATION : SOURCE);
        world_run(&world, 0);
        assert_true(is_received());
        stop(true);
    }
}

/* The same message would arrive over the next connection. */
TEST(an_invalid_message_ends_what_has_not_begun)
{
    for (uint32_t rank = SOURCE; rank <= DESTINATION; rank++) {
        struct job *job = rank == SOURCE ? &source : &destination;
        struct pccl_text reason;
        set_up(150 + rank, 1, sizes[1]);
        world.expects_trouble = true;
        start(job, rank);
        world_run(&world, 0);
        assert_false(job->failed);
        pccl_text_format(&reason, "it has no such field");
        pccl_exchange_rejected(world.pipes[0].lanes[rank], &reason);
        assert_true(job->failed && job->class == PCCL_CLASS_INTERNAL);
        stop(false);
    }
}

/* The source has not begun, so none of its data can be lost. */
TEST(a_receive_outlives_lanes)
{
    set_up(200, 1, sizes[1]);
    start(&destination, DESTINATION);
    world_run(&world, 0);
    world_break(&world, 0);
    assert_false(destination.failed);
    world_connect(&world, SOURCE, DESTINATION);
    world_run(&world, 0);
    start(&source, SOURCE);
    world_run(&world, 0);
    assert_true(is_received());
    stop(true);
}

/* Nothing is lost before the first data is sent. */
TEST(a_lost_lane_fails_what_has_begun)
{
    uint32_t before = 0, under_way = 0;
    for (uint64_t seed = 300; seed < 360; seed++) {
        set_up(seed, 1 + (uint32_t)seed % 2, sizes[2]);
        world.expects_trouble = true;
        start(&destination, DESTINATION);
        start(&source, SOURCE);
        world_run(&world, 1 + world_below(&world, 40));
        bool done = destination.done;
        world_break(&world, 0);
        assert_true(source.failed ? source.class == PCCL_CLASS_PEER_LOST : !done);
        assert_true(!destination.failed || (source.failed && !done));
        before += !source.failed;
        under_way += destination.failed;
        world_connect(&world, SOURCE, DESTINATION);
        world_run(&world, 0);
        assert_true(source.failed || is_received());
        stop(!source.failed);
    }
    assert_true(before > 5 && under_way > 10);
}

/*
 * The source has closed an idle connection and opened another one. The good-bye of the first one arrives while data of
 * the next send is under way over the second one.
 */
TEST(a_late_good_bye_ends_nothing)
{
    uint32_t under_way = 0;
    for (uint64_t seed = 700; seed < 760; seed++) {
        set_up(seed, 1, sizes[2]);
        world_connect(&world, SOURCE, DESTINATION);
        world.pipes[0].broken = world.pipes[1].broken = true; /* no byte moves over the old one from now on */
        pccl_exchange_disconnected(world.pipes[0].lanes[0], false);
        start(&destination, DESTINATION);
        start(&source, SOURCE);
        world_run(&world, 1 + world_below(&world, 60));
        under_way += !destination.done && pccl_transfer_traffic(destination.transfer).received_bytes > 0;
        pccl_exchange_disconnected(world.pipes[0].lanes[1], true);
        world_run(&world, 0);
        assert_true(is_received());
        stop(true);
    }
    assert_true(under_way > 10);
}

/* The first one may have been lost with its connection. */
TEST(the_source_announces_on_each_connection)
{
    set_up(400, 1, sizes[0]);
    world.expects_trouble = true;
    start(&source, SOURCE);
    world_run(&world, 0);
    uint32_t announced = world.peers[DESTINATION].announced;
    assert_int_equal(announced, 1);
    world_connect(&world, SOURCE, DESTINATION);
    world_run(&world, 0);
    assert_int_equal(world.peers[DESTINATION].announced, 2);
    stop(false);
}

TEST(the_source_compares)
{
    for (uint64_t seed = 500; seed < 504; seed++) {
        set_up(seed, 1, sizes[1]);
        world.expects_trouble = true;
        destination.config.descriptor.count -= seed % 2;
        destination.config.descriptor.label.head.bytes[0] = (uint8_t)(1 - seed % 2);
        start(seed < 502 ? &source : &destination, seed < 502 ? SOURCE : DESTINATION);
        world_run(&world, 0);
        start(seed < 502 ? &destination : &source, seed < 502 ? DESTINATION : SOURCE);
        world_run(&world, 0);
        assert_true(source.failed && source.class == PCCL_CLASS_MISMATCH);
        assert_false(destination.done || destination.failed);
        stop(false);
    }
}

/* A READY on the lane for any operation other than a send is refused. */
TEST(other_announcements_are_refused)
{
    set_up(600, 1, sizes[0]);
    struct pccl_arrival arrival = {.length = 0};
    struct pccl_text reason;
    struct pccl_msg ready = {.type = PCCL_MSG_ready,
                             .as.ready = {.instance = source.config.instance, .segment_elements = 1}};
    struct pccl_lane *lane = world.pipes[0].lanes[1];
    assert_int_equal(pccl_exchange_receive(lane, &ready, &arrival, &reason), PCCL_OK);
    assert_int_equal(world.peers[DESTINATION].announced, 1);
    ready.as.ready.instance.pair = 0;
    assert_int_equal(pccl_exchange_receive(lane, &ready, &arrival, &reason), PCCL_MALFORMED);
    assert_non_null(strstr(reason.bytes, "sent ready in the wrong direction, on a connection from it"));
    stop(false);
}
