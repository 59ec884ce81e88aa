/* The library's threads. They block all signals, so that signal handlers run on the application's threads. */
#ifndef PCCL_OS_THREAD_H
#define PCCL_OS_THREAD_H

#include "core/base.h"

#ifndef _WIN32
#include <signal.h>
#endif
#include <uv.h>

/* Starts a thread. Returns 0, or a negative libuv error. */
PCCL_MUST_CHECK int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument);
/* Lets other threads of this processor run. */
void pccl_thread_yield(void);
/* Returns true if the calling thread has a real-time policy: threads of other policies do not run when it yields. */
bool pccl_thread_is_realtime(void);
/* Detaches a thread that will not be joined. */
void pccl_thread_detach(uv_thread_t thread);

#ifdef _WIN32
typedef int pccl_signals;
#else
typedef sigset_t pccl_signals;
#endif
/* Keeps signal handlers from running on the calling thread until pccl_thread_restore_signals. */
void pccl_thread_block_signals(pccl_signals *before);
void pccl_thread_restore_signals(const pccl_signals *before);

#endif
