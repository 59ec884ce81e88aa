#include "os/socket_posix.h"

#include "os/fork.h"
#include "os/unwanted.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

uint32_t pccl_socket_rtt_us(uv_os_sock_t socket)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_rtt : 0;
}

static void control_congestion(uv_os_sock_t socket, const char *name)
{
    (void)setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)); /* fails if not permitted */
}

void pccl_socket_begin_unpaced(uv_os_sock_t socket)
{
    char name[16] = "";
    socklen_t length = sizeof name - 1;
    if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, "bbr") == 0)
        control_congestion(socket, "reno");
}

void pccl_socket_choose_congestion(uv_os_sock_t socket, bool is_short)
{
    control_congestion(socket, is_short ? "reno" : "bbr");
}

bool pccl_socket_is_of_this_user(uv_os_sock_t connected)
{
    struct ucred other;
    socklen_t length = sizeof other;
    return getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}

/* ---- descriptors ---- */

#if !defined(SO_PASSRIGHTS) && (defined(__x86_64__) || defined(__aarch64__))
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

enum { DESCRIPTORS_MAX = 253 /* the system's limit for one message */ };

struct passed {
    size_t count;
    int descriptors[DESCRIPTORS_MAX];
};

static void copy_passed(struct msghdr *message, struct passed *passed)
{
    struct cmsghdr *came = CMSG_FIRSTHDR(message); /* not const, which CMSG_DATA of musl casts away */
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

ptrdiff_t pccl_socket_receive(uv_os_sock_t socket, struct iovec *pieces, int count)
{
    struct passed passed;
    ptrdiff_t moved = receive(socket, pieces, count, &passed);
    if (passed.count == 0)
        return moved;
    pccl_unwanted_close(passed.descriptors, passed.count);
    return UV_EPROTO;
}

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

bool pccl_socket_empty_local(uv_os_sock_t socket)
{
    uint8_t bytes[4096];
    int family = 0;
    socklen_t length = sizeof family;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0 || family != AF_UNIX)
        return false;
    (void)shutdown(socket, SHUT_RDWR);
    ptrdiff_t moved;
    do {
        struct iovec piece = {bytes, sizeof bytes};
        moved = pccl_socket_receive(socket, &piece, 1);
    } while (moved > 0 || moved == UV_EPROTO);
    return true;
}
