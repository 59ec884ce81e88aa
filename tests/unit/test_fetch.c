/* A requester and its donors, in fetch_world.h: every fetch ends, no matter which donors die, stall or lie. */
#include "unit.h"
#include "unit/fetch_world.h"

/* ---- tests ---- */

static uint64_t thrown_in_all;

static void honest_run(uint64_t seed)
{
    world_seed(seed);
    random_tensors();
    world_init(seed, 1 + (uint32_t)below(DONORS), (uint32_t)below(1000001));
    random_donors(true);
    world.donors[0].holds_unequal = true;
    world_start(below(2) == 0);
    world_run(UINT64_MAX);
    check_complete();
    uint64_t expected = differing_bytes() + (world.takes ? unequal_bytes() : 0);
    assert_int_equal(world.wanted_bytes, expected);
    assert_int_equal(pccl_fetch_bytes(world.fetch), expected);
    assert_true(world.thrown_bytes <= 16 * (uint64_t)MEGABYTE * world.donor_count);
    assert_int_equal(world.drops, 0);
    thrown_in_all += world.thrown_bytes;
    world_fini();
}

TEST(honest_donors)
{
    for (uint64_t seed = 0; seed < 600; seed++)
        if (test_is_chosen(seed))
            honest_run(seed);
    assert_true(thrown_in_all > 0); /* idle donors have helped */
}

TEST(donors_that_fail_and_lie)
{
    uint32_t complete = 0, failed = 0, lies = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        if (!test_is_chosen(seed))
            continue;
        world_seed(seed);
        random_tensors();
        world_init(seed, 1 + (uint32_t)below(DONORS), (uint32_t)below(1000001));
        random_donors(false);
        world_start(below(2) == 0);
        world_run(UINT64_MAX);
        failed_or_complete();
        complete += pccl_fetch_status(world.fetch) == PCCL_FETCH_COMPLETE;
        failed += pccl_fetch_status(world.fetch) == PCCL_FETCH_FAILED;
        for (uint32_t i = 0; i < world.donor_count; i++)
            lies += world.donors[i].lied;
        world_fini();
    }
    const uint64_t one_of = test_one_of();
    assert_true(complete > 300 / one_of && failed > 30 / one_of && lies > 300 / one_of);
}

TEST(another_election_in_the_middle)
{
    uint32_t torn = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        if (!test_is_chosen(seed))
            continue;
        world_seed(seed + 50000);
        random_tensors();
        world_init(seed, 1 + (uint32_t)below(DONORS), (uint32_t)below(1000001));
        random_donors(below(2) == 0);
        world_start(below(2) == 0);
        for (uint64_t times = 1 + below(3); times > 0; times--) {
            world_run(1 + below(200));
            if (below(4) > 0) /* else only the master has restarted */
                elect_anew();
            world_begin(below(2) == 0);
            check_truth();
            torn += world.takes != world.takes_in_effect;
        }
        world_run(UINT64_MAX);
        failed_or_complete();
        world_fini();
    }
    assert_true(torn > 5 / test_one_of());
}

/* Every allocation fails once; with memory again, a new plan is carried out. */
TEST(short_memory)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        bool failing = true;
        for (uint64_t k = 1; failing; k++) {
            world_seed(seed + 70000);
            random_tensors();
            add_tensor(5 * MEGABYTE, false);
            world_init(seed, 3, 300000);
            world.memory.fail_at = k;
            world.memory.fail_after = k % 2 == 0;
            world.fetch = pccl_fetch_create(&world.own.state, &world.memory.memory, &effects);
            if (world.fetch != NULL) {
                world_begin(true);
                world_run(UINT64_MAX);
                failing = world.memory.failures > 0;
                check_truth();
                bool failed = pccl_fetch_status(world.fetch) == PCCL_FETCH_FAILED; /* or a donor lacked memory */
                assert_true(failing || !failed);
                assert_true(!failed || pccl_fetch_reason(world.fetch)->length > 0);
                if (!failed)
                    check_complete();
                for (uint32_t i = 0; i < world.donor_count && failing; i++)
                    answer_all(i); /* data in flight arrives */
                check_truth();
                world.memory.fail_at = 0;
                world_begin(true);
                world_run(UINT64_MAX);
                check_complete();
            }
            world_fini();
        }
    }
}

/* A donor lacks something that it needs: it is given up, and the others do its work. */
TEST(a_donor_without_memory_is_one_lost_donor)
{
    for (uint32_t lost = 0; lost < 3; lost++) {
        world_seed(lost + 80000);
        add_tensor(5 * MEGABYTE, false);
        add_tensor(2 * MEGABYTE, true);
        world_init(lost, 3, 0);
        world_start(true);
        for (uint32_t i = 0; i < 3; i++) {
            world.memory.fail_at = i == lost ? world.memory.requests + 1 : 0;
            donor_connect(i);
            assert_int_equal(world.donors[i].up, i != lost);
        }
        assert_int_equal(world.memory.failures, 1);
        assert_int_equal(world.drops, 1);
        world_run(UINT64_MAX);
        check_complete();
        world_fini();
    }
}

TEST(nothing_to_be_done)
{
    world_seed(1);
    add_tensor(3 * MEGABYTE, false);
    add_tensor(0, true);
    world_init(1, 1, 1000000);
    world_start(true); /* the unequal tensor is empty */
    check_complete();
    donor_connect(0);
    assert_int_equal(world.sent, 0);
    world_fini();

    world_seed(2);
    world_init(2, 1, 0);
    world_start(false);
    check_complete();
    world.elected.state.proof.low.bytes[0] ^= 1;
    world_begin(false);
    assert_int_equal(pccl_fetch_status(world.fetch), PCCL_FETCH_FAILED);
    donor_connect(0);
    assert_int_equal(world.sent, 0);
    world_fini();
}

TEST(only_what_need_not_be_equal)
{
    world_seed(3);
    add_tensor(3 * MEGABYTE, false);
    add_tensor(2 * MEGABYTE, true);
    add_tensor(7, true);
    world_init(3, 2, 1000000);
    world.donors[0].holds_unequal = false;
    world_start(true);
    assert_true(pccl_fetch_is_starved(world.fetch));
    donor_connect(0);
    assert_int_equal(world.sent, 0);
    assert_true(pccl_fetch_is_starved(world.fetch)); /* this one cannot help */
    donor_connect(1);
    assert_int_equal(world.sent, 1);
    answer_all(1);
    check_complete();
    assert_int_equal(pccl_fetch_bytes(world.fetch), 2 * MEGABYTE + 7);
    assert_int_equal(world.sent, 5); /* roots, a list, three chunks */
    world_fini();
}

/* The source dies in the middle: the tensors of another donor are fetched, all of them. */
TEST(another_source)
{
    world_seed(4);
    add_tensor(4 * MEGABYTE, true);
    add_tensor(7, true);
    add_tensor(2 * MEGABYTE, true);
    world_init(4, 2, 0);
    world_start(true);
    donor_connect(0);
    donor_connect(1);
    while (!world.donors[0].sending || pccl_fetch_bytes(world.fetch) < 2 * MEGABYTE)
        donor_step(0);
    assert_int_equal(world.donors[1].queue_count, 0);
    donor_disconnect(0);
    check_truth();
    answer_all(1);
    check_complete();
    assert_true(has_same(&world.donors[1].holder, true));
    world_fini();
}

/* It dies after all content that only it had has arrived. */
TEST(source_not_needed_any_more)
{
    world_seed(14);
    add_tensor(6 * MEGABYTE, false);
    add_tensor(2 * MEGABYTE, true);
    world_init(14, 2, 0);
    world.donors[1].holds_unequal = false;
    world_start(true);
    donor_connect(0);
    while (pccl_fetch_bytes(world.fetch) < 2 * MEGABYTE)
        donor_step(0);
    assert_true(has_same(&world.donors[0].holder, true));
    donor_disconnect(0);
    donor_connect(1);
    answer_all(1);
    check_complete();
    world_fini();
}

/* The memory's content, half of it written, is elected: with the other tensor unchanged, or different. */
TEST(election_of_a_mixture)
{
    for (uint32_t changed = 0; changed < 2; changed++) {
        world_seed(15);
        add_tensor(2 * MEGABYTE, false);
        add_tensor(7, false);
        world_init(15, 1, 0);
        world_start(false);
        donor_connect(0);
        while (!pccl_fetch_is_torn(world.fetch, 0) || pccl_proof_is_zero(&world.own.state.proofs[0]))
            donor_step(0);
        assert_true(pccl_fetch_is_torn(world.fetch, 0) && !has_same(&world.elected, false));
        copy_equal(&world.elected, &world.own, 1000000);
        world.elected.memory[2][0] ^= changed;
        holder_prove(&world.elected);
        copy_equal(&world.donors[0].holder, &world.elected, 1000000);
        uint64_t bytes = pccl_fetch_bytes(world.fetch);
        world_begin(false);
        assert_int_equal(pccl_fetch_is_torn(world.fetch, 0), changed);
        world_run(UINT64_MAX);
        check_complete();
        assert_int_equal(pccl_fetch_bytes(world.fetch) - bytes, changed * 7);
        world_fini();
    }
}

TEST(windows)
{
    world_seed(5);
    add_tensor(100 * (uint64_t)MEGABYTE, false);
    world_init(5, 3, 0);
    world.donors[1].rtt_us = 1999;
    world.donors[2].rtt_us = 2000;
    world_start(false);
    donor_connect(0);
    answer_next(0);
    answer_next(0);
    assert_int_equal(world.donors[0].queue_count, 4);
    donor_connect(1);
    donor_connect(2);
    assert_int_equal(world.donors[1].queue_count, 4);
    assert_int_equal(world.donors[2].queue_count, 16);
    world_run(UINT64_MAX);
    check_complete();
    world_fini();
}

static void wait_until(uint64_t us)
{
    world.now = us;
    pccl_fetch_tick(world.fetch, world.now);
}

/* A silent donor is kept while it is the only one, and dropped if another one answers. */
TEST(silence)
{
    world_seed(6);
    add_tensor(8 * MEGABYTE, false);
    world_init(6, 2, 0);
    world_start(false);
    uint64_t start = world.now;
    donor_connect(0);
    assert_int_equal(pccl_fetch_deadline(world.fetch), start + 450 * MS);
    wait_until(start + 450 * MS);
    wait_until(start + 5000 * MS);
    assert_true(world.donors[0].up && pccl_fetch_deadline(world.fetch) == UINT64_MAX);
    assert_false(pccl_fetch_is_starved(world.fetch));
    donor_connect(1);
    assert_int_equal(world.donors[1].queue_count, 0); /* the other donor is still asked for the roots */
    assert_int_equal(pccl_fetch_deadline(world.fetch), start + 5050 * MS);
    world.donors[0].stalled_until = UINT64_MAX;
    wait_until(start + 5049 * MS);
    assert_true(world.donors[0].up);
    wait_until(start + 5050 * MS);
    assert_false(world.donors[0].up);
    assert_int_equal(world.donors[1].queue_count, 1);
    answer_all(1);
    check_complete();
    world_fini();
}

/* All donors are silent: none is blamed. When one sends again, the others get a moment longer. */
TEST(silence_of_all)
{
    world_seed(12);
    add_tensor(40 * MEGABYTE, false);
    world_init(12, 2, 0);
    world_start(false);
    donor_connect(0);
    answer_next(0);
    answer_next(0);
    donor_connect(1);
    uint64_t start = world.now;
    for (uint64_t at = 450; at < 5000; at += 10)
        wait_until(start + at * MS);
    assert_true(world.donors[0].up && world.donors[1].up);
    assert_true(pccl_fetch_deadline(world.fetch) == UINT64_MAX);
    donor_step(1);
    assert_int_equal(pccl_fetch_deadline(world.fetch), world.now + 50 * MS);
    wait_until(world.now + 49 * MS);
    assert_true(world.donors[0].up);
    donor_step(0);
    wait_until(world.now + 60 * MS);
    assert_true(world.donors[0].up && world.donors[1].up);
    world_run(UINT64_MAX);
    check_complete();
    world_fini();
}

/* A silent donor gets no more requests. */
TEST(silence_and_new_work)
{
    world_seed(13);
    add_tensor(2 * MEGABYTE, false);
    add_tensor(3 * MEGABYTE, false);
    world_init(13, 2, 0);
    world_start(false);
    donor_connect(0);
    donor_connect(1);
    answer_next(0);
    assert_int_equal(world.donors[0].queue_count, 1);
    assert_int_equal(world.donors[1].queue_count, 1);
    uint64_t start = world.now;
    world.now += 300 * MS;
    pccl_fetch_progress(world.fetch, world.now, 1);
    wait_until(start + 450 * MS);
    answer_next(1);
    assert_int_equal(world.donors[0].queue_count, 1);
    assert_int_equal(world.donors[1].queue_count, 3);
    donor_step(0); /* two chunks more, one for each */
    assert_int_equal(world.donors[0].queue_count, 1);
    assert_int_equal(world.donors[1].queue_count, 4);
    world_run(UINT64_MAX);
    check_complete();
    world_fini();
}

/* We were suspended for long; the donors were not, and have a moment to answer. */
TEST(own_absence)
{
    world_seed(7);
    add_tensor(40 * MEGABYTE, false);
    world_init(7, 3, 0);
    world_start(false);
    donor_connect(0);
    donor_connect(1);
    answer_next(0);
    answer_next(0);
    assert_int_equal(world.donors[1].queue_count, 4);
    donor_connect(2);
    wait_until(world.now + 60000 * MS);
    for (uint32_t i = 0; i < 3; i++)
        donor_step(i);
    wait_until(world.now + 60 * MS);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(world.donors[i].up);
    world_run(UINT64_MAX);
    check_complete();
    assert_int_equal(world.drops, 0);
    world_fini();
}

/* The requester waits for the only donor of the missing content, as long as the others have none of it. */
TEST(silent_source)
{
    world_seed(8);
    add_tensor(3 * MEGABYTE, false);
    add_tensor(3 * MEGABYTE, true);
    world_init(8, 3, 0);
    world.donors[1].holds_unequal = false;
    world_start(true);
    donor_connect(0);
    donor_connect(1);
    answer_next(0);
    uint64_t start = world.now;
    world.donors[0].stalled_until = UINT64_MAX;
    for (uint64_t at = 50; at < 3000; at += 50) {
        answer_all(1);
        wait_until(start + at * MS);
    }
    assert_true(world.donors[0].up);
    donor_connect(2);
    wait_until(start + 3000 * MS);
    wait_until(start + 3100 * MS);
    assert_false(world.donors[0].up);
    world_run(UINT64_MAX);
    check_complete();
    assert_true(has_same(&world.donors[2].holder, true));
    world_fini();
}

/*
 * An idle donor is asked for a chunk that another one has not begun. The first one to begin writes; the other copy is
 * dropped.
 */
TEST(help_at_the_end)
{
    world_seed(9);
    add_tensor(2 * MEGABYTE, false);
    world_init(9, 2, 0);
    world_start(false);
    donor_connect(0);
    answer_next(0);
    answer_next(0);
    donor_connect(1);
    assert_int_equal(world.donors[0].queue_count, 2);
    uint64_t asked = world.now;
    assert_int_equal(pccl_fetch_deadline(world.fetch), asked + 100 * MS);
    donor_step(0); /* begins the first one */
    wait_until(asked + 100 * MS);
    assert_int_equal(world.donors[1].queue_count, 1);
    donor_step(1); /* begins the second one */
    assert_true(world.donors[1].wanted);
    while (world.donors[0].written < WORDS && !(world.donors[0].queue_count == 0 && world.donors[0].sending))
        donor_step(0);
    for (uint32_t i = 0; i < 4 && !(world.donors[0].sending && world.donors[0].chunk == 1); i++)
        donor_step(0);
    assert_true(world.donors[0].sending && world.donors[0].chunk == 1 && !world.donors[0].wanted);
    donor_disconnect(1); /* no other donor has it to deliver now: it is requested again */
    answer_all(0);
    check_complete();
    assert_int_equal(world.thrown_bytes, MEGABYTE);
    assert_int_equal(pccl_fetch_bytes(world.fetch), 2 * MEGABYTE);
    world_fini();
}

/* Any input for a donor that is not there, or from which nothing is missing, has no effect. */
TEST(strangers)
{
    world_seed(10);
    add_tensor(7, false);
    world_init(10, 2, 0);
    world_start(false);
    const struct pccl_msg data = {.type = PCCL_MSG_state_data};
    struct pccl_fetch_arrival arrival;
    struct pccl_text reason;
    struct pccl_proof proof = {0};
    const uint32_t numbers[] = {0, 1, PCCL_FETCH_DONORS, UINT32_MAX};
    donor_connect(0);
    donor_connect(1);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(numbers); i++) {
        assert_int_equal(pccl_fetch_received(world.fetch, 1, numbers[i], &data, &arrival, &reason), PCCL_MALFORMED);
        assert_int_equal(pccl_fetch_arrived(world.fetch, 1, numbers[i], &proof, &reason), PCCL_MALFORMED);
        if (i > 1) {
            pccl_fetch_progress(world.fetch, 1, numbers[i]);
            pccl_fetch_donor_down(world.fetch, 1, numbers[i]);
        }
    }
    pccl_fetch_give_up(world.fetch, "enough");
    pccl_fetch_give_up(world.fetch, "more than that");
    assert_int_equal(pccl_fetch_status(world.fetch), PCCL_FETCH_FAILED);
    assert_string_equal(pccl_fetch_reason(world.fetch)->bytes, "enough");
    world_fini();
}

/* An empty tensor has only one possible root: no peer can hold an elected content with another one. */
TEST(content_that_cannot_be)
{
    world_seed(11);
    add_tensor(0, false);
    add_tensor(7, false);
    world_init(11, 1, 1000000);
    for (uint32_t i = 0; i < 2; i++) {
        struct pccl_state *changed = i == 0 ? &world.elected.state : &world.donors[0].holder.state;
        changed->tensors[0].proof.low.bytes[0] ^= 1;
        pccl_state_prove_content(changed);
    }
    world_start(false);
    world.donors[0].lied = true;
    donor_connect(0);
    answer_all(0);
    assert_false(world.donors[0].up);
    assert_true(pccl_fetch_is_starved(world.fetch));
    world_fini();
}

/* ---- large states: only proofs ---- */

enum { LARGE_QUEUE = 1024 };
struct large {
    struct pccl_msg_state_want queue[DONORS][LARGE_QUEUE];
    uint32_t first[DONORS], count[DONORS];
    uint64_t sent;
};
static struct large large;

static void large_send(void *context, uint32_t donor, const struct pccl_msg *msg)
{
    assert_true(large.count[donor] < LARGE_QUEUE);
    large.queue[donor][(large.first[donor] + large.count[donor]++) % LARGE_QUEUE] = msg->as.state_want;
    large.sent++;
}

static void large_answer(struct pccl_fetch *fetch, const struct pccl_state *from, uint32_t donor)
{
    static struct pccl_proof roots[PCCL_STATE_DIGESTS_MAX];
    struct pccl_msg answer;
    struct pccl_text reason;
    struct pccl_fetch_arrival arrival;
    const struct pccl_msg_state_want want = large.queue[donor][large.first[donor]++ % LARGE_QUEUE];
    large.count[donor]--;
    assert_int_equal(pccl_serve(from, 1, &want, roots, &answer, &reason), PCCL_OK);
    assert_int_equal(pccl_fetch_received(fetch, 1, donor, &answer, &arrival, &reason), PCCL_OK);
    if (answer.type != PCCL_MSG_state_data)
        return;
    const struct pccl_proof *proof = &from->proofs[from->tensors[want.tensor].first_chunk + want.first];
    assert_true(arrival.wanted);
    assert_int_equal(pccl_fetch_arrived(fetch, 1, donor, proof, &reason), PCCL_OK);
}

/* Everything differs. */
static void run_large(uint32_t tensor_count, uint64_t bytes, uint64_t messages)
{
    static struct pccl_tensor tensors[PCCL_TENSORS_MAX];
    struct test_memory memory;
    struct pccl_state own, other;
    test_memory_init(&memory);
    memset(&large, 0, sizeof large);
    for (uint32_t i = 0; i < tensor_count; i++)
        tensors[i] = (struct pccl_tensor){.name = "t", .count = bytes, .bytes = bytes};
    assert_int_equal(pccl_state_init(&own, kernels(), &memory.memory, tensors, tensor_count), PCCL_OK);
    assert_int_equal(pccl_state_init(&other, kernels(), &memory.memory, tensors, tensor_count), PCCL_OK);
    for (uint64_t i = 0; i < own.chunk_count; i++) {
        memcpy(&own.proofs[i], &(uint64_t[4]){i, 1}, sizeof *own.proofs);
        memcpy(&other.proofs[i], &(uint64_t[4]){i, 2}, sizeof *other.proofs);
    }
    pccl_state_prove(&own);
    pccl_state_prove(&other);
    const struct pccl_fetch_effects send_only = {.send = large_send};
    struct pccl_fetch *fetch = pccl_fetch_create(&own, &memory.memory, &send_only);
    assert_non_null(fetch);
    pccl_fetch_begin(fetch, 1, 1, &other.proof, false);
    for (uint32_t i = 0; i < DONORS; i++)
        pccl_fetch_donor_up(fetch, 1, i, false, 50000);
    while (pccl_fetch_status(fetch) == PCCL_FETCH_RUNNING)
        for (uint32_t i = 0; i < DONORS; i++)
            if (large.count[i] > 0)
                large_answer(fetch, &other, i);
    assert_int_equal(pccl_fetch_status(fetch), PCCL_FETCH_COMPLETE);
    assert_memory_equal(own.proofs, other.proofs, (size_t)own.chunk_count * sizeof *own.proofs);
    assert_int_equal(pccl_fetch_bytes(fetch), tensor_count * bytes);
    assert_int_equal(large.sent, messages);
    pccl_fetch_destroy(fetch);
    pccl_state_fini(&own);
    pccl_state_fini(&other);
    assert_int_equal(memory.live_blocks, 0);
}

TEST(large_states)
{
    run_large(65536, 1000, 8 + 65536);
    run_large(1, (UINT64_C(1) << 40) - 5, 1 + 128 + (1 << 20));
    run_large(65536, 4 * MEGABYTE, 8 + 65536 + 4 * 65536);
}
