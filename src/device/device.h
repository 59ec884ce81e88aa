/*
 * Access to memory of accelerators. The engine of shared state reads and writes their tensors chunk
 * by chunk through it; memory of the host needs none of this.
 *
 * Each thread that touches device memory opens a copier of its own: a stream and page-locked buffers
 * of PCCL_STATE_CHUNK_BYTES, so that one chunk is copied while the one before it is digested or
 * sent.
 *
 * All work is done in the device's primary context, which CUDA's runtime and frameworks use. It is
 * retained while a copier is open, and current only inside the functions here, so the caller's own
 * context is not disturbed.
 */
#ifndef PCCL_DEVICE_DEVICE_H
#define PCCL_DEVICE_DEVICE_H

#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

enum { PCCL_DEVICE_BUFFERS = 4 }; /* of a copier */

/*
 * The driver's functions (cuda_driver.h), as libcuda has them; a fake one fills in the same table.
 */
struct pccl_cuda_driver;

struct pccl_device; /* one driver, opened */
struct pccl_device_copier;

/*
 * The system's CUDA driver, loaded at run time; stays loaded. UNSUPPORTED with a reason: there is
 * none, or no device, or this process was forked from one that had loaded it. Any thread; returns
 * the same device, or the same reason, each time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_cuda(struct pccl_device **device, struct pccl_text *reason);
/*
 * A device over a table of functions, for tests. The table must outlive the device. MEMORY, and as
 * above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_over(const struct pccl_cuda_driver *driver, struct pccl_device **device,
                                                  struct pccl_text *reason);
void pccl_device_close(struct pccl_device *device); /* only those of pccl_device_over */

/*
 * Checks that these bytes lie in one allocation of a device, or of managed memory. ARGUMENT with a
 * reason: they do not. MEMORY or SYSTEM with a reason: the driver cannot tell. For zero bytes any
 * pointer will do. Any thread.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_check(struct pccl_device *device, const void *pointer, uint64_t bytes,
                                                   struct pccl_text *reason);

/*
 * Opens a copier for memory of the device to which this pointer belongs. Waits for all work in the
 * device's primary context, so that whatever the caller's streams were still writing is complete.
 * ARGUMENT (no memory of a device), MEMORY or SYSTEM with a reason. A copier is for one thread at a
 * time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_copier_open(struct pccl_device *device, const void *pointer,
                                                         const struct pccl_memory *memory,
                                                         struct pccl_device_copier **copier, struct pccl_text *reason);
/* Is this memory of the device that the copier was opened for? One driver may have several. */
PCCL_MUST_CHECK bool pccl_device_copier_fits(const struct pccl_device_copier *copier, const void *pointer);
void pccl_device_copier_close(struct pccl_device_copier *copier); /* waits for unfinished copies */
uint8_t *pccl_device_copier_buffer(struct pccl_device_copier *copier, uint32_t buffer);
/*
 * Begins a copy between a buffer and device memory. Wait for the buffer's previous copy first;
 * touch neither end until this one has been waited for. Copies of one copier happen in the order in
 * which they were begun. MEMORY or SYSTEM with a reason: the copier can only be closed, which waits
 * for unfinished copies.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_read(struct pccl_device_copier *copier, uint32_t buffer, const void *from,
                                                  size_t bytes, struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_device_write(struct pccl_device_copier *copier, uint32_t buffer, void *to,
                                                   size_t bytes, struct pccl_text *reason);
/*
 * Waits for the copy that was begun for this buffer, if any. MEMORY or SYSTEM with a reason: as
 * above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_wait(struct pccl_device_copier *copier, uint32_t buffer,
                                                  struct pccl_text *reason);

#endif
