/* Copiers: a stream and page-locked buffers through which one thread copies from and to a device. */
#include "device/internal.h"

struct pccl_device_copier {
    const struct pccl_cuda_driver *cuda;
    struct pccl_memory memory;
    int ordinal, device;
    struct pccl_cuda_context *context; /* primary context of the device; NULL until it is retained */
    struct pccl_cuda_stream *stream;
    void *buffers; /* page-locked memory of all buffers */
    struct {
        struct pccl_cuda_event *done;
        bool busy; /* the event was recorded and has not been waited for yet */
    } copies[PCCL_DEVICE_BUFFERS];
};

/* ---- the context is current only inside these functions, so that the caller's context is unaffected ---- */

static enum pccl_status enter(const struct pccl_device_copier *copier, struct pccl_text *reason)
{
    return pccl_cuda_outcome(copier->cuda, PCCL_CUDA_ctx_push, copier->cuda->ctx_push(copier->context), reason);
}

/* Makes the caller's context current again. A failure in `status` takes precedence over a failure of this function. */
static enum pccl_status leave(const struct pccl_device_copier *copier, enum pccl_status status,
                              struct pccl_text *reason)
{
    struct pccl_cuda_context *left = NULL;
    int result = copier->cuda->ctx_pop(&left);
    if (status != PCCL_OK)
        return status;
    return pccl_cuda_outcome(copier->cuda, PCCL_CUDA_ctx_pop, result, reason);
}

/* ---- opening and closing ---- */

/* Allocates the stream and the buffers. The context must be current. */
static enum pccl_status allocate(struct pccl_device_copier *copier, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = copier->cuda;
    /*
     * The new stream does not wait for other streams, in which the caller's work may still be writing to the tensors.
     */
    enum pccl_status status = pccl_cuda_outcome(cuda, PCCL_CUDA_ctx_synchronize, cuda->ctx_synchronize(), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(
            cuda, PCCL_CUDA_mem_host_alloc,
            cuda->mem_host_alloc(&copier->buffers, (size_t)PCCL_DEVICE_BUFFERS * PCCL_STATE_CHUNK_BYTES, 0), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_stream_create,
                                   cuda->stream_create(&copier->stream, PCCL_CUDA_STREAM_NON_BLOCKING), reason);
    for (uint32_t i = 0; i < PCCL_DEVICE_BUFFERS && status == PCCL_OK; i++)
        /* Waiting must not spin, because other threads compute digests. */
        status = pccl_cuda_outcome(
            cuda, PCCL_CUDA_event_create,
            cuda->event_create(&copier->copies[i].done, PCCL_CUDA_EVENT_BLOCKING_SYNC | PCCL_CUDA_EVENT_DISABLE_TIMING),
            reason);
    return status;
}

static enum pccl_status retain(struct pccl_device_copier *copier, int ordinal, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = copier->cuda;
    enum pccl_status status =
        pccl_cuda_outcome(cuda, PCCL_CUDA_device_get, cuda->device_get(&copier->device, ordinal), reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_cuda_context *context = NULL;
    status = pccl_cuda_outcome(cuda, PCCL_CUDA_primary_retain, cuda->primary_retain(&context, copier->device), reason);
    if (status == PCCL_OK)
        copier->context = context;
    return status;
}

enum pccl_status pccl_device_copier_open(struct pccl_device *device, const void *pointer,
                                         const struct pccl_memory *memory, struct pccl_device_copier **copier,
                                         struct pccl_text *reason)
{
    int ordinal = 0;
    enum pccl_status status = pccl_device_locate(device->cuda, pointer, &ordinal, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_device_copier *opened = pccl_allocate(memory, sizeof *opened);
    if (opened == NULL)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory");
    opened->cuda = device->cuda;
    opened->ordinal = ordinal;
    opened->memory = *memory;
    status = retain(opened, ordinal, reason);
    if (status == PCCL_OK)
        status = enter(opened, reason);
    if (status == PCCL_OK)
        status = leave(opened, allocate(opened, reason), reason);
    if (status == PCCL_OK)
        *copier = opened;
    else
        pccl_device_copier_close(opened);
    return status;
}

bool pccl_device_copier_fits(const struct pccl_device_copier *copier, const void *pointer)
{
    struct pccl_text reason;
    int ordinal = 0;
    return pccl_device_locate(copier->cuda, pointer, &ordinal, &reason) == PCCL_OK && ordinal == copier->ordinal;
}

/* Releases everything. The context must be current. Ignores errors, because nothing else can be done about them. */
static void clear(struct pccl_device_copier *copier)
{
    const struct pccl_cuda_driver *cuda = copier->cuda;
    if (copier->stream != NULL)
        (void)cuda->stream_synchronize(copier->stream); /* copies may still use the buffers */
    for (uint32_t i = 0; i < PCCL_DEVICE_BUFFERS; i++)
        if (copier->copies[i].done != NULL)
            (void)cuda->event_destroy(copier->copies[i].done);
    if (copier->stream != NULL)
        (void)cuda->stream_destroy(copier->stream);
    if (copier->buffers != NULL)
        (void)cuda->mem_free_host(copier->buffers);
}

void pccl_device_copier_close(struct pccl_device_copier *copier)
{
    struct pccl_cuda_context *left = NULL;
    struct pccl_memory memory = copier->memory;
    if (copier->context != NULL) {
        /*
         * If the context cannot be made current, it was destroyed or the driver is shutting down, so there is nothing
         * to release.
         */
        if (copier->cuda->ctx_push(copier->context) == PCCL_CUDA_SUCCESS) {
            clear(copier);
            (void)copier->cuda->ctx_pop(&left);
        }
        (void)copier->cuda->primary_release(copier->device);
    }
    pccl_release(&memory, copier, sizeof *copier);
}

/* ---- copies ---- */

uint8_t *pccl_device_copier_buffer(struct pccl_device_copier *copier, uint32_t buffer)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS);
    return (uint8_t *)copier->buffers + (size_t)buffer * PCCL_STATE_CHUNK_BYTES;
}

enum direction { TO_HOST, TO_DEVICE };

static enum pccl_status copy(struct pccl_device_copier *copier, uint32_t buffer, enum direction direction,
                             uint64_t address, size_t bytes, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = copier->cuda;
    uint8_t *memory = pccl_device_copier_buffer(copier, buffer);
    enum pccl_status status;
    if (direction == TO_HOST)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_copy_to_host,
                                   cuda->copy_to_host(memory, address, bytes, copier->stream), reason);
    else
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_copy_to_device,
                                   cuda->copy_to_device(address, memory, bytes, copier->stream), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_event_record,
                                   cuda->event_record(copier->copies[buffer].done, copier->stream), reason);
    copier->copies[buffer].busy = status == PCCL_OK;
    return status;
}

static enum pccl_status begin(struct pccl_device_copier *copier, uint32_t buffer, enum direction direction,
                              uint64_t address, size_t bytes, struct pccl_text *reason)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS && !copier->copies[buffer].busy && bytes <= PCCL_STATE_CHUNK_BYTES);
    if (bytes == 0)
        return PCCL_OK;
    enum pccl_status status = enter(copier, reason);
    if (status == PCCL_OK)
        status = leave(copier, copy(copier, buffer, direction, address, bytes, reason), reason);
    return status;
}

enum pccl_status pccl_device_read(struct pccl_device_copier *copier, uint32_t buffer, const void *from, size_t bytes,
                                  struct pccl_text *reason)
{
    return begin(copier, buffer, TO_HOST, (uintptr_t)from, bytes, reason);
}

enum pccl_status pccl_device_write(struct pccl_device_copier *copier, uint32_t buffer, void *to, size_t bytes,
                                   struct pccl_text *reason)
{
    return begin(copier, buffer, TO_DEVICE, (uintptr_t)to, bytes, reason);
}

enum pccl_status pccl_device_wait(struct pccl_device_copier *copier, uint32_t buffer, struct pccl_text *reason)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS);
    if (!copier->copies[buffer].busy)
        return PCCL_OK;
    enum pccl_status status = enter(copier, reason);
    if (status != PCCL_OK)
        return status;
    int result = copier->cuda->event_synchronize(copier->copies[buffer].done);
    status = leave(copier, pccl_cuda_outcome(copier->cuda, PCCL_CUDA_event_synchronize, result, reason), reason);
    copier->copies[buffer].busy = false;
    return status;
}
