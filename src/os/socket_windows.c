#include "os/socket_windows.h"

#include "os/fork.h"
#include "os/native.h"

#include <limits.h>
#include <mstcpip.h>
#include <string.h>

enum { LISTEN_BACKLOG = 1024 };

#ifndef TCP_MAXRT
#define TCP_MAXRT 5
#endif

static int last_error(void) { return uv_translate_sys_error(WSAGetLastError()); }

static void set_int(uv_os_sock_t socket, int level, int name, int value)
{
    (void)setsockopt(socket, level, name, (const char *)&value, sizeof value);
}

static void make_private(uv_os_sock_t socket)
{
    u_long on = 1;
    (void)ioctlsocket(socket, (long)FIONBIO, &on);
    (void)SetHandleInformation((HANDLE)socket, HANDLE_FLAG_INHERIT, 0);
}

int pccl_socket_open(int family, int type, uv_os_sock_t *out)
{
    (void)uv_hrtime(); /* lets libuv start Winsock, if this is the first call */
    uv_os_sock_t opened = WSASocketW(family, type, 0, NULL, 0, WSA_FLAG_OVERLAPPED);
    int error = pccl_fork_keep(opened);
    if (error)
        return error;
    make_private(opened);
    *out = opened;
    return 0;
}

void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes)
{
    (void)socket;
    (void)takes;
}

uint32_t pccl_socket_rtt_us(uv_os_sock_t socket)
{
    (void)socket;
    return 0;
}

int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *out)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(address, &native);
    uv_os_sock_t dialed;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &dialed);
    if (error)
        return error;
    set_int(dialed, IPPROTO_TCP, TCP_NODELAY, 1);
    if (connect(dialed, (struct sockaddr *)&native, length) != 0 && WSAGetLastError() != WSAEWOULDBLOCK) {
        error = last_error();
        pccl_socket_close(dialed);
        return error;
    }
    *out = dialed;
    return 0;
}

void pccl_socket_explain(int error, struct pccl_text *reason) { pccl_text_format(reason, "%s", uv_strerror(error)); }

/* There is no limit for a process. */
uint32_t pccl_socket_count_free(const uv_loop_t *loop)
{
    (void)loop;
    return UINT32_MAX;
}

int pccl_socket_outcome(uv_os_sock_t socket)
{
    int value = 0;
    socklen_t length = sizeof value;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, (char *)&value, &length) != 0)
        return last_error();
    return uv_translate_sys_error(value);
}

int pccl_socket_listen(const struct pccl_address *address, uv_os_sock_t *out)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(address, &native);
    uv_os_sock_t opened;
    int error = pccl_socket_open(native.ss_family, SOCK_STREAM, &opened);
    if (error)
        return error;
    /* Otherwise another program could bind the same port and receive our connections. */
    set_int(opened, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
    if (native.ss_family == AF_INET6)
        set_int(opened, IPPROTO_IPV6, IPV6_V6ONLY, !pccl_address_is_unspecified(address));
    if (bind(opened, (struct sockaddr *)&native, length) != 0 || listen(opened, LISTEN_BACKLOG) != 0) {
        /* With this option, the system refuses a port in use as forbidden. No ports require a privilege. */
        error = WSAGetLastError() == WSAEACCES ? UV_EADDRINUSE : last_error();
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
    uv_os_sock_t accepted = accept(listening, (struct sockaddr *)&native, &length);
    int error = pccl_fork_keep(accepted);
    if (error)
        return error;
    if (!pccl_native_address((struct sockaddr *)&native, from) || !pccl_socket_admits(listening, from)) {
        pccl_socket_close(accepted);
        return UV_ECONNABORTED;
    }
    make_private(accepted);
    set_int(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
    *out = accepted;
    return 0;
}

/* Describes the non-empty pieces. */
static DWORD gather(WSABUF *pieces, const void *first, size_t first_length, const void *second, size_t second_length)
{
    DWORD count = 0;
    if (first_length)
        pieces[count++] = (WSABUF){(ULONG)pccl_min_u64(first_length, ULONG_MAX), (char *)(uintptr_t)first};
    if (second_length && first_length <= ULONG_MAX)
        pieces[count++] = (WSABUF){(ULONG)pccl_min_u64(second_length, ULONG_MAX), (char *)(uintptr_t)second};
    return count;
}

ptrdiff_t pccl_socket_read_two(uv_os_sock_t socket, uint8_t *first, size_t first_length, uint8_t *second,
                               size_t second_length)
{
    WSABUF pieces[2];
    DWORD moved = 0, flags = 0;
    if (WSARecv(socket, pieces, gather(pieces, first, first_length, second, second_length), &moved, &flags, NULL,
                NULL) != 0)
        return last_error();
    return moved > 0 ? (ptrdiff_t)moved : UV_EOF;
}

ptrdiff_t pccl_socket_write_two(uv_os_sock_t socket, const uint8_t *first, size_t first_length, const uint8_t *second,
                                size_t second_length)
{
    WSABUF pieces[2];
    DWORD moved = 0;
    if (WSASend(socket, pieces, gather(pieces, first, first_length, second, second_length), &moved, 0, NULL, NULL) != 0)
        return last_error();
    return (ptrdiff_t)moved;
}

ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length)
{
    return pccl_socket_read_two(socket, bytes, length, NULL, 0);
}

ptrdiff_t pccl_socket_write(uv_os_sock_t socket, const uint8_t *bytes, size_t length)
{
    return pccl_socket_write_two(socket, bytes, length, NULL, 0);
}

ptrdiff_t pccl_socket_peek(uv_os_sock_t socket, uint8_t *bytes, size_t length)
{
    int got = recv(socket, (char *)bytes, (int)pccl_min_u64(length, INT_MAX), MSG_PEEK);
    if (got > 0)
        return got;
    return got == 0 ? UV_EOF : last_error();
}

/* Uses select, because WSAPoll does not report a failed connection attempt before Windows 10 2004. */
bool pccl_socket_await(uv_os_sock_t socket, bool writable, uint32_t limit_ms)
{
    struct timeval limit = {.tv_sec = (long)(limit_ms / 1000), .tv_usec = (long)(limit_ms % 1000 * 1000)};
    fd_set wanted = {.fd_count = 1, .fd_array = {socket}}, failed = wanted;
    return select(0, writable ? NULL : &wanted, writable ? &wanted : NULL, &failed, &limit) != 0;
}

void pccl_socket_wait_bytes(uv_os_sock_t socket, int count)
{
    (void)socket;
    (void)count;
}

ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor)
{
    (void)descriptor;
    return pccl_socket_write(socket, bytes, length);
}

ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor)
{
    *descriptor = INVALID_HANDLE_VALUE;
    return pccl_socket_read(socket, bytes, length);
}

void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor) { (void)descriptor; }

void pccl_socket_shutdown_write(uv_os_sock_t socket) { (void)shutdown(socket, SD_SEND); }

void pccl_socket_shutdown(uv_os_sock_t socket) { (void)shutdown(socket, SD_BOTH); }

void pccl_socket_close(uv_os_sock_t socket)
{
    pccl_socket_end_local(socket);
    (void)closesocket(socket);
}

void pccl_socket_abort(uv_os_sock_t socket)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, (const char *)&linger, sizeof linger);
    pccl_socket_close(socket);
}

bool pccl_socket_is_local(uv_os_sock_t socket)
{
    (void)socket;
    return false;
}

void pccl_socket_limit_silence(uv_os_sock_t socket, uint32_t silence_ms)
{
    struct tcp_keepalive probes = {.onoff = 1,
                                   .keepalivetime =
                                       silence_ms < 2 * PCCL_KEEP_ALIVE_MS ? silence_ms / 2 : PCCL_KEEP_ALIVE_MS,
                                   .keepaliveinterval = silence_ms / 6 + 1};
    DWORD unused;
    (void)WSAIoctl(socket, SIO_KEEPALIVE_VALS, &probes, sizeof probes, NULL, 0, &unused, NULL, NULL);
    set_int(socket, IPPROTO_TCP, TCP_MAXRT, (int)(silence_ms / 1000) + 1);
}
