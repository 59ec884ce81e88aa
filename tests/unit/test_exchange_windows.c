/*
 * The operation that opens stripes next, among several: the oldest gets the room that becomes free, and all progress.
 * Also the number of stripes that are open without a message.
 */
#include "unit.h"
#include "unit/exchange_alone.h"

#include "collective/internal.h"

enum { RANKS = 4, OLD = 0, YOUNG = 1, STRIPES = 8, WINDOW = 4 };
/* A window of WINDOW such stripes, three segments of 256 KiB each, is the limit of all operations that move. */
static const uint64_t elements = (uint64_t)STRIPES * RANKS * (256 << 10) / 4;

static struct world world;
static struct job jobs[2][RANKS];

static void set_up(const struct pccl_cost *cost_of_old)
{
    const struct pccl_exchange_config config = {.scratch_bytes_max = 48 << 20, .window_bytes = 8 << 20};
    const struct pccl_descriptor descriptor = sum_of(elements);
    world_init(&world, 8000, RANKS, 1, false, &config);
    for (uint32_t which = OLD; which <= YOUNG; which++)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            job_init(&world, &jobs[which][rank], rank, which, &descriptor, which == OLD ? cost_of_old : &no_mesh, true);
            fill(&jobs[which][rank], rank);
        }
}

static void start(uint32_t which, uint32_t from, uint32_t to)
{
    struct pccl_text reason;
    for (uint32_t rank = from; rank < to; rank++)
        assert_int_equal(job_start(&world, &jobs[which][rank], rank, &reason), PCCL_OK);
}

static uint64_t open_stripes(uint32_t which)
{
    const struct pccl_transfer *transfer = jobs[which][0].transfer;
    return transfer->granted - transfer->complete;
}

static void run_until_moving(uint32_t which)
{
    while (jobs[which][0].transfer->complete == 0)
        world_run(&world, 1);
}

static void end(void)
{
    world_run(&world, 0);
    for (uint32_t which = OLD; which <= YOUNG; which++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_true(jobs[which][rank].at_rest);
            assert_true(is_sum(jobs[which], RANKS, rank));
        }
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            job_stop(&world, &jobs[which][rank], rank, true);
            job_fini(&jobs[which][rank]);
        }
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(exchange_of(&world, rank)->moving_bytes, 0);
    world_fini(&world);
}

/* The younger one keeps a stripe. */
TEST(the_oldest_that_moves_has_the_room)
{
    set_up(&no_mesh);
    start(OLD, 0, RANKS);
    run_until_moving(OLD);
    start(YOUNG, 0, RANKS);
    assert_int_equal(open_stripes(OLD), WINDOW);
    assert_int_equal(open_stripes(YOUNG), 1);
    end();
}

/* it has its window, and so has the one that moves */
TEST(who_waits_for_peers_takes_no_room)
{
    set_up(&no_mesh);
    start(OLD, 0, RANKS - 1);
    start(YOUNG, 0, RANKS);
    run_until_moving(YOUNG);
    assert_int_equal(open_stripes(OLD), WINDOW);
    assert_int_equal(open_stripes(YOUNG), WINDOW);
    world_run(&world, 0);
    assert_true(jobs[YOUNG][0].at_rest && !jobs[OLD][0].done);
    start(OLD, RANKS - 1, RANKS);
    end();
}

/* The same for any number of operations. */
TEST(many_that_wait_for_peers_take_no_room)
{
    enum { WAITING = 4 }; /* these have all the room that operations on short paths share */
    static struct job waiting[WAITING];
    const struct pccl_descriptor descriptor = sum_of(elements / 2);
    struct pccl_text reason;
    set_up(&no_mesh);
    for (uint32_t i = 0; i < WAITING; i++) {
        job_init(&world, &waiting[i], 0, YOUNG + 1 + i, &descriptor, &no_mesh, true);
        fill(&waiting[i], i);
        assert_int_equal(job_start(&world, &waiting[i], 0, &reason), PCCL_OK);
    }
    start(OLD, 0, RANKS);
    assert_int_equal(open_stripes(OLD), 1);
    run_until_moving(OLD);
    assert_int_equal(open_stripes(OLD), WINDOW);
    for (uint32_t i = 0; i < WAITING; i++) {
        job_stop(&world, &waiting[i], 0, false);
        job_fini(&waiting[i]);
    }
    start(YOUNG, 0, RANKS);
    end();
}

/* It holds more than operations on short paths may have together. */
TEST(what_moves_on_a_long_path_takes_no_room_from_others)
{
    set_up(&long_ring);
    start(OLD, 0, RANKS);
    run_until_moving(OLD);
    start(YOUNG, 0, RANKS);
    assert_true(jobs[OLD][0].transfer->plan.long_path && open_stripes(OLD) > WINDOW * WINDOW);
    assert_int_equal(open_stripes(YOUNG), WINDOW);
    end();
}

/* Number of segments of the long part that are in the result. */
static uint32_t copied(const struct job *job, size_t segment, uint32_t segments)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < segments; i++)
        count += memcmp(job->result + i * segment, job->inputs[0].memory + i * segment, segment) == 0;
    return count;
}

enum { KEPT_SEGMENT = 256 << 10, KEPT_SEGMENTS = 32, KEPT_AT_ONCE = 4 };

/* Starts `count` all-to-alls of two ranks. Rank 0 keeps a long part of each. */
static void start_with_long_parts(struct job (*exchanged)[2], uint32_t count)
{
    static const uint64_t all = KEPT_SEGMENTS * KEPT_SEGMENT;
    static const uint64_t starts[] = {0, all, all + 1, all + 2, all + 3};
    const struct pccl_exchange_config config = {
        .scratch_bytes_max = 8 << 20, .window_bytes = 1 << 20, .kept_bytes_most = KEPT_AT_ONCE * KEPT_SEGMENT};
    const struct pccl_descriptor descriptor = {
        .collective = PCCL_ALL_TO_ALL_V, .datatype = PCCL_U8, .count = starts[4], .counts.bytes = {1}};
    struct pccl_text reason;
    world_init(&world, 3, 2, 1, false, &config);
    world.positions[0] = 0; /* the rank with the long part */
    world.positions[1] = 1;
    world.starts = starts;
    for (uint32_t i = 0; i < count * 2; i++) {
        struct job *job = &exchanged[i / 2][i % 2];
        job_init(&world, job, i % 2, 1 + i / 2, &descriptor, &no_mesh, false);
        fill(job, i % 2);
        memset(job->result, 0xee, job->result_bytes);
        assert_int_equal(job_start(&world, job, i % 2, &reason), PCCL_OK);
    }
}

static void stop_all(struct job (*exchanged)[2], uint32_t count)
{
    for (uint32_t i = 0; i < count * 2; i++) {
        job_stop(&world, &exchanged[i / 2][i % 2], i % 2, true);
        job_fini(&exchanged[i / 2][i % 2]);
    }
    world_fini(&world);
}

/* Stripes of a part that stays here need no message: without a limit they would all be copied in one call. */
TEST(a_long_part_that_stays_is_copied_a_bit_at_a_time)
{
    struct job exchanged[1][2];
    const struct job *keeper = &exchanged[0][0];
    uint32_t calls = 0;
    start_with_long_parts(exchanged, 1);
    for (uint32_t before = 0; !keeper->at_rest; before = copied(keeper, KEPT_SEGMENT, KEPT_SEGMENTS), calls++) {
        for (uint32_t i = 0; i < world.pipe_count; i++)
            (void)world_step(&world, i, false);
        assert_true(copied(keeper, KEPT_SEGMENT, KEPT_SEGMENTS) - before <= KEPT_AT_ONCE);
        before = copied(keeper, KEPT_SEGMENT, KEPT_SEGMENTS);
        (void)world_go_on(&world);
        assert_true(copied(keeper, KEPT_SEGMENT, KEPT_SEGMENTS) - before <= KEPT_AT_ONCE);
    }
    assert_true(calls >= KEPT_SEGMENTS / KEPT_AT_ONCE);
    assert_int_equal(copied(keeper, KEPT_SEGMENT, KEPT_SEGMENTS), KEPT_SEGMENTS);
    stop_all(exchanged, 1);
}

/* Each rests more than once, also while the other one rests. */
TEST(two_long_parts_that_stay_both_go_on)
{
    static struct job exchanged[2][2];
    start_with_long_parts(exchanged, 2);
    world_run(&world, 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(exchanged[i / 2][i % 2].at_rest);
    stop_all(exchanged, 2);
}
