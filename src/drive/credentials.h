/*
 * From parameters to keys: the join token of a peer, the files in which a master keeps its key
 * and its tokens, and certificates, which either may have. Secrets are in these files, in the keys and nowhere else: no
 * reason names one.
 */
#ifndef PCCL_DRIVE_CREDENTIALS_H
#define PCCL_DRIVE_CREDENTIALS_H

#include "config/params.h"
#include "ops/tokens.h"
#include "net/keys.h"

/* What a master has to be known by and to know its peers. */
struct pccl_credentials {
    struct pccl_keys *keys;     /* NULL: it has none, and runs in the clear */
    struct pccl_tokens *tokens; /* NULL: likewise, or peers have certificates and there is no state */
    struct pccl_keys *pages;    /* of HTTPS; NULL: no certificate */
    bool made;                  /* the run's token is new */
    char token_file[2 * PCCL_PARAM_BYTES_MAX], key_file[2 * PCCL_PARAM_BYTES_MAX]; /* "": in none */
    char state[PCCL_PARAM_BYTES_MAX + 1];                                          /* the directory; "": none */
};

/* *keys NULL, and OK: there is no token. Wipes the token in the parameters. Otherwise with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_peer(struct pccl_params *params, struct pccl_keys **keys,
                                                          struct pccl_text *reason);
/*
 * The same for a master: makes the files, if they are missing. Files that others may read, that belong to another
 * user, or that do not belong together are not used.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_of_master(const struct pccl_params *params,
                                                            struct pccl_credentials *credentials,
                                                            struct pccl_text *reason);
/*
 * Reads certificates again, if they are in files. On the master's thread. Not OK, with a reason: some stay as they
 * were read before.
 */
PCCL_MUST_CHECK enum pccl_status pccl_credentials_reload(struct pccl_credentials *credentials,
                                                         struct pccl_text *reason);
/* Frees the keys and tokens, if any. */
void pccl_credentials_end(struct pccl_credentials *credentials);

#endif
