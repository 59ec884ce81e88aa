#include "recorder/explain.h"

#include "net/heap.h"
#include "ops/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES_MAX = 256 << 20 };

/* An unfinished operation in a peer's dump. */
struct entry {
    size_t order; /* in the dumps */
    const struct json_value *dump, *operation;
    char key[DUMPS_KEY_BYTES];
};

/* The entries of one operation. */
struct instance {
    const struct entry *entries;
    size_t count;
};

struct writer {
    const struct dumps *dumps;
    struct pccl_print *print;
    struct pccl_json json;
    bool is_json;
};

/* ---- finding ---- */

static bool is_unfinished(const struct json_value *operation)
{
    const struct json_value *outcome = json_get(operation, "outcome");
    return outcome != NULL && outcome->type == JSON_NULL;
}

static size_t list_entries(const struct dumps *dumps, struct entry *entries)
{
    size_t count = 0;
    for (size_t i = 0; i < dumps->count; i++) {
        const struct json_value *operations = json_get(dumps->list[i], "operations");
        for (const struct json_value *at = json_first(operations); at != NULL; at = json_next(operations, at)) {
            if (!is_unfinished(at))
                continue;
            if (entries != NULL) {
                entries[count] = (struct entry){.order = count, .dump = dumps->list[i], .operation = at};
                dumps_key(at, entries[count].key);
            }
            count++;
        }
    }
    return count;
}

static int by_key(const void *a, const void *b)
{
    const struct entry *entry = a, *other = b;
    int order = strcmp(entry->key, other->key);
    return order != 0 ? order : entry->order < other->order ? -1 : entry->order > other->order;
}

static int by_first(const void *a, const void *b)
{
    const struct instance *instance = a, *other = b;
    return instance->entries[0].order < other->entries[0].order ? -1 : 1;
}

static size_t list_instances(const struct entry *entries, size_t count, struct instance *instances)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(entries[i].key, entries[i - 1].key) != 0)
            instances[found++] = (struct instance){.entries = &entries[i]};
        instances[found - 1].count++;
    }
    if (found > 1)
        qsort(instances, found, sizeof *instances, by_first);
    return found;
}

/* Returns true if the peer of one of the entries has this id. */
static bool has_entered(const struct instance *instance, const char *peer)
{
    for (size_t i = 0; i < instance->count; i++)
        if (strcmp(json_string(instance->entries[i].dump, "peer"), peer) == 0)
            return true;
    return false;
}

/* Returns true if this peer waits for another one. */
static bool waits_for_peer(const struct instance *instance, const char *peer)
{
    for (size_t i = 0; i < instance->count; i++) {
        const struct json_value *list = json_get(instance->entries[i].operation, "waits_for");
        if (strcmp(json_string(instance->entries[i].dump, "peer"), peer) != 0)
            continue;
        for (const struct json_value *at = json_first(list); at != NULL; at = json_next(list, at))
            if (json_string(at, "peer")[0] != '\0')
                return true;
    }
    return false;
}

static bool is_member(const struct json_value *members, const char *peer)
{
    for (const struct json_value *at = json_first(members); at != NULL; at = json_next(members, at))
        if (strcmp(at->text, peer) == 0)
            return true;
    return false;
}

/* ---- writing ---- */

static const char *words_of(const char *wait)
{
    static const struct {
        const char *wait, *words;
    } known[] = {{"ready", "has not reported ready"},
                 {"credit", "has granted no credit"},
                 {"room", "receives no data"},
                 {"data", "has sent no data"},
                 {"outcome", "has not reported the outcome"}};
    for (size_t i = 0; i < PCCL_COUNT_OF(known); i++)
        if (strcmp(known[i].wait, wait) == 0)
            return known[i].words;
    return "is awaited";
}

static void put_line(struct writer *writer, const char *indent, const char *first, const char *rest)
{
    pccl_print_add(writer->print, indent);
    pccl_print_add(writer->print, first);
    pccl_print_add(writer->print, rest);
    pccl_print_add(writer->print, "\n");
}

static void put_wait(struct writer *writer, const struct entry *entry, const struct json_value *wait)
{
    struct pccl_text peer, awaited;
    char rest[2 * PCCL_REASON_MAX];
    const char *waiting = json_string(entry->dump, "peer");
    if (writer->is_json) {
        pccl_json_open(&writer->json, NULL, '{');
        pccl_json_string(&writer->json, "peer", waiting);
        pccl_json_string(&writer->json, "for", json_string(wait, "peer"));
        pccl_json_string(&writer->json, "what", json_string(wait, "what"));
        pccl_json_double(&writer->json, "for_us", json_number(wait, "for_us"));
        pccl_json_close(&writer->json, '}');
        return;
    }
    (void)snprintf(rest, sizeof rest, ": %s %s for %.1f s",
                   dumps_peer(writer->dumps, json_string(wait, "peer"), &awaited), words_of(json_string(wait, "what")),
                   json_number(wait, "for_us") / 1e6);
    put_line(writer, "  ", dumps_peer(writer->dumps, waiting, &peer), rest);
}

static void put_waits(struct writer *writer, const struct instance *instance)
{
    if (writer->is_json)
        pccl_json_open(&writer->json, "waits", '[');
    for (size_t i = 0; i < instance->count; i++) {
        const struct json_value *list = json_get(instance->entries[i].operation, "waits_for");
        for (const struct json_value *at = json_first(list); at != NULL; at = json_next(list, at))
            put_wait(writer, &instance->entries[i], at);
    }
    if (writer->is_json)
        pccl_json_close(&writer->json, ']');
}

static void put_peer(struct writer *writer, const char *before, const char *peer, const char *after)
{
    struct pccl_text text;
    if (writer->is_json)
        pccl_json_string(&writer->json, NULL, peer);
    else
        put_line(writer, before, dumps_peer(writer->dumps, peer, &text), after);
}

/* Writes the peers with a dump that have not entered the operation. */
static void put_absent(struct writer *writer, const struct instance *instance)
{
    const struct json_value *members = json_get(instance->entries[0].operation, "members");
    if (writer->is_json)
        pccl_json_open(&writer->json, "absent", '[');
    for (size_t i = 0; i < writer->dumps->count; i++) {
        const char *peer = json_string(writer->dumps->list[i], "peer");
        if (is_member(members, peer) && !has_entered(instance, peer))
            put_peer(writer, "  ", peer, " has not entered it");
    }
    if (writer->is_json)
        pccl_json_close(&writer->json, ']');
}

/* Returns true if this wait is the first one for its peer. */
static bool is_first(const struct instance *instance, const struct json_value *wait)
{
    for (size_t i = 0; i < instance->count; i++) {
        const struct json_value *list = json_get(instance->entries[i].operation, "waits_for");
        for (const struct json_value *at = json_first(list); at != NULL; at = json_next(list, at))
            if (strcmp(json_string(at, "peer"), json_string(wait, "peer")) == 0)
                return at == wait;
    }
    return false;
}

/* Writes the peers that others wait for and that do not wait for any peer, each once. */
static void put_causes(struct writer *writer, const struct instance *instance)
{
    if (writer->is_json)
        pccl_json_open(&writer->json, "causes", '[');
    for (size_t i = 0; i < instance->count; i++) {
        const struct json_value *list = json_get(instance->entries[i].operation, "waits_for");
        for (const struct json_value *at = json_first(list); at != NULL; at = json_next(list, at)) {
            const char *peer = json_string(at, "peer");
            if (peer[0] != '\0' && is_first(instance, at) && !waits_for_peer(instance, peer))
                put_peer(writer, "  look at ", peer, ": others wait for it, and it is not waiting for any peer");
        }
    }
    if (writer->is_json)
        pccl_json_close(&writer->json, ']');
}

static void put_instance(struct writer *writer, const struct instance *instance)
{
    const struct json_value *operation = instance->entries[0].operation;
    struct pccl_text head;
    if (writer->is_json) {
        pccl_json_begin_line(&writer->json);
        pccl_json_open(&writer->json, NULL, '{');
        pccl_json_string(&writer->json, "kind", json_string(operation, "kind"));
        pccl_json_string(&writer->json, "tag", dumps_text(operation, "tag"));
        pccl_json_string(&writer->json, "sequence", dumps_text(operation, "sequence"));
        pccl_json_double(&writer->json, "bytes", json_number(operation, "bytes"));
    } else {
        pccl_text_format(&head, "%s tag %s sequence %s, %s bytes:", json_string(operation, "kind"),
                         dumps_text(operation, "tag"), dumps_text(operation, "sequence"),
                         dumps_text(operation, "bytes"));
        put_line(writer, "", head.bytes, "");
    }
    put_waits(writer, instance);
    put_absent(writer, instance);
    put_causes(writer, instance);
    if (writer->is_json)
        pccl_json_close(&writer->json, '}');
}

/* Writes the different waits that the master has reported, each once. */
static void put_verdicts(struct writer *writer)
{
    if (writer->is_json)
        pccl_json_open(&writer->json, "verdicts", '[');
    for (size_t i = 0; i < writer->dumps->count; i++) {
        const char *words = json_string(writer->dumps->list[i], "waits");
        size_t same = 0;
        while (strcmp(json_string(writer->dumps->list[same], "waits"), words) != 0)
            same++;
        if (words[0] == '\0' || same < i)
            continue;
        struct pccl_text text;
        pccl_text_clear(&text);
        pccl_text_add(&text, words);
        if (writer->is_json)
            pccl_json_string(&writer->json, NULL, text.bytes);
        else
            put_line(writer, "verdict of the master: ", text.bytes, "");
    }
    if (writer->is_json)
        pccl_json_close(&writer->json, ']');
}

static void put_all(struct writer *writer, const struct instance *instances, size_t count)
{
    if (writer->is_json) {
        pccl_json_open(&writer->json, NULL, '{');
        pccl_json_open(&writer->json, "operations", '[');
    }
    for (size_t i = 0; i < count; i++)
        put_instance(writer, &instances[i]);
    if (writer->is_json)
        pccl_json_close(&writer->json, ']');
    put_verdicts(writer);
    if (writer->is_json) {
        pccl_json_close(&writer->json, '}');
        pccl_print_add(writer->print, "\n");
    } else if (writer->print->length == 0) {
        pccl_print_add(writer->print, "no operation is running\n");
    }
}

bool recorder_explain(const struct dumps *dumps, bool json)
{
    struct pccl_print print;
    struct writer writer = {.dumps = dumps, .print = &print, .json = {.print = &print}, .is_json = json};
    size_t count = list_entries(dumps, NULL);
    struct entry *entries = calloc(count + 1, sizeof *entries);
    struct instance *instances = calloc(count + 1, sizeof *instances);
    bool good = entries != NULL && instances != NULL;
    pccl_print_init(&print, pccl_heap(), OUTPUT_BYTES_MAX);
    if (good) {
        (void)list_entries(dumps, entries);
        qsort(entries, count, sizeof *entries, by_key);
        put_all(&writer, instances, list_instances(entries, count, instances));
        good = !print.failed;
    }
    if (good)
        (void)fwrite(print.bytes, 1, print.length, stdout);
    pccl_print_fini(&print);
    free(instances);
    free(entries);
    return good;
}
