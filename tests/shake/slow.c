/*
 * For LD_PRELOAD: a slow machine. Some calls that send a signal, take a port, connect, make or move a file or wake a
 * loop are delayed by up to SHAKE_MS milliseconds (50), before they act or after. SHAKE_SEED makes runs differ. Unlike
 * with tests/e2e/shim.c no call fails, so the result of a test must not change.
 */
#include "preload.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t longest_us = 50000;

__attribute__((constructor)) static void start(void)
{
    const char *ms = getenv("SHAKE_MS"), *seed = getenv("SHAKE_SEED");
    if (ms != NULL)
        longest_us = strtoull(ms, NULL, 10) * 1000;
    uint64_t of_run = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    atomic_store(&state, of_run * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32);
}

/* Delays one call in `one_in`. A signal may shorten the delay. */
static void dawdle(uint64_t one_in)
{
    uint64_t number = draw();
    if (number % one_in != 0 || longest_us == 0)
        return;
    uint64_t us = number / one_in % longest_us;
    (void)nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000}, NULL);
}

int kill(pid_t process, int number)
{
    REAL(kill);
    dawdle(2);
    int result = real.call(process, number);
    dawdle(2);
    return result;
}

int killpg(pid_t group, int number)
{
    REAL(killpg);
    dawdle(2);
    return real.call(group, number);
}

int bind(int socket, const struct sockaddr *address, socklen_t length)
{
    REAL(bind);
    dawdle(3);
    return real.call(socket, address, length);
}

int listen(int socket, int backlog)
{
    REAL(listen);
    dawdle(3);
    return real.call(socket, backlog);
}

int connect(int socket, const struct sockaddr *address, socklen_t length)
{
    REAL(connect);
    dawdle(5);
    return real.call(socket, address, length);
}

int accept4(int socket, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
    REAL(accept4);
    dawdle(10);
    return real.call(socket, address, length, flags);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    dawdle(2);
    return real.call(from, to);
}

int fsync(int file)
{
    REAL(fsync);
    dawdle(2);
    return real.call(file);
}

/* At the start, programs open many files to read; other processes may wait for the files that are opened to write. */
#define SLOW_OPEN(name)                                                                                                \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        REAL(name);                                                                                                    \
        mode_t mode = 0;                                                                                               \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                                         \
            va_list arguments;                                                                                         \
            va_start(arguments, flags);                                                                                \
            mode = va_arg(arguments, mode_t);                                                                          \
            va_end(arguments);                                                                                         \
        }                                                                                                              \
        dawdle((flags & O_ACCMODE) == O_RDONLY ? 200 : 5);                                                             \
        return real.call(path, flags, mode);                                                                           \
    }
SLOW_OPEN(open)
SLOW_OPEN(open64)

/*
 * Function of libuv, whose headers are not needed here. Python loads libuv with our library, which hides it from
 * RTLD_NEXT.
 */
int uv_async_send(void *handle);
int uv_async_send(void *handle)
{
    void *libuv = dlopen("libuv.so.1", RTLD_LAZY | RTLD_NOLOAD);
    union {
        void *object;
        __typeof__(uv_async_send) *call;
    } real = {libuv != NULL ? dlsym(libuv, "uv_async_send") : NULL};
    if (real.object == NULL)
        abort();
    dawdle(50);
    int result = real.call(handle);
    (void)dlclose(libuv);
    return result;
}
