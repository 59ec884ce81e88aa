#include "net/guard.h"

#include <setjmp.h>

struct guard {
    jmp_buf place;
    struct guard *outer;
};

static _Thread_local struct guard *innermost;

bool pccl_guard_run(void (*body)(void *argument), void *argument)
{
    struct guard guard;
    guard.outer = innermost;
    innermost = &guard;
    bool whole = setjmp(guard.place) == 0;
    if (whole)
        body(argument);
    innermost = guard.outer;
    return whole;
}

void pccl_guard_leave(void)
{
    if (innermost)
        longjmp(innermost->place, 1);
}
