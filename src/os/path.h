/*
 * What the system has measured of a connection's path. Includes no other header of ours, because
 * linux/tcp.h conflicts with many.
 */
#ifndef PCCL_OS_PATH_H
#define PCCL_OS_PATH_H

#include "core/base.h"

struct pccl_path {
    uint32_t rtt_us;    /* the smallest recent round trip; 0: unknown */
    uint32_t lately_us; /* the present round trip, including the queues along the path */
    uint64_t rate;      /* bytes per second, when data last flowed; 0: unknown */
    uint64_t pace;      /* bytes per second at which it sends now, by its congestion control; 0: unknown */
    uint64_t delivered; /* bytes delivered so far, roughly; in order or not */
    uint64_t resent;    /* bytes sent again so far, roughly */
    uint64_t busy_us;   /* how long something was under way so far, except for want of room at the receiver */
    bool limited;       /* the sender had no more to send, so the path may be wider */
};

/* Of an open TCP connection. false: this system does not report it. */
PCCL_MUST_CHECK bool pccl_path_measure(int socket, struct pccl_path *path);

/*
 * Limits the rate at which the socket sends, in bytes per second; 0: no limit. No effect where the
 * system cannot.
 */
void pccl_path_bound(int socket, uint64_t rate);

#endif
