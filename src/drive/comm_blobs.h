/*
 * Operations on blobs, whose lengths only their owners know. Each is composed of two operations of the machine
 * (PROTOCOL 5.8): the first, tiny, exchanges the lengths, and the blobs too if all are short; otherwise the second, in
 * bulk, moves them.
 */
#ifndef PCCL_DRIVE_COMM_BLOBS_H
#define PCCL_DRIVE_COMM_BLOBS_H

#include "drive/comm_op.h"
#include "pccl.h"

extern const struct pccl_comm_composition pccl_comm_blobs;
/* Frees a caller's blobs; NULL is allowed. Any thread, without the lock. */
void pccl_comm_blobs_free(const pcclBlob_t *blobs);

#endif
