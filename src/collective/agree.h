/*
 * Compares what each READY says with our own operation: peers must have launched the same one and
 * must plan it alike.
 */
#ifndef PCCL_COLLECTIVE_AGREE_H
#define PCCL_COLLECTIVE_AGREE_H

#include "collective/internal.h"

/*
 * Takes a READY of this transfer and its view. false: it is from a peer that does not receive from
 * us.
 */
bool pccl_agree_take_ready(struct pccl_transfer *transfer, const struct pccl_lane *lane,
                           const struct pccl_msg_ready *ready);

#endif
