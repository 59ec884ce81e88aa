/*
 * The encryption of one connection, between a channel and its socket: first the handshake of TLS 1.3 (see net/keys.h
 * for its keys), then records of ours (net/record.h), or of TLS for HTTP. Only net/channel uses the functions that move
 * bytes. Sealed bytes that the kernel does not take are kept here, so a write never waits and never has to be repeated.
 *
 * The first three bytes show whether the other side uses another protocol, before anything is parsed; both ends then
 * report that in words.
 *
 * Threads: one at a time, of those that may use the channel.
 */
#ifndef PCCL_NET_SECURE_H
#define PCCL_NET_SECURE_H

#include "net/keys.h"

#include <uv.h>

struct pccl_secure;

enum pccl_secure_role {
    PCCL_SECURE_PEER,     /* connection to the master, at the peer */
    PCCL_SECURE_MASTER,   /* connection to the master, at the master */
    PCCL_SECURE_VISITOR,  /* connection to a master's HTTP, at the client */
    PCCL_SECURE_PAGES,    /* connection to a master's HTTP, at the master; uses TLS as browsers do */
    PCCL_SECURE_DIALED,   /* link, at the end that the master ordered to dial: the TLS client */
    PCCL_SECURE_ACCEPTED, /* link, at the other end */
};

/*
 * Creates the encryption of a connection. name, ticket: for DIALED, else NULL. The caller keeps the keys. Returns NULL
 * if out of memory.
 */
struct pccl_secure *pccl_secure_create(const struct pccl_memory *memory, const struct pccl_keys *keys,
                                       enum pccl_secure_role role, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket);
/*
 * Makes a PEER or DIALED send a knock before its greeting (net/knock.h). Call before all other functions. A PEER with
 * certificates sends no knock.
 */
void pccl_secure_knock(struct pccl_secure *secure);
/* Frees the encryption, without a message to the other side. NULL is allowed. */
void pccl_secure_destroy(struct pccl_secure *secure);

/*
 * Read and write as pccl_socket_read_two and pccl_socket_write_two, with these differences. UV_EPROTO: the other side
 * does not have the keys or uses another protocol, see pccl_secure_why. Both also advance the handshake and return
 * UV_EAGAIN until it is done. Written bytes may still be unsent (pccl_secure_is_sending); a write of no bytes sends
 * them.
 */
ptrdiff_t pccl_secure_read(struct pccl_secure *secure, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                           uint8_t *second, size_t second_length);
ptrdiff_t pccl_secure_write(struct pccl_secure *secure, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                            const uint8_t *second, size_t second_length);
bool pccl_secure_is_sending(const struct pccl_secure *secure);
/* Returns true during the handshake, when writing waits for the other side's messages instead of room. */
bool pccl_secure_is_shaking_hands(const struct pccl_secure *secure);
/* Returns true if a read would return bytes, or an error, that the socket does not report. */
bool pccl_secure_has_input(const struct pccl_secure *secure);
/* Returns true if the last read, unless it filled its places, stopped because nothing more had arrived. */
bool pccl_secure_is_dry(const struct pccl_secure *secure);
/* Returns true if bytes have moved over the socket since the last call, even if only a part of a record. */
bool pccl_secure_has_moved(struct pccl_secure *secure);
/* Returns true if the input ended without the other side's announcement. */
bool pccl_secure_was_cut(const struct pccl_secure *secure);
/* Seals the end of the output, to be written like other output. */
void pccl_secure_finish(struct pccl_secure *secure);
/*
 * Returns the time in milliseconds after which this end renews the keys of the connection; 0: never. Only the end that
 * has dialed renews, and only connections that use the records of net/record.h after the handshake.
 */
uint32_t pccl_secure_renewal_ms(const struct pccl_secure *secure);
/*
 * Begins a renewal (net/renewal.h): seals an offer, to be written like other output. Nothing waits for the answer,
 * which a later read processes. Has no effect during the handshake or a renewal, or after the end of the input or
 * output.
 */
void pccl_secure_renew(struct pccl_secure *secure);
/* Returns true if the link continues without encryption after its handshake, once a write has left nothing unsent. */
bool pccl_secure_opens(const struct pccl_secure *secure);
/* Returns the name of the cipher. Valid after the handshake. */
const char *pccl_secure_cipher(const struct pccl_secure *secure);
/*
 * Copies the public key of the other side's token, for a MASTER after the handshake. Returns false if it has shown
 * none.
 */
PCCL_MUST_CHECK bool pccl_secure_shown(const struct pccl_secure *secure, uint8_t key[PCCL_PUBLIC_BYTES]);
/* Returns true if the encryption has failed; the text is pccl_secure_why, which is empty if out of memory. */
bool pccl_secure_has_failed(const struct pccl_secure *secure);
const char *pccl_secure_why(const struct pccl_secure *secure);
/*
 * Sets the number of blocks of 16 bytes (for HTTP: of TLS records) after which the key changes. For tests, at both ends
 * and before all other functions.
 */
void pccl_secure_set_rekey(struct pccl_secure *secure, uint64_t after);
/* Returns the text about an other side that does not encrypt; MASTER and ACCEPTED also send it as their answer. */
const char *pccl_secure_plain_words(const struct pccl_keys *keys, enum pccl_secure_role role);
/*
 * Writes the reason why the handshake of `ssl` has failed, from the first error that OpenSSL has stored for this
 * thread.
 */
void pccl_secure_explain(const struct pccl_keys *keys, enum pccl_secure_role role, const struct pccl_openssl *openssl,
                         const struct ssl_st *ssl, struct pccl_text *why);

#endif
