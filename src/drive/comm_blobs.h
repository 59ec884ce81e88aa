/*
 * Collectives on blobs, whose lengths only their owners know. Each one runs two operations of the state machine
 * (PROTOCOL 5.8): a tiny one exchanges the lengths, and also the blobs if all of them are short; otherwise a bulk one
 * then transfers the blobs.
 */
#ifndef PCCL_DRIVE_COMM_BLOBS_H
#define PCCL_DRIVE_COMM_BLOBS_H

#include "drive/comm_op.h"
#include "pccl.h"

extern const struct pccl_comm_composition pccl_comm_blobs;
/* Frees the blobs of a caller; `blobs` may be NULL. Any thread, without the lock. */
void pccl_comm_blobs_free(const pcclBlob_t *blobs);

#endif
