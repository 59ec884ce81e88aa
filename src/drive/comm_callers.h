/* Who is inside a public call. Any thread, without the lock. */
#ifndef PCCL_DRIVE_COMM_CALLERS_H
#define PCCL_DRIVE_COMM_CALLERS_H

#include "drive/communicator.h"

/* A public call begins. false: the communicator is closed or being destroyed. */
PCCL_MUST_CHECK bool pccl_comm_admit(struct pcclComm_t *comm);
/* It ends: the communicator must not be touched any more. */
void pccl_comm_let_out(struct pcclComm_t *comm);
/* Nobody is admitted from now on. */
void pccl_comm_refuse(struct pcclComm_t *comm);
/* The same, and the caller is who destroys it. false: another thread is. */
PCCL_MUST_CHECK bool pccl_comm_shut(struct pcclComm_t *comm);
/* Waits until nobody is inside. Under the lock, which is let go meanwhile. */
void pccl_comm_await_callers(struct pcclComm_t *comm);

#endif
