/*
 * Keeps forked children from holding our descriptors open: a child that inherits sockets would hide the death of its
 * parent from every peer. The library's sockets, locked files, shared memory and the like are recorded here and closed
 * in the child. Every object that owns a thread stores the generation in which it was created, so that calls in the
 * child can be refused: the object's locks and threads did not survive the fork.
 */
#ifndef PCCL_OS_FORK_H
#define PCCL_OS_FORK_H

#include "core/base.h"

#include <uv.h>

/* Returns the fork generation, which differs between a process and each of its forked children. Any thread. */
uint32_t pccl_fork_generation(void);

/* Locks out forks while a descriptor is created and remembered, or closed and forgotten. */
void pccl_fork_lock(void);
void pccl_fork_unlock(void);
/* Remembers a descriptor. Returns false if out of memory. Caller holds the lock. */
PCCL_MUST_CHECK bool pccl_fork_remember(uv_os_sock_t descriptor);
/*
 * Remembers the descriptor that a system call returned (-1: it failed, and errno is set) and unlocks. Returns 0 or a
 * negative libuv error; the descriptor is then closed. Caller holds the lock.
 */
PCCL_MUST_CHECK int pccl_fork_keep(uv_os_sock_t opened);
void pccl_fork_forget(uv_os_sock_t descriptor);
/* Calls these functions around every fork from now on. Systems without fork never call them. */
void pccl_fork_call(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
