/*
 * The library's threads. They take no signals, so that the application's handlers run on its own
 * threads.
 */
#ifndef PCCL_OS_THREAD_H
#define PCCL_OS_THREAD_H

#include "core/base.h"

#ifndef _WIN32
#include <signal.h>
#endif
#include <uv.h>

/* 0, or a negative libuv error. */
PCCL_MUST_CHECK int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument);
/* For a thread that nobody will join. */
void pccl_thread_detach(uv_thread_t thread);

#ifdef _WIN32
typedef int pccl_signals;
#else
typedef sigset_t pccl_signals;
#endif
/* No signal handler runs on the calling thread between these two. */
void pccl_thread_hold_signals(pccl_signals *before);
void pccl_thread_restore_signals(const pccl_signals *before);

#endif
