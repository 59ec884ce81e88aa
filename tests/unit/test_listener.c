/* net/listener: accepting untrusted connections: ports, limits, silence, shortage of descriptors. */
#include "unit.h"
#include "local_folder.h"
#include "loopback.h"
#include "net/knock.h"
#include "net/listener.h"
#include "os/socket.h"

#include <sys/resource.h>

static struct fixture {
    uv_loop_t loop;
    struct pccl_listener listener;
    struct pccl_connection *newest;
    uint32_t accepted, ended, wanted, crowded_out, early;
    uint32_t on_spare;       /* accepted with the spare's descriptor */
    uint32_t from_elsewhere; /* place of 127.0.0.2 in the order of accepting; 0: not accepted yet */
    struct pccl_hash_key hash;
    bool enough_accepted, one_ended, one_refused;
    struct pccl_keys *keys;
    bool asks_to_keep, kept;                  /* asks at once whether the connection can be kept */
    uint32_t refused[PCCL_ARRIVAL_WRONG + 1]; /* by their fault */
    int starved;                              /* the latest error of accepting */
    enum pccl_connection_end how;
    int depth;
} f;

static void on_enter(void *owner) { loopback_enter(owner, &f, &f.depth); }

static void on_leave(void *owner) { loopback_leave(owner, &f, &f.depth); }

static void on_accepted(void *owner, struct pccl_connection *connection)
{
    assert_ptr_equal(owner, &f);
    assert_int_equal(f.depth, 1);
    f.newest = connection;
    f.accepted++;
    f.on_spare += connection->list == &f.listener.on_spare;
    f.kept = f.asks_to_keep && pccl_listener_can_keep(&f.listener, connection);
    if (connection->address.ip[15] == 2)
        f.from_elsewhere = f.accepted;
    f.enough_accepted = f.accepted >= f.wanted;
}

static void on_starved(void *owner, int error)
{
    assert_ptr_equal(owner, &f);
    assert_int_equal(f.depth, 1);
    f.starved = error;
}

static void on_dropped(void *owner, const struct pccl_address *from, enum pccl_arrival_end why)
{
    assert_ptr_equal(owner, &f);
    if (why == PCCL_ARRIVAL_CROWDED)
        assert_int_equal(from->ip[15], 1); /* of the flood */
    assert_int_equal(f.depth, 1);
    f.early += why == PCCL_ARRIVAL_EARLY;
    f.refused[why]++;
    f.one_refused = why >= PCCL_ARRIVAL_PLAIN;
    f.crowded_out += why <= PCCL_ARRIVAL_CROWDED;
}

static void on_crowded_out(void *owner, struct pccl_connection *connection)
{
    assert_ptr_equal(owner, &f);
    static const uint8_t word[] = {42};
    assert_int_equal(f.depth, 1);
    f.crowded_out++;
    pccl_connection_send(connection, word, sizeof word);
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    assert_ptr_equal(connection->owner, &f);
    f.ended++;
    f.one_ended = true;
    f.how = how;
    pccl_connection_close(connection, 0);
}

static const struct pccl_connection_events events = {
    .enter = on_enter, .leave = on_leave, .received = loopback_ignore, .ended = on_ended};

static void begin(void)
{
    memset(&f, 0, sizeof f);
    f.wanted = 1;
    assert_int_equal(uv_loop_init(&f.loop), 0);
    pccl_hash_key_init(&f.hash, 1);
    f.listener = (struct pccl_listener){.loop = &f.loop,
                                        .memory = pccl_heap(),
                                        .hash = &f.hash,
                                        .strangers_max = 4,
                                        .events = &events,
                                        .owner = &f,
                                        .accepted = on_accepted,
                                        .starved = on_starved};
}

static int open_at(struct pccl_listener *listener, uint16_t port, uint32_t range, struct pccl_text *reason)
{
    struct pccl_address loopback = pccl_address_v4(127, 0, 0, 1, 0);
    return pccl_listener_open(listener, &loopback, 1, port, range, reason);
}

static void open_anywhere(void)
{
    struct pccl_text reason;
    assert_int_equal(open_at(&f.listener, 0, 1, &reason), 0);
    assert_int_not_equal(f.listener.port, 0);
}

static void begin_with_keys(void)
{
    const struct pccl_secret key = {{1}};
    struct pccl_text reason;
    begin();
    f.keys = pccl_keys_of_master(pccl_heap(), &key, &reason);
    assert_non_null(f.keys);
    f.listener.keys = f.keys;
    f.listener.role = PCCL_SECURE_MASTER;
    f.listener.dropped = on_dropped;
    f.listener.queue_max = 1000;
    f.listener.greeting_ms = 60000;
}

static void end(void)
{
    pccl_listener_close(&f.listener);
    loopback_end(&f.loop);
    pccl_keys_destroy(f.keys);
}

static int set_up(void **state)
{
    begin();
    return 0;
}

static int set_up_open(void **state)
{
    begin();
    open_anywhere();
    return 0;
}

static int set_up_keys(void **state)
{
    begin_with_keys();
    return 0;
}

static int set_up_spare(void **state)
{
    begin();
    f.listener.wants_spare = true;
    f.listener.crowded_out = on_crowded_out;
    open_anywhere();
    return 0;
}

static int tear_down(void **state)
{
    end();
    return 0;
}

#define CLOSED_TEST(name) TEST_IN(name, set_up, tear_down) /* not open yet */
#define OPEN_TEST(name) TEST_IN(name, set_up_open, tear_down)
#define KEYS_TEST(name) TEST_IN(name, set_up_keys, tear_down)   /* not open yet, with keys of a master */
#define SPARE_TEST(name) TEST_IN(name, set_up_spare, tear_down) /* with a descriptor to spare */

static void accept_more(uint32_t count)
{
    f.wanted = f.accepted + count;
    f.enough_accepted = false;
    loopback_until(&f.loop, &f.enough_accepted);
}

CLOSED_TEST(a_taken_port_is_explained_or_passed_over)
{
    struct pccl_text reason;
    struct pccl_listener second = f.listener;
    open_anywhere();
    uint16_t taken = f.listener.port;
    assert_int_equal(open_at(&second, taken, 1, &reason), UV_EADDRINUSE);
    assert_non_null(strstr(reason.bytes, "127.0.0.1"));
    assert_int_equal(open_at(&second, taken, 200, &reason), 0);
    assert_true(second.port > taken && second.port < taken + 200);
    pccl_listener_close(&second);
}

CLOSED_TEST(a_foreign_address_is_explained)
{
    struct pccl_text reason;
    struct pccl_address foreign = pccl_address_v4(203, 0, 113, 1, 0);
    assert_int_equal(pccl_listener_open(&f.listener, &foreign, 1, 0, 1, &reason), UV_EADDRNOTAVAIL);
    assert_non_null(strstr(reason.bytes, "203.0.113.1"));
}

CLOSED_TEST(several_addresses_share_one_port)
{
    struct pccl_text reason;
    struct pccl_address addresses[3] = {pccl_address_v4(127, 0, 0, 1, 0), pccl_address_v4(127, 0, 0, 2, 0)};
    assert_true(pccl_address_parse_ip("::1", 3, &addresses[2])); /* left out on a system without IPv6 */
    assert_int_equal(pccl_listener_open(&f.listener, addresses, 3, 0, 1, &reason), 0);
    for (uint32_t i = 0; i < 2; i++) {
        uv_os_sock_t dialed;
        addresses[i].port = f.listener.port;
        assert_int_equal(pccl_socket_dial(&addresses[i], &dialed), 0);
        accept_more(1);
        pccl_socket_close(dialed);
    }
}

CLOSED_TEST(any_address_takes_both_families)
{
    struct pccl_text reason;
    struct pccl_address any;
    assert_true(pccl_address_parse_ip("::", 2, &any));
    int error = pccl_listener_open(&f.listener, &any, 1, 0, 1, &reason);
    if (error == UV_EAFNOSUPPORT) { /* a host without IPv6 */
        return;
    }
    assert_int_equal(error, 0);
    int v4 = loopback_connect(f.listener.port);
    accept_more(1);
    assert_true(pccl_address_is_v4(&f.newest->address));
    assert_true(pccl_address_is_loopback(&f.newest->address));
    close(v4);
}

/* Returns true if a peer that dials this id is let in. */
static bool comes_to(const struct pccl_id *id)
{
    uv_os_sock_t dialed;
    bool takes;
    int error = pccl_local_dial(f.listener.local, id, &dialed);
    if (error) {
        assert_int_equal(error, UV_ENOENT);
        return false;
    }
    accept_more(1);
    assert_int_equal(pccl_local_is_let_in(dialed, &takes), 0);
    assert_true(pccl_socket_is_local(f.newest->channel.socket));
    pccl_socket_close(dialed);
    return true;
}

TEST(the_door_on_this_host_has_the_latest_id)
{
    struct local_folder folder;
    struct pccl_id first = {{1}}, second = {{2}};
    local_folder_make(&folder);
    begin();
    f.listener.local = &folder.local;
    open_anywhere();
    assert_false(comes_to(&first));
    pccl_listener_open_local(&f.listener, &first);
    pccl_listener_open_local(&f.listener, &first); /* nothing changes */
    assert_true(comes_to(&first));
    pccl_listener_open_local(&f.listener, &second);
    assert_false(comes_to(&first));
    assert_true(comes_to(&second));
    pccl_listener_close(&f.listener);
    assert_false(comes_to(&second));
    loopback_end(&f.loop);
    local_folder_remove(&folder);
}

OPEN_TEST(the_oldest_stranger_makes_room)
{
    int bare[6];
    for (int i = 0; i < 4; i++) {
        bare[i] = loopback_connect(f.listener.port);
        accept_more(1);
    }
    struct pccl_connection *adopted = pccl_connection_oldest(&f.listener.strangers);
    pccl_listener_adopt(adopted);
    pccl_connection_raise(adopted);
    bare[4] = loopback_connect(f.listener.port);
    accept_more(1);
    assert_int_equal(f.ended, 0); /* the adopted one does not count */
    bare[5] = loopback_connect(f.listener.port);
    accept_more(1);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.how, PCCL_END_DROPPED);
    assert_int_equal(f.listener.strangers.count, 4);
    char byte;
    assert_int_equal(recv(bare[1], &byte, 1, 0), 0); /* the oldest that was not adopted */
    assert_int_equal(adopted->state, PCCL_CONNECTION_OPEN);
    pccl_connection_close(adopted, 0);
    for (int i = 0; i < 6; i++)
        close(bare[i]);
}

OPEN_TEST(a_flood_crowds_out_itself)
{
    int bare[10];
    int slow =
        loopback_connect_from(INADDR_LOOPBACK + 1, f.listener.port); /* the oldest of all, and alone of its address */
    accept_more(1);
    struct pccl_connection *honest = f.newest;
    for (int i = 0; i < 10; i++) {
        bare[i] = loopback_connect(f.listener.port);
        accept_more(1);
    }
    assert_int_equal(f.ended, 7);
    assert_ptr_equal(pccl_connection_oldest(&f.listener.strangers), honest);
    assert_int_equal(honest->state, PCCL_CONNECTION_OPEN);
    for (int i = 0; i < 10; i++)
        close(bare[i]);
    close(slow);
}

enum { WHOLE = 225 }; /* bytes of a knock and a TLS greeting of 205 bytes */

static void write_greeting(const struct pccl_keys *keys, uint8_t bytes[WHOLE])
{
    static const uint8_t greeting[WHOLE - 20] = {22, 3, 1, 0, 200, 1};
    assert_int_equal(pccl_knock_bytes(false), 20);
    memcpy(bytes + 20, greeting, sizeof greeting);
    assert_true(pccl_knock_write(keys, NULL, bytes, WHOLE));
}

/* Sends the first `length` bytes of a knock and a greeting. */
static void greet(int socket, size_t length)
{
    uint8_t bytes[WHOLE];
    write_greeting(f.listener.keys, bytes);
    assert_int_equal(send(socket, bytes, length, 0), length);
}

/*
 * Handshakes are begun at a limited rate. Among those that wait, the crowded address has to make room, and an arrival
 * from elsewhere has the next turn.
 */
TEST(handshakes_wait_for_their_turn)
{
    enum { QUEUE = 300, FLOOD = PCCL_HANDSHAKES_BURST + QUEUE + 200 };
    static int bare[FLOOD];
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit both_ends = {.rlim_cur = pccl_max_u64(before.rlim_cur, 2 * FLOOD + 100), .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &both_ends), 0); /* many systems give 1024 */
    begin_with_keys();
    f.listener.strangers_max = FLOOD + 1;
    f.listener.queue_max = QUEUE;
    open_anywhere();
    f.listener.handshakes.per_s = 1; /* however long this takes, they wait */
    for (int i = 0; i < FLOOD; i++)
        greet(bare[i] = loopback_connect(f.listener.port), WHOLE);
    int slow = loopback_connect_from(INADDR_LOOPBACK + 1, f.listener.port);
    greet(slow, WHOLE);
    while (f.from_elsewhere == 0) /* the last one that arrived */
        accept_more(1);
    uint32_t all = FLOOD + 1 - f.crowded_out;
    assert_true(f.from_elsewhere < all); /* it did not wait for all that arrived before it */
    f.listener.handshakes = (struct pccl_budget){.per_s = FLOOD, .burst = FLOOD};
    if (f.accepted < all) /* none of the others is forgotten */
        accept_more(all - f.accepted);
    for (int i = 0; i < FLOOD; i++)
        close(bare[i]);
    close(slow);
    end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Half greetings begin no handshake, make room for each other only, and end after a time. */
KEYS_TEST(half_greetings_begin_no_handshake)
{
    enum { HALF = 20, QUEUE = 10 };
    int half[HALF];
    f.listener.queue_max = QUEUE;
    open_anywhere();
    for (int i = 0; i < HALF; i++)
        greet(half[i] = loopback_connect(f.listener.port), i % 2 ? WHOLE - 1 : 4);
    int whole = loopback_connect(f.listener.port), plain = loopback_connect(f.listener.port);
    greet(whole, 120);
    assert_int_equal(send(plain, "hello", 5, 0), 5); /* gets a refusal in words */
    loopback_until(&f.loop, &f.one_refused);
    assert_int_equal(f.refused[PCCL_ARRIVAL_PLAIN], 1);
    assert_true(f.early == HALF + 1 - QUEUE || f.early == HALF + 2 - QUEUE); /* `plain` may have been removed first */
    static const uint8_t rest[105];
    assert_int_equal(send(whole, rest, sizeof rest, 0), sizeof rest);
    accept_more(1);
    assert_int_equal(f.accepted, 1);
    assert_int_equal(f.crowded_out, f.early);
    for (int i = 0; i < HALF; i++)
        close(half[i]);
    close(whole);
    close(plain);
}

OPEN_TEST(one_that_lingers_makes_room_too)
{
    int bare[5];
    for (int i = 0; i < 4; i++) {
        bare[i] = loopback_connect(f.listener.port);
        accept_more(1);
        pccl_connection_close(f.newest, 60000); /* refused; the other side stays */
    }
    assert_int_equal(f.listener.strangers.count, 4);
    bare[4] = loopback_connect(f.listener.port);
    accept_more(1);
    assert_int_equal(f.listener.strangers.count, 4);
    assert_int_equal(f.ended, 0); /* its owner had closed it: no event */
    while (f.listener.strangers.count > 1)
        pccl_connection_drop(pccl_connection_oldest(&f.listener.strangers));
    for (int i = 0; i < 5; i++)
        close(bare[i]);
}

CLOSED_TEST(a_silent_stranger_is_ended)
{
    f.listener.hello_ms = 1;
    open_anywhere();
    int bare = loopback_connect(f.listener.port);
    loopback_until(&f.loop, &f.one_ended);
    assert_int_equal(f.how, PCCL_END_TIMEOUT);
    assert_int_equal(f.listener.strangers.count, 0);
    close(bare);
}

struct hoard {
    struct rlimit before;
    int descriptors[64];
    uint32_t count;
};

/* Takes every descriptor that this process may open. */
static void hoard_all(struct hoard *hoard, int highest)
{
    hoard->count = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &hoard->before), 0);
    struct rlimit low = hoard->before;
    low.rlim_cur = (rlim_t)highest + 32;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (hoard->count < PCCL_COUNT_OF(hoard->descriptors) && (hoard->descriptors[hoard->count] = dup(highest)) >= 0)
        hoard->count++;
    assert_true(hoard->count > 0 && hoard->count < PCCL_COUNT_OF(hoard->descriptors));
}

static void hoard_one_less(struct hoard *hoard) { close(hoard->descriptors[--hoard->count]); }

static void hoard_over(struct hoard *hoard)
{
    while (hoard->count > 0)
        hoard_one_less(hoard);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &hoard->before), 0);
}

OPEN_TEST(shortage_of_descriptors_ends_nothing)
{
    struct hoard hoard;
    int bare = loopback_connect(f.listener.port);
    hoard_all(&hoard, bare);
    for (int i = 0; i < 3; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.accepted, 0);
    assert_int_equal(f.starved, UV_EMFILE);
    hoard_one_less(&hoard);
    accept_more(1); /* after the pause */
    hoard_over(&hoard);
    close(bare);
}

/* All listeners together use a quarter of the free descriptors. */
TEST(listeners_share_the_descriptors)
{
    enum { SILENT = 60, FREE = 320, SHARERS = 4 };
    int silent[SILENT];
    struct rlimit before;
    begin_with_keys();
    f.listener.sharers = SHARERS;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = FREE, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    open_anywhere();
    for (int i = 0; i < SILENT; i++)
        silent[i] = loopback_connect(f.listener.port);
    int whole = loopback_connect(f.listener.port);
    greet(whole, WHOLE);
    accept_more(1);
    assert_true(f.early >= SILENT - FREE / 4 / SHARERS);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    close(whole);
    end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Without a free descriptor the one that has been silent for longest makes room. */
KEYS_TEST(silent_ones_make_room_without_descriptors)
{
    struct hoard hoard;
    open_anywhere();
    int first = loopback_connect(f.listener.port), second = loopback_connect(f.listener.port);
    int whole = loopback_connect(f.listener.port);
    greet(whole, WHOLE);
    accept_more(1);                        /* all three are here */
    loopback_until(&f.loop, &f.one_ended); /* OpenSSL refuses that greeting */
    int late = loopback_connect(f.listener.port);
    hoard_all(&hoard, late);
    greet(late, WHOLE);
    accept_more(1);
    assert_int_equal(f.starved, UV_EMFILE);
    assert_int_equal(f.early, 1);
    hoard_over(&hoard);
    char byte;
    assert_int_equal(recv(first, &byte, 1, 0), 0);
    close(first);
    close(second);
    close(whole);
    close(late);
}

/* Sends these bytes from a new connection. Returns the length of the answer. */
static ssize_t answer_to(const uint8_t *bytes, size_t length, uint8_t answer[1000])
{
    int stranger = loopback_connect(f.listener.port);
    assert_int_equal(send(stranger, bytes, length, 0), length);
    f.one_refused = false;
    loopback_until(&f.loop, &f.one_refused);
    ssize_t got = recv(stranger, answer, 1000, MSG_DONTWAIT);
    close(stranger);
    return got;
}

/* Each gets the same answer, up to a rate, before OpenSSL reads from it. */
TEST(who_has_no_knock_is_refused)
{
    enum { FLOOD = 400 };
    static const uint8_t plain[] = "hello", long_record[5] = {22, 3, 1, 64, 0};
    struct pccl_text reason;
    uint8_t answer[1000], bytes[WHOLE];
    begin_with_keys();
    struct pccl_keys *other = pccl_keys_of_master(pccl_heap(), &(struct pccl_secret){{2}}, &reason);
    assert_non_null(other);
    open_anywhere();
    assert_true(answer_to(plain, sizeof plain, answer) > 32);
    assert_int_equal(f.refused[PCCL_ARRIVAL_PLAIN], 1);
    write_greeting(f.keys, bytes);
    assert_int_equal(answer_to(bytes + 20, 5, answer), PCCL_ALERT_BYTES); /* it need not be whole */
    assert_memory_equal(answer, pccl_knock_alert, PCCL_ALERT_BYTES);
    assert_int_equal(f.refused[PCCL_ARRIVAL_MISSING], 1);
    write_greeting(other, bytes);
    assert_int_equal(answer_to(bytes, sizeof bytes, answer), PCCL_ALERT_BYTES);
    for (size_t i = 3; i < sizeof bytes; i += 17) { /* the kind, the code, the greeting */
        write_greeting(f.keys, bytes);
        bytes[i] ^= 1;
        assert_int_equal(answer_to(bytes, sizeof bytes, answer), PCCL_ALERT_BYTES);
    }
    memcpy(bytes + 20, long_record, sizeof long_record);
    assert_int_equal(answer_to(bytes, 25, answer), PCCL_ALERT_BYTES);
    assert_int_equal(f.accepted, 0);
    uint64_t began_ns = uv_hrtime();
    uint32_t answered = 0;
    for (int i = 0; i < FLOOD; i++)
        answered += answer_to(bytes, 25, answer) > 0;
    assert_true(answered < 102 + (uv_hrtime() - began_ns) / 10000000);
    end();
    pccl_keys_destroy(other);
}

SPARE_TEST(with_a_spare_one_after_another_is_heard)
{
    struct hoard hoard;
    int bare[3];
    for (int i = 0; i < 3; i++)
        bare[i] = loopback_connect(f.listener.port);
    hoard_all(&hoard, bare[2]);
    for (int i = 0; i < 3; i++) {
        accept_more(1);
        assert_int_equal(f.accepted, i + 1); /* the next one waits */
        assert_false(pccl_listener_can_keep(&f.listener, f.newest));
        pccl_connection_send(f.newest, (const uint8_t *)"no", 2);
        pccl_connection_close(f.newest, 60000);
        char bytes[3];
        assert_int_equal(recv(bare[i], bytes, sizeof bytes, 0), 2);
        assert_int_equal(shutdown(bare[i], SHUT_RDWR), 0); /* it ends, but this process gets no descriptor from that */
    }
    loopback_until(&f.loop, &f.listener.has_spare); /* in its place again */
    assert_int_equal(f.crowded_out, 0);
    hoard_over(&hoard);
    for (int i = 0; i < 3; i++)
        close(bare[i]);
}

SPARE_TEST(who_speaks_is_kept_for_an_older_one_that_does_not)
{
    struct hoard hoard;
    int bare[2];
    bare[0] = loopback_connect(f.listener.port);
    accept_more(1);
    bare[1] = loopback_connect(f.listener.port);
    hoard_all(&hoard, bare[1]);
    accept_more(1);
    assert_int_equal(f.listener.strangers.count, 1);
    assert_int_equal(f.listener.on_spare.count, 1);
    struct pccl_connection *speaker = f.newest;
    on_enter(&f);
    assert_true(pccl_listener_can_keep(&f.listener, speaker));
    on_leave(&f);
    assert_int_equal(f.crowded_out, 1);
    assert_int_equal(f.how, PCCL_END_DROPPED);
    assert_ptr_equal(pccl_connection_oldest(&f.listener.strangers), speaker);
    assert_int_equal(f.listener.on_spare.count, 0);
    assert_true(pccl_listener_can_keep(&f.listener, speaker));
    char byte;
    assert_int_equal(recv(bare[0], &byte, 1, 0), 1); /* it got the refusal */
    assert_int_equal(recv(bare[0], &byte, 1, 0), 0);
    hoard_over(&hoard);
    close(bare[0]);
    close(bare[1]);
}

SPARE_TEST(nobody_sits_on_the_spare_in_silence)
{
    struct hoard hoard;
    int bare[2];
    bare[0] = loopback_connect(f.listener.port);
    bare[1] = loopback_connect(f.listener.port);
    hoard_all(&hoard, bare[1]);
    f.wanted = 2; /* the second one may arrive in the same visit in which the first one ends */
    loopback_until(&f.loop, &f.enough_accepted);
    assert_true(f.one_ended);
    assert_int_equal(f.how, PCCL_END_TIMEOUT);
    /* A connection that must not be turned away is adopted; then there is no spare, and the next one waits. */
    pccl_listener_adopt(f.newest);
    hoard_over(&hoard);
    int late = loopback_connect(f.listener.port);
    accept_more(1);
    assert_true(f.listener.has_spare);
    assert_true(pccl_listener_can_keep(&f.listener, f.newest));
    close(bare[0]);
    close(bare[1]);
    close(late);
}

/* Its descriptor is for those with a knock, too, and the next one waits. */
KEYS_TEST(with_keys_the_spare_is_for_knocks)
{
    struct hoard hoard;
    f.listener.wants_spare = true;
    f.listener.crowded_out = on_crowded_out;
    open_anywhere();
    int stranger = loopback_connect(f.listener.port), whole = loopback_connect(f.listener.port);
    greet(stranger, 3);
    greet(whole, WHOLE);
    assert_int_equal(send(stranger, "no knock", 8, 0), 8);
    hoard_all(&hoard, whole);
    accept_more(1);
    assert_int_equal(f.refused[PCCL_ARRIVAL_WRONG], 1);
    assert_int_equal(f.on_spare, 1);
    loopback_until(&f.loop, &f.listener.has_spare); /* OpenSSL refuses that greeting, so it is free again */
    hoard_over(&hoard);
    close(stranger);
    close(whole);
}

/*
 * An honest client has not sent anything yet when an attacker with half a greeting gets the spare's descriptor. The
 * client is kept, and the attacker's connection is ended: after its time to send, or earlier if no other descriptor is
 * free.
 */
TEST(half_a_greeting_does_not_keep_the_spare)
{
    enum { SILENT_MS = 250 };
    for (int late = 0; late < 2; late++) {
        struct hoard hoard;
        begin_with_keys();
        f.listener.wants_spare = true;
        f.listener.crowded_out = on_crowded_out;
        f.asks_to_keep = true;
        open_anywhere();
        int honest = loopback_connect_from(INADDR_LOOPBACK + 1, f.listener.port);
        int stranger = loopback_connect(f.listener.port);
        greet(stranger, 3);
        hoard_all(&hoard, stranger);
        hoard_one_less(&hoard); /* for the honest one */
        while (f.listener.has_spare)
            uv_run(&f.loop, UV_RUN_NOWAIT);
        uv_update_time(&f.loop);
        uint64_t began_ms = uv_now(&f.loop);
        while (late && uv_now(&f.loop) < began_ms + SILENT_MS)
            uv_run(&f.loop, UV_RUN_NOWAIT);
        greet(honest, WHOLE);
        accept_more(1);
        assert_int_equal(f.from_elsewhere, 1);
        assert_true(f.kept);
        if (late)
            assert_int_equal(f.on_spare, 0);
        assert_int_equal(f.early, 1);
        assert_true(f.listener.has_spare);
        hoard_over(&hoard);
        close(stranger);
        close(honest);
        end();
    }
}
