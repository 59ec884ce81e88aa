/*
 * Answers GET, HEAD and POST requests over HTTP on an event loop that has more important work. Connections are few and
 * short, serve one request each, and use little memory. Clients that send or read slowly, or arrive in large numbers,
 * are dropped without affecting others. With keys, uses HTTPS on addresses that other machines can reach; handshakes
 * are then queued and limited per second, and clients from addresses with few connections take precedence. Independent
 * of the pages: its owner takes requests in each iteration of the loop, and answers them immediately or later. Runs on
 * the loop's thread.
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
    /* maximum number of connections; one more displaces the oldest of the address with the most */
    PCCL_HTTP_VISITORS_MAX = 32,
    PCCL_HTTP_REQUEST_MS = 5000, /* time limit for the handshake and the head of the request */
    PCCL_HTTP_HANDSHAKES_PER_S = 50,
    PCCL_HTTP_ANSWER_MS = 10000, /* time limit for the answer */
};

struct pccl_http_visitor; /* a client's connection */

/* A body that may be sent to several clients at once. Reference-counted. */
struct pccl_http_body {
    const struct pccl_memory *memory;
    uint32_t users;
    struct pccl_print print;
};
/* Creates an empty body with one reference. Returns NULL if out of memory. */
struct pccl_http_body *pccl_http_body_make(const struct pccl_memory *memory, uint32_t most);
/* Releases a reference. The last one frees the body. */
void pccl_http_body_leave(struct pccl_http_body *body);

struct pccl_http_server {
    /* Set by the owner before pccl_http_open. */
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash; /* random key */
    const struct pccl_keys *keys;     /* keys with a certificate (net/keys.h); NULL: HTTP on all addresses */
    /* private */
    uv_os_sock_t listening[PCCL_HTTP_SOCKETS_MAX];
    uv_poll_t polls[PCCL_HTTP_SOCKETS_MAX];
    uint32_t socket_count;
    bool is_loopback[PCCL_HTTP_SOCKETS_MAX];
    uv_timer_t pause, grants;
    struct pccl_budget budget; /* limit for handshakes */
    bool is_open;
    uint16_t port; /* port of the first socket */
    struct pccl_http_visitor *oldest, *newest;
    uint32_t visitor_count;
    uint64_t answered, refused, dropped;
};

/*
 * Listens on these addresses. Returns 0. On failure, closes everything and returns a negative libuv error with a
 * reason.
 */
PCCL_MUST_CHECK int pccl_http_open(struct pccl_http_server *server, const struct pccl_address *addresses,
                                   uint32_t count, struct pccl_text *reason);
/* Ends all connections. The struct must stay valid until the loop has released them. A zeroed struct is allowed. */
void pccl_http_close(struct pccl_http_server *server);
/*
 * Returns a client with a complete request, each client once, and fills in the request. Returns NULL if there are no
 * more. The owner must answer or refuse the client, or let it wait. Call it in each iteration of the loop, outside of
 * callbacks.
 */
struct pccl_http_visitor *pccl_http_next(struct pccl_http_server *server, struct pccl_http_request *request);
/* Lets the client wait for pccl_http_answer_all with the same number, which must not be 0. */
void pccl_http_let_wait(struct pccl_http_visitor *visitor, uint32_t wanted);
bool pccl_http_is_https(const struct pccl_http_visitor *visitor);
/* Returns true if the client's listening address can only be reached from this machine. */
bool pccl_http_is_loopback(const struct pccl_http_visitor *visitor);
/*
 * Answers a client. Call once for each client. body: referenced until it has been sent; NULL means out of memory, and
 * the answer is then a 503.
 */
void pccl_http_answer(struct pccl_http_visitor *visitor, const char *type, struct pccl_http_body *body);
/* Answers with an error. words: a sentence. */
void pccl_http_refuse(struct pccl_http_visitor *visitor, uint16_t code, const char *words);
/* Answers all clients that wait with this number. */
void pccl_http_answer_all(struct pccl_http_server *server, uint32_t wanted, const char *type,
                          struct pccl_http_body *body);

#endif
