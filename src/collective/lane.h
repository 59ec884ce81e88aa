/*
 * Lanes and flows (a flow is one operation on one lane). A flow that has something to send waits in
 * the lane's queue. Must not know what is sent, or what becomes of it.
 */
#ifndef PCCL_COLLECTIVE_LANE_H
#define PCCL_COLLECTIVE_LANE_H

#include "collective/internal.h"

struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Finds the lane, or makes it. NULL: memory is short. */
struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
bool pccl_lane_is_of_member(const struct pccl_exchange *exchange, const struct pccl_lane *lane);
/* Frees the lane if nobody needs it. NULL is allowed. */
void pccl_lane_tidy(struct pccl_exchange *exchange, struct pccl_lane *lane);
void pccl_lanes_free(struct pccl_exchange *exchange);

/* The transfer's flow with this lane, or NULL. */
struct pccl_flow *pccl_flow_find(struct pccl_transfer *transfer, const struct pccl_lane *lane);
/*
 * The outgoing flow to a rank, which must exist. Flows to the ranks that follow are next to it in
 * the array.
 */
struct pccl_flow *pccl_flow_to(const struct pccl_transfer *transfer, uint32_t rank);
bool pccl_flow_has_something(struct pccl_flow *flow);
/* Whether the first step of another stripe may be sent. */
bool pccl_flow_can_begin(struct pccl_flow *flow);
/* Begins that stripe; returns its number. */
uint64_t pccl_flow_begin(struct pccl_flow *flow);
/* Whether something of an outgoing flow waits only for the receiver to grant its stripe. */
bool pccl_flow_awaits_credit(const struct pccl_flow *flow);
/* Puts it into the lane's queue if it has something to send and is not there. */
void pccl_flow_wake(struct pccl_flow *flow);
/*
 * The parcel may be sent, as soon as its stripe is granted: on a long path behind those of its step
 * and of earlier ones.
 */
void pccl_flow_send(struct pccl_flow *flow, struct pccl_parcel *parcel);
/* Takes the next parcel that may be sent now, first steps of stripes excepted. NULL: none. */
struct pccl_parcel *pccl_flow_take(struct pccl_flow *flow);
/* The receiver of an outgoing flow now takes stripes below `granted`. */
void pccl_flow_credit(struct pccl_flow *flow, uint64_t granted);

#endif
