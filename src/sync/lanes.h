/*
 * The lanes of one user (a thread that digests, or a connection) to the devices of its tensors.
 * Each lane is opened when the first of its tensors is touched.
 */
#ifndef PCCL_SYNC_LANES_H
#define PCCL_SYNC_LANES_H

#include "sync/session.h"

struct pccl_sync_lane {
    struct pccl_device *device;
    struct pccl_device_lane *lane;
    struct pccl_sync_lane *next;
};

struct pccl_sync_lanes {
    struct pccl_sync_lane *first;
};

/* The lane for this tensor, which lies on a device. MEMORY or SYSTEM with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_sync_lanes_find(struct pccl_sync_lanes *lanes,
                                                      const struct pccl_sync_tensor *tensor,
                                                      struct pccl_device_lane **lane, struct pccl_text *reason);
/* Waits until their transfers have ended. */
void pccl_sync_lanes_close(struct pccl_sync_lanes *lanes);

/* The address of a chunk. That of a device must not be dereferenced. */
static inline uint8_t *pccl_sync_chunk(const struct pccl_sync_tensor *tensor, uint64_t chunk)
{
    return (uint8_t *)tensor->data + chunk * PCCL_STATE_CHUNK_BYTES;
}

#endif
