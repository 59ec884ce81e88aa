/*
 * The control socket of a master, a unix socket in its state directory, which is its user's alone. A lock on the file
 * `lock` beside it shows that a master uses the directory. One line is a command about tokens (ops/tokens.h), and the
 * answer ends with the connection. Few connections, for a short time, with little memory. Runs on the loop's thread.
 */
#ifndef PCCL_OPS_CONTROL_H
#define PCCL_OPS_CONTROL_H

#include "core/list.h"
#include "ops/tokens.h"
#include "net/channel.h"

enum {
    PCCL_CONTROL_VISITORS_MAX = 8,
    PCCL_CONTROL_MS = 5000,      /* for a whole visit */
    PCCL_CONTROL_PATH_MAX = 107, /* of a unix socket */
};

struct pccl_control_visitor;

struct pccl_control {
    /* the owner's, before open */
    struct pccl_tokens *tokens; /* NULL: the master has none, and says so */
    /* its own */
    uv_poll_t poll;
    uv_timer_t pause;
    uv_os_sock_t listening;
    int lock; /* the descriptor of the locked file */
    struct pccl_list_node visitors;
    uint32_t visitor_count;
    uint32_t revoked[PCCL_CONTROL_VISITORS_MAX]; /* tokens, not taken yet */
    uint32_t revoked_count;
    bool is_open;
    char path[PCCL_CONTROL_PATH_MAX + 1];
};

/*
 * Takes the lock of this directory, and listens at the socket `control` there. SYSTEM, with a reason: it is not
 * possible, or another master uses the directory. Afterward the struct stays until the loop has released its handles.
 */
PCCL_MUST_CHECK enum pccl_status pccl_control_open(struct pccl_control *control, uv_loop_t *loop, const char *state,
                                                   struct pccl_text *reason);
/*
 * Returns the number of a revoked token whose peers must leave, or 0 if none is left. Call it until then in each turn
 * of the loop, in which a visitor gives one command at most.
 */
uint32_t pccl_control_take_revoked(struct pccl_control *control);
void pccl_control_close(struct pccl_control *control); /* also of a zeroed struct */

#endif
