/* The engine over real connections: whole all-reduces between several engines, and connections that end. */
#include "unit.h"
#include "descriptors.h"
#include "world.h"
#include "support.h"

static float input_of(uint32_t rank, uint64_t i) { return (float)(i * 7 % 1000) + 1000.0f * (float)rank; }

static float sum_of(uint32_t ranks, uint64_t i)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += input_of(rank, i); /* whole numbers below 2^24: exact in any order */
    return sum;
}

static struct world world;

static int end(void **state)
{
    world_end(&world);
    return 0;
}

static int begin_two(void **state)
{
    world_begin(&world, 2, 1);
    return 0;
}

/* In a world of two, linked over one connection each way. */
#define PAIR_TEST(name) TEST_IN(name, begin_two, end)

/* One operation at all nodes. */
struct operation {
    uint64_t count;
    bool in_place;
    struct work works[WORLD_NODES_MAX];
    float *inputs[WORLD_NODES_MAX], *results[WORLD_NODES_MAX];
};

static void operation_begin(struct operation *operation, uint64_t tag, uint64_t count, bool in_place, bool mesh)
{
    *operation = (struct operation){.count = count, .in_place = in_place};
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        float *input = malloc(count * sizeof *input);
        assert_non_null(input);
        for (uint64_t i = 0; i < count; i++)
            input[i] = input_of(rank, i);
        operation->inputs[rank] = input;
        operation->results[rank] = in_place ? input : malloc(count * sizeof *input);
        work_prepare(&operation->works[rank], &world.nodes[rank], tag, world.ranks, count, input,
                     operation->results[rank]);
        operation->works[rank].job.config.cost.mesh = mesh;
    }
}

static void operation_start(struct operation *operation)
{
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        work_start(&operation->works[rank]);
}

static void operation_await(struct operation *operation)
{
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        node_until(&world.nodes[rank], &operation->works[rank].done);
        assert_false(operation->works[rank].failed);
    }
}

static void operation_end(struct operation *operation)
{
    uint32_t ranks = world.ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct work *work = &operation->works[rank];
        node_until(work->node, &work->at_rest);
        work_stop(work, PCCL_JOB_COMMITTED);
        for (uint64_t i = 0; i < operation->count; i++)
            if (operation->results[rank][i] != sum_of(ranks, i))
                fail_msg("rank %u, element %llu", rank, (unsigned long long)i);
        if (!operation->in_place && operation->count >= ranks)
            assert_true(work->job.traffic.sent_bytes > 0);
        free(operation->inputs[rank]);
        if (!operation->in_place)
            free(operation->results[rank]);
    }
}

/* Starts the operation in place. It must not be committed. */
static void operation_undo(struct operation *operation, enum pccl_job_end job_end)
{
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        work_stop(&operation->works[rank], job_end);
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        for (uint64_t i = 0; i < operation->count; i++)
            assert_true(operation->inputs[rank][i] == input_of(rank, i)); /* restored */
        free(operation->inputs[rank]);
    }
}

static void run(uint64_t tag, uint64_t count, bool in_place, bool mesh)
{
    struct operation operation;
    operation_begin(&operation, tag, count, in_place, mesh);
    operation_start(&operation);
    operation_await(&operation);
    operation_end(&operation);
}

static const uint64_t sizes[] = {1, 2, 5, 1000, 65536, 65537, 1000003};

static void run_all_sizes(uint32_t ranks, uint32_t slots)
{
    world_begin(&world, ranks, slots);
    uint64_t tag = 0;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(sizes); i++)
        for (uint32_t variant = 0; variant < 4; variant++)
            run(++tag, sizes[i], variant & 1, variant & 2);
    world_end(&world);
}

TEST(two_engines_reduce_all_sizes) { run_all_sizes(2, 1); }

TEST(four_engines_reduce_all_sizes) { run_all_sizes(4, 1); }

TEST(several_connections_share_the_work) { run_all_sizes(3, 3); }

PAIR_TEST(one_byte_is_reduced)
{
    struct work works[2];
    uint8_t inputs[2] = {3, 4}, results[2] = {0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        work_prepare(&works[rank], &world.nodes[rank], 1, 2, 1, &inputs[rank], &results[rank]);
        works[rank].job.config.descriptor.datatype = PCCL_U8;
        works[rank].job.config.descriptor.codec_datatype = PCCL_U8;
        work_start(&works[rank]);
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        node_until(&world.nodes[rank], &works[rank].done);
    for (uint32_t rank = 0; rank < 2; rank++) {
        work_stop(&works[rank], PCCL_JOB_COMMITTED);
        assert_int_equal(results[rank], 7);
    }
}

TEST(sixty_four_mebibytes_are_reduced)
{
    world_begin(&world, 2, 2);
    run(1, 16 << 20, true, false);
    world_end(&world);
}

TEST(many_operations_run_at_once_in_any_order)
{
    enum { MANY = 12 };
    static struct operation operations[MANY];
    world_begin(&world, 3, 2);
    for (uint32_t i = 0; i < MANY; i++)
        operation_begin(&operations[i], i, i % 3 == 0 ? 300001 : 10 + i, i % 2, i % 4 == 1);
    for (uint32_t rank = 0; rank < 3; rank++) /* every peer starts with another one */
        for (uint32_t i = 0; i < MANY; i++)
            work_start(&operations[(i * 5 + rank * 4) % MANY].works[rank]);
    for (uint32_t i = 0; i < MANY; i++)
        operation_await(&operations[i]);
    for (uint32_t i = 0; i < MANY; i++)
        operation_end(&operations[i]);
    world_end(&world);
}

/* One peer starts after the other has announced the operation; data sent ahead is waiting or still arriving. */
TEST(long_paths_send_ahead)
{
    enum { OPERATIONS = 8, RANKS = 3 };
    static struct operation operations[OPERATIONS];
    world_begin(&world, RANKS, 2);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        operation_begin(&operations[i], i, 1 + i * 43210, i % 2, i % 4 == 1);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            operations[i].works[rank].job.config.cost.rtt_us = 50000;
    }
    for (uint32_t rank = RANKS; rank-- > 0;) {
        for (uint32_t i = 0; i < OPERATIONS; i++)
            work_start(&operations[i].works[rank]);
        if (rank > 0) /* it receives from the one before it */
            node_until_count(&world.nodes[rank - 1], &world.nodes[rank - 1].seen.announced, OPERATIONS);
    }
    for (uint32_t i = 0; i < OPERATIONS; i++)
        operation_await(&operations[i]);
    for (uint32_t i = 0; i < OPERATIONS; i++)
        operation_end(&operations[i]);
    world_end(&world);
}

TEST(an_operation_waits_for_connections_that_come_later)
{
    struct operation operation;
    world_begin(&world, 2, 0);
    operation_begin(&operation, 1, 5000, false, false);
    operation_start(&operation);
    engine_link(&world.nodes[0], &world.nodes[1], 0);
    engine_link(&world.nodes[1], &world.nodes[0], 0);
    operation_await(&operation);
    operation_end(&operation);
    world_end(&world);
}

PAIR_TEST(an_operation_that_only_others_started_is_announced)
{
    struct operation operation;
    operation_begin(&operation, 1, 5000, false, false);
    work_start(&operation.works[0]);
    node_until_count(&world.nodes[1], &world.nodes[1].seen.announced, 1);
    work_start(&operation.works[1]);
    operation_await(&operation);
    operation_end(&operation);
}

PAIR_TEST(peers_that_differ_fail_in_words)
{
    struct work works[2];
    static float input[2][100], result[2][100];
    for (uint32_t rank = 0; rank < 2; rank++) {
        work_prepare(&works[rank], &world.nodes[rank], 1, 2, 50 + rank, input[rank], result[rank]);
        work_start(&works[rank]);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        node_until(&world.nodes[rank], &works[rank].failed);
        assert_int_equal(works[rank].class, PCCL_CLASS_MISMATCH);
        assert_true(works[rank].reason.length > 0);
        work_stop(&works[rank], PCCL_JOB_ABORTED);
    }
}

/* A later message of another peer about it is not taken for news of a job that is still to be launched. */
PAIR_TEST(a_job_stopped_before_it_began_is_released)
{
    enum { MANY = 64 };
    struct work works[MANY], others[MANY + 1], last;
    static float input[64], results[2][64];
    for (uint32_t i = 0; i < MANY; i++) {
        work_prepare(&works[i], &world.nodes[0], i, 2, 64, input, results[0]);
        work_start(&works[i]);
        pccl_engine_stop(world.nodes[0].engine, &works[i].job, PCCL_JOB_ABORTED);
    }
    for (uint32_t i = 0; i < MANY; i++)
        node_until(&world.nodes[0], &works[i].released);
    for (uint32_t i = 0; i <= MANY; i++) {
        work_prepare(&others[i], &world.nodes[1], i, 2, 64, input, results[1]);
        work_start(&others[i]);
    }
    work_prepare(&last, &world.nodes[0], MANY, 2, 64, input, results[0]);
    work_start(&last);
    node_until(&world.nodes[0], &last.done); /* then all messages sent before have arrived */
    assert_true(world.nodes[0].seen.announced <= 1);
    work_stop(&last, PCCL_JOB_ABORTED);
    for (uint32_t i = 0; i <= MANY; i++)
        work_stop(&others[i], PCCL_JOB_ABORTED);
}

PAIR_TEST(an_operation_that_cannot_start_fails_and_is_released)
{
    struct work work;
    static float input[64], result[64];
    work_prepare(&work, &world.nodes[0], 1, 2, 64, input, result);
    work.job.config.descriptor.codec = 77;
    work_start(&work);
    node_until(&world.nodes[0], &work.failed);
    assert_true(work.reason.length > 0);
    work_stop(&work, PCCL_JOB_ABORTED);
}

/* ---- connections end ---- */

TEST(the_end_of_an_engine_is_told_as_a_good_bye)
{
    world_begin(&world, 2, 2);
    engine_end(&world.nodes[0]);
    node_until_count(&world.nodes[1], &world.nodes[1].seen.ended, 4);
    assert_true(world.nodes[1].seen.ended_purposely);
    assert_int_equal(world.nodes[1].seen.ended_how, PCCL_LINK_CLOSED);
    assert_true(pccl_id_equal(&world.nodes[1].seen.ended_peer, &world.nodes[0].id));
    assert_false(pccl_engine_holds(world.nodes[1].engine, &world.nodes[0].id, true, PCCL_POOL_MAX));
    engine_end(&world.nodes[1]);
}

TEST(only_the_slot_that_is_meant_is_closed)
{
    world_begin(&world, 2, 3);
    pccl_engine_close(world.nodes[0].engine, &world.nodes[1].id, true, 1);
    node_until_count(&world.nodes[1], &world.nodes[1].seen.ended, 1);
    assert_int_equal(world.nodes[1].seen.ended_slot, 1);
    assert_false(world.nodes[1].seen.ended_outgoing);
    assert_true(world.nodes[1].seen.ended_purposely);
    assert_true(pccl_engine_holds(world.nodes[0].engine, &world.nodes[1].id, true, 0));
    assert_false(pccl_engine_holds(world.nodes[0].engine, &world.nodes[1].id, true, 1));
    assert_true(pccl_engine_holds(world.nodes[0].engine, &world.nodes[1].id, true, 2));
    run(1, 300000, false, false); /* over the remaining connections */
    assert_int_equal(world.nodes[1].seen.ended, 1);
    assert_int_equal(world.nodes[0].seen.ended, 0);
    world_end(&world);
}

/* The sender has closed the first one; its good-bye is still on the way when the second one replaces it. */
TEST(a_connection_that_is_replaced_fails_nothing)
{
    struct operation operation;
    uint8_t byte;
    world_begin(&world, 2, 0);
    struct node *sender = &world.nodes[0], *receiver = &world.nodes[1];
    int old = engine_link_bare(receiver, &sender->id, false, 0, NULL, 0);
    engine_link(receiver, sender, 0);
    operation_begin(&operation, 1, 300000, false, false);
    work_start(&operation.works[1]);
    assert_int_equal(recv(old, &byte, 1, 0), 1); /* READY: it runs */
    pccl_engine_close(receiver->engine, &sender->id, false, 0);
    engine_link(sender, receiver, 0);
    work_start(&operation.works[0]);
    operation_await(&operation);
    operation_end(&operation);
    close(old);
    world_end(&world);
}

/* Its other end is open and silent: the operation fails, and the next one takes another connection. */
TEST(a_connection_that_is_cut_ends_as_if_it_was_closed)
{
    struct operation operation;
    world_begin(&world, 2, 0);
    struct node *sender = &world.nodes[0], *receiver = &world.nodes[1];
    int silent = engine_link_bare(sender, &receiver->id, true, 0, NULL, 0);
    engine_link(receiver, sender, 0);
    operation_begin(&operation, 1, 300000, true, false);
    operation_start(&operation);
    pccl_engine_cut(sender->engine, &receiver->id, true, 1); /* another slot: nothing happens */
    pccl_engine_cut(sender->engine, &receiver->id, true, 0);
    node_until_count(sender, &sender->seen.ended, 1);
    assert_int_equal(sender->seen.ended_how, PCCL_LINK_CLOSED);
    assert_false(sender->seen.ended_purposely);
    assert_false(pccl_engine_holds(sender->engine, &receiver->id, true, 0));
    node_until(sender, &operation.works[0].failed);
    assert_int_equal(operation.works[0].class, PCCL_CLASS_PEER_LOST);
    operation_undo(&operation, PCCL_JOB_ABORTED);
    engine_link(sender, receiver, 0);
    run(2, 300000, false, false);
    close(silent);
    world_end(&world);
}

TEST(a_connection_closed_before_it_began_says_bye_too)
{
    world_begin(&world, 2, 0);
    for (uint32_t i = 0; i < 16; i++) {
        uv_os_sock_t dialed, accepted;
        struct node *nodes = world.nodes;
        engine_sockets(&dialed, &accepted);
        engine_add(&nodes[1], &nodes[0].id, false, 0, accepted);
        engine_add(&nodes[0], &nodes[1].id, true, 0, dialed);
        pccl_engine_close(nodes[0].engine, &nodes[1].id, true, 0);
        node_until_count(&nodes[1], &nodes[1].seen.ended, i + 1);
        assert_true(nodes[1].seen.ended_purposely);
    }
    assert_int_equal(world.nodes[0].seen.ended, 0);
    world_end(&world);
}

PAIR_TEST(a_new_name_closes_the_connections_of_the_old)
{
    run(1, 1000, false, false);
    struct pccl_id fresh = node_id(9);
    pccl_engine_rename(world.nodes[0].engine, &fresh);
    node_until_count(&world.nodes[1], &world.nodes[1].seen.ended, 2);
    assert_true(world.nodes[1].seen.ended_purposely);
    struct pccl_id former = node_id(1);
    pccl_engine_rename(world.nodes[0].engine, &former);
    engine_link(&world.nodes[0], &world.nodes[1], 0);
    engine_link(&world.nodes[1], &world.nodes[0], 0);
    run(2, 1000, false, false);
}

PAIR_TEST(a_connection_that_breaks_fails_what_runs_over_it)
{
    struct operation operation;
    operation_begin(&operation, 1, 4 << 20, true, false);
    operation_start(&operation);
    /* Closed by the other end, possibly in the middle: the job may also be done already, but is not at rest. */
    pccl_engine_close(world.nodes[0].engine, &world.nodes[1].id, true, 0);
    node_until_count(&world.nodes[1], &world.nodes[1].seen.ended, 1);
    operation_undo(&operation, PCCL_JOB_ABORTED);
}

PAIR_TEST(the_input_is_restored_unless_it_is_committed)
{
    static const enum pccl_job_end ends[] = {PCCL_JOB_ABORTED, PCCL_JOB_BROKEN_OFF, PCCL_JOB_GIVEN_UP};
    for (uint64_t i = 0; i < PCCL_COUNT_OF(ends); i++) {
        struct operation operation;
        operation_begin(&operation, i, 20000, true, false);
        operation_start(&operation);
        operation_await(&operation); /* so the whole result is in the buffers */
        operation_undo(&operation, ends[i]);
    }
}

static bool figures(uint32_t from, uint32_t to, uint32_t *rtt_us, uint64_t *rate)
{
    bool shared,
        is_news = pccl_engine_link_figures(world.nodes[from].engine, &world.nodes[to].id, rtt_us, rate, &shared);
    assert_false(shared); /* around the ring each sends over one link */
    return is_news;
}

/*
 * The traffic of one link gives no figure for others, and little traffic gives none at all. Closed connections do not
 * count.
 */
TEST(links_are_measured_as_data_flows)
{
    enum { ENOUGH = 4 << 20 };
    uint32_t rtt_us;
    uint64_t rate;
    world_begin(&world, 3, 2);
    run(1, 1000, false, false);
    assert_false(figures(0, 1, &rtt_us, &rate));
    run(2, ENOUGH, false, false);
    for (uint32_t rank = 0; rank < 3; rank++) { /* along the ring */
        assert_true(figures(rank, (rank + 1) % 3, &rtt_us, &rate));
        assert_true(rtt_us > 0 && rate > 0);
        test_figure("a link as data flows", (double)rate * 1e-6, "MB/s");
        assert_false(figures(rank, (rank + 2) % 3, &rtt_us, &rate));
        assert_int_equal(rtt_us + rate, 0);
    }
    assert_false(figures(0, 1, &rtt_us, &rate)); /* no news */
    run(3, ENOUGH, false, false);
    assert_true(figures(0, 1, &rtt_us, &rate));
    pccl_engine_close(world.nodes[0].engine, &world.nodes[1].id, true, 1);
    run(4, ENOUGH, false, false);
    pccl_engine_close(world.nodes[0].engine, &world.nodes[1].id, true, 0);
    assert_false(figures(0, 1, &rtt_us, &rate));
    world_end(&world);
}

/* A rate measured on a shared line is reported as shared, and lowers no rate. */
TEST(a_part_of_a_line_is_no_rate)
{
    enum { RING_COUNT = 4 << 20, DIRECT_COUNT = 300000, RUNS_MOST = 30 };
    uint32_t rtt_us;
    uint64_t rate = 0, before;
    bool shared = false, is_news = false;
    world_begin(&world, 3, 1);
    run(1, RING_COUNT, false, false);
    assert_true(figures(0, 1, &rtt_us, &before));
    for (uint32_t i = 0; i < RUNS_MOST && !is_news; i++) {
        run(2 + i, DIRECT_COUNT, false, true);
        is_news = pccl_engine_link_figures(world.nodes[0].engine, &world.nodes[1].id, &rtt_us, &rate, &shared);
    }
    assert_true(is_news && shared && rate >= before);
    run(100, RING_COUNT, false, false);
    assert_true(figures(0, 1, &rtt_us, &rate));
    world_end(&world);
}

/* The bytes that a connection from one to the other has carried, as others see it. */
static uint64_t delivered(void)
{
    struct pccl_telemetry_connection connections[2];
    assert_int_equal(pccl_engine_connections(world.nodes[0].engine, connections, 2), 2);
    const struct pccl_telemetry_connection *to = &connections[connections[1].outgoing];
    assert_true(to->outgoing && to->known);
    assert_int_equal(to->lately_us, 0);
    return to->delivered_bytes;
}

/* The system has no figures for it. The watch for suspended processes asks whether data moves. */
TEST(a_link_that_is_not_tcp_tells_what_it_has_carried)
{
    world.ranks = 2;
    uint32_t rtt_us;
    uint64_t rate;
    for (uint8_t i = 0; i < 2; i++)
        engine_begin(&world.nodes[i], (uint8_t)(i + 1));
    for (uint32_t i = 0; i < 2; i++) {
        int pair[2];
        bare_pair(pair);
        engine_add(&world.nodes[i], &world.nodes[!i].id, true, 0, pair[0]);
        engine_add(&world.nodes[!i], &world.nodes[i].id, false, 0, pair[1]);
    }
    run(1, 20000, false, false);
    assert_in_range(delivered(), 80000, 90000); /* too little to measure a rate */
    assert_false(figures(0, 1, &rtt_us, &rate));
    run(2, 4 << 20, false, false);
    assert_true(figures(0, 1, &rtt_us, &rate));
    assert_int_equal(rtt_us, 0);
    assert_true(rate > 0);
    world_end(&world);
}
