/* A communicator's engine: starts it, and turns its events into events of the machine. */
#ifndef PCCL_DRIVE_COMM_ENGINE_H
#define PCCL_DRIVE_COMM_ENGINE_H

#include "core/status.h"
#include "core/text.h"

struct pccl_communicator;

/* Starts the engine if it is not running. SYSTEM or MEMORY with a reason. Without the lock. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_engine_start(struct pccl_communicator *comm, struct pccl_text *reason);
/*
 * To be called before joint calls: tells the machine what operations showed of the links to other
 * peers.
 */
void pccl_comm_measure(struct pccl_communicator *comm);

#endif
