/*
 * Code that can be left in the middle when an invariant of ours breaks in it: a thread's loop, a visit to a machine.
 * What it worked on must not be used any more, and nothing of it be freed; what it held stays held.
 */
#ifndef PCCL_NET_GUARD_H
#define PCCL_NET_GUARD_H

#include "core/base.h"

/* Runs body(argument). false: it was left in the middle. Guards of one thread may be nested. */
bool pccl_guard_run(void (*body)(void *argument), void *argument);
/* Leaves what this thread's innermost guard runs. Returns when there is none. */
void pccl_guard_leave(void);

#endif
