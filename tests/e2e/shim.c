/*
 * For LD_PRELOAD: system calls that fail now and then as they may on any busy machine. One call in SHIM_ONE_IN is
 * interrupted, finds no buffers or no descriptor, or moves fewer bytes than asked for. SHIM_SEED makes processes
 * differ. At exit it prints on standard error how often it did so. SHIM_LATE_WAKES_MS: a thread that wakes another
 * one's loop is held up for that long before it does, as on a machine that is busy. SHIM_CONGESTION: the congestion
 * control that connections get when another one is asked for, as on a system that has no other. SHIM_DISK: after each
 * fsync of a directory, a copy of its synced files, as they are after a loss of power.
 */
#include "preload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_uint_fast64_t calls, faults;
static uint64_t one_in, late_wakes_ms;
static const char *congestion, *disk;

__attribute__((constructor)) static void start(void)
{
    const char *rate = getenv("SHIM_ONE_IN"), *seed = getenv("SHIM_SEED");
    congestion = getenv("SHIM_CONGESTION");
    disk = getenv("SHIM_DISK");
    const char *late = getenv("SHIM_LATE_WAKES_MS");
    late_wakes_ms = late != NULL ? strtoull(late, NULL, 10) : 0;
    one_in = rate != NULL ? strtoull(rate, NULL, 10) : 0;
    atomic_store(&state, seed != NULL ? strtoull(seed, NULL, 10) : 1);
}

__attribute__((destructor)) static void end(void)
{
    fprintf(stderr, "shim: %llu of %llu calls\n", (unsigned long long)atomic_load(&faults),
            (unsigned long long)atomic_load(&calls));
}

/* Returns the fault of this call, below `kinds`, or `kinds` for no fault. */
static unsigned pick(unsigned kinds)
{
    atomic_fetch_add(&calls, 1);
    uint64_t number = draw();
    if (one_in == 0 || number % one_in != 0)
        return kinds;
    atomic_fetch_add(&faults, 1);
    return (unsigned)(number / one_in % kinds);
}

static int fail(int error)
{
    errno = error;
    return -1;
}

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
    REAL(send);
    switch (pick(4)) {
    case 0: return fail(EINTR);
    case 1: return fail(ENOBUFS);
    case 2: return fail(EAGAIN);
    case 3: return real.call(socket, bytes, length > 1 ? 1 + draw() % (length - 1) : length, flags);
    default: return real.call(socket, bytes, length, flags);
    }
}

ssize_t recv(int socket, void *bytes, size_t length, int flags)
{
    REAL(recv);
    switch (pick(3)) {
    case 0: return fail(EINTR);
    case 1: return fail(EAGAIN);
    case 2: return real.call(socket, bytes, length > 8 ? 1 + draw() % 8 : length, flags);
    default: return real.call(socket, bytes, length, flags);
    }
}

/* Used by the data path for several pieces at once. A short call moves a part of the first piece. */
ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    switch (pick(4)) {
    case 0: return fail(EINTR);
    case 1: return fail(ENOBUFS);
    case 2: return fail(EAGAIN);
    case 3: {
        struct iovec piece = message->msg_iov[0];
        struct msghdr less = *message;
        piece.iov_len = piece.iov_len > 1 ? 1 + draw() % (piece.iov_len - 1) : piece.iov_len;
        less.msg_iov = &piece;
        less.msg_iovlen = 1;
        return real.call(socket, &less, flags);
    }
    default: return real.call(socket, message, flags);
    }
}

ssize_t readv(int file, const struct iovec *pieces, int count)
{
    REAL(readv);
    switch (pick(3)) {
    case 0: return fail(EINTR);
    case 1: return fail(EAGAIN);
    case 2: {
        struct iovec piece = pieces[0];
        piece.iov_len = piece.iov_len > 8 ? 1 + draw() % 8 : piece.iov_len;
        return real.call(file, &piece, 1);
    }
    default: return real.call(file, pieces, count);
    }
}

int accept4(int socket, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
    static const int errors[] = {EINTR, ECONNABORTED, EAGAIN};
    REAL(accept4);
    unsigned kind = pick(3);
    return kind < 3 ? fail(errors[kind]) : real.call(socket, address, length, flags);
}

/* The attempt continues although the call was interrupted. */
int connect(int socket, const struct sockaddr *address, socklen_t length)
{
    REAL(connect);
    bool interrupted = pick(1) == 0;
    int result = real.call(socket, address, length);
    return interrupted && (result == 0 || errno == EINPROGRESS) ? fail(EINTR) : result;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
    REAL(poll);
    return pick(1) == 0 ? fail(EINTR) : real.call(descriptors, count, timeout_ms);
}

int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout_ms, const sigset_t *signals)
{
    REAL(epoll_pwait);
    return pick(1) == 0 ? fail(EINTR) : real.call(epoll, events, count, timeout_ms, signals);
}

int setsockopt(int socket, int level, int option, const void *value, socklen_t length)
{
    REAL(setsockopt);
    if (congestion != NULL && level == IPPROTO_TCP && option == TCP_CONGESTION)
        return real.call(socket, level, option, congestion, (socklen_t)strlen(congestion));
    return real.call(socket, level, option, value, length);
}

/* Function of libuv, whose headers are not needed here. */
int uv_async_send(void *handle);
int uv_async_send(void *handle)
{
    REAL(uv_async_send);
    (void)usleep((useconds_t)(late_wakes_ms * 1000));
    return real.call(handle);
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
    return epoll_pwait(epoll, events, count, timeout_ms, NULL);
}

/* ---- loss of power ---- */

enum { SYNCED_MAX = 4096 };

static struct stat synced[SYNCED_MAX]; /* attributes at the time of the sync */
static size_t synced_count;

/* Another file may have received the inode since. */
static bool is_synced(const struct stat *file)
{
    for (size_t i = 0; i < synced_count; i++)
        if (synced[i].st_ino == file->st_ino && synced[i].st_size == file->st_size &&
            synced[i].st_mtim.tv_sec == file->st_mtim.tv_sec && synced[i].st_mtim.tv_nsec == file->st_mtim.tv_nsec)
            return true;
    return false;
}

static void copy(int from, int to)
{
    char bytes[4096];
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, (size_t)got) != got)
            abort();
    (void)close(from);
    (void)close(to);
}

static void copy_synced(int directory)
{
    struct stat status;
    int image = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        (void)unlinkat(image, entry->d_name, 0);
        if (is_synced(&status))
            copy(openat(directory, entry->d_name, O_RDONLY | O_CLOEXEC),
                 openat(image, entry->d_name, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
    }
    (void)closedir(entries);
    (void)close(image);
}

int fsync(int file)
{
    REAL(fsync);
    struct stat status;
    int result = real.call(file);
    if (disk == NULL || result != 0 || fstat(file, &status) != 0)
        return result;
    if (S_ISDIR(status.st_mode))
        copy_synced(file);
    else if (synced_count < SYNCED_MAX)
        synced[synced_count++] = status;
    return result;
}
