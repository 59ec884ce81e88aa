/*
 * Access to accelerator memory. The engine of shared state reads and writes tensors on devices through it, chunk by
 * chunk.
 *
 * Each thread that uses device memory opens a copier: a stream and page-locked buffers of PCCL_STATE_CHUNK_BYTES, so
 * that a chunk can be copied while the previous one is digested or sent.
 *
 * All work is done in the device's primary context, which the CUDA runtime and frameworks use. The context is retained
 * while a copier is open, and current only inside these functions, so the caller's context is unaffected.
 */
#ifndef PCCL_DEVICE_DEVICE_H
#define PCCL_DEVICE_DEVICE_H

#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

enum { PCCL_DEVICE_BUFFERS = 4 };

/* Functions of the driver (cuda_driver.h), from libcuda or from a fake driver. */
struct pccl_cuda_driver;

struct pccl_device; /* an opened driver */
struct pccl_device_copier;

/*
 * Opens the system's CUDA driver, which is loaded at run time and stays loaded. Returns UNSUPPORTED with a reason if
 * there is no driver or device, or if this process was forked after its parent had loaded the driver. Any thread; all
 * calls return the same device or the same reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_cuda(struct pccl_device **device, struct pccl_text *reason);
/*
 * Opens a device with a given table of functions, for tests. The table must outlive the device. Returns MEMORY, or
 * UNSUPPORTED with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_over(const struct pccl_cuda_driver *driver, struct pccl_device **device,
                                                  struct pccl_text *reason);
void pccl_device_close(struct pccl_device *device); /* only for devices opened by pccl_device_over */

/*
 * Checks that the whole range is in one allocation of device memory or managed memory. Returns ARGUMENT with a reason
 * if it is not; MEMORY or SYSTEM with a reason if the driver fails. If `bytes` is 0, any pointer is accepted. Any
 * thread.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_check(struct pccl_device *device, const void *pointer, uint64_t bytes,
                                                   struct pccl_text *reason);

/*
 * Opens a copier for memory of the device that owns this pointer. Waits for all work in the device's primary context,
 * so that writes in the caller's streams are complete. Returns ARGUMENT (not device memory), MEMORY or SYSTEM with a
 * reason. One thread at a time may use a copier.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_copier_open(struct pccl_device *device, const void *pointer,
                                                         const struct pccl_memory *memory,
                                                         struct pccl_device_copier **copier, struct pccl_text *reason);
/* Returns true if the memory belongs to the copier's device. A driver may have several devices. */
PCCL_MUST_CHECK bool pccl_device_copier_fits(const struct pccl_device_copier *copier, const void *pointer);
void pccl_device_copier_close(struct pccl_device_copier *copier); /* waits for unfinished copies */
uint8_t *pccl_device_copier_buffer(struct pccl_device_copier *copier, uint32_t buffer);
/*
 * Start a copy between a buffer and device memory. The buffer's previous copy must have been waited for. Neither the
 * buffer nor the device memory may be used until this copy has been waited for. Copies of a copier run in the order in
 * which they were started. Return MEMORY or SYSTEM with a reason; after that, the copier can only be closed, which
 * waits for unfinished copies.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_read(struct pccl_device_copier *copier, uint32_t buffer, const void *from,
                                                  size_t bytes, struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_device_write(struct pccl_device_copier *copier, uint32_t buffer, void *to,
                                                   size_t bytes, struct pccl_text *reason);
/*
 * Waits for the buffer's copy, if one was started. Returns MEMORY or SYSTEM with a reason; the copier can then only be
 * closed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_wait(struct pccl_device_copier *copier, uint32_t buffer,
                                                  struct pccl_text *reason);

#endif
