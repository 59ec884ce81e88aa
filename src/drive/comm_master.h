/* The connection to the master. Under the lock; what needs the loop is noted, and done by settle. */
#ifndef PCCL_DRIVE_COMM_MASTER_H
#define PCCL_DRIVE_COMM_MASTER_H

#include "drive/communicator.h"

/* On the loop: dials, cancels and closes as was noted. */
void pccl_comm_master_settle(struct pcclComm_t *comm);
/* Effects of the machine. */
void pccl_comm_effect_dial_master(void *context);
void pccl_comm_effect_close_master(void *context);
void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length);
void pccl_comm_effect_accept_master(void *context);

#endif
