/*
 * Certificates in PEM files for TLS: for control connections, whose ends both show a certificate signed by an authority
 * of the run (PROTOCOL 17.7), and for HTTP servers and clients that are not on this machine. The first OU in its
 * subject, "pccl-master" or "pccl-join", states the purpose of a certificate. Independent of connections.
 */
#ifndef PCCL_NET_CERTIFICATES_H
#define PCCL_NET_CERTIFICATES_H

#include "net/openssl.h"

enum { PCCL_PEM_PATH_MAX = 1023, PCCL_FINGERPRINT_BYTES = 32, PCCL_FINGERPRINT_TEXT = 64 };

/* Paths of the files. */
struct pccl_pem {
    char chain[PCCL_PEM_PATH_MAX + 1]; /* own certificate, followed by the intermediate ones up to the authority */
    char key[PCCL_PEM_PATH_MAX + 1];   /* private key of the certificate; must not be encrypted */
    /* certificate of the authority that must have signed the other side's certificate */
    char authority[PCCL_PEM_PATH_MAX + 1];
};

enum pccl_certificate_use {
    PCCL_CERTIFICATE_OF_MASTER, /* shows a certificate, and requires one for joining */
    PCCL_CERTIFICATE_OF_PEER,   /* shows a certificate, and requires a master's */
    PCCL_CERTIFICATE_OF_PAGES,  /* shows a certificate, and requires none */
};

/*
 * Loads the files into a new context. On failure returns false with a reason that names the file; the context must not
 * be used.
 */
PCCL_MUST_CHECK bool pccl_certificates_load(const struct pccl_openssl *openssl, struct ssl_ctx_st *context,
                                            const struct pccl_pem *pem, enum pccl_certificate_use use,
                                            struct pccl_text *reason);
/*
 * Prepares the context of a client without a certificate. The other side's certificate must be for this host (a name or
 * an address), and must be signed by the authority in the file or, if `authority` is "", by one that the system trusts.
 * Returns false as above.
 */
PCCL_MUST_CHECK bool pccl_certificates_expect(const struct pccl_openssl *openssl, struct ssl_ctx_st *context,
                                              const char *host, const char *authority, struct pccl_text *reason);
/* Writes the SHA-256 of a certificate in hexadecimal digits. Writes "" on failure, or if it is NULL. */
void pccl_certificates_fingerprint(const struct pccl_openssl *openssl, const struct x509_st *certificate,
                                   char text[PCCL_FINGERPRINT_TEXT + 1]);

#endif
