#include "ops/http.h"

#include "core/address.h"

#include <string.h>

/* ---- requests ---- */

/* A line of a request's head, without the line end. */
struct line {
    const char *bytes;
    size_t length;
};

/* Takes the next line. Returns false if its end has not arrived yet. */
static bool take_line(const char *bytes, size_t length, size_t *at, struct line *line)
{
    const char *end = memchr(bytes + *at, '\n', length - *at);
    if (end == NULL)
        return false;
    line->bytes = bytes + *at;
    line->length = (size_t)(end - line->bytes);
    *at += line->length + 1;
    if (line->length > 0 && line->bytes[line->length - 1] == '\r')
        line->length--;
    return true;
}

/* Returns true for characters that are allowed in methods and header names (RFC 9110, 5.6.2). */
static bool is_token(char byte)
{
    static const char marks[] = {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'};
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           memchr(marks, byte, sizeof marks) != NULL;
}

/* Takes the word up to the next blank, and skips the blank. Returns an empty word at the end of the line. */
static struct line take_word(struct line *line)
{
    struct line word = {line->bytes, 0};
    while (word.length < line->length && word.bytes[word.length] != ' ')
        word.length++;
    size_t taken = word.length + (word.length < line->length);
    line->bytes += taken;
    line->length -= taken;
    return word;
}

static bool equals(const struct line *line, const char *text)
{
    size_t length = 0;
    while (length <= line->length && text[length] != '\0')
        length++;
    return line->length == length && memcmp(line->bytes, text, length) == 0;
}

static uint16_t read_method(const struct line *method, struct pccl_http_request *request)
{
    for (size_t i = 0; i < method->length; i++)
        if (!is_token(method->bytes[i]))
            return 400;
    if (method->length == 0)
        return 400;
    request->head = equals(method, "HEAD");
    request->post = equals(method, "POST");
    return request->head || request->post || equals(method, "GET") ? 0 : 405;
}

/* Accepts "/path?query", with or without "http://host" before it. */
static uint16_t read_target(struct line target, struct pccl_http_request *request)
{
    static const char scheme[] = "http://";
    size_t length = 0;
    if (target.length > sizeof scheme - 1 && memcmp(target.bytes, scheme, sizeof scheme - 1) == 0) {
        size_t skipped = sizeof scheme - 1;
        while (skipped < target.length && target.bytes[skipped] != '/')
            skipped++;
        target.bytes += skipped;
        target.length -= skipped;
    }
    if (target.length == 0 || target.bytes[0] != '/')
        return 400;
    while (length < target.length && target.bytes[length] != '?') {
        if (target.bytes[length] <= ' ' || target.bytes[length] > '~')
            return 400;
        length++;
    }
    if (length > PCCL_HTTP_PATH_MAX)
        return 414;
    memcpy(request->path, target.bytes, length);
    request->path[length] = '\0';
    if (length < target.length)
        request->query = (struct pccl_http_value){target.bytes + length + 1, target.length - length - 1};
    return 0;
}

/* Returns 0, or the status code of the answer. */
static uint16_t read_request_line(struct line line, struct pccl_http_request *request)
{
    struct line method = take_word(&line), target = take_word(&line);
    bool known = equals(&line, "HTTP/1.1") || equals(&line, "HTTP/1.0");
    if (!known)
        return line.length == 8 && memcmp(line.bytes, "HTTP/", 5) == 0 ? 505 : 400;
    uint16_t wrong = read_method(&method, request), lost = read_target(target, request);
    if (wrong == 405 && lost == 400)
        return 400;
    return wrong != 0 ? wrong : lost;
}

static char lower(char byte) { return (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte); }

/* Returns true if the line begins with a header of this name. */
static bool is_called(const struct line *line, size_t length, const char *name)
{
    size_t i = 0;
    while (i < length && name[i] != '\0' && lower(line->bytes[i]) == name[i])
        i++;
    return i == length && name[i] == '\0';
}

/* Stores the value if the server uses this header. Returns false if the header occurs a second time. */
static bool keep_header(const struct line *line, size_t name, struct pccl_http_request *request)
{
    struct pccl_http_value *value = is_called(line, name, "host")            ? &request->host
                                    : is_called(line, name, "origin")        ? &request->origin
                                    : is_called(line, name, "authorization") ? &request->authorization
                                                                             : NULL;
    size_t from = name + 1, to = line->length;
    if (value == NULL)
        return true;
    if (value->bytes != NULL)
        return false;
    while (from < to && (line->bytes[from] == ' ' || line->bytes[from] == '\t'))
        from++;
    while (to > from && (line->bytes[to - 1] == ' ' || line->bytes[to - 1] == '\t'))
        to--;
    *value = (struct pccl_http_value){line->bytes + from, to - from};
    return true;
}

static bool read_header(const struct line *line, struct pccl_http_request *request)
{
    size_t name = 0;
    while (name < line->length && is_token(line->bytes[name]))
        name++;
    if (name == 0 || name == line->length || line->bytes[name] != ':')
        return false;
    for (size_t i = name + 1; i < line->length; i++)
        if ((unsigned char)line->bytes[i] < ' ' && line->bytes[i] != '\t')
            return false;
    return keep_header(line, name, request);
}

enum pccl_http_reading pccl_http_read(const char *bytes, size_t length, struct pccl_http_request *request,
                                      uint16_t *code)
{
    size_t at = 0;
    struct line line;
    *request = (struct pccl_http_request){.head = false};
    *code = 431;
    if (length > PCCL_HTTP_HEAD_MAX)
        return PCCL_HTTP_BAD;
    enum pccl_http_reading end = length < PCCL_HTTP_HEAD_MAX ? PCCL_HTTP_MORE : PCCL_HTTP_BAD;
    if (!take_line(bytes, length, &at, &line))
        return end;
    uint16_t wrong = read_request_line(line, request);
    while (take_line(bytes, length, &at, &line)) {
        if (line.length == 0) {
            *code = wrong != 0 ? wrong : 200;
            return wrong != 0 ? PCCL_HTTP_BAD : PCCL_HTTP_REQUEST;
        }
        if (!read_header(&line, request))
            wrong = 400;
        if (wrong == 400)
            break; /* not HTTP, so the end of the head may never arrive */
    }
    if (wrong != 400)
        return end;
    *code = 400;
    return PCCL_HTTP_BAD;
}

bool pccl_http_parameter(const struct pccl_http_request *request, const char *name, struct pccl_http_value *value)
{
    const char *at = request->query.bytes, *end = at + request->query.length;
    size_t length = pccl_string_length(name, request->query.length);
    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        if ((size_t)(stop - at) > length && memcmp(at, name, length) == 0 && at[length] == '=') {
            *value = (struct pccl_http_value){at + length + 1, (size_t)(stop - at) - length - 1};
            return true;
        }
        at = stop + (stop < end);
    }
    return false;
}

/* ---- origin of requests ---- */

/* Returns the host without port and brackets. */
static struct line host_of(const struct pccl_http_value *value)
{
    struct line host = {value->bytes, 0};
    bool brackets = value->length > 0 && value->bytes[0] == '[';
    while (host.length < value->length && value->bytes[host.length] != (brackets ? ']' : ':'))
        host.length++;
    if (brackets) {
        host.bytes++;
        host.length--;
    }
    return host;
}

static bool is_name(const struct line *host, const char *name)
{
    size_t length = host->length;
    length -= length > 1 && host->bytes[length - 1] == '.'; /* root of a fully qualified name */
    size_t i = 0;
    while (i < length && lower(host->bytes[i]) == lower(name[i]) && name[i] != '\0')
        i++;
    return i == length && (name[i] == '\0' || (name[i] == '.' && name[i + 1] == '\0'));
}

static bool is_host(const struct pccl_http_value *value, const char *const *names, uint32_t count)
{
    struct pccl_address address;
    if (value->bytes == NULL || value->length == 0)
        return false;
    struct line host = host_of(value);
    bool known = is_name(&host, "localhost") || pccl_address_parse_ip(host.bytes, host.length, &address);
    for (uint32_t i = 0; !known && i < count; i++)
        known = is_name(&host, names[i]);
    return known;
}

/*
 * Returns true if public DNS cannot have this name, because it has no dot or a top-level domain reserved for private
 * networks.
 */
static bool is_private(const struct pccl_http_value *value)
{
    static const struct line tops[] = {{"local", 5}, {"internal", 8}};
    struct line host = host_of(value);
    if (host.length > 0 && host.bytes[host.length - 1] == '.')
        host.length--;
    bool found = host.length > 0 && memchr(host.bytes, '.', host.length) == NULL;
    for (size_t i = 0; i < PCCL_COUNT_OF(tops); i++) {
        size_t before = host.length - pccl_min_u64(host.length, tops[i].length);
        const struct line top = {host.bytes + before, host.length - before};
        found = found || (before > 1 && host.bytes[before - 1] == '.' && is_name(&top, tops[i].bytes));
    }
    return found;
}

bool pccl_http_is_for_us(const struct pccl_http_request *request, const char *const *names, uint32_t count,
                         bool permits_private)
{
    return request->host.bytes == NULL || is_host(&request->host, names, count) ||
           (permits_private && is_private(&request->host));
}

bool pccl_http_is_ours(const struct pccl_http_request *request, bool is_https, const char *const *names, uint32_t count)
{
    const struct pccl_http_value *origin = &request->origin, *host = &request->host;
    const char *scheme = is_https ? "https://" : "http://";
    const size_t skipped = is_https ? 8 : 7;
    if (is_https ? host->length == 0 : !is_host(host, names, count))
        return false;
    return origin->bytes == NULL ||
           (origin->length == skipped + host->length && memcmp(origin->bytes, scheme, skipped) == 0 &&
            memcmp(origin->bytes + skipped, host->bytes, host->length) == 0);
}

bool pccl_http_bearer(const struct pccl_http_request *request, struct pccl_http_value *token)
{
    static const char scheme[] = "Bearer ";
    const struct pccl_http_value *given = &request->authorization;
    const size_t skipped = sizeof scheme - 1;
    if (given->bytes == NULL || given->length <= skipped || memcmp(given->bytes, scheme, skipped) != 0)
        return false;
    *token = (struct pccl_http_value){given->bytes + skipped, given->length - skipped};
    return true;
}

bool pccl_http_has_token(const struct pccl_http_request *request, const char *token)
{
    struct pccl_http_value given;
    size_t length = 0;
    unsigned differs = 0;
    if (!pccl_http_bearer(request, &given))
        return false;
    for (; length < given.length && token[length] != '\0'; length++)
        differs |= (unsigned char)given.bytes[length] ^ (unsigned char)token[length];
    return differs == 0 && length == given.length && token[length] == '\0';
}

/* ---- answers ---- */

const char *pccl_http_words(uint16_t code)
{
    switch (code) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Service Unavailable";
    }
}

static size_t add(char *head, size_t at, const char *words)
{
    while (*words != '\0') {
        PCCL_ASSERT(at < PCCL_HTTP_ANSWER_MAX);
        head[at++] = *words++;
    }
    return at;
}

size_t pccl_http_write_head(uint16_t code, const char *type, uint64_t body_bytes, char head[PCCL_HTTP_ANSWER_MAX])
{
    struct pccl_text number;
    size_t at = add(head, 0, "HTTP/1.1 ");
    pccl_text_format(&number, "%u ", code);
    at = add(head, at, number.bytes);
    at = add(head, at, pccl_http_words(code));
    at = add(head, at, "\r\nServer: pccl-master\r\nContent-Type: ");
    at = add(head, at, type);
    pccl_text_format(&number, "%" PRIu64, body_bytes);
    at = add(head, at, "\r\nContent-Length: ");
    at = add(head, at, number.bytes);
    at = add(head, at, code == 405 ? "\r\nAllow: GET, HEAD, POST" : "");
    return add(head, at,
               "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: "
               "close\r\n\r\n");
}
