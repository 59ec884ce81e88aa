/*
 * One operation at this peer: made, moved on by each message that came or went, freed.
 */
#ifndef PCCL_COLLECTIVE_TRANSFER_H
#define PCCL_COLLECTIVE_TRANSFER_H

#include "collective/internal.h"

PCCL_MUST_CHECK enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange,
                                                    const struct pccl_transfer_config *config,
                                                    struct pccl_transfer **transfer, struct pccl_text *reason);
/* Opens what stripes may be opened: when it starts, and when one is complete. */
void pccl_transfer_widen(struct pccl_transfer *transfer);
void pccl_transfer_sent(struct pccl_departure *departure);
void pccl_transfer_received(struct pccl_arrival *arrival);
/* Others get what it had reserved. */
void pccl_transfer_free(struct pccl_transfer *transfer);

#endif
