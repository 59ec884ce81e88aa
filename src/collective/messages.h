/*
 * Sends and receives the messages of one operation. Must not know which schedule runs, only its
 * table (schedule.h).
 */
#ifndef PCCL_COLLECTIVE_MESSAGES_H
#define PCCL_COLLECTIVE_MESSAGES_H

#include "collective/internal.h"

/* Fills in the departure for a flow that has something to send. false: the transfer failed. */
PCCL_MUST_CHECK bool pccl_messages_next(struct pccl_flow *flow, struct pccl_departure *departure);
/* DATA of a running transfer came over its lane. Returns what pccl_exchange_receive returns. */
PCCL_MUST_CHECK enum pccl_status pccl_messages_receive(struct pccl_flow *flow, const struct pccl_msg_data *data,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/*
 * All bytes of the arrival are here: does what the schedule says. The transfer must not have
 * failed.
 */
struct pccl_stripe *pccl_messages_received(struct pccl_arrival *arrival);
/*
 * The stripe has been opened: keeps what is a result already, and takes what is held for it as if it
 * came in now. Nothing is reported to the driver here.
 */
void pccl_messages_begin(struct pccl_stripe *stripe);
/* Detach it from its transfer and give back what it holds. */
void pccl_departure_release(struct pccl_departure *departure);
void pccl_arrival_release(struct pccl_arrival *arrival);

#endif
