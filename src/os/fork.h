/*
 * Keeps forked children from holding our descriptors open: a child that inherits sockets would hide the death of its
 * parent from every peer. The library's sockets, locked files, shared memory etc. are registered here and closed in the
 * child.
 *
 * Every object that owns a thread stores the generation in which it was created, so that calls in a child can be
 * refused: the object's locks and threads do not survive the fork.
 */
#ifndef PCCL_OS_FORK_H
#define PCCL_OS_FORK_H

#include "core/base.h"

#include <uv.h>

/* Returns the fork generation, which differs between a process and each of its forked children. Any thread. */
uint32_t pccl_fork_generation(void);

/* Blocks forks while a descriptor is created and registered, or closed and unregistered. */
void pccl_fork_lock(void);
void pccl_fork_unlock(void);
/* Registers a descriptor. Returns false if out of memory. The caller holds the lock. */
PCCL_MUST_CHECK bool pccl_fork_remember(uv_os_sock_t descriptor);
/*
 * Registers the descriptor that a system call has returned, and unlocks. `opened` may be -1 if the call has failed with
 * errno set. Returns 0, or a negative libuv error, and then closes the descriptor. The caller holds the lock.
 */
PCCL_MUST_CHECK int pccl_fork_keep(uv_os_sock_t opened);
void pccl_fork_forget(uv_os_sock_t descriptor);
/* Calls these functions around every fork from now on. On systems without fork they are never called. */
void pccl_fork_call(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
