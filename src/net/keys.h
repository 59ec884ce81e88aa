/*
 * Keys and identities with which a master or a peer secures its connections: derived from the join token, the master's
 * key and the tickets (core/ticket.h), or from certificates in files. Constant once connections use them, except for
 * pccl_keys_set_open_links and the effect of pccl_keys_reload, so several threads and connections may share them.
 *
 * A control connection is TLS 1.3 with two Ed25519 keys: the master's own, which the token pins, and one that is
 * derived from the token's secret and identifies the peer. So a stranger gets no further than the TLS handshake, and
 * the secret is never sent. A connection between peers is TLS 1.3 with an external pre-shared key and a Diffie-Hellman
 * exchange. The key is derived from the ticket, which the master gave to exactly these two ends: one client and one
 * server that never switch roles (RFC 9257, 4 and 6). A probe, which the master sends, has a ticket from the id 0.
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
 * Creates the keys of a master, or of a peer. Returns NULL, with a reason, if this host has no OpenSSL 3 or if out of
 * memory. The secrets are copied. All users of the keys must end before the keys are destroyed.
 */
struct pccl_keys *pccl_keys_of_master(const struct pccl_memory *memory, const struct pccl_secret *key,
                                      struct pccl_text *reason);
struct pccl_keys *pccl_keys_of_peer(const struct pccl_memory *memory, const struct pccl_token *token,
                                    struct pccl_text *reason);
/*
 * Creates keys with certificates in files in place of a token; links use tickets in any case. Returns NULL as above, or
 * if a file cannot be used.
 */
struct pccl_keys *pccl_keys_of_files(const struct pccl_memory *memory, const struct pccl_pem *pem,
                                     enum pccl_certificate_use use, struct pccl_text *reason);
bool pccl_keys_has_files(const struct pccl_keys *keys);
/* Returns true for a peer whose token was derived from a pre-shared secret. */
bool pccl_keys_is_shared(const struct pccl_keys *keys);
/*
 * Reads the certificate files again, if any, for later control connections. Call only on the thread that creates these.
 * Returns false, with a reason, on failure; the previous certificates then stay in use.
 */
PCCL_MUST_CHECK bool pccl_keys_reload(struct pccl_keys *keys, struct pccl_text *reason);
/* Writes the fingerprint of this side's certificate, for people who compare it and for pccl_keys_of_visitor. */
void pccl_keys_fingerprint(const struct pccl_keys *keys, char text[PCCL_FINGERPRINT_TEXT + 1]);
/*
 * Creates the keys of a client of a master's HTTP, which identifies the master by the fingerprint or, if that is "", by
 * the authority in the file (net/certificates.h). Returns NULL as above.
 */
struct pccl_keys *pccl_keys_of_visitor(const struct pccl_memory *memory, const char *host, const char *authority,
                                       const char *fingerprint, struct pccl_text *reason);
void pccl_keys_destroy(struct pccl_keys *keys); /* NULL is allowed */

/* Computes the pin of a master's key, for its tokens. Returns false, with a reason, as above. */
PCCL_MUST_CHECK bool pccl_keys_pin(const struct pccl_secret *key, uint8_t pin[PCCL_PIN_BYTES],
                                   struct pccl_text *reason);
/*
 * Computes the public key by which a master recognizes the holder of this token secret. Returns false, with a reason,
 * as above.
 */
PCCL_MUST_CHECK bool pccl_keys_public(const struct pccl_secret *secret, uint8_t key[PCCL_PUBLIC_BYTES],
                                      struct pccl_text *reason);

/*
 * Derives the master's key and the run's token from a pre-shared secret, as all processes of the run do. A holder of
 * the secret can act as the master. Returns false, with a reason, as above.
 */
PCCL_MUST_CHECK bool pccl_keys_of_shared(const char *secret, size_t length, struct pccl_secret *key,
                                         struct pccl_token *token, struct pccl_text *reason);

/* A master's verdict on a public key that a client has shown. */
enum pccl_keys_verdict { PCCL_KEYS_UNKNOWN, PCCL_KEYS_GOOD, PCCL_KEYS_REVOKED };
/*
 * Sets the judge of a master. Call before a peer dials it; without a judge it accepts no peer. Called while an accepted
 * connection is read.
 */
void pccl_keys_set_judge(struct pccl_keys *keys,
                         enum pccl_keys_verdict (*judge)(void *context, const uint8_t key[PCCL_PUBLIC_BYTES]),
                         void *context);

/*
 * Sets the function that finds the ticket with which `from` may dial `to`, and returns false if `to` is not this peer.
 * Call before this peer is dialed. Called while an accepted connection is read.
 */
void pccl_keys_set_tickets(struct pccl_keys *keys,
                           bool (*ticket)(void *context, const struct pccl_id *from, const struct pccl_id *to,
                                          struct pccl_id *ticket),
                           void *context);
/*
 * Sets whether links continue without encryption after their handshake, as the master decides; initially false. Both
 * ends of a link must agree, or their handshake fails. Any thread.
 */
void pccl_keys_set_open_links(struct pccl_keys *keys, bool open);
/* Sets the time after which dialed connections renew their keys (net/renewal.h); 0, the initial value: never. */
void pccl_keys_set_renewal(struct pccl_keys *keys, uint32_t renewal_ms);
/*
 * Overrides whether this processor has AES instructions, for tests: a connection uses AES-128-GCM if both ends have
 * them, else ChaCha20-Poly1305. Call before any connection. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_keys_set_aes(struct pccl_keys *keys, bool has_aes);
/* Returns the name and version of the loaded OpenSSL, for the log. */
const char *pccl_keys_library(const struct pccl_keys *keys);

/* ---- for net/secure ---- */

/* The name of a link's key, which the ends of the link exchange. */
struct pccl_key_name {
    struct pccl_id from, to;
    bool probe;
    bool open; /* the link continues without encryption after the handshake */
};

enum { PCCL_KEY_NAME_BYTES = 6 + 2 + 32 + 1 + 32 };

/* Derives the pre-shared key of a link. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_keys_of_link(const struct pccl_keys *keys, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket, struct pccl_secret *out);

/*
 * The key of one link. The link's SSL object refers to it (index 0), for the callbacks in which OpenSSL requests the
 * key.
 */
struct pccl_link_key {
    const struct pccl_keys *keys;
    struct pccl_key_name name;             /* accepted links: known once the other side has sent it */
    struct pccl_id ticket;                 /* dialed links only */
    uint8_t identity[PCCL_KEY_NAME_BYTES]; /* the name as sent */
};

/*
 * Creates the SSL object of a connection and initializes `key`, which must outlive it. name, ticket: for a dialed link,
 * else NULL. Returns NULL if out of memory.
 */
struct ssl_st *pccl_keys_make_ssl(const struct pccl_keys *keys, bool is_link, const struct pccl_key_name *name,
                                  const struct pccl_id *ticket, struct pccl_link_key *key);

/*
 * Derives the key of a knock (net/knock.h). identity: the link's, or NULL for a control connection. ticket: for a
 * dialed link; with NULL, it is searched by the identity. Returns false if there is no such key, or if out of memory.
 */
PCCL_MUST_CHECK bool pccl_keys_of_knock(const struct pccl_keys *keys, const uint8_t *identity,
                                        const struct pccl_id *ticket, struct pccl_secret *out);

/* Copies the public key that the other side has shown. Returns false if it has shown none. */
PCCL_MUST_CHECK bool pccl_keys_shown(const struct pccl_keys *keys, const struct ssl_st *ssl,
                                     uint8_t key[PCCL_PUBLIC_BYTES]);
bool pccl_keys_open_links(const struct pccl_keys *keys);
uint32_t pccl_keys_renewal_ms(const struct pccl_keys *keys);

#endif
