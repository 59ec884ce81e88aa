/* Two ends of a secured connection on a real socket, both ours, for tests. */
#ifndef PCCL_TESTS_UNIT_SECURE_ENDS_H
#define PCCL_TESTS_UNIT_SECURE_ENDS_H

#include "loopback.h"
#include "support.h"
#include "core/ticket.h"
#include "net/heap.h"
#include "net/keys.h"
#include "net/record.h"
#include "net/secure.h"
#include "os/socket.h"

enum {
    MANY = 3 << 20,
    TURNS_MAX = 10 << 20, /* for an end that does not wait: on a busy machine the kernel may be late */
};

struct end {
    struct pccl_secure *secure;
    uv_os_sock_t socket;
    uint8_t *in;
    size_t received, sent;
    ptrdiff_t failed; /* negative result of a read; 0: none */
};

struct fixture {
    struct pccl_secret key, secret, other_secret;
    struct pccl_token token;
    struct pccl_keys *master, *peer, *other;
    uint8_t public[PCCL_PUBLIC_BYTES]; /* public key of the secret */
    bool revoked;
    struct pccl_id a, b, link_key;
    struct end client, server;
};

static inline bool tell_ticket(void *context, const struct pccl_id *from, const struct pccl_id *to,
                               struct pccl_id *ticket)
{
    const struct fixture *f = context;
    *ticket = pccl_ticket(&f->link_key, from, to);
    return pccl_id_equal(to, &f->b);
}

static inline enum pccl_keys_verdict judge(void *context, const uint8_t key[PCCL_PUBLIC_BYTES])
{
    const struct fixture *f = context;
    if (memcmp(key, f->public, sizeof f->public) != 0)
        return PCCL_KEYS_UNKNOWN;
    return f->revoked ? PCCL_KEYS_REVOKED : PCCL_KEYS_GOOD;
}

static inline void fill(void *bytes, size_t length, uint8_t first)
{
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(first + i * 7);
}

static inline void make_socket_pair(struct fixture *f)
{
    int bare;
    loopback_pair(&f->client.socket, &bare);
    assert_int_equal(fcntl(bare, F_SETFL, O_NONBLOCK), 0);
    f->server.socket = bare;
}

static inline void setup(struct fixture *f)
{
    struct pccl_text reason;
    *f = (struct fixture){.token.pin = {0}};
    fill(&f->key, sizeof f->key, 1);
    fill(&f->secret, sizeof f->secret, 2);
    fill(&f->other_secret, sizeof f->other_secret, 3);
    fill(&f->a, sizeof f->a, 4);
    fill(&f->b, sizeof f->b, 5);
    fill(&f->link_key, sizeof f->link_key, 6);
    assert_true(pccl_keys_pin(&f->key, f->token.pin, &reason));
    f->token.secret = f->secret;
    f->master = pccl_keys_of_master(pccl_heap(), &f->key, &reason);
    f->peer = pccl_keys_of_peer(pccl_heap(), &f->token, &reason);
    struct pccl_token wrong = f->token;
    wrong.secret = f->other_secret;
    f->other = pccl_keys_of_peer(pccl_heap(), &wrong, &reason);
    assert_true(f->master && f->peer && f->other);
    assert_true(pccl_keys_public(&f->secret, f->public, &reason));
    pccl_keys_set_judge(f->master, judge, f);
    pccl_keys_set_tickets(f->peer, tell_ticket, f);
    pccl_keys_set_tickets(f->other, tell_ticket, f);
    make_socket_pair(f);
    f->client.in = malloc(MANY);
    f->server.in = malloc(MANY);
    assert_true(f->client.in && f->server.in);
}

static inline void teardown(struct fixture *f)
{
    pccl_secure_destroy(f->client.secure);
    pccl_secure_destroy(f->server.secure);
    pccl_socket_close(f->client.socket);
    close(f->server.socket);
    pccl_keys_destroy(f->master);
    pccl_keys_destroy(f->peer);
    pccl_keys_destroy(f->other);
    free(f->client.in);
    free(f->server.in);
}

static inline void control(struct fixture *f, const struct pccl_keys *peer)
{
    f->client.secure = pccl_secure_create(pccl_heap(), peer, PCCL_SECURE_PEER, NULL, NULL);
    f->server.secure = pccl_secure_create(pccl_heap(), f->master, PCCL_SECURE_MASTER, NULL, NULL);
    assert_true(f->client.secure && f->server.secure);
}

static inline void linked(struct fixture *f, const struct pccl_keys *dialing, const struct pccl_keys *accepting,
                          const struct pccl_key_name *name, const struct pccl_id *ticket)
{
    f->client.secure = pccl_secure_create(pccl_heap(), dialing, PCCL_SECURE_DIALED, name, ticket);
    f->server.secure = pccl_secure_create(pccl_heap(), accepting, PCCL_SECURE_ACCEPTED, NULL, NULL);
    assert_true(f->client.secure && f->server.secure);
}

static inline void write_some(struct end *end, const uint8_t *bytes, size_t length)
{
    ptrdiff_t moved = pccl_secure_write(end->secure, end->socket, bytes + end->sent, length - end->sent, NULL, 0);
    if (moved > 0)
        end->sent += (size_t)moved;
    else
        assert_true(moved == 0 || moved == UV_EAGAIN || end->failed);
}

static inline void read_some(struct end *end)
{
    ptrdiff_t got = pccl_secure_read(end->secure, end->socket, end->in + end->received, 1000,
                                     end->in + end->received + 1000, 70000);
    if (got > 0)
        end->received += (size_t)got;
    else if (got != UV_EAGAIN)
        end->failed = got;
}

/* Lets the ends that have not failed read. Returns false if both have failed. */
static inline bool read_both(struct fixture *f)
{
    if (!f->server.failed)
        read_some(&f->server);
    if (!f->client.failed)
        read_some(&f->client);
    return !f->client.failed || !f->server.failed;
}

/* Both ends send these numbers of bytes, until all have arrived or an end detects that it has failed. */
static inline void exchange(struct fixture *f, size_t to_server, size_t to_client)
{
    static uint8_t bytes[MANY];
    fill(bytes, sizeof bytes, 9);
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        write_some(&f->client, bytes, to_server);
        write_some(&f->server, bytes, to_client);
        if (!read_both(f))
            return;
        if (f->server.received == to_server && f->client.received == to_client &&
            !pccl_secure_is_sending(f->client.secure) && !pccl_secure_is_sending(f->server.secure)) {
            assert_memory_equal(f->server.in, bytes, to_server);
            assert_memory_equal(f->client.in, bytes, to_client);
            return;
        }
    }
    fail_msg("they never came to an end");
}

static inline struct pccl_key_name link_of(const struct fixture *f)
{
    return (struct pccl_key_name){.from = f->a, .to = f->b};
}

/* Opens a link whose ends have the same key. */
static inline void link_up(struct fixture *f)
{
    struct pccl_key_name name = link_of(f);
    struct pccl_id ticket = pccl_ticket(&f->link_key, &f->a, &f->b);
    linked(f, f->other, f->peer, &name, &ticket);
}

enum kind { CONTROL, LINK, KINDS };

/* Opens both ends of a control connection with a valid token. */
static inline void connect_ends(struct fixture *f, enum kind kind)
{
    if (kind == LINK)
        link_up(f);
    else
        control(f, f->peer);
}

/* A man in the middle: the other sides of both sockets. */
struct wire {
    int client, server;
};

static inline struct wire tap(struct fixture *f)
{
    struct wire wire;
    pccl_socket_close(f->client.socket);
    close(f->server.socket);
    loopback_pair(&f->client.socket, &wire.client);
    int bare;
    uv_os_sock_t ours;
    loopback_pair(&ours, &bare);
    f->server.socket = bare;
    wire.server = ours;
    assert_int_equal(fcntl(bare, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(wire.client, F_SETFL, O_NONBLOCK), 0);
    return wire;
}

static inline void untap(struct wire *wire)
{
    close(wire->client);
    pccl_socket_close(wire->server);
}

/* Passes up to `piece` bytes on, if there are any. */
static inline void relay(int from, int to, size_t piece)
{
    uint8_t bytes[8192];
    ssize_t got = read(from, bytes, piece < sizeof bytes ? piece : sizeof bytes);
    if (got > 0)
        assert_int_equal(write(to, bytes, (size_t)got), got);
}

/* Runs until the handshake is done and its last bytes have arrived. */
static inline void shake_hands(struct fixture *f, struct wire *wire)
{
    while (pccl_secure_is_shaking_hands(f->client.secure) || pccl_secure_is_shaking_hands(f->server.secure)) {
        write_some(&f->client, NULL, f->client.sent);
        write_some(&f->server, NULL, f->server.sent);
        relay(wire->client, wire->server, 8192);
        relay(wire->server, wire->client, 8192);
    }
}

/* Makes the end send `content`, and reads the sealed bytes from `at`. Returns their number. */
static inline size_t seal(struct end *end, int at, const uint8_t *content, size_t length, uint8_t *sealed)
{
    size_t bytes = length + PCCL_RECORD_OVERHEAD;
    end->sent = 0;
    write_some(end, content, length);
    assert_int_equal(end->sent, length);
    struct pollfd there = {.fd = at, .events = POLLIN};
    for (size_t have = 0; have < bytes;) {
        assert_int_equal(poll(&there, 1, -1), 1);
        ssize_t got = read(at, sealed + have, bytes - have);
        assert_true(got > 0);
        have += (size_t)got;
    }
    return bytes;
}

#endif
