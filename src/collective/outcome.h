/*
 * What becomes of an operation, told to the driver once: it fails, is done, is at rest.
 */
#ifndef PCCL_COLLECTIVE_OUTCOME_H
#define PCCL_COLLECTIVE_OUTCOME_H

#include "collective/internal.h"

PCCL_PRINTF(3, 4)
void pccl_outcome_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...);
/* Tells what has come true by the last message. */
void pccl_outcome_report(struct pccl_transfer *transfer);

#endif
