/*
 * The system's measurements of a connection's network path. Of our headers, includes only core/base.h, because
 * linux/tcp.h conflicts with many others.
 */
#ifndef PCCL_OS_PATH_H
#define PCCL_OS_PATH_H

#include "core/base.h"

#ifdef _WIN32
typedef uintptr_t pccl_path_socket; /* uv_os_sock_t */
#else
typedef int pccl_path_socket;
#endif

struct pccl_path {
    uint32_t rtt_us;    /* minimum recent round trip; 0: unknown */
    uint32_t lately_us; /* current round trip, including queues along the path */
    uint64_t rate;      /* most recent delivery rate in bytes per second; 0: unknown */
    uint64_t pace;      /* current sending rate of the congestion control in bytes per second; 0: unknown */
    uint64_t delivered; /* approximate total number of bytes delivered, in any order */
    uint64_t resent;    /* approximate total number of bytes sent again */
    uint64_t busy_us;   /* total time with data in flight, except while the receiver had no room */
    bool limited;       /* the sender had nothing more to send, so the path may be faster */
};

/* Measures an open TCP connection. Returns false if the system does not support it. */
PCCL_MUST_CHECK bool pccl_path_measure(pccl_path_socket socket, struct pccl_path *path);

/*
 * Limits the socket's sending rate to this number of bytes per second; 0: no limit. Has no effect if the system does
 * not support it.
 */
void pccl_path_bound(pccl_path_socket socket, uint64_t rate);

#endif
