#include "ops/token_file.h"

#include "core/siphash.h"

#include <string.h>

static const char head[] = "pccl-tokens 2 ", unchecked_head[] = "pccl-tokens 1 ";
static const char end_line[] = "end";
static const char *const role_names[PCCL_ROLES] = {"join", "observe", "admin"};

enum {
    HALF = sizeof(struct pccl_id),
    DIGITS = 2 * HALF,
    CHECK_DIGITS = 8,
    PAD = 4096,
    WORD_MAX = PCCL_TOKEN_FILE_LABEL_MAX + 1 /* more than the length of any valid word */
};

enum { REVOKED_DIGITS = 20 }; /* maximum number of characters that a revocation adds to the text */

_Static_assert(PCCL_PUBLIC_BYTES == 2 * HALF, "a key is written as two ids");

const char *pccl_role_name(enum pccl_role role) { return role_names[role]; }

bool pccl_role_find(const char *name, size_t length, enum pccl_role *role)
{
    for (uint32_t i = 0; i < PCCL_ROLES; i++) {
        if (pccl_string_length(role_names[i], WORD_MAX) != length || memcmp(role_names[i], name, length) != 0)
            continue;
        *role = (enum pccl_role)i;
        return true;
    }
    return false;
}

void pccl_token_file_init(struct pccl_token_file *book, const struct pccl_memory *memory)
{
    *book = (struct pccl_token_file){.memory = memory};
}

void pccl_token_file_fini(struct pccl_token_file *book)
{
    pccl_release(book->memory, book->passes, book->capacity * sizeof *book->passes);
    pccl_release(book->memory, book->guests, book->invitation_capacity * sizeof *book->guests);
    pccl_token_file_init(book, book->memory);
}

/* ---- passes ---- */

struct pccl_pass *pccl_token_file_find(const struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES])
{
    for (uint32_t i = 0; i < book->count; i++)
        if (memcmp(book->passes[i].key, key, PCCL_PUBLIC_BYTES) == 0)
            return &book->passes[i];
    return NULL;
}

struct pccl_pass *pccl_token_file_numbered(const struct pccl_token_file *book, uint32_t number)
{
    for (uint32_t i = 0; i < book->count; i++)
        if (book->passes[i].number == number)
            return &book->passes[i];
    return NULL;
}

/* Reads a decimal number. Returns false if there are no digits, or if it exceeds `most`. */
static bool take_number(const char **at, const char *end, uint64_t most, uint64_t *number)
{
    const char *begin = *at;
    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (digit > most || *number > (most - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    /* Rejects leading zeros, so that each number has only one text. */
    return *at > begin && (*begin != '0' || *at == begin + 1);
}

struct pccl_pass *pccl_token_file_named(const struct pccl_token_file *book, const char *name)
{
    size_t length = pccl_string_length(name, WORD_MAX);
    const char *at = name, *end = name + length;
    uint64_t number;
    for (uint32_t i = book->count; i-- > 0;)
        if (length > 0 && length <= PCCL_TOKEN_FILE_LABEL_MAX && memcmp(book->passes[i].label, name, length + 1) == 0)
            return &book->passes[i];
    return take_number(&at, end, UINT32_MAX, &number) && at == end ? pccl_token_file_numbered(book, (uint32_t)number)
                                                                   : NULL;
}

bool pccl_pass_has_expired(const struct pccl_pass *pass, uint64_t now_s)
{
    return pass->ends_s != 0 && now_s >= pass->ends_s;
}

bool pccl_pass_is_used_up(const struct pccl_pass *pass) { return pass->uses != 0 && pass->used >= pass->uses; }

static bool is_dead(const struct pccl_pass *pass, uint64_t now_s)
{
    return pass->revoked_s != 0 || pccl_pass_has_expired(pass, now_s) || pccl_pass_is_used_up(pass);
}

/* Forgets the peers of a pass that no longer exists. They cannot rejoin, so other peers can use their entries. */
static void forget_guests(struct pccl_token_file *book, uint32_t number)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < book->invitation_count; i++)
        if (book->guests[i].pass != number)
            book->guests[kept++] = book->guests[i];
    book->invitation_count = kept;
}

void pccl_token_file_drop(struct pccl_token_file *book, uint32_t number)
{
    struct pccl_pass *pass = pccl_token_file_numbered(book, number);
    if (pass == NULL)
        return;
    uint32_t index = (uint32_t)(pass - book->passes);
    book->count--;
    memmove(pass, pass + 1, (book->count - index) * sizeof *pass);
    forget_guests(book, number);
}

/* Makes room for a pass. Prefers to drop a revoked one, because peers of other passes may still rejoin. */
static bool make_room(struct pccl_token_file *book, uint64_t now_s)
{
    const struct pccl_pass *found = NULL;
    if (book->count < PCCL_TOKEN_FILE_PASSES_MAX)
        return true;
    for (uint32_t i = book->count; i-- > 0;) {
        const struct pccl_pass *pass = &book->passes[i];
        if (is_dead(pass, now_s) && (found == NULL || pass->revoked_s != 0 || found->revoked_s == 0))
            found = pass;
    }
    if (found != NULL)
        pccl_token_file_drop(book, found->number);
    return found != NULL;
}

/* Returns NULL if the terms are valid. */
static const char *fault_of(const struct pccl_terms *terms)
{
    size_t length = pccl_string_length(terms->label, PCCL_TOKEN_FILE_LABEL_MAX);
    if (terms->ttl_s > PCCL_TOKEN_FILE_TTL_S_MAX)
        return "invalid lifetime: expected at most ten years";
    if (terms->uses > PCCL_TOKEN_FILE_USES_MAX)
        return "invalid number of uses: expected at most 4096";
    if (terms->uses != 0 && terms->role != PCCL_ROLE_JOIN)
        return "only tokens with the role join can have a number of uses";
    for (size_t at = 0, taken; at < length; at += taken) {
        taken = pccl_text_character(terms->label + at, length - at);
        if (taken == 0)
            return "invalid label: expected printable text";
    }
    return length > 0 && (terms->label[0] == ' ' || terms->label[length - 1] == ' ')
               ? "invalid label: it begins or ends with a blank"
               : NULL;
}

/* Makes room for one more pass, which the caller initializes and counts. Returns NULL if out of memory. */
static struct pccl_pass *append(struct pccl_token_file *book)
{
    struct pccl_pass *passes =
        pccl_grow(book->memory, book->passes, &book->capacity, book->count + 1, sizeof *book->passes);
    if (passes == NULL)
        return NULL;
    book->passes = passes;
    return &passes[book->count];
}

struct pccl_pass *pccl_token_file_add(struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES],
                                      const struct pccl_terms *terms, uint64_t now_s, struct pccl_text *reason)
{
    const char *fault = fault_of(terms);
    if (fault == NULL && pccl_token_file_find(book, key) != NULL)
        fault = "this token already exists";
    if (fault == NULL && (book->last_number == UINT32_MAX || !make_room(book, now_s)))
        fault = "too many valid tokens (1000): revoke one that is not needed";
    struct pccl_pass *pass = fault == NULL ? append(book) : NULL;
    if (pass == NULL) {
        pccl_text_format(reason, "%s", fault != NULL ? fault : "out of memory for a token");
        return NULL;
    }
    book->count++;
    *pass = (struct pccl_pass){.number = ++book->last_number,
                               .role = terms->role,
                               .made_s = now_s,
                               .ends_s = terms->ttl_s != 0 ? now_s + terms->ttl_s : 0,
                               .uses = terms->uses};
    memcpy(pass->key, key, sizeof pass->key);
    memcpy(pass->label, terms->label, sizeof pass->label);
    return pass;
}

bool pccl_token_file_revoke(struct pccl_token_file *book, struct pccl_pass *pass, uint64_t now_s)
{
    if (pass->revoked_s != 0)
        return false;
    forget_guests(book, pass->number);
    pass->revoked_s = pccl_max_u64(now_s, 1);
    return true;
}

/* ---- permissions ---- */

static bool is_guest(const struct pccl_token_file *book, const struct pccl_pass *pass, const struct pccl_id *digest)
{
    for (uint32_t i = 0; i < book->invitation_count; i++)
        if (book->guests[i].pass == pass->number && pccl_id_equal(&book->guests[i].digest, digest))
            return true;
    return false;
}

/*
 * Returns the pass with the most recorded peers among those with unlimited uses, or NULL without recorded peers.
 * Prefers `pass` in case of a tie.
 */
static struct pccl_pass *most_crowded(const struct pccl_token_file *book, struct pccl_pass *pass)
{
    struct pccl_pass *found = pass->uses == 0 && pass->used > 0 ? pass : NULL;
    for (uint32_t i = 0; i < book->count; i++)
        if (book->passes[i].uses == 0 && book->passes[i].used > (found != NULL ? found->used : 0))
            found = &book->passes[i];
    return found;
}

/*
 * Forgets the peer that was recorded first for the pass with the most recorded peers. That peer cannot rejoin after its
 * token has expired. The peers of one token therefore cannot displace more than their share of the others. Returns
 * false if no peer can be forgotten.
 */
static bool make_room_for_guest(struct pccl_token_file *book, struct pccl_pass *pass)
{
    struct pccl_pass *crowded = most_crowded(book, pass);
    uint32_t at = 0;
    if (crowded == NULL)
        return false;
    while (book->guests[at].pass != crowded->number)
        at++;
    book->forgotten = book->guests[at];
    book->forgotten_at = at;
    crowded->used--;
    book->invitation_count--;
    memmove(&book->guests[at], &book->guests[at + 1], (book->invitation_count - at) * sizeof *book->guests);
    return true;
}

/* Records a peer. Returns false if there is no room, or if out of memory. */
static bool note_guest(struct pccl_token_file *book, struct pccl_pass *pass, const struct pccl_id *digest)
{
    book->forgotten.pass = 0;
    struct pccl_invitation *guests =
        book->invitation_count < PCCL_TOKEN_FILE_INVITATIONS_MAX || make_room_for_guest(book, pass)
            ? pccl_grow(book->memory, book->guests, &book->invitation_capacity, book->invitation_count + 1,
                        sizeof *guests)
            : NULL;
    if (guests == NULL)
        return false;
    book->guests = guests;
    guests[book->invitation_count++] = (struct pccl_invitation){.pass = pass->number, .digest = *digest};
    pass->used++;
    return true;
}

void pccl_token_file_take_back(struct pccl_token_file *book)
{
    struct pccl_invitation *at = &book->guests[book->forgotten_at];
    pccl_token_file_numbered(book, book->guests[--book->invitation_count].pass)->used--;
    if (book->forgotten.pass == 0)
        return;
    memmove(at + 1, at, (book->invitation_count++ - book->forgotten_at) * sizeof *at);
    *at = book->forgotten;
    pccl_token_file_numbered(book, at->pass)->used++;
    book->forgotten.pass = 0;
}

void pccl_token_file_keep(struct pccl_token_file *book, struct pccl_pass *pass, const struct pccl_id *digest)
{
    if (!is_guest(book, pass, digest))
        (void)note_guest(book, pass, digest);
}

/* Returns NULL if the role is permitted. */
static const char *objection(const struct pccl_token_file *book, const struct pccl_pass *pass, enum pccl_role role,
                             const struct pccl_id *digest, uint64_t now_s)
{
    static const char *const wrong_role[PCCL_ROLES] = {"does not allow joining", "does not allow reading",
                                                       "does not allow commands"};
    bool acts = pass->role == role || (pass->role == PCCL_ROLE_ADMIN && role == PCCL_ROLE_OBSERVE);
    if (pass->revoked_s != 0)
        return "was revoked";
    if (!acts)
        return wrong_role[role];
    if (digest != NULL && is_guest(book, pass, digest))
        return NULL;
    if (pccl_pass_has_expired(pass, now_s))
        return "has expired: create another one with 'pccl-master token create'";
    return pccl_pass_is_used_up(pass) ? "has no uses left: create another one with 'pccl-master token create'" : NULL;
}

enum pccl_status pccl_token_file_admit(struct pccl_token_file *book, struct pccl_pass *pass, enum pccl_role role,
                                       const struct pccl_id *digest, uint64_t now_s, bool *noted,
                                       struct pccl_text *reason)
{
    const char *why = objection(book, pass, role, digest, now_s);
    bool limited = pass->ends_s != 0 || pass->uses != 0;
    *noted = false;
    if (why == NULL && limited && digest != NULL && !is_guest(book, pass, digest)) {
        *noted = note_guest(book, pass, digest);
        /* If uses are unlimited, the only disadvantage is that the peer cannot rejoin after the token has expired. */
        if (!*noted && pass->uses != 0)
            why =
                "cannot be used: too many peers have joined with this master's tokens; revoke old tokens to make room";
    }
    pccl_text_format(reason, "%snumber %u", why ? "its token, " : "", pass->number);
    if (pass->label[0] != '\0')
        pccl_text_append(reason, " (%s)", pass->label);
    if (why == NULL)
        return PCCL_OK;
    pccl_text_append(reason, ", %s", why);
    return PCCL_REFUSED;
}

/* ---- the text ---- */

static void print_key(struct pccl_print *print, const uint8_t key[PCCL_PUBLIC_BYTES])
{
    struct pccl_id halves[2];
    memcpy(halves, key, sizeof halves);
    pccl_print_add_id(print, &halves[0]);
    pccl_print_add_id(print, &halves[1]);
}

/*
 * Ends a line with the first digits of its digest, which is keyed with the digest of the previous line (0 for the first
 * line).
 */
static void end_line_with_check(struct pccl_print *print, uint32_t begin, struct pccl_id *chain)
{
    char digits[CHECK_DIGITS];
    if (print->failed)
        return;
    struct pccl_id key = *chain;
    pccl_siphash(key.bytes, print->bytes + begin, print->length - begin, chain->bytes);
    pccl_id_write(chain, digits, sizeof digits);
    pccl_print_add(print, " ");
    pccl_print_add_bytes(print, digits, sizeof digits);
    pccl_print_add(print, "\n");
}

void pccl_token_file_write(const struct pccl_token_file *book, struct pccl_print *print)
{
    struct pccl_id chain = {{0}};
    uint32_t begin = print->length;
    pccl_print_format(print, "%s%u", head, book->last_number);
    end_line_with_check(print, begin, &chain);
    for (uint32_t i = 0; i < book->count; i++) {
        const struct pccl_pass *pass = &book->passes[i];
        begin = print->length;
        pccl_print_format(print, "token %u %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %u ", pass->number,
                          role_names[pass->role], pass->made_s, pass->ends_s, pass->revoked_s, pass->uses);
        print_key(print, pass->key);
        pccl_print_add(print, " ");
        pccl_print_add(print, pass->label);
        end_line_with_check(print, begin, &chain);
    }
    for (uint32_t i = 0; i < book->invitation_count; i++) {
        begin = print->length;
        pccl_print_format(print, "guest %u ", book->guests[i].pass);
        pccl_print_add_id(print, &book->guests[i].digest);
        end_line_with_check(print, begin, &chain);
    }
    begin = print->length;
    pccl_print_add(print, end_line);
    end_line_with_check(print, begin, &chain);
}

void pccl_token_file_pad(const struct pccl_token_file *book, struct pccl_print *print)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < book->count; i++)
        good += book->passes[i].revoked_s == 0;
    uint32_t size = print->length + good * REVOKED_DIGITS + (PAD - 1);
    for (size -= size % PAD; print->length < size && !print->failed;)
        pccl_print_add(print, "\n");
}

struct reader {
    const char *at, *end; /* rest of the current line */
    uint32_t line;
    bool checked, damaged; /* checked: lines have checksums; damaged: the current line's checksum is wrong */
    struct pccl_id chain;
};

/* Moves to the next line. Returns false if no complete line is left. */
static bool next_line(struct reader *reader, const char **rest, const char *end)
{
    const char *newline = memchr(*rest, '\n', (size_t)(end - *rest));
    if (newline == NULL)
        return false;
    reader->at = *rest;
    reader->end = newline;
    reader->line++;
    *rest = newline + 1;
    return true;
}

static bool take_words(struct reader *reader, const char *words)
{
    size_t length = pccl_string_length(words, WORD_MAX);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, words, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* Removes the checksum from the end of the line. Returns false if it is wrong or missing. */
static bool take_check(struct reader *reader)
{
    struct pccl_id key = reader->chain;
    char digits[CHECK_DIGITS];
    if (reader->end - reader->at <= CHECK_DIGITS || reader->end[-CHECK_DIGITS - 1] != ' ')
        return false;
    const char *check = reader->end - CHECK_DIGITS;
    reader->end = check - 1;
    pccl_siphash(key.bytes, reader->at, (size_t)(reader->end - reader->at), reader->chain.bytes);
    pccl_id_write(&reader->chain, digits, sizeof digits);
    return memcmp(check, digits, sizeof digits) == 0;
}

static bool take_field(struct reader *reader, uint64_t most, uint64_t *number)
{
    return take_words(reader, " ") && take_number(&reader->at, reader->end, most, number);
}

static bool take_role(struct reader *reader, enum pccl_role *role)
{
    if (!take_words(reader, " "))
        return false;
    const char *blank = memchr(reader->at, ' ', (size_t)(reader->end - reader->at));
    if (blank == NULL || !pccl_role_find(reader->at, (size_t)(blank - reader->at), role))
        return false;
    reader->at = blank;
    return true;
}

static bool take_id(struct reader *reader, struct pccl_id *id)
{
    if (reader->end - reader->at < DIGITS || !pccl_id_read(reader->at, DIGITS, id))
        return false;
    reader->at += DIGITS;
    return true;
}

static bool read_pass(struct pccl_token_file *book, struct reader *reader)
{
    struct pccl_pass *pass = book->count < PCCL_TOKEN_FILE_PASSES_MAX ? append(book) : NULL;
    uint64_t number, uses;
    struct pccl_id halves[2];
    if (pass == NULL)
        return false;
    *pass = (struct pccl_pass){.number = 0};
    if (!take_field(reader, book->last_number, &number) || !take_role(reader, &pass->role) ||
        !take_field(reader, INT64_MAX, &pass->made_s) || !take_field(reader, INT64_MAX, &pass->ends_s) ||
        !take_field(reader, INT64_MAX, &pass->revoked_s) || !take_field(reader, PCCL_TOKEN_FILE_USES_MAX, &uses) ||
        !take_words(reader, " ") || !take_id(reader, &halves[0]) || !take_id(reader, &halves[1]) ||
        !take_words(reader, " "))
        return false;
    size_t length = (size_t)(reader->end - reader->at);
    if (length > PCCL_TOKEN_FILE_LABEL_MAX || memchr(reader->at, '\0', length) != NULL)
        return false;
    memcpy(pass->label, reader->at, length);
    memcpy(pass->key, halves, sizeof halves);
    pass->number = (uint32_t)number;
    pass->uses = (uint32_t)uses;
    struct pccl_terms terms = {.role = pass->role, .uses = pass->uses};
    memcpy(terms.label, pass->label, sizeof terms.label);
    uint32_t before = book->count > 0 ? pass[-1].number : 0;
    if (pass->number <= before || fault_of(&terms) != NULL || pccl_token_file_find(book, pass->key) != NULL)
        return false;
    book->count++;
    return true;
}

static bool read_guest(struct pccl_token_file *book, struct reader *reader)
{
    uint64_t number;
    struct pccl_id digest;
    if (!take_field(reader, UINT32_MAX, &number) || !take_words(reader, " ") || !take_id(reader, &digest))
        return false;
    struct pccl_pass *pass = pccl_token_file_numbered(book, (uint32_t)number);
    return pass != NULL && reader->at == reader->end && book->invitation_count < PCCL_TOKEN_FILE_INVITATIONS_MAX &&
           !is_guest(book, pass, &digest) && (pass->uses != 0 ? !pccl_pass_is_used_up(pass) : pass->ends_s != 0) &&
           note_guest(book, pass, &digest);
}

/* Reads a line into the book. Returns false if it is invalid, or if out of memory. *ended is set for the last line. */
static bool read_line(struct pccl_token_file *book, struct reader *reader, bool *ended)
{
    uint64_t number;
    const char *begin = reader->at;
    if (reader->line == 1)
        reader->checked = !take_words(reader, unchecked_head);
    reader->at = begin;
    reader->damaged = reader->checked && !take_check(reader);
    if (reader->damaged)
        return false;
    if (reader->line == 1) {
        bool good = take_words(reader, reader->checked ? head : unchecked_head) &&
                    take_number(&reader->at, reader->end, UINT32_MAX, &number);
        book->last_number = good ? (uint32_t)number : 0;
        return good && reader->at == reader->end;
    }
    *ended = reader->end - reader->at == sizeof end_line - 1 && take_words(reader, end_line);
    if (*ended)
        return true;
    return take_words(reader, "token") ? read_pass(book, reader)
                                       : take_words(reader, "guest") && read_guest(book, reader);
}

enum pccl_status pccl_token_file_read(struct pccl_token_file *book, const char *text, size_t length,
                                      struct pccl_text *reason)
{
    struct reader reader = {.line = 0};
    const char *rest = text, *end = text + length;
    bool ended = false, good = true;
    while (good && !ended && next_line(&reader, &rest, end))
        good = read_line(book, &reader, &ended);
    while (good && ended && reader.checked && rest < end && *rest == '\n') /* skips padding */
        rest++;
    if (good && ended && rest == end)
        return PCCL_OK;
    if (!good)
        pccl_text_format(reason, "token file: line %u is %s", reader.line,
                         reader.damaged ? "damaged (wrong checksum)" : "malformed");
    else
        pccl_text_format(reason, "%s", ended ? "token file: data after the end" : "token file: the end is missing");
    pccl_token_file_fini(book);
    return PCCL_MALFORMED;
}
