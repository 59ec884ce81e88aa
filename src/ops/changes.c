#include "ops/changes.h"

#include "core/siphash.h"
#include "ops/json.h"

#include <string.h>

enum { EQUALS_LEAST = 3 }; /* equal values from which a count is shorter */

/* ---- revisions ---- */

/* Writes "0", or the number of this process and the revision. */
static void put_revision(const struct pccl_changes *changes, const char *key, uint64_t revision, struct pccl_json *json)
{
    struct pccl_text text;
    pccl_text_format(&text, "0");
    if (revision != 0)
        pccl_text_format(&text, "%" PRIu64 ".%" PRIu64, changes->boot, revision);
    pccl_json_string(json, key, text.bytes);
}

static bool read_number(const char *text, size_t length, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t digit = (uint32_t)(text[i] - '0');
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return length > 0;
}

bool pccl_changes_read(const struct pccl_changes *changes, const char *text, size_t length, uint64_t *since)
{
    const char *dot = memchr(text, '.', length);
    size_t digits = dot != NULL ? (size_t)(dot - text) : length;
    uint64_t boot;
    *since = 0;
    if (length == 1 && text[0] == '0')
        return true;
    if (dot == NULL || !read_number(text, digits, &boot) || !read_number(dot + 1, length - digits - 1, since))
        return false;
    if (boot != changes->boot || *since > changes->revision)
        *since = 0;
    return true;
}

/* ---- fields of an item's text ---- */

/* A view of a field in the text of an object. */
struct field {
    const char *key, *value;
    uint32_t key_length, value_length;
};

/* Returns the end of the JSON value that begins here, within text that this library has written. */
static const char *end_of_value(const char *at)
{
    uint32_t depth = 0;
    bool quoted = false;
    for (;; at++) {
        if (quoted) {
            quoted = *at != '"';
            at += *at == '\\';
        } else if (*at == '"') {
            quoted = true;
        } else if (*at == '[' || *at == '{') {
            depth++;
        } else if (depth == 0 && (*at == ',' || *at == '}')) {
            return at;
        } else if (*at == ']' || *at == '}') {
            depth--;
        }
    }
}

/* Takes the next field of an object; *at starts at its bracket. Returns false at the end. */
static bool next_field(const char **at, struct field *field)
{
    if (**at == '}' || (*at)[1] == '}')
        return false;
    field->key = *at + 2;
    const char *quote = field->key;
    while (*quote != '"')
        quote++;
    field->key_length = (uint32_t)(quote - field->key);
    field->value = quote + 2;
    *at = end_of_value(field->value);
    field->value_length = (uint32_t)(*at - field->value);
    return true;
}

static bool is_called(const struct field *field, const char *name)
{
    return field->key_length == pccl_string_length(name, PCCL_CHANGES_KEY_BYTES) &&
           memcmp(field->key, name, field->key_length) == 0;
}

static uint64_t hash_of(const void *bytes, size_t length)
{
    static const uint8_t key[PCCL_SIPHASH_KEY_BYTES] = {0};
    uint8_t digest[PCCL_SIPHASH_BYTES];
    uint64_t hash;
    pccl_siphash(key, bytes, length, digest);
    memcpy(&hash, digest, sizeof hash);
    return hash;
}

/* Hashes the value; of an age its beginning, which does not change while time passes. */
static uint64_t hash_of_field(const struct pccl_changes *changes, const struct field *field)
{
    uint64_t age_ms;
    bool is_age = is_called(field, "last_word_ms") || is_called(field, "told_ms") || is_called(field, "since_ms");
    if (!is_age || !read_number(field->value, field->value_length, &age_ms))
        return hash_of(field->value, field->value_length);
    uint64_t begin_ms = changes->uptime_ms - age_ms;
    return hash_of(&begin_ms, sizeof begin_ms);
}

/* Returns the index of a key. `hint` is where it probably is. */
static uint32_t index_of(struct pccl_keys_seen *keys, const struct field *field, uint32_t hint)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        uint32_t index = (hint + i) % keys->count;
        if (is_called(field, keys->names[index]))
            return index;
    }
    PCCL_ASSERT(keys->count < PCCL_CHANGES_KEYS_MAX && field->key_length < PCCL_CHANGES_KEY_BYTES);
    memcpy(keys->names[keys->count], field->key, field->key_length);
    keys->names[keys->count][field->key_length] = '\0';
    return keys->count++;
}

static void stamp(const struct pccl_changes *changes, struct pccl_stamp *stamp, uint64_t hash, bool is_new)
{
    if (is_new || stamp->hash != hash)
        *stamp = (struct pccl_stamp){hash, changes->revision};
}

/* Compares the fields of an object with their stamps. */
static void stamp_fields(const struct pccl_changes *changes, struct pccl_keys_seen *keys, struct pccl_stamps *stamps)
{
    const char *at = changes->item.bytes;
    uint32_t present = 0, index = 0;
    for (struct field field; next_field(&at, &field); index++) {
        index = index_of(keys, &field, index);
        present |= UINT32_C(1) << index;
        stamp(changes, &stamps->fields[index], hash_of_field(changes, &field), (stamps->present >> index & 1) == 0);
    }
    if ((stamps->present & ~present) != 0)
        stamps->whole = changes->revision;
    stamps->present = present;
}

/* ---- columns ---- */

static void column_add(struct pccl_column *column, const char *bytes, size_t length)
{
    pccl_print_add_bytes(&column->print, bytes, length);
}

static void begin_run(struct pccl_column *column)
{
    if (column->is_open)
        column_add(column, "]", 1);
    if (column->print.length > 0)
        column_add(column, ",", 1);
    column->is_open = false;
    pccl_print_format(&column->print, "%" PRIu64 ",", column->first);
}

/* Prints the equal values that are held back. */
static void flush(struct pccl_column *column)
{
    if (column->count >= EQUALS_LEAST) {
        begin_run(column);
        pccl_print_format(&column->print, "%" PRIu64 ",", column->count);
        column_add(column, column->value.bytes, column->value.length);
        column->count = 0;
    }
    for (; column->count > 0; column->count--) {
        bool follows = column->is_open && column->next == column->first;
        if (!follows) {
            begin_run(column);
            column->is_open = true;
        }
        column_add(column, follows ? "," : "[", 1);
        column_add(column, column->value.bytes, column->value.length);
        column->next = ++column->first;
    }
}

static void add_value(struct pccl_column *column, uint64_t number, const struct field *field)
{
    bool equal = column->count > 0 && number == column->first + column->count &&
                 column->value.length == field->value_length &&
                 memcmp(column->value.bytes, field->value, field->value_length) == 0;
    if (!equal) {
        flush(column);
        column->first = number;
        column->value.length = 0;
        pccl_print_add_bytes(&column->value, field->value, field->value_length);
    }
    column->count++;
}

/* ---- items ---- */

static void put_peer(struct pccl_changes *changes, uint32_t index)
{
    struct pccl_stamps *stamps = changes->peers[index];
    stamp_fields(changes, &changes->peer_keys, stamps);
    if (stamps->whole > changes->since) {
        pccl_print_add(&changes->whole, changes->whole.length > 0 ? ",\n" : "\n");
        pccl_print_format(&changes->whole, "[%" PRIu64 ",", stamps->number);
        pccl_print_add_bytes(&changes->whole, changes->item.bytes, changes->item.length);
        pccl_print_add(&changes->whole, "]");
        return;
    }
    const char *at = changes->item.bytes;
    uint32_t key = 0;
    for (struct field field; next_field(&at, &field); key++) {
        key = index_of(&changes->peer_keys, &field, key);
        if (stamps->fields[key].revision > changes->since)
            add_value(&changes->columns[key], stamps->number, &field);
    }
}

static void put_head(struct pccl_changes *changes, struct pccl_json *json)
{
    const char *from = changes->item.bytes;
    for (struct field field; next_field(&from, &field);)
        if (is_called(&field, "uptime_ms"))
            (void)read_number(field.value, field.value_length, &changes->uptime_ms);
    stamp_fields(changes, &changes->head_keys, &changes->head);
    pccl_json_open(json, NULL, '{');
    put_revision(changes, "since", changes->since, json);
    put_revision(changes, "revision", changes->revision, json);
    pccl_json_open(json, "head", '{');
    const char *at = changes->item.bytes;
    uint32_t key = 0;
    for (struct field field; next_field(&at, &field); key++) {
        key = index_of(&changes->head_keys, &field, key);
        if (changes->head.fields[key].revision > changes->since)
            pccl_json_text(json, changes->head_keys.names[key], field.value, field.value_length);
    }
    pccl_json_close(json, '}');
}

static void open_list(const struct pccl_figures *figures, enum pccl_page_part part, struct pccl_stamped_list *list,
                      struct pccl_json *json)
{
    json->comma = true;
    pccl_json_open(json, pccl_page_list(figures, part).name, '{');
    pccl_json_number(json, "count", list->count);
    pccl_json_open(json, "set", '[');
    list->is_open = true;
}

static void put_list_item(struct pccl_changes *changes, const struct pccl_figures *figures, enum pccl_page_part part,
                          uint32_t index, struct pccl_json *json)
{
    struct pccl_stamped_list *list = &changes->lists[part];
    const char *at = changes->item.bytes;
    uint64_t hash = 0;
    for (struct field field; next_field(&at, &field);)
        hash = hash * 31 + hash_of_field(changes, &field);
    stamp(changes, &list->items[index], hash, list->items[index].revision == 0);
    if (list->items[index].revision > changes->since) {
        json->comma = list->is_open;
        if (!list->is_open)
            open_list(figures, part, list, json);
        pccl_json_begin_line(json);
        pccl_json_open(json, NULL, '[');
        pccl_json_number(json, NULL, index);
        pccl_json_text(json, NULL, changes->item.bytes, changes->item.length);
        pccl_json_close(json, ']');
    }
    if (index + 1 == list->count && list->is_open)
        pccl_print_add(json->print, "]}");
}

/* Writes the numbers of the peers, as pairs: the first of consecutive numbers, and their count. */
static void put_present(const struct pccl_changes *changes, struct pccl_json *json)
{
    pccl_json_open(json, "present", '[');
    for (uint32_t i = 0, end; i < changes->peer_count; i = end) {
        uint64_t first = changes->peers[i]->number;
        for (end = i + 1; end < changes->peer_count && changes->peers[end]->number == first + (end - i);)
            end++;
        pccl_json_number(json, NULL, first);
        pccl_json_number(json, NULL, end - i);
    }
    pccl_json_close(json, ']');
}

static void put_peers(struct pccl_changes *changes, struct pccl_json *json)
{
    bool failed = changes->whole.failed || changes->item.failed;
    json->comma = true;
    pccl_json_open(json, "peers", '{');
    put_present(changes, json);
    pccl_json_open(json, "whole", '[');
    pccl_print_add_bytes(json->print, changes->whole.bytes, changes->whole.length);
    pccl_json_close(json, ']');
    pccl_json_open(json, "fields", '{');
    for (uint32_t key = 0; key < changes->peer_keys.count; key++) {
        struct pccl_column *column = &changes->columns[key];
        flush(column);
        failed = failed || column->print.failed || column->value.failed;
        if (column->print.length == 0)
            continue;
        pccl_json_open(json, changes->peer_keys.names[key], '[');
        pccl_print_add_bytes(json->print, column->print.bytes, column->print.length);
        if (column->is_open)
            pccl_print_add(json->print, "]");
        pccl_json_close(json, ']');
    }
    pccl_json_close(json, '}');
    pccl_json_close(json, '}');
    json->print->failed = json->print->failed || failed;
}

/* Ends the answer: lists that only became shorter, and the peers. */
static void put_tail(struct pccl_changes *changes, const struct pccl_figures *figures, struct pccl_json *json)
{
    for (enum pccl_page_part part = 0; part < PCCL_PAGE_TAIL; part++) {
        struct pccl_stamped_list *list = &changes->lists[part];
        if (part == PCCL_PAGE_HEAD || part == PCCL_PAGE_PEER || list->is_open || list->resized <= changes->since)
            continue;
        open_list(figures, part, list, json);
        pccl_print_add(json->print, "]}");
    }
    put_peers(changes, json);
    pccl_json_close(json, '}');
    pccl_print_add(json->print, "\n");
}

/* ---- the answer ---- */

/* Frees the texts of the previous answer, and begins new ones. */
static void clear_texts(struct pccl_changes *changes)
{
    const struct pccl_memory *memory = changes->memory;
    pccl_print_fini(&changes->item);
    pccl_print_fini(&changes->whole);
    pccl_print_init(&changes->item, memory, PCCL_PAGE_BYTES_MAX);
    pccl_print_init(&changes->whole, memory, PCCL_PAGE_BYTES_MAX);
    for (uint32_t key = 0; key < PCCL_CHANGES_KEYS_MAX; key++) {
        struct pccl_column *column = &changes->columns[key];
        pccl_print_fini(&column->print);
        pccl_print_fini(&column->value);
        *column = (struct pccl_column){.count = 0};
        pccl_print_init(&column->print, memory, PCCL_PAGE_BYTES_MAX);
        pccl_print_init(&column->value, memory, PCCL_PAGE_BYTES_MAX);
    }
}

void pccl_changes_init(struct pccl_changes *changes, const struct pccl_memory *memory, uint64_t boot)
{
    changes->memory = memory;
    changes->boot = boot;
}

void pccl_changes_fini(struct pccl_changes *changes)
{
    if (changes->memory == NULL)
        return;
    clear_texts(changes);
    while (changes->peer_count > 0)
        pccl_release(changes->memory, changes->peers[--changes->peer_count], sizeof **changes->peers);
    pccl_release(changes->memory, changes->peers, changes->peer_capacity * sizeof *changes->peers);
    for (enum pccl_page_part part = 0; part < PCCL_PAGE_TAIL; part++)
        pccl_release(changes->memory, changes->lists[part].items,
                     changes->lists[part].capacity * sizeof *changes->lists[part].items);
    *changes = (struct pccl_changes){.memory = NULL};
}

/*
 * Drops the stamps of peers that are gone, and adds stamps for new peers. Both lists are in order of arrival, and new
 * peers have arrived last. Returns false if out of memory.
 */
static bool match_peers(struct pccl_changes *changes, const struct pccl_figures *figures)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < changes->peer_count; i++) {
        struct pccl_stamps *stamps = changes->peers[i];
        if (kept < figures->peer_count && figures->peers[kept].number == stamps->number)
            changes->peers[kept++] = stamps;
        else
            pccl_release(changes->memory, stamps, sizeof *stamps);
    }
    changes->peer_count = kept;
    struct pccl_stamps **grown = pccl_grow(changes->memory, (void *)changes->peers, &changes->peer_capacity,
                                           figures->peer_count, sizeof *changes->peers);
    if (grown == NULL && figures->peer_count > 0)
        return false;
    changes->peers = grown != NULL ? grown : changes->peers;
    for (; changes->peer_count < figures->peer_count; changes->peer_count++) {
        struct pccl_stamps *stamps = pccl_allocate(changes->memory, sizeof *stamps);
        if (stamps == NULL)
            return false;
        stamps->number = figures->peers[changes->peer_count].number;
        stamps->whole = changes->revision;
        changes->peers[changes->peer_count] = stamps;
    }
    return true;
}

static bool match_list(struct pccl_changes *changes, struct pccl_stamped_list *list, uint32_t count)
{
    list->is_open = false;
    if (count == list->count && list->resized != 0)
        return true;
    if (count > list->capacity) {
        struct pccl_stamp *grown = pccl_grow(changes->memory, list->items, &list->capacity, count, sizeof *list->items);
        if (grown == NULL)
            return false;
        list->items = grown;
    }
    for (uint32_t i = list->count; i < count; i++)
        list->items[i] = (struct pccl_stamp){0};
    list->count = count;
    list->resized = changes->revision;
    return true;
}

bool pccl_changes_begin(struct pccl_changes *changes, const struct pccl_figures *figures, uint64_t since)
{
    changes->revision++;
    changes->since = since;
    clear_texts(changes);
    bool good = match_peers(changes, figures);
    for (enum pccl_page_part part = 0; good && part < PCCL_PAGE_TAIL; part++)
        good =
            part == PCCL_PAGE_PEER || match_list(changes, &changes->lists[part], pccl_page_list(figures, part).count);
    return good;
}

bool pccl_changes_next(struct pccl_changes *changes, const struct pccl_figures *figures, uint32_t *at,
                       struct pccl_print *print)
{
    uint32_t index;
    enum pccl_page_part part = pccl_page_part(figures, *at, &index);
    struct pccl_json writer = {.print = print, .depth = part == PCCL_PAGE_HEAD ? 0 : 1, .comma = index > 0};
    (*at)++;
    if (part == PCCL_PAGE_TAIL) {
        put_tail(changes, figures, &writer);
        return false;
    }
    changes->item.length = 0;
    pccl_page_item(figures, part, index, &changes->item);
    if (changes->item.failed)
        print->failed = true;
    else if (part == PCCL_PAGE_HEAD)
        put_head(changes, &writer);
    else if (part == PCCL_PAGE_PEER)
        put_peer(changes, index);
    else
        put_list_item(changes, figures, part, index, &writer);
    return true;
}
