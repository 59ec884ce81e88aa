#include "net/guard.h"

static _Thread_local struct pccl_guard *innermost;

void pccl_guard_push(struct pccl_guard *guard)
{
    guard->outer = innermost;
    innermost = guard;
}

void pccl_guard_pop(const struct pccl_guard *guard) { innermost = guard->outer; }

bool pccl_guard_run(void (*body)(void *argument), void *argument)
{
    struct pccl_guard guard;
    pccl_guard_push(&guard);
    if (setjmp(guard.place) != 0)
        return false;
    body(argument);
    pccl_guard_pop(&guard);
    return true;
}

void pccl_guard_leave(void)
{
    struct pccl_guard *guard = innermost;
    if (!guard)
        return;
    innermost = guard->outer;
    longjmp(guard->place, 1);
}
