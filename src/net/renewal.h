/*
 * New keys for a connection by a new key exchange (PROTOCOL 17.5): X25519 between its ends, whose result is mixed into
 * the secrets of both directions. Three records: the client's public key (KEY); the server's (KEY), after which the
 * server seals with the new key; and the client's NEXT, after which the client does. No output waits for any of them.
 *
 * Only the present keys protect the exchange: identities are not proved again. A key that has become known opens no
 * record after the next renewal, unless its holder changes records on the network during each renewal.
 */
#ifndef PCCL_NET_RENEWAL_H
#define PCCL_NET_RENEWAL_H

#include "net/record.h"

/* At one end. Zeroed: none is under way. */
struct pccl_renewal {
    const struct pccl_openssl *openssl;
    struct evp_pkey_st *own;               /* from the beginning until the other end's key is there */
    uint8_t public[PCCL_RECORD_KEY_BYTES]; /* of `own` */
    bool is_agreed;                        /* there is `mixed` */
    struct pccl_secret mixed;
};

static inline bool pccl_renewal_is_open(const struct pccl_renewal *renewal)
{
    return renewal->own || renewal->is_agreed;
}
/*
 * The client begins: makes the key that the caller sends. false: out of memory, or no entropy; to be ended all the
 * same.
 */
PCCL_MUST_CHECK bool pccl_renewal_begin(struct pccl_renewal *renewal, const struct pccl_openssl *openssl);
/*
 * Acts on a record of the other end that the reader has met. reply: the record to seal, KEY with `public` or NEXT,
 * after which the caller calls pccl_renewal_replied; NONE: there is nothing to send. Returns false if the connection
 * cannot go on: with a reason, because of the other end; without, out of memory.
 */
PCCL_MUST_CHECK bool pccl_renewal_take(struct pccl_renewal *renewal, const struct pccl_record_reader *reader,
                                       struct pccl_record_line *in, bool is_client, enum pccl_record_kind *reply,
                                       struct pccl_text *reason);
/* The reply is sealed: `out` seals later records with the new key. false: out of memory. */
PCCL_MUST_CHECK bool pccl_renewal_replied(struct pccl_renewal *renewal, struct pccl_record_line *out, bool is_client);
/* Forgets all keys. */
void pccl_renewal_end(struct pccl_renewal *renewal);

#endif
