/* Lets one thread at a time wait for input of sockets that an event loop also polls. Linux only. */
#ifndef PCCL_OS_SOCKET_WAIT_H
#define PCCL_OS_SOCKET_WAIT_H

#include "core/base.h"

#include <uv.h>

struct pccl_socket_wait {
    int set, wake;
};
/* Returns 0 or a negative libuv error. */
PCCL_MUST_CHECK int pccl_socket_wait_open(struct pccl_socket_wait *wait);
void pccl_socket_wait_close(const struct pccl_socket_wait *wait);
/*
 * Turns sharing on or off. With sharing, the system reports the socket's input to a thread that waits here, and to the
 * event loop only at other times. The thread must therefore read all input, or turn sharing off, which makes the loop
 * check again. poll_descriptor: the loop's, or -1 if no loop polls the socket. Returns false if sharing is not
 * possible, temporarily or on this system.
 */
bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on);
/* Waits for input, a wake-up or the limit (-1: no limit). Clears the wake-up. */
void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms);
void pccl_socket_wake(const struct pccl_socket_wait *wait);

#endif
