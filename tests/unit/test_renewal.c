/*
 * New keys for an open connection: the records that a holder of earlier keys can read, records out of turn, and both
 * ends under load over a real socket.
 */
#include "unit.h"
#include "secure_ends.h"
#include "net/clock.h"
#include "net/renewal.h"

/* ---- without a socket ---- */

/* One end: its renewal, both directions, and the received content. */
struct half {
    bool is_client;
    struct pccl_renewal renewal;
    struct pccl_record_line in, out;
    struct pccl_record_reader reader;
    uint8_t got[100];
};

struct halves {
    struct half client, server;
};

static const struct pccl_openssl *openssl(void)
{
    struct pccl_text reason;
    const struct pccl_openssl *found = pccl_openssl(&reason);
    assert_non_null(found);
    return found;
}

static void begin_line(struct pccl_record_line *line, uint8_t from, bool seals)
{
    struct pccl_secret secret;
    fill(&secret, sizeof secret, from);
    assert_true(pccl_record_begin(line, openssl(), PCCL_RECORD_AES_128_GCM, &secret, seals));
}

static void begin(struct halves *halves)
{
    memset(halves, 0, sizeof *halves);
    for (int server = 0; server < 2; server++) {
        struct half *half = server ? &halves->server : &halves->client;
        half->is_client = !server;
        half->reader = (struct pccl_record_reader){.memory = pccl_heap()};
        begin_line(&half->out, (uint8_t)(50 + server), true);
        begin_line(&half->in, (uint8_t)(51 - server), false);
    }
}

static void end(struct halves *halves)
{
    for (int server = 0; server < 2; server++) {
        struct half *half = server ? &halves->server : &halves->client;
        pccl_renewal_end(&half->renewal);
        pccl_record_end(&half->in);
        pccl_record_end(&half->out);
        pccl_record_reader_fini(&half->reader);
    }
}

/* Passes one record to the other end, which opens it with `in`. Returns the result of pccl_record_take. */
static ptrdiff_t pass(struct half *from, struct half *to, struct pccl_record_line *in, enum pccl_record_kind kind,
                      const uint8_t *bytes, size_t length)
{
    uint8_t sealed[200];
    size_t left = length + PCCL_RECORD_OVERHEAD, at = 0, room;
    assert_true(pccl_record_seal(&from->out, kind, bytes, length, NULL, 0, sealed));
    while (left > at) {
        uint8_t *space = pccl_record_space(&to->reader, in, &room);
        assert_non_null(space);
        room = pccl_min_u64(room, left - at);
        memcpy(space, sealed + at, room);
        pccl_record_filled(&to->reader, room);
        at += room;
    }
    return pccl_record_take(&to->reader, in, to->got, sizeof to->got, NULL, 0);
}

/* Sends a record of the renewal, which the other end processes. */
static bool turn(struct half *from, struct half *to, enum pccl_record_kind kind, enum pccl_record_kind *reply)
{
    struct pccl_text reason;
    size_t length = kind == PCCL_RECORD_KEY ? PCCL_RECORD_KEY_BYTES : 0;
    assert_int_equal(pass(from, to, &to->in, kind, from->renewal.public, length), 0);
    assert_int_equal(to->reader.met, kind);
    bool good = pccl_renewal_take(&to->renewal, &to->reader, &to->in, to->is_client, reply, &reason);
    to->reader.met = PCCL_RECORD_NONE;
    return good;
}

/* A whole renewal. */
static void renew(struct halves *halves)
{
    struct half *client = &halves->client, *server = &halves->server;
    enum pccl_record_kind reply;
    assert_true(pccl_renewal_begin(&client->renewal, openssl()));
    assert_true(turn(client, server, PCCL_RECORD_KEY, &reply));
    assert_int_equal(reply, PCCL_RECORD_KEY);
    assert_true(turn(server, client, reply, &reply)); /* sealed with the old key */
    assert_true(pccl_renewal_replied(&server->renewal, &server->out, false));
    assert_int_equal(reply, PCCL_RECORD_NEXT);
    enum pccl_record_kind none;
    assert_true(turn(client, server, reply, &none));
    assert_true(pccl_renewal_replied(&client->renewal, &client->out, true));
    assert_int_equal(none, PCCL_RECORD_NONE);
    assert_false(pccl_renewal_is_open(&client->renewal) || pccl_renewal_is_open(&server->renewal));
}

/* Sends content to the other end. Returns false if it cannot be opened. */
static bool arrives(struct half *from, struct half *to, struct pccl_record_line *in)
{
    static const uint8_t content[40] = "what the connection carries";
    return pass(from, to, in, PCCL_RECORD_CONTENT, content, sizeof content) == sizeof content &&
           memcmp(to->got, content, sizeof content) == 0;
}

TEST(test_keys_of_before_open_nothing)
{
    for (int renewed = 0; renewed < 2; renewed++)
        for (int back = 0; back < 2; back++) {
            struct halves halves;
            begin(&halves);
            struct half *from = back ? &halves.server : &halves.client, *to = back ? &halves.client : &halves.server;
            struct pccl_record_line stolen = {0}; /* all that the receiver has, before the renewal */
            begin_line(&stolen, (uint8_t)(50 + back), false);
            if (renewed)
                renew(&halves);
            stolen.number = to->in.number;
            assert_int_equal(arrives(from, to, &stolen), !renewed);
            pccl_record_end(&stolen);
            end(&halves);
        }
}

TEST(test_no_two_renewals_are_alike)
{
    struct pccl_secret seen[4];
    for (size_t i = 0; i < PCCL_COUNT_OF(seen); i += 2) {
        struct halves halves;
        begin(&halves);
        for (size_t j = i; j < i + 2; j++) {
            renew(&halves);
            assert_true(arrives(&halves.client, &halves.server, &halves.server.in));
            assert_true(arrives(&halves.server, &halves.client, &halves.client.in));
            assert_memory_equal(&halves.client.in.secret, &halves.server.out.secret, sizeof *seen);
            assert_memory_equal(&halves.client.out.secret, &halves.server.in.secret, sizeof *seen);
            assert_memory_not_equal(&halves.client.out.secret, &halves.client.in.secret, sizeof *seen);
            seen[j] = halves.client.out.secret;
            for (size_t k = 0; k < j; k++)
                assert_memory_not_equal(&seen[j], &seen[k], sizeof *seen);
        }
        end(&halves);
    }
}

/* By PROTOCOL 17.5, with other code. */
TEST(test_new_secret_is_that_of_the_protocol)
{
    struct halves halves;
    uint8_t secret[32], mixed[32], expected[32], input[20 + 32];
    begin(&halves);
    memcpy(secret, &halves.client.out.secret, sizeof secret);
    fill(mixed, sizeof mixed, 77);
    memcpy(input, "pccl record renew 1", 20);
    memcpy(input + 20, mixed, sizeof mixed);
    assert_non_null(openssl()->HMAC(openssl()->EVP_sha256(), secret, 32, input, sizeof input, expected, NULL));
    assert_true(pccl_record_mix(&halves.client.out, (const struct pccl_secret *)mixed));
    assert_memory_equal(&halves.client.out.secret, expected, sizeof expected);
    end(&halves);
}

/* Keys also change by volume before each record, or each other one, in the middle of a renewal too. */
TEST(test_by_volume_and_by_exchange)
{
    for (uint64_t blocks = 1; blocks < 14; blocks++) {
        struct halves halves;
        begin(&halves);
        halves.client.in.blocks_max = halves.client.out.blocks_max = blocks;
        halves.server.in.blocks_max = halves.server.out.blocks_max = blocks;
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < i; j++)
                assert_true(arrives(&halves.client, &halves.server, &halves.server.in) &&
                            arrives(&halves.server, &halves.client, &halves.client.in));
            renew(&halves);
        }
        assert_memory_equal(&halves.client.in.secret, &halves.server.out.secret, sizeof(struct pccl_secret));
        assert_memory_equal(&halves.client.out.secret, &halves.server.in.secret, sizeof(struct pccl_secret));
        end(&halves);
    }
}

/* Returns the bytes in use of OpenSSL's secure heap. */
#ifdef PCCL_OPENSSL_LINKED
size_t CRYPTO_secure_used(void);
static size_t secure_bytes(void) { return CRYPTO_secure_used(); }
#else
static size_t secure_bytes(void)
{
    uv_lib_t library;
    size_t (*used)(void);
    assert_int_equal(uv_dlopen("libcrypto.so.3", &library), 0);
    assert_int_equal(uv_dlsym(&library, "CRYPTO_secure_used", (void **)&used), 0);
    size_t bytes = used();
    uv_dlclose(&library);
    return bytes;
}
#endif

/* The private key of an exchange is in OpenSSL's secure heap, which core dumps leave out. */
TEST(test_own_key_is_in_the_secure_heap)
{
    struct pccl_renewal renewal = {0}, first = {0};
#ifdef __SANITIZE_ADDRESS__
    skip(); /* there is no secure heap then */
#endif
    assert_true(pccl_renewal_begin(&first, openssl())); /* makes the library's generator, too */
    size_t before = secure_bytes();
    assert_true(pccl_renewal_begin(&renewal, openssl()));
    assert_true(secure_bytes() > before);
    pccl_renewal_end(&renewal);
    assert_int_equal(secure_bytes(), before);
    pccl_renewal_end(&first);
}

/* Records of a renewal that have another length are refused. */
TEST(test_wrong_lengths)
{
    static const struct {
        enum pccl_record_kind kind;
        size_t length;
    } wrong[] = {{PCCL_RECORD_KEY, 0},  {PCCL_RECORD_KEY, 31},  {PCCL_RECORD_KEY, 33},
                 {PCCL_RECORD_NEXT, 1}, {PCCL_RECORD_NEXT, 32}, {PCCL_RECORD_NEXT + 1, 0}};
    for (size_t i = 0; i < PCCL_COUNT_OF(wrong); i++) {
        struct halves halves;
        uint8_t content[40] = {0}, sealed[100], *space;
        size_t room;
        begin(&halves);
        struct half *to = &halves.server;
        assert_true(pccl_record_seal(&halves.client.out, wrong[i].kind, content, wrong[i].length, NULL, 0, sealed));
        space = pccl_record_space(&to->reader, &to->in, &room);
        assert_true(space && room == PCCL_RECORD_HEADER);
        memcpy(space, sealed, room);
        pccl_record_filled(&to->reader, room);
        assert_int_equal(pccl_record_take(&to->reader, &to->in, to->got, sizeof to->got, NULL, 0), -1);
        assert_int_equal(to->reader.met, PCCL_RECORD_NONE);
        end(&halves);
    }
}

/* A record out of turn ends the connection, and nothing else. */
TEST(test_turns_that_are_none)
{
    enum pccl_record_kind reply;
    struct halves halves;
    struct half *client = &halves.client, *server = &halves.server;
    begin(&halves); /* a server that begins */
    assert_true(pccl_renewal_begin(&server->renewal, openssl()));
    assert_false(turn(server, client, PCCL_RECORD_KEY, &reply));
    end(&halves);
    begin(&halves);
    assert_false(turn(server, client, PCCL_RECORD_NEXT, &reply));
    end(&halves);
    begin(&halves); /* a client that ends no exchange */
    assert_false(turn(client, server, PCCL_RECORD_NEXT, &reply));
    end(&halves);
    begin(&halves); /* one that begins twice */
    assert_true(pccl_renewal_begin(&client->renewal, openssl()));
    assert_true(turn(client, server, PCCL_RECORD_KEY, &reply));
    assert_false(turn(client, server, PCCL_RECORD_KEY, &reply));
    end(&halves);
    begin(&halves); /* a key that makes the result known: a point of small order */
    memset(client->renewal.public, 0, sizeof client->renewal.public);
    assert_false(turn(client, server, PCCL_RECORD_KEY, &reply));
    end(&halves);
}

/* ---- over a socket ---- */

TEST(test_renewed_again_and_again_under_load)
{
    static uint8_t bytes[MANY];
    fill(bytes, sizeof bytes, 9);
    for (int i = 0; i < 2 * KINDS; i++) {
        struct fixture f;
        const size_t size = MANY - 71000;
        size_t allowed = 0;
        uint64_t next_us = 0;
        setup(&f);
        connect_ends(&f, (enum kind)(i / 2));
        if (i % 2) { /* by volume, too */
            pccl_secure_set_rekey(f.client.secure, 500);
            pccl_secure_set_rekey(f.server.secure, 500);
        }
        for (int turn = 0; f.server.received < size || f.client.received < size; turn++) {
            assert_true(turn < TURNS_MAX);
            if (pccl_now_us() >= next_us) { /* no more often than a server accepts */
                next_us = pccl_now_us() + 10000;
                pccl_secure_renew(f.client.secure);
                allowed = (size_t)pccl_min_u64(size, allowed + size / 10);
            }
            write_some(&f.client, bytes, pccl_min_u64(allowed, f.client.sent + 5000));
            write_some(&f.server, bytes, pccl_min_u64(allowed, f.server.sent + 5000));
            read_some(&f.server);
            read_some(&f.client);
            assert_false(f.client.failed || f.server.failed);
        }
        assert_memory_equal(f.server.in, bytes, size);
        assert_memory_equal(f.client.in, bytes, size);
        teardown(&f);
    }
}

/* Reads the output of one end and passes it to the other. Returns the kind of its first record. */
static int pass_on(struct end *end, int from, int to)
{
    uint8_t bytes[1000];
    struct pollfd there = {.fd = from, .events = POLLIN};
    write_some(end, NULL, end->sent);
    assert_int_equal(poll(&there, 1, -1), 1);
    ssize_t got = read(from, bytes, sizeof bytes);
    assert_true(got >= PCCL_RECORD_OVERHEAD);
    if (to >= 0)
        assert_int_equal(write(to, bytes, (size_t)got), got);
    return bytes[3];
}

static void await(struct end *end)
{
    struct pollfd there = {.fd = end->socket, .events = POLLIN};
    assert_int_equal(poll(&there, 1, -1), 1);
    read_some(end);
}

/* The other end answers late, or never: data continues to be sent, and no further offer is made. */
TEST(test_data_goes_on_without_an_answer)
{
    static const uint8_t content[] = "goes on";
    struct fixture f;
    setup(&f);
    struct wire wire = tap(&f);
    link_up(&f);
    shake_hands(&f, &wire);
    uint8_t sealed[100];
    pccl_secure_renew(f.client.secure);
    assert_int_equal(pass_on(&f.client, wire.client, wire.server), PCCL_RECORD_KEY);
    await(&f.server);
    assert_true(pccl_secure_is_sending(f.server.secure)); /* the answer, which the channel sends */
    for (int i = 0; i < 3; i++) {
        pccl_secure_renew(f.client.secure);
        size_t bytes = seal(&f.client, wire.client, content, sizeof content, sealed);
        assert_int_equal(write(wire.server, sealed, bytes), bytes);
        await(&f.server);
        assert_int_equal(f.server.received, (size_t)(i + 1) * sizeof content);
    }
    assert_int_equal(pass_on(&f.server, wire.server, wire.client), PCCL_RECORD_KEY); /* the late answer */
    await(&f.client);
    assert_int_equal(pass_on(&f.client, wire.client, wire.server), PCCL_RECORD_NEXT);
    size_t bytes = seal(&f.client, wire.client, content, sizeof content, sealed);
    assert_int_equal(write(wire.server, sealed, bytes), bytes);
    while (f.server.received < 4 * sizeof content)
        await(&f.server);
    assert_false(f.server.failed || f.client.failed);
    untap(&wire);
    teardown(&f);
}

/* An attacker on the network changes one bit of a record of the renewal. */
TEST(test_forged_turn_ends_the_connection)
{
    struct fixture f;
    uint8_t bytes[100];
    setup(&f);
    struct wire wire = tap(&f);
    link_up(&f);
    shake_hands(&f, &wire);
    pccl_secure_renew(f.client.secure);
    write_some(&f.client, NULL, f.client.sent);
    struct pollfd there = {.fd = wire.client, .events = POLLIN};
    assert_int_equal(poll(&there, 1, -1), 1);
    ssize_t got = read(wire.client, bytes, sizeof bytes);
    assert_int_equal(got, PCCL_RECORD_KEY_BYTES + PCCL_RECORD_OVERHEAD);
    bytes[20] ^= 1;
    assert_int_equal(write(wire.server, bytes, (size_t)got), got);
    await(&f.server);
    assert_int_equal(f.server.failed, UV_EPROTO);
    assert_string_equal(pccl_secure_why(f.server.secure), "authentication of a received record failed");
    untap(&wire);
    teardown(&f);
}

/* A server that begins breaks the protocol. */
TEST(test_out_of_turn_is_said)
{
    struct fixture f;
    setup(&f);
    link_up(&f);
    exchange(&f, 1000, 1000);
    pccl_secure_renew(f.server.secure);
    write_some(&f.server, NULL, f.server.sent);
    await(&f.client);
    assert_int_equal(f.client.failed, UV_EPROTO);
    assert_string_equal(pccl_secure_why(f.client.secure), "key renewal: unexpected record from the other side");
    teardown(&f);
}

/* A client that begins repeatedly makes a server work. */
TEST(test_flood_ends_the_connection)
{
    struct fixture f;
    setup(&f);
    link_up(&f);
    exchange(&f, 1000, 1000);
    for (int turn = 0; !f.server.failed; turn++) {
        assert_true(turn < 20000);
        pccl_secure_renew(f.client.secure);
        write_some(&f.client, NULL, f.client.sent);
        read_some(&f.server);
        write_some(&f.server, NULL, f.server.sent);
        read_some(&f.client);
        assert_false(f.client.failed);
    }
    assert_int_equal(f.server.failed, UV_EPROTO);
    assert_string_equal(pccl_secure_why(f.server.secure), "key renewal: the other side renews too often");
    teardown(&f);
}

TEST(test_who_renews)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct fixture f;
        setup(&f);
        connect_ends(&f, kind);
        pccl_keys_set_renewal(f.peer, 5000);
        pccl_keys_set_renewal(f.other, 5000);
        assert_int_equal(pccl_secure_renewal_ms(f.client.secure), 5000);
        assert_int_equal(pccl_secure_renewal_ms(f.server.secure), 0);
        teardown(&f);
    }
}
