/*
 * Parses a topology report. The text is not trusted: only text that pccl_topology_report_print could have written is
 * accepted.
 */
#include "report_parse.h"

#include <string.h>

/* Minimum length: "peer 0 ", 32 digits, a blank, "[::]:0" and the line end. */
enum { PEER_LINE_LEAST = 47 };

struct reader {
    const char *next, *end;    /* rest of the text */
    const char *at, *line_end; /* rest of the line */
    uint64_t line;             /* line number */
    struct pccl_topology_report *report;
    uint8_t *seen; /* a bit for each link, at from * count + to; the diagonal marks the peers in the ring */
    struct pccl_text *reason;
    enum pccl_status status;
};

/* Sets the reason why this line is invalid. Returns false. */
PCCL_PRINTF(2, 3) static bool wrong(struct reader *reader, const char *format, ...)
{
    pccl_text_format(reader->reason, "line %" PRIu64 ": ", reader->line);
    va_list arguments;
    va_start(arguments, format);
    pccl_text_append_list(reader->reason, format, arguments);
    va_end(arguments);
    reader->status = PCCL_ARGUMENT;
    return false;
}

static bool out_of_memory(struct reader *reader)
{
    pccl_text_format(reader->reason, "out of memory");
    reader->status = PCCL_MEMORY;
    return false;
}

static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->line_end && is_blank(*reader->at))
        reader->at++;
}

/* Moves to the next line that is neither empty nor a comment. Returns false at the end of the text. */
static bool next_line(struct reader *reader)
{
    while (reader->next < reader->end) {
        const char *newline = memchr(reader->next, '\n', (size_t)(reader->end - reader->next));
        reader->at = reader->next;
        reader->line_end = newline == NULL ? reader->end : newline;
        reader->next = newline == NULL ? reader->end : newline + 1;
        reader->line++;
        if (reader->line_end > reader->at && reader->line_end[-1] == '\r')
            reader->line_end--;
        bool is_comment = reader->at < reader->line_end && *reader->at == '#';
        skip_blanks(reader);
        if (!is_comment && reader->at < reader->line_end)
            return true;
    }
    reader->line++;
    reader->at = reader->line_end = reader->end;
    return false;
}

/* Takes the bytes up to the next blank. Returns their number, which is 0 at the end of the line. */
static size_t take_token(struct reader *reader, const char **token)
{
    skip_blanks(reader);
    *token = reader->at;
    while (reader->at < reader->line_end && !is_blank(*reader->at))
        reader->at++;
    return (size_t)(reader->at - *token);
}

static bool is_word(const char *token, size_t length, const char *word)
{
    for (size_t i = 0; i < length; i++) {
        if (word[i] == '\0' || word[i] != token[i])
            return false;
    }
    return word[length] == '\0';
}

static bool take_word(struct reader *reader, const char *word)
{
    const char *token, *before = reader->at;
    size_t length = take_token(reader, &token);
    if (length > 0 && is_word(token, length, word))
        return true;
    reader->at = before;
    return false;
}

/* Parses decimal digits. Rejects leading zeros. */
static bool parse_number(const char *digits, size_t length, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;
    if (length == 0 || (length > 1 && digits[0] == '0'))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (digit > most || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

static bool take_number(struct reader *reader, uint64_t most, uint64_t *number)
{
    const char *token;
    size_t length = take_token(reader, &token);
    return parse_number(token, length, most, number);
}

static bool take_u32(struct reader *reader, uint32_t most, uint32_t *number)
{
    uint64_t value;
    if (!take_number(reader, most, &value))
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool take_end(struct reader *reader)
{
    skip_blanks(reader);
    return reader->at == reader->line_end;
}

/* Moves to the next line, which must begin with this word; if it does not, returns false with a reason. */
static bool expect_line(struct reader *reader, const char *word)
{
    if (!next_line(reader))
        return wrong(reader, "unexpected end: expected '%s'", word);
    return take_word(reader, word) || wrong(reader, "expected '%s'", word);
}

static bool read_head(struct reader *reader, uint32_t *group, uint32_t *count)
{
    if (!next_line(reader) || !take_word(reader, "pccl") || !take_word(reader, "topology") || !take_word(reader, "1") ||
        !take_end(reader))
        return wrong(reader, "expected 'pccl topology 1'");
    if (!expect_line(reader, "group"))
        return false;
    if (!take_u32(reader, UINT32_MAX, group) || !take_end(reader))
        return wrong(reader, "expected one number up to %u after 'group'", UINT32_MAX);
    if (!expect_line(reader, "peers"))
        return false;
    if (!take_u32(reader, PCCL_PEERS_MAX, count) || *count == 0 || !take_end(reader))
        return wrong(reader, "expected one number from 1 to %u after 'peers'", PCCL_PEERS_MAX);
    return *count <= (size_t)(reader->end - reader->next) / PEER_LINE_LEAST ||
           wrong(reader, "the rest of the file is too short for %u peers", *count);
}

static bool take_id(struct reader *reader, struct pccl_id *id)
{
    const char *token;
    size_t length = take_token(reader, &token);
    return length == 2 * sizeof id->bytes && pccl_id_read(token, length, id);
}

/* Takes an address such as "1.2.3.4:5" or "[::1]:5". */
static bool take_address(struct reader *reader, struct pccl_address *address)
{
    const char *token;
    size_t length = take_token(reader, &token), colon = length;
    while (colon > 0 && token[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon < 2 || !parse_number(token + colon, length - colon, UINT16_MAX, &port))
        return false;
    const char *begin = token, *end = token + colon - 1;
    bool is_v6 = memchr(begin, ':', (size_t)(end - begin)) != NULL;
    if (is_v6 && (begin[0] != '[' || end[-1] != ']'))
        return false;
    begin += is_v6;
    end -= is_v6;
    if (!pccl_address_parse_ip(begin, (size_t)(end - begin), address))
        return false;
    address->port = (uint16_t)port;
    return true;
}

/* Takes the rest of the line, after one blank. */
static bool take_name(struct reader *reader, char *name)
{
    if (reader->at < reader->line_end)
        reader->at++;
    size_t length = (size_t)(reader->line_end - reader->at), size;
    if (length > PCCL_NAME_MAX)
        return false;
    for (size_t at = 0; at < length; at += size) {
        size = pccl_text_character(reader->at + at, length - at);
        if (size == 0)
            return false;
    }
    memcpy(name, reader->at, length); /* the remaining bytes are already zero */
    return true;
}

static bool read_peer(struct reader *reader, uint32_t expected)
{
    struct pccl_topology_peer *peer = &reader->report->peers[expected];
    uint32_t number;
    if (!expect_line(reader, "peer"))
        return false;
    if (!take_u32(reader, PCCL_PEERS_MAX, &number) || number != expected)
        return wrong(reader, "expected 'peer %u'", expected);
    if (!take_id(reader, &peer->id))
        return wrong(reader, "expected 32 hexadecimal digits after 'peer %u'", expected);
    if (!take_address(reader, &peer->address))
        return wrong(reader, "expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149");
    return take_name(reader, peer->name) ||
           wrong(reader, "expected a name of at most %u bytes of printable UTF-8", PCCL_NAME_MAX);
}

/* Marks a link as seen. Returns false if it already was. */
static bool see(struct reader *reader, uint32_t from, uint32_t to)
{
    size_t bit = (size_t)from * reader->report->count + to;
    uint8_t mask = (uint8_t)(1u << bit % 8);
    if ((reader->seen[bit / 8] & mask) != 0)
        return false;
    reader->seen[bit / 8] |= mask;
    return true;
}

static bool read_ring(struct reader *reader)
{
    struct pccl_topology_report *report = reader->report;
    if (!expect_line(reader, "ring"))
        return false;
    bool is_good = true;
    for (uint32_t i = 0; is_good && i < report->count; i++)
        is_good =
            take_u32(reader, report->count - 1, &report->ring[i]) && see(reader, report->ring[i], report->ring[i]);
    return (is_good && take_end(reader)) || wrong(reader, "'ring' must name each of the %u peers once", report->count);
}

static bool read_search(struct reader *reader)
{
    struct pccl_topology_report *report = reader->report;
    if (!expect_line(reader, "search"))
        return false;
    return (take_word(reader, "seed") && take_number(reader, UINT64_MAX, &report->seed) && take_word(reader, "steps") &&
            take_number(reader, UINT64_MAX, &report->steps) && take_end(reader)) ||
           wrong(reader, "expected 'search seed NUMBER steps NUMBER'");
}

static bool take_source(struct reader *reader, struct pccl_topology_link *link)
{
    link->source = take_word(reader, "tested") ? PCCL_FIGURE_TESTED : PCCL_FIGURE_TRAFFIC;
    bool is_good = link->source == PCCL_FIGURE_TESTED || take_word(reader, "traffic");
    link->reversed = is_good && take_word(reader, "reversed");
    return is_good;
}

static bool take_figures(struct reader *reader, struct pccl_topology_link *link)
{
    if (take_word(reader, "unreachable")) {
        link->source = PCCL_FIGURE_UNREACHABLE;
        return take_word(reader, "age") && take_number(reader, UINT64_MAX, &link->age_ms);
    }
    return take_word(reader, "rate") && take_number(reader, UINT64_MAX, &link->rate) && take_word(reader, "rtt") &&
           take_u32(reader, UINT32_MAX, &link->rtt_us) && take_word(reader, "age") &&
           take_number(reader, UINT64_MAX, &link->age_ms) && take_source(reader, link);
}

/* Reads the rest of a line that begins with "way". */
static bool read_link(struct reader *reader)
{
    struct pccl_topology_link link = {0};
    uint32_t last = reader->report->count - 1;
    if (!take_u32(reader, last, &link.from) || !take_u32(reader, last, &link.to) || link.from == link.to)
        return wrong(reader, "expected the numbers of two peers, up to %u, after 'way'", last);
    if (!take_figures(reader, &link) || !take_end(reader))
        return wrong(reader, "expected 'rate NUMBER rtt NUMBER age NUMBER tested', the same with 'traffic', or "
                             "'unreachable age NUMBER' after the two peers");
    if (!see(reader, link.from, link.to))
        return wrong(reader, "duplicate way from %u to %u", link.from, link.to);
    return pccl_topology_report_add(reader->report, &link) || out_of_memory(reader);
}

/* Reads lines until "end". */
static bool read_links(struct reader *reader)
{
    bool more = true;
    while (more) {
        if (!next_line(reader))
            return wrong(reader, "unexpected end: expected 'way' or 'end'");
        more = take_word(reader, "way");
        if (more && !read_link(reader))
            return false;
    }
    if (!take_word(reader, "end") || !take_end(reader))
        return wrong(reader, "expected 'way' or 'end'");
    return !next_line(reader) || wrong(reader, "only comments may follow 'end'");
}

static bool read_body(struct reader *reader)
{
    for (uint32_t i = 0; i < reader->report->count; i++) {
        if (!read_peer(reader, i))
            return false;
    }
    size_t bytes = ((size_t)reader->report->count * reader->report->count + 7) / 8;
    reader->seen = pccl_allocate(&reader->report->memory, bytes);
    if (reader->seen == NULL)
        return out_of_memory(reader);
    bool is_good = read_ring(reader) && read_search(reader) && read_links(reader);
    pccl_release(&reader->report->memory, reader->seen, bytes);
    return is_good;
}

enum pccl_status perf_report_parse(const char *text, size_t length, const struct pccl_memory *memory,
                                   struct pccl_topology_report *report, struct pccl_text *reason)
{
    struct pccl_topology_report read;
    struct reader reader = {.report = &read, .reason = reason};
    uint32_t group = 0, count = 0;
    reader.next = length > 0 ? text : "";
    reader.end = reader.next + length;
    pccl_text_clear(reason);
    if (!read_head(&reader, &group, &count))
        return reader.status;
    if (!pccl_topology_report_init(&read, memory, count)) {
        (void)out_of_memory(&reader);
        return reader.status;
    }
    read.group = group;
    if (!read_body(&reader)) {
        pccl_topology_report_fini(&read);
        return reader.status;
    }
    *report = read;
    return PCCL_OK;
}
