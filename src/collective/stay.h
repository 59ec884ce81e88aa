/*
 * What stays with a rank: the part of its input that is part of its result as it is, and that nobody
 * has to send. Any thread may copy it, while the exchange moves the rest. Pure.
 */
#ifndef PCCL_COLLECTIVE_STAY_H
#define PCCL_COLLECTIVE_STAY_H

#include "core/id.h"
#include "kernels/kernels.h"

struct pccl_transfer_config;

struct pccl_stay {
    const uint8_t *from;
    uint8_t *to;
    size_t bytes;  /* 0: nothing */
    bool streamed; /* past the caches */
};

enum { PCCL_STAY_BYTES_APART = 1 << 20 }; /* Less is copied before another thread has heard of it. */

/* Of an operation at this peer; nothing if it lies where it belongs. */
struct pccl_stay pccl_stay_of(const struct pccl_transfer_config *config, const struct pccl_id *self);
/* Copies some of it. */
void pccl_stay_copy(const struct pccl_stay *stay, const struct pccl_kernels *kernels, size_t at, size_t bytes);

#endif
