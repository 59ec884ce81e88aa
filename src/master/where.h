/*
 * Explains every wait (PROTOCOL 9.6): informs waiting members which members have not entered their call, and in which
 * calls those members wait.
 */
#ifndef PCCL_MASTER_WHERE_H
#define PCCL_MASTER_WHERE_H

#include "master/state.h"

enum { PCCL_ADMISSION_LOG_US = 2000000 }; /* the same as the peers' default of where_ms */

/* Stage of a step (state.h): logs, once for each newcomer, that it is not admitted. */
void pccl_master_log_waiting_newcomers(struct pccl_master *m);
/* Handles `where`: answers a waiting member with the missing members, or records that it no longer waits. */
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);
/* Appends the members that `from` waits for, if known, to the reason for which it aborts the operation. */
void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *reason);

/* ---- for pages (figures.h) ---- */

enum { PCCL_WAITS_MAX = 64 }; /* maximum length of the list */

/* A call that some members have entered and that has not ended. */
struct pccl_wait {
    uint8_t call;                  /* enum pccl_call, but never CONNECT */
    uint8_t collective;            /* collective of an operation; PCCL_COLLECTIVES if unknown */
    uint32_t group;                /* unused for joint calls, which are calls of all groups */
    struct pccl_instance instance; /* for an operation */
    uint64_t round;                /* for any other call */
    uint64_t since_us;             /* time since the earliest entry that the master knows of */
    uint32_t world, finished;      /* number of participants; for an operation, number of complete parts */
    uint32_t entered_count, missing_count;
    struct pccl_id entered[PCCL_PLACES_MAX]; /* the first members that have entered */
    /* the first members that have not entered or, if all have, not finished */
    struct pccl_place missing[PCCL_PLACES_MAX];
};

/* Returns the call in which this peer is, as far as the master knows. */
struct pccl_place pccl_master_place(const struct pccl_master *m, const struct pccl_remote *remote);
/* Lists calls in progress, in bounded time. Returns their number; sets *left_out if there are more. */
uint32_t pccl_master_list_waits(struct pccl_master *m, struct pccl_wait waits[PCCL_WAITS_MAX], bool *left_out);

#endif
