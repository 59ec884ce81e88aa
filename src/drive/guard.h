/*
 * Handling of broken invariants. A development build aborts the process with a message. A release build never ends its
 * host process: it abandons the guarded code (net/guard.h) and never uses the objects of that code again. Guards
 * protect the threads of communicators and masters, the steps of state machines, and public calls (comm_callers.h).
 * Code must not assert while it holds a lock other than its communicator's.
 */
#ifndef PCCL_DRIVE_GUARD_H
#define PCCL_DRIVE_GUARD_H

/* Installs the handler for the whole process. May be called repeatedly. */
void pccl_guard_install(void);

#endif
