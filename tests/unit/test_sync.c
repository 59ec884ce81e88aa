/* Sessions of a synchronization among themselves, over real connections, and with peers played by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "sync_node.h"

enum { CHUNK = NODE_CHUNK };

/* ---- several donors ---- */

enum { DONORS = 3, TENSORS = 5 };
static const size_t sizes[TENSORS] = {3 * CHUNK + 17, 0, 1, CHUNK, 12 * CHUNK + 1};

/* Unaligned, so that a byte before and one behind can be looked at. */
static uint8_t *add_tensors(struct node *node, uint64_t seed)
{
    static const char *const names[TENSORS] = {"a", "empty", "one", "chunk", "large"};
    size_t total = 1;
    for (int i = 0; i < TENSORS; i++)
        total += sizes[i] + 1;
    uint8_t *memory = make(total, seed), *next = memory + 1;
    for (int i = 0; i < TENSORS; i++) {
        (void)node_add(node, names[i], next, sizes[i]);
        next += sizes[i];
        *next++ = 0x5a;
    }
    memory[0] = 0x5a;
    return memory;
}

static void expect_equal(const struct node *a, const struct node *b)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        assert_memory_equal(a->tensors[i].data, b->tensors[i].data, a->tensors[i].bytes);
}

static void a_newcomer_fetches_from_several(void **state)
{
    struct node donors[DONORS], newcomer;
    uint8_t *memory[DONORS + 1];
    uint64_t sent = 0;
    (void)state;
    for (uint8_t i = 0; i < DONORS; i++) {
        node_prepare(&donors[i], (uint8_t)(i + 1));
        memory[i] = add_tensors(&donors[i], 1);
        node_begin(&donors[i]);
        node_serve(&donors[i]);
    }
    node_prepare(&newcomer, 9);
    memory[DONORS] = add_tensors(&newcomer, 2);
    node_begin(&newcomer);
    pccl_sync_session_plan(newcomer.session, &donors[0].content, true, false);
    for (int i = 0; i < DONORS; i++)
        node_name_donor(&newcomer, &donors[i]);
    expect_fetched(&newcomer, 1);
    assert_int_equal(newcomer.touched, 1);
    node_stop(&newcomer);
    assert_true(pccl_digest_equal(&newcomer.content, &donors[0].content));
    assert_int_equal(newcomer.received, sizes[0] + sizes[2] + sizes[3] + sizes[4]);
    assert_string_equal(newcomer.torn.bytes, "");
    for (int i = 0; i < DONORS; i++) {
        node_stop(&donors[i]);
        expect_equal(&newcomer, &donors[i]);
        sent += donors[i].sent;
    }
    assert_true(sent >= newcomer.received);
    for (int i = 0, at = 0; i < TENSORS; i++) {
        assert_int_equal(memory[DONORS][at], 0x5a);
        at += (int)sizes[i] + 1;
    }
    for (int i = 0; i < DONORS; i++)
        node_finish(&donors[i]);
    node_finish(&newcomer);
    for (int i = 0; i <= DONORS; i++)
        free(memory[i]);
}

static void only_what_differs_moves(void **state)
{
    enum { CHUNKS = 100 };
    struct node donor, requester;
    uint8_t *good = prepare_one(&donor, 1, CHUNKS * CHUNK, 1), *other = prepare_one(&requester, 2, CHUNKS * CHUNK, 1);
    (void)state;
    other[42 * CHUNK + 4711] ^= 1;
    node_begin(&donor);
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    node_name_donor(&requester, &donor);
    node_serve(&donor); /* its plan comes after the requester's */
    expect_fetched(&requester, 1);
    node_stop(&requester);
    node_stop(&donor);
    assert_int_equal(requester.received, CHUNK);
    assert_int_equal(donor.sent, CHUNK);
    assert_memory_equal(good, other, CHUNKS * CHUNK);
    node_finish(&requester);
    node_finish(&donor);
    free(good);
    free(other);
}

static void nothing_moves_if_all_is_there(void **state)
{
    struct node requester;
    uint8_t *bytes = prepare_one(&requester, 2, 3 * CHUNK, 1);
    (void)state;
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &requester.content, true, false);
    expect_fetched(&requester, 1);
    assert_int_equal(requester.touched, 0);
    node_finish(&requester);
    free(bytes);
}

static void tensors_that_need_not_be_equal_come_from_one(void **state)
{
    struct node donors[2], requester;
    uint8_t *memory[3];
    (void)state;
    for (uint8_t i = 0; i < 3; i++) {
        struct node *node = i < 2 ? &donors[i] : &requester;
        node_prepare(node, (uint8_t)(i + 1));
        memory[i] = make(8 * CHUNK, i < 2 ? 1 : 3);
        fill(memory[i] + 4 * CHUNK, 4 * CHUNK, i + 100);
        (void)node_add(node, "equal", memory[i], 4 * CHUNK);
        node_add(node, "own", memory[i] + 4 * CHUNK, 4 * CHUNK)->unequal = true;
        node_begin(node);
    }
    assert_true(pccl_digest_equal(&donors[0].content, &donors[1].content));
    for (int i = 0; i < 2; i++)
        node_serve(&donors[i]);
    pccl_sync_session_plan(requester.session, &donors[0].content, true, true);
    for (int i = 0; i < 2; i++)
        node_name_donor(&requester, &donors[i]);
    expect_fetched(&requester, 1);
    node_stop(&requester);
    assert_memory_equal(memory[2], memory[0], 4 * CHUNK);
    bool first = memcmp(memory[2] + 4 * CHUNK, memory[0] + 4 * CHUNK, 4 * CHUNK) == 0;
    bool second = memcmp(memory[2] + 4 * CHUNK, memory[1] + 4 * CHUNK, 4 * CHUNK) == 0;
    assert_true(first || second);
    node_finish(&requester);
    for (int i = 0; i < 2; i++)
        node_finish(&donors[i]);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

static void many_small_tensors(void **state)
{
    enum { MANY = 3000, BYTES = 40 };
    struct node donor, requester;
    static struct pccl_sync_tensor tensors[2][MANY];
    uint8_t *memory[2];
    (void)state;
    for (int n = 0; n < 2; n++) {
        memory[n] = make(MANY * BYTES, (uint64_t)n + 1);
        for (int i = 0; i < MANY; i++)
            tensors[n][i] = (struct pccl_sync_tensor){
                .name = "t", .data = memory[n] + i * BYTES, .count = BYTES, .bytes = BYTES, .datatype = 1};
        struct node *node = n == 0 ? &donor : &requester;
        node_prepare(node, (uint8_t)(n + 1));
        node->many = tensors[n];
        node->tensor_count = MANY;
        node_begin(node);
    }
    node_serve(&donor);
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    node_name_donor(&requester, &donor);
    expect_fetched(&requester, 1);
    node_finish(&requester);
    node_finish(&donor);
    assert_memory_equal(memory[0], memory[1], MANY * BYTES);
    free(memory[0]);
    free(memory[1]);
}

static void who_has_fetched_serves(void **state)
{
    struct node first, second, third;
    uint8_t *a = prepare_one(&first, 1, 5 * CHUNK, 1), *b = prepare_one(&second, 2, 5 * CHUNK, 2),
            *c = prepare_one(&third, 3, 5 * CHUNK, 3);
    (void)state;
    node_begin(&first);
    node_begin(&second);
    node_begin(&third);
    node_serve(&first);
    pccl_sync_session_plan(second.session, &first.content, true, false);
    node_name_donor(&second, &first);
    expect_fetched(&second, 1);
    node_finish(&first);
    pccl_sync_session_plan(third.session, &first.content, true, false);
    node_name_donor(&third, &second);
    expect_fetched(&third, 1);
    node_stop(&third);
    assert_memory_equal(a, c, 5 * CHUNK);
    node_finish(&third);
    node_finish(&second);
    free(a);
    free(b);
    free(c);
}

/* ---- who goes ---- */

static void a_donor_goes_in_the_middle(void **state)
{
    enum { BYTES = 48 * CHUNK };
    struct node donors[2], requester;
    uint8_t *memory[3];
    (void)state;
    for (uint8_t i = 0; i < 2; i++) {
        memory[i] = prepare_one(&donors[i], (uint8_t)(i + 1), BYTES, 1);
        node_begin(&donors[i]);
        node_serve(&donors[i]);
    }
    memory[2] = prepare_one(&requester, 3, BYTES, 2);
    node_begin(&requester);
    requester.hold_touching = true;
    pccl_sync_session_plan(requester.session, &donors[0].content, true, false);
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

static void the_only_donor_goes(void **state)
{
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, 32 * CHUNK, 1), *b = prepare_one(&requester, 2, 32 * CHUNK, 2);
    (void)state;
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    requester.hold_touching = true;
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    node_name_donor(&requester, &donor);
    node_until(&requester, &requester.touching);
    node_end(&donor);
    node_set(&requester, &requester.hold_touching, false);
    expect_failure(&requester, "nobody is left to fetch the shared state from");
    node_stop(&requester);
    assert_string_equal(requester.torn.bytes, "'weights'");
    node_free(&donor);
    node_finish(&requester);
    free(a);
    free(b);
}

static void a_requester_goes_in_the_middle(void **state)
{
    enum { BYTES = 48 * CHUNK };
    struct node donor, leaves, stays;
    uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = prepare_one(&leaves, 2, BYTES, 2),
            *c = prepare_one(&stays, 3, BYTES, 3), some[4096];
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    (void)state;
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
    pccl_sync_session_plan(leaves.session, &donor.content, true, false);
    pccl_sync_session_plan(stays.session, &donor.content, true, false);
    node_name_donor(&leaves, &donor);
    node_name_donor(&stays, &donor);
    node_until(&leaves, &leaves.touching);
    node_until(&stays, &stays.touching);
    close(bare);
    pccl_sync_session_end(leaves.session);
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

static void nobody_can_be_reached(void **state)
{
    struct node requester;
    struct pccl_digest wanted = {.low = 1, .high = 2};
    struct pccl_id gone = node_id(8);
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1);
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    (void)state;
    close(listening);
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &wanted, true, false);
    pccl_sync_session_donor(requester.session, &gone, true, &address, 1);
    expect_failure(&requester, "connection refused");
    assert_int_equal(requester.touched, 0);
    node_stop(&requester);
    assert_string_equal(requester.torn.bytes, "");
    node_finish(&requester);
    free(bytes);
}

static void somebody_else_answers(void **state)
{
    struct node other, requester;
    uint8_t *a = prepare_one(&other, 1, CHUNK, 1), *b = prepare_one(&requester, 2, CHUNK, 2);
    struct pccl_id meant = node_id(8);
    (void)state;
    node_begin(&other);
    node_serve(&other);
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &other.content, true, false);
    pccl_sync_session_donor(requester.session, &meant, true, &other.address, 1);
    expect_failure(&requester, "nobody is left");
    node_finish(&requester);
    node_finish(&other);
    free(a);
    free(b);
}

static void more_donors_than_are_asked_at_once(void **state)
{
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, 4 * CHUNK, 1), *b = prepare_one(&requester, 2, 4 * CHUNK, 2);
    uint16_t port;
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    (void)state;
    close(listening);
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    for (uint8_t i = 0; i < PCCL_STATE_DONORS_MAX; i++) {
        struct pccl_id gone = node_id((uint8_t)(i + 50));
        pccl_sync_session_donor(requester.session, &gone, true, &address, 1);
    }
    node_name_donor(&requester, &donor); /* its turn comes when one of them is given up */
    expect_fetched(&requester, 1);
    node_finish(&requester);
    node_finish(&donor);
    assert_memory_equal(a, b, 4 * CHUNK);
    free(a);
    free(b);
}

/* ---- who stalls or lies ---- */

static void a_silent_donor_is_given_up(void **state)
{
    struct node requester;
    struct pccl_digest wanted = {.low = 1, .high = 2};
    struct pccl_id silent = node_id(8);
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1);
    int listening = loopback_listen(&port), bare[4];
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    (void)state;
    requester.silence_ms = 200;
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &wanted, true, false);
    pccl_sync_session_donor(requester.session, &silent, true, &address, 1);
    for (int i = 0; i < 4; i++) {
        bare[i] = bare_accept(listening, &silent);
        bare_hear_end(bare[i]);
        close(bare[i]);
    }
    expect_failure(&requester, "nothing for");
    node_finish(&requester);
    close(listening);
    free(bytes);
}

/* Answers what is wanted of this memory, but for one byte. */
static void lie(int bare, const struct node *good, uint8_t *memory)
{
    static struct pccl_digest roots[PCCL_STATE_DIGESTS_MAX];
    struct pccl_msg msg = {.type = PCCL_MSG_state_digests};
    struct pccl_msg_state_want want;
    const struct pccl_state *state = pccl_sync_session_state(good->session);
    do {
        struct pccl_msg asked;
        bare_hear(bare, &asked);
        assert_int_equal(asked.type, PCCL_MSG_state_want);
        want = asked.as.state_want;
        roots[0] = state->tensors[0].root;
        msg.as.state_digests = (struct pccl_msg_state_digests){
            .round = want.round, .what = want.what, .tensor = 0, .first = want.first, .digests_count = want.count};
        msg.as.state_digests.digests = want.what == PCCL_WANT_ROOTS ? roots : state->chunks + want.first;
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

static void a_lying_donor_is_dropped_and_another_one_asked(void **state)
{
    enum { BYTES = 8 * CHUNK };
    struct node donor, requester;
    struct pccl_id liar = node_id(8);
    uint16_t port;
    uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = prepare_one(&requester, 2, BYTES, 2);
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    (void)state;
    node_begin(&donor);
    node_serve(&donor);
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    pccl_sync_session_donor(requester.session, &liar, true, &address, 1);
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

static void a_donor_that_says_what_nobody_asked_is_dropped(void **state)
{
    struct node requester;
    struct pccl_digest wanted = {.low = 1, .high = 2};
    struct pccl_id liar = node_id(8);
    struct pccl_msg bye = {.type = PCCL_MSG_link_bye}, data = {.type = PCCL_MSG_state_data};
    uint16_t port;
    uint8_t *bytes = prepare_one(&requester, 1, 2 * CHUNK, 1), noise[200];
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    (void)state;
    memset(noise, 0xee, sizeof noise);
    data.as.state_data.length = 100;
    node_begin(&requester);
    pccl_sync_session_plan(requester.session, &wanted, true, false);
    pccl_sync_session_donor(requester.session, &liar, true, &address, 1);
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
    expect_failure(&requester, "nobody is left");
    assert_int_equal(requester.touched, 0);
    node_finish(&requester);
    close(listening);
    free(bytes);
}

static void a_requester_that_sends_garbage_loses_its_connection(void **state)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg ready = {.type = PCCL_MSG_link_bye};
    uint8_t *a = prepare_one(&donor, 1, 3 * CHUNK, 1), noise[100], frame[NODE_FRAME_MAX];
    (void)state;
    memset(noise, 0xee, sizeof noise);
    node_begin(&donor);
    node_serve(&donor);
    int good = bare_dial(&donor, &by_hand);
    for (int i = 0; i < 8; i++) {
        int bare = bare_dial(&donor, &by_hand);
        switch (i) {
        case 0: bare_write(bare, noise, sizeof noise); break;
        case 1: bare_say(bare, &ready); break;
        case 2: bare_want(bare, &donor, PCCL_WANT_DATA, 1, 0, 1); break; /* there is no such tensor */
        case 3: bare_want(bare, &donor, PCCL_WANT_DATA, 0, 3, 1); break; /* nor such a chunk */
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
    assert_int_equal(msg.type, PCCL_MSG_state_digests);
    assert_int_equal(msg.as.state_digests.digests_count, 2);
    close(good);
    node_finish(&donor);
    free(a);
}

static void a_requester_that_does_not_read_is_closed(void **state)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, 64 * CHUNK, 1);
    int small = 4096;
    (void)state;
    donor.silence_ms = 200;
    node_begin(&donor);
    node_serve(&donor);
    int bare = bare_dial(&donor, &by_hand);
    assert_int_equal(setsockopt(bare, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    for (uint32_t i = 0; i < 64; i++)
        bare_want(bare, &donor, PCCL_WANT_DATA, 0, i, 1);
    struct pollfd broken = {.fd = bare, .events = 0}; /* only the reset that follows unread wants */
    (void)poll(&broken, 1, 2000);
    bare_hear_end(bare);
    close(bare);
    node_stop(&donor);
    assert_true(donor.sent < 64 * CHUNK);
    node_finish(&donor);
    free(a);
}

static void a_requester_holds_so_many_connections(void **state)
{
    enum { MANY = 12 };
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1);
    int bare[MANY];
    (void)state;
    node_begin(&donor);
    node_serve(&donor);
    for (int i = 0; i < MANY; i++)
        bare[i] = bare_dial(&donor, &by_hand);
    for (int i = 0; i < MANY - 8; i++)
        bare_hear_end(bare[i]);
    for (int i = MANY - 8; i < MANY; i++) {
        bare_want(bare[i], &donor, PCCL_WANT_ROOTS, 0, 0, 1);
        bare_hear(bare[i], &msg);
        assert_int_equal(msg.type, PCCL_MSG_state_digests);
    }
    for (int i = 0; i < MANY; i++)
        close(bare[i]);
    node_finish(&donor);
    free(a);
}

/* ---- plans ---- */

static void connections_wait_for_the_plan(void **state)
{
    struct node donor;
    struct pccl_id by_hand = node_id(4);
    struct pccl_msg msg;
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1);
    (void)state;
    node_begin(&donor);
    int bare = bare_dial(&donor, &by_hand), gone = bare_dial(&donor, &by_hand);
    bare_want(bare, &donor, PCCL_WANT_ROOTS, 0, 0, 1);
    bare_want(gone, &donor, PCCL_WANT_ROOTS, 0, 0, 1);
    close(gone);
    node_serve(&donor);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_state_digests);
    assert_true(
        pccl_digest_equal(msg.as.state_digests.digests, &pccl_sync_session_state(donor.session)->tensors->root));
    close(bare);
    node_finish(&donor);
    free(a);
}

static void who_is_fetching_does_not_serve(void **state)
{
    struct node donor, requester;
    struct pccl_id by_hand = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, 8 * CHUNK, 1), *b = prepare_one(&requester, 2, 8 * CHUNK, 2);
    struct pccl_msg msg;
    (void)state;
    node_begin(&donor);
    node_begin(&requester);
    int before = bare_dial(&requester, &by_hand);
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
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
    assert_int_equal(msg.type, PCCL_MSG_state_digests);
    close(before);
    close(bare);
    close(after);
    node_finish(&requester);
    node_finish(&donor);
    free(a);
    free(b);
}

static void a_plan_replaces_the_one_before(void **state)
{
    struct node old, new, requester;
    uint8_t *a = prepare_one(&old, 1, 24 * CHUNK, 1), *b = prepare_one(&new, 2, 24 * CHUNK, 2),
            *c = prepare_one(&requester, 3, 24 * CHUNK, 3);
    (void)state;
    node_begin(&old);
    node_begin(&new);
    node_begin(&requester);
    node_serve(&old);
    node_serve(&new);
    requester.hold_touching = true;
    pccl_sync_session_plan(requester.session, &old.content, true, false);
    node_name_donor(&requester, &old);
    node_until(&requester, &requester.touching); /* in the middle of the first */
    pccl_sync_session_plan(requester.session, &new.content, true, false);
    node_name_donor(&requester, &new);
    node_set(&requester, &requester.hold_touching, false);
    expect_fetched(&requester, 1);                                        /* of the second; the first was forgotten */
    pccl_sync_session_plan(requester.session, &old.content, true, false); /* and back, when all is over */
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

static void the_end_wakes_at_once(void **state)
{
    struct node node;
    struct pccl_id by_hand = node_id(4);
    struct pccl_digest wanted = {.low = 1};
    uint8_t *bytes = prepare_one(&node, 1, 100, 1);
    (void)state;
    node_begin(&node); /* no plan at all */
    node_finish(&node);
    node_prepare(&node, 1);
    (void)node_add(&node, "weights", bytes, 100);
    node_begin(&node); /* a connection that waits for ever, and a donor that is being dialled */
    int bare = bare_dial(&node, &by_hand);
    pccl_sync_session_plan(node.session, &wanted, true, true);
    node_name_donor(&node, &node);
    node_until_count(&node, &node.accepted, 2);
    node_stop(&node);
    assert_int_equal(node.fetched, 0);
    close(bare);
    node_finish(&node);
    free(bytes);
}

static void a_session_says_when_it_is_needed(void **state)
{
    struct pccl_sync_config config = {
        .kernels = pccl_kernels_for(0), .self = node_id(1), .silence_ms = 1000, .stagger_ms = 50};
    struct node node;
    struct pccl_sync_events events = {
        .context = &node, .touching = node_on_touching, .fetched = node_on_fetched, .log = node_on_log};
    struct pccl_sync_session *session;
    struct pccl_text words;
    struct pccl_id lineage = node_id(7), peer = node_id(2);
    uv_os_sock_t ours;
    int bare;
    (void)state;
    node_prepare(&node, 1);
    assert_int_equal(pccl_sync_session_create(&config, &events, &session, &words), PCCL_OK); /* no tensors */
    assert_false(pccl_sync_session_is_needed(session));
    loopback_pair(&ours, &bare);
    assert_int_equal(pccl_sync_session_accept(session, &peer, ours, NULL, 0), PCCL_OK);
    assert_true(pccl_sync_session_is_needed(session));
    pccl_sync_session_name(session, &node.id, &lineage, 3, 1000);
    pccl_sync_session_plan(session, &pccl_sync_session_state(session)->content, true, true);
    pccl_sync_session_donor(session, &peer, true, NULL, 0);
    pccl_sync_session_end(session);
    assert_false(pccl_sync_session_is_needed(session));
    pccl_sync_session_run(session);
    assert_int_equal(node.fetched, 1);
    assert_true(node.complete);
    pccl_sync_session_run(session);
    pccl_sync_session_destroy(session);
    close(bare);
    /* Never run. */
    assert_int_equal(pccl_sync_session_create(&config, &events, &session, &words), PCCL_OK);
    loopback_pair(&ours, &bare);
    assert_int_equal(pccl_sync_session_accept(session, &peer, ours, (const uint8_t *)"abc", 3), PCCL_OK);
    pccl_sync_session_plan(session, &pccl_sync_session_state(session)->content, true, true);
    pccl_sync_session_donor(session, &peer, true, NULL, 0);
    pccl_sync_session_end(session);
    uv_os_sock_t late;
    int other;
    loopback_pair(&late, &other);
    assert_int_equal(pccl_sync_session_accept(session, &peer, late, NULL, 0), PCCL_USAGE);
    pccl_socket_close(late);
    pccl_sync_session_destroy(session);
    bare_hear_end(bare);
    close(bare);
    close(other);
    node_free(&node);
}

/* What the other side says together with its hello is not lost. */
static void what_was_read_behind_the_handshake_counts(void **state)
{
    struct node donor;
    struct pccl_id peer = node_id(4);
    uint8_t *a = prepare_one(&donor, 1, CHUNK, 1), frames[3 * 256];
    struct pccl_msg msg = {.type = PCCL_MSG_state_want,
                           .as.state_want = {.round = 5, .what = PCCL_WANT_ROOTS, .count = 1}};
    size_t size = pccl_frame_size(&msg);
    uv_os_sock_t ours;
    int bare;
    (void)state;
    node_begin(&donor);
    node_serve(&donor);
    for (size_t i = 0; i < 3; i++)
        pccl_frame_encode(&msg, 0, 0, frames + i * size);
    loopback_pair(&ours, &bare);
    assert_int_equal(pccl_sync_session_accept(donor.session, &peer, ours, frames, 2 * size + size / 2), PCCL_OK);
    bare_write(bare, frames, 0);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            bare_write(bare, frames + 2 * size + size / 2, size - size / 2);
        bare_hear(bare, &msg);
        assert_int_equal(msg.type, PCCL_MSG_state_digests);
    }
    close(bare);
    node_finish(&donor);
    free(a);
}

/* ---- digests ---- */

static void threads_digest_as_one_does(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 64, 0};
    struct node nodes[PCCL_COUNT_OF(counts)];
    uint8_t *memory = make(100 * CHUNK + 3, 1);
    (void)state;
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++) {
        node_prepare(&nodes[i], (uint8_t)(i + 1));
        nodes[i].threads = counts[i];
        (void)node_add(&nodes[i], "a", memory, 70 * CHUNK + 1);
        (void)node_add(&nodes[i], "nothing", NULL, 0);
        (void)node_add(&nodes[i], "b", memory + 70 * CHUNK + 1, 30 * CHUNK + 2);
        node_begin(&nodes[i]);
        const struct pccl_state *s = pccl_sync_session_state(nodes[i].session);
        for (uint32_t t = 0; t < 3; t++)
            for (uint64_t c = 0; c < s->tensors[t].chunks; c++) {
                struct pccl_digest digest =
                    pccl_digest_bytes(pccl_kernels_for(0), (uint8_t *)nodes[i].tensors[t].data + c * CHUNK,
                                      pccl_state_chunk_length(&s->tensors[t], c));
                assert_true(pccl_digest_equal(&digest, &s->chunks[s->tensors[t].first_chunk + c]));
            }
        assert_true(pccl_digest_equal(&nodes[i].content, &nodes[0].content));
    }
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++)
        node_finish(&nodes[i]);
    free(memory);
}

static void too_many_tensors_are_refused(void **state)
{
    struct pccl_sync_config config = {.kernels = pccl_kernels_for(0), .tensor_count = PCCL_TENSORS_MAX + 1};
    struct pccl_sync_events events = {0};
    struct pccl_sync_session *session;
    struct pccl_text words;
    (void)state;
    assert_int_equal(pccl_sync_session_create(&config, &events, &session, &words), PCCL_LIMIT);
    assert_non_null(strstr(words.bytes, "65536"));
}

/* What a session reports of a plan that has been replaced is known to be of no interest. */
static void a_report_of_an_older_plan_is_known(void **state)
{
    enum { BYTES = 100 };
    struct node donor, other, requester;
    uint8_t *wanted = prepare_one(&donor, 1, BYTES, 1), *other_one = prepare_one(&other, 3, BYTES, 3);
    uint8_t *own = prepare_one(&requester, 2, BYTES, 2);
    (void)state;
    node_begin(&donor);
    node_begin(&other);
    node_begin(&requester);
    node_serve(&donor);
    node_serve(&other);
    requester.hold_touching = true;
    pccl_sync_session_plan(requester.session, &donor.content, true, false);
    node_name_donor(&requester, &donor);
    node_until(&requester, &requester.touching);
    assert_false(pccl_sync_session_is_replanned(requester.session));
    pccl_sync_session_plan(requester.session, &other.content, true, false);
    assert_true(pccl_sync_session_is_replanned(requester.session));
    node_set(&requester, &requester.hold_touching, false);
    node_finish(&requester);
    node_finish(&donor);
    node_finish(&other);
    free(wanted);
    free(other_one);
    free(own);
}

/* Who could not fetch what one plan asked for serves what the next one elected, if it has that. */
static void who_failed_before_serves(void **state)
{
    enum { BYTES = 100 };
    struct node holder, requester;
    const struct pccl_digest nowhere = {1, 2};
    uint8_t *held = prepare_one(&holder, 1, BYTES, 1), *own = prepare_one(&requester, 2, BYTES, 2);
    (void)state;
    node_begin(&holder);
    node_begin(&requester);
    pccl_sync_session_plan(holder.session, &nowhere, true, false);
    node_until_count(&holder, &holder.fetched, 1);
    assert_false(holder.complete);
    node_serve(&holder);
    pccl_sync_session_plan(requester.session, &holder.content, true, false);
    node_name_donor(&requester, &holder);
    node_until_count(&requester, &requester.fetched, 1);
    assert_true(requester.complete);
    assert_memory_equal(held, own, BYTES);
    node_finish(&holder);
    node_finish(&requester);
    free(held);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_of_an_older_plan_is_known),
        cmocka_unit_test(who_failed_before_serves),
        cmocka_unit_test(a_newcomer_fetches_from_several),
        cmocka_unit_test(only_what_differs_moves),
        cmocka_unit_test(nothing_moves_if_all_is_there),
        cmocka_unit_test(tensors_that_need_not_be_equal_come_from_one),
        cmocka_unit_test(many_small_tensors),
        cmocka_unit_test(who_has_fetched_serves),
        cmocka_unit_test(a_donor_goes_in_the_middle),
        cmocka_unit_test(the_only_donor_goes),
        cmocka_unit_test(a_requester_goes_in_the_middle),
        cmocka_unit_test(nobody_can_be_reached),
        cmocka_unit_test(somebody_else_answers),
        cmocka_unit_test(more_donors_than_are_asked_at_once),
        cmocka_unit_test(a_silent_donor_is_given_up),
        cmocka_unit_test(a_lying_donor_is_dropped_and_another_one_asked),
        cmocka_unit_test(a_donor_that_says_what_nobody_asked_is_dropped),
        cmocka_unit_test(a_requester_that_sends_garbage_loses_its_connection),
        cmocka_unit_test(a_requester_that_does_not_read_is_closed),
        cmocka_unit_test(a_requester_holds_so_many_connections),
        cmocka_unit_test(connections_wait_for_the_plan),
        cmocka_unit_test(who_is_fetching_does_not_serve),
        cmocka_unit_test(a_plan_replaces_the_one_before),
        cmocka_unit_test(the_end_wakes_at_once),
        cmocka_unit_test(a_session_says_when_it_is_needed),
        cmocka_unit_test(what_was_read_behind_the_handshake_counts),
        cmocka_unit_test(threads_digest_as_one_does),
        cmocka_unit_test(too_many_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
