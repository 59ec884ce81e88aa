#include "machine.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#ifdef __linux__
#include <sys/timex.h>
#endif

static uint64_t value_of(rlim_t limit) { return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit; }

bool machine_file_limit(uint64_t *soft, uint64_t *hard)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    *soft = value_of(limit.rlim_cur);
    *hard = value_of(limit.rlim_max);
    return true;
}

bool machine_locked_limit(uint64_t *bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return false;
    *bytes = value_of(limit.rlim_cur);
    return true;
}

enum machine_clock machine_clock(void)
{
#ifdef __linux__
    struct timex state = {.modes = 0};
    int result = adjtimex(&state);
    if (result >= 0)
        return result == TIME_ERROR ? MACHINE_CLOCK_FREE : MACHINE_CLOCK_SYNCHRONIZED;
#endif
    return MACHINE_CLOCK_UNKNOWN;
}

double machine_time_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint32_t machine_path_mtu(uv_os_sock_t socket, bool is_v6)
{
#if defined(__linux__) && defined(IP_MTU) && defined(IPV6_MTU)
    int mtu = 0;
    socklen_t length = sizeof mtu;
    if (getsockopt(socket, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_MTU : IP_MTU, &mtu, &length) == 0 && mtu > 0)
        return (uint32_t)mtu;
#else
    (void)socket;
    (void)is_v6;
#endif
    return 0;
}
