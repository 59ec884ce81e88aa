/*
 * Access to memory of accelerators. The engine of shared state reads and writes their tensors chunk by chunk through
 * it; memory of the host does not need it.
 *
 * Each thread that uses device memory opens its own copier: a stream and page-locked buffers of PCCL_STATE_CHUNK_BYTES,
 * so that one chunk is copied while the one before it is digested or sent.
 *
 * All work is done in the device's primary context, which CUDA's runtime and frameworks use. It is retained while a
 * copier is open, and current only inside the functions here, so the caller's context is unaffected.
 */
#ifndef PCCL_DEVICE_DEVICE_H
#define PCCL_DEVICE_DEVICE_H

#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

enum { PCCL_DEVICE_BUFFERS = 4 }; /* buffers of a copier */

/* The driver's functions (cuda_driver.h), as in libcuda; a fake driver fills in the same table. */
struct pccl_cuda_driver;

struct pccl_device; /* one driver, opened */
struct pccl_device_copier;

/*
 * Opens the system's CUDA driver, which is loaded at run time and stays loaded. Returns UNSUPPORTED with a reason if
 * there is no driver or device, or this process was forked from one that had loaded it. Any thread; returns the same
 * device, or the same reason, each time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_cuda(struct pccl_device **device, struct pccl_text *reason);
/*
 * Opens a device over a table of functions, for tests. The table must outlive the device. Returns MEMORY, or
 * UNSUPPORTED as above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_over(const struct pccl_cuda_driver *driver, struct pccl_device **device,
                                                  struct pccl_text *reason);
void pccl_device_close(struct pccl_device *device); /* only devices of pccl_device_over */

/*
 * Checks that these bytes are in one allocation of a device, or of managed memory. Returns ARGUMENT with a reason if
 * not, MEMORY or SYSTEM with a reason if the driver fails. Accepts any pointer for zero bytes. Any thread.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_check(struct pccl_device *device, const void *pointer, uint64_t bytes,
                                                   struct pccl_text *reason);

/*
 * Opens a copier for memory of the device to which this pointer belongs. Waits for all work in the device's primary
 * context, so that writes in the caller's streams are complete. Returns ARGUMENT (no memory of a device), MEMORY or
 * SYSTEM with a reason. A copier is for one thread at a time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_copier_open(struct pccl_device *device, const void *pointer,
                                                         const struct pccl_memory *memory,
                                                         struct pccl_device_copier **copier, struct pccl_text *reason);
/* Returns true if this is memory of the copier's device; one driver may have several. */
PCCL_MUST_CHECK bool pccl_device_copier_fits(const struct pccl_device_copier *copier, const void *pointer);
void pccl_device_copier_close(struct pccl_device_copier *copier); /* waits for unfinished copies */
uint8_t *pccl_device_copier_buffer(struct pccl_device_copier *copier, uint32_t buffer);
/*
 * Begin a copy between a buffer and device memory. Wait for the buffer's previous copy first; use neither end until
 * this one has been waited for. Copies of one copier happen in the order in which they were begun. Return MEMORY or
 * SYSTEM with a reason; then the copier can only be closed, which waits for unfinished copies.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_read(struct pccl_device_copier *copier, uint32_t buffer, const void *from,
                                                  size_t bytes, struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_device_write(struct pccl_device_copier *copier, uint32_t buffer, void *to,
                                                   size_t bytes, struct pccl_text *reason);
/* Waits for the copy that was begun for this buffer, if any. Returns MEMORY or SYSTEM with a reason, as above. */
PCCL_MUST_CHECK enum pccl_status pccl_device_wait(struct pccl_device_copier *copier, uint32_t buffer,
                                                  struct pccl_text *reason);

#endif
