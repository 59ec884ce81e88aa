/*
 * Lists of members that operations count on. Operations that count on the same members of the run share one list, so
 * that a launch in a large group copies nothing. Under the lock.
 */
#ifndef PCCL_DRIVE_COMM_MEMBERS_H
#define PCCL_DRIVE_COMM_MEMBERS_H

#include "core/base.h"
#include "core/id.h"

struct pccl_communicator;

struct pccl_comm_members {
    uint32_t references, count;
    uint32_t rank;        /* of this peer; `count`: it is not in the list */
    struct pccl_id self;  /* shared: the peer that was told the list ... */
    uint64_t number;      /* ... and the number of the list there */
    struct pccl_id ids[]; /* by rank; a shared list never changes */
};

/* Returns a copy of a list of at least one id, with one reference. NULL: out of memory. */
struct pccl_comm_members *pccl_comm_members_copy(const struct pccl_communicator *comm, const struct pccl_id *ids,
                                                 uint32_t count);
/*
 * Returns the members of this peer's group, with one reference more: as of the call that returned last, or as of the
 * view. This peer has been a member. NULL: out of memory.
 */
struct pccl_comm_members *pccl_comm_members_share(struct pccl_communicator *comm, bool as_of_view);
static inline struct pccl_comm_members *pccl_comm_members_hold(struct pccl_comm_members *list)
{
    list->references++;
    return list;
}
/* NULL: nothing. */
void pccl_comm_members_drop(struct pccl_comm_members *list);

#endif
