#include "os/socket_posix.h"

#include "core/limits.h"
#include "os/fork.h"
#include "os/native.h"
#include "os/unwanted.h"

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

void pccl_socket_set_int(uv_os_sock_t socket, int level, int name, int value)
{
    (void)setsockopt(socket, level, name, &value, sizeof value);
}

static socklen_t to_native(const struct pccl_address *address, struct sockaddr_storage *native)
{
    memset(native, 0, sizeof *native);
    if (pccl_address_is_v4(address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)native;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        memcpy(&v4->sin_addr, address->ip + 12, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)native;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address->port);
    v6->sin6_scope_id = address->zone;
    memcpy(&v6->sin6_addr, address->ip, 16);
    return sizeof *v6;
}

bool pccl_native_address(const struct sockaddr *native, struct pccl_address *address)
{
    memset(address, 0, sizeof *address);
    if (native->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)native;
        address->ip[10] = address->ip[11] = 0xff;
        memcpy(address->ip + 12, &v4->sin_addr, 4);
        address->port = ntohs(v4->sin_port);
        return true;
    }
    if (native->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)native;
        memcpy(address->ip, &v6->sin6_addr, 16);
        address->port = ntohs(v6->sin6_port);
        address->zone = v6->sin6_scope_id;
        return true;
    }
    return false;
}

/* Sets the flags on systems that cannot set them when creating the socket. */
static void make_private(int descriptor)
{
#ifndef SOCK_CLOEXEC
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
#else
    (void)descriptor;
#endif
}

int pccl_socket_last_error(void) { return uv_translate_sys_error(errno); }

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

static void tune_stream(uv_os_sock_t socket)
{
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_NODELAY, 1);
#ifdef SO_NOSIGPIPE
    pccl_socket_set_int(socket, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
}

/* Allows one segment in flight while another is being read (docs/DECISIONS/0005). */
void pccl_socket_tune_here(uv_os_sock_t socket)
{
    enum { BYTES_UNDER_WAY = 512 << 10 };
    pccl_socket_set_int(socket, SOL_SOCKET, SO_SNDBUF, BYTES_UNDER_WAY);
}

#if defined(__linux__) && !defined(SO_PASSRIGHTS) && (defined(__x86_64__) || defined(__aarch64__))
#define SO_PASSRIGHTS 83 /* Linux 6.16; older kernels ignore it */
#endif

void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes)
{
#ifdef SO_PASSRIGHTS
    pccl_socket_set_int(socket, SOL_SOCKET, SO_PASSRIGHTS, takes);
#else
    (void)socket;
    (void)takes;
#endif
}

uint32_t pccl_socket_rtt_us(uv_os_sock_t socket)
{
#ifdef __linux__
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
        return info.tcpi_rtt;
#else
    (void)socket;
#endif
    return 0;
}

/*
 * On a short path, bbr's pacing costs processor time without a benefit. On a long and lossy path, only bbr achieves the
 * full rate, and a path of unknown length may be long and lossy. Buffer sizes are left to the system.
 * bench/history/collectives.md has measurements.
 */
enum { LONG_PATH_NOTSENT_BYTES = 128 << 10 };

#ifdef __linux__
static void control_congestion(uv_os_sock_t socket, const char *name)
{
    (void)setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)); /* fails if not permitted */
}
#endif

/*
 * Replaces bbr if it is the system's default. Otherwise a socket that connects or listens with bbr would stay paced,
 * because the kernel does not reset pacing when the congestion control changes.
 */
static void begin_unpaced(uv_os_sock_t socket)
{
#ifdef __linux__
    char name[16] = "";
    socklen_t length = sizeof name - 1;
    if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, "bbr") == 0)
        control_congestion(socket, "reno");
#else
    (void)socket;
#endif
}

static void tune_path(uv_os_sock_t socket)
{
    uint32_t rtt_us = pccl_socket_rtt_us(socket);
#ifdef __linux__
    control_congestion(socket, rtt_us > 0 && rtt_us < PCCL_LONG_PATH_RTT_US ? "reno" : "bbr");
#endif
#ifdef TCP_NOTSENT_LOWAT
    if (rtt_us >= PCCL_LONG_PATH_RTT_US) /* waiting bytes could use another connection that has room */
        pccl_socket_set_int(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, LONG_PATH_NOTSENT_BYTES);
#endif
}

int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *out)
{
    struct sockaddr_storage native;
    socklen_t length = to_native(address, &native);
    uv_os_sock_t dialed;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &dialed);
    if (error)
        return error;
    tune_stream(dialed);
    begin_unpaced(dialed);
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

bool pccl_socket_is_shortage(int error)
{
    return error == UV_EMFILE || error == UV_ENFILE || error == UV_ENOBUFS || error == UV_ENOMEM;
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

bool pccl_socket_lacks_family(int error)
{
    return error == UV_EAFNOSUPPORT || error == UV_EADDRNOTAVAIL || error == UV_EPROTONOSUPPORT;
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
    socklen_t length = to_native(address, &native);
    uv_os_sock_t opened;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &opened);
    if (error)
        return error;
    begin_unpaced(opened); /* accepted sockets inherit the setting */
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

#ifdef __linux__
enum { DESCRIPTORS_MAX = 253 /* the system's limit for one message */ };

struct passed {
    size_t count;
    int descriptors[DESCRIPTORS_MAX];
};

static void copy_passed(struct msghdr *message, struct passed *passed)
{
    const struct cmsghdr *came = CMSG_FIRSTHDR(message);
    if (!came || came->cmsg_level != SOL_SOCKET || came->cmsg_type != SCM_RIGHTS)
        return;
    passed->count = (came->cmsg_len - CMSG_LEN(0)) / sizeof *passed->descriptors;
    memcpy(passed->descriptors, CMSG_DATA(came), passed->count * sizeof *passed->descriptors);
}

/*
 * Receives bytes and all descriptors passed with them. The buffer must have room for all of them: otherwise the system
 * closes the rest within this call, and the sender could make that block indefinitely.
 */
static ptrdiff_t receive(uv_os_sock_t socket, struct iovec *pieces, int count, struct passed *passed)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = pieces};
    message.msg_iovlen = (__typeof__(message.msg_iovlen))count; /* the type of this field differs between systems */
    ssize_t moved;
    do {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        moved = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (moved < 0 && errno == EINTR);
    passed->count = 0;
    if (moved < 0)
        return pccl_socket_last_error();
    if (message.msg_controllen > 0)
        copy_passed(&message, passed);
    return moved > 0 ? moved : UV_EOF;
}

/* Reads bytes. Returns UV_EPROTO if descriptors were passed with them. */
static ptrdiff_t receive_bytes(uv_os_sock_t socket, struct iovec *pieces, int count)
{
    struct passed passed;
    ptrdiff_t moved = receive(socket, pieces, count, &passed);
    if (passed.count == 0)
        return moved;
    pccl_unwanted_close(passed.descriptors, passed.count);
    return UV_EPROTO;
}
#else
static ptrdiff_t receive_bytes(uv_os_sock_t socket, struct iovec *pieces, int count)
{
    ssize_t moved;
    do {
        moved = readv(socket, pieces, count);
    } while (moved < 0 && errno == EINTR);
    if (moved > 0)
        return moved;
    return moved == 0 ? UV_EOF : pccl_socket_last_error();
}
#endif

ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length)
{
    struct iovec piece = {bytes, length};
    return receive_bytes(socket, &piece, 1);
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
    return receive_bytes(socket, pieces, gather(pieces, first, first_length, second, second_length));
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

#ifdef __linux__
ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, length};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof descriptor)];
    } passed = {.align = {.cmsg_len = CMSG_LEN(sizeof descriptor), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof passed.bytes};
    memcpy(CMSG_DATA(&passed.align), &descriptor, sizeof descriptor);
    ssize_t moved;
    do {
        moved = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (moved < 0 && errno == EINTR);
    return moved >= 0 ? moved : pccl_socket_last_error();
}

ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor)
{
    struct iovec piece = {bytes, length};
    struct passed passed;
    *descriptor = -1;
    pccl_fork_lock();
    ptrdiff_t moved = receive(socket, &piece, 1, &passed);
    if (passed.count == 1 && pccl_fork_remember(passed.descriptors[0])) {
        *descriptor = passed.descriptors[0];
        passed.count = 0;
    }
    pccl_fork_unlock();
    if (passed.count > 0)
        pccl_unwanted_close(passed.descriptors, passed.count);
    if (moved > 0)
        pccl_socket_take_descriptors(socket, false);
    return moved;
}

void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor)
{
    pccl_fork_lock();
    pccl_fork_forget(descriptor);
    pccl_fork_unlock();
    pccl_unwanted_close(&descriptor, 1);
}
#else
ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor)
{
    (void)descriptor;
    return pccl_socket_write(socket, bytes, length);
}

ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor)
{
    *descriptor = -1;
    return pccl_socket_read(socket, bytes, length);
}

void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor) { (void)descriptor; }
#endif

void pccl_socket_shutdown_write(uv_os_sock_t socket) { (void)shutdown(socket, SHUT_WR); }

void pccl_socket_shutdown(uv_os_sock_t socket) { (void)shutdown(socket, SHUT_RDWR); }

void pccl_socket_abort(uv_os_sock_t socket)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    pccl_socket_close(socket);
}

#ifdef __linux__
/*
 * Removes descriptors from a Unix socket's queue, because the system would otherwise close them with the socket. Shuts
 * the socket down first, so that no more arrive. Returns false if it is not a Unix socket.
 */
static bool empty_local(uv_os_sock_t socket)
{
    uint8_t bytes[4096];
    int family = 0;
    socklen_t length = sizeof family;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0 || family != AF_UNIX)
        return false;
    pccl_socket_shutdown(socket);
    ptrdiff_t moved;
    do {
        moved = pccl_socket_read(socket, bytes, sizeof bytes);
    } while (moved > 0 || moved == UV_EPROTO);
    return true;
}
#else
static bool empty_local(uv_os_sock_t socket)
{
    (void)socket;
    return false;
}
#endif

/*
 * Closes a socket. A Unix socket has already been shut down, so a copy in a forked child cannot hide its end, and it is
 * closed without the fork lock.
 */
void pccl_socket_close(uv_os_sock_t socket)
{
    bool is_local = empty_local(socket);
    pccl_fork_lock();
    pccl_fork_forget(socket);
    if (!is_local)
        close(socket);
    pccl_fork_unlock();
    if (is_local)
        close(socket);
}

bool pccl_socket_local(uv_os_sock_t socket, struct pccl_address *address)
{
    struct sockaddr_storage native = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof native;
    return getsockname(socket, (struct sockaddr *)&native, &length) == 0 &&
           pccl_native_address((struct sockaddr *)&native, address);
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
    int interval = seconds >= 6 ? seconds / 6 : 1;
    pccl_socket_set_int(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds >= 4 ? seconds / 2 : 1);
#endif
#ifdef TCP_KEEPINTVL
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
#ifdef TCP_USER_TIMEOUT
    pccl_socket_set_int(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms);
#endif
    (void)interval;
}

bool pccl_socket_route(const struct pccl_address *address, struct pccl_address *local)
{
    struct sockaddr_storage native;
    socklen_t length = to_native(address, &native);
    uv_os_sock_t datagram;
    if (pccl_socket_open(native.ss_family, SOCK_DGRAM, &datagram) != 0)
        return false;
    bool found = connect(datagram, (struct sockaddr *)&native, length) == 0 && pccl_socket_local(datagram, local) &&
                 !pccl_address_is_unspecified(local);
    pccl_socket_close(datagram);
    return found;
}
