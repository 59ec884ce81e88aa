#include "recorder/dumps.h"

#include "ops/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 256 << 20 };

static const char what[] = "flight recorder of a PCCL";

/* Returns the content of a file, which the caller frees; NULL if it is unusable, with errno. */
static char *read_file(const char *name)
{
    size_t room = 1 << 16, length = 0, got;
    FILE *file = fopen(name, "rb");
    char *text = file != NULL ? malloc(room) : NULL;
    while (text != NULL && (got = fread(text + length, 1, room - 1 - length, file)) > 0) {
        length += got;
        if (length + 1 < room)
            continue;
        room *= 2;
        char *grown = room <= FILE_BYTES_MAX ? realloc(text, room) : NULL;
        if (grown == NULL) {
            free(text);
            errno = EFBIG;
        }
        text = grown;
    }
    if (text != NULL && ferror(file)) {
        free(text);
        text = NULL;
    }
    if (text != NULL)
        text[length] = '\0';
    int error = errno;
    if (file != NULL)
        (void)fclose(file);
    errno = error;
    return text;
}

static bool fail(const char *command, const char *name, const char *reason)
{
    (void)fprintf(stderr, "%s: %s: %s\n", command, name, reason);
    return false;
}

static bool read_dump(struct dumps *dumps, const char *command, const char *name)
{
    char *text = read_file(name), reason[100];
    bool torn = false;
    if (text == NULL)
        return fail(command, name, strerror(errno));
    const struct json_value *dump = json_read(text, &torn);
    free(text);
    if (dump == NULL || strncmp(json_string(dump, "what"), what, sizeof what - 1) != 0) {
        json_free(dump);
        return fail(command, name, "not a file of a PCCL peer's flight recorder");
    }
    dumps->list[dumps->count++] = dump;
    if (json_number(dump, "format") < PCCL_TELEMETRY_FORMAT || json_number(dump, "format") > PCCL_TELEMETRY_FORMAT) {
        (void)snprintf(reason, sizeof reason, "format %.0f, but this version reads format %d",
                       json_number(dump, "format"), PCCL_TELEMETRY_FORMAT);
        return fail(command, name, reason);
    }
    if (torn)
        (void)fail(command, name, "its end is missing: later operations of this peer are unknown");
    return true;
}

bool dumps_read(struct dumps *dumps, const char *command, char *const *files, size_t count)
{
    dumps->list = calloc(count + 1, sizeof(const struct json_value *));
    if (dumps->list == NULL)
        return fail(command, files[0], "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (!read_dump(dumps, command, files[i]))
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(json_string(dumps->list[k], "peer"), json_string(dumps->list[i], "peer")) == 0)
                return fail(command, files[i], "another file is of the same peer");
    }
    return true;
}

void dumps_free(struct dumps *dumps)
{
    for (size_t i = 0; i < dumps->count; i++)
        json_free(dumps->list[i]);
    free(dumps->list);
}

const char *dumps_text(const struct json_value *object, const char *member)
{
    const struct json_value *value = json_get(object, member);
    return value != NULL ? value->text : "";
}

void dumps_key(const struct json_value *operation, char key[DUMPS_KEY_BYTES])
{
    const struct json_value *era = json_get(operation, "era"), *joint = json_first(era),
                            *sync = joint != NULL ? json_next(era, joint) : NULL;
    (void)snprintf(key, DUMPS_KEY_BYTES, "%.30s %.30s %.30s.%.30s %.30s %.30s %.40s", dumps_text(operation, "subgroup"),
                   dumps_text(operation, "pair"), joint != NULL ? joint->text : "", sync != NULL ? sync->text : "",
                   dumps_text(operation, "tag"), dumps_text(operation, "sequence"), json_string(operation, "kind"));
}

const char *dumps_peer(const struct dumps *dumps, const char *peer, struct pccl_text *text)
{
    const char *name = "";
    pccl_text_clear(text);
    if (peer[0] == '\0') {
        pccl_text_add(text, "the master");
        return text->bytes;
    }
    for (size_t i = 0; i < dumps->count && name[0] == '\0'; i++) {
        const struct json_value *members = json_get(dumps->list[i], "members");
        for (const struct json_value *at = json_first(members); at != NULL; at = json_next(members, at))
            if (strcmp(json_string(at, "peer"), peer) == 0)
                name = json_string(at, "name");
    }
    pccl_text_add_bytes(text, peer, pccl_string_length(peer, 8));
    if (name[0] != '\0')
        pccl_text_append(text, " '%s'", name);
    return text->bytes;
}
