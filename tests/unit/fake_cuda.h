/*
 * A CUDA driver in the memory of the host, for tests: the whole table of device/cuda_driver.h, over several devices.
 *
 * A copy is made only when a caller waits for it. Until then its destination holds FAKE_CUDA_GARBAGE, and its source
 * must stay unchanged. Wrong use (a copy without a current context, freed memory or handles, a stream of another
 * context) is noted; fake_cuda_end returns the text of the first one, or names what was left over.
 *
 * Any call can be made to fail. Calls that give something back (pop, release, destroy, free) do it even when they fail:
 * CUDA's may return the error of an earlier call. A wait that fails breaks its stream: the copies of that stream are
 * never made.
 */
#ifndef PCCL_TESTS_UNIT_FAKE_CUDA_H
#define PCCL_TESTS_UNIT_FAKE_CUDA_H

#include "device/cuda_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_CUDA_DEVICES_MAX = 8, FAKE_CUDA_DEPTH_MAX = 16, FAKE_CUDA_GARBAGE = 0xdb };
/* values of CUresult, in addition to those in cuda_driver.h */
enum {
    FAKE_CUDA_NOT_INITIALIZED = 3,
    FAKE_CUDA_NO_DEVICE = 100,
    FAKE_CUDA_INVALID_DEVICE = 101,
    FAKE_CUDA_INVALID_CONTEXT = 201,
    FAKE_CUDA_INVALID_HANDLE = 400,
    FAKE_CUDA_ILLEGAL_ADDRESS = 700,
    FAKE_CUDA_CONTEXT_IS_DESTROYED = 709,
    FAKE_CUDA_NAMELESS = 12345, /* the driver has no text for it */
};
enum fake_cuda_kind { FAKE_CUDA_HOST, FAKE_CUDA_DEVICE, FAKE_CUDA_MANAGED };

struct pccl_cuda_context {
    unsigned retained;
    bool destroyed; /* cuDevicePrimaryCtxReset */
};

/* Objects are kept until the end, so that the use of a destroyed handle is detected. */
struct fake_cuda_block {
    struct fake_cuda_block *next;
    struct pccl_cuda_context *context;
    enum fake_cuda_kind kind;
    uint8_t *start;
    size_t bytes;
    bool live;
};

struct fake_cuda_work {
    struct fake_cuda_work *next;
    uint64_t number; /* number on its stream */
    uint8_t *to;
    const uint8_t *from; /* NULL: the memory is filled with `value` */
    size_t bytes;
    uint8_t *before; /* content of `from`; NULL: it may change */
    uint8_t value;
};

struct pccl_cuda_stream {
    struct pccl_cuda_stream *next;
    struct pccl_cuda_context *context;
    struct fake_cuda_work *first, **end;
    uint64_t issued;
    bool live;
};

struct pccl_cuda_event {
    struct pccl_cuda_event *next;
    struct pccl_cuda_context *context;
    struct pccl_cuda_stream *stream; /* stream it was recorded in; NULL: never recorded */
    uint64_t number;
    bool live;
};

static struct {
    pthread_mutex_t lock;
    int devices;
    bool initialized;
    struct pccl_cuda_context contexts[FAKE_CUDA_DEVICES_MAX];
    struct pccl_cuda_stream callers[FAKE_CUDA_DEVICES_MAX]; /* a stream of the application for each device */
    struct fake_cuda_block *blocks;
    struct pccl_cuda_stream *streams;
    struct pccl_cuda_event *events;
    uint64_t calls[PCCL_CUDA_FUNCTION_COUNT];
    enum pccl_cuda_function fail_function;
    uint64_t fail_in; /* number of the call that fails; 0: none fails */
    int fail_result;
    char wrong[200];
} fake_cuda = {.lock = PTHREAD_MUTEX_INITIALIZER, .devices = 1};

static _Thread_local struct pccl_cuda_context *fake_cuda_stack[FAKE_CUDA_DEPTH_MAX];
static _Thread_local unsigned fake_cuda_depth; /* number of this thread's contexts */

/* ---- inside, with the lock ---- */

static inline int fake_cuda_wrong(int result, const char *reason)
{
    if (fake_cuda.wrong[0] == '\0')
        snprintf(fake_cuda.wrong, sizeof fake_cuda.wrong, "%s", reason);
    return result;
}

static inline void *fake_cuda_new(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (block == NULL)
        abort();
    return block;
}

/* Takes the lock. Returns the result that this call must give, if it is its turn. */
static inline int fake_cuda_enter(enum pccl_cuda_function function)
{
    pthread_mutex_lock(&fake_cuda.lock);
    fake_cuda.calls[function]++;
    if (fake_cuda.fail_in > 0 && function == fake_cuda.fail_function && --fake_cuda.fail_in == 0)
        return fake_cuda.fail_result;
    bool any_time =
        function == PCCL_CUDA_init || function == PCCL_CUDA_get_error_name || function == PCCL_CUDA_get_error_string;
    return fake_cuda.initialized || any_time ? PCCL_CUDA_SUCCESS : FAKE_CUDA_NOT_INITIALIZED;
}

static inline int fake_cuda_leave(int result)
{
    pthread_mutex_unlock(&fake_cuda.lock);
    return result;
}

static inline struct pccl_cuda_context *fake_cuda_current(void)
{
    return fake_cuda_depth > 0 ? fake_cuda_stack[fake_cuda_depth - 1] : NULL;
}

/* Number of the context's device. */
static inline int fake_cuda_ordinal(const struct pccl_cuda_context *context)
{
    return (int)(context - fake_cuda.contexts);
}

/* The live block that holds all these bytes. */
static inline struct fake_cuda_block *fake_cuda_find(const uint8_t *start, size_t bytes)
{
    for (struct fake_cuda_block *block = fake_cuda.blocks; block != NULL; block = block->next) {
        uintptr_t before = (uintptr_t)start - (uintptr_t)block->start;
        if (block->live && (uintptr_t)start >= (uintptr_t)block->start && before < block->bytes &&
            bytes <= block->bytes - before)
            return block;
    }
    return NULL;
}

static inline bool fake_cuda_is_stream(const struct pccl_cuda_stream *stream)
{
    const struct pccl_cuda_stream *known = fake_cuda.streams;
    while (known != NULL && known != stream)
        known = known->next;
    return known != NULL && known->live;
}

static inline bool fake_cuda_is_event(const struct pccl_cuda_event *event)
{
    const struct pccl_cuda_event *known = fake_cuda.events;
    while (known != NULL && known != event)
        known = known->next;
    return known != NULL && known->live;
}

static inline void fake_cuda_perform(const struct fake_cuda_work *work)
{
    if (fake_cuda_find(work->to, work->bytes) == NULL ||
        (work->from != NULL && fake_cuda_find(work->from, work->bytes) == NULL)) {
        (void)fake_cuda_wrong(0, "memory was freed while a copy was under way");
        return;
    }
    if (work->from != NULL && work->before != NULL && memcmp(work->from, work->before, work->bytes) != 0)
        (void)fake_cuda_wrong(0, "memory changed while it was being copied");
    if (work->from != NULL)
        memcpy(work->to, work->from, work->bytes);
    else
        memset(work->to, work->value, work->bytes);
}

/* Ends the stream's work up to this number. */
static inline void fake_cuda_finish(struct pccl_cuda_stream *stream, uint64_t number, bool performed)
{
    while (stream->first != NULL && stream->first->number <= number) {
        struct fake_cuda_work *work = stream->first;
        stream->first = work->next;
        if (performed)
            fake_cuda_perform(work);
        free(work->before);
        free(work);
    }
    if (stream->first == NULL)
        stream->end = &stream->first;
}

static inline void fake_cuda_issue(struct pccl_cuda_stream *stream, const struct fake_cuda_work *what)
{
    struct fake_cuda_work *work = fake_cuda_new(sizeof *work);
    *work = *what;
    work->next = NULL;
    work->number = ++stream->issued;
    if (stream->first == NULL)
        stream->end = &stream->first;
    *stream->end = work;
    stream->end = &work->next;
}

static inline void *fake_cuda_allocate(struct pccl_cuda_context *context, enum fake_cuda_kind kind, size_t bytes)
{
    struct fake_cuda_block *block = fake_cuda_new(sizeof *block);
    *block = (struct fake_cuda_block){.next = fake_cuda.blocks, .context = context, .kind = kind, .bytes = bytes};
    block->start = fake_cuda_new(bytes);
    block->live = true;
    fake_cuda.blocks = block;
    return block->start;
}

static inline bool fake_cuda_discard(void *memory, bool of_host)
{
    struct fake_cuda_block *block = fake_cuda_find(memory, 1);
    if (block == NULL || block->start != memory || (block->kind == FAKE_CUDA_HOST) != of_host)
        return false;
    block->live = false;
    free(block->start);
    return true;
}

/* ---- the table ---- */

static inline int fake_cuda_init(unsigned flags)
{
    int result = fake_cuda_enter(PCCL_CUDA_init);
    if (result == PCCL_CUDA_SUCCESS && flags != 0)
        result = PCCL_CUDA_INVALID_VALUE;
    if (result == PCCL_CUDA_SUCCESS && fake_cuda.devices < 0)
        result = FAKE_CUDA_NO_DEVICE;
    fake_cuda.initialized |= result == PCCL_CUDA_SUCCESS;
    return fake_cuda_leave(result);
}

static inline const char *fake_cuda_error_name(int result)
{
    switch (result) {
    case PCCL_CUDA_SUCCESS: return "CUDA_SUCCESS";
    case PCCL_CUDA_INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case PCCL_CUDA_OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case FAKE_CUDA_NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case FAKE_CUDA_NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
    case FAKE_CUDA_INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
    case FAKE_CUDA_INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
    case FAKE_CUDA_INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
    case FAKE_CUDA_ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case FAKE_CUDA_CONTEXT_IS_DESTROYED: return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    default: return NULL;
    }
}

static inline int fake_cuda_get_error_name(int result, const char **name)
{
    int error = fake_cuda_enter(PCCL_CUDA_get_error_name);
    *name = fake_cuda_error_name(result);
    return fake_cuda_leave(error != PCCL_CUDA_SUCCESS || *name != NULL ? error : PCCL_CUDA_INVALID_VALUE);
}

static inline int fake_cuda_get_error_string(int result, const char **text)
{
    int error = fake_cuda_enter(PCCL_CUDA_get_error_string);
    *text = fake_cuda_error_name(result) != NULL ? "words of the driver" : NULL;
    return fake_cuda_leave(error != PCCL_CUDA_SUCCESS || *text != NULL ? error : PCCL_CUDA_INVALID_VALUE);
}

static inline int fake_cuda_device_get_count(int *count)
{
    int result = fake_cuda_enter(PCCL_CUDA_device_get_count);
    if (result == PCCL_CUDA_SUCCESS)
        *count = fake_cuda.devices;
    return fake_cuda_leave(result);
}

static inline int fake_cuda_device_get(int *device, int ordinal)
{
    int result = fake_cuda_enter(PCCL_CUDA_device_get);
    if (result == PCCL_CUDA_SUCCESS && (ordinal < 0 || ordinal >= fake_cuda.devices))
        result = FAKE_CUDA_INVALID_DEVICE;
    if (result == PCCL_CUDA_SUCCESS)
        *device = ordinal + 100; /* a device is not its ordinal */
    return fake_cuda_leave(result);
}

static inline int fake_cuda_primary_retain(struct pccl_cuda_context **context, int device)
{
    int result = fake_cuda_enter(PCCL_CUDA_primary_retain);
    if (result == PCCL_CUDA_SUCCESS && (device < 100 || device >= 100 + fake_cuda.devices))
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_DEVICE, "retained the context of no device");
    if (result == PCCL_CUDA_SUCCESS) {
        *context = &fake_cuda.contexts[device - 100];
        (*context)->retained++;
    }
    return fake_cuda_leave(result);
}

static inline int fake_cuda_primary_release(int device)
{
    int result = fake_cuda_enter(PCCL_CUDA_primary_release);
    if (device < 100 || device >= 100 + fake_cuda.devices || fake_cuda.contexts[device - 100].retained == 0)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "released a context that was not retained");
    else
        fake_cuda.contexts[device - 100].retained--;
    return fake_cuda_leave(result);
}

static inline int fake_cuda_ctx_push(struct pccl_cuda_context *context)
{
    int result = fake_cuda_enter(PCCL_CUDA_ctx_push);
    if (result == PCCL_CUDA_SUCCESS && context->retained == 0)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "pushed a context that is not retained");
    if (result == PCCL_CUDA_SUCCESS && context->destroyed)
        result = FAKE_CUDA_CONTEXT_IS_DESTROYED;
    if (result == PCCL_CUDA_SUCCESS && fake_cuda_depth == FAKE_CUDA_DEPTH_MAX)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "contexts are pushed and not popped");
    if (result == PCCL_CUDA_SUCCESS)
        fake_cuda_stack[fake_cuda_depth++] = context;
    return fake_cuda_leave(result);
}

static inline int fake_cuda_ctx_pop(struct pccl_cuda_context **context)
{
    int result = fake_cuda_enter(PCCL_CUDA_ctx_pop);
    if (fake_cuda_depth == 0)
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "popped a context that was not pushed"));
    *context = fake_cuda_stack[--fake_cuda_depth];
    return fake_cuda_leave(result);
}

static inline int fake_cuda_ctx_synchronize(void)
{
    int result = fake_cuda_enter(PCCL_CUDA_ctx_synchronize);
    struct pccl_cuda_context *context = fake_cuda_current();
    if (context == NULL)
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "waited for no context"));
    if (result != PCCL_CUDA_SUCCESS)
        return fake_cuda_leave(result);
    fake_cuda_finish(&fake_cuda.callers[fake_cuda_ordinal(context)], UINT64_MAX, true);
    for (struct pccl_cuda_stream *stream = fake_cuda.streams; stream != NULL; stream = stream->next)
        if (stream->live && stream->context == context)
            fake_cuda_finish(stream, UINT64_MAX, true);
    return fake_cuda_leave(PCCL_CUDA_SUCCESS);
}

static inline int fake_cuda_pointer_get_attribute(void *value, int attribute, uint64_t pointer)
{
    int result = fake_cuda_enter(PCCL_CUDA_pointer_get_attribute);
    const struct fake_cuda_block *block = fake_cuda_find((const uint8_t *)(uintptr_t)pointer, 1);
    if (result == PCCL_CUDA_SUCCESS && block == NULL)
        result = PCCL_CUDA_INVALID_VALUE;
    if (result != PCCL_CUDA_SUCCESS)
        return fake_cuda_leave(result);
    unsigned type = block->kind == FAKE_CUDA_DEVICE ? PCCL_CUDA_MEMORY_DEVICE : PCCL_CUDA_MEMORY_HOST;
    unsigned managed = block->kind == FAKE_CUDA_MANAGED;
    int ordinal = fake_cuda_ordinal(block->context);
    uint64_t start = (uintptr_t)block->start;
    switch (attribute) {
    case PCCL_CUDA_MEMORY_TYPE: memcpy(value, &type, sizeof type); break;
    case PCCL_CUDA_IS_MANAGED: memcpy(value, &managed, sizeof managed); break;
    case PCCL_CUDA_DEVICE_ORDINAL: memcpy(value, &ordinal, sizeof ordinal); break;
    case PCCL_CUDA_RANGE_START: memcpy(value, &start, sizeof start); break;
    case PCCL_CUDA_RANGE_SIZE: memcpy(value, &block->bytes, sizeof block->bytes); break;
    default: result = fake_cuda_wrong(PCCL_CUDA_INVALID_VALUE, "asked for an attribute that there is not");
    }
    return fake_cuda_leave(result);
}

static inline int fake_cuda_stream_create(struct pccl_cuda_stream **stream, unsigned flags)
{
    int result = fake_cuda_enter(PCCL_CUDA_stream_create);
    if (fake_cuda_current() == NULL)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "made a stream without a context");
    if (flags != PCCL_CUDA_STREAM_NON_BLOCKING)
        (void)fake_cuda_wrong(0, "the stream would wait for the default one");
    if (result == PCCL_CUDA_SUCCESS) {
        struct pccl_cuda_stream *made = fake_cuda_new(sizeof *made);
        *made = (struct pccl_cuda_stream){.next = fake_cuda.streams, .context = fake_cuda_current(), .live = true};
        *stream = fake_cuda.streams = made;
    }
    return fake_cuda_leave(result);
}

static inline int fake_cuda_stream_synchronize(struct pccl_cuda_stream *stream)
{
    int result = fake_cuda_enter(PCCL_CUDA_stream_synchronize);
    if (!fake_cuda_is_stream(stream))
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "waited for a stream that is gone"));
    if (stream->context != fake_cuda_current())
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "waited for another context's stream"));
    fake_cuda_finish(stream, UINT64_MAX, result == PCCL_CUDA_SUCCESS);
    return fake_cuda_leave(result);
}

static inline int fake_cuda_stream_destroy(struct pccl_cuda_stream *stream)
{
    int result = fake_cuda_enter(PCCL_CUDA_stream_destroy);
    if (!fake_cuda_is_stream(stream))
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "destroyed a stream that is gone"));
    if (stream->first != NULL)
        (void)fake_cuda_wrong(0, "destroyed a stream with copies under way");
    fake_cuda_finish(stream, UINT64_MAX, false);
    stream->live = false;
    return fake_cuda_leave(result);
}

static inline int fake_cuda_event_create(struct pccl_cuda_event **event, unsigned flags)
{
    int result = fake_cuda_enter(PCCL_CUDA_event_create);
    if (fake_cuda_current() == NULL)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "made an event without a context");
    if ((flags & PCCL_CUDA_EVENT_DISABLE_TIMING) == 0)
        (void)fake_cuda_wrong(0, "the event takes the time for nobody");
    if (result == PCCL_CUDA_SUCCESS) {
        struct pccl_cuda_event *made = fake_cuda_new(sizeof *made);
        *made = (struct pccl_cuda_event){.next = fake_cuda.events, .context = fake_cuda_current(), .live = true};
        *event = fake_cuda.events = made;
    }
    return fake_cuda_leave(result);
}

static inline int fake_cuda_event_record(struct pccl_cuda_event *event, struct pccl_cuda_stream *stream)
{
    int result = fake_cuda_enter(PCCL_CUDA_event_record);
    if (!fake_cuda_is_event(event) || !fake_cuda_is_stream(stream))
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "recorded what is gone"));
    if (event->context != stream->context || stream->context != fake_cuda_current())
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "recorded an event of another context"));
    if (result == PCCL_CUDA_SUCCESS) {
        event->stream = stream;
        event->number = stream->issued;
    }
    return fake_cuda_leave(result);
}

static inline int fake_cuda_event_synchronize(struct pccl_cuda_event *event)
{
    int result = fake_cuda_enter(PCCL_CUDA_event_synchronize);
    if (!fake_cuda_is_event(event))
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "waited for an event that is gone"));
    if (event->context != fake_cuda_current())
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "waited for another context's event"));
    if (result != PCCL_CUDA_SUCCESS && event->stream != NULL)
        fake_cuda_finish(event->stream, UINT64_MAX, false);
    else if (event->stream != NULL)
        fake_cuda_finish(event->stream, event->number, true);
    return fake_cuda_leave(result);
}

static inline int fake_cuda_event_destroy(struct pccl_cuda_event *event)
{
    int result = fake_cuda_enter(PCCL_CUDA_event_destroy);
    if (!fake_cuda_is_event(event))
        return fake_cuda_leave(fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "destroyed an event that is gone"));
    event->live = false;
    return fake_cuda_leave(result);
}

static inline int fake_cuda_mem_host_alloc(void **memory, size_t bytes, unsigned flags)
{
    int result = fake_cuda_enter(PCCL_CUDA_mem_host_alloc);
    (void)flags;
    if (fake_cuda_current() == NULL)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "allocated without a context");
    if (result == PCCL_CUDA_SUCCESS)
        *memory = fake_cuda_allocate(fake_cuda_current(), FAKE_CUDA_HOST, bytes);
    return fake_cuda_leave(result);
}

static inline int fake_cuda_mem_free_host(void *memory)
{
    int result = fake_cuda_enter(PCCL_CUDA_mem_free_host);
    if (fake_cuda_current() == NULL)
        result = fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "freed without a context");
    if (!fake_cuda_discard(memory, true))
        result = fake_cuda_wrong(PCCL_CUDA_INVALID_VALUE, "freed what is not there");
    return fake_cuda_leave(result);
}

static inline int fake_cuda_copy(int result, struct pccl_cuda_stream *stream, uint8_t *to, const uint8_t *from,
                                 size_t bytes, bool to_host)
{
    if (!fake_cuda_is_stream(stream))
        return fake_cuda_wrong(FAKE_CUDA_INVALID_HANDLE, "copied on a stream that is gone");
    if (stream->context != fake_cuda_current())
        return fake_cuda_wrong(FAKE_CUDA_INVALID_CONTEXT, "copied without the stream's context");
    const struct fake_cuda_block *target = fake_cuda_find(to, bytes), *source = fake_cuda_find(from, bytes);
    if (target == NULL || source == NULL)
        return fake_cuda_wrong(PCCL_CUDA_INVALID_VALUE, "copied to or from memory that is not there");
    if ((target->kind == FAKE_CUDA_HOST) != to_host || (source->kind == FAKE_CUDA_HOST) == to_host)
        return fake_cuda_wrong(PCCL_CUDA_INVALID_VALUE, "copied in the wrong direction");
    if (result != PCCL_CUDA_SUCCESS)
        return result;
    struct fake_cuda_work work = {.to = to, .from = from, .bytes = bytes};
    if (to_host) { /* device memory may be changed by work that began before */
        memset(to, FAKE_CUDA_GARBAGE, bytes);
    } else {
        work.before = fake_cuda_new(bytes);
        memcpy(work.before, from, bytes);
    }
    fake_cuda_issue(stream, &work);
    return PCCL_CUDA_SUCCESS;
}

static inline int fake_cuda_copy_to_host(void *to, uint64_t from, size_t bytes, struct pccl_cuda_stream *stream)
{
    int result = fake_cuda_enter(PCCL_CUDA_copy_to_host);
    return fake_cuda_leave(
        fake_cuda_copy(result, stream, (uint8_t *)to, (const uint8_t *)(uintptr_t)from, bytes, true));
}

static inline int fake_cuda_copy_to_device(uint64_t to, const void *from, size_t bytes, struct pccl_cuda_stream *stream)
{
    int result = fake_cuda_enter(PCCL_CUDA_copy_to_device);
    return fake_cuda_leave(
        fake_cuda_copy(result, stream, (uint8_t *)(uintptr_t)to, (const uint8_t *)from, bytes, false));
}

static const struct pccl_cuda_driver fake_cuda_driver = {
#define FAKE_CUDA_ENTRY(name, symbol, parameters) .name = fake_cuda_##name,
    PCCL_CUDA_FUNCTIONS(FAKE_CUDA_ENTRY)
#undef FAKE_CUDA_ENTRY
};

/* ---- for tests; on any thread, except begin and end ---- */

/* Starts a new driver. With `devices` -1 there is no device, and cuInit reports that. */
static inline void fake_cuda_begin(int devices)
{
    fake_cuda.devices = devices;
    fake_cuda.initialized = false;
    fake_cuda.fail_in = 0;
    fake_cuda.wrong[0] = '\0';
    memset(fake_cuda.calls, 0, sizeof fake_cuda.calls);
    memset(fake_cuda.contexts, 0, sizeof fake_cuda.contexts);
}

/* The n-th call of this function from now on fails. */
static inline void fake_cuda_fail(enum pccl_cuda_function function, uint64_t n, int result)
{
    pthread_mutex_lock(&fake_cuda.lock);
    fake_cuda.fail_function = function;
    fake_cuda.fail_in = n;
    fake_cuda.fail_result = result;
    pthread_mutex_unlock(&fake_cuda.lock);
}

/* Zeroed memory of a device, or managed memory. Its content is at that address at all times: tests may look. */
static inline void *fake_cuda_memory(int device, enum fake_cuda_kind kind, size_t bytes)
{
    pthread_mutex_lock(&fake_cuda.lock);
    void *memory = fake_cuda_allocate(&fake_cuda.contexts[device], kind, bytes);
    pthread_mutex_unlock(&fake_cuda.lock);
    return memory;
}

static inline void fake_cuda_free(void *memory)
{
    pthread_mutex_lock(&fake_cuda.lock);
    if (!fake_cuda_discard(memory, false))
        (void)fake_cuda_wrong(0, "the test freed what is not there");
    pthread_mutex_unlock(&fake_cuda.lock);
}

/* Queues this work on a stream of the application; it is done when a thread waits for the whole context. */
static inline void fake_cuda_fill_later(int device, void *memory, uint8_t value, size_t bytes)
{
    pthread_mutex_lock(&fake_cuda.lock);
    fake_cuda_issue(&fake_cuda.callers[device], &(struct fake_cuda_work){.to = memory, .value = value, .bytes = bytes});
    pthread_mutex_unlock(&fake_cuda.lock);
}

/* Does the same as cuDevicePrimaryCtxReset: all streams, events and page-locked memory of the context are destroyed. */
static inline void fake_cuda_reset(int device)
{
    struct pccl_cuda_context *context = &fake_cuda.contexts[device];
    pthread_mutex_lock(&fake_cuda.lock);
    context->destroyed = true;
    for (struct pccl_cuda_stream *stream = fake_cuda.streams; stream != NULL; stream = stream->next)
        if (stream->context == context) {
            fake_cuda_finish(stream, UINT64_MAX, false);
            stream->live = false;
        }
    for (struct pccl_cuda_event *event = fake_cuda.events; event != NULL; event = event->next)
        event->live = event->live && event->context != context;
    for (struct fake_cuda_block *block = fake_cuda.blocks; block != NULL; block = block->next)
        if (block->live && block->kind == FAKE_CUDA_HOST && block->context == context)
            (void)fake_cuda_discard(block->start, true);
    pthread_mutex_unlock(&fake_cuda.lock);
}

/* Frees everything. Returns NULL if there was no wrong use and nothing is left. */
static inline const char *fake_cuda_end(void)
{
    for (int i = 0; i < FAKE_CUDA_DEVICES_MAX; i++) {
        fake_cuda_finish(&fake_cuda.callers[i], UINT64_MAX, true);
        if (fake_cuda.contexts[i].retained > 0)
            (void)fake_cuda_wrong(0, "a context is still retained");
    }
    while (fake_cuda.streams != NULL) {
        struct pccl_cuda_stream *stream = fake_cuda.streams;
        fake_cuda.streams = stream->next;
        fake_cuda_finish(stream, UINT64_MAX, false);
        if (stream->live)
            (void)fake_cuda_wrong(0, "a stream is left");
        free(stream);
    }
    while (fake_cuda.events != NULL) {
        struct pccl_cuda_event *event = fake_cuda.events;
        fake_cuda.events = event->next;
        if (event->live)
            (void)fake_cuda_wrong(0, "an event is left");
        free(event);
    }
    while (fake_cuda.blocks != NULL) {
        struct fake_cuda_block *block = fake_cuda.blocks;
        if (block->live) {
            (void)fake_cuda_wrong(0, block->kind == FAKE_CUDA_HOST ? "page-locked memory is left"
                                                                   : "the test's memory is left");
            free(block->start);
        }
        fake_cuda.blocks = block->next;
        free(block);
    }
    if (fake_cuda_depth > 0)
        (void)fake_cuda_wrong(0, "a context is still current");
    return fake_cuda.wrong[0] != '\0' ? fake_cuda.wrong : NULL;
}

#endif
