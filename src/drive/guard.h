/*
 * What becomes of a broken invariant of our own code. Builds for development stop the process with a message. A release
 * of the library never ends its host: the visit to the machine is left (guarded code), and the machine is never visited
 * again.
 */
#ifndef PCCL_DRIVE_GUARD_H
#define PCCL_DRIVE_GUARD_H

#include "core/base.h"

/* Takes over broken invariants of the whole process. Any number of times. */
void pccl_guard_install(void);
/*
 * Runs body(argument). false: an invariant broke in it, and it was left in the middle; what it worked on must not be
 * used any more. It must not hold what would have to be given back. Guards of one thread may be nested.
 */
PCCL_MUST_CHECK bool pccl_guard_run(void (*body)(void *argument), void *argument);

#endif
