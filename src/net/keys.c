#include "net/keys.h"

#include "os/cpu.h"

#include <stdatomic.h>
#include <string.h>

enum {
    CERTIFICATES_BYTES_MAX = 2048, /* limit for a certificate; one that only contains a key has about 200 bytes */
};

struct pccl_keys {
    const struct pccl_memory *memory;
    const struct pccl_openssl *openssl;
    struct ssl_ctx_st *control, *links;
    bool is_master, has_files, is_shared;
    struct pccl_pem pem;                         /* only with has_files */
    enum pccl_certificate_use use;               /* only with has_files */
    char fingerprint[PCCL_FINGERPRINT_TEXT + 1]; /* a visitor's pinned fingerprint; if "", authorities are checked */
    uint8_t pin[PCCL_PIN_BYTES];                 /* only with a token */
    enum pccl_keys_verdict (*judge)(void *context, const uint8_t key[PCCL_PUBLIC_BYTES]); /* only at a master */
    void *judge_context;
    bool (*ticket)(void *context, const struct pccl_id *from, const struct pccl_id *to, struct pccl_id *ticket);
    void *ticket_context;
    uint32_t renewal_ms;
    _Atomic bool open_links;
};

const char *pccl_keys_library(const struct pccl_keys *keys) { return keys->openssl->OpenSSL_version(0); }

bool pccl_keys_has_files(const struct pccl_keys *keys) { return keys->has_files; }

bool pccl_keys_is_shared(const struct pccl_keys *keys) { return keys->is_shared; }

bool pccl_keys_open_links(const struct pccl_keys *keys) { return atomic_load(&keys->open_links); }

void pccl_keys_set_open_links(struct pccl_keys *keys, bool open) { atomic_store(&keys->open_links, open); }

uint32_t pccl_keys_renewal_ms(const struct pccl_keys *keys) { return keys->renewal_ms; }

void pccl_keys_set_renewal(struct pccl_keys *keys, uint32_t renewal_ms) { keys->renewal_ms = renewal_ms; }

void pccl_keys_set_tickets(struct pccl_keys *keys,
                           bool (*ticket)(void *context, const struct pccl_id *from, const struct pccl_id *to,
                                          struct pccl_id *ticket),
                           void *context)
{
    keys->ticket = ticket;
    keys->ticket_context = context;
}

void pccl_keys_set_judge(struct pccl_keys *keys,
                         enum pccl_keys_verdict (*judge)(void *context, const uint8_t key[PCCL_PUBLIC_BYTES]),
                         void *context)
{
    keys->judge = judge;
    keys->judge_context = context;
}

/* ---- key derivation: HMAC-SHA-256, with a label for each purpose ---- */

/* Derives a key from another one, for the purpose given by the label. Returns false if out of memory. */
static bool derive(const struct pccl_openssl *openssl, const void *key, size_t key_bytes, const char *label,
                   const void *more, size_t more_bytes, struct pccl_secret *out)
{
    uint8_t input[32 + 2 * sizeof(struct pccl_id)];
    size_t length = strlen(label) + 1;
    PCCL_ASSERT(length + more_bytes <= sizeof input);
    memcpy(input, label, length);
    if (more_bytes)
        memcpy(input + length, more, more_bytes);
    return openssl->HMAC(openssl->EVP_sha256(), key, (int)key_bytes, input, length + more_bytes, out->bytes, NULL);
}

static bool of_ticket(const struct pccl_keys *keys, const struct pccl_key_name *name, const struct pccl_id *ticket,
                      const char *label, struct pccl_secret *out)
{
    struct pccl_id ends[2] = {name->from, name->to};
    return derive(keys->openssl, ticket->bytes, sizeof ticket->bytes, label, ends, sizeof ends, out);
}

bool pccl_keys_of_link(const struct pccl_keys *keys, const struct pccl_key_name *name, const struct pccl_id *ticket,
                       struct pccl_secret *out)
{
    return of_ticket(keys, name, ticket, name->probe ? "pccl probe 1" : "pccl link 1", out);
}

/* Finds the ticket of an accepted link. Returns false if there is no key with this name. */
static bool find_ticket(const struct pccl_keys *keys, const struct pccl_key_name *name, struct pccl_id *ticket)
{
    return keys->ticket && (name->probe || name->open == pccl_keys_open_links(keys)) &&
           keys->ticket(keys->ticket_context, &name->from, &name->to, ticket);
}

/* ---- keys of links, and their names ---- */

static const char name_prefix[] = "pccl1 ";

static void write_name(const struct pccl_key_name *name, uint8_t out[PCCL_KEY_NAME_BYTES])
{
    memcpy(out, name_prefix, sizeof name_prefix - 1);
    out += sizeof name_prefix - 1;
    *out++ = name->probe ? 'p' : 'l';
    *out++ = name->open ? 'o' : 's';
    pccl_id_write(&name->from, (char *)out, 32);
    out[32] = '-';
    pccl_id_write(&name->to, (char *)out + 33, 32);
}

static bool read_name(const uint8_t *bytes, size_t length, struct pccl_key_name *name)
{
    const char *text = (const char *)bytes + sizeof name_prefix - 1;
    if (length != PCCL_KEY_NAME_BYTES || memcmp(bytes, name_prefix, sizeof name_prefix - 1) != 0 ||
        !pccl_id_read(text + 2, 32, &name->from) || !pccl_id_read(text + 35, 32, &name->to))
        return false;
    name->probe = text[0] == 'p';
    name->open = text[1] == 'o';
    uint8_t again[PCCL_KEY_NAME_BYTES]; /* verifies that the text is the only valid one for its name */
    write_name(name, again);
    return memcmp(again, bytes, length) == 0;
}

bool pccl_keys_of_knock(const struct pccl_keys *keys, const uint8_t *identity, const struct pccl_id *ticket,
                        struct pccl_secret *out)
{
    static const char label[] = "pccl knock 1";
    struct pccl_key_name name;
    struct pccl_id found = {{0}};
    if (!identity)
        return !keys->has_files && derive(keys->openssl, keys->pin, sizeof keys->pin, label, NULL, 0, out);
    bool good = read_name(identity, PCCL_KEY_NAME_BYTES, &name) && (ticket || find_ticket(keys, &name, &found)) &&
                of_ticket(keys, &name, ticket ? ticket : &found, label, out);
    pccl_wipe(&found, sizeof found);
    return good;
}

struct ssl_st *pccl_keys_make_ssl(const struct pccl_keys *keys, bool is_link, const struct pccl_key_name *name,
                                  const struct pccl_id *ticket, struct pccl_link_key *key)
{
    *key = (struct pccl_link_key){.keys = keys};
    if (name) {
        key->name = *name;
        key->ticket = *ticket;
        write_name(name, key->identity);
    }
    struct ssl_st *ssl = keys->openssl->SSL_new(is_link ? keys->links : keys->control);
    if (ssl && keys->openssl->SSL_set_ex_data(ssl, 0, key))
        return ssl;
    keys->openssl->SSL_free(ssl);
    return NULL;
}

static struct ssl_session_st *session_of(const struct pccl_openssl *openssl, struct ssl_st *ssl,
                                         const struct pccl_secret *key)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01}; /* works with all ciphers that use SHA-256 */
    struct ssl_session_st *session = openssl->SSL_SESSION_new();
    const struct ssl_cipher_st *cipher = openssl->SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    if (session && cipher && openssl->SSL_SESSION_set1_master_key(session, key->bytes, sizeof key->bytes) &&
        openssl->SSL_SESSION_set_cipher(session, cipher) &&
        openssl->SSL_SESSION_set_protocol_version(session, PCCL_TLS1_3_VERSION))
        return session;
    openssl->SSL_SESSION_free(session);
    return NULL;
}

/* Called by OpenSSL for the key of a dialed link. */
static int offer_key(struct ssl_st *ssl, const struct evp_md_st *digest, const unsigned char **identity,
                     size_t *identity_bytes, struct ssl_session_st **session)
{
    /* Only SSL objects created by net/secure have these callbacks, so index 0 is set. */
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    const struct pccl_link_key *link = openssl->SSL_get_ex_data(ssl, 0);
    struct pccl_secret key;
    (void)digest;
    *session = NULL;
    if (!pccl_keys_of_link(link->keys, &link->name, &link->ticket, &key))
        return 0;
    *session = session_of(openssl, ssl, &key);
    pccl_wipe(&key, sizeof key);
    *identity = link->identity;
    *identity_bytes = sizeof link->identity;
    return *session != NULL;
}

/* Called by OpenSSL for the key of an accepted link. */
static int find_key(struct ssl_st *ssl, const unsigned char *identity, size_t identity_bytes,
                    struct ssl_session_st **session)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    struct pccl_link_key *link = openssl->SSL_get_ex_data(ssl, 0);
    struct pccl_secret key;
    struct pccl_id ticket = {{0}};
    *session = NULL;
    bool found = read_name(identity, identity_bytes, &link->name) && find_ticket(link->keys, &link->name, &ticket) &&
                 pccl_keys_of_link(link->keys, &link->name, &ticket, &key);
    pccl_wipe(&ticket, sizeof ticket);
    if (!found)
        return 1; /* the handshake then fails for want of a key */
    *session = session_of(openssl, ssl, &key);
    pccl_wipe(&key, sizeof key);
    return *session != NULL;
}

/* ---- public keys ---- */

static bool public_of(const struct pccl_openssl *openssl, const struct evp_pkey_st *key, uint8_t out[PCCL_PUBLIC_BYTES])
{
    size_t length = PCCL_PUBLIC_BYTES;
    return key && openssl->EVP_PKEY_get_id(key) == PCCL_EVP_PKEY_ED25519 &&
           openssl->EVP_PKEY_get_raw_public_key(key, out, &length) && length == PCCL_PUBLIC_BYTES;
}

static bool pin_of(const struct pccl_openssl *openssl, const uint8_t public[PCCL_PUBLIC_BYTES],
                   uint8_t pin[PCCL_PIN_BYTES])
{
    static const char label[] = "pccl master 1";
    struct pccl_secret digest;
    if (!openssl->HMAC(openssl->EVP_sha256(), label, (int)sizeof label, public, PCCL_PUBLIC_BYTES, digest.bytes, NULL))
        return false;
    memcpy(pin, digest.bytes, PCCL_PIN_BYTES);
    return true;
}

/*
 * Replaces the verification of certificate chains. Here certificates are only containers of keys, and their issuer,
 * subject and dates are ignored. The handshake proves that the other side has the private key.
 */
static int verify(struct x509_store_ctx_st *context, void *argument)
{
    const struct pccl_keys *keys = argument;
    const struct pccl_openssl *openssl = keys->openssl;
    const struct x509_st *certificate = openssl->X509_STORE_CTX_get0_cert(context);
    enum pccl_keys_verdict verdict = PCCL_KEYS_UNKNOWN;
    uint8_t public[PCCL_PUBLIC_BYTES], pin[PCCL_PIN_BYTES];
    bool readable = certificate && public_of(openssl, openssl->X509_get0_pubkey(certificate), public);
    if (readable && keys->judge)
        verdict = keys->judge(keys->judge_context, public);
    else if (readable && !keys->is_master && pin_of(openssl, public, pin) &&
             openssl->CRYPTO_memcmp(pin, keys->pin, sizeof pin) == 0)
        verdict = PCCL_KEYS_GOOD;
    if (verdict == PCCL_KEYS_GOOD)
        return 1;
    openssl->X509_STORE_CTX_set_error(context, verdict == PCCL_KEYS_REVOKED ? PCCL_X509_V_ERR_CERT_REVOKED
                                                                            : PCCL_X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* Rejects all certificates. For links, which use none. */
static int verify_nothing(struct x509_store_ctx_st *context, void *argument)
{
    const struct pccl_keys *keys = argument;
    keys->openssl->X509_STORE_CTX_set_error(context, PCCL_X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* ---- contexts ---- */

/* Sets the order of ciphers. The client's order applies, unless the server has no fast AES. */
static bool set_ciphers(const struct pccl_openssl *openssl, struct ssl_ctx_st *context, bool has_aes)
{
    if (!has_aes)
        (void)openssl->SSL_CTX_set_options(context, PCCL_SSL_OP_CIPHER_SERVER_PREFERENCE);
    return openssl->SSL_CTX_set_ciphersuites(context, has_aes ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                                              : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
}

bool pccl_keys_set_aes(struct pccl_keys *keys, bool has_aes)
{
    return set_ciphers(keys->openssl, keys->control, has_aes) && set_ciphers(keys->openssl, keys->links, has_aes);
}

static struct ssl_ctx_st *make_context(const struct pccl_openssl *openssl)
{
    struct ssl_ctx_st *context = openssl->SSL_CTX_new(openssl->TLS_method());
    if (!context)
        return NULL;
    (void)openssl->SSL_CTX_set_options(context, PCCL_SSL_OP_NO_TICKET);
    (void)openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_MODE,
                                PCCL_SSL_MODE_ENABLE_PARTIAL_WRITE | PCCL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                    PCCL_SSL_MODE_RELEASE_BUFFERS,
                                NULL);
    /*
     * Makes SSL_read return after each KeyUpdate. Otherwise a stream of KeyUpdates would keep one read busy, and the
     * loop would serve nothing else.
     */
    (void)openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_CLEAR_MODE, PCCL_SSL_MODE_AUTO_RETRY, NULL);
    (void)openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_SET_SESS_CACHE_MODE, 0, NULL);
    if (openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_SET_MIN_PROTO_VERSION, PCCL_TLS1_3_VERSION, NULL) &&
        openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_SET_MAX_PROTO_VERSION, PCCL_TLS1_3_VERSION, NULL) &&
        set_ciphers(openssl, context, pccl_cpu_has_aes()) && openssl->SSL_CTX_set_num_tickets(context, 0))
        return context;
    openssl->SSL_CTX_free(context);
    return NULL;
}

/* Creates a certificate that only contains the key. */
static struct x509_st *make_certificate(const struct pccl_openssl *openssl, struct evp_pkey_st *key)
{
    struct x509_st *certificate = openssl->X509_new();
    if (certificate && openssl->X509_set_version(certificate, 2) &&
        openssl->ASN1_INTEGER_set(openssl->X509_get_serialNumber(certificate), 1) &&
        openssl->ASN1_TIME_set_string_X509(openssl->X509_getm_notBefore(certificate), "20000101000000Z") &&
        openssl->ASN1_TIME_set_string_X509(openssl->X509_getm_notAfter(certificate), "99991231235959Z") &&
        openssl->X509_set_pubkey(certificate, key) && openssl->X509_sign(certificate, key, NULL))
        return certificate;
    openssl->X509_free(certificate);
    return NULL;
}

static struct ssl_ctx_st *make_control(struct pccl_keys *keys, struct evp_pkey_st *own)
{
    const struct pccl_openssl *openssl = keys->openssl;
    struct ssl_ctx_st *context = make_context(openssl);
    struct x509_st *certificate = make_certificate(openssl, own);
    if (context)
        (void)openssl->SSL_CTX_ctrl(context, PCCL_SSL_CTRL_SET_MAX_CERT_LIST, CERTIFICATES_BYTES_MAX, NULL);
    bool good = context && certificate && openssl->SSL_CTX_use_certificate(context, certificate) == 1 &&
                openssl->SSL_CTX_use_PrivateKey(context, own) == 1;
    openssl->X509_free(certificate);
    if (good) {
        openssl->SSL_CTX_set_verify(context, PCCL_SSL_VERIFY_PEER | PCCL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        openssl->SSL_CTX_set_cert_verify_callback(context, verify, keys);
        return context;
    }
    openssl->SSL_CTX_free(context);
    return NULL;
}

static struct ssl_ctx_st *make_links(struct pccl_keys *keys)
{
    const struct pccl_openssl *openssl = keys->openssl;
    struct ssl_ctx_st *context = make_context(openssl);
    if (!context)
        return NULL;
    openssl->SSL_CTX_set_verify(context, PCCL_SSL_VERIFY_PEER | PCCL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    openssl->SSL_CTX_set_cert_verify_callback(context, verify_nothing, keys);
    openssl->SSL_CTX_set_psk_use_session_callback(context, offer_key);
    openssl->SSL_CTX_set_psk_find_session_callback(context, find_key);
    return context;
}

/*
 * Creates a private key through PKCS #8 (RFC 8410, 7), because OpenSSL then copies it to its secure heap, which it does
 * not do for raw bytes.
 */
static struct evp_pkey_st *private_of(const struct pccl_openssl *openssl, const struct pccl_secret *key)
{
    static const uint8_t head[] = {0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20};
    uint8_t encoded[sizeof head + sizeof key->bytes];
    const unsigned char *at = encoded;
    memcpy(encoded, head, sizeof head);
    memcpy(encoded + sizeof head, key->bytes, sizeof key->bytes);
    struct evp_pkey_st *private = openssl->d2i_PrivateKey(PCCL_EVP_PKEY_ED25519, NULL, &at, sizeof encoded);
    pccl_wipe(encoded, sizeof encoded);
    return private;
}

/* Derives the key pair of a token's secret. Returns NULL if out of memory. */
static struct evp_pkey_st *pair_of_token(const struct pccl_openssl *openssl, const struct pccl_secret *secret)
{
    struct pccl_secret client;
    bool good = derive(openssl, secret->bytes, sizeof secret->bytes, "pccl client 1", NULL, 0, &client);
    struct evp_pkey_st *pair = good ? private_of(openssl, &client) : NULL;
    pccl_wipe(&client, sizeof client);
    return pair;
}

static const char cannot_encrypt[] =
    "cannot set up encryption: out of memory, or OpenSSL on this host does not allow a required algorithm";

static struct pccl_keys *allocate(const struct pccl_memory *memory, struct pccl_text *reason)
{
    const struct pccl_openssl *openssl = pccl_openssl(reason);
    struct pccl_keys *keys = openssl ? pccl_allocate(memory, sizeof *keys) : NULL;
    if (openssl)
        pccl_text_format(reason, "%s", cannot_encrypt);
    if (!keys)
        return NULL;
    keys->memory = memory;
    keys->openssl = openssl;
    return keys;
}

/* Creates keys from a master's key or from a token. */
static struct pccl_keys *create(const struct pccl_memory *memory, const struct pccl_secret *key,
                                const struct pccl_token *token, struct pccl_text *reason)
{
    struct pccl_keys *keys = allocate(memory, reason);
    if (!keys)
        return NULL;
    const struct pccl_openssl *openssl = keys->openssl;
    keys->is_master = key != NULL;
    struct evp_pkey_st *own = key ? private_of(openssl, key) : pair_of_token(openssl, &token->secret);
    uint8_t public[PCCL_PUBLIC_BYTES];
    if (token)
        memcpy(keys->pin, token->pin, sizeof keys->pin);
    if (own && (token || (public_of(openssl, own, public) && pin_of(openssl, public, keys->pin)))) {
        keys->control = make_control(keys, own);
        keys->links = make_links(keys);
    }
    openssl->EVP_PKEY_free(own);
    if (keys->control && keys->links)
        return keys;
    pccl_keys_destroy(keys);
    return NULL;
}

struct pccl_keys *pccl_keys_of_master(const struct pccl_memory *memory, const struct pccl_secret *key,
                                      struct pccl_text *reason)
{
    return create(memory, key, NULL, reason);
}

struct pccl_keys *pccl_keys_of_peer(const struct pccl_memory *memory, const struct pccl_token *token,
                                    struct pccl_text *reason)
{
    struct pccl_keys *keys = create(memory, NULL, token, reason);
    if (keys)
        keys->is_shared = token->shared;
    return keys;
}

/* ---- keys from certificate files ---- */

bool pccl_keys_reload(struct pccl_keys *keys, struct pccl_text *reason)
{
    if (!keys->has_files)
        return true;
    struct ssl_ctx_st *context = make_context(keys->openssl);
    if (!context) {
        pccl_text_format(reason, "%s", cannot_encrypt);
        return false;
    }
    if (!pccl_certificates_load(keys->openssl, context, &keys->pem, keys->use, reason)) {
        keys->openssl->SSL_CTX_free(context);
        return false;
    }
    keys->openssl->SSL_CTX_free(keys->control); /* open connections have their own references */
    keys->control = context;
    return true;
}

struct pccl_keys *pccl_keys_of_files(const struct pccl_memory *memory, const struct pccl_pem *pem,
                                     enum pccl_certificate_use use, struct pccl_text *reason)
{
    struct pccl_keys *keys = allocate(memory, reason);
    if (!keys)
        return NULL;
    keys->has_files = true;
    keys->pem = *pem;
    keys->use = use;
    keys->is_master = use != PCCL_CERTIFICATE_OF_PEER;
    keys->links = make_links(keys);
    if (keys->links && pccl_keys_reload(keys, reason))
        return keys;
    pccl_keys_destroy(keys);
    return NULL;
}

void pccl_keys_fingerprint(const struct pccl_keys *keys, char text[PCCL_FINGERPRINT_TEXT + 1])
{
    pccl_certificates_fingerprint(keys->openssl, keys->openssl->SSL_CTX_get0_certificate(keys->control), text);
}

/* Replaces the verification of certificate chains. Identifies the certificate by its fingerprint. */
static int verify_fingerprint(struct x509_store_ctx_st *context, void *argument)
{
    const struct pccl_keys *keys = argument;
    char shown[PCCL_FINGERPRINT_TEXT + 1];
    pccl_certificates_fingerprint(keys->openssl, keys->openssl->X509_STORE_CTX_get0_cert(context), shown);
    if (strcmp(shown, keys->fingerprint) == 0)
        return 1;
    keys->openssl->X509_STORE_CTX_set_error(context, PCCL_X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

struct pccl_keys *pccl_keys_of_visitor(const struct pccl_memory *memory, const char *host, const char *authority,
                                       const char *fingerprint, struct pccl_text *reason)
{
    struct pccl_keys *keys = allocate(memory, reason);
    if (!keys)
        return NULL;
    PCCL_ASSERT(strlen(fingerprint) < sizeof keys->fingerprint);
    memcpy(keys->fingerprint, fingerprint, strlen(fingerprint) + 1);
    keys->control = make_context(keys->openssl);
    bool good = keys->control != NULL;
    if (good && fingerprint[0]) {
        keys->openssl->SSL_CTX_set_verify(keys->control, PCCL_SSL_VERIFY_PEER, NULL);
        keys->openssl->SSL_CTX_set_cert_verify_callback(keys->control, verify_fingerprint, keys);
    } else if (good) {
        good = pccl_certificates_expect(keys->openssl, keys->control, host, authority, reason);
    }
    if (good)
        return keys;
    pccl_keys_destroy(keys);
    return NULL;
}

void pccl_keys_destroy(struct pccl_keys *keys)
{
    if (!keys)
        return;
    keys->openssl->SSL_CTX_free(keys->control);
    keys->openssl->SSL_CTX_free(keys->links);
    const struct pccl_memory *memory = keys->memory;
    pccl_wipe(keys, sizeof *keys);
    pccl_release(memory, keys, sizeof *keys);
}

bool pccl_keys_pin(const struct pccl_secret *key, uint8_t pin[PCCL_PIN_BYTES], struct pccl_text *reason)
{
    const struct pccl_openssl *openssl = pccl_openssl(reason);
    if (!openssl)
        return false;
    uint8_t public[PCCL_PUBLIC_BYTES];
    struct evp_pkey_st *private = private_of(openssl, key);
    bool good = public_of(openssl, private, public) && pin_of(openssl, public, pin);
    openssl->EVP_PKEY_free(private);
    if (!good)
        pccl_text_format(reason, "%s", cannot_encrypt);
    return good;
}

bool pccl_keys_public(const struct pccl_secret *secret, uint8_t key[PCCL_PUBLIC_BYTES], struct pccl_text *reason)
{
    const struct pccl_openssl *openssl = pccl_openssl(reason);
    if (!openssl)
        return false;
    struct evp_pkey_st *pair = pair_of_token(openssl, secret);
    bool good = public_of(openssl, pair, key);
    openssl->EVP_PKEY_free(pair);
    if (!good)
        pccl_text_format(reason, "%s", cannot_encrypt);
    return good;
}

/*
 * Makes guessing expensive, because a stranger who has seen a knock or the master's certificate can try secrets
 * offline. The salt is fixed, because master and peers have only the secret in common.
 */
static bool stretch(const struct pccl_openssl *openssl, const char *secret, size_t length, struct pccl_secret *out)
{
    static const unsigned char salt[] = "pccl shared secret 2";
    enum { COST = 1 << 15, BLOCK_SIZE = 8, PARALLEL = 1, MEMORY_MAX = 64 << 20 }; /* takes 32 MiB and about 0.1 s */
    return openssl->EVP_PBE_scrypt(secret, length, salt, sizeof salt - 1, COST, BLOCK_SIZE, PARALLEL, MEMORY_MAX,
                                   out->bytes, sizeof out->bytes) == 1;
}

bool pccl_keys_of_shared(const char *secret, size_t length, struct pccl_secret *key, struct pccl_token *token,
                         struct pccl_text *reason)
{
    const struct pccl_openssl *openssl = pccl_openssl(reason);
    struct pccl_secret slow;
    if (!openssl)
        return false;
    if (!stretch(openssl, secret, length, &slow)) {
        pccl_text_format(
            reason,
            "cannot use the pre-shared secret: OpenSSL on this host lacks memory for scrypt or does not allow it");
        return false;
    }
    bool derived = derive(openssl, slow.bytes, sizeof slow.bytes, "pccl shared master 2", NULL, 0, key) &&
                   derive(openssl, slow.bytes, sizeof slow.bytes, "pccl shared token 2", NULL, 0, &token->secret);
    pccl_wipe(&slow, sizeof slow);
    if (derived)
        return pccl_keys_pin(key, token->pin, reason);
    pccl_text_format(reason, "%s", cannot_encrypt);
    return false;
}

bool pccl_keys_shown(const struct pccl_keys *keys, const struct ssl_st *ssl, uint8_t key[PCCL_PUBLIC_BYTES])
{
    const struct x509_st *certificate = keys->openssl->SSL_get0_peer_certificate(ssl);
    return certificate && public_of(keys->openssl, keys->openssl->X509_get0_pubkey(certificate), key);
}
