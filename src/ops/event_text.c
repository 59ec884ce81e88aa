/* Events as lines of JSON and as rows of a table, and the answers to requests for them. */
#include "ops/events.h"
#include "os/terminal.h"

#include <string.h>

enum {
    MOST_DEFAULT = 100,
    MOST_MAX = 1000,
    DIGITS_MAX = 18, /* digits of a number in a request or a line */
};

/* ---- lines ---- */

const char *pccl_event_word(enum pccl_log_event kind)
{
    static const char *const words[PCCL_EVENT_KINDS] = {[PCCL_EVENT_NONE] = "none",
#define WORD(name, word, limit) [PCCL_EVENT_##name] = (word),
                                                        PCCL_LOG_EVENTS(WORD)
#undef WORD
    };
    return words[kind];
}

void pccl_event_write(const struct pccl_event *event, struct pccl_print *print)
{
    pccl_print_format(print, "{\"number\":%" PRIu64 ",\"ms\":%" PRIu64 ",\"kind\":\"%s\"", event->number, event->ms,
                      pccl_event_word(event->kind));
    if (!pccl_id_is_zero(&event->peer)) {
        pccl_print_add(print, ",\"peer\":\"");
        pccl_print_add_id(print, &event->peer);
        pccl_print_add(print, "\"");
    }
    if (event->name[0] != '\0') {
        pccl_print_add(print, ",\"name\":");
        pccl_print_add_quoted(print, event->name);
    }
    if (event->omitted > 0)
        pccl_print_format(print, ",\"omitted\":%" PRIu64, event->omitted);
    pccl_print_add(print, ",\"text\":");
    pccl_print_add_quoted_bytes(print, event->text.bytes, event->text.length);
    pccl_print_add(print, "}");
}

/* The rest of a line or of a query. */
struct rest {
    const char *at, *end;
};

static bool take(struct rest *rest, const char *words)
{
    size_t length = strlen(words);
    if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, words, length) != 0)
        return false;
    rest->at += length;
    return true;
}

static bool take_number(struct rest *rest, uint64_t *number)
{
    const char *start = rest->at;
    *number = 0;
    for (; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9'; rest->at++) {
        if (rest->at - start == DIGITS_MAX)
            return false;
        *number = 10 * *number + (uint64_t)(*rest->at - '0');
    }
    return rest->at > start;
}

/* Takes a quoted string of at most `most` bytes. Does not terminate it. */
static bool take_string(struct rest *rest, char *out, size_t most, size_t *length)
{
    *length = 0;
    if (!take(rest, "\""))
        return false;
    while (rest->at < rest->end && *rest->at != '"') {
        rest->at += *rest->at == '\\';
        if (rest->at == rest->end || *length == most)
            return false;
        out[(*length)++] = *rest->at++;
    }
    return take(rest, "\"");
}

static bool take_kind(struct rest *rest, enum pccl_log_event *kind)
{
    char word[32];
    size_t length;
    if (!take_string(rest, word, sizeof word, &length))
        return false;
    for (int i = PCCL_EVENT_NONE + 1; i < PCCL_EVENT_KINDS; i++) {
        *kind = (enum pccl_log_event)i;
        if (strlen(pccl_event_word(*kind)) == length && memcmp(pccl_event_word(*kind), word, length) == 0)
            return true;
    }
    return false;
}

bool pccl_event_read(const char *line, size_t length, struct pccl_event *event)
{
    struct rest rest = {line, line + length};
    char digits[2 * sizeof event->peer.bytes], text[PCCL_REASON_MAX];
    size_t bytes;
    *event = (struct pccl_event){.number = 0};
    if (!take(&rest, "{\"number\":") || !take_number(&rest, &event->number) || !take(&rest, ",\"ms\":") ||
        !take_number(&rest, &event->ms) || !take(&rest, ",\"kind\":") || !take_kind(&rest, &event->kind))
        return false;
    if (take(&rest, ",\"peer\":") && (!take_string(&rest, digits, sizeof digits, &bytes) || bytes != sizeof digits ||
                                      !pccl_id_read(digits, bytes, &event->peer)))
        return false;
    if (take(&rest, ",\"name\":") && !take_string(&rest, event->name, PCCL_NAME_MAX, &bytes))
        return false;
    if (take(&rest, ",\"omitted\":") && !take_number(&rest, &event->omitted))
        return false;
    if (!take(&rest, ",\"text\":") || !take_string(&rest, text, sizeof text, &bytes))
        return false;
    pccl_text_add_bytes(&event->text, text, bytes);
    return take(&rest, "}") && rest.at == rest.end;
}

/* ---- answers ---- */

/* Reads "since=N&most=N", in any order, each at most once. */
static bool read_query(struct rest rest, bool *has_since, uint64_t *since, uint64_t *most)
{
    bool has_most = false;
    *has_since = false;
    while (rest.at < rest.end) {
        bool *has = has_since;
        uint64_t *number = since;
        if (!take(&rest, "since=")) {
            has = &has_most;
            number = most;
            if (!take(&rest, "most="))
                return false;
        }
        if (*has || !take_number(&rest, number) || (rest.at < rest.end && !take(&rest, "&")))
            return false;
        *has = true;
    }
    return *most > 0 && *most <= MOST_MAX;
}

/* Returns the index of the first event after this number. */
static uint32_t first_after(const struct pccl_events *events, uint64_t number)
{
    uint32_t low = 0, high = events->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (events->entries[middle].number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void write_json(const struct pccl_events *events, uint32_t from, uint32_t to, uint64_t since,
                       struct pccl_print *print)
{
    char boot[17];
    for (int i = 0; i < 16; i++)
        boot[i] = "0123456789abcdef"[events->boot >> (60 - 4 * i) & 15];
    boot[16] = '\0';
    pccl_print_format(print, "{\"boot\":\"%s\",\"oldest\":%" PRIu64 ",\"newest\":%" PRIu64 ",\"events\":[", boot,
                      events->count > 0 ? events->entries[0].number : 0, events->last);
    for (uint32_t i = from; i < to; i++) {
        pccl_print_add(print, i > from ? ",\n" : "\n");
        pccl_print_add_bytes(print, events->lines + events->entries[i].at, events->entries[i].length);
    }
    pccl_print_add(print, "\n],");
    pccl_print_format(print, "\"next\":%" PRIu64 ",\"more\":%s}", to > from ? events->entries[to - 1].number : since,
                      to < events->count ? "true" : "false");
    pccl_print_add(print, "\n");
}

static void add_two_digits(struct pccl_print *print, const char *before, int number)
{
    pccl_print_format(print, "%s%u%u", before, (unsigned)number / 10 % 10, (unsigned)number % 10);
}

static void add_time(struct pccl_print *print, uint64_t ms)
{
    struct tm utc;
    if (!pccl_terminal_utc((time_t)(ms / 1000), &utc)) {
        pccl_print_format(print, "%" PRIu64 " ms", ms);
        return;
    }
    pccl_print_format(print, "%u", (unsigned)(utc.tm_year + 1900));
    add_two_digits(print, "-", utc.tm_mon + 1);
    add_two_digits(print, "-", utc.tm_mday);
    add_two_digits(print, " ", utc.tm_hour);
    add_two_digits(print, ":", utc.tm_min);
    add_two_digits(print, ":", utc.tm_sec);
}

static void add_padded(struct pccl_print *print, const char *words, uint32_t columns)
{
    pccl_print_add(print, words);
    for (size_t length = strlen(words); length < columns; length++)
        pccl_print_add(print, " ");
}

static void write_rows(const struct pccl_events *events, uint32_t from, uint32_t to, struct pccl_print *print)
{
    enum { NUMBER_COLUMNS = 8, KIND_COLUMNS = 17 };
    struct pccl_event event;
    struct pccl_text number;
    pccl_print_add(print, from == to ? "no events\n" : "number  time (UTC)           event            description\n");
    for (uint32_t i = from; i < to; i++) {
        const struct pccl_event_entry *entry = &events->entries[i];
        if (!pccl_event_read(events->lines + entry->at, entry->length, &event))
            continue;
        char words[KIND_COLUMNS + 1];
        size_t length = strlen(pccl_event_word(event.kind));
        for (size_t at = 0; at <= length && at < sizeof words; at++)
            words[at] = (char)(pccl_event_word(event.kind)[at] == '_' ? ' ' : pccl_event_word(event.kind)[at]);
        pccl_text_format(&number, "%" PRIu64, event.number);
        add_padded(print, number.bytes, NUMBER_COLUMNS);
        add_time(print, event.ms);
        pccl_print_add(print, "  ");
        add_padded(print, words, KIND_COLUMNS);
        pccl_print_add_bytes(print, event.text.bytes, event.text.length);
        pccl_print_add(print, "\n");
    }
}

enum pccl_status pccl_events_answer(const struct pccl_events *events, const char *query, size_t length, bool json,
                                    struct pccl_print *print, struct pccl_text *reason)
{
    uint64_t since = 0, most = MOST_DEFAULT;
    bool has_since;
    if (!read_query((struct rest){query, query + length}, &has_since, &since, &most))
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "Invalid query: expected since=NUMBER, most=NUMBER or both, joined by '&'; most: 1 to %u.",
                         (unsigned)MOST_MAX);
    uint32_t few = (uint32_t)pccl_min_u64(most, events->count);
    uint32_t from = has_since ? first_after(events, since) : events->count - few;
    uint32_t to = from + (uint32_t)pccl_min_u64(most, events->count - from);
    if (json)
        write_json(events, from, to, has_since ? since : events->last, print);
    else
        write_rows(events, from, to, print);
    return PCCL_OK;
}
