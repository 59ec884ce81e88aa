/*
 * net/dialer: dialing one peer at several addresses: the order, the proof that single failures give, and the proof that
 * they give together.
 */
#include "unit.h"

#include <sys/resource.h>

#include "buffered.h"
#include "local_folder.h"
#include "loopback.h"
#include "net/dialer.h"
#include "net/handshake.h"
#include "net/listener.h"
#include "os/socket.h"

static bool offers_pipe; /* in the dials that begin */
static struct local_folder folder;
static const struct pccl_local *here; /* for the dials that begin; NULL: TCP only */
static const struct pccl_keys *keys;

static struct fixture {
    uv_loop_t loop;
    struct pccl_dialer *dialer;
    bool done;
    struct pccl_connection *connection;
    enum pccl_link_end how;
    struct pccl_text reason;
    bool declined;
    int depth;
} f;

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
}

static const struct pccl_connection_events events = {.received = loopback_ignore, .ended = on_ended};

static void on_enter(void *owner) { loopback_enter(owner, &f, &f.depth); }

static void on_leave(void *owner) { loopback_leave(owner, &f, &f.depth); }

static void on_done(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                    const struct pccl_text *reason)
{
    assert_ptr_equal(context, &f);
    assert_false(f.done);
    assert_int_equal(f.depth, 1);
    f.done = true;
    f.connection = connection;
    f.how = how;
    f.reason = *reason;
    if (connection) {
        connection->events = &events;
        connection->owner = &f;
    }
}

static struct pccl_id peer(uint8_t number) { return (struct pccl_id){{number}}; }

/* Dials peer seven with a hello of this kind; 0: dials without a hello. */
static void begin(const struct pccl_address *addresses, uint32_t count, uint8_t kind, uint32_t timeout_ms)
{
    struct pccl_msg_link_hello hello = {.lineage = peer(1), .from = peer(2), .to = peer(7), .kind = kind};
    memset(&f, 0, sizeof f);
    assert_int_equal(uv_loop_init(&f.loop), 0);
    struct pccl_dial dial = {.addresses = addresses,
                             .count = count,
                             .local = here,
                             .offers_pipe = offers_pipe,
                             .stagger_ms = 5,
                             .timeout_ms = timeout_ms,
                             .hello = kind ? &hello : NULL,
                             .keys = keys,
                             .declined = &f.declined,
                             .done = on_done,
                             .context = &f,
                             .enter = on_enter,
                             .leave = on_leave,
                             .owner = &f};
    f.dialer = pccl_dialer_start(&f.loop, pccl_heap(), &dial);
    assert_non_null(f.dialer);
    assert_false(f.done); /* never from inside start */
}

static void end(void)
{
    if (f.connection)
        pccl_connection_close(f.connection, 0);
    loopback_end(&f.loop);
}

static void until_done(void) { loopback_until(&f.loop, &f.done); }

static void until_failed(enum pccl_link_end how, const char *words)
{
    until_done();
    assert_null(f.connection);
    assert_int_equal(f.how, how);
    if (!strstr(f.reason.bytes, words))
        fail_msg("'%s' is not in: %s", words, f.reason.bytes);
}

/* Returns an address without a listener: its port is bound, so that no other process gets it. */
static struct pccl_address dead_address(int *holder)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *holder = bare_socket();
    assert_int_equal(bind(*holder, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(*holder, (struct sockaddr *)&address, &length), 0);
    return pccl_address_v4(127, 0, 0, 1, ntohs(address.sin_port));
}

static struct pccl_address live_address(int *listening)
{
    uint16_t port;
    *listening = loopback_listen(&port);
    return pccl_address_v4(127, 0, 0, 1, port);
}

/* Runs the loop until a connection has arrived there. */
static int accept_one(int listening)
{
    loopback_until_readable(&f.loop, listening);
    int accepted = accept(listening, NULL, NULL);
    assert_true(accepted >= 0);
    return accepted;
}

/* Answers the hello that has arrived with this message. */
static void say(int bare, const struct pccl_msg *msg)
{
    uint8_t bytes[512];
    loopback_until_readable(&f.loop, bare);
    loopback_read(bare, bytes, PCCL_FRAME_HEADER_BYTES);
    size_t body = bytes[0];
    loopback_read(bare, bytes, body);
    size_t length = pccl_frame_size(msg);
    assert_true(length <= sizeof bytes);
    pccl_frame_encode(msg, 0, 0, bytes);
    assert_int_equal(send(bare, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

static void welcome(int bare, uint8_t number)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok,
                           .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = peer(number)}};
    say(bare, &msg);
}

static void refuse(int bare, enum pccl_refusal code)
{
    struct pccl_msg msg = {.type = PCCL_MSG_refused,
                           .as.refused = {.version = PCCL_PROTOCOL_VERSION,
                                          .code = (uint16_t)code,
                                          .reason = pccl_bytes_of_string("not you")}};
    say(bare, &msg);
}

enum place { NOWHERE, DEAD, LIVE }; /* dead: without a listener */
enum answer { SILENCE, WELCOME, REFUSAL, JUNK, CLOSE };

/* The answer of the live place decides. A refused probe means that the peer is not there. */
static const struct verdict {
    const char *name;
    enum place places[2];
    uint8_t kind; /* kind of the hello; 0: none */
    enum answer answer;
    unsigned what; /* the number of the peer that welcomes, or the code of the refusal */
    enum pccl_link_end how;
    const char *words;
} verdicts[] = {
    {"being connected is enough without a hello", {LIVE}, 0, SILENCE, 0, 0, ""},
    {"the next address is tried", {DEAD, LIVE}, 0, SILENCE, 0, 0, ""},
    {"the right answer makes the link", {LIVE}, PCCL_LINK_RING, WELCOME, 7, 0, ""},
    {"no listener is refused", {DEAD}, 0, SILENCE, 0, PCCL_LINK_REFUSED, "127.0.0.1:"},
    {"no address is unreachable", {NOWHERE}, 0, SILENCE, 0, PCCL_LINK_UNREACHABLE, "no address"},
    {"only another process is other", {LIVE, DEAD}, PCCL_LINK_RING, WELCOME, 9, PCCL_LINK_OTHER, "another process"},
    {"garbage is another process", {LIVE}, PCCL_LINK_RING, JUNK, 0, PCCL_LINK_OTHER, ""},
    {"a silent one forbids a verdict of death", {DEAD, LIVE}, PCCL_LINK_RING, SILENCE, 0, PCCL_LINK_TIMEOUT, ""},
    {"closing without an answer is closed", {LIVE}, PCCL_LINK_RING, CLOSE, 0, PCCL_LINK_CLOSED, ""},
    {"its identity is another", {LIVE}, PCCL_LINK_RING, REFUSAL, PCCL_REFUSAL_IDENTITY, PCCL_LINK_OTHER, "not you"},
    {"its run is another", {LIVE}, PCCL_LINK_RING, REFUSAL, PCCL_REFUSAL_LINEAGE, PCCL_LINK_UNREACHABLE, "not you"},
    {"it has no state", {LIVE}, PCCL_LINK_STATE, REFUSAL, PCCL_REFUSAL_STATE, PCCL_LINK_UNREACHABLE, "not you"},
    {"its hello is bad", {LIVE}, PCCL_LINK_MEASURE, REFUSAL, PCCL_REFUSAL_MALFORMED, PCCL_LINK_UNREACHABLE, "not you"},
    {"a probe of another run", {LIVE}, PCCL_LINK_PROBE, REFUSAL, PCCL_REFUSAL_LINEAGE, PCCL_LINK_OTHER, "not you"},
};

/* Returns the other side's socket, or -1. */
static int give_answer(const struct verdict *row, int listening)
{
    static const char junk[] = "220 mail.example.org ESMTP, and a greeting that is long enough for a header\r\n";
    if (row->answer == SILENCE)
        return -1;
    int bare = accept_one(listening);
    if (row->answer == WELCOME)
        welcome(bare, (uint8_t)row->what);
    if (row->answer == REFUSAL)
        refuse(bare, (enum pccl_refusal)row->what);
    if (row->answer == JUNK)
        assert_int_equal(send(bare, junk, sizeof junk, MSG_NOSIGNAL), (ssize_t)sizeof junk);
    if (row->answer == CLOSE)
        close(bare);
    return row->answer == CLOSE ? -1 : bare;
}

TEST(what_an_answer_is_evidence_of)
{
    for (const struct verdict *row = verdicts; row < verdicts + PCCL_COUNT_OF(verdicts); row++) {
        struct pccl_address addresses[2];
        int sockets[2], live = -1;
        uint32_t count = 0;
        print_message("%s\n", row->name);
        for (; count < 2 && row->places[count] != NOWHERE; count++) {
            addresses[count] =
                row->places[count] == LIVE ? live_address(&sockets[count]) : dead_address(&sockets[count]);
            live = row->places[count] == LIVE ? sockets[count] : live;
        }
        begin(addresses, count, row->kind, row->how == PCCL_LINK_TIMEOUT ? 20 : 60000);
        int bare = give_answer(row, live);
        if (row->how == 0) {
            until_done();
            assert_non_null(f.connection);
            assert_true(pccl_address_equal(&f.connection->address, &addresses[count - 1]));
        } else {
            until_failed(row->how, row->words);
        }
        assert_int_equal(f.declined, row->answer == REFUSAL && row->how == PCCL_LINK_UNREACHABLE);
        if (bare >= 0)
            close(bare);
        while (count > 0)
            close(sockets[--count]);
        end();
    }
}

/* No address was tried, which is no evidence; the reason has the limit of this process. */
TEST(lack_of_descriptors_says_nothing_of_the_other_side)
{
    int listening;
    struct pccl_address address = live_address(&listening);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    begin(&address, 1, 0, 60000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    until_done();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(f.connection);
    assert_int_equal(f.how, 0);
    assert_string_equal(f.reason.bytes, "too many open files (limit 0): raise the limit (ulimit -n)");
    close(listening);
    end();
}

TEST(another_process_behind_an_address_is_passed_over)
{
    int wrong, right;
    struct pccl_address addresses[2] = {live_address(&wrong), live_address(&right)};
    begin(addresses, 2, PCCL_LINK_RING, 60000);
    int first = accept_one(wrong);
    int second = accept_one(right); /* connected in the meantime, but only one is asked at a time */
    uint8_t byte;
    assert_int_equal(recv(second, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    welcome(first, 9);
    welcome(second, 7);
    until_done();
    assert_non_null(f.connection);
    assert_true(pccl_address_equal(&f.connection->address, &addresses[1]));
    close(first);
    close(second);
    close(wrong);
    close(right);
    end();
}

/* A dialer that only waits for a connection of the other side ends like a dial without an answer, or is canceled. */
TEST(waits_for_the_other_side)
{
    for (int canceled = 0; canceled < 2; canceled++) {
        memset(&f, 0, sizeof f);
        assert_int_equal(uv_loop_init(&f.loop), 0);
        struct pccl_dial dial = {
            .waits_ms = 30, .done = on_done, .context = &f, .enter = on_enter, .leave = on_leave, .owner = &f};
        uint64_t begun_us = pccl_now_us();
        f.dialer = pccl_dialer_start(&f.loop, pccl_heap(), &dial);
        assert_non_null(f.dialer);
        if (canceled) {
            pccl_dialer_cancel(f.dialer);
            end();
            assert_false(f.done);
            continue;
        }
        until_failed(PCCL_LINK_TIMEOUT, "it has not connected");
        assert_true(pccl_now_us() - begun_us >= 29000);
        end();
    }
}

TEST(a_canceled_dialer_says_nothing)
{
    for (int waits = 0; waits < 2; waits++) { /* for the answer; or before its first attempt */
        int listening;
        struct pccl_address address = live_address(&listening);
        begin(&address, 1, PCCL_LINK_RING, 60000);
        int bare = waits ? accept_one(listening) : -1;
        pccl_dialer_cancel(f.dialer);
        end();
        assert_false(f.done);
        if (waits)
            close(bare);
        close(listening);
    }
}

/* ---- the local socket ---- */

static void begin_here(const struct pccl_address *address, uint32_t timeout_ms)
{
    here = &folder.local;
    begin(address, address != NULL, PCCL_LINK_RING, timeout_ms);
    here = NULL;
}

static int open_door(void)
{
    uv_os_sock_t door;
    const struct pccl_id id = peer(7);
    local_folder_make(&folder);
    assert_int_equal(pccl_local_listen(&folder.local, &id, &door), 0);
    return door;
}

static void close_door(int door)
{
    const struct pccl_id id = peer(7);
    pccl_local_remove(&folder.local, &id);
    local_folder_remove(&folder);
    close(door);
}

TEST(a_peer_on_this_host_is_reached_at_its_door)
{
    uint8_t byte;
    int listening, door = open_door();
    struct pccl_address address = live_address(&listening);
    begin_here(&address, 60000);
    int bare = accept_one(door);
    int tcp = accept_one(listening);                                    /* although another address can be reached */
    assert_int_equal(recv(bare, &byte, sizeof byte, MSG_DONTWAIT), -1); /* it waits to be let in */
    assert_true(pccl_local_let_in(bare, true));
    welcome(bare, 7);
    until_done();
    assert_non_null(f.connection);
    assert_true(pccl_socket_is_local(f.connection->channel.socket));
    close(tcp);
    close(bare);
    close_door(door);
    close(listening);
    end();
}

static void reach_over_tcp(void)
{
    int listening;
    struct pccl_address address = live_address(&listening);
    begin_here(&address, 60000);
    int bare = accept_one(listening);
    welcome(bare, 7);
    until_done();
    assert_non_null(f.connection);
    assert_false(pccl_socket_is_local(f.connection->channel.socket));
    assert_true(pccl_address_equal(&f.connection->address, &address));
    close(bare);
    close(listening);
    end();
}

TEST(without_a_door_it_is_reached_over_tcp)
{
    local_folder_make(&folder);
    reach_over_tcp();
    local_folder_remove(&folder);
}

/* It would be silent, and the peer may be on another host. */
TEST(another_users_door_is_passed_by)
{
    enum { ANOTHER_USER = 65534 };
    if (geteuid() != 0)
        skip(); /* only root can act as another user */
    int door;
    const struct pccl_id id = peer(7);
    local_folder_make(&folder);
    assert_int_equal(chmod(folder.path, 0777), 0); /* after it was checked */
    assert_int_equal(seteuid(ANOTHER_USER), 0);
    int error = pccl_local_listen(&folder.local, &id, &door);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(error, 0);
    reach_over_tcp();
    close_door(door);
}

/* Only TCP can prove whether the peer is alive. */
TEST(an_end_at_the_door_proves_nothing)
{
    for (int answers = 0; answers < 2; answers++) {
        int holder, door = open_door();
        struct pccl_address address = dead_address(&holder);
        begin_here(&address, 60000);
        int bare = accept_one(door);
        if (answers) {
            assert_true(pccl_local_let_in(bare, true));
            welcome(bare, 9); /* another process has taken the name */
        }
        close(bare);
        until_failed(PCCL_LINK_REFUSED, "");
        close_door(door);
        close(holder);
        end();
    }
}

/* The same with and without a known address of the peer. */
TEST(silence_at_the_door_is_silence)
{
    for (int known = 0; known < 2; known++) {
        int listening, door = open_door();
        struct pccl_address address = live_address(&listening);
        uint8_t byte;
        begin_here(known ? &address : NULL, 20); /* the kernel accepts; no process answers */
        until_failed(PCCL_LINK_TIMEOUT, "on this host");
        end();
        /* A dialer that waits for no answer does not ask it again over TCP. */
        struct pollfd waiting = {.fd = listening, .events = POLLIN};
        if (poll(&waiting, 1, 0) == 1) {
            int bare = accept(listening, NULL, NULL);
            assert_int_equal(recv(bare, &byte, 1, 0), 0);
            close(bare);
        }
        close_door(door);
        close(listening);
    }
}

/* ---- pipes ---- */

/* The peer behind the door: answers the hello, and has a connection to hand over. */
static struct host {
    struct pccl_listener listener;
    struct pccl_hash_key hash;
    struct pccl_handover handover;
    bool refuses, has_answered;
    struct pccl_dialer *canceled; /* canceled when the hello arrives; NULL: none */
} host;

static void on_hello(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    const struct pccl_id self = peer(7);
    assert_int_equal(frame->type, PCCL_MSG_link_hello);
    host.has_answered = true;
    pccl_listener_adopt(connection);
    if (host.refuses) {
        struct pccl_text reason;
        pccl_text_format(&reason, "not you");
        pccl_handshake_refuse(connection, PCCL_REFUSAL_LINEAGE, &reason, LOOPBACK_HANG_MS);
        return;
    }
    pccl_handshake_welcome(connection, &self);
    assert_true(pccl_connection_detach(connection, &host.handover));
    if (host.canceled)
        pccl_dialer_cancel(host.canceled);
}

static void on_accepted(void *owner, struct pccl_connection *connection) {}

static void on_host_ended(struct pccl_connection *connection, enum pccl_connection_end how,
                          const struct pccl_text *reason)
{
    pccl_connection_close(connection, 0);
}

static const struct pccl_connection_events host_events = {.received = on_hello, .ended = on_host_ended};

static void begin_host(void)
{
    struct pccl_address loopback = pccl_address_v4(127, 0, 0, 1, 0);
    struct pccl_text reason;
    const struct pccl_id self = peer(7);
    memset(&host, 0, sizeof host);
    pccl_hash_key_init(&host.hash, 1);
    host.listener = (struct pccl_listener){.loop = &f.loop,
                                           .local = &folder.local,
                                           .memory = pccl_heap(),
                                           .hash = &host.hash,
                                           .accepts_pipes = true,
                                           .strangers_max = 4,
                                           .events = &host_events,
                                           .owner = &host,
                                           .accepted = on_accepted,
                                           .keys = keys,
                                           .queue_max = 16,
                                           .greeting_ms = 60000,
                                           .role = PCCL_SECURE_ACCEPTED};
    assert_int_equal(pccl_listener_open(&host.listener, &loopback, 1, 0, 1, &reason), 0);
    pccl_listener_open_local(&host.listener, &self);
}

/* A dialer and the peer that it dials, on one loop. */
static void begin_both(bool offers)
{
    struct pccl_address nowhere = pccl_address_v4(127, 0, 0, 1, 1);
    local_folder_make(&folder);
    offers_pipe = offers;
    begin_here(&nowhere, 60000);
    offers_pipe = false;
    begin_host();
}

static struct pccl_handover hand_over(void)
{
    struct pccl_handover handover;
    until_done();
    assert_non_null(f.connection);
    assert_true(pccl_connection_detach(f.connection, &handover));
    f.connection = NULL;
    return handover;
}

static void end_both(const struct held *before)
{
    pccl_listener_close(&host.listener);
    end();
    local_folder_remove(&folder);
    assert_held(*before);
}

static void bytes_go_through(const struct pccl_handover *from, const struct pccl_handover *to)
{
    uint8_t sent[] = "through the pipe", got[sizeof sent + 1];
    assert_int_equal(pccl_pipe_write(from->pipe, from->socket, sent, 5, sent + 5, sizeof sent - 5), sizeof sent);
    assert_int_equal(pccl_socket_read(to->socket, got, sizeof got), UV_EAGAIN); /* and not over the socket */
    assert_int_equal(pccl_pipe_read(to->pipe, to->socket, got, sizeof got, NULL, 0), sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
}

/* Checks both handovers, and sends bytes through the pipe. */
static void hand_over_both(bool with_pipe, bool encrypted)
{
    struct pccl_handover dialed = hand_over();
    assert_int_equal(dialed.pipe != NULL, with_pipe);
    assert_int_equal(host.handover.pipe != NULL, with_pipe);
    assert_int_equal(dialed.secure != NULL, encrypted);
    if (with_pipe) {
        bytes_go_through(&dialed, &host.handover);
        bytes_go_through(&host.handover, &dialed);
    }
    pccl_handover_drop(&dialed);
    pccl_handover_drop(&host.handover);
}

TEST(a_pipe_is_handed_over_if_it_was_offered)
{
    for (int offers = 0; offers < 2; offers++) {
        struct held before = held_now();
        begin_both(offers);
        hand_over_both(offers, false);
        end_both(&before);
    }
}

static bool tell_ticket(void *context, const struct pccl_id *from, const struct pccl_id *to, struct pccl_id *ticket)
{
    const struct pccl_id self = peer(7);
    *ticket = (struct pccl_id){{0}}; /* as in a hello without one */
    return pccl_id_equal(to, &self);
}

/* The same if the link is in the clear after its handshake. */
TEST(with_keys_there_is_no_pipe)
{
    const struct pccl_token token = {.secret = {{1}}};
    struct pccl_text reason;
    struct pccl_keys *both = pccl_keys_of_peer(pccl_heap(), &token, &reason);
    assert_non_null(both);
    pccl_keys_set_tickets(both, tell_ticket, NULL);
    struct held before = held_now();
    for (int open = 0; open < 2; open++) {
        pccl_keys_set_open_links(both, open);
        keys = both;
        begin_both(true);
        keys = NULL;
        hand_over_both(false, !open);
        end_both(&before);
    }
    pccl_keys_destroy(both);
}

static void bytes_go_over_the_socket(int bare)
{
    char byte = 0;
    struct pccl_handover dialed = hand_over();
    assert_null(dialed.pipe);
    assert_int_equal(pccl_socket_write(dialed.socket, (const uint8_t *)"x", 1), 1);
    loopback_read(bare, &byte, 1);
    assert_int_equal(byte, 'x');
    pccl_handover_drop(&dialed);
}

/* The other side ignores offers, or claims to accept and does not; or there is no door, so that TCP is used. */
TEST(without_a_pipe_bytes_go_over_the_socket)
{
    enum { DEAF, LIES, OVER_TCP, CASES };
    for (int what = 0; what < CASES; what++) {
        struct held before = held_now();
        int listening, door = what == OVER_TCP ? -1 : open_door();
        struct pccl_address address = live_address(&listening);
        if (what == OVER_TCP)
            local_folder_make(&folder);
        offers_pipe = true;
        begin_here(&address, 60000);
        offers_pipe = false;
        int bare = accept_one(what == OVER_TCP ? listening : door);
        if (what == OVER_TCP)
            assert_int_equal(held_now().mappings, before.mappings);
        else
            assert_true(pccl_local_let_in(bare, what == LIES));
        welcome(bare, 7);
        bytes_go_over_the_socket(bare);
        close(bare);
        if (what == OVER_TCP)
            local_folder_remove(&folder);
        else
            close_door(door);
        close(listening);
        end();
        assert_held(before);
    }
}

TEST(a_canceled_dialer_leaves_no_pipe)
{
    struct held before = held_now();
    begin_both(true);
    pccl_dialer_cancel(f.dialer); /* before its first attempt */
    end_both(&before);
    begin_both(true);
    host.canceled = f.dialer; /* the offer is taken, and the answer not read yet */
    loopback_until(&f.loop, &host.has_answered);
    assert_non_null(host.handover.pipe);
    pccl_handover_drop(&host.handover);
    end_both(&before);
    assert_false(f.done);
}

TEST(a_refused_hello_leaves_no_pipe)
{
    struct held before = held_now();
    begin_both(true);
    host.refuses = true;
    loopback_until(&f.loop, &host.has_answered);
    until_done();
    assert_null(f.connection);
    assert_true(f.declined);
    end_both(&before);
}
