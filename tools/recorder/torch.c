#include "recorder/torch.h"

#include "net/heap.h"

#include "core/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_NONE = 0, FILE_BYTES_MAX = 1 << 30, WORD_BYTES = 64 };

/* An operation of a dump that the format can show. */
struct item {
    const struct json_value *operation;
    size_t dump, group;
    uint32_t number; /* within the group, the same for all peers; NUMBER_NONE: left out */
    char key[DUMPS_KEY_BYTES];
};

/* A process group: the peers of an operation. */
struct group {
    size_t *ranks; /* owned; ascending */
    size_t count;
    const struct item **merged; /* owned; the first item of each operation, in order */
    size_t length;
};

struct conversion {
    const struct dumps *dumps;
    const char **peers; /* owned; by rank */
    size_t peer_count;
    struct item *items; /* owned; in the order of the dumps */
    size_t item_count;
    struct group *groups; /* owned */
    size_t group_count;
};

static const char *word_of(const char *const (*words)[2], const char *word)
{
    for (; (*words)[0] != NULL; words++)
        if (strcmp((*words)[0], word) == 0)
            return (*words)[1];
    return NULL;
}

static const char *kind_of(const struct json_value *operation)
{
    static const char *const kinds[][2] = {{"all-reduce", "all_reduce"},
                                           {"broadcast", "broadcast"},
                                           {"all-gather", "all_gather"},
                                           {"reduce-scatter", "reduce_scatter"},
                                           {"barrier", "barrier"},
                                           {"reduce", "reduce"},
                                           {"gather", "gather"},
                                           {"scatter", "scatter"},
                                           {"all-to-all", "all_to_all_single"},
                                           {"coalesced all-reduce", "allreduce_coalesced"},
                                           {"all-gather of blobs", "all_gather_v"},
                                           {NULL, NULL}};
    return word_of(kinds, json_string(operation, "kind"));
}

static const char *type_of(const struct json_value *operation)
{
    static const char *const types[][2] = {{"", "Byte"},     {"u8", "Byte"},    {"i8", "Char"},   {"i16", "Short"},
                                           {"i32", "Int"},   {"i64", "Long"},   {"f16", "Half"},  {"bf16", "BFloat16"},
                                           {"f32", "Float"}, {"f64", "Double"}, {"bool", "Bool"}, {NULL, NULL}};
    const char *type = json_string(operation, "type"), *found = word_of(types, type);
    return found != NULL ? found : type;
}

/* ---- ranks ---- */

static size_t rank_of(const struct conversion *conversion, const char *peer)
{
    size_t rank = 0;
    while (rank < conversion->peer_count && strcmp(conversion->peers[rank], peer) != 0)
        rank++;
    return rank;
}

static void add_peer(struct conversion *conversion, const char *peer)
{
    if (rank_of(conversion, peer) == conversion->peer_count)
        conversion->peers[conversion->peer_count++] = peer;
}

/* Returns true if a list of numbers is greater than another one. */
static bool is_newer(const struct json_value *epoch, const struct json_value *other)
{
    const struct json_value *a = json_first(epoch), *b = json_first(other);
    for (; a != NULL && b != NULL; a = json_next(epoch, a), b = json_next(other, b))
        if (a->number < b->number || a->number > b->number)
            return a->number > b->number;
    return a != NULL;
}

/* Gives a rank to each peer: first the newest member list in its order, then the peers that have left. */
static bool rank_peers(struct conversion *conversion)
{
    const struct dumps *dumps = conversion->dumps;
    const struct json_value *newest = dumps->list[0];
    size_t most = dumps->count;
    for (size_t i = 0; i < dumps->count; i++) {
        const struct json_value *operations = json_get(dumps->list[i], "operations");
        most += json_count(json_get(dumps->list[i], "members"));
        for (const struct json_value *at = json_first(operations); at != NULL; at = json_next(operations, at))
            most += json_count(json_get(at, "members"));
        if (is_newer(json_get(dumps->list[i], "epoch"), json_get(newest, "epoch")))
            newest = dumps->list[i];
    }
    conversion->peers = calloc(most + 1, sizeof(const char *));
    if (conversion->peers == NULL)
        return false;
    const struct json_value *members = json_get(newest, "members");
    for (const struct json_value *at = json_first(members); at != NULL; at = json_next(members, at))
        add_peer(conversion, json_string(at, "peer"));
    for (size_t i = 0; i < dumps->count; i++) {
        const struct json_value *operations = json_get(dumps->list[i], "operations");
        add_peer(conversion, json_string(dumps->list[i], "peer"));
        for (const struct json_value *at = json_first(operations); at != NULL; at = json_next(operations, at)) {
            members = json_get(at, "members");
            for (const struct json_value *peer = json_first(members); peer != NULL; peer = json_next(members, peer))
                add_peer(conversion, peer->text);
        }
    }
    return true;
}

/* ---- groups ---- */

static int by_rank(const void *a, const void *b)
{
    size_t rank = *(const size_t *)a, other = *(const size_t *)b;
    return (rank > other) - (rank < other);
}

/* Finds the group of an operation's members, or adds it. Returns false if memory is short. */
static bool find_group(struct conversion *conversion, const struct json_value *members, size_t *found)
{
    struct group group = {.ranks = calloc(json_count(members) + 1, sizeof *group.ranks)};
    if (group.ranks == NULL)
        return false;
    for (const struct json_value *at = json_first(members); at != NULL; at = json_next(members, at))
        group.ranks[group.count++] = rank_of(conversion, at->text);
    qsort(group.ranks, group.count, sizeof *group.ranks, by_rank);
    for (*found = 0; *found < conversion->group_count; ++*found) {
        const struct group *known = &conversion->groups[*found];
        if (known->count == group.count && memcmp(known->ranks, group.ranks, group.count * sizeof *group.ranks) == 0) {
            free(group.ranks);
            return true;
        }
    }
    conversion->groups[conversion->group_count++] = group;
    return true;
}

static bool is_shown(const struct json_value *operation)
{
    return kind_of(operation) != NULL && json_first(json_get(operation, "members")) != NULL;
}

static bool list_items(struct conversion *conversion)
{
    const struct dumps *dumps = conversion->dumps;
    size_t most = 0;
    for (size_t i = 0; i < dumps->count; i++)
        most += json_count(json_get(dumps->list[i], "operations"));
    conversion->items = calloc(most + 1, sizeof *conversion->items);
    conversion->groups = calloc(most + 1, sizeof *conversion->groups);
    if (conversion->items == NULL || conversion->groups == NULL)
        return false;
    for (size_t i = 0; i < dumps->count; i++) {
        const struct json_value *operations = json_get(dumps->list[i], "operations");
        for (const struct json_value *at = json_first(operations); at != NULL; at = json_next(operations, at)) {
            struct item *item = &conversion->items[conversion->item_count];
            if (!is_shown(at))
                continue;
            *item = (struct item){.operation = at, .dump = i};
            dumps_key(at, item->key);
            if (!find_group(conversion, json_get(at, "members"), &item->group))
                return false;
            conversion->item_count++;
        }
    }
    return true;
}

/* ---- numbers ---- */

static size_t index_of(const struct group *group, const char *key)
{
    size_t index = 0;
    while (index < group->length && strcmp(group->merged[index]->key, key) != 0)
        index++;
    return index;
}

/*
 * Merges the lists of a group's operations, in each peer's order where the peers agree. Returns the index of the first
 * operation that all peers still remember, or SIZE_MAX if memory is short.
 */
static size_t merge(const struct conversion *conversion, size_t number)
{
    struct group *group = &conversion->groups[number];
    size_t at = 0, remembered = 0, dump = SIZE_MAX;
    group->merged = calloc(conversion->item_count + 1, sizeof(const struct item *));
    if (group->merged == NULL)
        return SIZE_MAX;
    for (size_t i = 0; i < conversion->item_count; i++) {
        const struct item *item = &conversion->items[i];
        if (item->group != number)
            continue;
        at = item->dump == dump ? at : 0;
        dump = item->dump;
        size_t index = index_of(group, item->key);
        if (index < group->length) {
            at = index + 1 > at ? index + 1 : at;
            continue;
        }
        memmove(&group->merged[at + 1], &group->merged[at], (group->length - at) * sizeof(const struct item *));
        group->merged[at++] = item;
        group->length++;
    }
    dump = SIZE_MAX;
    for (size_t i = 0; i < conversion->item_count; i++) {
        const struct item *item = &conversion->items[i];
        if (item->group != number || item->dump == dump)
            continue;
        dump = item->dump;
        const struct json_value *first = json_first(json_get(conversion->dumps->list[dump], "operations"));
        size_t index = json_number(first, "number") > 1 ? index_of(group, item->key) : 0;
        remembered = index > remembered ? index : remembered;
    }
    return remembered;
}

/* Numbers the operations of each group. Leaves out the ones that one of its peers no longer remembers. */
static bool number_items(struct conversion *conversion)
{
    for (size_t number = 0; number < conversion->group_count; number++) {
        size_t remembered = merge(conversion, number);
        if (remembered == SIZE_MAX)
            return false;
        for (size_t i = 0; i < conversion->item_count; i++) {
            struct item *item = &conversion->items[i];
            size_t index = item->group == number ? index_of(&conversion->groups[number], item->key) : 0;
            if (item->group == number && index >= remembered)
                item->number = (uint32_t)index + 1;
        }
    }
    return true;
}

/* ---- Python's pickle format ---- */

static void put_string(struct pccl_print *print, const char *text)
{
    size_t length = strlen(text);
    const unsigned char head[] = {'X', (unsigned char)length, (unsigned char)(length >> 8),
                                  (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
    pccl_print_add_bytes(print, (const char *)head, sizeof head);
    pccl_print_add_bytes(print, text, length);
}

static void put_integer(struct pccl_print *print, int64_t value)
{
    char text[WORD_BYTES];
    (void)snprintf(text, sizeof text, "I%" PRId64 "\n", value);
    pccl_print_add(print, text);
}

static void put_bool(struct pccl_print *print, bool value) { pccl_print_add(print, value ? "\x88" : "\x89"); }

static void put_string_member(struct pccl_print *print, const char *key, const char *value)
{
    put_string(print, key);
    put_string(print, value);
}

static void put_integer_member(struct pccl_print *print, const char *key, int64_t value)
{
    put_string(print, key);
    put_integer(print, value);
}

/* Adds a member for a time, or None. */
static void put_time_member(struct pccl_print *print, const char *key, bool known, int64_t value)
{
    put_string(print, key);
    if (known)
        put_integer(print, value);
    else
        pccl_print_add(print, "N");
}

/* Adds a member for the sizes of one tensor, a list in a list. */
static void put_size_member(struct pccl_print *print, const char *key, int64_t size)
{
    put_string(print, key);
    pccl_print_add(print, "](](");
    put_integer(print, size);
    pccl_print_add(print, "ee");
}

static void put_type_member(struct pccl_print *print, const char *key, const char *type)
{
    put_string(print, key);
    pccl_print_add(print, "](");
    put_string(print, type);
    pccl_print_add(print, "e");
}

/* ---- the file ---- */

/* Writes the ranks of a group as "[0, 1, 2]". */
static void put_ranks(struct pccl_print *print, const char *prefix, const struct group *group)
{
    struct pccl_print text;
    char rank[WORD_BYTES];
    pccl_print_init(&text, pccl_heap(), 1 << 20);
    pccl_print_add(&text, prefix);
    for (size_t i = 0; i < group->count; i++) {
        (void)snprintf(rank, sizeof rank, "%s%zu", i == 0 ? "[" : ", ", group->ranks[i]);
        pccl_print_add(&text, rank);
    }
    pccl_print_add_bytes(&text, "]", 2);
    if (text.failed)
        print->failed = true;
    else
        put_string(print, text.bytes);
    pccl_print_fini(&text);
}

static void put_group_name(struct pccl_print *print, size_t number)
{
    char name[WORD_BYTES];
    (void)snprintf(name, sizeof name, "%zu", number);
    put_string(print, name);
}

static void put_group(struct pccl_print *print, const struct conversion *conversion, size_t number)
{
    put_group_name(print, number);
    pccl_print_add(print, "}(");
    put_string(print, "name");
    put_group_name(print, number);
    put_string(print, "desc");
    put_ranks(print, "pccl:", &conversion->groups[number]);
    put_string(print, "ranks");
    put_ranks(print, "", &conversion->groups[number]);
    pccl_print_add(print, "u");
}

static int64_t integer(const struct json_value *object, const char *key) { return (int64_t)json_number(object, key); }

static bool is_one_of(const char *kind, const char *const *kinds)
{
    for (; *kinds != NULL; kinds++)
        if (strcmp(kind, *kinds) == 0)
            return true;
    return false;
}

static void put_times(struct pccl_print *print, const struct json_value *dump, const struct json_value *operation)
{
    int64_t entered_ns = 1000 * (integer(dump, "wall_us") - integer(operation, "entered_us_ago"));
    const struct json_value *first = json_get(operation, "first_byte_us");
    bool has_first = first != NULL && first->type == JSON_NUMBER;
    bool began = has_first || strcmp(json_string(operation, "state"), "moving") != 0;
    bool committed = strcmp(json_string(operation, "outcome"), "committed") == 0;
    put_integer_member(print, "time_created_ns", entered_ns);
    put_time_member(print, "time_discovered_started_ns", began,
                    entered_ns + 1000 * integer(operation, "first_byte_us"));
    put_time_member(print, "time_discovered_completed_ns", committed,
                    entered_ns + 1000 * integer(operation, "ended_us"));
    put_string_member(print, "state", committed ? "completed" : began ? "started" : "scheduled");
    put_string(print, "retired");
    put_bool(print, json_string(operation, "outcome")[0] != '\0');
}

static void put_item(struct pccl_print *print, const struct conversion *conversion, const struct item *item)
{
    static const char *const divided[] = {"reduce-scatter", "scatter", "all-to-all", NULL};
    static const char *const joined[] = {"all-gather", "gather", "all-to-all", NULL};
    const struct json_value *operation = item->operation;
    const char *kind = json_string(operation, "kind");
    int64_t count = integer(operation, "count"), world = integer(operation, "world");
    char name[WORD_BYTES];
    /* torch's analysis only accepts certain backend names */
    (void)snprintf(name, sizeof name, "gloo:%s", kind_of(operation));
    pccl_print_add(print, "}(");
    put_integer_member(print, "record_id", integer(operation, "number"));
    put_integer_member(print, "pg_id", (int64_t)item->group);
    put_string(print, "process_group");
    pccl_print_add(print, "(");
    put_group_name(print, item->group);
    put_ranks(print, "pccl:", &conversion->groups[item->group]);
    pccl_print_add(print, "t");
    put_integer_member(print, "collective_seq_id", item->number);
    put_integer_member(print, "p2p_seq_id", 0);
    put_integer_member(print, "op_id", integer(operation, "number"));
    put_string_member(print, "profiling_name", name);
    put_size_member(print, "input_sizes", is_one_of(kind, divided) ? count * world : count);
    put_type_member(print, "input_dtypes", type_of(operation));
    put_size_member(print, "output_sizes", is_one_of(kind, joined) ? count * world : count);
    put_type_member(print, "output_dtypes", type_of(operation));
    put_times(print, conversion->dumps->list[item->dump], operation);
    put_integer_member(print, "timeout_ms", 0);
    put_string(print, "is_p2p");
    put_bool(print, false);
    put_string(print, "frames");
    pccl_print_add(print, "]u");
}

static int by_group_and_number(const void *a, const void *b)
{
    const struct item *item = *(const struct item *const *)a, *other = *(const struct item *const *)b;
    if (item->group != other->group)
        return item->group < other->group ? -1 : 1;
    return (item->number > other->number) - (item->number < other->number);
}

static bool put_dump(struct pccl_print *print, const struct conversion *conversion, size_t dump, size_t rank)
{
    const struct item **items = calloc(conversion->item_count + 1, sizeof(const struct item *));
    size_t count = 0;
    if (items == NULL)
        return false;
    for (size_t i = 0; i < conversion->item_count; i++)
        if (conversion->items[i].dump == dump && conversion->items[i].number != NUMBER_NONE)
            items[count++] = &conversion->items[i];
    qsort(items, count, sizeof(const struct item *), by_group_and_number);
    pccl_print_add(print, "\x80\x02}(");
    put_string_member(print, "version", "2.10");
    put_string(print, "pg_config");
    pccl_print_add(print, "}(");
    for (size_t i = 0; i < conversion->group_count; i++) {
        const struct group *group = &conversion->groups[i];
        if (bsearch(&rank, group->ranks, group->count, sizeof *group->ranks, by_rank) != NULL)
            put_group(print, conversion, i);
    }
    pccl_print_add(print, "u");
    put_string(print, "pg_status");
    pccl_print_add(print, "}");
    put_string(print, "entries");
    pccl_print_add(print, "](");
    for (size_t i = 0; i < count; i++)
        put_item(print, conversion, items[i]);
    pccl_print_add(print, "eu.");
    free(items);
    return !print->failed;
}

static bool write_file(const char *command, const char *name, const struct pccl_print *print)
{
    FILE *file = fopen(name, "wb");
    bool good = file != NULL && fwrite(print->bytes, 1, print->length, file) == print->length;
    good = file != NULL && fclose(file) == 0 && good;
    if (good)
        printf("wrote %s\n", name);
    else
        (void)fprintf(stderr, "%s: %s: %s\n", command, name, strerror(errno));
    return good;
}

static bool out_of_memory(const char *command)
{
    (void)fprintf(stderr, "%s: out of memory\n", command);
    return false;
}

static bool write_all(const struct conversion *conversion, const char *command, const char *prefix)
{
    bool good = true;
    for (size_t i = 0; good && i < conversion->dumps->count; i++) {
        struct pccl_print print;
        char name[4096];
        size_t rank = rank_of(conversion, json_string(conversion->dumps->list[i], "peer"));
        (void)snprintf(name, sizeof name, "%s%zu", prefix, rank);
        pccl_print_init(&print, pccl_heap(), FILE_BYTES_MAX);
        good = put_dump(&print, conversion, i, rank) ? write_file(command, name, &print) : out_of_memory(command);
        pccl_print_fini(&print);
    }
    return good;
}

bool recorder_write_torch(const struct dumps *dumps, const char *command, const char *prefix)
{
    struct conversion conversion = {.dumps = dumps};
    bool good = rank_peers(&conversion) && list_items(&conversion) && number_items(&conversion);
    good = good ? write_all(&conversion, command, prefix) : out_of_memory(command);
    for (size_t i = 0; i < conversion.group_count; i++) {
        free(conversion.groups[i].ranks);
        free(conversion.groups[i].merged);
    }
    free(conversion.peers);
    free(conversion.items);
    free(conversion.groups);
    return good;
}
