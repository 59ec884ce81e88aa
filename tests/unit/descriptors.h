/* The system's own sockets and pipes, which programs that tests start do not inherit. */
#ifndef PCCL_TESTS_UNIT_DESCRIPTORS_H
#define PCCL_TESTS_UNIT_DESCRIPTORS_H

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int bare_socket(void)
{
    int opened = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(opened >= 0);
    assert_int_equal(fcntl(opened, F_SETFD, FD_CLOEXEC), 0);
    return opened;
}

static inline void bare_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(pair[i], F_SETFD, FD_CLOEXEC), 0);
        assert_int_equal(fcntl(pair[i], F_SETFL, O_NONBLOCK), 0);
    }
}

#endif
