/* Sessions of a synchronization, over real connections, when the other side leaves, stalls or sends false data. */
#include "unit.h"
#include "forge.h"
#include "sync_node.h"

enum { CHUNK = NODE_CHUNK };

/* ---- peers that leave ---- */

TEST(a_donor_goes_in_the_middle)
{
    enum { BYTES = 48 * CHUNK };
    struct node donors[2], requester;
    uint8_t *memory[3];
    for (uint8_t i = 0; i < 2; i++) {
        memory[i] = prepare_one(&donors[i], (uint8_t)(i + 1), BYTES, 1);
        node_begin(&donors[i]);
        node_serve(&donors[i]);
    }
    memory[2] = prepare_one(&requester, 3, BYTES, 2);
    node_begin(&requester);
    requester.hold_touching = true;
    pccl_synchronizer_plan(requester.worker, true, false);
    for (int i = 0; i < 2; i++)
        node_name_donor(&requester, &donors[i]);
    node_until(&requester, &requester.touching); /* the first chunk is coming in */
    node_end(&donors[0]);
    node_set(&requester, &requester.hold_touching, false);
    expect_fetched(&requester, 1);
    node_stop(&requester);
    assert_memory_equal(memory[2], memory[1], BYTES);
    assert_int_equal(requester.received, BYTES);
    node_free(&donors[0]);
    node_finish(&requester);
    node_finish(&donors[1]);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

TEST(the_only_donor_goes)
{
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, 32 * CHUNK, 1), *b = prepare_one(&requester, 2, 32 * CHUNK, 2);
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    requester.hold_touching = true;
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    node_until(&requester, &requester.touching);
    node_end(&donor);
    node_set(&requester, &requester.hold_touching, false);
    expect_failure(&requester, "no donor of the shared state is left");
    node_stop(&requester);
    assert_string_equal(requester.torn.bytes, "'weights'");
    node_free(&donor);
    node_finish(&requester);
    free(a);
    free(b);
}

/* The liar's content has all digests of the donor's; only the donor's proof identifies the elected content. */
TEST(a_donor_with_forged_content_is_refused)
{
    enum { BYTES = 3 * CHUNK };
    struct node donor, liar, requester;
    uint8_t *good = prepare_one(&donor, 1, BYTES, 1), *forged = prepare_one(&liar, 2, BYTES, 2),
            *own = prepare_one(&requester, 3, BYTES, 3);
    for (size_t chunk = 0; chunk < 3; chunk++)
        forge_digest(good + chunk * CHUNK, forged + chunk * CHUNK, CHUNK);
    assert_memory_not_equal(good, forged, BYTES);
    node_begin(&donor);
    node_begin(&liar);
    node_begin(&requester);
    const struct pccl_state *a = pccl_synchronizer_state(donor.worker), *b = pccl_synchronizer_state(liar.worker);
    assert_memory_equal(a->chunks, b->chunks, 3 * sizeof *a->chunks);
    assert_true(pccl_digest_equal(&a->content, &b->content));
    node_serve(&donor);
    node_serve(&liar);
    assert_false(pccl_proof_equal(&donor.proof, &liar.proof));
    pccl_synchronizer_plan(requester.worker, true, false);
    liar.proof = donor.proof; /* the proof that the master has sent */
    node_name_donor(&requester, &liar);
    node_until_count(&liar, &liar.accepted, 2);
    node_name_donor(&requester, &donor);
    expect_fetched(&requester, 1);
    node_stop(&requester);
    assert_memory_equal(good, own, BYTES);
    assert_int_equal(requester.received, BYTES);
    node_finish(&requester);
    node_finish(&liar);
    node_finish(&donor);
    free(good);
    free(forged);
    free(own);
}

TEST(a_requester_goes_in_the_middle)
{
    enum { BYTES = 48 * CHUNK };
    struct node donor, leaves, stays;
    uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = prepare_one(&leaves, 2, BYTES, 2),
            *c = prepare_one(&stays, 3, BYTES, 3), some[4096];
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    node_begin(&donor);
    node_serve(&donor);
    int bare = bare_dial(&donor, &by_hand);
    for (uint32_t i = 0; i < 40; i++)
        bare_want(bare, &donor, PCCL_WANT_DATA, 0, i, 1);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_state_data);
    assert_int_equal(msg.as.state_data.length, CHUNK);
    loopback_read(bare, some, sizeof some);
    assert_memory_equal(some, a, sizeof some);
    node_begin(&leaves);
    node_begin(&stays);
    leaves.hold_touching = stays.hold_touching = true;
    pccl_synchronizer_plan(leaves.worker, true, false);
    pccl_synchronizer_plan(stays.worker, true, false);
    node_name_donor(&leaves, &donor);
    node_name_donor(&stays, &donor);
    node_until(&leaves, &leaves.touching);
    node_until(&stays, &stays.touching);
    close(bare);
    pccl_worker_end(leaves.worker);
    node_set(&leaves, &leaves.hold_touching, false);
    node_finish(&leaves);
    node_set(&stays, &stays.hold_touching, false);
    expect_fetched(&stays, 1);
    node_stop(&stays);
    assert_memory_equal(a, c, BYTES);
    node_finish(&stays);
    node_finish(&donor);
    free(a);
    free(b);
    free(c);
}

TEST(nobody_can_be_reached)
{
    struct node requester;
    struct pccl_proof wanted = {.low = node_id(1)};
    struct pccl_id gone = node_id(8);
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1);
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    close(listening);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name(requester.worker, &gone, &wanted, &address);
    expect_failure(&requester, "connection refused");
    assert_int_equal(requester.touched, 0);
    node_stop(&requester);
    assert_string_equal(requester.torn.bytes, "");
    node_finish(&requester);
    free(bytes);
}

TEST(somebody_else_answers)
{
    struct node other, requester;
    uint8_t *a = prepare_one(&other, 1, CHUNK, 1), *b = prepare_one(&requester, 2, CHUNK, 2);
    struct pccl_id meant = node_id(8);
    node_begin(&other);
    node_serve(&other);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name(requester.worker, &meant, &other.proof, &other.address);
    expect_failure(&requester, "no donor");
    node_finish(&requester);
    node_finish(&other);
    free(a);
    free(b);
}

TEST(more_donors_than_are_asked_at_once)
{
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, 4 * CHUNK, 1), *b = prepare_one(&requester, 2, 4 * CHUNK, 2);
    uint16_t port;
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    close(listening);
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    for (uint8_t i = 0; i < PCCL_STATE_DONORS_MAX; i++) {
        struct pccl_id gone = node_id((uint8_t)(i + 50));
        node_name(requester.worker, &gone, &donor.proof, &address);
    }
    node_name_donor(&requester, &donor); /* its turn is when one of them is dropped */
    expect_fetched(&requester, 1);
    node_finish(&requester);
    node_finish(&donor);
    assert_memory_equal(a, b, 4 * CHUNK);
    free(a);
    free(b);
}

/* ---- peers that stall or lie ---- */

TEST(a_silent_donor_is_given_up)
{
    struct node requester;
    struct pccl_proof wanted = {.low = node_id(1)};
    struct pccl_id silent = node_id(8);
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1);
    int listening = loopback_listen(&port), bare[4];
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    requester.silence_ms = 2000;
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name(requester.worker, &silent, &wanted, &address);
    for (int i = 0; i < 4; i++) {
        bare[i] = bare_accept(listening, &silent);
        bare_hear_end(bare[i]);
        close(bare[i]);
    }
    expect_failure(&requester, "no data for");
    node_finish(&requester);
    close(listening);
    free(bytes);
}

/* Answers wants from this memory, with one byte changed. */
static void lie(int bare, const struct node *good, uint8_t *memory)
{
    static struct pccl_proof roots[PCCL_STATE_DIGESTS_MAX];
    struct pccl_msg msg = {.type = PCCL_MSG_state_proofs};
    struct pccl_msg_state_want want;
    const struct pccl_state *state = pccl_synchronizer_state(good->worker);
    do {
        struct pccl_msg asked;
        bare_hear(bare, &asked);
        assert_int_equal(asked.type, PCCL_MSG_state_want);
        want = asked.as.state_want;
        roots[0] = state->tensors[0].proof;
        msg.as.state_proofs = (struct pccl_msg_state_proofs){
            .round = want.round, .what = want.what, .tensor = 0, .first = want.first, .proofs_count = want.count};
        msg.as.state_proofs.proofs = want.what == PCCL_WANT_ROOTS ? roots : state->proofs + want.first;
        if (want.what != PCCL_WANT_DATA)
            bare_say(bare, &msg);
    } while (want.what != PCCL_WANT_DATA);
    struct pccl_msg data = {.type = PCCL_MSG_state_data,
                            .as.state_data = {.round = want.round, .tensor = 0, .chunk = want.first, .length = CHUNK}};
    uint8_t *copy = malloc(CHUNK);
    assert_non_null(copy);
    memcpy(copy, memory + want.first * CHUNK, CHUNK);
    copy[1234] ^= 4;
    bare_say(bare, &data);
    bare_write(bare, copy, CHUNK);
    free(copy);
    bare_hear_end(bare);
    close(bare);
}

TEST(a_lying_donor_is_dropped_and_another_one_asked)
{
    enum { BYTES = 8 * CHUNK };
    struct node donor, requester;
    struct pccl_id liar = node_id(8);
    uint16_t port;
    uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = prepare_one(&requester, 2, BYTES, 2);
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name(requester.worker, &liar, &donor.proof, &address);
    for (int i = 0; i < 2; i++)
        lie(bare_accept(listening, &liar), &donor, a);
    node_name_donor(&requester, &donor);
    expect_fetched(&requester, 1);
    close(listening);
    node_stop(&requester);
    assert_memory_equal(a, b, BYTES);
    assert_int_equal(requester.received, BYTES);
    node_finish(&requester);
    node_finish(&donor);
    free(a);
    free(b);
}

TEST(a_donor_that_says_what_nobody_asked_is_dropped)
{
    struct node requester;
    struct pccl_proof wanted = {.low = node_id(1)};
    struct pccl_id liar = node_id(8);
    struct pccl_msg bye = {.type = PCCL_MSG_link_bye}, data = {.type = PCCL_MSG_state_data};
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1), noise[200];
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    memset(noise, 0xee, sizeof noise);
    data.as.state_data.length = 100;
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name(requester.worker, &liar, &wanted, &address);
    for (int i = 0; i < 4; i++) {
        int bare = bare_accept(listening, &liar);
        if (i == 0)
            bare_say(bare, &bye);
        else if (i == 1)
            bare_say(bare, &data);
        else
            bare_write(bare, noise, sizeof noise);
        bare_hear_end(bare);
        close(bare);
    }
    expect_failure(&requester, "no donor");
    assert_int_equal(requester.touched, 0);
    node_finish(&requester);
    close(listening);
    free(bytes);
}

TEST(a_requester_that_sends_garbage_loses_its_connection)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg ready = {.type = PCCL_MSG_link_bye};
    uint8_t *a = prepare_one(&donor, 1, 3 * CHUNK, 1), noise[100], frame[NODE_FRAME_MAX];
    memset(noise, 0xee, sizeof noise);
    node_begin(&donor);
    node_serve(&donor);
    int good = bare_dial(&donor, &by_hand);
    for (int i = 0; i < 8; i++) {
        int bare = bare_dial(&donor, &by_hand);
        switch (i) {
        case 0: bare_write(bare, noise, sizeof noise); break;
        case 1: bare_say(bare, &ready); break;
        case 2: bare_want(bare, &donor, PCCL_WANT_DATA, 1, 0, 1); break; /* no such tensor exists */
        case 3: bare_want(bare, &donor, PCCL_WANT_DATA, 0, 3, 1); break; /* no such chunk exists */
        case 4: donor.round++, bare_want(bare, &donor, PCCL_WANT_DATA, 0, 0, 1), donor.round--; break;
        case 5: bare_want(bare, &donor, PCCL_WANT_CHUNKS, 0, UINT64_MAX, 5); break;
        case 6: /* a wrong checksum */
            pccl_frame_encode(&ready, 0, 0, frame);
            frame[25] ^= 1;
            bare_write(bare, frame, pccl_frame_size(&ready));
            break;
        default: shutdown(bare, SHUT_WR); break;
        }
        bare_hear_end(bare);
        close(bare);
    }
    struct pccl_msg msg;
    bare_want(good, &donor, PCCL_WANT_CHUNKS, 0, 1, 100);
    bare_hear(good, &msg);
    assert_int_equal(msg.type, PCCL_MSG_state_proofs);
    assert_int_equal(msg.as.state_proofs.proofs_count, 2);
    close(good);
    node_finish(&donor);
    free(a);
}

TEST(a_requester_that_does_not_read_is_closed)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, 64 * CHUNK, 1);
    int small = 4096;
    donor.silence_ms = 2000;
    node_begin(&donor);
    node_serve(&donor);
    int bare = bare_dial(&donor, &by_hand);
    assert_int_equal(setsockopt(bare, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    for (uint32_t i = 0; i < 64; i++)
        bare_want(bare, &donor, PCCL_WANT_DATA, 0, i, 1);
    struct pollfd broken = {.fd = bare, .events = 0}; /* waits for the reset that unread wants cause, not for input */
    (void)poll(&broken, 1, 2000);
    bare_hear_end(bare);
    close(bare);
    node_stop(&donor);
    assert_true(donor.sent < 64 * CHUNK);
    node_finish(&donor);
    free(a);
}

TEST(a_requester_holds_so_many_connections)
{
    enum { MANY = 12 };
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1);
    int bare[MANY];
    node_begin(&donor);
    node_serve(&donor);
    for (int i = 0; i < MANY; i++)
        bare[i] = bare_dial(&donor, &by_hand);
    for (int i = 0; i < MANY - 8; i++)
        bare_hear_end(bare[i]);
    for (int i = MANY - 8; i < MANY; i++) {
        bare_want(bare[i], &donor, PCCL_WANT_ROOTS, 0, 0, 1);
        bare_hear(bare[i], &msg);
        assert_int_equal(msg.type, PCCL_MSG_state_proofs);
    }
    for (int i = 0; i < MANY; i++)
        close(bare[i]);
    node_finish(&donor);
    free(a);
}
