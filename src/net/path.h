/* What the system has learned of a connection's path. No other header of ours: linux/tcp.h goes with few. */
#ifndef PCCL_NET_PATH_H
#define PCCL_NET_PATH_H

#include "core/base.h"

struct pccl_path {
    uint32_t rtt_us;    /* the smallest round trip of late; 0: unknown */
    uint32_t lately_us; /* the round trip as it is now, with the queues along the path */
    uint64_t rate;      /* bytes per second, when data last flowed; 0: unknown */
    uint64_t delivered; /* bytes that have got through so far, about; in order or not */
    uint64_t resent;    /* bytes that were sent again so far, about */
    bool limited;       /* because there was not more to send: the path may be wider */
};

/* Of an open TCP connection. false: this system does not tell. */
PCCL_MUST_CHECK bool pccl_path_measure(int socket, struct pccl_path *path);

/* It is to send so many bytes per second at most; 0: as many as it likes. Without effect where systems cannot. */
void pccl_path_bound(int socket, uint64_t rate);

#endif
