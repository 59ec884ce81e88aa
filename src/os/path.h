/*
 * The system's measurements of a connection's path. Includes no other header of ours but core/base.h, because
 * linux/tcp.h conflicts with many.
 */
#ifndef PCCL_OS_PATH_H
#define PCCL_OS_PATH_H

#include "core/base.h"

struct pccl_path {
    uint32_t rtt_us;    /* smallest recent round trip; 0: unknown */
    uint32_t lately_us; /* present round trip, including the queues along the path */
    uint64_t rate;      /* delivery rate in bytes per second, when data last flowed; 0: unknown */
    uint64_t pace;      /* present sending rate in bytes per second, by its congestion control; 0: unknown */
    uint64_t delivered; /* bytes delivered so far, approximately, in order or not */
    uint64_t resent;    /* bytes sent again so far, approximately */
    uint64_t busy_us;   /* time so far with data under way, without times when the receiver had no room */
    bool limited;       /* the sender had no more to send, so the path may be faster */
};

/* Measures an open TCP connection. Returns false if this system does not report it. */
PCCL_MUST_CHECK bool pccl_path_measure(int socket, struct pccl_path *path);

/* Limits the socket's sending rate, in bytes per second; 0: no limit. No effect if the system does not support it. */
void pccl_path_bound(int socket, uint64_t rate);

#endif
