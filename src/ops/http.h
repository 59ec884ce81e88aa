/*
 * The part of HTTP/1.x that a server of GET and HEAD needs, with commands by POST: reads the head of a request
 * from the bytes received so far, and writes the head of an answer. Pure and bounded. Every connection carries one
 * request, so bodies and bytes after the head are ignored: commands are in the path alone.
 */
#ifndef PCCL_OPS_HTTP_H
#define PCCL_OPS_HTTP_H

#include "core/base.h"
#include "core/text.h"

enum {
    PCCL_HTTP_HEAD_MAX = 8 << 10, /* bytes of a request's head */
    PCCL_HTTP_PATH_MAX = 255,
    PCCL_HTTP_ANSWER_MAX = 512, /* bytes of the head of an answer */
};

/* The value of a header, in the bytes that were read; NULL: there is no such header. */
struct pccl_http_value {
    const char *bytes;
    size_t length;
};

struct pccl_http_request {
    bool head;                                          /* HEAD: the answer has no body */
    bool post;                                          /* POST: a command */
    struct pccl_http_value host, origin, authorization; /* each appears once at most */
    char path[PCCL_HTTP_PATH_MAX + 1];                  /* without the query; printable ASCII, not decoded */
};

enum pccl_http_reading {
    PCCL_HTTP_MORE,    /* the head is not complete */
    PCCL_HTTP_REQUEST, /* *request is filled */
    PCCL_HTTP_BAD,     /* *code is the status to answer with */
};

/*
 * Reads the first `length` bytes from a client; PCCL_HTTP_HEAD_MAX bytes without an end of the head are BAD. Lines
 * may end with LF alone.
 */
PCCL_MUST_CHECK enum pccl_http_reading pccl_http_read(const char *bytes, size_t length,
                                                      struct pccl_http_request *request, uint16_t *code);
/*
 * Returns true if the request can come from one of our pages, and not from another site's page in the same
 * browser. The origin, if there is one, must be the host of the request, which must be an IP address, "localhost"
 * or one of these names, so that no foreign name resolves to us. HTTPS permits any name: the browser has found it
 * in our certificate.
 */
bool pccl_http_is_ours(const struct pccl_http_request *request, bool is_https, const char *const *names,
                       uint32_t count);
/*
 * Returns false if the request names a host that is not us: the page of another site, whose name has been made to
 * resolve to us. Browsers always name the host; programs need not. If `permits_private`, names that cannot be
 * registered on the internet are permitted too: names without a dot and names under .local and .internal.
 */
bool pccl_http_is_for_us(const struct pccl_http_request *request, const char *const *names, uint32_t count,
                         bool permits_private);
/* Reads the token of the authorization "Bearer <token>". Returns false if there is no token. */
bool pccl_http_bearer(const struct pccl_http_request *request, struct pccl_http_value *token);
/* Is that the token? It takes as long for a wrong one. */
bool pccl_http_has_token(const struct pccl_http_request *request, const char *token);
/* "Not Found" */
const char *pccl_http_words(uint16_t code);
/* Writes the head of an answer with a body of this length. Returns the length of the head. */
size_t pccl_http_write_head(uint16_t code, const char *type, uint64_t body_bytes, char head[PCCL_HTTP_ANSWER_MAX]);

#endif
