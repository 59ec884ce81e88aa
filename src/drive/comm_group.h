/*
 * The groups of a communicator: their founding and their end. A group whose machine is gone, after
 * another pcclConnect, is over. Under the lock.
 */
#ifndef PCCL_DRIVE_COMM_GROUP_H
#define PCCL_DRIVE_COMM_GROUP_H

#include "config/errors.h"
#include "drive/handle.h"

struct pccl_communicator;
struct pccl_founding;

/*
 * Waits until all members have founded it, and fills in the handle, which was made for as many. Not
 * OK: the handle is as it was, and `why`, which the caller has zeroed, tells the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_group_found(struct pccl_communicator *comm,
                                                       const struct pccl_founding *founding,
                                                       struct pccl_group_handle *group, struct pccl_why *why);
/* Ends it for all members. Does not wait. */
void pccl_comm_group_close(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* It is closed, and no caller is in it: waits until its operations are over, and frees it. */
void pccl_comm_group_remove(struct pccl_communicator *comm, struct pccl_group_handle *group);
/* The communicator is about to be freed. */
void pccl_comm_groups_abandon(struct pccl_communicator *comm);

#endif
