/*
 * Handles broken invariants of our own code. Builds for development stop the process with a message. A release
 * of the library never ends its host: what is guarded (net/guard.h) is left in the middle, and what it worked on is
 * never used again. Guarded are the threads of a communicator and of a master, steps of machines, and public calls
 * (comm_callers.h). No caller asserts while it holds a lock other than its communicator's.
 */
#ifndef PCCL_DRIVE_GUARD_H
#define PCCL_DRIVE_GUARD_H

/* Takes over broken invariants of the whole process. Any number of times. */
void pccl_guard_install(void);

#endif
