/*
 * Keeps the READY of other peers for operations that have not been started here, on outgoing lanes
 * and within bounds. Must not know what becomes of it.
 */
#ifndef PCCL_COLLECTIVE_KEPT_H
#define PCCL_COLLECTIVE_KEPT_H

#include "collective/internal.h"

/* false: memory is short. *first: it was not known. */
PCCL_MUST_CHECK bool pccl_kept_add(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                   const struct pccl_msg_ready *ready, bool *first);
struct pccl_kept *pccl_kept_find(struct pccl_lane *lane, const struct pccl_instance *instance);
void pccl_kept_free(struct pccl_exchange *exchange, struct pccl_lane *lane, struct pccl_kept *kept);
/* Drops what belongs to views before this one. */
void pccl_kept_forget_before(struct pccl_exchange *exchange, struct pccl_lane *lane, const struct pccl_epoch *view);

#endif
