/*
 * Which stripes of an operation are open: from the grant until all messages have been received and
 * sent. Must not know what is in the messages.
 */
#ifndef PCCL_COLLECTIVE_WINDOW_H
#define PCCL_COLLECTIVE_WINDOW_H

#include "collective/internal.h"

/* Computes how many stripes may be open, and how much scratch each needs. The flows are there. */
void pccl_window_size(struct pccl_transfer *transfer);
/* Makes a record for one more stripe. false: memory is short. */
PCCL_MUST_CHECK bool pccl_stripe_reserve(struct pccl_transfer *transfer);
/*
 * Opens one stripe if none is open and one is left, whatever the budget says; its record has been
 * reserved. NULL: no. The caller must then begin the stripe (messages.h), here and below.
 */
struct pccl_stripe *pccl_window_open_least(struct pccl_transfer *transfer);
/* The transfer would like to open more stripes. */
void pccl_window_enqueue(struct pccl_transfer *transfer);
/*
 * Opens one stripe of the next waiting transfer from what is left of the budget. NULL: none waits,
 * or nothing is left.
 */
struct pccl_stripe *pccl_window_open_next(struct pccl_exchange *exchange);
/* Tells the senders of new credit, if it is worth a message. */
void pccl_window_offer(struct pccl_transfer *transfer);
/* NULL: not granted, or complete. */
struct pccl_stripe *pccl_stripe_of(const struct pccl_transfer *transfer, uint64_t number);
/* The parcel of a step on a flow of either direction. */
struct pccl_parcel *pccl_flow_parcel(const struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step);
/* One more result of the stripe is complete. */
void pccl_stripe_result(struct pccl_stripe *stripe);
/*
 * Call after each message of the stripe that was received or sent. false: the stripe is not
 * complete.
 */
bool pccl_stripe_close(struct pccl_stripe *stripe);
/* Frees open stripes too, with the parcels that wait in them. */
void pccl_stripes_free(struct pccl_transfer *transfer);

#endif
