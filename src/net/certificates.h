/*
 * What TLS needs of certificates in PEM files: for control connections, where each end shows one that an
 * authority of the run has signed (PROTOCOL 17.7), for HTTP beyond this machine, and for whoever asks there.
 * What a certificate is for stands in its subject: the first OU is "pccl-master" or "pccl-join". Knows nothing
 * of connections.
 */
#ifndef PCCL_NET_CERTIFICATES_H
#define PCCL_NET_CERTIFICATES_H

#include "net/openssl.h"

enum { PCCL_PEM_PATH_MAX = 1023, PCCL_FINGERPRINT_BYTES = 32, PCCL_FINGERPRINT_TEXT = 64 };

/* Paths. */
struct pccl_pem {
    char chain[PCCL_PEM_PATH_MAX + 1];     /* the certificate, and those between it and the authority's */
    char key[PCCL_PEM_PATH_MAX + 1];       /* its private key, not encrypted */
    char authority[PCCL_PEM_PATH_MAX + 1]; /* whose certificates are good */
};

enum pccl_certificate_use {
    PCCL_CERTIFICATE_OF_MASTER, /* shows one, and wants one that is for joining */
    PCCL_CERTIFICATE_OF_PEER,   /* shows one, and wants a master's */
    PCCL_CERTIFICATE_OF_PAGES,  /* shows one, and wants none */
};

/*
 * Fits a new context with what the files hold. false, with a reason that names the file: they cannot be used, and
 * neither can the context.
 */
PCCL_MUST_CHECK bool pccl_certificates_load(const struct pccl_openssl *openssl, struct ssl_ctx_st *context,
                                            const struct pccl_pem *pem, enum pccl_certificate_use use,
                                            struct pccl_text *reason);
/*
 * Of a client that shows none: the other side's is of this host, a name or an address, and the authority in the file
 * has signed it; "": one that the system trusts. false: as above.
 */
PCCL_MUST_CHECK bool pccl_certificates_expect(const struct pccl_openssl *openssl, struct ssl_ctx_st *context,
                                              const char *host, const char *authority, struct pccl_text *reason);
/* The SHA-256 of a certificate, in hexadecimal digits. "": there is none. */
void pccl_certificates_fingerprint(const struct pccl_openssl *openssl, const struct x509_st *certificate,
                                   char text[PCCL_FINGERPRINT_TEXT + 1]);

#endif
