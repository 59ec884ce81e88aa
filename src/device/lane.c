/* Lanes: one thread's stream and page-locked buffers, through which it copies from and to a device. */
#include "device/internal.h"

struct pccl_device_lane {
    const struct pccl_cuda_driver *cuda;
    struct pccl_memory memory;
    int ordinal, device;
    struct pccl_cuda_context *context; /* the device's primary one, retained; NULL: not yet */
    struct pccl_cuda_stream *stream;
    void *buffers; /* all of them, page-locked */
    struct {
        struct pccl_cuda_event *done;
        bool busy; /* recorded, not yet waited for */
    } copies[PCCL_DEVICE_BUFFERS];
};

/*
 * ---- our context is current only inside our functions, so that the caller's is undisturbed ----
 */

static enum pccl_status enter(const struct pccl_device_lane *lane, struct pccl_text *reason)
{
    return pccl_cuda_outcome(lane->cuda, PCCL_CUDA_ctx_push, lane->cuda->ctx_push(lane->context), reason);
}

/* A failure inside is reported rather than one on leaving. */
static enum pccl_status leave(const struct pccl_device_lane *lane, enum pccl_status status, struct pccl_text *reason)
{
    struct pccl_cuda_context *left = NULL;
    int result = lane->cuda->ctx_pop(&left);
    if (status != PCCL_OK)
        return status;
    return pccl_cuda_outcome(lane->cuda, PCCL_CUDA_ctx_pop, result, reason);
}

/* ---- opening and closing ---- */

/* Our context is current. */
static enum pccl_status allocate(struct pccl_device_lane *lane, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = lane->cuda;
    /*
     * Our stream does not wait for others, and work in the caller's streams may still write the
     * tensors.
     */
    enum pccl_status status = pccl_cuda_outcome(cuda, PCCL_CUDA_ctx_synchronize, cuda->ctx_synchronize(), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(
            cuda, PCCL_CUDA_mem_host_alloc,
            cuda->mem_host_alloc(&lane->buffers, (size_t)PCCL_DEVICE_BUFFERS * PCCL_STATE_CHUNK_BYTES, 0), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_stream_create,
                                   cuda->stream_create(&lane->stream, PCCL_CUDA_STREAM_NON_BLOCKING), reason);
    for (uint32_t i = 0; i < PCCL_DEVICE_BUFFERS && status == PCCL_OK; i++)
        /* Waiting must not spin, as other threads have digests to compute. */
        status = pccl_cuda_outcome(
            cuda, PCCL_CUDA_event_create,
            cuda->event_create(&lane->copies[i].done, PCCL_CUDA_EVENT_BLOCKING_SYNC | PCCL_CUDA_EVENT_DISABLE_TIMING),
            reason);
    return status;
}

static enum pccl_status retain(struct pccl_device_lane *lane, int ordinal, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = lane->cuda;
    enum pccl_status status =
        pccl_cuda_outcome(cuda, PCCL_CUDA_device_get, cuda->device_get(&lane->device, ordinal), reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_cuda_context *context = NULL;
    status = pccl_cuda_outcome(cuda, PCCL_CUDA_primary_retain, cuda->primary_retain(&context, lane->device), reason);
    if (status == PCCL_OK)
        lane->context = context;
    return status;
}

enum pccl_status pccl_device_lane_open(struct pccl_device *device, const void *pointer,
                                       const struct pccl_memory *memory, struct pccl_device_lane **lane,
                                       struct pccl_text *reason)
{
    int ordinal = 0;
    enum pccl_status status = pccl_device_locate(device->cuda, pointer, &ordinal, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_device_lane *opened = pccl_allocate(memory, sizeof *opened);
    if (opened == NULL) {
        pccl_text_format(reason, "out of memory");
        return PCCL_MEMORY;
    }
    opened->cuda = device->cuda;
    opened->ordinal = ordinal;
    opened->memory = *memory;
    status = retain(opened, ordinal, reason);
    if (status == PCCL_OK)
        status = enter(opened, reason);
    if (status == PCCL_OK)
        status = leave(opened, allocate(opened, reason), reason);
    if (status == PCCL_OK)
        *lane = opened;
    else
        pccl_device_lane_close(opened);
    return status;
}

bool pccl_device_lane_fits(const struct pccl_device_lane *lane, const void *pointer)
{
    struct pccl_text reason;
    int ordinal = 0;
    return pccl_device_locate(lane->cuda, pointer, &ordinal, &reason) == PCCL_OK && ordinal == lane->ordinal;
}

/*
 * Our context is current. Results are ignored: nothing else can release these.
 */
static void clear(struct pccl_device_lane *lane)
{
    const struct pccl_cuda_driver *cuda = lane->cuda;
    if (lane->stream != NULL)
        (void)cuda->stream_synchronize(lane->stream); /* copies may still use the buffers */
    for (uint32_t i = 0; i < PCCL_DEVICE_BUFFERS; i++)
        if (lane->copies[i].done != NULL)
            (void)cuda->event_destroy(lane->copies[i].done);
    if (lane->stream != NULL)
        (void)cuda->stream_destroy(lane->stream);
    if (lane->buffers != NULL)
        (void)cuda->mem_free_host(lane->buffers);
}

void pccl_device_lane_close(struct pccl_device_lane *lane)
{
    struct pccl_cuda_context *left = NULL;
    struct pccl_memory memory = lane->memory;
    if (lane->context != NULL) {
        /*
         * If the context cannot be made current, it was destroyed or the driver is shutting down:
         * nothing is left to release.
         */
        if (lane->cuda->ctx_push(lane->context) == PCCL_CUDA_SUCCESS) {
            clear(lane);
            (void)lane->cuda->ctx_pop(&left);
        }
        (void)lane->cuda->primary_release(lane->device);
    }
    pccl_release(&memory, lane, sizeof *lane);
}

/* ---- copies ---- */

uint8_t *pccl_device_lane_buffer(struct pccl_device_lane *lane, uint32_t buffer)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS);
    return (uint8_t *)lane->buffers + (size_t)buffer * PCCL_STATE_CHUNK_BYTES;
}

enum direction { TO_HOST, TO_DEVICE };

static enum pccl_status copy(struct pccl_device_lane *lane, uint32_t buffer, enum direction direction, uint64_t address,
                             size_t bytes, struct pccl_text *reason)
{
    const struct pccl_cuda_driver *cuda = lane->cuda;
    uint8_t *memory = pccl_device_lane_buffer(lane, buffer);
    enum pccl_status status;
    if (direction == TO_HOST)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_copy_to_host,
                                   cuda->copy_to_host(memory, address, bytes, lane->stream), reason);
    else
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_copy_to_device,
                                   cuda->copy_to_device(address, memory, bytes, lane->stream), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_event_record,
                                   cuda->event_record(lane->copies[buffer].done, lane->stream), reason);
    lane->copies[buffer].busy = status == PCCL_OK;
    return status;
}

static enum pccl_status begin(struct pccl_device_lane *lane, uint32_t buffer, enum direction direction,
                              uint64_t address, size_t bytes, struct pccl_text *reason)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS && !lane->copies[buffer].busy && bytes <= PCCL_STATE_CHUNK_BYTES);
    if (bytes == 0)
        return PCCL_OK;
    enum pccl_status status = enter(lane, reason);
    if (status == PCCL_OK)
        status = leave(lane, copy(lane, buffer, direction, address, bytes, reason), reason);
    return status;
}

enum pccl_status pccl_device_read(struct pccl_device_lane *lane, uint32_t buffer, const void *from, size_t bytes,
                                  struct pccl_text *reason)
{
    return begin(lane, buffer, TO_HOST, (uintptr_t)from, bytes, reason);
}

enum pccl_status pccl_device_write(struct pccl_device_lane *lane, uint32_t buffer, void *to, size_t bytes,
                                   struct pccl_text *reason)
{
    return begin(lane, buffer, TO_DEVICE, (uintptr_t)to, bytes, reason);
}

enum pccl_status pccl_device_wait(struct pccl_device_lane *lane, uint32_t buffer, struct pccl_text *reason)
{
    PCCL_ASSERT(buffer < PCCL_DEVICE_BUFFERS);
    if (!lane->copies[buffer].busy)
        return PCCL_OK;
    enum pccl_status status = enter(lane, reason);
    if (status != PCCL_OK)
        return status;
    int result = lane->cuda->event_synchronize(lane->copies[buffer].done);
    status = leave(lane, pccl_cuda_outcome(lane->cuda, PCCL_CUDA_event_synchronize, result, reason), reason);
    lane->copies[buffer].busy = false;
    return status;
}
