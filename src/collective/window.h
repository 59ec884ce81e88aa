/*
 * Which groups of an operation are open: from the grant until all messages have come in and gone out. Must not know
 * what is in the messages.
 */
#ifndef PCCL_COLLECTIVE_WINDOW_H
#define PCCL_COLLECTIVE_WINDOW_H

#include "collective/internal.h"

/* How many groups may be open, and what each needs. */
void pccl_window_size(struct pccl_transfer *transfer);
/* Makes a record for one more group. false: memory is short. */
PCCL_MUST_CHECK bool pccl_group_reserve(struct pccl_transfer *transfer);
/*
 * Opens one group if none is open and there is one left: whatever the budget says; the memory for its record is there.
 * NULL: no. What is held for a group that was opened is to be taken, here and below.
 */
struct pccl_group *pccl_window_open_least(struct pccl_transfer *transfer);
/* The transfer would like to open more groups. */
void pccl_window_want(struct pccl_transfer *transfer);
/* Opens one for whoever wants to, in turn, from what is left of the budget. NULL: nobody, or nothing is left. */
struct pccl_group *pccl_window_open_next(struct pccl_exchange *exchange);
/* Tells the senders of new credit, if it is worth a message. */
void pccl_window_offer(struct pccl_transfer *transfer);
/* NULL: not granted, or complete. */
struct pccl_group *pccl_group_of(const struct pccl_transfer *transfer, uint64_t number);
/* The parcel of a step on the flow, of either direction. */
struct pccl_parcel *pccl_flow_parcel(const struct pccl_flow *flow, struct pccl_group *group, uint32_t step);
/* One more result of the group is there. */
void pccl_group_result(struct pccl_group *group);
/* After each message of the group that came or went. false: it is not complete. */
bool pccl_group_close(struct pccl_group *group);
/* Also those that are open, with what waits in them. */
void pccl_groups_free(struct pccl_transfer *transfer);

#endif
