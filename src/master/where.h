/*
 * Reports to members that wait in calls which members are missing and where those are, so that every wait is explained
 * (PROTOCOL 9.6).
 */
#ifndef PCCL_MASTER_WHERE_H
#define PCCL_MASTER_WHERE_H

#include "master/state.h"

enum { PCCL_ADMISSION_LOG_US = 2000000 }; /* equals the peers' default of where_ms */

/* Stage: logs, once for each newcomer, that it is not admitted. */
void pccl_master_log_waiting_newcomers(struct pccl_master *m);
/* Handles `where`: sends a member that waits in a call the missing members; or records that it no longer waits. */
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);
/* Appends the members that `from` waits for, if known, to the reason for which it gives up the operation. */
void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *reason);

/* ---- for pages (figures.h) ---- */

enum { PCCL_WAITS_MAX = 64 }; /* limit of one list */

/* A call that some members have entered and that has not ended. */
struct pccl_wait {
    uint8_t call;                  /* enum pccl_call except CONNECT */
    uint8_t collective;            /* operation: its collective; PCCL_COLLECTIVES: unknown */
    uint32_t group;                /* unused for joint calls, which all groups make */
    struct pccl_instance instance; /* operation */
    uint64_t round;                /* any other call */
    uint64_t since_us;             /* earliest entry that the master knows */
    uint32_t world, finished;      /* number of participants; operation: number with a complete part */
    uint32_t come_count, missing_count;
    struct pccl_id come[PCCL_PLACES_MAX];       /* first of them */
    struct pccl_place missing[PCCL_PLACES_MAX]; /* first members that have not entered or, if all have, not finished */
};

/* Returns where this peer is, as far as the master knows. */
struct pccl_place pccl_master_place(const struct pccl_master *m, const struct pccl_remote *remote);
/*
 * Lists calls under way, within the limit and in bounded time. Returns their number; *left_out: true if there are more.
 */
uint32_t pccl_master_list_waits(struct pccl_master *m, struct pccl_wait waits[PCCL_WAITS_MAX], bool *left_out);

#endif
