/*
 * The groups of a communicator: creation and end. A group ends with its machine, so another pcclConnect ends it. Under
 * the lock.
 */
#ifndef PCCL_DRIVE_COMM_GROUP_H
#define PCCL_DRIVE_COMM_GROUP_H

#include "config/errors.h"
#include "drive/handle.h"

struct pccl_communicator;
struct pccl_founding;

/*
 * Waits until all members have created the group, and fills in the handle, which was made for their number. On failure
 * the handle is unchanged, and `why`, which the caller has zeroed, has the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_group_found(struct pccl_communicator *comm,
                                                       const struct pccl_founding *founding,
                                                       struct pccl_group_handle *group, struct pccl_why *why);
/* Ends the group for all members. Does not wait. */
void pccl_comm_group_close(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* Waits until the operations of a closed group without callers are over, and frees it. */
void pccl_comm_group_remove(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* Detaches all groups from a communicator that is about to be freed. */
void pccl_comm_groups_abandon(struct pccl_communicator *comm);

#endif
