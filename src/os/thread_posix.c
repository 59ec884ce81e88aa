#include "os/thread.h"

#include <pthread.h>
#include <sched.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument)
{
    pccl_signals before;
    pccl_thread_block_signals(&before);
    int error = uv_thread_create(thread, run, argument);
    pccl_thread_restore_signals(&before);
    return error;
}

void pccl_thread_block_signals(pccl_signals *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void pccl_thread_restore_signals(const pccl_signals *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

void pccl_thread_detach(uv_thread_t thread) { (void)pthread_detach(thread); }

void pccl_thread_yield(void) { (void)sched_yield(); }

bool pccl_thread_is_realtime(void)
{
    int policy;
#ifdef __linux__
    policy =
        (int)syscall(SYS_sched_getscheduler, 0); /* glibc may have cached an earlier one, and musl has no such call */
#else
    struct sched_param unused;
    if (pthread_getschedparam(pthread_self(), &policy, &unused) != 0)
        return true;
#endif
    return policy == SCHED_FIFO || policy == SCHED_RR;
}
