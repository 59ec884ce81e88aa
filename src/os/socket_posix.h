/* Functions shared by the files that implement os/socket.h on POSIX systems, some of them differently on each. */
#ifndef PCCL_OS_SOCKET_POSIX_H
#define PCCL_OS_SOCKET_POSIX_H

#include "os/socket.h"

#include <errno.h>
#include <sys/socket.h>

struct iovec;

enum { PCCL_LISTEN_BACKLOG = 1024 };

/* Returns errno as a libuv error. */
static inline int pccl_socket_last_error(void) { return uv_translate_sys_error(errno); }
/* Sets an option that is only for tuning, and ignores errors. */
static inline void pccl_socket_set_int(uv_os_sock_t socket, int level, int name, int value)
{
    (void)setsockopt(socket, level, name, &value, sizeof value);
}
/* Sets the buffer size of a Unix socket. */
void pccl_socket_tune_here(uv_os_sock_t socket);
/*
 * Replaces bbr if it is the system's default. Otherwise a socket that connects or listens with bbr would stay paced,
 * because the kernel does not reset pacing when the congestion control changes.
 */
void pccl_socket_begin_unpaced(uv_os_sock_t socket);
/* Selects the congestion control for a short path, or for one that is long or of unknown length. */
void pccl_socket_choose_congestion(uv_os_sock_t socket, bool is_short);
/* Reads bytes. Returns UV_EOF at the end, and UV_EPROTO if descriptors were passed with the bytes. */
ptrdiff_t pccl_socket_receive(uv_os_sock_t socket, struct iovec *pieces, int count);
/*
 * Removes descriptors from a Unix socket's queue, because the system would otherwise close them with the socket. Shuts
 * the socket down first, so that no more arrive. Returns false if it is not a Unix socket, or if the system needs no
 * such call.
 */
bool pccl_socket_empty_local(uv_os_sock_t socket);

#endif
