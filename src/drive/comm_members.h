/*
 * Lists of the members that take part in operations. Operations with the same members of the run share one list, so a
 * launch in a large group copies nothing. Caller holds the lock.
 */
#ifndef PCCL_DRIVE_COMM_MEMBERS_H
#define PCCL_DRIVE_COMM_MEMBERS_H

#include "core/base.h"
#include "core/id.h"

struct pccl_communicator;

struct pccl_comm_members {
    uint32_t references, count;
    uint32_t rank;        /* rank of this peer; `count` if this peer is not in the list */
    struct pccl_id self;  /* shared list: id of this peer when it received the list */
    uint64_t number;      /* shared list: its number, assigned by the state machine */
    struct pccl_id ids[]; /* ids in order of ranks; constant in a shared list */
};

/* Returns a copy, with one reference, of a list of at least one id. Returns NULL if out of memory. */
struct pccl_comm_members *pccl_comm_members_copy(const struct pccl_communicator *comm, const struct pccl_id *ids,
                                                 uint32_t count);
/*
 * Returns the members of this peer's group and adds a reference: the members of the view, or the ones that callers saw
 * when the last call returned. This peer must have been a member. Returns NULL if out of memory.
 */
struct pccl_comm_members *pccl_comm_members_share(struct pccl_communicator *comm, bool as_of_view);
/* Adds a reference, and returns the list. */
struct pccl_comm_members *pccl_comm_members_hold(struct pccl_comm_members *list);
/* Drops a reference. `list` may be NULL. */
void pccl_comm_members_drop(struct pccl_comm_members *list);

#endif
