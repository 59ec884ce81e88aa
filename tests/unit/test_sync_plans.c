/* Effects of plans on a synchronizer: the peers that are served and the time for that, replacement, and the end. */
#include "unit.h"

#include "sync/internal.h"
#include "sync_node.h"

enum { CHUNK = NODE_CHUNK };

/* ---- memory of this thread ---- */

static _Thread_local bool starves;

void *__real_pccl_allocate(const struct pccl_memory *memory, size_t bytes);
void *__wrap_pccl_allocate(const struct pccl_memory *memory, size_t bytes)
{
    return starves ? NULL : __real_pccl_allocate(memory, bytes);
}

/* ---- plans ---- */

TEST(connections_wait_for_the_plan)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1);
    node_begin(&donor);
    int bare = bare_dial(&donor, &by_hand), gone = bare_dial(&donor, &by_hand);
    bare_want(bare, &donor, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_want(gone, &donor, PCCL_WANT_ROOTS, 0, 0, 1);
    close(gone);
    node_serve(&donor);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_state_proofs);
    assert_true(pccl_proof_equal(msg.as.state_proofs.proofs, &pccl_synchronizer_state(donor.worker)->tensors->proof));
    close(bare);
    node_finish(&donor);
    free(a);
}

TEST(who_is_fetching_does_not_serve)
{
    struct node donor, requester;
    struct pccl_id by_hand = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, 8 * CHUNK, 1), *b = prepare_one(&requester, 2, 8 * CHUNK, 2);
    struct pccl_msg msg;
    node_begin(&donor);
    node_begin(&requester);
    int before = bare_dial(&requester, &by_hand);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    bare_want(before, &requester, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_hear_end(before);
    int bare = bare_dial(&requester, &by_hand);
    bare_want(bare, &requester, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_hear_end(bare);
    node_serve(&donor);
    expect_fetched(&requester, 1);
    int after = bare_dial(&requester, &by_hand);
    bare_want(after, &requester, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_hear(after, &msg);
    assert_int_equal(msg.type, PCCL_MSG_state_proofs);
    close(before);
    close(bare);
    close(after);
    node_finish(&requester);
    node_finish(&donor);
    free(a);
    free(b);
}

TEST(a_plan_replaces_the_one_before)
{
    struct node old, new, requester;
    uint8_t *a = prepare_one(&old, 1, 24 * CHUNK, 1), *b = prepare_one(&new, 2, 24 * CHUNK, 2),
            *c = prepare_one(&requester, 3, 24 * CHUNK, 3);
    node_begin(&old);
    node_begin(&new);
    node_begin(&requester);
    node_serve(&old);
    node_serve(&new);
    requester.hold_touching = true;
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &old);
    node_until(&requester, &requester.touching); /* in the middle of the first */
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &new);
    node_set(&requester, &requester.hold_touching, false);
    expect_fetched(&requester, 1);                         /* of the second; the first was forgotten */
    pccl_synchronizer_plan(requester.worker, true, false); /* and back, when all have ended */
    node_name_donor(&requester, &old);
    expect_fetched(&requester, 2);
    node_stop(&requester);
    assert_int_equal(requester.touched, 3);
    assert_memory_equal(a, c, 24 * CHUNK);
    node_finish(&requester);
    node_finish(&old);
    node_finish(&new);
    free(a);
    free(b);
    free(c);
}

TEST(the_end_wakes_at_once)
{
    struct node node;
    struct pccl_id by_hand = node_id(4);
    const struct pccl_proof other = {.low = node_id(1)}; /* not of its content: there is something to fetch */
    uint8_t *bytes = prepare_one(&node, 1, 100, 1);
    node_begin(&node); /* no plan at all */
    node_finish(&node);
    node_prepare(&node, 1);
    (void)node_add(&node, "weights", bytes, 100);
    node_begin(&node); /* a connection that waits for ever, and a donor that is being dialed */
    int bare = bare_dial(&node, &by_hand);
    pccl_synchronizer_plan(node.worker, true, true);
    node_name(node.worker, &node.id, &other, &node.address);
    node_until_count(&node, &node.accepted, 2);
    node_stop(&node);
    assert_int_equal(node.fetched, 0);
    close(bare);
    node_finish(&node);
    free(bytes);
}

TEST(a_synchronizer_says_when_it_is_needed)
{
    struct node node;
    struct pccl_worker *synchronizer;
    struct pccl_text reason;
    struct pccl_id lineage = node_id(7), peer = node_id(2);
    struct pccl_proof of_nothing;
    struct pccl_sha256 sha;
    pccl_sha256_begin(&sha, pccl_kernels_for(0));
    pccl_sha256_end(&sha, (uint8_t *)&of_nothing);
    uv_os_sock_t ours;
    int bare;
    node_prepare(&node, 1);
    struct pccl_sync_config config = node_config(&node);
    assert_int_equal(pccl_synchronizer_create(&config, &synchronizer, &reason), PCCL_OK); /* no tensors */
    assert_false(pccl_worker_is_needed(synchronizer));
    loopback_pair(&ours, &bare);
    assert_int_equal(node_accept_link(synchronizer, &peer, ours, NULL, 0), PCCL_OK);
    assert_true(pccl_worker_is_needed(synchronizer));
    pccl_synchronizer_name(synchronizer, &node.id, &lineage, 3, 1000);
    pccl_synchronizer_plan(synchronizer, true, true);
    node_name(synchronizer, &peer, &of_nothing, NULL);
    pccl_worker_end(synchronizer);
    assert_false(pccl_worker_is_needed(synchronizer));
    pccl_worker_run(synchronizer);
    assert_int_equal(node.fetched, 1);
    assert_true(node.complete);
    pccl_worker_run(synchronizer);
    pccl_worker_destroy(synchronizer);
    close(bare);
    /* Never run. */
    assert_int_equal(pccl_synchronizer_create(&config, &synchronizer, &reason), PCCL_OK);
    loopback_pair(&ours, &bare);
    assert_int_equal(node_accept_link(synchronizer, &peer, ours, (const uint8_t *)"abc", 3), PCCL_OK);
    pccl_synchronizer_plan(synchronizer, true, true);
    node_name(synchronizer, &peer, &of_nothing, NULL);
    pccl_worker_end(synchronizer);
    uv_os_sock_t late;
    int other;
    loopback_pair(&late, &other);
    assert_int_equal(node_accept_link(synchronizer, &peer, late, NULL, 0), PCCL_USAGE);
    pccl_socket_close(late);
    pccl_worker_destroy(synchronizer);
    bare_hear_end(bare);
    close(bare);
    close(other);
    node_free(&node);
}

/* While nothing runs, a peer that dials repeatedly loses its oldest connection, and no other peer does. */
TEST(who_dials_too_often_waits_with_the_newest)
{
    enum { MOST = PCCL_SYNC_LINKS_PER_PEER_MAX };
    struct node node;
    struct pccl_worker *synchronizer;
    struct pccl_text reason;
    struct pccl_id honest = node_id(2), liar = node_id(3);
    struct pollfd bare[2 + MOST];
    node_prepare(&node, 1);
    struct pccl_sync_config config = node_config(&node);
    assert_int_equal(pccl_synchronizer_create(&config, &synchronizer, &reason), PCCL_OK);
    for (int i = 0; i < 2 + MOST; i++) {
        uv_os_sock_t ours;
        bare[i] = (struct pollfd){.events = POLLIN};
        loopback_pair(&ours, &bare[i].fd);
        assert_int_equal(node_accept_link(synchronizer, i == 0 ? &honest : &liar, ours, NULL, 0), PCCL_OK);
    }
    bare_hear_end(bare[1].fd);
    assert_int_equal(poll(bare, 2 + MOST, 0), 1);
    pccl_worker_end(synchronizer);
    pccl_worker_run(synchronizer);
    assert_int_equal(poll(bare, 2 + MOST, 0), 1);
    pccl_worker_destroy(synchronizer);
    for (int i = 0; i < 2 + MOST; i++) {
        bare_hear_end(bare[i].fd);
        close(bare[i].fd);
    }
    node_free(&node);
}

/* Bytes that arrive together with the hello are not lost. */
TEST(what_was_read_behind_the_handshake_counts)
{
    struct node donor;
    struct pccl_id peer = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1), frames[3 * 256];
    struct pccl_msg msg = {.type = PCCL_MSG_state_want,
                           .as.state_want = {.round = 5, .what = PCCL_WANT_ROOTS, .count = 1}};
    size_t size = pccl_frame_size(&msg);
    uv_os_sock_t ours;
    int bare;
    node_begin(&donor);
    node_serve(&donor);
    for (size_t i = 0; i < 3; i++)
        pccl_frame_encode(&msg, 0, 0, frames + i * size);
    loopback_pair(&ours, &bare);
    assert_int_equal(node_accept_link(donor.worker, &peer, ours, frames, 2 * size + size / 2), PCCL_OK);
    bare_write(bare, frames, 0);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            bare_write(bare, frames + 2 * size + size / 2, size - size / 2);
        bare_hear(bare, &msg);
        assert_int_equal(msg.type, PCCL_MSG_state_proofs);
    }
    close(bare);
    node_finish(&donor);
    free(a);
}

/* A synchronizer's report on a replaced plan is known to be obsolete. */
TEST(a_report_of_an_older_plan_is_known)
{
    enum { BYTES = 100 };
    struct node donor, other, requester;
    uint8_t *wanted = prepare_one(&donor, 1, BYTES, 1), *other_one = prepare_one(&other, 3, BYTES, 3);
    uint8_t *own = prepare_one(&requester, 2, BYTES, 2);
    node_begin(&donor);
    node_begin(&other);
    node_begin(&requester);
    node_serve(&donor);
    node_serve(&other);
    requester.hold_touching = true;
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    node_until(&requester, &requester.touching);
    assert_false(pccl_synchronizer_is_replanned(requester.worker));
    pccl_synchronizer_plan(requester.worker, true, false);
    assert_true(pccl_synchronizer_is_replanned(requester.worker));
    node_set(&requester, &requester.hold_touching, false);
    node_finish(&requester);
    node_finish(&donor);
    node_finish(&other);
    free(wanted);
    free(other_one);
    free(own);
}

/* A synchronizer that could not fetch for one plan serves the next one's content, if it has that. */
TEST(who_failed_before_serves)
{
    enum { BYTES = 100 };
    struct node holder, requester;
    const struct pccl_proof nowhere = {.low = node_id(1)};
    const struct pccl_id gone = node_id(8);
    uint8_t *held = prepare_one(&holder, 1, BYTES, 1), *own = prepare_one(&requester, 2, BYTES, 2);
    node_begin(&holder);
    node_begin(&requester);
    pccl_synchronizer_plan(holder.worker, true, false);
    node_name(holder.worker, &gone, &nowhere, NULL);
    node_until_count(&holder, &holder.fetched, 1);
    assert_false(holder.complete);
    node_serve(&holder);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &holder);
    node_until_count(&requester, &requester.fetched, 1);
    assert_true(requester.complete);
    assert_memory_equal(held, own, BYTES);
    node_finish(&holder);
    node_finish(&requester);
    free(held);
    free(own);
}

/* A synchronizer whose result is no longer needed stops in the middle, and neither reports nor serves. */
TEST(a_proof_left_early_is_none)
{
    struct node node;
    struct pccl_id lineage = node_id(7), peer = node_id(2);
    uint8_t *bytes = prepare_one(&node, 1, 3 * CHUNK, 1), frame[NODE_FRAME_MAX];
    struct pccl_sync_config config = node_config(&node);
    struct pccl_msg want = {.type = PCCL_MSG_state_want,
                            .as.state_want = {.round = 3, .what = PCCL_WANT_ROOTS, .count = 1}};
    struct pccl_worker *synchronizer;
    struct pccl_text reason;
    uv_os_sock_t ours;
    int bare;
    assert_int_equal(pccl_synchronizer_create(&config, &synchronizer, &reason), PCCL_OK);
    pccl_synchronizer_name(synchronizer, &node.id, &lineage, 3, 1000);
    pccl_frame_encode(&want, 0, 0, frame);
    loopback_pair(&ours, &bare);
    assert_int_equal(node_accept_link(synchronizer, &peer, ours, frame, pccl_frame_size(&want)), PCCL_OK);
    pccl_synchronizer_plan(synchronizer, false, false);
    pccl_worker_end(synchronizer);
    pccl_worker_run(synchronizer);
    assert_int_equal(node.proven, 1);
    assert_true(pccl_proof_is_zero(&node.proof));
    bare_hear_end(bare);
    pccl_worker_destroy(synchronizer);
    close(bare);
    node_free(&node);
    free(bytes);
}

/* Names a donor while there is no memory to note it. */
static void name_a_donor_in_vain(struct node *node, const struct node *donor)
{
    starves = true;
    node_name_donor(node, donor);
    starves = false;
}

/*
 * Waits until its loop has taken everything that was handed in before: it closes a connection, because it is fetching.
 */
static void await_that_all_is_taken(struct node *node)
{
    struct pccl_id by_hand = node_id(4);
    int bare = bare_dial(node, &by_hand);
    bare_want(bare, node, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_hear_end(bare);
    close(bare);
}

TEST(a_donor_that_could_not_be_noted_is_one_lost_donor)
{
    enum { BYTES = 3 * CHUNK };
    for (int known_before = 0; known_before < 2; known_before++) {
        struct node donor, other, requester;
        uint8_t *wanted = prepare_one(&donor, 1, BYTES, 1), *same = prepare_one(&other, 3, BYTES, 1);
        uint8_t *own = prepare_one(&requester, 2, BYTES, 2);
        requester.patience_ms = LOOPBACK_HANG_MS;
        node_begin(&donor);
        node_begin(&other);
        node_begin(&requester);
        node_serve(&donor);
        node_serve(&other);
        pccl_synchronizer_plan(requester.worker, true, false);
        name_a_donor_in_vain(&requester, &other);
        if (known_before) /* the loss is known when the next one arrives */
            await_that_all_is_taken(&requester);
        node_name_donor(&requester, &donor);
        expect_fetched(&requester, 1);
        node_stop(&requester);
        assert_memory_equal(wanted, own, BYTES);
        node_finish(&requester);
        node_finish(&donor);
        node_finish(&other);
        free(wanted);
        free(same);
        free(own);
    }
}

TEST(a_donor_that_could_not_be_noted_was_the_only_one)
{
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1), *b = prepare_one(&requester, 2, CHUNK, 2);
    node_begin(&donor);
    node_begin(&requester);
    node_serve(&donor);
    pccl_synchronizer_plan(requester.worker, true, false);
    name_a_donor_in_vain(&requester, &donor);
    expect_failure(&requester, "no donor of the shared state is left: out of memory");
    node_finish(&requester);
    node_finish(&donor);
    free(a);
    free(b);
}
#include "unit.h"

#include "sync/internal.h"
