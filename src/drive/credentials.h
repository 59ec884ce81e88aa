/*
 * Credentials from parameters and files: a peer's join token, the key and token files of a master, and certificates for
 * either. Secrets appear only in the files and in the keys, never in a reason.
 */
#ifndef PCCL_DRIVE_CREDENTIALS_H
#define PCCL_DRIVE_CREDENTIALS_H

#include "config/params.h"
#include "core/address.h"
#include "ops/tokens.h"
#include "net/keys.h"

/* Credentials of a master. */
struct pccl_credentials {
    struct pccl_keys *keys;     /* NULL: no encryption */
    struct pccl_tokens *tokens; /* NULL without encryption, or with certificates for peers and no state directory */
    struct pccl_keys *pages;    /* keys for HTTPS; NULL without a certificate */
    bool made;                  /* true if the run's token was just created */
    char token_file[2 * PCCL_PARAM_BYTES_MAX], key_file[2 * PCCL_PARAM_BYTES_MAX]; /* empty: no file */
    char state[PCCL_PARAM_BYTES_MAX + 1]; /* state directory; empty: no directory */
};

/*
 * Reads a peer's credentials. Sets *keys to NULL if the peer has no token, secret or certificate. Wipes the token in
 * the parameters. On failure returns a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_peer(struct pccl_params *params, struct pccl_keys **keys,
                                                          struct pccl_text *reason);
/*
 * Reads a master's credentials, and creates missing files. Refuses files that other users own or can read, and files
 * that do not belong together.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_master(const struct pccl_params *params,
                                                            struct pccl_credentials *credentials,
                                                            struct pccl_text *reason);
/*
 * Rereads certificates that are in files. Runs on the master's thread. On failure returns a reason, and some of the
 * previous certificates stay in use.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_reload(struct pccl_credentials *credentials,
                                                         struct pccl_text *reason);
/* Frees the keys and tokens, if any. */
void pccl_credentials_end(struct pccl_credentials *credentials);
/*
 * Warns if the master has no keys and other machines can reach one of these addresses, because any of them can then
 * join the run and read or change its data.
 */
void pccl_credentials_warn_of_port(const struct pccl_credentials *credentials, const struct pccl_address *addresses,
                                   uint32_t count, uint16_t port);

#endif
