/* These systems have one congestion control, and no descriptors are passed. */
#include "os/socket_posix.h"

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

uint32_t pccl_socket_rtt_us(uv_os_sock_t socket)
{
    (void)socket;
    return 0;
}

void pccl_socket_begin_unpaced(uv_os_sock_t socket) { (void)socket; }

void pccl_socket_choose_congestion(uv_os_sock_t socket, bool is_short)
{
    (void)socket;
    (void)is_short;
}

bool pccl_socket_is_of_this_user(uv_os_sock_t connected)
{
    uid_t user;
    gid_t group;
    return getpeereid(connected, &user, &group) == 0 && user == geteuid();
}

void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes)
{
    (void)socket;
    (void)takes;
}

ptrdiff_t pccl_socket_receive(uv_os_sock_t socket, struct iovec *pieces, int count)
{
    ssize_t moved;
    do {
        moved = readv(socket, pieces, count);
    } while (moved < 0 && errno == EINTR);
    if (moved > 0)
        return moved;
    return moved == 0 ? UV_EOF : pccl_socket_last_error();
}

ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor)
{
    (void)socket;
    (void)bytes;
    (void)length;
    (void)descriptor;
    return UV_ENOSYS;
}

ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor)
{
    struct iovec piece = {bytes, length};
    *descriptor = -1;
    return pccl_socket_receive(socket, &piece, 1);
}

void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor) { (void)descriptor; }

bool pccl_socket_empty_local(uv_os_sock_t socket)
{
    (void)socket;
    return false;
}
