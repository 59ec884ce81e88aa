#include "net/thread.h"

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument)
{
#ifdef _WIN32
    return uv_thread_create(thread, run, argument);
#else
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = uv_thread_create(thread, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
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
