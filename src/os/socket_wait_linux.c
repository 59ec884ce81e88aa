#include "os/socket_wait.h"

#include "os/fork.h"
#include "os/socket.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static bool add(int set, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.fd = descriptor}};
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static bool take_out(int set, int descriptor)
{
    struct epoll_event unused = {0};
    return epoll_ctl(set, EPOLL_CTL_DEL, descriptor, &unused) == 0;
}

/*
 * The system wakes only one exclusive waiter: the first one added that has a thread in epoll_wait. The thread's set
 * must therefore be added before the loop's. A newly added waiter is immediately notified of pending input.
 */
bool pccl_socket_share_input(const struct pccl_socket_wait *wait, uv_os_sock_t socket, int poll_descriptor, bool on)
{
    uint32_t events = EPOLLIN | (on ? EPOLLEXCLUSIVE : 0u);
    for (int i = 0; i < 2; i++) {
        int set = i == 0 ? wait->set : wait->all;
        if (!on)
            (void)take_out(set, socket);
        else if (!add(set, socket, events) && errno != EEXIST)
            return false;
    }
    if (poll_descriptor < 0)
        return true;
    if (!take_out(poll_descriptor, socket))
        return false; /* the loop is about to start polling it */
    bool added = add(poll_descriptor, socket, events);
    PCCL_ASSERT(added);
    return true;
}

bool pccl_socket_hide_input(int poll_descriptor, uv_os_sock_t socket, bool hide)
{
    return hide ? take_out(poll_descriptor, socket) : add(poll_descriptor, socket, EPOLLIN | EPOLLEXCLUSIVE);
}

int pccl_socket_wait_open(struct pccl_socket_wait *wait)
{
    int error = 0;
    pccl_fork_lock();
    wait->set = epoll_create1(EPOLL_CLOEXEC);
    wait->all = epoll_create1(EPOLL_CLOEXEC);
    wait->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wait->set < 0 || wait->all < 0 || wait->wake < 0 || !add(wait->set, wait->wake, EPOLLIN) ||
        !add(wait->all, wait->wake, EPOLLIN))
        error = uv_translate_sys_error(errno);
    else if (!pccl_fork_remember(wait->set) || !pccl_fork_remember(wait->all) || !pccl_fork_remember(wait->wake))
        error = UV_ENOMEM;
    pccl_fork_unlock();
    if (error)
        pccl_socket_wait_close(wait);
    return error;
}

void pccl_socket_wait_close(const struct pccl_socket_wait *wait)
{
    if (wait->set >= 0)
        pccl_socket_close(wait->set);
    if (wait->all >= 0)
        pccl_socket_close(wait->all);
    if (wait->wake >= 0)
        pccl_socket_close(wait->wake);
}

enum { LOOP = -1 /* in place of the descriptor of a loop */ };

bool pccl_socket_wait_for_loop(const struct pccl_socket_wait *wait, int poll_descriptor, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = LOOP}};
    return on ? epoll_ctl(wait->all, EPOLL_CTL_ADD, poll_descriptor, &event) == 0
              : take_out(wait->all, poll_descriptor);
}

static int wait_for(const struct pccl_socket_wait *wait, int set, int limit_ms)
{
    struct epoll_event ready[3];
    eventfd_t value;
    int news = 0, count = epoll_wait(set, ready, 3, limit_ms); /* if interrupted, the caller checks again */
    for (int i = 0; i < count; i++) {
        if (ready[i].data.fd == wait->wake)
            (void)eventfd_read(wait->wake, &value);
        news |= ready[i].data.fd == wait->wake ? PCCL_SOCKET_WOKEN
                : ready[i].data.fd == LOOP     ? PCCL_SOCKET_LOOP
                                               : PCCL_SOCKET_INPUT;
    }
    return news;
}

int pccl_socket_wait_for_all(const struct pccl_socket_wait *wait, int limit_ms)
{
    return wait_for(wait, wait->all, limit_ms);
}

void pccl_socket_wait_for(const struct pccl_socket_wait *wait, int limit_ms)
{
    (void)wait_for(wait, wait->set, limit_ms);
}

void pccl_socket_wake(const struct pccl_socket_wait *wait)
{
    (void)eventfd_write(wait->wake, 1); /* can only fail if a wake-up is already pending */
}
