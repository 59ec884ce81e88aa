/*
 * The messages of one operation, out and in. Must not know which schedule it runs: it asks (schedule.h).
 */
#ifndef PCCL_COLLECTIVE_MESSAGES_H
#define PCCL_COLLECTIVE_MESSAGES_H

#include "collective/internal.h"

/* The flow has something. Fills in the departure. false: it failed. */
PCCL_MUST_CHECK bool pccl_messages_next(struct pccl_flow *flow, struct pccl_departure *departure);
/* DATA of a transfer that runs, over its lane. Answers are those of pccl_exchange_receive. */
PCCL_MUST_CHECK enum pccl_status pccl_messages_receive(struct pccl_flow *flow, const struct pccl_msg_data *data,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/* All of it is here: does what the schedule says. The transfer has not failed. */
struct pccl_stripe *pccl_messages_received(struct pccl_arrival *arrival);
/*
 * The stripe has been opened: what is held for it came in, or is coming in. What comes true by it is reported with its
 * next message: one at least is to be sent.
 */
void pccl_messages_take_held(struct pccl_stripe *stripe);
/* They belong to no transfer any more; what they hold is given back. */
void pccl_departure_release(struct pccl_departure *departure);
void pccl_arrival_release(struct pccl_arrival *arrival);

#endif
