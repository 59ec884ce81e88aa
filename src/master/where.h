/*
 * "Who is where", for members that wait in calls, so that nobody waits in silence (PROTOCOL 9.6).
 */
#ifndef PCCL_MASTER_WHERE_H
#define PCCL_MASTER_WHERE_H

#include "master/state.h"

enum { PCCL_ADMISSION_TOLD_US = 2000000 }; /* as `where_ms` of the peers is by default */

/* Stage: logs, once for each newcomer, that nobody admits it. */
void pccl_master_tell_who_waits(struct pccl_master *m);
/*
 * A member says that it waits in a call, and is told who is missing; or says that it has stopped
 * waiting.
 */
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);
/*
 * Appends to the reason for which `from` gives an operation up whom it waits for, if that is known.
 */
void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *reason);

/* ---- for those who watch (figures.h) ---- */

enum { PCCL_WAITS_MAX = 64 }; /* listed at once */

/* A call that somebody has come to and that is not over. */
struct pccl_wait {
    uint8_t call;                  /* enum pccl_call: not CONNECT */
    uint8_t collective;            /* of an operation; PCCL_COLLECTIVES: not known yet */
    uint32_t group;                /* but for joint calls, which all groups make */
    struct pccl_instance instance; /* of an operation */
    uint64_t round;                /* of any other call */
    uint64_t since_us;             /* since when, as far as the master knows */
    uint32_t world, finished;      /* who takes part; of an operation: whose part is complete */
    uint32_t come_count, missing_count;
    struct pccl_id come[PCCL_PLACES_MAX];       /* the first of them */
    struct pccl_place missing[PCCL_PLACES_MAX]; /* likewise: who has not come or, if all have, not finished */
};

/* Where this peer is, as far as the master knows. */
struct pccl_place pccl_master_place(const struct pccl_master *m, const struct pccl_remote *remote);
/*
 * Lists the calls under way, as many as there is room for and as can be looked into in a short time. Returns how many;
 * *left_out: whether there are more.
 */
uint32_t pccl_master_list_waits(struct pccl_master *m, struct pccl_wait waits[PCCL_WAITS_MAX], bool *left_out);

#endif
