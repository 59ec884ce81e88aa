/* Functions shared by the files that implement os/socket.h on Windows. */
#ifndef PCCL_OS_SOCKET_WINDOWS_H
#define PCCL_OS_SOCKET_WINDOWS_H

#include "os/socket.h"

/* Returns false if the socket listens at a path, and the connection was not made by pccl_socket_dial_at. */
bool pccl_socket_admits(uv_os_sock_t listening, const struct pccl_address *from);
/* Removes the file of a socket that listens at a path, or is connected to one. */
void pccl_socket_end_local(uv_os_sock_t socket);

#endif
