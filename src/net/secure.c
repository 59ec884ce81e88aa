#include "net/secure.h"

#include "net/clock.h"
#include "net/keys.h"
#include "net/knock.h"
#include "net/record.h"
#include "net/renewal.h"
#include "net/secrets.h"
#include "os/socket.h"

#include <string.h>

enum {
    RECORD_BYTES = 16 << 10,  /* maximum content of a TLS record */
    SEALED_BYTES = 128 << 10, /* limit for sealed bytes that wait for the kernel; nothing is sealed above it */
    TOGETHER_BYTES = 8 << 10, /* frames and payload up to this total size share a record */
    FIRST_BYTES = 3,
    VERDICT_BYTES = 4, /* number of bytes that distinguish a TLS record from ours, whose fourth byte is the kind */
    GREETING_BYTES_MAX = 16 << 10, /* limit for bytes from the other side before the handshake is complete */
    REKEY_RECORDS = 1 << 23,       /* AES-GCM's bound is 2^24.5 (RFC 8446, 5.5) */
    RENEWAL_US = 10 * 1000,        /* minimum interval between renewals by a client (rekey_ms) */
    RENEWALS_AT_ONCE = 4,          /* renewals in quick succession that a server tolerates, as delays can bunch them */
    HANDSHAKE_TYPE = 22,
    ALERT_TYPE = 21,
    VERSION_MAJOR = 3, /* version of TLS records */
    TLS_AES_128_GCM = 0x1301,
};

enum state {
    SHAKING_HANDS,
    OPEN,
    FAILED, /* output is dropped, except the alert to the other side */
    PLAIN,  /* the other side does not encrypt; the accepting end can still answer in plain text */
};

struct pccl_secure {
    const struct pccl_memory *memory;
    const struct pccl_keys *keys;
    const struct pccl_openssl *openssl;
    struct ssl_st *ssl;  /* NULL once our records are used; at a PEER, only after the master's verdict on its key */
    uv_os_sock_t socket; /* valid only during a call */
    enum pccl_secure_role role;
    enum state state;
    bool knocks;                 /* true at a client until it has sent its knock */
    bool finished;               /* the end of the output was sealed */
    int read_error, write_error; /* error of the socket or out of memory, or 0 */
    int ended;                   /* error that later reads return, or 0 */
    bool was_told, revoked;      /* the other side has announced the end of its output; this PEER's token was revoked */

    uint8_t first[VERDICT_BYTES]; /* first bytes of the other side; later the first bytes after the handshake */
    uint32_t first_have, first_used;
    uint64_t greeting_bytes;
    uint64_t records, rekey; /* number of TLS records written; interval of key changes (for tests) */

    enum pccl_record_cipher cipher; /* valid after the handshake */
    bool has_shown;                 /* at a MASTER: the other side has shown its key; valid after the handshake */
    uint8_t shown[PCCL_PUBLIC_BYTES];
    /* after the handshake, if our records are used: */
    struct pccl_record_line out, in;
    struct pccl_record_reader reader;
    struct pccl_renewal renewal;
    uint64_t renewal_due_us; /* at a server: time until which the client has used up its renewals */
    bool dry;                /* nothing more is available from the socket */
    bool moved;              /* bytes have moved over the socket since the last query */

    uint8_t *sealed; /* sealed_start..sealed_end is unsent */
    uint32_t sealed_start, sealed_end, sealed_capacity;

    struct pccl_link_key key; /* for a link */
    struct pccl_text why;
};

static bool is_link(const struct pccl_secure *secure) { return secure->role >= PCCL_SECURE_DIALED; }

/* Returns true if our records replace TLS records after the handshake. HTTP keeps TLS records, for browsers. */
static bool has_records(const struct pccl_secure *secure)
{
    return secure->role != PCCL_SECURE_VISITOR && secure->role != PCCL_SECURE_PAGES;
}

static bool is_client(const struct pccl_secure *secure)
{
    return secure->role == PCCL_SECURE_PEER || secure->role == PCCL_SECURE_VISITOR ||
           secure->role == PCCL_SECURE_DIALED;
}

/* ---- the first bytes ---- */

static bool is_record(const uint8_t *bytes, size_t length, bool may_be_alert)
{
    return (length < 1 || bytes[0] == HANDSHAKE_TYPE || (may_be_alert && bytes[0] == ALERT_TYPE)) &&
           (length < 2 || bytes[1] == VERSION_MAJOR) && (length < 3 || (bytes[2] >= 1 && bytes[2] <= 4));
}

/* Reads into `first`, up to `wanted` bytes in total. Returns 0 or an error. */
static ptrdiff_t read_first(struct pccl_secure *secure, uint32_t wanted)
{
    ptrdiff_t got = pccl_socket_read(secure->socket, secure->first + secure->first_have, wanted - secure->first_have);
    if (got > 0)
        secure->first_have += (uint32_t)got;
    return got < 0 ? got : 0;
}

/* Reads and checks the first bytes. Returns 0 if they are valid, or UV_EAGAIN or another error. */
static ptrdiff_t see_first(struct pccl_secure *secure)
{
    while (secure->first_have < FIRST_BYTES) {
        ptrdiff_t error = read_first(secure, FIRST_BYTES);
        if (error)
            return error;
        if (is_record(secure->first, secure->first_have, is_client(secure)))
            continue;
        secure->state = PLAIN;
        pccl_text_format(&secure->why, "%s", pccl_secure_plain_words(secure->keys, secure->role));
        return UV_EPROTO;
    }
    return 0;
}

/* ---- between OpenSSL and the socket ---- */

static int retry(const struct pccl_openssl *openssl, struct bio_st *bio, int which)
{
    openssl->BIO_set_flags(bio, which | PCCL_BIO_FLAGS_SHOULD_RETRY);
    return -1;
}

static int on_bio_read(struct bio_st *bio, char *out, int length)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    struct pccl_secure *secure = openssl->BIO_get_data(bio);
    openssl->BIO_clear_flags(bio, PCCL_BIO_FLAGS_RWS | PCCL_BIO_FLAGS_SHOULD_RETRY);
    if (length <= 0)
        return 0;
    ptrdiff_t got = see_first(secure);
    if (got == 0 && secure->first_used < secure->first_have) {
        uint32_t bytes = (uint32_t)pccl_min_u64((uint64_t)length, secure->first_have - secure->first_used);
        memcpy(out, secure->first + secure->first_used, bytes);
        secure->first_used += bytes;
        return (int)bytes;
    }
    if (got == 0)
        got = pccl_socket_read(secure->socket, (uint8_t *)out, (size_t)length);
    if (got == UV_EAGAIN)
        return retry(openssl, bio, PCCL_BIO_FLAGS_READ);
    if (got < 0) {
        secure->read_error = (int)got;
        return got == UV_EOF ? 0 : -1;
    }
    secure->moved = true;
    secure->greeting_bytes += (uint64_t)got;
    if (secure->state == SHAKING_HANDS && secure->greeting_bytes > GREETING_BYTES_MAX) {
        secure->state = FAILED;
        pccl_text_format(&secure->why, "it sent too much data before the handshake was complete");
        return -1;
    }
    return (int)got;
}

static int on_bio_write(struct bio_st *bio, const char *bytes, int length)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    struct pccl_secure *secure = openssl->BIO_get_data(bio);
    openssl->BIO_clear_flags(bio, PCCL_BIO_FLAGS_RWS | PCCL_BIO_FLAGS_SHOULD_RETRY);
    if (length <= 0)
        return 0;
    uint32_t unsent = secure->sealed_end - secure->sealed_start;
    if (unsent == 0 || (secure->sealed_start > 0 && secure->sealed_capacity - secure->sealed_end < (uint32_t)length)) {
        if (unsent > 0)
            memmove(secure->sealed, secure->sealed + secure->sealed_start, unsent);
        secure->sealed_start = 0;
        secure->sealed_end = unsent;
    }
    uint8_t *sealed =
        pccl_grow(secure->memory, secure->sealed, &secure->sealed_capacity, secure->sealed_end + (uint32_t)length, 1);
    if (!sealed) {
        secure->write_error = UV_ENOMEM;
        return -1;
    }
    secure->sealed = sealed;
    memcpy(sealed + secure->sealed_end, bytes, (size_t)length);
    secure->sealed_end += (uint32_t)length;
    return length;
}

static long on_bio_ctrl(struct bio_st *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == PCCL_BIO_CTRL_FLUSH;
}

static struct bio_method_st *method;
static uv_once_t method_once = UV_ONCE_INIT;

static void make_method(void)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    struct bio_method_st *made = openssl->BIO_meth_new(PCCL_BIO_TYPE_SOURCE_SINK, "pccl");
    if (made && openssl->BIO_meth_set_read(made, on_bio_read) && openssl->BIO_meth_set_write(made, on_bio_write) &&
        openssl->BIO_meth_set_ctrl(made, on_bio_ctrl))
        method = made;
}

/* Sends the sealed bytes. Returns 0 if all are sent, or UV_EAGAIN or another error. */
static ptrdiff_t flush(struct pccl_secure *secure)
{
    while (secure->sealed_start < secure->sealed_end) {
        ptrdiff_t moved = pccl_socket_write(secure->socket, secure->sealed + secure->sealed_start,
                                            secure->sealed_end - secure->sealed_start);
        if (moved == UV_ENOBUFS)
            return UV_EAGAIN;
        if (moved < 0)
            return moved;
        secure->moved = true;
        secure->sealed_start += (uint32_t)moved;
    }
    secure->sealed_start = secure->sealed_end = 0;
    return 0;
}

/* ---- life ---- */

struct pccl_secure *pccl_secure_create(const struct pccl_memory *memory, const struct pccl_keys *keys,
                                       enum pccl_secure_role role, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    uv_once(&method_once, make_method);
    struct pccl_secure *secure = pccl_allocate(pccl_secrets(), sizeof *secure);
    if (!secure)
        return NULL;
    secure->memory = memory;
    secure->keys = keys;
    secure->openssl = openssl;
    secure->role = role;
    secure->reader.memory = memory;
    secure->ssl = pccl_keys_make_ssl(keys, is_link(secure), name, ticket, &secure->key);
    struct bio_st *bio = method && secure->ssl ? openssl->BIO_new(method) : NULL;
    if (!bio) {
        pccl_secure_destroy(secure);
        return NULL;
    }
    openssl->BIO_set_data(bio, secure);
    openssl->BIO_set_init(bio, 1);
    openssl->SSL_set_bio(secure->ssl, bio, bio);
    if (is_client(secure))
        openssl->SSL_set_connect_state(secure->ssl);
    else
        openssl->SSL_set_accept_state(secure->ssl);
    if (role == PCCL_SECURE_ACCEPTED) /* OpenSSL requires a session id context where clients are verified */
        (void)openssl->SSL_set_session_id_context(secure->ssl, (const unsigned char *)"pccl1", 5);
    return secure;
}

void pccl_secure_knock(struct pccl_secure *secure)
{
    secure->knocks = is_link(secure) || !pccl_keys_has_files(secure->keys);
}

void pccl_secure_destroy(struct pccl_secure *secure)
{
    if (!secure)
        return;
    secure->openssl->SSL_free(secure->ssl);
    pccl_release(secure->memory, secure->sealed, secure->sealed_capacity);
    pccl_record_reader_fini(&secure->reader);
    pccl_record_end(&secure->out);
    pccl_record_end(&secure->in);
    pccl_renewal_end(&secure->renewal);
    pccl_release(pccl_secrets(), secure, sizeof *secure);
}

void pccl_secure_set_rekey(struct pccl_secure *secure, uint64_t after) { secure->rekey = after; }

/* ---- the handshake ---- */

/* Interprets the result of the last OpenSSL call. Returns UV_EAGAIN, or the error that ended the connection. */
static ptrdiff_t outcome(struct pccl_secure *secure, int result)
{
    int kind = secure->openssl->SSL_get_error(secure->ssl, result);
    if (secure->state == PLAIN)
        return UV_EPROTO;
    if (kind == PCCL_SSL_ERROR_WANT_READ || kind == PCCL_SSL_ERROR_WANT_WRITE)
        return UV_EAGAIN;
    secure->was_told = kind == PCCL_SSL_ERROR_ZERO_RETURN;
    if (secure->was_told)
        return UV_EOF;
    if (secure->write_error)
        return secure->write_error;
    if (secure->read_error)
        return secure->read_error;
    if (secure->state != FAILED)
        secure->revoked = pccl_secure_explain(secure->keys, secure->role, secure->openssl, secure->ssl, &secure->why);
    secure->state = FAILED;
    (void)flush(secure); /* sends the alert */
    return UV_EPROTO;
}

static void forget_handshake(struct pccl_secure *secure)
{
    secure->openssl->SSL_free(secure->ssl);
    secure->ssl = NULL;
}

/* Switches to our records, with keys derived from the handshake. Returns false if out of memory. */
static bool begin_records(struct pccl_secure *secure)
{
    static const char labels[2][2][40] = {{"EXPERIMENTAL pccl control 1 client", "EXPERIMENTAL pccl control 1 server"},
                                          {"EXPERIMENTAL pccl record 1 client", "EXPERIMENTAL pccl record 1 server"}};
    const char(*label)[40] = labels[is_link(secure)];
    const struct pccl_openssl *openssl = secure->openssl;
    bool good = true;
    for (int server = 0; server < 2 && good; server++) {
        bool seals = server != is_client(secure);
        struct pccl_record_line *line = seals ? &secure->out : &secure->in;
        struct pccl_secret secret;
        good = openssl->SSL_export_keying_material(secure->ssl, secret.bytes, sizeof secret.bytes, label[server],
                                                   strlen(label[server]), NULL, 0, 0) == 1 &&
               pccl_record_begin(line, openssl, secure->cipher, &secret, seals);
        line->blocks_max = secure->rekey ? secure->rekey : line->blocks_max;
        pccl_wipe(&secret, sizeof secret);
    }
    secure->reader.ahead = pccl_secure_opens(secure) ? 0 : PCCL_RECORD_AHEAD_MAX; /* 0: plain bytes follow */
    secure->first_have = secure->first_used = 0;
    if (secure->role == PCCL_SECURE_MASTER)
        secure->has_shown = pccl_keys_shown(secure->keys, secure->ssl, secure->shown);
    if (secure->role != PCCL_SECURE_PEER)
        forget_handshake(secure);
    return good;
}

/* Inserts the knock before the greeting, which has not been sent yet. Returns false if out of memory. */
static bool knock(struct pccl_secure *secure)
{
    uint32_t bytes = (uint32_t)pccl_knock_bytes(is_link(secure)), length = secure->sealed_end + bytes;
    uint8_t *sealed = pccl_grow(secure->memory, secure->sealed, &secure->sealed_capacity, length, 1);
    secure->knocks = false;
    if (!sealed)
        return false;
    memmove(sealed + bytes, sealed, secure->sealed_end);
    secure->sealed = sealed;
    secure->sealed_end = length;
    return pccl_knock_write(secure->keys, is_link(secure) ? &secure->key : NULL, sealed, length);
}

/* Continues the handshake. Returns 0 if it is complete, or an error. */
static ptrdiff_t shake_hands(struct pccl_secure *secure)
{
    secure->openssl->ERR_clear_error();
    int result = secure->openssl->SSL_do_handshake(secure->ssl);
    if (secure->knocks && secure->sealed_end > 0 && !knock(secure)) {
        secure->sealed_end = 0;
        secure->state = FAILED;
        return secure->ended = UV_ENOMEM;
    }
    ptrdiff_t error = result == 1 ? 0 : outcome(secure, result);
    (void)flush(secure); /* unsent bytes are sent later, like other output */
    if (error)
        return error;
    if (is_link(secure) && !secure->openssl->SSL_session_reused(secure->ssl)) {
        secure->state = FAILED; /* cannot happen, because verify_nothing rejects all certificates */
        pccl_text_format(&secure->why, "the link's handshake did not use the master's key");
        return UV_EPROTO;
    }
    uint16_t cipher = secure->openssl->SSL_CIPHER_get_protocol_id(secure->openssl->SSL_get_current_cipher(secure->ssl));
    secure->cipher = cipher == TLS_AES_128_GCM ? PCCL_RECORD_AES_128_GCM : PCCL_RECORD_CHACHA20_POLY1305;
    if (has_records(secure) && !begin_records(secure)) {
        secure->state = FAILED;
        return secure->ended = UV_ENOMEM;
    }
    secure->state = OPEN;
    return 0;
}

/* Appends a record to the sealed bytes. Returns false if out of memory. */
static bool seal_record(struct pccl_secure *secure, enum pccl_record_kind kind, const uint8_t *first,
                        size_t first_length, const uint8_t *second, size_t second_length)
{
    uint32_t bytes = (uint32_t)(first_length + second_length + PCCL_RECORD_OVERHEAD);
    if (!pccl_record_fit(secure->memory, &secure->sealed, &secure->sealed_capacity, secure->sealed_end + bytes) ||
        !pccl_record_seal(&secure->out, kind, first, first_length, second, second_length,
                          secure->sealed + secure->sealed_end))
        return false;
    secure->sealed_end += bytes;
    return true;
}

/* ---- the renewal of keys ---- */

uint32_t pccl_secure_renewal_ms(const struct pccl_secure *secure)
{
    bool can = is_client(secure) && has_records(secure) && !pccl_secure_opens(secure);
    return can ? pccl_keys_renewal_ms(secure->keys) : 0;
}

/* Seals a record of the renewal. Returns false if out of memory. */
static bool seal_turn(struct pccl_secure *secure, enum pccl_record_kind kind)
{
    return seal_record(secure, kind, secure->renewal.public, kind == PCCL_RECORD_KEY ? PCCL_RECORD_KEY_BYTES : 0, NULL,
                       0);
}

void pccl_secure_renew(struct pccl_secure *secure)
{
    if (secure->state != OPEN || secure->ended || secure->finished || pccl_renewal_is_open(&secure->renewal))
        return;
    if (!pccl_renewal_begin(&secure->renewal, secure->openssl) || !seal_turn(secure, PCCL_RECORD_KEY))
        secure->ended = UV_ENOMEM;
}

/* Counts a renewal begun by a client. Returns false with a reason if there are too many, because each takes time. */
static bool may_begin(struct pccl_secure *secure)
{
    uint64_t now_us = pccl_now_us();
    secure->renewal_due_us = pccl_max_u64(secure->renewal_due_us, now_us) + RENEWAL_US;
    bool may = secure->renewal_due_us <= now_us + RENEWALS_AT_ONCE * RENEWAL_US;
    if (!may)
        pccl_text_format(&secure->why, "key renewal: the other side renews too often");
    return may;
}

/* Processes the renewal record that the reader has met. Returns 0, or the error that failed the connection. */
static int go_on_renewing(struct pccl_secure *secure)
{
    enum pccl_record_kind reply;
    bool client = is_client(secure), begins = !client && secure->reader.met == PCCL_RECORD_KEY;
    bool good = (!begins || may_begin(secure)) &&
                pccl_renewal_take(&secure->renewal, &secure->reader, &secure->in, client, &reply, &secure->why);
    secure->reader.met = PCCL_RECORD_NONE;
    if (good && reply != PCCL_RECORD_NONE && !secure->finished)
        good = seal_turn(secure, reply) && pccl_renewal_replied(&secure->renewal, &secure->out, client);
    if (good)
        return 0;
    secure->state = FAILED;
    return secure->ended = secure->why.length ? UV_EPROTO : UV_ENOMEM;
}

/* ---- in ---- */

/* Reads from TLS, and adds the number of bytes to *total. Returns 0, or the error that ended the reading. */
static ptrdiff_t read_into(struct pccl_secure *secure, uint8_t *bytes, size_t length, size_t *total)
{
    for (size_t have = 0, got = 0; have < length; have += got, *total += got) {
        int result = secure->openssl->SSL_read_ex(secure->ssl, bytes + have, length - have, &got);
        if (result != 1)
            return outcome(secure, result);
    }
    return 0;
}

/*
 * Checks the first bytes after the handshake of a PEER. They may be an alert, because the handshake completes before
 * the master has verified this peer's key. Returns 0 if they begin one of our records, otherwise the error for reads.
 */
static ptrdiff_t hear_verdict(struct pccl_secure *secure)
{
    while (secure->first_have < VERDICT_BYTES) {
        ptrdiff_t error = read_first(secure, VERDICT_BYTES);
        if (error)
            return error;
    }
    if (secure->first[VERDICT_BYTES - 1] == 0) { /* an alert: its byte here is the upper half of a short length */
        uint8_t none;
        size_t moved;
        secure->openssl->ERR_clear_error();
        return outcome(secure, secure->openssl->SSL_read_ex(secure->ssl, &none, sizeof none, &moved));
    }
    size_t length;
    uint8_t *room = pccl_record_space(&secure->reader, &secure->in, &length);
    if (!room)
        return UV_ENOMEM;
    memcpy(room, secure->first, VERDICT_BYTES);
    pccl_record_filled(&secure->reader, VERDICT_BYTES);
    forget_handshake(secure);
    return 0;
}

/* Reads until content has arrived. A short read means that nothing more is available. */
static ptrdiff_t read_records(struct pccl_secure *secure, uint8_t *first, size_t first_length, uint8_t *second,
                              size_t second_length)
{
    struct pccl_record_reader *reader = &secure->reader;
    ptrdiff_t error = secure->ssl ? hear_verdict(secure) : 0;
    if (error)
        return error;
    for (secure->dry = false;;) {
        ptrdiff_t got = pccl_record_take(reader, &secure->in, first, first_length, second, second_length);
        secure->was_told = reader->met == PCCL_RECORD_END;
        bool renews = reader->met && !secure->was_told;
        error = renews ? go_on_renewing(secure) : 0;
        if (got > 0 || secure->was_told)
            return got > 0 ? got : UV_EOF;
        if (error)
            return error;
        if (renews)
            continue;
        if (got < 0) {
            secure->state = FAILED;
            pccl_text_format(&secure->why, "authentication of a received record failed");
            return UV_EPROTO;
        }
        if (secure->dry)
            return UV_EAGAIN;
        size_t length;
        uint8_t *room = pccl_record_space(reader, &secure->in, &length);
        got = room ? pccl_socket_read(secure->socket, room, length) : UV_ENOMEM;
        if (got < 0) {
            secure->dry = true;
            return got;
        }
        secure->dry = (size_t)got < length;
        secure->moved = true;
        pccl_record_filled(reader, (size_t)got);
    }
}

static ptrdiff_t read_tls(struct pccl_secure *secure, uint8_t *first, size_t first_length, uint8_t *second,
                          size_t second_length, size_t *total)
{
    secure->openssl->ERR_clear_error();
    ptrdiff_t error = read_into(secure, first, first_length, total);
    return error ? error : read_into(secure, second, second_length, total);
}

ptrdiff_t pccl_secure_read(struct pccl_secure *secure, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                           uint8_t *second, size_t second_length)
{
    size_t total = 0;
    secure->socket = socket;
    if (secure->ended)
        return secure->ended;
    if (secure->state == FAILED || secure->state == PLAIN)
        return UV_EPROTO;
    if (secure->state == SHAKING_HANDS) {
        ptrdiff_t error = shake_hands(secure);
        if (error)
            return error;
    }
    ptrdiff_t got = has_records(secure) ? read_records(secure, first, first_length, second, second_length)
                                        : read_tls(secure, first, first_length, second, second_length, &total);
    if (got < 0 && got != UV_EAGAIN)
        secure->ended = (int)got;
    return total > 0 ? (ptrdiff_t)total : got;
}

bool pccl_secure_has_input(const struct pccl_secure *secure)
{
    return secure->ended || secure->state >= FAILED ||
           (secure->state == OPEN && (has_records(secure) ? pccl_record_has_input(&secure->reader, &secure->in)
                                                          : secure->openssl->SSL_pending(secure->ssl) > 0));
}

bool pccl_secure_is_dry(const struct pccl_secure *secure)
{
    return !has_records(secure) || (secure->dry && !pccl_secure_has_input(secure));
}

bool pccl_secure_has_moved(struct pccl_secure *secure)
{
    bool moved = secure->moved;
    secure->moved = false;
    return moved;
}

bool pccl_secure_was_cut(const struct pccl_secure *secure) { return secure->ended == UV_EOF && !secure->was_told; }

/* ---- out ---- */

/* Seals until all bytes are sealed or the limit is reached. Returns 0, or the error that ended the sealing. */
static ptrdiff_t seal(struct pccl_secure *secure, const uint8_t *bytes, size_t length, size_t *total)
{
    size_t done = 0;
    while (done < length && secure->sealed_end - secure->sealed_start < SEALED_BYTES) {
        size_t piece = pccl_min_u64(length - done, RECORD_BYTES), moved = 0;
        if (++secure->records % (secure->rekey ? secure->rekey : REKEY_RECORDS) == 0)
            (void)secure->openssl->SSL_key_update(secure->ssl, PCCL_SSL_KEY_UPDATE_NOT_REQUESTED);
        int result = secure->openssl->SSL_write_ex(secure->ssl, bytes + done, piece, &moved);
        if (result != 1)
            return outcome(secure, result);
        done += moved;
        *total += moved;
    }
    return 0;
}

/*
 * Seals as much as one call of the kernel may take. Called only when no sealed bytes are waiting. Long payload gets
 * separate records, which the other end can open directly in their destination after it has read the preceding frame.
 * Short payload shares a record with its frame.
 */
static bool seal_some(struct pccl_secure *secure, const uint8_t *first, size_t first_length, const uint8_t *second,
                      size_t second_length, size_t *total)
{
    bool together = first_length + second_length <= TOGETHER_BYTES;
    size_t frames = (size_t)pccl_min_u64(first_length, TOGETHER_BYTES);
    size_t payload = (size_t)pccl_min_u64(second_length, PCCL_RECORD_CONTENT_MAX);
    if (frames < first_length) /* more frames than usual, so no payload yet */
        payload = 0;
    if (frames && !seal_record(secure, PCCL_RECORD_CONTENT, first, frames, second, together ? payload : 0))
        return false;
    if (payload && !(frames && together) && !seal_record(secure, PCCL_RECORD_CONTENT, second, payload, NULL, 0))
        return false;
    *total += frames + payload;
    return true;
}

static ptrdiff_t write_records(struct pccl_secure *secure, const uint8_t *first, size_t first_length,
                               const uint8_t *second, size_t second_length)
{
    size_t total = 0;
    ptrdiff_t error;
    while ((error = flush(secure)) == 0 && total < first_length + second_length) {
        size_t of_first = (size_t)pccl_min_u64(total, first_length), of_second = total - of_first;
        if (!seal_some(secure, first + of_first, first_length - of_first, second + of_second, second_length - of_second,
                       &total))
            return UV_ENOMEM;
    }
    return total > 0 ? (ptrdiff_t)total : error;
}

static ptrdiff_t write_tls(struct pccl_secure *secure, const uint8_t *first, size_t first_length, const uint8_t *second,
                           size_t second_length)
{
    size_t total = 0, before;
    ptrdiff_t error = 0;
    secure->openssl->ERR_clear_error();
    do {
        before = total;
        if (total < first_length)
            error = seal(secure, first + total, first_length - total, &total);
        if (!error && total >= first_length)
            error = seal(secure, second + (total - first_length), first_length + second_length - total, &total);
        if (!error)
            error = flush(secure);
    } while (!error && total > before);
    return total > 0 ? (ptrdiff_t)total : error;
}

ptrdiff_t pccl_secure_write(struct pccl_secure *secure, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                            const uint8_t *second, size_t second_length)
{
    secure->socket = socket;
    if (secure->state == PLAIN && !is_client(secure) && first_length + second_length > 0)
        return pccl_socket_write_two(socket, first, first_length, second, second_length);
    if (secure->state == SHAKING_HANDS && shake_hands(secure) != 0 && secure->state == SHAKING_HANDS)
        return UV_EAGAIN;        /* even if the handshake has failed, which the next read reports */
    if (secure->state != OPEN) { /* the other side could not decode more output */
        ptrdiff_t error = flush(secure);
        return error ? error : (ptrdiff_t)(first_length + second_length);
    }
    return has_records(secure) ? write_records(secure, first, first_length, second, second_length)
                               : write_tls(secure, first, first_length, second, second_length);
}

bool pccl_secure_is_sending(const struct pccl_secure *secure) { return secure->sealed_start < secure->sealed_end; }

bool pccl_secure_is_shaking_hands(const struct pccl_secure *secure) { return secure->state == SHAKING_HANDS; }

void pccl_secure_finish(struct pccl_secure *secure)
{
    if (secure->finished || secure->state != OPEN)
        return;
    secure->finished = true;
    if (has_records(secure)) {
        (void)seal_record(secure, PCCL_RECORD_END, NULL, 0, NULL, 0); /* on failure, the connection looks broken */
        return;
    }
    secure->openssl->ERR_clear_error();
    (void)secure->openssl->SSL_shutdown(secure->ssl);
}

bool pccl_secure_opens(const struct pccl_secure *secure) { return secure->key.name.open && !secure->key.name.probe; }

const char *pccl_secure_cipher(const struct pccl_secure *secure)
{
    return secure->cipher == PCCL_RECORD_AES_128_GCM ? "AES-128-GCM" : "ChaCha20-Poly1305";
}

bool pccl_secure_shown(const struct pccl_secure *secure, uint8_t key[PCCL_PUBLIC_BYTES])
{
    memcpy(key, secure->shown, sizeof secure->shown);
    return secure->has_shown;
}

bool pccl_secure_has_failed(const struct pccl_secure *secure) { return secure->state >= FAILED; }
const char *pccl_secure_why(const struct pccl_secure *secure) { return secure->why.bytes; }
bool pccl_secure_is_revoked(const struct pccl_secure *secure) { return secure->revoked; }
