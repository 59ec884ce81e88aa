/* Progress of the call in which a thread of this communicator has waited longest. */
#ifndef PCCL_DRIVE_COMM_PROGRESS_H
#define PCCL_DRIVE_COMM_PROGRESS_H

#include "drive/communicator.h"
#include "pccl_collectives.h"

/* Fills in all fields but the size. Under the lock. */
void pccl_comm_progress(const struct pccl_communicator *comm, pcclProgress_t *progress);

#endif
