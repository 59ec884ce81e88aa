#include "os/native.h"

#include "os/socket.h"

#include <string.h>

socklen_t pccl_native_from(const struct pccl_address *address, struct sockaddr_storage *native)
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

bool pccl_socket_is_shortage(int error)
{
    return error == UV_EMFILE || error == UV_ENFILE || error == UV_ENOBUFS || error == UV_ENOMEM;
}

bool pccl_socket_lacks_family(int error)
{
    return error == UV_EAFNOSUPPORT || error == UV_EADDRNOTAVAIL || error == UV_EPROTONOSUPPORT;
}
