/*
 * From parameters to keys: the join token of a peer, the files in which a master keeps its key and its tokens, and
 * certificates, which either may have. Secrets are only in these files and in the keys: no reason names one.
 */
#ifndef PCCL_DRIVE_CREDENTIALS_H
#define PCCL_DRIVE_CREDENTIALS_H

#include "config/params.h"
#include "ops/tokens.h"
#include "net/keys.h"

/* The credentials that identify a master and its peers. */
struct pccl_credentials {
    struct pccl_keys *keys;     /* NULL: no encryption */
    struct pccl_tokens *tokens; /* NULL: no encryption, or peers have certificates and there is no state */
    struct pccl_keys *pages;    /* keys of HTTPS; NULL: no certificate */
    bool made;                  /* the run's token is new */
    char token_file[2 * PCCL_PARAM_BYTES_MAX], key_file[2 * PCCL_PARAM_BYTES_MAX]; /* "": no file */
    char state[PCCL_PARAM_BYTES_MAX + 1];                                          /* state directory; "": none */
};

/*
 * Reads a peer's credentials. Returns OK and *keys NULL if it has no token, secret or certificate. Wipes the token in
 * the parameters. Other results have a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_peer(struct pccl_params *params, struct pccl_keys **keys,
                                                          struct pccl_text *reason);
/*
 * Does the same for a master: makes the files if they are missing. Refuses files that other users may read or own, or
 * that do not belong together.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_master(const struct pccl_params *params,
                                                            struct pccl_credentials *credentials,
                                                            struct pccl_text *reason);
/*
 * Reads certificates again, if they are in files. On the master's thread. On failure, with a reason, some certificates
 * stay in use unchanged.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_reload(struct pccl_credentials *credentials,
                                                         struct pccl_text *reason);
/* Frees the keys and tokens, if any. */
void pccl_credentials_end(struct pccl_credentials *credentials);

#endif
