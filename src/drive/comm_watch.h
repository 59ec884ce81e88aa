/*
 * Reports on a communicator's operations to the master about once a second while there are any, so that the master can
 * name slow or stuck peers and links (PROTOCOL 9.8): durations, bytes of each connection, peers that delay operations.
 * The report also shows whether this process gets processor time: while data moves, the control thread wakes up every
 * few milliseconds, less often in a large run, and measures the delay. Caller holds the lock.
 */
#ifndef PCCL_DRIVE_COMM_WATCH_H
#define PCCL_DRIVE_COMM_WATCH_H

#include "core/base.h"
#include "core/id.h"

struct pccl_communicator;
struct pccl_watched_link;

/* A communicator's part. */
struct pccl_comm_watch {
    uint64_t begun_us;               /* start of the period of the next report */
    uint32_t operations, bulk;       /* operations that ended in the period; number of them that moved data */
    uint64_t took_us, took_squares;  /* schema.h: sight */
    uint64_t pulse_us;               /* time of the control thread's next wake-up; 0: none needed */
    uint64_t stalled_us;             /* total delay of wake-ups in the period */
    uint64_t moved_us;               /* time when data last moved */
    bool moves_data;                 /* operations under way have data to move */
    bool waited;                     /* the last report had a peer that is waited for */
    struct pccl_watched_link *links; /* owned: counters of the connections at the last report */
    uint32_t link_count, link_capacity;
};

/* Sends a report if one is due. On the loop, after each wait, which ended at `received_us`. */
void pccl_comm_watch_polled(struct pccl_communicator *comm, uint64_t received_us);
/*
 * Returns the time between two pulses in a run of this size. The rate of all members' pulses together is limited,
 * because all members may share one host.
 */
uint64_t pccl_comm_pulse_us(uint32_t members);
/* Returns the time when the loop must wake for this; UINT64_MAX: never. */
uint64_t pccl_comm_watch_due(const struct pccl_communicator *comm);
void pccl_comm_watch_fini(struct pccl_communicator *comm);

#endif
