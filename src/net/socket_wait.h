/* How one thread at a time waits for the input of sockets that an event loop watches, too. Linux only. */
#ifndef PCCL_NET_SOCKET_WAIT_H
#define PCCL_NET_SOCKET_WAIT_H

#include "core/base.h"

#include <uv.h>

struct pccl_socket_wait {
    int set, wake;
};
/* 0 or a negative error. */
PCCL_MUST_CHECK int pccl_socket_wait_open(struct pccl_socket_wait *wait);
void pccl_socket_wait_close(const struct pccl_socket_wait *wait);
/*
 * on: a thread that waits gets the socket's input. If an event loop watches the socket, too, as poll_descriptor, it
 * is not told of input that arrives while a thread waits, and of all other. So that thread must read everything that
 * has arrived, or turn this off: then the loop looks again. -1: no loop watches it. false: not possible now, or on
 * this system.
 */
bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on);
/* Waits until a socket has input, somebody wakes or limit_ms have passed (-1: no limit); clears the wake-up. */
void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms);
void pccl_socket_wake(const struct pccl_socket_wait *wait);

#endif
