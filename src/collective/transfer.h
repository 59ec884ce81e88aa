/*
 * One operation at this peer, from its start over each message that is sent or received to its end.
 */
#ifndef PCCL_COLLECTIVE_TRANSFER_H
#define PCCL_COLLECTIVE_TRANSFER_H

#include "collective/internal.h"

PCCL_MUST_CHECK enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange,
                                                    const struct pccl_transfer_config *config,
                                                    struct pccl_transfer **transfer, struct pccl_text *reason);
/*
 * Opens as many stripes as may be opened; called when the transfer starts, and when a stripe is
 * complete.
 */
void pccl_transfer_widen(struct pccl_transfer *transfer);
void pccl_transfer_sent(struct pccl_departure *departure);
/* All that stays is in the result. */
void pccl_transfer_stays(struct pccl_transfer *transfer);
void pccl_transfer_received(struct pccl_arrival *arrival);
/* It was aborted: puts back what has been overwritten of its input. */
void pccl_transfer_restore(const struct pccl_transfer *transfer);
/* Other transfers get the scratch that it had reserved. */
void pccl_transfer_free(struct pccl_transfer *transfer);

#endif
