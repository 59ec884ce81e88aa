#include "drive/credentials.h"
#include "os/file.h"
#include "os/random.h"
#include "os/secret_file.h"

#include "log/logger.h"
#include "net/heap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = PCCL_SHARED_TEXT_MAX + 8 /* exceeds the size of a token or a key */ };

/* ---- files ---- */

/* Creates a file with one line, and wipes the line, which must have room for the line end. */
static enum pccl_status make_line(const char *path, char *line, size_t length, struct pccl_text *reason)
{
    memcpy(line + length, "\n", 2);
    enum pccl_status status = pccl_secret_file_make(path, line, length + 1, reason);
    pccl_wipe(line, length);
    return status;
}

/* ---- a pre-shared secret, from the environment of a process ---- */

static const char *shared_file(void) { return pccl_params_text(NULL, PCCL_PARAM_secret_file); }

static bool has_shared(void) { return pccl_params_text(NULL, PCCL_PARAM_secret)[0] || shared_file()[0]; }

static enum pccl_status read_shared(struct pccl_secret *key, struct pccl_token *token, struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    const char *value = pccl_params_text(NULL, PCCL_PARAM_secret), *path = shared_file();
    size_t length = 0;
    enum pccl_status status = PCCL_OK;
    if (value[0]) {
        status = pccl_params_check(PCCL_PARAM_secret, value, reason);
        path = "the value of PCCL_SECRET";
    } else {
        status = pccl_secret_file_read(path, false, text, FILE_BYTES_MAX, &length, reason);
        if (status == PCCL_OK && length == 0)
            status = pccl_secret_fail(reason, "cannot read", path, strerror(ENOENT));
        value = text;
    }
    if (status == PCCL_OK) {
        length = pccl_shared_secret_length(value);
        if (length == 0)
            status = pccl_secret_fail(reason, "cannot use", path, PCCL_SHARED_TEXT_RULE);
        else if (!pccl_keys_of_shared(value, length, key, token, reason))
            status = PCCL_UNSUPPORTED;
    }
    token->checked = token->shared = true;
    pccl_wipe(text, sizeof text);
    return status;
}

static enum pccl_status refuse_both(struct pccl_text *reason, const char *other)
{
    return pccl_fail(reason, PCCL_ARGUMENT,
                     "both a pre-shared secret (PCCL_SECRET or PCCL_SECRET_FILE) and %s are set: set only one of them",
                     other);
}

/* ---- certificates ---- */

/*
 * Fills in the names of PEM files. Sets *exists if at least one is given; all are required then, and the reason for a
 * missing one contains `names`, the list of the parameters.
 */
static enum pccl_status name_pem(const char *chain, const char *key, const char *authority, const char *names,
                                 struct pccl_pem *pem, bool *exists, struct pccl_text *reason)
{
    (void)snprintf(pem->chain, sizeof pem->chain, "%s", chain);
    (void)snprintf(pem->key, sizeof pem->key, "%s", key);
    (void)snprintf(pem->authority, sizeof pem->authority, "%s", authority ? authority : "");
    *exists = chain[0] || key[0] || pem->authority[0];
    if (!*exists || (chain[0] && key[0] && (!authority || authority[0])))
        return PCCL_OK;
    return pccl_fail(reason, PCCL_ARGUMENT, "%s must be set together, but some are missing", names);
}

static enum pccl_status refuse_with_certificates(struct pccl_text *reason)
{
    return pccl_fail(reason, PCCL_ARGUMENT,
                     "certificates cannot be combined with a token or a pre-shared secret: set only one of them");
}

/* ---- credentials of a peer ---- */

static enum pccl_status read_peers_token(struct pccl_params *params, struct pccl_token *token, bool *exists,
                                         struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length = 0;
    enum pccl_status status = PCCL_OK;
    const char *path = params->token_file;
    bool given = params->token[0] != '\0';
    if (given) {
        length = (size_t)snprintf(text, sizeof text, "%s", params->token);
        pccl_wipe(params->token, sizeof params->token);
    } else if (path[0]) {
        status = pccl_secret_file_read(path, false, text, FILE_BYTES_MAX, &length, reason);
        if (status == PCCL_OK && length == 0)
            status = pccl_secret_fail(reason, "cannot read", path, strerror(ENOENT));
    }
    *exists = length > 0;
    const char *fault = status == PCCL_OK && *exists ? pccl_token_read(text, token) : NULL;
    if (fault) {
        (void)pccl_secret_fail(reason, "cannot use", given ? "the value of token (PCCL_TOKEN)" : path, fault);
        status = PCCL_ARGUMENT;
    }
    pccl_wipe(text, sizeof text);
    return status;
}

enum pccl_status pccl_credentials_of_peer(struct pccl_params *params, struct pccl_keys **keys, struct pccl_text *reason)
{
    struct pccl_secret key;
    struct pccl_token token;
    bool exists;
    *keys = NULL;
    struct pccl_pem pem;
    bool has_pem;
    enum pccl_status status = name_pem(params->tls_cert, params->tls_key, params->tls_ca,
                                       "tls_cert, tls_key and tls_ca", &pem, &has_pem, reason);
    if (status == PCCL_OK)
        status = read_peers_token(params, &token, &exists, reason);
    if (status == PCCL_OK && has_pem) {
        pccl_wipe(&token, sizeof token);
        if (exists || has_shared())
            return refuse_with_certificates(reason);
        *keys = pccl_keys_of_files(pccl_heap(), &pem, PCCL_CERTIFICATE_OF_PEER, reason);
        status = *keys ? PCCL_OK : PCCL_UNSUPPORTED;
    }
    if (status == PCCL_OK && has_shared()) {
        if (exists)
            status = refuse_both(reason, "a token");
        else
            status = read_shared(&key, &token, reason);
        exists = true;
    }
    if (status == PCCL_OK && exists) {
        *keys = pccl_keys_of_peer(pccl_heap(), &token, reason);
        status = *keys ? PCCL_OK : PCCL_UNSUPPORTED;
    }
    if (*keys)
        pccl_keys_set_renewal(*keys, params->rekey_ms);
    pccl_wipe(&key, sizeof key);
    pccl_wipe(&token, sizeof token);
    return status;
}

/* ---- credentials of a master ---- */

static void name_files(const struct pccl_params *params, struct pccl_credentials *credentials)
{
    const char *state = params->master_state, *token = params->master_token_file;
    enum { MAX = sizeof credentials->token_file };
    (void)snprintf(credentials->state, sizeof credentials->state, "%s", state);
    if (token[0])
        (void)snprintf(credentials->token_file, MAX, "%s", token);
    else if (state[0])
        (void)snprintf(credentials->token_file, MAX, "%s/run.token", state);
    if (state[0])
        (void)snprintf(credentials->key_file, MAX, "%s/master.key", state);
    else if (token[0])
        (void)snprintf(credentials->key_file, MAX, "%s.key", token);
}

static enum pccl_status make_secret(struct pccl_secret *secret, struct pccl_text *reason)
{
    if (pccl_random_bytes(secret->bytes, sizeof secret->bytes))
        return PCCL_OK;
    return pccl_fail(reason, PCCL_SYSTEM, "cannot get random bytes from the system");
}

static enum pccl_status read_key(const char *path, struct pccl_secret *key, bool *exists, struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length;
    enum pccl_status status = pccl_secret_file_read(path, true, text, FILE_BYTES_MAX, &length, reason);
    *exists = length > 0;
    if (status == PCCL_OK && *exists && !pccl_secret_read(text, key))
        status = pccl_secret_fail(reason, "cannot use", path, "not a master's key");
    pccl_wipe(text, sizeof text);
    return status;
}

/* Creates the key, or reads the key that another master has created in the meantime. */
static enum pccl_status make_key(const char *path, struct pccl_secret *key, struct pccl_text *reason)
{
    char text[PCCL_SECRET_TEXT + 2];
    struct pccl_text why;
    bool exists;
    enum pccl_status status = make_secret(key, reason);
    if (status != PCCL_OK)
        return status;
    pccl_secret_write(key, text);
    status = make_line(path, text, PCCL_SECRET_TEXT, reason);
    return status != PCCL_USAGE || read_key(path, key, &exists, &why) != PCCL_OK || !exists ? status : PCCL_OK;
}

static enum pccl_status read_token(const char *path, struct pccl_token *token, bool *exists, struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length;
    enum pccl_status status = pccl_secret_file_read(path, true, text, FILE_BYTES_MAX, &length, reason);
    *exists = length > 0;
    const char *fault = status == PCCL_OK && *exists ? pccl_token_read(text, token) : NULL;
    if (fault)
        status = pccl_secret_fail(reason, "cannot use", path, fault);
    pccl_wipe(text, sizeof text);
    return status;
}

/* Creates the token, or reads the token that another master has created in the meantime. */
static enum pccl_status make_token(const char *path, const uint8_t pin[PCCL_PIN_BYTES], struct pccl_token *token,
                                   struct pccl_text *reason)
{
    char text[PCCL_TOKEN_TEXT + 2];
    struct pccl_text why;
    bool exists;
    enum pccl_status status = make_secret(&token->secret, reason);
    if (status != PCCL_OK)
        return status;
    memcpy(token->pin, pin, PCCL_PIN_BYTES);
    token->checked = true;
    pccl_token_write(token, text);
    status = make_line(path, text, PCCL_TOKEN_TEXT, reason);
    return status != PCCL_USAGE || read_token(path, token, &exists, &why) != PCCL_OK || !exists ? status : PCCL_OK;
}

/* Reads or creates the key and the token, which belong together. */
static enum pccl_status keep(const struct pccl_credentials *credentials, struct pccl_secret *key,
                             struct pccl_token *token, bool *made, struct pccl_text *reason)
{
    bool has_key, has_token;
    uint8_t pin[PCCL_PIN_BYTES];
    const char *key_file = credentials->key_file, *token_file = credentials->token_file;
    enum pccl_status status = read_token(token_file, token, &has_token, reason);
    if (status == PCCL_OK) /* the key is created first */
        status = read_key(key_file, key, &has_key, reason);
    if (status == PCCL_OK && has_token && !has_key) {
        pccl_text_format(reason,
                         "the key of the token %s is missing from %s: restore the key, or remove the token to create "
                         "both again (all peers then need the new token)",
                         token_file, key_file);
        status = PCCL_SYSTEM;
    }
    if (status == PCCL_OK && !has_key)
        status = make_key(key_file, key, reason);
    if (status == PCCL_OK && !pccl_keys_pin(key, pin, reason))
        status = PCCL_UNSUPPORTED;
    if (status == PCCL_OK && has_token && memcmp(pin, token->pin, sizeof pin) != 0) {
        pccl_text_format(reason, "the token in %s does not belong to the key in %s", token_file, key_file);
        status = PCCL_SYSTEM;
    }
    *made = status == PCCL_OK && !has_token;
    return *made ? make_token(token_file, pin, token, reason) : status;
}

/*
 * Opens the accepted tokens: the ones in the state directory, if there is one, and `run`, the run's token, which is
 * NULL if peers have certificates.
 */
static enum pccl_status open_tokens(struct pccl_credentials *credentials, const struct pccl_token *run,
                                    struct pccl_text *reason)
{
    char book[2 * PCCL_PARAM_BYTES_MAX] = "";
    if (credentials->state[0])
        (void)snprintf(book, sizeof book, "%s/tokens", credentials->state);
    credentials->tokens = pccl_tokens_open(book, run, credentials->token_file, reason);
    return credentials->tokens ? PCCL_OK : PCCL_SYSTEM;
}

static enum pccl_status make_keys(struct pccl_credentials *credentials, const struct pccl_secret *key,
                                  const struct pccl_token *token, bool open_links, struct pccl_text *reason)
{
    enum pccl_status status = open_tokens(credentials, token, reason);
    if (status != PCCL_OK)
        return status;
    credentials->keys = pccl_keys_of_master(pccl_heap(), key, reason);
    if (!credentials->keys)
        return PCCL_MEMORY;
    pccl_keys_set_judge(credentials->keys, pccl_tokens_judge, credentials->tokens);
    pccl_keys_set_open_links(credentials->keys, open_links);
    return PCCL_OK;
}

/* Uses certificates in place of the master's key and the run's token. */
static enum pccl_status use_certificates(const struct pccl_params *params, const struct pccl_pem *pem,
                                         struct pccl_credentials *credentials, struct pccl_text *reason)
{
    if (params->master_token_file[0] || has_shared())
        return refuse_with_certificates(reason);
    credentials->token_file[0] = credentials->key_file[0] = '\0';
    credentials->keys = pccl_keys_of_files(pccl_heap(), pem, PCCL_CERTIFICATE_OF_MASTER, reason);
    if (!credentials->keys)
        return PCCL_UNSUPPORTED;
    pccl_keys_set_open_links(credentials->keys, strcmp(params->encryption, "control") == 0);
    if (!credentials->state[0])
        return PCCL_OK;
    enum pccl_status status = pccl_secret_directory(credentials->state, reason);
    return status == PCCL_OK ? open_tokens(credentials, NULL, reason) : status;
}

static const char masters_names[] =
    "master_tls_cert, master_tls_key and master_tls_ca (--tls-cert, --tls-key, --tls-ca)";

static enum pccl_status make_pages_keys(const struct pccl_params *params, struct pccl_credentials *credentials,
                                        struct pccl_text *reason)
{
    struct pccl_pem pem;
    bool exists, own = params->http_cert[0] || params->http_key[0];
    enum pccl_status status =
        name_pem(own ? params->http_cert : params->master_tls_cert, own ? params->http_key : params->master_tls_key,
                 NULL, own ? "http_cert and http_key" : masters_names, &pem, &exists, reason);
    if (status != PCCL_OK || !exists || !params->http[0])
        return status;
    credentials->pages = pccl_keys_of_files(pccl_heap(), &pem, PCCL_CERTIFICATE_OF_PAGES, reason);
    return credentials->pages ? PCCL_OK : PCCL_UNSUPPORTED;
}

static enum pccl_status make_control_keys(const struct pccl_params *params, struct pccl_credentials *credentials,
                                          struct pccl_text *reason)
{
    struct pccl_secret key;
    struct pccl_token token;
    struct pccl_pem pem;
    bool shared = has_shared(), has_pem, off = strcmp(params->encryption, "off") == 0;
    if (name_pem(params->master_tls_cert, params->master_tls_key, params->master_tls_ca, masters_names, &pem, &has_pem,
                 reason) != PCCL_OK)
        return PCCL_ARGUMENT;
    if (has_pem && !off)
        return use_certificates(params, &pem, credentials, reason);
    if ((!credentials->token_file[0] && !shared) || off)
        return PCCL_OK;
    if (shared && params->master_token_file[0])
        return refuse_both(reason, "master_token_file");
    if (shared && pccl_file_exists(credentials->key_file)) /* a secret would invalidate the tokens made for that key */
        return refuse_both(reason, credentials->key_file);
    if (shared)
        credentials->token_file[0] = credentials->key_file[0] = '\0';
    if (!pccl_openssl(reason)) /* before creating files */
        return PCCL_UNSUPPORTED;
    enum pccl_status status = params->master_state[0] ? pccl_secret_directory(params->master_state, reason) : PCCL_OK;
    if (status == PCCL_OK)
        status =
            shared ? read_shared(&key, &token, reason) : keep(credentials, &key, &token, &credentials->made, reason);
    if (status == PCCL_OK)
        status = make_keys(credentials, &key, &token, strcmp(params->encryption, "control") == 0, reason);
    pccl_wipe(&key, sizeof key);
    pccl_wipe(&token, sizeof token);
    return status;
}

enum pccl_status pccl_credentials_of_master(const struct pccl_params *params, struct pccl_credentials *credentials,
                                            struct pccl_text *reason)
{
    *credentials = (struct pccl_credentials){.keys = NULL};
    name_files(params, credentials);
    enum pccl_status status = make_pages_keys(params, credentials, reason);
    if (status == PCCL_OK)
        status = make_control_keys(params, credentials, reason);
    if (status != PCCL_OK)
        pccl_credentials_end(credentials);
    return status;
}

enum pccl_status pccl_credentials_reload(struct pccl_credentials *credentials, struct pccl_text *reason)
{
    struct pccl_keys *all[] = {credentials->keys, credentials->pages};
    struct pccl_text why;
    pccl_text_clear(reason);
    for (size_t i = 0; i < PCCL_COUNT_OF(all); i++)
        if (all[i] && !pccl_keys_reload(all[i], &why))
            pccl_text_append(reason, "%s%s", reason->length > 0 ? "; " : "", why.bytes);
    return reason->length > 0 ? PCCL_SYSTEM : PCCL_OK;
}

void pccl_credentials_end(struct pccl_credentials *credentials)
{
    pccl_keys_destroy(credentials->keys);
    pccl_keys_destroy(credentials->pages);
    pccl_tokens_close(credentials->tokens);
    credentials->keys = credentials->pages = NULL;
    credentials->tokens = NULL;
}

void pccl_credentials_warn_of_port(const struct pccl_credentials *credentials, const struct pccl_address *addresses,
                                   uint32_t count, uint16_t port)
{
    for (uint32_t i = 0; i < count && !credentials->keys; i++) {
        if (pccl_address_is_loopback(&addresses[i]))
            continue;
        pccl_logger_print(
            PCCL_LOG_WARN, "master",
            "port %u accepts connections from other machines without a token: any host that reaches it can join, read "
            "and change everything. Start the master with --token-file FILE (master_token_file) and peers with "
            "PCCL_TOKEN_FILE; if only trusted machines can reach it, --insecure (insecure=1) disables this warning",
            port);
        return;
    }
}
