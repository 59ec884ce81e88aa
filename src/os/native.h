/* The system's structs for addresses, and its sockets. Only for files of os, because it needs the system's headers. */
#ifndef PCCL_OS_NATIVE_H
#define PCCL_OS_NATIVE_H

#include "core/address.h"

#include <uv.h>

/* Converts an address. Returns the size of the result. */
socklen_t pccl_native_from(const struct pccl_address *address, struct sockaddr_storage *native);
/* Converts an address. Returns false unless it is an IPv4 or IPv6 address. */
bool pccl_native_address(const struct sockaddr *native, struct pccl_address *address);
/* Opens a non-blocking socket that is not inherited. type: SOCK_STREAM or SOCK_DGRAM. */
PCCL_MUST_CHECK int pccl_socket_open(int family, int type, uv_os_sock_t *out);

#endif
