/* Lets one thread at a time wait for input on sockets that an event loop also polls. Linux only. */
#ifndef PCCL_OS_SOCKET_WAIT_H
#define PCCL_OS_SOCKET_WAIT_H

#include "core/base.h"

#include <uv.h>

struct pccl_socket_wait {
    int set, all, wake; /* `all` is `set` with event loops */
};
/* Returns 0 or a negative libuv error. */
PCCL_MUST_CHECK int pccl_socket_wait_open(struct pccl_socket_wait *wait);
void pccl_socket_wait_close(const struct pccl_socket_wait *wait);
/*
 * Turns sharing on or off. With sharing, the system reports the socket's input to a thread that waits here, and to the
 * event loop only at other times. The thread must therefore read all input, or turn sharing off, which makes the loop
 * check again. poll_descriptor: the descriptor of the loop, or -1 if no loop polls the socket. Returns false if sharing
 * is not possible, temporarily or on this system.
 */
bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on);
enum { PCCL_SOCKET_INPUT = 1, PCCL_SOCKET_WOKEN = 2, PCCL_SOCKET_LOOP = 4 };
/*
 * Makes pccl_socket_wait_for_all also wait until this event loop has something to handle, or ends that.
 * poll_descriptor: the descriptor of the loop. Returns false if this is not possible now, or on this system.
 */
bool pccl_socket_wait_for_loop(const struct pccl_socket_wait *wait, int poll_descriptor, bool on);
/* Waits like the next function. Returns a bit for each event that happened; 0 after the limit or an interruption. */
int pccl_socket_wait_for_all(const struct pccl_socket_wait *wait, int limit_ms);
/*
 * Hides the input of a shared socket from the event loop, or shows it again: the system reports input to the loop, too,
 * while a thread polls without waiting. Returns false if this is not possible.
 */
bool pccl_socket_hide_input(int poll_descriptor, uv_os_sock_t socket, bool hide);
/* Waits for input, a wake-up or the limit (-1: no limit). Clears the wake-up. */
void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms);
void pccl_socket_wake(const struct pccl_socket_wait *wait);

#endif
