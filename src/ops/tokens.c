#include "ops/tokens.h"

#include "config/params.h"
#include "core/ticket.h"
#include "os/random.h"
#include "os/secret_file.h"
#include "log/logger.h"
#include "net/heap.h"
#include "ops/token_list.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char run_label[] = "run token";

struct pccl_tokens {
    struct pccl_token_file book;
    uint8_t pin[PCCL_PIN_BYTES];
    uint8_t run_key[PCCL_PUBLIC_BYTES]; /* public key of the run's own token */
    bool run_checked;                   /* the text of the run's token had a checksum */
    bool joins;                         /* peers join with tokens */
    bool changed;                       /* the book has changed since it was last written */
    bool unsaved;                       /* a revocation is not on disk yet, and must be written durably */
    bool told;                          /* true if a failure to write has been logged */
    bool admits;      /* a use in this iteration of the loop has been admitted but is not written yet */
    uint64_t tried_s; /* time of the last failed write */
    void (*each)(void *context, uint32_t pass);
    void *context;
    char path[2 * PCCL_PARAM_BYTES_MAX];
    char run_path[2 * PCCL_PARAM_BYTES_MAX];
};

static uint64_t now_s(void)
{
    time_t now = time(NULL);
    return now > 0 ? (uint64_t)now : 0;
}

/* ---- the token file ---- */

static enum pccl_status load(struct pccl_tokens *tokens, struct pccl_text *reason)
{
    struct pccl_text why;
    size_t length;
    if (!tokens->path[0])
        return PCCL_OK;
    char *text = pccl_heap_raw(PCCL_TOKEN_FILE_TEXT_MAX + 1);
    if (!text)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for tokens");
    enum pccl_status status =
        pccl_secret_file_read(tokens->path, true, text, PCCL_TOKEN_FILE_TEXT_MAX, &length, reason);
    if (status == PCCL_OK && length > 0 && pccl_token_file_read(&tokens->book, text, length, &why) != PCCL_OK) {
        pccl_text_format(reason,
                         "cannot use %s: %s. Restore a valid copy, or remove it: then only the run's own token is "
                         "valid, even if it was revoked",
                         tokens->path, why.bytes);
        status = PCCL_SYSTEM;
    }
    pccl_release(pccl_heap(), text, PCCL_TOKEN_FILE_TEXT_MAX + 1);
    return status;
}

enum purpose {
    TRY,    /* only check whether the file can be written */
    CHANGE, /* write durably */
    REVOKE  /* write durably, using the reserved space if necessary */
};

static enum pccl_status write_text(const struct pccl_tokens *tokens, const struct pccl_print *text,
                                   enum purpose purpose, struct pccl_text *reason)
{
    if (purpose == REVOKE)
        return pccl_secret_file_replace_anyway(tokens->path, text->bytes, text->length, reason);
    enum pccl_status status = pccl_secret_file_reserve(tokens->path, text->length, reason);
    if (status != PCCL_OK)
        return status;
    return purpose == TRY ? pccl_secret_file_try(tokens->path, text->bytes, text->length, reason)
                          : pccl_secret_file_replace(tokens->path, text->bytes, text->length, reason);
}

static enum pccl_status store(struct pccl_tokens *tokens, enum purpose purpose, struct pccl_text *reason)
{
    struct pccl_print print;
    if (!tokens->path[0]) {
        tokens->changed = false;
        return PCCL_OK;
    }
    if (tokens->unsaved)
        purpose = REVOKE;
    pccl_print_init(&print, pccl_heap(), PCCL_TOKEN_FILE_TEXT_MAX);
    pccl_token_file_write(&tokens->book, &print);
    pccl_token_file_pad(&tokens->book, &print);
    enum pccl_status status = PCCL_MEMORY;
    if (print.failed)
        pccl_text_format(reason, "out of memory for the text of the tokens");
    else
        status = write_text(tokens, &print, purpose, reason);
    pccl_print_fini(&print);
    if (status != PCCL_OK) {
        tokens->tried_s = now_s();
        return status;
    }
    if (purpose == TRY)
        return PCCL_OK;
    if (tokens->told)
        pccl_logger_write(PCCL_LOG_INFO, "master", "writing the token file works again");
    tokens->changed = tokens->unsaved = tokens->told = false;
    return PCCL_OK;
}

static void tell(struct pccl_tokens *tokens, const struct pccl_text *reason)
{
    if (!tokens->told)
        pccl_logger_print(PCCL_LOG_ERROR, "master",
                          "cannot write the token file, so tokens with a number of uses are not accepted%s: %s",
                          tokens->unsaved ? ", and a revocation may be lost when the master restarts" : "",
                          reason->bytes);
    tokens->told = true;
}

void pccl_tokens_save(struct pccl_tokens *tokens)
{
    struct pccl_text reason;
    if (!tokens || !tokens->changed)
        return;
    bool waits = tokens->told && tokens->tried_s == now_s() && !tokens->admits;
    tokens->admits = false;
    if (waits)
        return;
    if (store(tokens, CHANGE, &reason) != PCCL_OK)
        tell(tokens, &reason);
}

/* ---- life ---- */

static bool is_runs(const struct pccl_pass *pass) { return strcmp(pass->label, run_label) == 0; }

/*
 * Ends the run's earlier tokens when a new one replaces them. Tokens from files are revoked. A token from a shared
 * secret is dropped unless it was revoked, because the new secret may be a mistake, and the user may return to the
 * earlier one.
 */
static enum pccl_status end_earlier(struct pccl_tokens *tokens, struct pccl_text *reason)
{
    for (uint32_t i = tokens->book.count; i-- > 0;) {
        struct pccl_pass *pass = &tokens->book.passes[i];
        if (!is_runs(pass) || pass->revoked_s != 0)
            continue;
        if (!tokens->run_checked) {
            pccl_text_format(reason,
                             "the token in %s has changed, and without a checksum it may be damaged: restore the right "
                             "token, or remove the file to create another token and revoke the old one",
                             tokens->run_path);
            return PCCL_SYSTEM;
        }
        if (tokens->run_path[0])
            (void)pccl_token_file_revoke(&tokens->book, pass, now_s());
        else
            pccl_token_file_drop(&tokens->book, pass->number);
    }
    return PCCL_OK;
}

/* Adds the run's own token to the book if it is missing, and sets *added in that case. */
static enum pccl_status note_run(struct pccl_tokens *tokens, bool *added, struct pccl_text *reason)
{
    struct pccl_terms terms = {.role = PCCL_ROLE_JOIN};
    const struct pccl_pass *before = tokens->joins ? pccl_token_file_find(&tokens->book, tokens->run_key) : NULL;
    *added = tokens->joins && !before;
    if (*added) {
        enum pccl_status status = end_earlier(tokens, reason);
        memcpy(terms.label, run_label, sizeof run_label);
        if (status == PCCL_OK && !pccl_token_file_add(&tokens->book, tokens->run_key, &terms, now_s(), reason))
            status = PCCL_LIMIT;
        return status;
    }
    if (before && (before->revoked_s != 0 || before->ends_s != 0))
        pccl_logger_print(
            PCCL_LOG_WARN, "master", "the run's own token %s: %s",
            before->revoked_s != 0 ? "is revoked, so no peer can join with it"
                                   : "is not the current one, and peers cannot join with it after it expires",
            tokens->run_path[0] ? "create another one with 'pccl-master token rotate'"
                                : "change the secret (PCCL_SECRET) of the master and all peers, and restart them");
    return PCCL_OK;
}

struct pccl_tokens *pccl_tokens_open(const char *path, const struct pccl_token *run, const char *run_path,
                                     struct pccl_text *reason)
{
    struct pccl_tokens *tokens = pccl_allocate(pccl_heap(), sizeof *tokens);
    size_t length = strlen(path), run_length = strlen(run_path);
    PCCL_ASSERT(length < sizeof tokens->path && run_length < sizeof tokens->run_path);
    if (!tokens) {
        pccl_text_format(reason, "out of memory for tokens");
        return NULL;
    }
    pccl_token_file_init(&tokens->book, pccl_heap());
    memcpy(tokens->path, path, length + 1);
    memcpy(tokens->run_path, run_path, run_length + 1);
    tokens->joins = run != NULL;
    if (!run)
        return tokens;
    memcpy(tokens->pin, run->pin, sizeof tokens->pin);
    tokens->run_checked = run->checked;
    if (pccl_keys_public(&run->secret, tokens->run_key, reason))
        return tokens;
    pccl_tokens_close(tokens);
    return NULL;
}

enum pccl_status pccl_tokens_begin(struct pccl_tokens *tokens, struct pccl_text *reason)
{
    bool added;
    pccl_token_file_fini(&tokens->book); /* an earlier start of the master may have failed */
    enum pccl_status status = load(tokens, reason);
    if (status == PCCL_OK)
        status = note_run(tokens, &added, reason);
    if (status != PCCL_OK)
        return status;
    tokens->changed = true; /* until it has been written, which also reserves space */
    status = store(tokens, CHANGE, reason);
    if (status == PCCL_OK || added)
        return status;
    tell(tokens, reason);
    return PCCL_OK;
}

void pccl_tokens_close(struct pccl_tokens *tokens)
{
    if (!tokens)
        return;
    pccl_token_file_fini(&tokens->book);
    pccl_release(pccl_heap(), tokens, sizeof *tokens);
}

void pccl_tokens_set_peers(struct pccl_tokens *tokens, void (*each)(void *context, uint32_t pass), void *context)
{
    tokens->each = each;
    tokens->context = context;
}

/* ---- admission ---- */

enum pccl_keys_verdict pccl_tokens_judge(void *context, const uint8_t key[PCCL_PUBLIC_BYTES])
{
    const struct pccl_tokens *tokens = context;
    const struct pccl_pass *pass = pccl_token_file_find(&tokens->book, key);
    if (!pass)
        return PCCL_KEYS_UNKNOWN;
    return pass->revoked_s != 0 ? PCCL_KEYS_REVOKED : PCCL_KEYS_GOOD;
}

/*
 * Checks that a use that was just recorded can be written. pccl_tokens_save writes all uses of a loop iteration at
 * once, because each write takes disk time; after a failure, this function writes each use immediately. On entry,
 * *reason contains the token's number and label. If the use cannot be written, undoes it and returns an error with a
 * reason.
 */
static enum pccl_status check_use(struct pccl_tokens *tokens, struct pccl_text *reason)
{
    struct pccl_text name = *reason;
    if (store(tokens, tokens->told ? CHANGE : TRY, reason) == PCCL_OK) {
        tokens->admits = true;
        return PCCL_OK;
    }
    tell(tokens, reason);
    pccl_token_file_take_back(&tokens->book);
    pccl_text_format(
        reason,
        "its token, %s, has a limited number of uses, which the master cannot record on disk; see the master's log",
        name.bytes);
    return PCCL_REFUSED;
}

enum pccl_status pccl_tokens_admit(struct pccl_tokens *tokens, const uint8_t key[PCCL_PUBLIC_BYTES],
                                   const struct pccl_id *peer, uint32_t *pass, struct pccl_text *reason)
{
    struct pccl_pass *found = pccl_token_file_find(&tokens->book, key);
    struct pccl_id digest = pccl_secret_digest(peer);
    bool noted;
    *pass = found ? found->number : 0;
    if (!found) /* since the handshake, it was dropped to make room for another token */
        return pccl_fail(reason, PCCL_REFUSED, "its token is no longer valid at this master");
    enum pccl_status status =
        pccl_token_file_admit(&tokens->book, found, PCCL_ROLE_JOIN, &digest, now_s(), &noted, reason);
    if (!noted)
        return status;
    tokens->changed = true;
    return found->uses != 0 ? check_use(tokens, reason) : status;
}

void pccl_tokens_keep(struct pccl_tokens *tokens, uint32_t pass, const struct pccl_id *peer)
{
    struct pccl_pass *found = pccl_token_file_numbered(&tokens->book, pass);
    struct pccl_id digest = pccl_secret_digest(peer);
    if (found)
        pccl_token_file_keep(&tokens->book, found, &digest);
}

enum pccl_status pccl_tokens_show(struct pccl_tokens *tokens, const char *text, enum pccl_role role,
                                  struct pccl_text *reason)
{
    struct pccl_token token;
    uint8_t key[PCCL_PUBLIC_BYTES];
    const char *fault = pccl_token_read(text, &token);
    bool noted, read = !fault && memcmp(token.pin, tokens->pin, sizeof token.pin) == 0;
    bool failed = read && !pccl_keys_public(&token.secret, key, reason);
    pccl_wipe(&token, sizeof token);
    if (failed)
        return PCCL_MEMORY;
    struct pccl_pass *pass = read ? pccl_token_file_find(&tokens->book, key) : NULL;
    if (!pass)
        return pccl_fail(reason, PCCL_REFUSED, "%s", fault ? fault : "not a token of this master");
    return pccl_token_file_admit(&tokens->book, pass, role, NULL, now_s(), &noted, reason);
}

/* ---- commands ---- */

static void refuse(struct pccl_print *answer, const char *words)
{
    pccl_print_add(answer, "no\n");
    pccl_print_add(answer, words);
    pccl_print_add(answer, "\n");
}

/* Takes a number and the blank that follows it. */
static bool take_number(const char **at, uint64_t most, uint64_t *number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    *number = strtoull(*at, &end, 10);
    *at = end + 1;
    return *end == ' ' && *number <= most;
}

static bool read_terms(const char *at, struct pccl_terms *terms)
{
    const char *blank = strchr(at, ' ');
    uint64_t uses;
    *terms = (struct pccl_terms){.uses = 0};
    if (!blank || !pccl_role_find(at, (size_t)(blank - at), &terms->role))
        return false;
    at = blank + 1;
    if (!take_number(&at, INT64_MAX, &terms->ttl_s) || !take_number(&at, UINT32_MAX, &uses) ||
        strlen(at) >= sizeof terms->label)
        return false;
    terms->uses = (uint32_t)uses;
    memcpy(terms->label, at, strlen(at) + 1);
    return true;
}

/* Adds a pass to the book and the file. On failure, adds it to neither and returns NULL with a reason. */
static struct pccl_pass *add(struct pccl_tokens *tokens, struct pccl_token *token, const struct pccl_terms *terms,
                             struct pccl_text *reason)
{
    uint8_t key[PCCL_PUBLIC_BYTES];
    memcpy(token->pin, tokens->pin, sizeof token->pin);
    if (!pccl_random_bytes(token->secret.bytes, sizeof token->secret.bytes)) {
        pccl_text_format(reason, "cannot get random bytes from the system");
        return NULL;
    }
    if (!pccl_keys_public(&token->secret, key, reason))
        return NULL;
    struct pccl_pass *pass = pccl_token_file_add(&tokens->book, key, terms, now_s(), reason);
    if (pass && store(tokens, CHANGE, reason) != PCCL_OK) {
        pccl_token_file_drop(&tokens->book, pass->number);
        pass = NULL;
    }
    return pass;
}

static void answer_token(const struct pccl_token *token, struct pccl_print *answer)
{
    char text[PCCL_TOKEN_TEXT + 1];
    pccl_token_write(token, text);
    pccl_print_add(answer, "ok\n");
    pccl_print_add(answer, text);
    pccl_print_add(answer, "\n");
    pccl_wipe(text, sizeof text);
}

static void create(struct pccl_tokens *tokens, const char *words, struct pccl_print *answer)
{
    struct pccl_terms terms;
    struct pccl_token token;
    struct pccl_text reason;
    if (!read_terms(words, &terms)) {
        refuse(answer, "expected a role (join, observe or admin), seconds, uses and a label of at most 64 bytes");
        return;
    }
    if (terms.role == PCCL_ROLE_JOIN && !tokens->joins) {
        refuse(answer, "peers of this master use certificates: expected the role observe or admin");
        return;
    }
    if (strcmp(terms.label, run_label) == 0) {
        refuse(answer, "this label belongs to the run's own token");
        return;
    }
    const struct pccl_pass *pass = add(tokens, &token, &terms, &reason);
    if (!pass) {
        refuse(answer, reason.bytes);
    } else {
        answer_token(&token, answer);
        pccl_logger_print(PCCL_LOG_INFO, "master", "created token %u: %s %s", pass->number, pccl_role_name(pass->role),
                          pass->label);
    }
    pccl_wipe(&token, sizeof token);
}

static void revoke(struct pccl_tokens *tokens, const char *name, struct pccl_print *answer, uint32_t *revoked)
{
    struct pccl_text reason;
    struct pccl_pass *pass = pccl_token_file_named(&tokens->book, name);
    if (!pass || (!pccl_token_file_revoke(&tokens->book, pass, now_s()) && !tokens->unsaved)) {
        refuse(answer, pass ? "this token was already revoked" : "no token with this number or label");
        return;
    }
    *revoked = pass->number;
    pccl_logger_print(PCCL_LOG_WARN, "master", "revoked token %u: %s", pass->number,
                      pass->label[0] ? pass->label : pccl_role_name(pass->role));
    tokens->changed = tokens->unsaved = true;
    if (store(tokens, REVOKE, &reason) == PCCL_OK) {
        pccl_print_add(answer, "ok\n");
        return;
    }
    tell(tokens, &reason);
    pccl_text_append(&reason, "; the token is revoked, but may become valid again after a restart of the master: "
                              "revoke it again once the file is writable");
    refuse(answer, reason.bytes);
}

/* ---- rotation of the run's token ---- */

/* Replaces the token in the run's token file. */
static enum pccl_status write_run(const struct pccl_tokens *tokens, const struct pccl_token *token,
                                  struct pccl_text *reason)
{
    char text[PCCL_TOKEN_TEXT + 2];
    pccl_token_write(token, text);
    memcpy(text + PCCL_TOKEN_TEXT, "\n", 2);
    enum pccl_status status = pccl_secret_file_replace(tokens->run_path, text, PCCL_TOKEN_TEXT + 1, reason);
    pccl_wipe(text, sizeof text);
    return status;
}

/* Returns true if the run's token file may contain this token although writing it has failed. */
static bool may_be_written(const struct pccl_tokens *tokens, const struct pccl_token *token)
{
    char text[PCCL_TOKEN_TEXT + 1], present[PCCL_TOKEN_TEXT + 2];
    struct pccl_text reason;
    size_t length;
    pccl_token_write(token, text);
    bool may =
        pccl_secret_file_read(tokens->run_path, true, present, sizeof present - 1, &length, &reason) != PCCL_OK ||
        (length >= PCCL_TOKEN_TEXT && memcmp(text, present, PCCL_TOKEN_TEXT) == 0);
    pccl_wipe(text, sizeof text);
    pccl_wipe(present, sizeof present);
    return may;
}

/* Sets the expiry of all other tokens of the run to this time, unless they expire earlier. Their peers stay. */
static void end_others(struct pccl_tokens *tokens, uint32_t number, uint64_t ends_s)
{
    for (uint32_t i = 0; i < tokens->book.count; i++) {
        struct pccl_pass *pass = &tokens->book.passes[i];
        if (!is_runs(pass) || pass->number == number || pass->revoked_s != 0)
            continue;
        if (pass->ends_s == 0 && tokens->each)
            tokens->each(tokens->context, pass->number);
        if (pass->ends_s == 0 || pass->ends_s > ends_s)
            pass->ends_s = ends_s;
    }
}

/*
 * Writes the book with both tokens, then the run's token file, and then the expiry of the old token. If the master
 * crashes in between, the token in the file is therefore valid, and a second call completes the rotation.
 */
static void rotate(struct pccl_tokens *tokens, const char *words, struct pccl_print *answer)
{
    struct pccl_terms terms = {.role = PCCL_ROLE_JOIN};
    struct pccl_token token;
    struct pccl_text reason;
    char *end;
    uint64_t keep_s = strtoull(words, &end, 10);
    if (words[0] < '0' || words[0] > '9' || *end != '\0' || keep_s > PCCL_TOKEN_FILE_TTL_S_MAX) {
        refuse(answer, "expected a number of seconds, at most ten years");
        return;
    }
    if (!tokens->joins || !tokens->run_path[0]) {
        refuse(answer, tokens->joins ? "the run's token is derived from the pre-shared secret: change the secret and "
                                       "restart the master and all peers"
                                     : "peers of this master use certificates");
        return;
    }
    memcpy(terms.label, run_label, sizeof run_label);
    const struct pccl_pass *pass = add(tokens, &token, &terms, &reason);
    uint32_t number = pass ? pass->number : 0;
    if (pass && write_run(tokens, &token, &reason) != PCCL_OK) {
        if (!may_be_written(tokens, &token)) {
            pccl_token_file_drop(&tokens->book, number);
            tokens->changed = true;
        } else {
            pccl_text_append(&reason,
                             "; the run has a new token, but the previous token does not expire: repeat the command");
        }
        pass = NULL;
    }
    if (!pass) {
        refuse(answer, reason.bytes);
        pccl_wipe(&token, sizeof token);
        return;
    }
    end_others(tokens, number, now_s() + keep_s);
    tokens->changed = true;
    if (store(tokens, CHANGE, &reason) == PCCL_OK) {
        answer_token(&token, answer);
        pccl_logger_print(PCCL_LOG_INFO, "master", "the run has a new token, number %u, in %s", number,
                          tokens->run_path);
    } else {
        tell(tokens, &reason);
        pccl_text_append(&reason,
                         "; the run has a new token in %s, but the previous token may still be accepted after a "
                         "restart of the master: repeat the command once the token file is writable",
                         tokens->run_path);
        refuse(answer, reason.bytes);
    }
    pccl_wipe(&token, sizeof token);
}

void pccl_tokens_command(struct pccl_tokens *tokens, const char *command, struct pccl_print *answer, uint32_t *revoked)
{
    static const char create_word[] = "create ", revoke_word[] = "revoke ", rotate_word[] = "rotate ";
    *revoked = 0;
    if (strncmp(command, create_word, sizeof create_word - 1) == 0) {
        create(tokens, command + sizeof create_word - 1, answer);
    } else if (strncmp(command, revoke_word, sizeof revoke_word - 1) == 0) {
        revoke(tokens, command + sizeof revoke_word - 1, answer, revoked);
    } else if (strncmp(command, rotate_word, sizeof rotate_word - 1) == 0) {
        rotate(tokens, command + sizeof rotate_word - 1, answer);
    } else if (strcmp(command, "list") == 0) {
        pccl_print_add(answer, "ok\n");
        pccl_token_list(&tokens->book, now_s(), answer);
    } else if (strcmp(command, "list json") == 0) {
        pccl_print_add(answer, "ok\n");
        pccl_token_list_json(&tokens->book, now_s(), answer);
    } else {
        refuse(answer, "expected create, list, revoke or rotate");
    }
}
