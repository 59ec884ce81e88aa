/*
 * Keys and identities with which a master or a peer secures its connections. They are derived from the join token, the
 * master's key and the tickets (core/ticket.h), or read from certificates in files. Several threads and connections may
 * share them, because they are constant once connections use them, except for pccl_keys_set_open_links and
 * pccl_keys_reload.
 *
 * A control connection uses TLS 1.3 with two Ed25519 keys: the master's, which the token pins, and one that is derived
 * from the token's secret and identifies the peer. A stranger therefore gets no further than the TLS handshake, and the
 * secret itself is never sent. A connection between peers uses TLS 1.3 with an external pre-shared key and a
 * Diffie-Hellman exchange. The pre-shared key is derived from the ticket that the master gave to exactly these two
 * ends, a client and a server that never switch roles (RFC 9257, 4 and 6). For probes by the master, the ticket has 0
 * as the id of the dialing side.
 */
#ifndef PCCL_NET_KEYS_H
#define PCCL_NET_KEYS_H

#include "core/id.h"
#include "core/memory.h"
#include "core/text.h"
#include "core/token.h"
#include "net/certificates.h"

struct pccl_keys;

/*
 * Creates the keys of a master, or of a peer, and copies the secrets. Returns NULL with a reason if this host has no
 * OpenSSL 3, or if out of memory. The keys must outlive all their users.
 */
struct pccl_keys *pccl_keys_of_master(const struct pccl_memory *memory, const struct pccl_secret *key,
                                      struct pccl_text *reason);
struct pccl_keys *pccl_keys_of_peer(const struct pccl_memory *memory, const struct pccl_token *token,
                                    struct pccl_text *reason);
/*
 * Creates keys from certificates in files instead of a token. Links use tickets in any case. Returns NULL as above, or
 * if a file cannot be used.
 */
struct pccl_keys *pccl_keys_of_files(const struct pccl_memory *memory, const struct pccl_pem *pem,
                                     enum pccl_certificate_use use, struct pccl_text *reason);
bool pccl_keys_has_files(const struct pccl_keys *keys);
/* Returns true for a peer whose token was derived from a pre-shared secret. */
bool pccl_keys_is_shared(const struct pccl_keys *keys);
/*
 * Reloads the certificate files, if there are any, for later control connections. Call only on the thread that creates
 * these. Returns false with a reason on failure; the previous certificates then stay in use.
 */
PCCL_MUST_CHECK bool pccl_keys_reload(struct pccl_keys *keys, struct pccl_text *reason);
/* Writes the fingerprint of this side's certificate, for users to compare and for pccl_keys_of_visitor. */
void pccl_keys_fingerprint(const struct pccl_keys *keys, char text[PCCL_FINGERPRINT_TEXT + 1]);
/*
 * Creates the keys of an HTTP client of a master. It identifies the master by the fingerprint or, if that is "", by the
 * authority in the file (net/certificates.h). Returns NULL as above.
 */
struct pccl_keys *pccl_keys_of_visitor(const struct pccl_memory *memory, const char *host, const char *authority,
                                       const char *fingerprint, struct pccl_text *reason);
void pccl_keys_destroy(struct pccl_keys *keys); /* `keys` may be NULL */

/* Computes the pin of a master's key, for its tokens. Returns false with a reason, as above. */
PCCL_MUST_CHECK bool pccl_keys_pin(const struct pccl_secret *key, uint8_t pin[PCCL_PIN_BYTES],
                                   struct pccl_text *reason);
/*
 * Computes the public key that identifies the holder of this token secret to a master. Returns false with a reason, as
 * above.
 */
PCCL_MUST_CHECK bool pccl_keys_public(const struct pccl_secret *secret, uint8_t key[PCCL_PUBLIC_BYTES],
                                      struct pccl_text *reason);

/*
 * Derives the master's key and the run's token from a pre-shared secret. All processes of the run do this, so any
 * holder of the secret can act as the master. Returns false with a reason, as above.
 */
PCCL_MUST_CHECK bool pccl_keys_of_shared(const char *secret, size_t length, struct pccl_secret *key,
                                         struct pccl_token *token, struct pccl_text *reason);

/* A master's verdict on the public key that a client has shown. */
enum pccl_keys_verdict { PCCL_KEYS_UNKNOWN, PCCL_KEYS_GOOD, PCCL_KEYS_REVOKED };
/*
 * Sets the function by which a master judges peers. Call before a peer dials; without a judge the master accepts no
 * peer. The judge is called while an accepted connection is read.
 */
void pccl_keys_set_judge(struct pccl_keys *keys,
                         enum pccl_keys_verdict (*judge)(void *context, const uint8_t key[PCCL_PUBLIC_BYTES]),
                         void *context);

/*
 * Sets the function that finds the ticket for links from `from` to `to`. It must return false if `to` is not this peer.
 * Call before this peer is dialed. The function is called while an accepted connection is read.
 */
void pccl_keys_set_tickets(struct pccl_keys *keys,
                           bool (*ticket)(void *context, const struct pccl_id *from, const struct pccl_id *to,
                                          struct pccl_id *ticket),
                           void *context);
/*
 * Sets whether links continue without encryption after their handshake, as the master decides. Initially false. The
 * handshake of a link fails unless both ends agree. Any thread.
 */
void pccl_keys_set_open_links(struct pccl_keys *keys, bool open);
/* Sets the interval at which dialed connections renew their keys (net/renewal.h). 0, the initial value, means never. */
void pccl_keys_set_renewal(struct pccl_keys *keys, uint32_t renewal_ms);
/*
 * Overrides the detection of AES instructions, for tests. A connection uses AES-128-GCM if both ends have them, and
 * ChaCha20-Poly1305 otherwise. Call before there are connections. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_keys_set_aes(struct pccl_keys *keys, bool has_aes);
/* Returns the name and version of the loaded OpenSSL, for the log. */
const char *pccl_keys_library(const struct pccl_keys *keys);

/* ---- for net/secure ---- */

/* The name of a link's key, which the two ends exchange. */
struct pccl_key_name {
    struct pccl_id from, to;
    bool probe;
    bool open; /* the link continues without encryption after its handshake */
};

enum { PCCL_KEY_NAME_BYTES = 6 + 2 + 32 + 1 + 32 };

/* Derives the pre-shared key of a link. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_keys_of_link(const struct pccl_keys *keys, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket, struct pccl_secret *out);

/*
 * The key of one link. The link's SSL object refers to it (at index 0) for the callbacks in which OpenSSL requests the
 * key.
 */
struct pccl_link_key {
    const struct pccl_keys *keys;
    struct pccl_key_name name;             /* accepted links: valid after the other side has sent it */
    struct pccl_id ticket;                 /* dialed links only */
    uint8_t identity[PCCL_KEY_NAME_BYTES]; /* the name in the form in which it is sent */
};

/*
 * Creates the SSL object of a connection, and initializes `key`, which must outlive it. name, ticket: for a dialed
 * link, otherwise NULL. Returns NULL if out of memory.
 */
struct ssl_st *pccl_keys_make_ssl(const struct pccl_keys *keys, bool is_link, const struct pccl_key_name *name,
                                  const struct pccl_id *ticket, struct pccl_link_key *key);

/*
 * Derives the key of a knock (net/knock.h). identity: the link's, or NULL for a control connection. ticket: the ticket
 * of a dialed link; if NULL, it is looked up by the identity. Returns false if there is no such key, or if out of
 * memory.
 */
PCCL_MUST_CHECK bool pccl_keys_of_knock(const struct pccl_keys *keys, const uint8_t *identity,
                                        const struct pccl_id *ticket, struct pccl_secret *out);

/* Copies the public key that the other side has shown. Returns false if there was none. */
PCCL_MUST_CHECK bool pccl_keys_shown(const struct pccl_keys *keys, const struct ssl_st *ssl,
                                     uint8_t key[PCCL_PUBLIC_BYTES]);
bool pccl_keys_open_links(const struct pccl_keys *keys);
uint32_t pccl_keys_renewal_ms(const struct pccl_keys *keys);

#endif
