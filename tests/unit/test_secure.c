/*
 * The encryption of a connection, over a real socket: both ends are ours, or one is OpenSSL's own program, or an
 * attacker.
 */
#include "unit.h"
#include "descriptors.h"

#include "secure_ends.h"
#include "net/channel.h"
#include "net/knock.h"
#include "net/secrets.h"

#include <signal.h>
#include <sys/wait.h>

TEST(test_token_opens_the_control_connection)
{
    struct fixture f;
    setup(&f);
    control(&f, f.peer);
    exchange(&f, MANY - 71000, 100);
    assert_false(f.client.failed || f.server.failed);
    pccl_secure_finish(f.client.secure);
    write_some(&f.client, NULL, f.client.sent);
    while (!f.server.failed)
        read_some(&f.server);
    assert_int_equal(f.server.failed, UV_EOF);
    teardown(&f);
}

TEST(test_another_token_does_not)
{
    struct fixture f;
    setup(&f);
    control(&f, f.other);
    exchange(&f, 1000, 1000);
    assert_int_equal(f.server.received, 0);
    assert_string_equal(pccl_secure_why(f.server.secure), "its token is not this master's");
    assert_string_equal(pccl_secure_why(f.client.secure),
                        "the master does not accept the token: it has a different one");
    teardown(&f);
}

TEST(test_another_master_is_told_nothing)
{
    struct fixture f;
    struct pccl_text reason;
    setup(&f);
    pccl_keys_destroy(f.master);
    fill(&f.key, sizeof f.key, 77); /* an end with the token only cannot be the master */
    f.master = pccl_keys_of_master(pccl_heap(), &f.key, &reason);
    assert_non_null(f.master);
    control(&f, f.peer);
    exchange(&f, 1000, 1000);
    assert_int_equal(f.server.received + f.client.received, 0);
    assert_string_equal(pccl_secure_why(f.client.secure),
                        "the master that answered is not the one that issued the token: its key is different");
    assert_string_equal(pccl_secure_why(f.server.secure), "its token belongs to a different master");
    teardown(&f);
}

TEST(test_revoked_token_is_told)
{
    struct fixture f;
    uint8_t shown[PCCL_PUBLIC_BYTES];
    setup(&f);
    control(&f, f.peer);
    exchange(&f, 1000, 1000);
    assert_true(pccl_secure_shown(f.server.secure, shown));
    assert_memory_equal(shown, f.public, sizeof shown);
    teardown(&f);
    setup(&f);
    f.revoked = true;
    control(&f, f.peer);
    exchange(&f, 1000, 1000);
    assert_int_equal(f.server.received + f.client.received, 0);
    assert_string_equal(pccl_secure_why(f.server.secure), "its token was revoked");
    assert_string_equal(pccl_secure_why(f.client.secure), "the master does not accept the token: it was revoked");
    teardown(&f);
}

TEST(test_ticket_opens_a_link)
{
    for (int open = 0; open < 2; open++) {
        struct fixture f;
        setup(&f);
        struct pccl_key_name name = link_of(&f);
        struct pccl_id ticket = pccl_ticket(&f.link_key, &f.a, &f.b);
        name.open = open;
        pccl_keys_set_open_links(f.peer, open);
        linked(&f, f.other, f.peer, &name, &ticket); /* the token has no effect here */
        exchange(&f, 200000, MANY - 71000);
        assert_false(f.client.failed || f.server.failed);
        assert_int_equal(pccl_secure_opens(f.client.secure), open);
        assert_int_equal(pccl_secure_opens(f.server.secure), open);
        teardown(&f);
    }
}

TEST(test_a_link_has_one_key)
{
    for (int wrong = 0; wrong < 4; wrong++) {
        struct fixture f;
        setup(&f);
        struct pccl_key_name name = link_of(&f);
        struct pccl_id ticket = pccl_ticket(&f.link_key, &f.a, &f.b);
        if (wrong == 0)
            ticket = pccl_ticket(&f.link_key, &f.b, &f.a);
        if (wrong == 1)
            name.from.bytes[0]++;
        if (wrong == 2)
            name.to.bytes[0]++;
        if (wrong == 3)
            name.open = true; /* the ends do not agree whether it stays encrypted */
        linked(&f, f.peer, f.peer, &name, &ticket);
        exchange(&f, 1000, 1000);
        assert_int_equal(f.server.received + f.client.received, 0);
        assert_true(f.client.failed && f.server.failed);
        teardown(&f);
    }
}

/* A probe is for the master alone, which has the peer's key for tickets. */
TEST(test_probe_needs_a_ticket)
{
    for (int good = 0; good < 2; good++) {
        struct fixture f;
        setup(&f);
        struct pccl_key_name name = link_of(&f);
        struct pccl_id none = {{0}}, ticket = pccl_ticket(&f.link_key, &none, &f.b);
        name.from = none;
        name.probe = true;
        linked(&f, f.master, f.peer, &name, good ? &ticket : &none);
        exchange(&f, 1000, 1000);
        assert_int_equal(f.server.received, good ? 1000 : 0);
        teardown(&f);
    }
}

/* ---- both kinds of connections, with a man in the middle ---- */

TEST(test_keys_change)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct fixture f;
        setup(&f);
        connect_ends(&f, kind);
        pccl_secure_set_rekey(f.client.secure, 20000);
        pccl_secure_set_rekey(f.server.secure, 20000);
        exchange(&f, MANY - 71000, MANY - 71000);
        assert_false(f.client.failed || f.server.failed);
        teardown(&f);
    }
}

/* HTTPS: a client that sends KeyUpdates, and nothing else, does not keep the loop in one read. */
TEST(test_a_read_takes_one_key_update)
{
    static const uint8_t byte[1] = {7};
    struct fixture f;
    setup(&f);
    f.client.secure = pccl_secure_create(pccl_heap(), f.peer, PCCL_SECURE_VISITOR, NULL, NULL);
    f.server.secure = pccl_secure_create(pccl_heap(), f.master, PCCL_SECURE_PAGES, NULL, NULL);
    assert_true(f.client.secure && f.server.secure);
    exchange(&f, 1000, 1000);
    pccl_secure_set_rekey(f.client.secure, 1); /* before each record */
    for (int i = 0; i < 3; i++)
        assert_int_equal(pccl_secure_write(f.client.secure, f.client.socket, byte, 1, NULL, 0), 1);
    struct pollfd there = {.fd = f.server.socket, .events = POLLIN};
    assert_int_equal(poll(&there, 1, -1), 1);
    read_some(&f.server);
    assert_int_equal(f.server.received, 1000);
    read_some(&f.server);
    assert_int_equal(f.server.received, 1001);
    while (f.server.received < 1003 && !f.server.failed)
        read_some(&f.server);
    assert_false(f.server.failed);
    teardown(&f);
}

/* Returns true if core dumps contain the page at this address. */
static bool is_dumped(const void *at)
{
    char line[512];
    unsigned long from, to;
    bool here = false, dumped = true;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (uintptr_t)at && (uintptr_t)at < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            dumped = !strstr(line, " dd");
    }
    assert_int_equal(fclose(file), 0);
    return dumped;
}

TEST(test_secrets_are_not_dumped)
{
    struct fixture f;
    setup(&f);
    link_up(&f);
    exchange(&f, 1000, 1000);
    assert_true(is_dumped(f.client.in));
    assert_false(is_dumped(f.client.secure) || is_dumped(f.server.secure));
    uint8_t *block = pccl_allocate(pccl_secrets(), 100), *larger;
    assert_non_null(block);
    fill(block, 100, 1);
    larger = pccl_secrets()->resize(NULL, block, 100, 10000);
    assert_non_null(larger);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(larger[i], (uint8_t)(1 + i * 7));
    assert_false(is_dumped(larger) || is_dumped(larger + 9999));
    pccl_release(pccl_secrets(), larger, 10000);
    teardown(&f);
}

TEST(test_either_end_without_aes_decides)
{
    for (int has = 0; has < 4; has++)
        for (enum kind kind = 0; kind < KINDS; kind++) {
            struct fixture f;
            setup(&f);
            assert_true(pccl_keys_set_aes(f.other, has & 1) && pccl_keys_set_aes(f.master, has & 2) &&
                        pccl_keys_set_aes(f.peer, kind == LINK ? has & 2 : has & 1));
            connect_ends(&f, kind);
            exchange(&f, 100000, 100000);
            assert_false(f.client.failed || f.server.failed);
            assert_string_equal(pccl_secure_cipher(f.server.secure), has == 3 ? "AES-128-GCM" : "ChaCha20-Poly1305");
            teardown(&f);
        }
}

TEST(test_link_takes_little_memory)
{
    struct test_memory memory;
    struct fixture f;
    setup(&f);
    test_memory_init(&memory);
    struct pccl_key_name name = link_of(&f);
    struct pccl_id ticket = pccl_ticket(&f.link_key, &f.a, &f.b);
    f.client.secure = pccl_secure_create(&memory.memory, f.other, PCCL_SECURE_DIALED, &name, &ticket);
    f.server.secure = pccl_secure_create(pccl_heap(), f.peer, PCCL_SECURE_ACCEPTED, NULL, NULL);
    exchange(&f, 1000, 1000);
    assert_true(memory.live_bytes < 32 << 10); /* small messages need no long buffers */
    f.client.sent = f.server.sent = f.client.received = f.server.received = 0;
    exchange(&f, MANY - 71000, MANY - 71000);
    assert_true(memory.peak_bytes < 2 * PCCL_RECORD_BUFFER_MAX + (32 << 10));
    pccl_secure_destroy(f.client.secure);
    f.client.secure = NULL;
    assert_int_equal(memory.live_bytes, 0);
    teardown(&f);
}

/* Runs until both ends have received these numbers of bytes, or each detects that it has failed. */
static void exchange_in_pieces(struct fixture *f, struct wire *wire, size_t to_server, size_t to_client, size_t piece)
{
    static uint8_t bytes[20000];
    fill(bytes, sizeof bytes, 9);
    for (int turn = 0; f->server.received < to_server || f->client.received < to_client; turn++) {
        assert_true(turn < TURNS_MAX);
        write_some(&f->client, bytes, pccl_min_u64(to_server, f->client.sent + 1 + (size_t)turn * 7 % 12000));
        write_some(&f->server, bytes, to_client);
        relay(wire->client, wire->server, piece);
        relay(wire->server, wire->client, piece);
        if (!read_both(f))
            return;
    }
    assert_memory_equal(f->server.in, bytes, to_server);
    assert_memory_equal(f->client.in, bytes, to_client);
}

static const size_t pieces[] = {1, 2, 3, 4, 11, 13, 40, 1000, 8192};

TEST(test_bytes_come_in_pieces)
{
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < PCCL_COUNT_OF(pieces); i++) {
            struct fixture f;
            setup(&f);
            struct wire wire = tap(&f);
            connect_ends(&f, kind);
            exchange_in_pieces(&f, &wire, 20000, 1000, pieces[i]);
            assert_false(f.client.failed || f.server.failed);
            untap(&wire);
            teardown(&f);
        }
}

/* The peer, whose handshake ended earlier, gets the verdict in TLS. */
TEST(test_verdict_comes_in_pieces)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(pieces); i++) {
        struct fixture f;
        setup(&f);
        struct wire wire = tap(&f);
        f.revoked = true;
        control(&f, f.peer);
        exchange_in_pieces(&f, &wire, 100, 100, pieces[i]);
        assert_string_equal(pccl_secure_why(f.client.secure), "the master does not accept the token: it was revoked");
        untap(&wire);
        teardown(&f);
    }
}

/* No byte that arrives in the clear after the last record is consumed. */
TEST(test_open_link_leaves_what_follows)
{
    static const uint8_t words[] = "what is sealed", clear[] = "what is not";
    uint8_t in[sizeof clear], arrived[sizeof words + PCCL_RECORD_OVERHEAD + sizeof clear];
    struct fixture f;
    setup(&f);
    struct pccl_key_name name = link_of(&f);
    struct pccl_id ticket = pccl_ticket(&f.link_key, &f.a, &f.b);
    name.open = true;
    pccl_keys_set_open_links(f.peer, true);
    linked(&f, f.other, f.peer, &name, &ticket);
    while (pccl_secure_is_shaking_hands(f.client.secure) || pccl_secure_is_shaking_hands(f.server.secure)) {
        write_some(&f.client, NULL, 0);
        write_some(&f.server, NULL, 0);
    }
    write_some(&f.server, words, sizeof words);
    assert_int_equal(pccl_socket_write(f.server.socket, clear, sizeof clear), sizeof clear);
    struct pollfd there = {.fd = f.client.socket, .events = POLLIN};
    do
        assert_int_equal(poll(&there, 1, -1), 1);
    while (recv(f.client.socket, arrived, sizeof arrived, MSG_PEEK) < (ssize_t)sizeof arrived);
    while (f.client.received < sizeof words)
        read_some(&f.client);
    assert_memory_equal(f.client.in, words, sizeof words);
    assert_int_equal(fcntl(f.client.socket, F_SETFL, 0), 0);
    loopback_read(f.client.socket, in, sizeof in);
    assert_memory_equal(in, clear, sizeof clear);
    teardown(&f);
}

TEST(test_end_in_place_of_a_verdict)
{
    for (size_t bytes = 0; bytes < 6; bytes++) {
        static const uint8_t begun[] = {23, 3, 3, 0, 19}; /* an alert of TLS */
        struct fixture f;
        setup(&f);
        struct wire wire = tap(&f);
        control(&f, f.peer);
        shake_hands(&f, &wire);
        assert_int_equal(write(wire.client, begun, bytes), bytes);
        assert_int_equal(shutdown(wire.client, SHUT_WR), 0);
        while (!f.client.failed)
            read_some(&f.client);
        assert_int_equal(f.client.failed, UV_EOF);
        assert_true(pccl_secure_was_cut(f.client.secure));
        untap(&wire);
        teardown(&f);
    }
}

/* A record may take longer than the limit of silence, on a slow path; its parts do not count as silence. */
TEST(test_a_part_of_a_record_moves)
{
    struct fixture f;
    uint8_t content[1000], sealed[sizeof content + PCCL_RECORD_OVERHEAD], *target = content;
    setup(&f);
    struct wire wire = tap(&f);
    link_up(&f);
    shake_hands(&f, &wire);
    fill(content, sizeof content, 3);
    size_t bytes = seal(&f.client, wire.client, content, sizeof content, sealed), budget = SIZE_MAX;
    struct pccl_channel channel = {.silence_ms = 1000, .secure = f.server.secure};
    pccl_channel_init(&channel, pccl_heap(), f.server.socket, NULL);
    pccl_channel_expect(&channel, &target, sizeof content);
    (void)pccl_secure_has_moved(f.server.secure);
    for (size_t half = 0; half < 2; half++) {
        struct pollfd there = {.fd = f.server.socket, .events = POLLIN};
        assert_int_equal(pccl_channel_read(&channel, &budget), PCCL_CHANNEL_WAITS);
        assert_int_equal(channel.moved_us, 0);
        assert_int_equal(write(wire.server, sealed + half * bytes / 2, bytes / 2), bytes / 2);
        assert_int_equal(poll(&there, 1, -1), 1);
        assert_int_equal(pccl_channel_read(&channel, &budget), half == 0 ? PCCL_CHANNEL_WAITS : PCCL_CHANNEL_MOVED);
        assert_true(channel.moved_us > 0);
        channel.moved_us = 0;
    }
    assert_int_equal(channel.received, sizeof content);
    channel.secure = NULL; /* the fixture's */
    pccl_channel_fini(&channel);
    untap(&wire);
    teardown(&f);
}

enum interference { NOTHING, FLIPPED, REPEATED, LEFT_OUT, SWAPPED, REFLECTED, CUT, INTERFERENCES };

TEST(test_somebody_between_is_noticed)
{
    static const char words[3][20] = {"what comes first", "what comes second", "what comes back"};
    for (int i = 0; i < KINDS * INTERFERENCES; i++) {
        enum interference what = i / KINDS;
        struct fixture f;
        uint8_t first[100], second[100], back[100];
        setup(&f);
        struct wire wire = tap(&f);
        connect_ends(&f, i % KINDS);
        shake_hands(&f, &wire);
        size_t bytes = seal(&f.client, wire.client, (const uint8_t *)words[0], 20, first);
        assert_int_equal(seal(&f.client, wire.client, (const uint8_t *)words[1], 20, second), bytes);
        assert_int_equal(seal(&f.server, wire.server, (const uint8_t *)words[2], 20, back), bytes);
        second[30] ^= what == FLIPPED;
        if (what != LEFT_OUT && what != REFLECTED)
            assert_int_equal(write(wire.server, what == SWAPPED ? second : first, bytes), bytes);
        if (what == REFLECTED)
            assert_int_equal(write(wire.server, back, bytes), bytes);
        assert_int_equal(
            write(wire.server, what == REPEATED || what == SWAPPED ? first : second, bytes - (what == CUT)),
            bytes - (what == CUT));
        assert_int_equal(shutdown(wire.server, SHUT_WR), 0);
        while (!f.server.failed)
            read_some(&f.server);
        bool lost = what == LEFT_OUT || what == SWAPPED || what == REFLECTED;
        assert_int_equal(f.server.received, what == NOTHING ? 40 : lost ? 0 : 20);
        assert_memory_equal(f.server.in, words, f.server.received);
        assert_int_equal(f.server.failed, what == NOTHING || what == CUT ? UV_EOF : UV_EPROTO);
        assert_int_equal(pccl_secure_was_cut(f.server.secure), f.server.failed == UV_EOF); /* no end was sent */
        if (f.server.failed == UV_EPROTO)
            assert_string_equal(pccl_secure_why(f.server.secure), "authentication of a received record failed");
        untap(&wire);
        teardown(&f);
    }
}

TEST(test_end_is_told)
{
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int told = 0; told < 2; told++) {
            struct fixture f;
            setup(&f);
            connect_ends(&f, kind);
            exchange(&f, 1000, 1000);
            if (told)
                pccl_secure_finish(f.client.secure);
            write_some(&f.client, NULL, f.client.sent);
            assert_int_equal(shutdown(f.client.socket, SHUT_WR), 0);
            while (!f.server.failed)
                read_some(&f.server);
            assert_int_equal(f.server.failed, UV_EOF);
            assert_int_equal(pccl_secure_was_cut(f.server.secure), !told);
            teardown(&f);
        }
}

/* ---- ends that do not belong to the run ---- */

TEST(test_first_bytes_tell_who_does_not_encrypt)
{
    struct fixture f;
    uint8_t frame[64] = {0x16, 0x03, 0x00, 0x00}; /* 790 bytes, read as a frame */
    setup(&f);
    control(&f, f.peer);
    assert_int_equal(write(f.client.socket, frame, 2), 2);
    read_some(&f.server);
    assert_int_equal(f.server.failed, 0);
    assert_int_equal(write(f.client.socket, frame + 2, sizeof frame - 2), sizeof frame - 2);
    read_some(&f.server);
    assert_int_equal(f.server.failed, UV_EPROTO);
    assert_non_null(strstr(pccl_secure_why(f.server.secure), "PCCL_TOKEN"));
    write_some(&f.server, frame, 20); /* the answer to it is in the clear, as the question was */
    uint8_t answer[20];
    assert_int_equal(fcntl(f.client.socket, F_SETFL, 0), 0);
    loopback_read(f.client.socket, answer, sizeof answer);
    assert_memory_equal(answer, frame, sizeof answer);
    teardown(&f);
}

TEST(test_plain_answer_is_told_from_an_encrypted_one)
{
    struct fixture f;
    uint8_t frame[40] = {36, 0, 0, 0};
    setup(&f);
    control(&f, f.peer);
    write_some(&f.client, frame, sizeof frame);
    assert_int_equal(f.client.sent, 0);
    assert_true(pccl_secure_is_shaking_hands(f.client.secure));
    uint8_t greeting[16];
    assert_int_equal(fcntl(f.server.socket, F_SETFL, 0), 0);
    loopback_read(f.server.socket, greeting, sizeof greeting);
    assert_true(pccl_knock_is_secure(greeting, sizeof greeting));
    assert_false(pccl_knock_is_secure(frame, sizeof frame));
    assert_int_equal(write(f.server.socket, frame, sizeof frame), sizeof frame);
    while (!f.client.failed)
        read_some(&f.client);
    assert_int_equal(f.client.failed, UV_EPROTO);
    assert_non_null(strstr(pccl_secure_why(f.client.secure), "has no token"));
    teardown(&f);
}

TEST(test_greeting_has_an_end)
{
    struct fixture f;
    uint8_t record[5 + 16384] = {0x16, 3, 1, 0x40, 0x00, 1, 0, 0xff, 0xff}; /* 65,535 bytes by its header */
    setup(&f);
    control(&f, f.peer);
    for (int i = 0; i < 4; i++) {
        (void)!write(f.client.socket, record, sizeof record);
        memset(record + 5, 0, 8);
        if (!f.server.failed)
            read_some(&f.server);
    }
    while (!f.server.failed)
        read_some(&f.server);
    assert_int_equal(f.server.failed, UV_EPROTO);
    teardown(&f);
}

/* ---- with OpenSSL's own program ---- */

static void hex(const void *bytes, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
}

static void name_text(const struct pccl_key_name *name, char out[PCCL_KEY_NAME_BYTES + 1])
{
    memcpy(out, "pccl1 ls", 8);
    pccl_id_write(&name->from, out + 8, 32);
    out[40] = '-';
    pccl_id_write(&name->to, out + 41, 32);
    out[73] = '\0';
}

/*
 * Starts `openssl s_client` or `s_server` with the key of a link; it prints the keying material exported for the label.
 */
static pid_t start_openssl(const struct fixture *f, const char *what, uint16_t port, const char *key, const char *label,
                           int *input, int *output)
{
    int in[2], out[2];
    char address[32], name[PCCL_KEY_NAME_BYTES + 1];
    struct pccl_key_name link = link_of(f);
    name_text(&link, name);
    bool client = strcmp(what, "s_client") == 0;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)dup2(null, 2);
        for (int i = 3; i < 64; i++)
            (void)close(i);
        if (client)
            execlp("openssl", "openssl", what, "-tls1_3", "-connect", address, "-psk_identity", name, "-psk", key,
                   "-keymatexport", label, "-keymatexportlen", "32", (char *)NULL);
        else
            execlp("openssl", "openssl", what, "-tls1_3", "-accept", address, "-nocert", "-psk_identity", name, "-psk",
                   key, "-keymatexport", label, "-keymatexportlen", "32", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *input = in[1];
    *output = out[0];
    return child;
}

static void end_openssl(pid_t child, int input, int output)
{
    int status;
    close(input);
    close(output);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Reads the port of a server, which the system has chosen: no other process can have it. */
static uint16_t read_port(int output)
{
    static const char before[] = "ACCEPT 127.0.0.1:";
    char line[256];
    for (size_t have = 0;;) {
        assert_int_equal(read(output, &line[have], 1), 1);
        if (line[have] != '\n') {
            assert_true(++have < sizeof line);
            continue;
        }
        line[have] = 0;
        if (strncmp(line, before, sizeof before - 1) == 0)
            return (uint16_t)strtoul(line + sizeof before - 1, NULL, 10);
        have = 0;
    }
}

static void read_exported(int output, struct pccl_secret *secret)
{
    static const char before[] = "Keying material: ";
    char text[16 << 10] = "", *found = NULL;
    for (size_t have = 0; !(found = strstr(text, before)) || !strchr(found, '\n');) {
        ssize_t got = read(output, text + have, sizeof text - 1 - have);
        assert_true(got > 0);
        have += (size_t)got;
        text[have] = '\0';
    }
    found += sizeof before - 1;
    for (size_t i = 0; i < sizeof secret->bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(found + 2 * i, "%2x", &byte), 1);
        secret->bytes[i] = (uint8_t)byte;
    }
}

/* After the handshake, bytes that we seal open with the key that OpenSSL's program has exported. */
static void check_exported(struct end *ours, int output)
{
    static const char words[] = "what we say";
    while (pccl_secure_is_shaking_hands(ours->secure))
        write_some(ours, NULL, ours->sent);
    struct pccl_text reason;
    struct pccl_secret secret;
    uint8_t in[sizeof words];
    size_t room;
    uv_os_sock_t with_openssl = ours->socket;
    int away;
    read_exported(output, &secret);
    loopback_pair(&ours->socket, &away); /* the program would not understand it */
    struct pccl_record_line line = {0};
    struct pccl_record_reader reader = {.memory = pccl_heap()};
    bool is_aes = strcmp(pccl_secure_cipher(ours->secure), "AES-128-GCM") == 0; /* the program prefers ChaCha20 */
    assert_true(pccl_record_begin(&line, pccl_openssl(&reason),
                                  is_aes ? PCCL_RECORD_AES_128_GCM : PCCL_RECORD_CHACHA20_POLY1305, &secret, false));
    uint8_t sealed[sizeof words + PCCL_RECORD_OVERHEAD];
    size_t bytes = seal(ours, away, (const uint8_t *)words, sizeof words, sealed);
    for (size_t have = 0; have < bytes; have += room) {
        uint8_t *space = pccl_record_space(&reader, &line, &room);
        memcpy(space, sealed + have, room);
        pccl_record_filled(&reader, room);
        ptrdiff_t got = pccl_record_take(&reader, &line, in, sizeof in, NULL, 0);
        assert_int_equal(got, have + room == bytes ? sizeof words : 0);
    }
    assert_memory_equal(in, words, sizeof words);
    pccl_record_reader_fini(&reader);
    pccl_record_end(&line);
    pccl_socket_close(ours->socket);
    close(away);
    ours->socket = with_openssl;
}

static void key_text(const struct fixture *f, char key[65])
{
    struct pccl_key_name name = link_of(f);
    struct pccl_id ticket = pccl_ticket(&f->link_key, &f->a, &f->b);
    struct pccl_secret secret;
    assert_true(pccl_keys_of_link(f->peer, &name, &ticket, &secret));
    hex(secret.bytes, sizeof secret.bytes, key);
}

static void use_socket(struct fixture *f, uv_os_sock_t socket)
{
    close(f->server.socket);
    assert_int_equal(fcntl(socket, F_SETFL, O_NONBLOCK), 0);
    f->server.socket = socket;
}

TEST(test_openssl_dials_us)
{
    for (int right = 0; right < 2; right++) {
        struct fixture f;
        char key[65];
        uint16_t port;
        int input, output, listening = loopback_listen(&port);
        setup(&f);
        key_text(&f, key);
        key[0] ^= right ? 0 : 1;
        pid_t child = start_openssl(&f, "s_client", port, key, "EXPERIMENTAL pccl record 1 server", &input, &output);
        use_socket(&f, accept(listening, NULL, NULL));
        f.server.secure = pccl_secure_create(pccl_heap(), f.peer, PCCL_SECURE_ACCEPTED, NULL, NULL);
        if (right)
            check_exported(&f.server, output);
        while (!right && !f.server.failed)
            read_some(&f.server);
        end_openssl(child, input, output);
        close(listening);
        teardown(&f);
    }
}

TEST(test_we_dial_openssl)
{
    struct fixture f;
    char key[65];
    int input, output, connected = bare_socket();
    setup(&f);
    key_text(&f, key);
    pid_t child = start_openssl(&f, "s_server", 0, key, "EXPERIMENTAL pccl record 1 client", &input, &output);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(read_port(output))};
    assert_int_equal(connect(connected, (struct sockaddr *)&address, sizeof address), 0);
    use_socket(&f, connected);
    struct pccl_key_name name = link_of(&f);
    struct pccl_id ticket = pccl_ticket(&f.link_key, &f.a, &f.b);
    f.server.secure = pccl_secure_create(pccl_heap(), f.peer, PCCL_SECURE_DIALED, &name, &ticket);
    check_exported(&f.server, output);
    end_openssl(child, input, output);
    teardown(&f);
}

TEST(test_openssl_without_a_token)
{
    struct fixture f;
    uint16_t port;
    int input, output, listening = loopback_listen(&port);
    setup(&f);
    pid_t child = start_openssl(&f, "s_client", port, "00", "none", &input, &output);
    use_socket(&f, accept(listening, NULL, NULL));
    f.server.secure = pccl_secure_create(pccl_heap(), f.master, PCCL_SECURE_MASTER, NULL, NULL);
    while (!f.server.failed)
        read_some(&f.server);
    assert_int_equal(f.server.failed, UV_EPROTO);
    assert_string_equal(pccl_secure_why(f.server.secure), "it has no token");
    end_openssl(child, input, output);
    close(listening);
    teardown(&f);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_DFL); /* no signal is raised, so this program is not ended by one */
    return unit_run(NULL, NULL);
}
