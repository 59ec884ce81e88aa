/* What net/keys and net/secure need of each other. */
#ifndef PCCL_NET_KEYS_INTERNAL_H
#define PCCL_NET_KEYS_INTERNAL_H

#include "net/keys.h"

#include <stdatomic.h>

/* The pre-shared key of a link. false: out of memory. */
bool pccl_keys_of_link(const struct pccl_keys *keys, const struct pccl_key_name *name, const struct pccl_id *ticket,
                       struct pccl_secret *out);
/* The same at the end that is dialed. false: this peer has no such key. */
bool pccl_keys_find(const struct pccl_keys *keys, const struct pccl_key_name *name, struct pccl_secret *out);

/* OpenSSL asks for the keys of a link: net/secure, whose struct the SSL object carries. */
int pccl_secure_offer_key(struct ssl_st *ssl, const struct evp_md_st *digest, const unsigned char **identity,
                          size_t *identity_bytes, struct ssl_session_st **session);
int pccl_secure_find_key(struct ssl_st *ssl, const unsigned char *identity, size_t identity_bytes,
                         struct ssl_session_st **session);

#endif
