/*
 * Creates and closes groups of a communicator. A group belongs to the current state machine, so another pcclConnect
 * ends it. Caller holds the lock.
 */
#ifndef PCCL_DRIVE_COMM_GROUP_H
#define PCCL_DRIVE_COMM_GROUP_H

#include "config/errors.h"
#include "drive/handle.h"

struct pccl_communicator;
struct pccl_founding;

/*
 * Waits until all members have created the group, and fills in the handle, which must have room for them. On failure
 * the handle is unchanged and `why`, which the caller has zeroed, receives the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_group_found(struct pccl_communicator *comm,
                                                       const struct pccl_founding *founding,
                                                       struct pccl_group_handle *group, struct pccl_why *why);
/* Ends the group for all members. Does not wait. */
void pccl_comm_group_close(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* Waits until the operations of a closed group are over, and frees it. No caller may be inside the group. */
void pccl_comm_group_remove(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* Detaches all groups from a communicator that is about to be freed. */
void pccl_comm_groups_abandon(struct pccl_communicator *comm);

#endif
