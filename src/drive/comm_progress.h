/* How far the call has come that a thread of this communicator has waited in for longest. */
#ifndef PCCL_DRIVE_COMM_PROGRESS_H
#define PCCL_DRIVE_COMM_PROGRESS_H

#include "drive/communicator.h"
#include "pccl_collectives.h"

/* Under the lock. Fills in all members but the size. */
void pccl_comm_progress(const struct pccl_communicator *comm, pcclProgress_t *progress);

#endif
