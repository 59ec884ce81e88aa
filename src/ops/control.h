/*
 * The control socket of a master: a Unix socket in its state directory, which only its user can access. A lock on the
 * file `lock` in the same directory shows that a master is using it. Each connection sends one line, a command about
 * tokens (ops/tokens.h), and receives the answer. Connections are few and short, and use little memory. Runs on the
 * loop's thread.
 */
#ifndef PCCL_OPS_CONTROL_H
#define PCCL_OPS_CONTROL_H

#include "core/list.h"
#include "ops/tokens.h"
#include "net/channel.h"

enum {
    PCCL_CONTROL_VISITORS_MAX = 8,
    PCCL_CONTROL_MS = 5000,      /* time limit for a connection */
    PCCL_CONTROL_PATH_MAX = 107, /* maximum length of a Unix socket's path */
};

struct pccl_control_visitor;

struct pccl_control {
    /* Set by the owner before pccl_control_open. */
    struct pccl_tokens *tokens; /* NULL if the master has no tokens; commands then fail with that reason */
    /* private */
    uv_poll_t poll;
    uv_timer_t pause;
    uv_os_sock_t listening;
    uv_os_fd_t lock; /* descriptor of the locked file */
    struct pccl_list_node visitors;
    uint32_t visitor_count;
    uint32_t revoked[PCCL_CONTROL_VISITORS_MAX]; /* revoked tokens that have not been taken yet */
    uint32_t revoked_count;
    bool is_open;
    char path[PCCL_CONTROL_PATH_MAX + 1];
};

/*
 * Locks this directory and listens on the socket `control` in it. Returns SYSTEM with a reason if that fails, or if
 * another master uses the directory. After success, the struct must stay valid until the loop has released its handles.
 */
PCCL_MUST_CHECK enum pccl_status pccl_control_open(struct pccl_control *control, uv_loop_t *loop, const char *state,
                                                   struct pccl_text *reason);
/*
 * Returns the number of a revoked token whose peers must leave, or 0 if there are no more. Call it in each iteration of
 * the loop until it returns 0. A client can give at most one command per iteration.
 */
uint32_t pccl_control_take_revoked(struct pccl_control *control);
void pccl_control_close(struct pccl_control *control); /* a zeroed struct is allowed */

#endif
