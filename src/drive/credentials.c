#include "drive/credentials.h"
#include "drive/random.h"

#include "net/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum { FILE_BYTES_MAX = 256 /* more than a token or a key needs */ };

static enum pccl_status fail(struct pccl_text *reason, const char *what, const char *path, const char *why)
{
    pccl_text_format(reason, "%s %s: %s", what, path, why);
    return PCCL_SYSTEM;
}

/* ---- files ---- */

static const char *fault_of(int descriptor, bool is_private)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "it is no regular file";
    if (is_private && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "others may read or write it, so what it holds is no secret: make a new one, or 'chmod 600' it";
    if (is_private && status.st_uid != geteuid())
        return "it belongs to another user";
    return NULL;
}

/*
 * The whole text. OK with *length 0: there is no such file. is_private: only this user may read it.
 */
static enum pccl_status read_file(const char *path, bool is_private, char text[FILE_BYTES_MAX + 1], size_t *length,
                                  struct pccl_text *reason)
{
    *length = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return errno == ENOENT ? PCCL_OK : fail(reason, "cannot read", path, strerror(errno));
    const char *fault = fault_of(descriptor, is_private);
    while (!fault && *length < FILE_BYTES_MAX) {
        ssize_t got = read(descriptor, text + *length, FILE_BYTES_MAX - *length);
        if (got > 0)
            *length += (size_t)got;
        else if (got == 0)
            break;
        else if (errno != EINTR)
            fault = strerror(errno);
    }
    (void)close(descriptor);
    text[*length] = '\0';
    if (!fault && *length == 0)
        fault = "it is empty";
    return fault ? fail(reason, "cannot use", path, fault) : PCCL_OK;
}

static int write_all(int descriptor, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(descriptor, text, length);
        if (wrote < 0 && errno != EINTR)
            return errno;
        text += wrote > 0 ? wrote : 0;
        length -= wrote > 0 ? (size_t)wrote : 0;
    }
    return fsync(descriptor) == 0 ? 0 : errno;
}

/*
 * A new file that only this user may read: it appears with all of its text, and never in the place
 * of another one.
 */
static enum pccl_status make_file(const char *path, const char *text, struct pccl_text *reason)
{
    char temporary[2 * PCCL_PARAM_BYTES_MAX + 32];
    (void)snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)uv_os_getpid());
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor < 0)
        return fail(reason, "cannot make", temporary, strerror(errno));
    int error = write_all(descriptor, text, strlen(text));
    if (close(descriptor) != 0 && !error)
        error = errno;
    if (!error && link(temporary, path) != 0)
        error = errno;
    (void)unlink(temporary);
    return error ? fail(reason, "cannot make", path, strerror(error)) : PCCL_OK;
}

/* The same of one line, whose end `line` has room for. Wipes it. */
static enum pccl_status make_line(const char *path, char *line, size_t length, struct pccl_text *reason)
{
    memcpy(line + length, "\n", 2);
    enum pccl_status status = make_file(path, line, reason);
    pccl_wipe(line, length);
    return status;
}

static enum pccl_status make_directory(const char *path, struct pccl_text *reason)
{
    struct stat status;
    if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST)
        return fail(reason, "cannot make the directory", path, strerror(errno));
    if (stat(path, &status) != 0)
        return fail(reason, "cannot use the directory", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return fail(reason, "cannot use the directory", path, "it is none");
    if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return fail(reason, "cannot use the directory", path,
                    "it belongs to another user, or others may use it: 'chmod 700' it, or name another one");
    return PCCL_OK;
}

/* ---- a peer's ---- */

enum pccl_status pccl_credentials_of_peer(struct pccl_params *params, struct pccl_keys **keys, struct pccl_text *reason)
{
    struct pccl_token token;
    char text[FILE_BYTES_MAX + 1];
    size_t length = 0;
    enum pccl_status status = PCCL_OK;
    const char *path = params->token_file;
    *keys = NULL;
    if (params->token[0]) {
        length = (size_t)snprintf(text, sizeof text, "%s", params->token);
        pccl_wipe(params->token, sizeof params->token);
    } else if (path[0]) {
        status = read_file(path, false, text, &length, reason);
        if (status == PCCL_OK && length == 0)
            status = fail(reason, "cannot read", path, strerror(ENOENT));
    }
    if (status == PCCL_OK && length > 0) {
        if (pccl_token_read(text, &token)) {
            *keys = pccl_keys_of_peer(pccl_heap(), &token, reason);
            status = *keys ? PCCL_OK : PCCL_UNSUPPORTED;
        } else {
            pccl_text_format(reason, "%s is no token of a master", path[0] ? path : "the value of token");
            status = PCCL_ARGUMENT;
        }
    }
    pccl_wipe(text, sizeof text);
    pccl_wipe(&token, sizeof token);
    return status;
}

/* ---- a master's ---- */

static void name_files(const struct pccl_params *params, struct pccl_credential_files *files)
{
    const char *state = params->master_state, *token = params->master_token_file;
    files->token[0] = files->key[0] = '\0';
    if (token[0])
        (void)snprintf(files->token, sizeof files->token, "%s", token);
    else if (state[0])
        (void)snprintf(files->token, sizeof files->token, "%s/run.token", state);
    if (state[0])
        (void)snprintf(files->key, sizeof files->key, "%s/master.key", state);
    else if (token[0])
        (void)snprintf(files->key, sizeof files->key, "%s.key", token);
}

static enum pccl_status make_secret(struct pccl_secret *secret, struct pccl_text *reason)
{
    if (pccl_random_bytes(secret->bytes, sizeof secret->bytes))
        return PCCL_OK;
    pccl_text_format(reason, "the system provides no entropy");
    return PCCL_SYSTEM;
}

static enum pccl_status read_key(const char *path, struct pccl_secret *key, bool *exists, struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length;
    enum pccl_status status = read_file(path, true, text, &length, reason);
    *exists = length > 0;
    if (status == PCCL_OK && *exists && !pccl_secret_read(text, key))
        status = fail(reason, "cannot use", path, "it is no key of a master");
    pccl_wipe(text, sizeof text);
    return status;
}

static enum pccl_status make_key(const char *path, struct pccl_secret *key, struct pccl_text *reason)
{
    char text[PCCL_SECRET_TEXT + 2];
    enum pccl_status status = make_secret(key, reason);
    if (status != PCCL_OK)
        return status;
    pccl_secret_write(key, text);
    return make_line(path, text, PCCL_SECRET_TEXT, reason);
}

static enum pccl_status read_token(const char *path, struct pccl_token *token, bool *exists, struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length;
    enum pccl_status status = read_file(path, true, text, &length, reason);
    *exists = length > 0;
    if (status == PCCL_OK && *exists && !pccl_token_read(text, token))
        status = fail(reason, "cannot use", path, "it is no token of a master");
    pccl_wipe(text, sizeof text);
    return status;
}

static enum pccl_status make_token(const char *path, const uint8_t pin[PCCL_PIN_BYTES], struct pccl_token *token,
                                   struct pccl_text *reason)
{
    char text[PCCL_TOKEN_TEXT + 2];
    enum pccl_status status = make_secret(&token->secret, reason);
    if (status != PCCL_OK)
        return status;
    memcpy(token->pin, pin, PCCL_PIN_BYTES);
    pccl_token_write(token, text);
    return make_line(path, text, PCCL_TOKEN_TEXT, reason);
}

static enum pccl_status keep(const struct pccl_credential_files *files, struct pccl_secret *key,
                             struct pccl_token *token, bool *made, struct pccl_text *reason)
{
    bool has_key, has_token;
    uint8_t pin[PCCL_PIN_BYTES];
    enum pccl_status status = read_key(files->key, key, &has_key, reason);
    if (status == PCCL_OK)
        status = read_token(files->token, token, &has_token, reason);
    if (status == PCCL_OK && has_token && !has_key) {
        pccl_text_format(reason,
                         "%s is the token of a key that should be in %s and is missing: bring that back, or "
                         "remove the token; then both are made anew, and all peers need the new token",
                         files->token, files->key);
        status = PCCL_SYSTEM;
    }
    if (status == PCCL_OK && !has_key)
        status = make_key(files->key, key, reason);
    if (status == PCCL_OK && !pccl_keys_pin(key, pin, reason))
        status = PCCL_UNSUPPORTED;
    if (status == PCCL_OK && has_token && memcmp(pin, token->pin, sizeof pin) != 0) {
        pccl_text_format(reason, "%s is not the token of the key in %s", files->token, files->key);
        status = PCCL_SYSTEM;
    }
    *made = status == PCCL_OK && !has_token;
    return *made ? make_token(files->token, pin, token, reason) : status;
}

enum pccl_status pccl_credentials_of_master(const struct pccl_params *params, struct pccl_keys **keys,
                                            struct pccl_credential_files *files, bool *made, struct pccl_text *reason)
{
    struct pccl_secret key;
    struct pccl_token token;
    *keys = NULL;
    *made = false;
    name_files(params, files);
    if (!files->token[0] || strcmp(params->encryption, "off") == 0)
        return PCCL_OK;
    if (!pccl_openssl(reason)) /* before files are made */
        return PCCL_UNSUPPORTED;
    enum pccl_status status = params->master_state[0] ? make_directory(params->master_state, reason) : PCCL_OK;
    if (status == PCCL_OK)
        status = keep(files, &key, &token, made, reason);
    if (status == PCCL_OK) {
        *keys = pccl_keys_of_master(pccl_heap(), &key, &token.secret, reason);
        status = *keys ? PCCL_OK : PCCL_MEMORY;
    }
    if (*keys)
        pccl_keys_set_open_links(*keys, strcmp(params->encryption, "control") == 0);
    pccl_wipe(&key, sizeof key);
    pccl_wipe(&token, sizeof token);
    return status;
}

/* ---- of operators ---- */

enum pccl_status pccl_credentials_admin(const char *path, char token[PCCL_ADMIN_TOKEN_MAX + 1],
                                        struct pccl_text *reason)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length = 0;
    enum pccl_status status = read_file(path, true, text, &length, reason);
    if (status != PCCL_OK)
        return status;
    if (length == 0)
        return fail(reason, "cannot read", path, strerror(ENOENT));
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    bool good = length >= PCCL_ADMIN_TOKEN_LEAST && length <= PCCL_ADMIN_TOKEN_MAX;
    for (size_t i = 0; i < length; i++)
        good = good && text[i] > ' ' && text[i] <= '~';
    if (good) {
        memcpy(token, text, length);
        token[length] = '\0';
    }
    pccl_wipe(text, sizeof text);
    return good ? PCCL_OK
                : fail(reason, "cannot use", path,
                       "a token is one line of 16 to 128 printable characters without blanks; 'openssl rand -hex 32' "
                       "makes one");
}
