/*
 * Reports on a communicator's operations to the master, about once a second while there are any, so that the master can
 * identify slow or stuck peers and links (PROTOCOL 9.8). A report contains durations, bytes of each connection, and the
 * peers that delay operations. It also shows whether this process gets processor time: while data moves, the control
 * thread wakes up every few milliseconds, less often in a large run, and measures how late it wakes. Caller holds the
 * lock.
 */
#ifndef PCCL_DRIVE_COMM_WATCH_H
#define PCCL_DRIVE_COMM_WATCH_H

#include "core/base.h"
#include "core/id.h"
#include "wire/wire.h"

struct pccl_communicator;
struct pccl_watched_link;

struct pccl_comm_watch {
    uint64_t begun_us;         /* start of the period of the next report */
    uint32_t operations, bulk; /* number of operations that ended in the period, and number of those that moved data */
    uint64_t took_us;          /* field of the message `sight` (wire/schema.h) */
    uint64_t ended_us;         /* time at which the latest operation of the whole group ended */
    struct pccl_seen_round rounds[PCCL_TELEMETRY_ROUNDS_MAX]; /* for the next report, in ascending order of keys */
    uint32_t round_count;
    uint64_t pulse_us;               /* time of the control thread's next pulse; 0: not needed */
    uint64_t stalled_us;             /* total delay of the pulses in the period */
    uint64_t moved_us;               /* time when data last moved */
    bool moves_data;                 /* operations in progress have data to move */
    bool waited;                     /* the last report named a peer that operations wait for */
    struct pccl_watched_link *links; /* owned: counters of the connections at the last report */
    uint32_t link_count, link_capacity;
};

/* Sends a report if one is due. Runs on the loop after each poll, which ended at `received_us`. */
void pccl_comm_watch_polled(struct pccl_communicator *comm, uint64_t received_us);
/*
 * Returns the interval between pulses in a run of this size. Limits the total rate of all members, because they may all
 * share one host.
 */
uint64_t pccl_comm_pulse_us(uint32_t members);
/* Returns the time when the loop must wake up for a pulse or a report; UINT64_MAX: never. */
uint64_t pccl_comm_watch_due(const struct pccl_communicator *comm);
void pccl_comm_watch_fini(struct pccl_communicator *comm);

#endif
