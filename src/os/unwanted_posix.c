#include "os/unwanted.h"

#include "os/fork.h"
#include "os/thread.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY_MOST = 16 << 20 }; /* size limit in bytes */

struct batch {
    struct batch *next;
    size_t count;
    int descriptors[];
};

/* All three are protected by the fork lock. */
static struct batch *waiting;
static bool is_running;
static uint32_t running_generation; /* fork generation of the thread, which does not exist in a forked child */

static void close_all(void *argument)
{
    (void)argument;
    for (;;) {
        pccl_fork_lock();
        struct batch *batch = waiting;
        if (batch)
            waiting = batch->next;
        else
            is_running = false;
        pccl_fork_unlock();
        if (!batch)
            return;
        for (size_t i = 0; i < batch->count; i++)
            close(batch->descriptors[i]);
        free(batch);
    }
}

/* Queues the batch. Returns true if the caller must start the thread that closes it. */
static bool append(struct batch *batch, uint32_t generation)
{
    pccl_fork_lock();
    batch->next = waiting;
    waiting = batch;
    bool starts = !is_running || running_generation != generation;
    is_running = true;
    running_generation = generation;
    pccl_fork_unlock();
    return starts;
}

/*
 * Returns true for a small memfd that cannot grow. Well-behaved peers pass one for a pipe, and the socket may be closed
 * before it is received. Its close() never blocks.
 */
static bool is_memory(int descriptor)
{
#ifdef F_GET_SEALS
    struct stat status;
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_GROW) && fstat(descriptor, &status) == 0 && status.st_size <= MEMORY_MOST;
#else
    (void)descriptor;
    return false;
#endif
}

void pccl_unwanted_close(const int *descriptors, size_t count)
{
    uv_thread_t thread;
    uint32_t generation = pccl_fork_generation();
    if (count == 1 && is_memory(descriptors[0])) {
        close(descriptors[0]);
        return;
    }
    struct batch *batch = malloc(sizeof *batch + count * sizeof *descriptors);
    if (!batch)
        return;
    batch->count = count;
    memcpy(batch->descriptors, descriptors, count * sizeof *descriptors);
    if (!append(batch, generation))
        return;
    if (pccl_thread_start(&thread, close_all, NULL) == 0) {
        pccl_thread_detach(thread);
        return;
    }
    pccl_fork_lock();
    is_running = false;
    pccl_fork_unlock();
}
