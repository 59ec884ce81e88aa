#include "net/thread.h"

#ifndef _WIN32
#include <pthread.h>
#endif

int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument)
{
#ifdef _WIN32
    return uv_thread_create(thread, run, argument);
#else
    pccl_signals before;
    pccl_thread_hold_signals(&before);
    int error = uv_thread_create(thread, run, argument);
    pccl_thread_restore_signals(&before);
    return error;
#endif
}

void pccl_thread_hold_signals(pccl_signals *before)
{
#ifdef _WIN32
    *before = 0;
#else
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
#endif
}

void pccl_thread_restore_signals(const pccl_signals *before)
{
#ifdef _WIN32
    (void)before;
#else
    pthread_sigmask(SIG_SETMASK, before, NULL);
#endif
}

void pccl_thread_detach(uv_thread_t thread)
{
#ifdef _WIN32
    (void)CloseHandle(thread);
#else
    (void)pthread_detach(thread);
#endif
}
