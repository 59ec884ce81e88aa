/* Functions shared by the membership*.c files. */
#ifndef PCCL_MASTER_MEMBERSHIP_INTERNAL_H
#define PCCL_MASTER_MEMBERSHIP_INTERNAL_H

#include "master/membership.h"

/* ---- membership_queues.c: the newcomers of each group, and their addresses ---- */

/* Returns the queue of this group; NULL if no newcomer waits for the group. */
struct pccl_queue *pccl_master_find_queue(const struct pccl_master *m, uint32_t group_number);
/* Returns the site of this address; NULL if no newcomer from there waits. */
struct pccl_site *pccl_master_find_site(const struct pccl_master *m, const struct pccl_address *address);
/* Adds a newcomer to the queue of its group. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_enqueue(struct pccl_master *m, struct pccl_remote *remote,
                                         const struct pccl_address *from);
void pccl_master_recheck_all_queues(struct pccl_master *m);

/* ---- membership_newcomers.c ---- */

/*
 * Makes room for one more newcomer of this group and address; may evict another newcomer. Returns false if there is no
 * room; `reason` says why.
 */
PCCL_MUST_CHECK bool pccl_master_make_room(struct pccl_master *m, uint32_t group_number,
                                           const struct pccl_address *from, struct pccl_text *reason);

/* ---- membership.c ---- */

/* Draws the run key unless one exists. */
void pccl_master_need_lineage(struct pccl_master *m);
/* Returns the milliseconds that newcomers must still wait because an older run may exist; 0 if they need not. */
uint32_t pccl_master_hold_ms(const struct pccl_master *m);

#endif
