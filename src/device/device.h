/*
 * Memory of accelerators, behind one small table. The engine of shared state reads and writes tensors chunk by chunk
 * through it; memory of the host needs none of this.
 *
 * Each thread that touches device memory opens a lane of its own: a stream and page-locked buffers of
 * PCCL_STATE_CHUNK_BYTES, so that one copy is under way while the chunk before it is digested or sent.
 *
 * All work is done in the primary context of the device, which CUDA's runtime and the frameworks on it use: it is
 * retained while a lane is open, and current only inside the functions here, so the caller's own context is left alone.
 */
#ifndef PCCL_DEVICE_DEVICE_H
#define PCCL_DEVICE_DEVICE_H

#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

enum { PCCL_DEVICE_BUFFERS = 4 }; /* of a lane */

/* The driver's functions (cuda_driver.h), as libcuda has them; a fake one fills in the same table. */
struct pccl_cuda_driver;

struct pccl_device; /* one driver, opened */
struct pccl_device_lane;

/*
 * The system's CUDA driver, loaded at run time; stays loaded. UNSUPPORTED with words: there is none, or no device, or
 * this process was forked from one that had loaded it. Any thread; the same device, or the same words, each time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_cuda(struct pccl_device **device, struct pccl_text *reason);
/* Over a table of functions: for tests. It must outlive the device. MEMORY, and as above. */
PCCL_MUST_CHECK enum pccl_status pccl_device_over(const struct pccl_cuda_driver *driver, struct pccl_device **device,
                                                  struct pccl_text *reason);
void pccl_device_close(struct pccl_device *device); /* only those of pccl_device_over */

/*
 * Do these bytes lie in one allocation of a device, or of managed memory? ARGUMENT with words: they do not. MEMORY or
 * SYSTEM with words: the driver cannot tell. No bytes at all may have any pointer. Any thread.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_check(struct pccl_device *device, const void *pointer, uint64_t bytes,
                                                   struct pccl_text *reason);

/*
 * For memory of the device that this pointer belongs to. Waits until the device has done all it was given to do in its
 * primary context, so that what the caller's streams were still writing is there. ARGUMENT (no memory of a device),
 * MEMORY or SYSTEM with words. A lane is for one thread at a time.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_lane_open(struct pccl_device *device, const void *pointer,
                                                       const struct pccl_memory *memory, struct pccl_device_lane **lane,
                                                       struct pccl_text *reason);
/* Is this memory of the device that the lane was opened for? One driver may have several. */
PCCL_MUST_CHECK bool pccl_device_lane_fits(const struct pccl_device_lane *lane, const void *pointer);
void pccl_device_lane_close(struct pccl_device_lane *lane); /* waits for what is under way */
uint8_t *pccl_device_lane_buffer(struct pccl_device_lane *lane, uint32_t buffer);
/*
 * Begins a copy between a buffer and device memory. What was begun for the buffer before must have been waited for;
 * until this copy has been, neither end of it may be touched. Copies of one lane happen in the order they were begun.
 * MEMORY or SYSTEM with words: the lane is only good for closing, which waits for what is under way.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_read(struct pccl_device_lane *lane, uint32_t buffer, const void *from,
                                                  size_t bytes, struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_device_write(struct pccl_device_lane *lane, uint32_t buffer, void *to,
                                                   size_t bytes, struct pccl_text *reason);
/* Waits until what was begun for this buffer is done, if anything. MEMORY or SYSTEM with words: as above. */
PCCL_MUST_CHECK enum pccl_status pccl_device_wait(struct pccl_device_lane *lane, uint32_t buffer,
                                                  struct pccl_text *reason);

#endif
