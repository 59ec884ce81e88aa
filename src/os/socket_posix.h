/* Functions shared by the files that implement os/socket.h on POSIX systems. */
#ifndef PCCL_OS_SOCKET_POSIX_H
#define PCCL_OS_SOCKET_POSIX_H

#include "os/socket.h"

enum { PCCL_LISTEN_BACKLOG = 1024 };

/* Returns errno as a libuv error. */
int pccl_socket_last_error(void);
/* Opens a non-blocking socket that is not inherited. type: SOCK_STREAM or SOCK_DGRAM. */
PCCL_MUST_CHECK int pccl_socket_open(int family, int type, uv_os_sock_t *out);
/* Sets an option that is only for tuning, and ignores errors. */
void pccl_socket_set_int(uv_os_sock_t socket, int level, int name, int value);
/* Sets the buffer size of a Unix socket. */
void pccl_socket_tune_here(uv_os_sock_t socket);

#endif
