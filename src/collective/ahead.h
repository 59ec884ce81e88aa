/*
 * The rules for sending before READY has come. Must not know how the receiver holds it (held.h),
 * nor what it contains.
 */
#ifndef PCCL_COLLECTIVE_AHEAD_H
#define PCCL_COLLECTIVE_AHEAD_H

#include "collective/internal.h"

/* The first step of stripes below this may be sent ahead; 0 unless the path is long. */
uint64_t pccl_ahead_stripes(const struct pccl_plan *plan);
/*
 * READY has not come yet: lets the outgoing flow begin within what the lane's allowance has left.
 */
void pccl_ahead_allow(struct pccl_flow *flow);
/* A READY that agrees has come; `granted` is its credit. */
void pccl_ahead_agree(struct pccl_flow *flow, uint64_t granted);
/* Returns what the flow holds of the lane's allowance. */
void pccl_ahead_give_back(struct pccl_flow *flow);
/*
 * Whether this first step, on a long path, cannot come from a peer that plans the operation as we
 * do.
 */
bool pccl_ahead_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data);
void pccl_ahead_fail(struct pccl_transfer *transfer, const struct pccl_id *peer, uint64_t stripe, uint32_t length);
/*
 * The transfer starts: drops what is older, and fails the transfer if what is held for it does not
 * fit its plan.
 */
void pccl_ahead_start(struct pccl_transfer *transfer);

#endif
