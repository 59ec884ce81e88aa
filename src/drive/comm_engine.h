/* The engine of a communicator: starts it and converts its events to events of the state machine. */
#ifndef PCCL_DRIVE_COMM_ENGINE_H
#define PCCL_DRIVE_COMM_ENGINE_H

#include "core/status.h"
#include "core/text.h"

struct pccl_communicator;

/* Starts the engine if it is not running. Called without the lock. Returns SYSTEM or MEMORY with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_engine_start(struct pccl_communicator *comm, struct pccl_text *reason);
/* Reports to the state machine the link measurements that operations have made. Called before joint calls. */
void pccl_comm_measure(struct pccl_communicator *comm);

#endif
