/*
 * As much of HTTP/1.x as a server needs that answers GET and HEAD, and takes commands by POST: reads
 * the head of a request from bytes that have come so far, and writes the head of an answer. Pure and
 * bounded; every connection carries one request, so bodies and what follows the head are of no
 * interest: commands are all in the path.
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
    struct pccl_http_value host, origin, authorization; /* each comes once at most */
    char path[PCCL_HTTP_PATH_MAX + 1];                  /* without the query; printable ASCII, not decoded */
};

enum pccl_http_reading {
    PCCL_HTTP_MORE,    /* the head is not complete */
    PCCL_HTTP_REQUEST, /* *request is filled */
    PCCL_HTTP_BAD,     /* *code is the status to answer with */
};

/*
 * Reads the first `length` bytes of what a client sends; as many as PCCL_HTTP_HEAD_MAX without an
 * end of the head are BAD. Lines may end with LF alone.
 */
PCCL_MUST_CHECK enum pccl_http_reading pccl_http_read(const char *bytes, size_t length,
                                                      struct pccl_http_request *request, uint16_t *code);
/*
 * May this come from a page of ours, and not from one of somebody else's that a browser shows beside it? The origin, if
 * there is one, is the host that was asked; and that is an IP address or "localhost", or one of these names, so that
 * nobody else's name leads here. Of HTTPS it is any name: a browser has found it in our certificate.
 */
bool pccl_http_is_ours(const struct pccl_http_request *request, bool is_https, const char *const *names,
                       uint32_t count);
/* The token in the authorization "Bearer <token>". false: there is none. */
bool pccl_http_bearer(const struct pccl_http_request *request, struct pccl_http_value *token);
/* Is that the token? It takes as long for a wrong one. */
bool pccl_http_has_token(const struct pccl_http_request *request, const char *token);
/* "Not Found" */
const char *pccl_http_words(uint16_t code);
/* Writes the head of an answer with a body of so many bytes. Returns its length. */
size_t pccl_http_write_head(uint16_t code, const char *type, uint64_t body_bytes, char head[PCCL_HTTP_ANSWER_MAX]);

#endif
