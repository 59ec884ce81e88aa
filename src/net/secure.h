/*
 * The encryption of one connection, between a channel and its socket: the handshake of TLS 1.3
 * (net/keys.h says with which keys), and then records of ours (net/record.h). Only net/channel
 * uses the functions that move bytes. Sealed bytes that the kernel does not take are kept here, so
 * a write never waits and never has to be repeated.
 *
 * Who speaks something else is found out by the first three bytes, before anything is parsed; both
 * ends then say so in words.
 *
 * Threads: none at the same time, whichever those are that may use the channel.
 */
#ifndef PCCL_NET_SECURE_H
#define PCCL_NET_SECURE_H

#include "net/keys.h"

#include <uv.h>

struct pccl_secure;

enum pccl_secure_role {
    PCCL_SECURE_PEER,     /* the connection to the master, at the peer */
    PCCL_SECURE_MASTER,   /* the same, at the master */
    PCCL_SECURE_VISITOR,  /* a connection to a master's HTTP, at who asks */
    PCCL_SECURE_PAGES,    /* the same, at the master: its TLS is what browsers speak */
    PCCL_SECURE_DIALED,   /* a link, at the end that the master told to dial: the TLS client */
    PCCL_SECURE_ACCEPTED, /* the same, at the other end */
};

/*
 * name, ticket: of DIALED, else NULL. The keys stay the caller's. NULL: out
 * of memory.
 */
struct pccl_secure *pccl_secure_create(const struct pccl_memory *memory, const struct pccl_keys *keys,
                                       enum pccl_secure_role role, const struct pccl_key_name *name,
                                       const struct pccl_id *ticket);
/*
 * Makes a PEER or DIALED knock in front of its greeting (net/knock.h). Call it before anything else. A PEER with
 * certificates does not knock.
 */
void pccl_secure_knock(struct pccl_secure *secure);
/* Says nothing to the other side. NULL: none. */
void pccl_secure_destroy(struct pccl_secure *secure);

/*
 * As pccl_socket_read_two and pccl_socket_write_two, with these differences. UV_EPROTO: the other
 * side does not have the keys or speaks something else, see pccl_secure_why. Reading and writing
 * also do the handshake, until whose end both return UV_EAGAIN. What was written may still have to
 * be sent: pccl_secure_is_sending; a write of no bytes goes on with that.
 */
ptrdiff_t pccl_secure_read(struct pccl_secure *secure, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                           uint8_t *second, size_t second_length);
ptrdiff_t pccl_secure_write(struct pccl_secure *secure, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                            const uint8_t *second, size_t second_length);
bool pccl_secure_is_sending(const struct pccl_secure *secure);
/* Writing waits for what the other side says, not for room. */
bool pccl_secure_is_shaking_hands(const struct pccl_secure *secure);
/* Bytes were received that no read has taken: the socket does not report them. */
bool pccl_secure_has_input(const struct pccl_secure *secure);
/* The last read stopped because nothing more has arrived, if it did not fill its places. */
bool pccl_secure_is_dry(const struct pccl_secure *secure);
/* Whether bytes of the socket have moved since this was last asked, a part of a record included. */
bool pccl_secure_has_moved(struct pccl_secure *secure);
/* The input ended, and the other side has not said that it would. */
bool pccl_secure_was_cut(const struct pccl_secure *secure);
/* The end of the output, to be written like the rest. */
void pccl_secure_finish(struct pccl_secure *secure);
/*
 * Time in milliseconds after which this end renews the keys of the connection; 0: never. Only the end that
 * has dialed renews, and only connections with records of their own (net/record.h).
 */
uint32_t pccl_secure_renewal_ms(const struct pccl_secure *secure);
/*
 * Begins a renewal (net/renewal.h): seals an offer, to be written like the rest. Nothing waits for the answer, which a
 * later read finds. Does nothing during the handshake, a renewal, or after the end of the output.
 */
void pccl_secure_renew(struct pccl_secure *secure);
/* The link goes on in the clear from here on, after a write that left nothing unsent. */
bool pccl_secure_opens(const struct pccl_secure *secure);
/* After the handshake. */
const char *pccl_secure_cipher(const struct pccl_secure *secure);
/* MASTER, after the handshake: the public key of the other side's token. false: it has shown none. */
PCCL_MUST_CHECK bool pccl_secure_shown(const struct pccl_secure *secure, uint8_t key[PCCL_PUBLIC_BYTES]);
/* Who speaks is not who was expected, as pccl_secure_why says. */
bool pccl_secure_has_failed(const struct pccl_secure *secure);
const char *pccl_secure_why(const struct pccl_secure *secure);
/* For tests, at both ends and before anything else: a new key after so many blocks of 16 bytes. */
void pccl_secure_set_rekey(struct pccl_secure *secure, uint64_t after);
/* The answer of a MASTER or ACCEPTED to a client that does not encrypt. */
const char *pccl_secure_plain_words(const struct pccl_keys *keys, enum pccl_secure_role role);
/* Writes why the handshake of `ssl` has failed, by the first error that OpenSSL remembers of this thread. */
void pccl_secure_explain(const struct pccl_keys *keys, enum pccl_secure_role role, const struct pccl_openssl *openssl,
                         const struct ssl_st *ssl, struct pccl_text *why);

#endif
