/*
 * Peers must mean the same operation, and plan it alike: what a READY says is compared.
 */
#ifndef PCCL_COLLECTIVE_AGREE_H
#define PCCL_COLLECTIVE_AGREE_H

#include "collective/internal.h"

/* READY of this transfer and its view. false: a peer has said it that does not receive from us. */
bool pccl_agree_take_ready(struct pccl_transfer *transfer, const struct pccl_lane *lane,
                           const struct pccl_msg_ready *ready);

#endif
