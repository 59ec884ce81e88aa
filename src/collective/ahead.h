/*
 * The rules for what is sent without READY. Must not know how it is held (held.h), nor what it is made of.
 */
#ifndef PCCL_COLLECTIVE_AHEAD_H
#define PCCL_COLLECTIVE_AHEAD_H

#include "collective/internal.h"

/* The first step of stripes below this may be sent ahead: on a long path. */
uint64_t pccl_ahead_stripes(const struct pccl_plan *plan);
/* READY has not come yet: the outgoing flow may begin with what the lane has left for that. */
void pccl_ahead_allow(struct pccl_flow *flow);
/* READY that agrees has come. */
void pccl_ahead_agree(struct pccl_flow *flow, uint64_t granted);
/* The lane gets back what the flow has of it. */
void pccl_ahead_give_back(struct pccl_flow *flow);
/* On a long path, a first step that no peer would send that plans the operation as we do. */
bool pccl_ahead_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data);
void pccl_ahead_fail(struct pccl_transfer *transfer, const struct pccl_id *peer, uint64_t stripe, uint32_t length);
/* It starts: drops what is older, and fails if what is held for it does not fit. */
void pccl_ahead_start(struct pccl_transfer *transfer);

#endif
