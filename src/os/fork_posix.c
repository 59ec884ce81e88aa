#include "os/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t lock;
static uv_os_sock_t *open_sockets;
static size_t open_count, open_capacity;
static _Atomic uint32_t generation;

static void before_fork(void) { uv_mutex_lock(&lock); }

static void after_fork_in_parent(void) { uv_mutex_unlock(&lock); }

static void after_fork_in_child(void)
{
    for (size_t i = 0; i < open_count; i++)
        close(open_sockets[i]);
    open_count = 0;
    atomic_fetch_add(&generation, 1);
    uv_mutex_unlock(&lock);
}

static void initialize(void)
{
    if (uv_mutex_init(&lock) != 0)
        abort(); /* initializing a default mutex never fails on supported systems */
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

uint32_t pccl_fork_generation(void)
{
    uv_once(&once, initialize);
    return atomic_load(&generation);
}

void pccl_fork_lock(void)
{
    uv_once(&once, initialize);
    uv_mutex_lock(&lock);
}

void pccl_fork_unlock(void) { uv_mutex_unlock(&lock); }

bool pccl_fork_remember(uv_os_sock_t descriptor)
{
    if (open_count == open_capacity) {
        size_t capacity = open_capacity ? 2 * open_capacity : 64;
        uv_os_sock_t *grown = realloc(open_sockets, capacity * sizeof(*grown));
        if (!grown)
            return false;
        open_sockets = grown;
        open_capacity = capacity;
    }
    open_sockets[open_count++] = descriptor;
    return true;
}

int pccl_fork_keep(uv_os_sock_t opened)
{
    int error = 0;
    if (opened < 0) {
        error = uv_translate_sys_error(errno);
    } else if (!pccl_fork_remember(opened)) {
        close(opened);
        error = UV_ENOMEM;
    }
    pccl_fork_unlock();
    return error;
}

void pccl_fork_forget(uv_os_sock_t descriptor)
{
    for (size_t i = 0; i < open_count; i++) {
        if (open_sockets[i] != descriptor)
            continue;
        open_sockets[i] = open_sockets[--open_count];
        break;
    }
    if (open_count == 0) { /* keeps leak checkers from reporting the array */
        free(open_sockets);
        open_sockets = NULL;
        open_capacity = 0;
    }
}

void pccl_fork_call(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)pthread_atfork(before, in_parent, in_child);
}
