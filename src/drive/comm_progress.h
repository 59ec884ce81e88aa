/* Progress of the communicator's longest waiting call. */
#ifndef PCCL_DRIVE_COMM_PROGRESS_H
#define PCCL_DRIVE_COMM_PROGRESS_H

#include "drive/communicator.h"
#include "pccl_collectives.h"

/* Fills in all fields except `size`. Caller holds the lock. */
void pccl_comm_progress(const struct pccl_communicator *comm, pcclProgress_t *progress);

#endif
