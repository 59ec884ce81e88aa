/*
 * Handles broken invariants of our code. Development builds stop the process with a message. A release build never ends
 * its host process: guarded code (net/guard.h) is abandoned, and the objects it worked on are never used again. The
 * threads of a communicator and of a master, the steps of machines, and public calls (comm_callers.h) are guarded. No
 * caller asserts while it holds a lock other than its communicator's.
 */
#ifndef PCCL_DRIVE_GUARD_H
#define PCCL_DRIVE_GUARD_H

/* Installs the handler for the whole process. May be called any number of times. */
void pccl_guard_install(void);

#endif
