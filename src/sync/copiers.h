/*
 * The copiers of one user (a digesting thread, or a connection) for the devices of its tensors. A copier is opened when
 * the first of its tensors is used.
 */
#ifndef PCCL_SYNC_COPIERS_H
#define PCCL_SYNC_COPIERS_H

#include "sync/synchronizer.h"

struct pccl_sync_copier {
    struct pccl_device *device;
    struct pccl_device_copier *copier;
    struct pccl_sync_copier *next;
};

struct pccl_sync_copiers {
    struct pccl_sync_copier *first;
};

/* Returns the copier for this tensor, which is on a device. Returns MEMORY or SYSTEM with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_sync_copiers_find(struct pccl_sync_copiers *copiers,
                                                        const struct pccl_sync_tensor *tensor,
                                                        struct pccl_device_copier **copier, struct pccl_text *reason);
/* Waits until the transfers have ended, and closes the copiers. */
void pccl_sync_copiers_close(struct pccl_sync_copiers *copiers);

/* Returns the address of a chunk. The address of a chunk on a device must not be dereferenced. */
static inline uint8_t *pccl_sync_chunk(const struct pccl_sync_tensor *tensor, uint64_t chunk)
{
    return (uint8_t *)tensor->data + chunk * PCCL_STATE_CHUNK_BYTES;
}

#endif
