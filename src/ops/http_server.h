/*
 * Answers GET, HEAD and POST over HTTP on an event loop with more important work: few connections, each for one
 * request, for a short time, with little memory. Visitors that send or read slowly, or arrive in crowds, are
 * dropped without harm to others. With keys it speaks HTTPS at addresses beyond this machine, where handshakes are
 * queued: a limited number per second, addresses with few connections first. Knows nothing of the pages: its owner
 * takes the requests in each turn of the loop, and answers at once or later. Runs on the loop's thread.
 */
#ifndef PCCL_OPS_HTTP_SERVER_H
#define PCCL_OPS_HTTP_SERVER_H

#include "core/budget.h"
#include "core/memory.h"
#include "core/print.h"
#include "net/keys.h"
#include "os/resolve.h"
#include "ops/http.h"

#include <uv.h>

enum {
    PCCL_HTTP_SOCKETS_MAX = 8,
    PCCL_HTTP_VISITORS_MAX = 32, /* connections; one more drops the oldest of the address with the most */
    PCCL_HTTP_REQUEST_MS = 5000, /* for the head of a request, and the handshake before it */
    PCCL_HTTP_HANDSHAKES_PER_S = 50,
    PCCL_HTTP_ANSWER_MS = 10000, /* for the whole answer */
};

struct pccl_http_visitor; /* a connection */

/* A body that is sent to several visitors at once. */
struct pccl_http_body {
    const struct pccl_memory *memory;
    uint32_t users;
    struct pccl_print print;
};
/* With one user. NULL: out of memory. */
struct pccl_http_body *pccl_http_body_make(const struct pccl_memory *memory, uint32_t most);
/* Freed by the last one. */
void pccl_http_body_leave(struct pccl_http_body *body);

struct pccl_http_server {
    /* the owner's, before open */
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash; /* random */
    const struct pccl_keys *keys;     /* of a certificate (net/keys.h); NULL: none, it is plain HTTP everywhere */
    /* its own */
    uv_os_sock_t listening[PCCL_HTTP_SOCKETS_MAX];
    uv_poll_t polls[PCCL_HTTP_SOCKETS_MAX];
    uint32_t socket_count;
    bool is_loopback[PCCL_HTTP_SOCKETS_MAX];
    uv_timer_t pause, grants;
    struct pccl_budget budget; /* for handshakes */
    bool is_open;
    uint16_t port; /* of the first socket */
    struct pccl_http_visitor *oldest, *newest;
    uint32_t visitor_count;
    uint64_t answered, refused, dropped;
};

/* Listens. 0, or a negative libuv error with a reason, and nothing is open. */
PCCL_MUST_CHECK int pccl_http_open(struct pccl_http_server *server, const struct pccl_address *addresses,
                                   uint32_t count, struct pccl_text *reason);
/* Also for a zeroed struct. Ends all connections; the struct must stay until the loop has released them. */
void pccl_http_close(struct pccl_http_server *server);
/*
 * Returns a visitor with a complete request, each visitor once, and fills in its request. Returns NULL if no visitor is
 * left. The owner then answers or refuses the visitor, or lets it wait. Call it in each turn of the loop, outside of
 * callbacks.
 */
struct pccl_http_visitor *pccl_http_next(struct pccl_http_server *server, struct pccl_http_request *request);
/* wanted: not 0; the owner passes the same number to pccl_http_answer_all. */
void pccl_http_let_wait(struct pccl_http_visitor *visitor, uint32_t wanted);
bool pccl_http_is_https(const struct pccl_http_visitor *visitor);
/* Returns true if the listening address can be reached from this machine only. */
bool pccl_http_is_loopback(const struct pccl_http_visitor *visitor);
/* Call it once for each visitor. body: borrowed, and kept until it has been sent. NULL: out of memory (503). */
void pccl_http_answer(struct pccl_http_visitor *visitor, const char *type, struct pccl_http_body *body);
/* An error in words, a sentence. */
void pccl_http_refuse(struct pccl_http_visitor *visitor, uint16_t code, const char *words);
/* Answers all visitors that wait with this number. */
void pccl_http_answer_all(struct pccl_http_server *server, uint32_t wanted, const char *type,
                          struct pccl_http_body *body);

#endif
