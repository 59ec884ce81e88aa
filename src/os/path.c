#include "os/path.h"

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/tcp.h>)
#define KNOWS_RATES
#include <linux/tcp.h> /* has more fields than netinet/tcp.h, with which it conflicts */
#include <netinet/in.h>
#include <sys/socket.h>
#endif
#endif

#ifdef KNOWS_RATES
/* Returns the current sending rate: the minimum of the pacing rate and one window per round trip. */
static uint64_t pace_of(const struct tcp_info *info)
{
    uint64_t window = (uint64_t)info->tcpi_snd_cwnd * info->tcpi_snd_mss;
    return info->tcpi_rtt == 0 ? 0 : pccl_min_u64(info->tcpi_pacing_rate, window * 1000000 / info->tcpi_rtt);
}
#endif

bool pccl_path_measure(pccl_path_socket socket, struct pccl_path *path)
{
#ifdef KNOWS_RATES
    struct tcp_info info = {0}; /* zeroed, because old kernels only fill in the first fields */
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return false;
    bool smallest_known = info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != UINT32_MAX;
    *path =
        (struct pccl_path){.rtt_us = smallest_known ? info.tcpi_min_rtt : info.tcpi_rtt,
                           .lately_us = info.tcpi_rtt,
                           .rate = info.tcpi_delivery_rate,
                           .pace = pace_of(&info),
                           .delivered = (uint64_t)info.tcpi_delivered * info.tcpi_snd_mss,
                           .resent = (uint64_t)info.tcpi_total_retrans * info.tcpi_snd_mss,
                           .busy_us = info.tcpi_busy_time - pccl_min_u64(info.tcpi_busy_time, info.tcpi_rwnd_limited),
                           .limited = info.tcpi_delivery_rate_app_limited};
    return true;
#else
    (void)socket;
    (void)path;
    return false;
#endif
}

void pccl_path_bound(pccl_path_socket socket, uint64_t rate)
{
#if defined(KNOWS_RATES) && defined(SO_MAX_PACING_RATE)
    uint64_t most = rate != 0 ? rate : UINT64_MAX;
    (void)setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &most, sizeof most);
#else
    (void)socket;
    (void)rate;
#endif
}
