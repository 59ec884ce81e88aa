#include "core/names.h"

#include <string.h>

static const char mention[] = "peer ";
enum { MENTION = sizeof mention - 1 };

struct named {
    struct pccl_table_node by_digits;
    struct pccl_id id;
    char name[PCCL_NAME_MAX + 1];
};

static uint32_t digits_of(const struct pccl_id *id)
{
    return (uint32_t)id->bytes[0] << 24 | (uint32_t)id->bytes[1] << 16 | (uint32_t)id->bytes[2] << 8 | id->bytes[3];
}

static struct named *find(const struct pccl_names *names, uint32_t digits)
{
    struct pccl_table_node *node = pccl_table_find(&names->by_digits, digits);
    return node == NULL ? NULL : PCCL_CONTAINER_OF(node, struct named, by_digits);
}

static struct named *find_id(const struct pccl_names *names, const struct pccl_id *id)
{
    struct named *named = find(names, digits_of(id));
    return named != NULL && pccl_id_equal(&named->id, id) ? named : NULL;
}

static void drop(struct pccl_names *names, struct named *named)
{
    pccl_table_remove(&names->by_digits, &named->by_digits);
    pccl_release(names->by_digits.memory, named, sizeof *named);
}

void pccl_names_init(struct pccl_names *names, const struct pccl_memory *memory, const struct pccl_hash_key *hash)
{
    pccl_table_init(&names->by_digits, memory, hash);
}

static bool keeps_none(const void *context, const struct pccl_id *id)
{
    (void)context;
    (void)id;
    return false;
}

void pccl_names_fini(struct pccl_names *names)
{
    pccl_names_prune(names, keeps_none, NULL);
    pccl_table_fini(&names->by_digits);
}

void pccl_names_set(struct pccl_names *names, const struct pccl_id *id, const char *bytes, size_t length)
{
    if (length == 0 || find(names, digits_of(id)) != NULL)
        return;
    struct named *named = pccl_allocate(names->by_digits.memory, sizeof *named);
    if (named == NULL)
        return;
    struct pccl_text printable;
    pccl_text_clear(&printable);
    pccl_text_add_bytes(&printable, bytes, length < PCCL_NAME_MAX ? length : PCCL_NAME_MAX);
    named->id = *id;
    memcpy(named->name, printable.bytes, printable.length);
    pccl_table_insert(&names->by_digits, &named->by_digits, digits_of(id));
}

void pccl_names_forget(struct pccl_names *names, const struct pccl_id *id)
{
    struct named *named = find_id(names, id);
    if (named != NULL)
        drop(names, named);
}

void pccl_names_prune(struct pccl_names *names, bool (*keeps)(const void *context, const struct pccl_id *id),
                      const void *context)
{
    for (struct pccl_table_node *node = pccl_table_first(&names->by_digits), *next; node != NULL; node = next) {
        struct named *named = PCCL_CONTAINER_OF(node, struct named, by_digits);
        next = pccl_table_after(&names->by_digits, node);
        if (!keeps(context, &named->id))
            drop(names, named);
    }
}

const char *pccl_names_of(const struct pccl_names *names, const struct pccl_id *id)
{
    const struct named *named = find_id(names, id);
    return named == NULL ? NULL : named->name;
}

/* ---- names in texts ---- */

static bool is_letter_or_digit(char character)
{
    return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'Z') ||
           (character >= 'a' && character <= 'z');
}

/* Returns true if the terminated text begins with a mention of a peer, and sets *digits to the digits of its id. */
static bool read_mention(const char *words, size_t length, uint32_t *digits)
{
    if (length < MENTION + PCCL_ID_DIGITS || memcmp(words, mention, MENTION) != 0)
        return false;
    struct pccl_id id;
    if (!pccl_id_read(words + MENTION, PCCL_ID_DIGITS, &id) || is_letter_or_digit(words[MENTION + PCCL_ID_DIGITS]))
        return false;
    *digits = digits_of(&id);
    return true;
}

/* Returns the length, with quotes, of the quoted name at the beginning of the text, or 0 if there is no such name. */
static size_t quoted_length(const char *words, size_t length)
{
    if (length < 2 || words[0] != ' ' || words[1] != '\'')
        return 0;
    size_t end = 2;
    while (end < length && words[end] != '\'')
        end++;
    return end < length ? end + 1 : length;
}

/*
 * Appends the quoted name. Replaces quotes inside the name, because strangers choose names and must not be able to
 * close the quotes and add text.
 */
static void add_quoted(struct pccl_text *words, const struct named *named)
{
    char name[sizeof named->name];
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = (char)(named->name[i] == '\'' ? '"' : named->name[i]);
    pccl_text_append(words, " '%s'", name);
}

void pccl_names_copy(const struct pccl_names *names, const struct pccl_id *id, char out[PCCL_NAME_MAX + 1])
{
    const char *name = pccl_names_of(names, id);
    size_t length = 0;
    for (; name != NULL && length < PCCL_NAME_MAX && name[length] != '\0'; length++)
        out[length] = name[length];
    out[length] = '\0';
}

void pccl_names_add_to(const struct pccl_names *names, struct pccl_text *words)
{
    struct pccl_text said;
    pccl_text_clear(&said);
    const char *end = words->bytes + words->length;
    const char *from = words->bytes; /* rest of the text, not copied to `said` yet */
    for (const char *at = from; at < end;) {
        uint32_t digits;
        if (!read_mention(at, (size_t)(end - at), &digits)) {
            at++;
            continue;
        }
        at += MENTION + PCCL_ID_DIGITS;
        size_t quoted = quoted_length(at, (size_t)(end - at));
        const struct named *named = quoted > 0 ? NULL : find(names, digits);
        at += quoted;
        pccl_text_add_bytes(&said, from, (size_t)(at - from));
        from = at;
        if (named != NULL)
            add_quoted(&said, named);
    }
    pccl_text_add_bytes(&said, from, (size_t)(end - from));
    *words = said;
}
