/*
 * The parts of HTTP/1.x needed for a server of GET and HEAD requests, and of POST for commands. Parses the head of a
 * request from the bytes received so far, and writes the head of an answer. Pure and bounded. Each connection serves
 * one request, so bodies and any bytes after the head are ignored; a command is in the path.
 */
#ifndef PCCL_OPS_HTTP_H
#define PCCL_OPS_HTTP_H

#include "core/base.h"
#include "core/text.h"

enum {
    PCCL_HTTP_HEAD_MAX = 8 << 10, /* maximum size of a request's head in bytes */
    PCCL_HTTP_PATH_MAX = 255,
    PCCL_HTTP_ANSWER_MAX = 512, /* maximum size of an answer's head in bytes */
};

/* A value in a request, a view of the bytes that were read. NULL if it is missing. */
struct pccl_http_value {
    const char *bytes;
    size_t length;
};

struct pccl_http_request {
    bool head;                                          /* HEAD: the answer has no body */
    bool post;                                          /* POST, for a command */
    struct pccl_http_value host, origin, authorization; /* each may occur at most once */
    char path[PCCL_HTTP_PATH_MAX + 1];                  /* path without the query; printable ASCII, not decoded */
    struct pccl_http_value query;                       /* text after the question mark, not decoded */
};

enum pccl_http_reading {
    PCCL_HTTP_MORE,    /* the head is not complete */
    PCCL_HTTP_REQUEST, /* *request is filled */
    PCCL_HTTP_BAD,     /* *code is the status code of the answer */
};

/*
 * Parses the first `length` bytes from a client. If PCCL_HTTP_HEAD_MAX bytes do not contain a complete head, they are
 * BAD. A line may end with a bare LF.
 */
PCCL_MUST_CHECK enum pccl_http_reading pccl_http_read(const char *bytes, size_t length,
                                                      struct pccl_http_request *request, uint16_t *code);
/*
 * Returns true if the request may come from one of our pages, as opposed to another site's page in the same browser.
 * Its origin, if any, must equal the request's host, which must be an IP address, "localhost" or one of these names, so
 * that no foreign name that resolves to us is accepted. HTTPS allows any name, because the browser has found it in our
 * certificate.
 */
bool pccl_http_is_ours(const struct pccl_http_request *request, bool is_https, const char *const *names,
                       uint32_t count);
/*
 * Returns false if the request names a foreign host, which happens when the page of another site has made its name
 * resolve to us. Browsers always name the host; other programs need not. With `permits_private`, names that cannot be
 * registered on the internet are allowed too: names without a dot, and names under .local and .internal.
 */
bool pccl_http_is_for_us(const struct pccl_http_request *request, const char *const *names, uint32_t count,
                         bool permits_private);
/* Finds a parameter "name=value" of the query. Returns false if it is missing. */
bool pccl_http_parameter(const struct pccl_http_request *request, const char *name, struct pccl_http_value *value);
/* Reads the token from the header "Authorization: Bearer <token>". Returns false if that header is missing. */
bool pccl_http_bearer(const struct pccl_http_request *request, struct pccl_http_value *token);
/* Compares the request's token with this one, in constant time. */
bool pccl_http_has_token(const struct pccl_http_request *request, const char *token);
/* Returns the text of a status code, for example "Not Found". */
const char *pccl_http_words(uint16_t code);
/* Writes the head of an answer whose body has this length. Returns the length of the head. */
size_t pccl_http_write_head(uint16_t code, const char *type, uint64_t body_bytes, char head[PCCL_HTTP_ANSWER_MAX]);

#endif
