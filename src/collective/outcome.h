/*
 * Tells the driver once each that an operation fails, is done, and is at rest.
 */
#ifndef PCCL_COLLECTIVE_OUTCOME_H
#define PCCL_COLLECTIVE_OUTCOME_H

#include "collective/internal.h"

PCCL_PRINTF(3, 4)
void pccl_outcome_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...);
/* Tells the driver what the last message has brought about. */
void pccl_outcome_report(struct pccl_transfer *transfer);

#endif
