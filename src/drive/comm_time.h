/*
 * Sums of the time for which the threads of a program wait for operations and in joint calls, for the reports to the
 * master (PROTOCOL 9.13). Caller holds the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_TIME_H
#define PCCL_DRIVE_COMM_TIME_H

#include "wire/wire.h"

struct pccl_comm_time {
    uint64_t joined_us;      /* time of the admission; 0: not a member yet */
    struct pccl_times times; /* without lived_us */
    uint64_t open_us;        /* sum of ended waits for operations without an outcome */
    uint32_t blocked;        /* number of threads that wait */
    uint64_t blocked_us;     /* with `blocked`: since when they wait and no thread has ended its wait */
    bool unreported;         /* true if an operation or call has ended since the last report */
};

/*
 * Begin and end a wait of a thread. The end returns the time since the beginning of the first current wait or the last
 * end of one, whichever is later, so that no time counts twice.
 */
void pccl_comm_time_block(struct pccl_comm_time *time, uint64_t now_us);
PCCL_MUST_CHECK uint64_t pccl_comm_time_unblock(struct pccl_comm_time *time, uint64_t now_us);
/* Returns the sums up to now, or up to the beginning of the current waits. */
struct pccl_times pccl_comm_time_sums(const struct pccl_comm_time *time, uint64_t now_us);

#endif
