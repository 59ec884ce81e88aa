/*
 * Table of the CUDA driver's functions in use, filled in from libcuda at run time or by a test. CUDA is not required to
 * build: these declarations are its binary interface, which is stable under these names.
 */
#ifndef PCCL_DEVICE_CUDA_DRIVER_H
#define PCCL_DEVICE_CUDA_DRIVER_H

#include "core/status.h"
#include "core/text.h"

#include <uv.h>

struct pccl_cuda_context;
struct pccl_cuda_stream;
struct pccl_cuda_event;

/* CUresult: the values that the code distinguishes */
enum { PCCL_CUDA_SUCCESS = 0, PCCL_CUDA_INVALID_VALUE = 1, PCCL_CUDA_OUT_OF_MEMORY = 2 };
/* CUpointer_attribute */
enum {
    PCCL_CUDA_MEMORY_TYPE = 2,
    PCCL_CUDA_IS_MANAGED = 8,
    PCCL_CUDA_DEVICE_ORDINAL = 9,
    PCCL_CUDA_RANGE_START = 11,
    PCCL_CUDA_RANGE_SIZE = 12,
};
/* CUmemorytype */
enum { PCCL_CUDA_MEMORY_HOST = 1, PCCL_CUDA_MEMORY_DEVICE = 2 };
/* CUstream_flags, CUevent_flags */
enum { PCCL_CUDA_STREAM_NON_BLOCKING = 1, PCCL_CUDA_EVENT_BLOCKING_SYNC = 1, PCCL_CUDA_EVENT_DISABLE_TIMING = 2 };

/*
 * Columns: name in the table, symbol in the library, parameters. All functions return a CUresult. A device is an int,
 * an address has 64 bits.
 */
#define PCCL_CUDA_FUNCTIONS(X)                                                                                         \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(get_error_name, "cuGetErrorName", (int result, const char **name))                                               \
    X(get_error_string, "cuGetErrorString", (int result, const char **text))                                           \
    X(device_get_count, "cuDeviceGetCount", (int *count))                                                              \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                           \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (struct pccl_cuda_context * *context, int device))                   \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                   \
    X(ctx_push, "cuCtxPushCurrent_v2", (struct pccl_cuda_context * context))                                           \
    X(ctx_pop, "cuCtxPopCurrent_v2", (struct pccl_cuda_context * *context))                                            \
    X(ctx_synchronize, "cuCtxSynchronize", (void))                                                                     \
    X(pointer_get_attribute, "cuPointerGetAttribute", (void *value, int attribute, uint64_t pointer))                  \
    X(stream_create, "cuStreamCreate", (struct pccl_cuda_stream * *stream, unsigned flags))                            \
    X(stream_synchronize, "cuStreamSynchronize", (struct pccl_cuda_stream * stream))                                   \
    X(stream_destroy, "cuStreamDestroy_v2", (struct pccl_cuda_stream * stream))                                        \
    X(event_create, "cuEventCreate", (struct pccl_cuda_event * *event, unsigned flags))                                \
    X(event_record, "cuEventRecord", (struct pccl_cuda_event * event, struct pccl_cuda_stream * stream))               \
    X(event_synchronize, "cuEventSynchronize", (struct pccl_cuda_event * event))                                       \
    X(event_destroy, "cuEventDestroy_v2", (struct pccl_cuda_event * event))                                            \
    X(mem_host_alloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                 \
    X(mem_free_host, "cuMemFreeHost", (void *memory))                                                                  \
    X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void *to, uint64_t from, size_t bytes, struct pccl_cuda_stream *stream))  \
    X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                                          \
      (uint64_t to, const void *from, size_t bytes, struct pccl_cuda_stream *stream))

struct pccl_cuda_driver {
#define PCCL_CUDA_FIELD(name, symbol, parameters) int(*name) parameters;
    PCCL_CUDA_FUNCTIONS(PCCL_CUDA_FIELD)
#undef PCCL_CUDA_FIELD
};

enum pccl_cuda_function {
#define PCCL_CUDA_NUMBER(name, symbol, parameters) PCCL_CUDA_##name,
    PCCL_CUDA_FUNCTIONS(PCCL_CUDA_NUMBER)
#undef PCCL_CUDA_NUMBER
        PCCL_CUDA_FUNCTION_COUNT
};

const char *pccl_cuda_symbol(enum pccl_cuda_function function);

/*
 * Opens the system's driver library and finds all functions. If the library or a function is missing, closes the
 * library and returns UNSUPPORTED with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_cuda_load(uv_lib_t *library, struct pccl_cuda_driver *driver,
                                                struct pccl_text *reason);

/* Returns OK, or MEMORY or SYSTEM with a reason that contains the function and CUDA's error. */
PCCL_MUST_CHECK enum pccl_status pccl_cuda_outcome(const struct pccl_cuda_driver *driver,
                                                   enum pccl_cuda_function function, int result,
                                                   struct pccl_text *reason);

#endif
