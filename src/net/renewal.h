/*
 * New keys for a connection by a new key exchange (PROTOCOL 17.5): X25519 between its ends; the result is mixed into
 * the secrets of both directions. Three records: the client's public key (KEY); the server's (KEY), after which the
 * server seals with the new key; and the client's NEXT, after which the client does. No output waits for any of them.
 *
 * Only the present keys protect the exchange: identities are not proved again. A compromised key opens no record after
 * the next renewal, unless its holder modifies records on the network during each renewal.
 */
#ifndef PCCL_NET_RENEWAL_H
#define PCCL_NET_RENEWAL_H

#include "net/record.h"

/* The state of a renewal at one end. Zeroed: none is under way. */
struct pccl_renewal {
    const struct pccl_openssl *openssl;
    struct evp_pkey_st *own;               /* key pair of this end, until the other end's key has arrived */
    uint8_t public[PCCL_RECORD_KEY_BYTES]; /* public half of `own` */
    bool is_agreed;                        /* `mixed` is valid */
    struct pccl_secret mixed;
};

static inline bool pccl_renewal_is_open(const struct pccl_renewal *renewal)
{
    return renewal->own || renewal->is_agreed;
}
/*
 * Begins a renewal at the client: makes the key that the caller sends. Returns false if out of memory or entropy; call
 * pccl_renewal_end either way.
 */
PCCL_MUST_CHECK bool pccl_renewal_begin(struct pccl_renewal *renewal, const struct pccl_openssl *openssl);
/*
 * Acts on a record of the other end that the reader has met. Sets *reply to the record to seal: KEY with `public`, or
 * NEXT, after which the caller calls pccl_renewal_replied; NONE: nothing to send. Returns false if the connection
 * cannot continue: with a reason if the other end is the cause, without one if out of memory.
 */
PCCL_MUST_CHECK bool pccl_renewal_take(struct pccl_renewal *renewal, const struct pccl_record_reader *reader,
                                       struct pccl_record_line *in, bool is_client, enum pccl_record_kind *reply,
                                       struct pccl_text *reason);
/* Makes `out` seal later records with the new key; call after sealing the reply. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_renewal_replied(struct pccl_renewal *renewal, struct pccl_record_line *out, bool is_client);
/* Ends a renewal and forgets all of its keys. */
void pccl_renewal_end(struct pccl_renewal *renewal);

#endif
