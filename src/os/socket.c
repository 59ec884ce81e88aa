/* Calls of sockets that have the same form on all systems. */
#include "os/socket.h"

#include "os/native.h"

bool pccl_socket_local(uv_os_sock_t socket, struct pccl_address *address)
{
    struct sockaddr_storage native = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof native;
    return getsockname(socket, (struct sockaddr *)&native, &length) == 0 &&
           pccl_native_address((struct sockaddr *)&native, address);
}

bool pccl_socket_route(const struct pccl_address *address, struct pccl_address *local)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(address, &native);
    uv_os_sock_t datagram;
    if (pccl_socket_open(native.ss_family, SOCK_DGRAM, &datagram) != 0)
        return false;
    bool found = connect(datagram, (struct sockaddr *)&native, length) == 0 && pccl_socket_local(datagram, local) &&
                 !pccl_address_is_unspecified(local);
    pccl_socket_close(datagram);
    return found;
}
