/* Connections for the workers of joint calls: transfers of shared state, and measurements. Caller holds the lock. */
#ifndef PCCL_DRIVE_COMM_LINKS_SERVE_H
#define PCCL_DRIVE_COMM_LINKS_SERVE_H

#include "net/connection.h"

struct pccl_communicator;

/* Returns true unless the connection is for a call that is not in progress; in that case sets a reason. */
bool pccl_comm_has_use_for(struct pccl_communicator *comm, uint8_t kind, struct pccl_text *reason);
/*
 * Passes the connection to the worker of its call, which is in progress: for a line that waits for it, if `number` is
 * not 0. `may_begin` is true if the other side may send data immediately after the handshake.
 */
void pccl_comm_pass_on(struct pccl_communicator *comm, struct pccl_connection *connection, uint8_t kind,
                       const struct pccl_id *from, uint64_t number, bool may_begin);

#endif
