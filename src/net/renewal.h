/*
 * Renews the keys of a connection by a new X25519 key exchange between its ends (PROTOCOL 17.5). The result is mixed
 * into the secrets of both directions. The exchange takes three records: the client's public key (KEY); the server's
 * public key (KEY), after which the server seals with the new key; and the client's NEXT, after which the client does.
 * Other output never waits for these.
 *
 * The exchange is protected only by the current keys, and identities are not proved again. An attacker who has
 * compromised a key can open no record after the next renewal, unless the attacker modifies records on the network
 * during each renewal.
 */
#ifndef PCCL_NET_RENEWAL_H
#define PCCL_NET_RENEWAL_H

#include "net/record.h"

/* The state of a renewal at one end. Zeroed while no renewal is in progress. */
struct pccl_renewal {
    const struct pccl_openssl *openssl;
    struct evp_pkey_st *own;               /* key pair of this end, until the other end's public key has arrived */
    uint8_t public[PCCL_RECORD_KEY_BYTES]; /* public half of `own` */
    bool is_agreed;                        /* `mixed` is valid */
    struct pccl_secret mixed;
};

static inline bool pccl_renewal_is_open(const struct pccl_renewal *renewal)
{
    return renewal->own || renewal->is_agreed;
}
/*
 * Begins a renewal at the client, and creates the public key to be sent. Returns false if out of memory or entropy;
 * call pccl_renewal_end either way.
 */
PCCL_MUST_CHECK bool pccl_renewal_begin(struct pccl_renewal *renewal, const struct pccl_openssl *openssl);
/*
 * Processes a renewal record from the other end, which the reader has met. Sets *reply to the kind of record that the
 * caller must seal: KEY (with `public`) or NEXT, after which the caller calls pccl_renewal_replied; or NONE. Returns
 * false if the connection cannot continue: with a reason if the other end is at fault, without one if out of memory.
 */
PCCL_MUST_CHECK bool pccl_renewal_take(struct pccl_renewal *renewal, const struct pccl_record_reader *reader,
                                       struct pccl_record_line *in, bool is_client, enum pccl_record_kind *reply,
                                       struct pccl_text *reason);
/* Makes `out` seal later records with the new key. Call after sealing the reply. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_renewal_replied(struct pccl_renewal *renewal, struct pccl_record_line *out, bool is_client);
/* Ends a renewal and erases its keys. */
void pccl_renewal_end(struct pccl_renewal *renewal);

#endif
