/*
 * What a master or a peer needs to secure its connections: identities made of the join token, the
 * master's key and the tickets (core/ticket.h), or of certificates in files. Immutable but for one
 * switch and what pccl_keys_reload does, so any number of threads and connections may share it.
 *
 * A control connection is TLS 1.3 with two Ed25519 keys: the master's own, which the token pins,
 * and one that is made of the token's secret, with which the peer answers. So a stranger gets no
 * further than the TLS handshake, and the secret does not travel. A connection between peers is TLS
 * 1.3 with an external pre-shared key and a Diffie-Hellman exchange. The key is made of the ticket,
 * which the master gave to exactly these two ends: one client and one server that never switch roles
 * (RFC 9257, 4 and 6). A probe, which comes from the master, has a ticket from nobody (the id 0).
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
 * NULL, with a reason: this host has no OpenSSL 3, or memory is short. The secrets are copied.
 * What uses keys must end before they are destroyed.
 */
struct pccl_keys *pccl_keys_of_master(const struct pccl_memory *memory, const struct pccl_secret *key,
                                      struct pccl_text *reason);
struct pccl_keys *pccl_keys_of_peer(const struct pccl_memory *memory, const struct pccl_token *token,
                                    struct pccl_text *reason);
/*
 * The same of certificates in files, in the place of tokens; links have tickets as always. NULL, with a reason: also
 * if a file cannot be used.
 */
struct pccl_keys *pccl_keys_of_files(const struct pccl_memory *memory, const struct pccl_pem *pem,
                                     enum pccl_certificate_use use, struct pccl_text *reason);
bool pccl_keys_has_files(const struct pccl_keys *keys);
/* Returns true at a peer whose token was made of a pre-shared secret. */
bool pccl_keys_is_shared(const struct pccl_keys *keys);
/*
 * Reads the files again, if there are any, for later control connections. Only on the thread that makes these. false,
 * with a reason: what was read before stays.
 */
PCCL_MUST_CHECK bool pccl_keys_reload(struct pccl_keys *keys, struct pccl_text *reason);
/* Of the own certificate, for people who compare it, and for pccl_keys_of_visitor. */
void pccl_keys_fingerprint(const struct pccl_keys *keys, char text[PCCL_FINGERPRINT_TEXT + 1]);
/*
 * Of a client of a master's HTTP, which knows it by the fingerprint, or, if that is "", by the authority in the file
 * (net/certificates.h). NULL: as above.
 */
struct pccl_keys *pccl_keys_of_visitor(const struct pccl_memory *memory, const char *host, const char *authority,
                                       const char *fingerprint, struct pccl_text *reason);
void pccl_keys_destroy(struct pccl_keys *keys); /* NULL: none */

/* The pin of a master's key, for its tokens. false, with a reason: as above. */
PCCL_MUST_CHECK bool pccl_keys_pin(const struct pccl_secret *key, uint8_t pin[PCCL_PIN_BYTES],
                                   struct pccl_text *reason);
/* The public key by which a master knows who has this secret of a token. false, with a reason: as above. */
PCCL_MUST_CHECK bool pccl_keys_public(const struct pccl_secret *secret, uint8_t key[PCCL_PUBLIC_BYTES],
                                      struct pccl_text *reason);

/*
 * What all make of a pre-shared secret: the master's key and the run's token. Whoever has it may play the
 * master. false, with a reason: as above.
 */
PCCL_MUST_CHECK bool pccl_keys_of_shared(const char *secret, size_t length, struct pccl_secret *key,
                                         struct pccl_token *token, struct pccl_text *reason);

/* What a master thinks of the public key that somebody shows. */
enum pccl_keys_verdict { PCCL_KEYS_UNKNOWN, PCCL_KEYS_GOOD, PCCL_KEYS_REVOKED };
/* Before anybody dials this master; until then it takes nobody in. Called while an accepted connection is read. */
void pccl_keys_set_judge(struct pccl_keys *keys,
                         enum pccl_keys_verdict (*judge)(void *context, const uint8_t key[PCCL_PUBLIC_BYTES]),
                         void *context);

/*
 * Before anybody dials this peer: tells the ticket with which `from` may dial `to`; false: `to` is
 * not this peer. Called while a connection that was accepted is read.
 */
void pccl_keys_set_tickets(struct pccl_keys *keys,
                           bool (*ticket)(void *context, const struct pccl_id *from, const struct pccl_id *to,
                                          struct pccl_id *ticket),
                           void *context);
/*
 * Whether links go on in the clear after their handshake, as the master says; at first not. Both
 * ends of a link must agree, else their handshake fails. Any thread.
 */
void pccl_keys_set_open_links(struct pccl_keys *keys, bool open);
/* After this time connections that were dialed with the keys get new ones (net/renewal.h); 0, as at first: never. */
void pccl_keys_set_renewal(struct pccl_keys *keys, uint32_t renewal_ms);
/*
 * Whether this processor has instructions for AES, if not as found out: a connection is AES-128-GCM
 * where both ends have, else ChaCha20-Poly1305. Before any connection; for tests. false: out of
 * memory.
 */
PCCL_MUST_CHECK bool pccl_keys_set_aes(struct pccl_keys *keys, bool has_aes);
/* Name and version of the OpenSSL that was found, for the log. */
const char *pccl_keys_library(const struct pccl_keys *keys);

/* ---- for net/secure ---- */

/* What the ends of a link tell each other of its key. */
struct pccl_key_name {
    struct pccl_id from, to;
    bool probe;
    bool open; /* the link goes on in the clear after the handshake */
};

enum { PCCL_KEY_NAME_BYTES = 6 + 2 + 32 + 1 + 32 };

/* Makes the pre-shared key of a link. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_keys_of_link(const struct pccl_keys *keys, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket, struct pccl_secret *out);

/* The key of one link. Its SSL object carries it (index 0), for when OpenSSL asks for the key. */
struct pccl_link_key {
    const struct pccl_keys *keys;
    struct pccl_key_name name;             /* of an accepted link: known once the other side has named it */
    struct pccl_id ticket;                 /* of a dialed link */
    uint8_t identity[PCCL_KEY_NAME_BYTES]; /* the name as it travels */
};

/*
 * Makes the SSL object of a connection and initializes `key`, which must outlive it. name, ticket: of a dialed link;
 * NULL otherwise. Returns NULL if out of memory.
 */
struct ssl_st *pccl_keys_make_ssl(const struct pccl_keys *keys, bool is_link, const struct pccl_key_name *name,
                                  const struct pccl_id *ticket, struct pccl_link_key *key);

/*
 * Makes the key of a knock (net/knock.h). identity: of a link; NULL: of a control connection. ticket: of a link that is
 * dialed; NULL: it is found, or not. Returns false if there is no such key, or if out of memory.
 */
PCCL_MUST_CHECK bool pccl_keys_of_knock(const struct pccl_keys *keys, const uint8_t *identity,
                                        const struct pccl_id *ticket, struct pccl_secret *out);

/* The public key that the other side has shown. false: none. */
PCCL_MUST_CHECK bool pccl_keys_shown(const struct pccl_keys *keys, const struct ssl_st *ssl,
                                     uint8_t key[PCCL_PUBLIC_BYTES]);
bool pccl_keys_open_links(const struct pccl_keys *keys);
uint32_t pccl_keys_renewal_ms(const struct pccl_keys *keys);

#endif
