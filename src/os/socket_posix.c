#include "os/socket_posix.h"

#include "core/limits.h"
#include "os/fork.h"
#include "os/native.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* systems without it have SO_NOSIGPIPE */
#endif

/* Sets the flags on systems that cannot set them when creating the socket. */
static void make_private(int descriptor)
{
#ifdef SO_NOSIGPIPE
    pccl_socket_set_int(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
#ifndef SOCK_CLOEXEC
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
#else
    (void)descriptor;
#endif
}

int pccl_socket_open(int family, int type, uv_os_sock_t *out)
{
    pccl_fork_lock();
#ifdef SOCK_CLOEXEC
    int opened = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
    int opened = socket(family, type, 0);
#endif
    int error = pccl_fork_keep(opened);
    if (error)
        return error;
    make_private(opened);
    *out = opened;
    return 0;
}

static void tune_stream(uv_os_sock_t socket) { pccl_socket_set_int(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

/* Allows one segment in flight while another is being read (docs/DECISIONS/0005). */
void pccl_socket_tune_here(uv_os_sock_t socket)
{
    enum { BYTES_UNDER_WAY = 512 << 10 };
    pccl_socket_set_int(socket, SOL_SOCKET, SO_SNDBUF, BYTES_UNDER_WAY);
}

/*
 * On a short path, bbr's pacing costs processor time without a benefit. On a long and lossy path, only bbr achieves the
 * full rate, and a path of unknown length may be long and lossy. Buffer sizes are left to the system.
 * bench/history/collectives.md has measurements.
 */
enum { LONG_PATH_NOTSENT_BYTES = 128 << 10 };

static void tune_path(uv_os_sock_t socket)
{
    uint32_t rtt_us = pccl_socket_rtt_us(socket);
    pccl_socket_choose_congestion(socket, rtt_us > 0 && rtt_us < PCCL_LONG_PATH_RTT_US);
#ifdef TCP_NOTSENT_LOWAT
    if (rtt_us >= PCCL_LONG_PATH_RTT_US) /* waiting bytes could use another connection that has room */
        pccl_socket_set_int(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, LONG_PATH_NOTSENT_BYTES);
#endif
}

int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *out)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(address, &native);
    uv_os_sock_t dialed;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &dialed);
    if (error)
        return error;
    tune_stream(dialed);
    pccl_socket_begin_unpaced(dialed);
    /* Allows a master to listen on the port that the system chooses here, now or while the port is in TIME-WAIT. */
    pccl_socket_set_int(dialed, SOL_SOCKET, SO_REUSEADDR, 1);
    int result;
    do {
        result = connect(dialed, (struct sockaddr *)&native, length);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINPROGRESS && errno != EALREADY && errno != EISCONN) {
        error = pccl_socket_last_error();
        pccl_socket_close(dialed);
        return error;
    }
    *out = dialed;
    return 0;
}

void pccl_socket_explain(int error, struct pccl_text *reason)
{
    struct rlimit limit;
    pccl_text_format(reason, "%s", uv_strerror(error));
    if (error == UV_EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        pccl_text_append(reason, " (limit %" PRIu64 "): raise the limit (ulimit -n)", (uint64_t)limit.rlim_cur);
    else if (error == UV_ENFILE)
        pccl_text_append(reason, ": the host has no file descriptors left (fs.file-max)");
}

/* Derives the estimate from the lowest free descriptor, which the system assigns next. */
uint32_t pccl_socket_count_free(const uv_loop_t *loop)
{
    struct rlimit limit;
    pccl_fork_lock(); /* keeps children from inheriting the copy */
    int lowest = fcntl(uv_backend_fd(loop), F_DUPFD_CLOEXEC, 0);
    if (lowest >= 0)
        (void)close(lowest);
    pccl_fork_unlock();
    if (lowest < 0)
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > UINT32_MAX)
        return UINT32_MAX;
    return (uint32_t)limit.rlim_cur - (uint32_t)lowest;
}

int pccl_socket_outcome(uv_os_sock_t socket)
{
    int value = 0;
    socklen_t length = sizeof value;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &value, &length) != 0)
        return pccl_socket_last_error();
    if (value != 0)
        return uv_translate_sys_error(value);
    tune_path(socket);
    return 0;
}

int pccl_socket_listen(const struct pccl_address *address, uv_os_sock_t *out)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(address, &native);
    uv_os_sock_t opened;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &opened);
    if (error)
        return error;
    pccl_socket_begin_unpaced(opened); /* accepted sockets inherit the setting */
    /* Lets a restarted process get its port immediately. A port on which another socket listens is still refused. */
    pccl_socket_set_int(opened, SOL_SOCKET, SO_REUSEADDR, 1);
    if (native.ss_family == AF_INET6)
        pccl_socket_set_int(opened, IPPROTO_IPV6, IPV6_V6ONLY, !pccl_address_is_unspecified(address));
    if (bind(opened, (struct sockaddr *)&native, length) != 0 || listen(opened, PCCL_LISTEN_BACKLOG) != 0) {
        error = pccl_socket_last_error();
        pccl_socket_close(opened);
        return error;
    }
    *out = opened;
    return 0;
}

int pccl_socket_accept(uv_os_sock_t listening, uv_os_sock_t *out, struct pccl_address *from)
{
    struct sockaddr_storage native = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof native;
    pccl_fork_lock();
#ifdef SOCK_CLOEXEC
    int accepted = accept4(listening, (struct sockaddr *)&native, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
    int accepted = accept(listening, (struct sockaddr *)&native, &length);
#endif
    int error = pccl_fork_keep(accepted);
    if (error)
        return error;
    if (!pccl_native_address((struct sockaddr *)&native, from) && native.ss_family != AF_UNIX) {
        pccl_socket_close(accepted);
        return UV_ECONNABORTED;
    }
    make_private(accepted);
    tune_stream(accepted);
    if (native.ss_family == AF_UNIX)
        pccl_socket_tune_here(accepted);
    tune_path(accepted);
    *out = accepted;
    return 0;
}

ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length)
{
    struct iovec piece = {bytes, length};
    return pccl_socket_receive(socket, &piece, 1);
}

ptrdiff_t pccl_socket_peek(uv_os_sock_t socket, uint8_t *bytes, size_t length)
{
    ssize_t got;
    do {
        got = recv(socket, bytes, length, MSG_PEEK);
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    return got == 0 ? UV_EOF : pccl_socket_last_error();
}

bool pccl_socket_await(uv_os_sock_t socket, bool writable, uint32_t limit_ms)
{
    struct pollfd polled = {.fd = socket, .events = writable ? POLLOUT : POLLIN};
    uint64_t end_ns = uv_hrtime() + limit_ms * UINT64_C(1000000);
    int ready;
    do {
        uint64_t now_ns = uv_hrtime();
        ready = poll(&polled, 1, now_ns < end_ns ? (int)((end_ns - now_ns + 999999) / 1000000) : 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

void pccl_socket_wait_bytes(uv_os_sock_t socket, int count)
{
    pccl_socket_set_int(socket, SOL_SOCKET, SO_RCVLOWAT, count);
}

ptrdiff_t pccl_socket_write(uv_os_sock_t socket, const uint8_t *bytes, size_t length)
{
    ssize_t moved;
    do {
        moved = send(socket, bytes, length, MSG_NOSIGNAL);
    } while (moved < 0 && errno == EINTR);
    return moved >= 0 ? moved : pccl_socket_last_error();
}

/* Collects the non-empty pieces. */
static int gather(struct iovec *pieces, const void *first, size_t first_length, const void *second,
                  size_t second_length)
{
    int count = 0;
    if (first_length)
        pieces[count++] = (struct iovec){(void *)(uintptr_t)first, first_length};
    if (second_length)
        pieces[count++] = (struct iovec){(void *)(uintptr_t)second, second_length};
    return count;
}

ptrdiff_t pccl_socket_read_two(uv_os_sock_t socket, uint8_t *first, size_t first_length, uint8_t *second,
                               size_t second_length)
{
    struct iovec pieces[2];
    return pccl_socket_receive(socket, pieces, gather(pieces, first, first_length, second, second_length));
}

ptrdiff_t pccl_socket_write_two(uv_os_sock_t socket, const uint8_t *first, size_t first_length, const uint8_t *second,
                                size_t second_length)
{
    struct iovec pieces[2];
    ssize_t moved;
    int count = gather(pieces, first, first_length, second, second_length);
    struct msghdr message = {.msg_iov = pieces};
    message.msg_iovlen = (__typeof__(message.msg_iovlen))count; /* the type of this field differs between systems */
    do {
        moved = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (moved < 0 && errno == EINTR);
    return moved >= 0 ? moved : pccl_socket_last_error();
}

void pccl_socket_shutdown_write(uv_os_sock_t socket) { (void)shutdown(socket, SHUT_WR); }

void pccl_socket_shutdown(uv_os_sock_t socket) { (void)shutdown(socket, SHUT_RDWR); }

void pccl_socket_abort(uv_os_sock_t socket)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    pccl_socket_close(socket);
}

/*
 * Closes a socket. A Unix socket has already been shut down, so a copy in a forked child cannot hide its end, and it is
 * closed without the fork lock.
 */
void pccl_socket_close(uv_os_sock_t socket)
{
    bool is_local = pccl_socket_empty_local(socket);
    pccl_fork_lock();
    pccl_fork_forget(socket);
    if (!is_local)
        close(socket);
    pccl_fork_unlock();
    if (is_local)
        close(socket);
}

bool pccl_socket_is_local(uv_os_sock_t socket)
{
    struct sockaddr_storage native = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof native;
    return getsockname(socket, (struct sockaddr *)&native, &length) == 0 && native.ss_family == AF_UNIX;
}

void pccl_socket_limit_silence(uv_os_sock_t socket, uint32_t silence_ms)
{
    int seconds = (int)(silence_ms / 1000);
    int most = PCCL_KEEP_ALIVE_MS / 1000;
    int idle = seconds < 4 ? 1 : seconds < 2 * most ? seconds / 2 : most;
    int interval = seconds < 6 ? 1 : seconds - idle < 3 * most ? (seconds - idle) / 3 : most;
    int count = seconds - idle > 3 * interval ? (seconds - idle) / interval : 3;
    pccl_socket_set_int(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
#elif defined(TCP_KEEPALIVE)
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPALIVE, idle);
#endif
#ifdef TCP_KEEPINTVL
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPCNT, count);
#endif
#ifdef TCP_USER_TIMEOUT
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms);
#elif defined(TCP_RXT_CONNDROPTIME)
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, seconds > 0 ? seconds : 1);
#endif
    (void)interval;
    (void)idle;
    (void)count;
}
