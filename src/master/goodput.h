/*
 * Use of the members' time (PROTOCOL 9.13): computing, waiting for members that enter an operation later, in operations
 * that all have entered, lost to operations that did not commit, and in joint calls. Adds the reports of the members,
 * and compares them to divide the time in operations. For operators: no decision depends on it.
 *
 * A member's reports are limited to the time that has passed here, so they change only its own share of the sums of the
 * run. Its claim to have entered an operation late changes the figures of the others by its name.
 */
#ifndef PCCL_MASTER_GOODPUT_H
#define PCCL_MASTER_GOODPUT_H

#include "core/id.h"
#include "master/tally.h"
#include "wire/wire.h"

struct pccl_master;
struct pccl_remote;
struct pccl_peer_group;

enum {
    PCCL_GOODPUT_PENDING_MAX = 16,       /* rounds of a member that wait for the reports of others */
    PCCL_GOODPUT_ROUNDS = 512,           /* rounds of a group that are compared at the same time */
    PCCL_GOODPUT_DELAYS_MAX = 4,         /* members for which a member has waited the longest */
    PCCL_GOODPUT_SETTLED_US = 2500000,   /* maximum time for which a round waits for reports */
    PCCL_GOODPUT_ROUND_US = 5000000,     /* time for which a round is kept for the slowest reporters */
    PCCL_GOODPUT_RECENT_US = 60000000,   /* minimum time in each half of the recent figures */
    PCCL_GOODPUT_TOLERANCE_US = 1000000, /* for the delay of reports and the difference of clocks */
};

/* A round that waits to be compared. */
struct pccl_goodput_pending {
    uint64_t key, received_us, weight_us; /* weight: the time that it represents */
    uint32_t took_us, blocked_us;
};

/* Time for which a member has waited for another one. */
struct pccl_goodput_delay {
    struct pccl_id by;
    uint64_t us;
};

/* Times of one member, in microseconds by enum pccl_time_use. */
struct pccl_goodput {
    struct pccl_times claimed; /* limited sums of its last report */
    uint64_t base_us;          /* time of its admission, or of its first report after a restart of the master */
    uint64_t base_lived_us;    /* its lived_us at that time */
    uint64_t whole[PCCL_TIME_USES], current[PCCL_TIME_USES], previous[PCCL_TIME_USES];
    struct pccl_goodput_pending pending[PCCL_GOODPUT_PENDING_MAX];
    uint32_t pending_count;
    struct pccl_goodput_delay delays[PCCL_GOODPUT_DELAYS_MAX]; /* since about as long as `previous`; unordered */
    uint64_t delayed_us, previous_delayed_us;                  /* time for which others have waited for it */
};

/* Adds a member's report. */
void pccl_goodput_take(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sight *report);
/* Adds all rounds that have waited long enough. */
void pccl_goodput_settle(struct pccl_master *m);
/* Adds the remaining rounds of a member that leaves its group, and frees its figures. */
void pccl_goodput_forget(struct pccl_master *m, struct pccl_remote *remote);
/* Frees the rounds of a group. */
void pccl_goodput_drop(struct pccl_master *m, struct pccl_peer_group *group);

/* Return one member's recent times, and the member for which it has recently waited the longest; NULL: for none. */
void pccl_goodput_recent(const struct pccl_goodput *goodput, uint64_t times[PCCL_TIME_USES]);
const struct pccl_id *pccl_goodput_delayed_by(const struct pccl_goodput *goodput);

#endif
