/* One thread at a time waits for input of a socket; an event loop watches it, too. Linux only. */
#ifndef PCCL_OS_SOCKET_WAIT_H
#define PCCL_OS_SOCKET_WAIT_H

#include "core/base.h"

#include <uv.h>

struct pccl_socket_wait {
    int set, wake;
};
/* 0 or a negative error. */
PCCL_MUST_CHECK int pccl_socket_wait_open(struct pccl_socket_wait *wait);
void pccl_socket_wait_close(const struct pccl_socket_wait *wait);
/*
 * on: while a thread waits, the system tells it of the socket's input, and does not tell the event loop. At other times
 * it tells the loop. So the thread must read all input, or turn this off: then the loop looks again. poll_descriptor:
 * of the loop, or -1 if no loop watches the socket. false: not possible now, or on this system.
 */
bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on);
/* Waits for input, a wake-up or the limit (-1: none); clears the wake-up. */
void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms);
void pccl_socket_wake(const struct pccl_socket_wait *wait);

#endif
