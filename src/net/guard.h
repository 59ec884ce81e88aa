/*
 * Runs code that is abandoned if one of our invariants breaks in it: the loop of a thread, a step of a state machine, a
 * public call. After that, the objects that the code worked on must be neither used nor freed, and its locks stay
 * locked.
 */
#ifndef PCCL_NET_GUARD_H
#define PCCL_NET_GUARD_H

#include "core/base.h"

#include <setjmp.h>

/* Runs body(argument). Returns false if it was abandoned. Guards of a thread may be nested. */
bool pccl_guard_run(void (*body)(void *argument), void *argument);
/* Abandons the code that runs in this thread's innermost guard. Returns only if there is no guard. */
void pccl_guard_leave(void);

/*
 * As above, but for code that cannot be moved to a separate function:
 *
 *     pccl_guard_push(&guard);
 *     if (setjmp(guard.place) == 0)
 *         ... and pccl_guard_pop(&guard), before the function returns
 *     else
 *         ... it was abandoned, and the guard is popped
 */
struct pccl_guard {
    jmp_buf place;
    struct pccl_guard *outer;
};

void pccl_guard_push(struct pccl_guard *guard);
void pccl_guard_pop(const struct pccl_guard *guard);

#endif
