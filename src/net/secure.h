/*
 * The encryption of a connection, between its channel and its socket: first a TLS 1.3 handshake (net/keys.h has the
 * keys), then our records (net/record.h), or TLS records for HTTP. Only net/channel calls the functions that move
 * bytes. Sealed bytes that the kernel does not take are buffered here, so a write never blocks and never has to be
 * repeated.
 *
 * The first three bytes show whether the other side uses a different protocol, before anything is parsed. Both ends
 * then report this in their error messages.
 *
 * Threads: any thread that may use the channel (net/channel.h).
 */
#ifndef PCCL_NET_SECURE_H
#define PCCL_NET_SECURE_H

#include "net/keys.h"

#include <uv.h>

struct pccl_secure;

enum pccl_secure_role {
    PCCL_SECURE_PEER,     /* control connection, at the peer */
    PCCL_SECURE_MASTER,   /* control connection, at the master */
    PCCL_SECURE_VISITOR,  /* connection to a master's HTTP server, at the client */
    PCCL_SECURE_PAGES,    /* connection to a master's HTTP server, at the master; keeps TLS records, for browsers */
    PCCL_SECURE_DIALED,   /* link, at the end that the master instructed to dial, which is the TLS client */
    PCCL_SECURE_ACCEPTED, /* link, at the other end */
};

/*
 * Creates the encryption of a connection. name, ticket: for DIALED, otherwise NULL. The caller still owns the keys.
 * Returns NULL if out of memory.
 */
struct pccl_secure *pccl_secure_create(const struct pccl_memory *memory, const struct pccl_keys *keys,
                                       enum pccl_secure_role role, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket);
/*
 * Makes a PEER or DIALED send a knock before its greeting (net/knock.h). Call before all other functions. A PEER with
 * certificates sends no knock.
 */
void pccl_secure_knock(struct pccl_secure *secure);
/* Frees the encryption without sending anything. `secure` may be NULL. */
void pccl_secure_destroy(struct pccl_secure *secure);

/*
 * Read and write like pccl_socket_read_two and pccl_socket_write_two, with these differences. Return UV_EPROTO if the
 * other side does not have the keys or uses another protocol (see pccl_secure_why). Also advance the handshake, and
 * return UV_EAGAIN until it is complete. Bytes passed to write may still be unsent (pccl_secure_is_sending); a write of
 * no bytes sends these.
 */
ptrdiff_t pccl_secure_read(struct pccl_secure *secure, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                           uint8_t *second, size_t second_length);
ptrdiff_t pccl_secure_write(struct pccl_secure *secure, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                            const uint8_t *second, size_t second_length);
bool pccl_secure_is_sending(const struct pccl_secure *secure);
/* Returns true during the handshake, when a blocked write waits for the other side's messages instead of room. */
bool pccl_secure_is_shaking_hands(const struct pccl_secure *secure);
/* Returns true if a read would return bytes, or an error, that the socket does not report. */
bool pccl_secure_has_input(const struct pccl_secure *secure);
/* Returns true if the last read stopped because nothing more had arrived. Not valid if that read filled its buffers. */
bool pccl_secure_is_dry(const struct pccl_secure *secure);
/* Returns true if bytes have moved over the socket since the last call, even if only part of a record. */
bool pccl_secure_has_moved(struct pccl_secure *secure);
/* Returns true if the input ended without an end announced by the other side. */
bool pccl_secure_was_cut(const struct pccl_secure *secure);
/* Seals the end of the output, which is then written like other output. */
void pccl_secure_finish(struct pccl_secure *secure);
/*
 * Returns the interval in milliseconds at which this end renews the keys; 0: never. Only the dialing end renews keys,
 * and only if the connection uses our records after the handshake.
 */
uint32_t pccl_secure_renewal_ms(const struct pccl_secure *secure);
/*
 * Begins a renewal of keys (net/renewal.h) by sealing an offer, which is then written like other output. A later read
 * processes the answer. Has no effect during the handshake or another renewal, or after the end of the input or output.
 */
void pccl_secure_renew(struct pccl_secure *secure);
/*
 * Returns true if the link continues without encryption after its handshake. Valid when a write has left nothing
 * unsent.
 */
bool pccl_secure_opens(const struct pccl_secure *secure);
/* Returns the name of the cipher. Call after the handshake. */
const char *pccl_secure_cipher(const struct pccl_secure *secure);
/*
 * Copies the public key of the other side's token. For a MASTER, after the handshake. Returns false if none was shown.
 */
PCCL_MUST_CHECK bool pccl_secure_shown(const struct pccl_secure *secure, uint8_t key[PCCL_PUBLIC_BYTES]);
/* Returns true if the encryption has failed. pccl_secure_why then returns the reason, which is "" if out of memory. */
bool pccl_secure_has_failed(const struct pccl_secure *secure);
const char *pccl_secure_why(const struct pccl_secure *secure);
/* Returns true if the encryption has failed because this peer's token was revoked. */
bool pccl_secure_is_revoked(const struct pccl_secure *secure);
/*
 * Sets the number of 16-byte blocks (for HTTP: of TLS records) after which the key changes. For tests; call at both
 * ends, before all other functions.
 */
void pccl_secure_set_rekey(struct pccl_secure *secure, uint64_t after);
/* Returns the error text for another side that does not encrypt. MASTER and ACCEPTED also send it as their answer. */
const char *pccl_secure_plain_words(const struct pccl_keys *keys, enum pccl_secure_role role);
/*
 * Writes the reason for which the handshake of `ssl` has failed, from the first error in this thread's OpenSSL error
 * queue. Returns true if the master has reported that this peer's token was revoked.
 */
bool pccl_secure_explain(const struct pccl_keys *keys, enum pccl_secure_role role, const struct pccl_openssl *openssl,
                         const struct ssl_st *ssl, struct pccl_text *why);

#endif
