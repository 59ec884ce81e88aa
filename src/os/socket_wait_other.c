#include "os/socket_wait.h"

int pccl_socket_wait_open(struct pccl_socket_wait *wait)
{
    *wait = (struct pccl_socket_wait){.set = -1, .all = -1, .wake = -1};
    return UV_ENOSYS;
}

void pccl_socket_wait_close(const struct pccl_socket_wait *wait) { (void)wait; }

bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on)
{
    (void)wait;
    (void)socket;
    (void)poll_descriptor;
    (void)on;
    return false;
}

bool pccl_socket_wait_for_loop(const struct pccl_socket_wait *wait, int poll_descriptor, bool on)
{
    (void)wait;
    (void)poll_descriptor;
    (void)on;
    return false;
}

int pccl_socket_wait_for_all(const struct pccl_socket_wait *wait, int limit_ms)
{
    (void)wait;
    (void)limit_ms;
    return 0;
}

void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms)
{
    (void)pccl_socket_wait_for_all(wait, limit_ms);
}

bool pccl_socket_hide_input(int poll_descriptor, uv_os_sock_t socket, bool hide)
{
    (void)poll_descriptor;
    (void)socket;
    (void)hide;
    return false;
}

void pccl_socket_wake(const struct pccl_socket_wait *wait) { (void)wait; }
