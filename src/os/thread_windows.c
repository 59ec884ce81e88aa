#include "os/thread.h"

int pccl_thread_start(uv_thread_t *thread, void (*run)(void *argument), void *argument)
{
    return uv_thread_create(thread, run, argument);
}

void pccl_thread_block_signals(pccl_signals *before) { *before = 0; }

void pccl_thread_restore_signals(const pccl_signals *before) { (void)before; }

void pccl_thread_detach(uv_thread_t thread) { (void)CloseHandle(thread); }

void pccl_thread_yield(void) { (void)SwitchToThread(); }

bool pccl_thread_is_realtime(void) { return GetPriorityClass(GetCurrentProcess()) == REALTIME_PRIORITY_CLASS; }
