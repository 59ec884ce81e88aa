/* A libcuda of tests: the driver of tests/unit/fake_cuda.h under the names that the real one exports. */
#include "fake_cuda.h"

#define EXPORTED __attribute__((visibility("default")))

#define FORWARD(name, symbol, parameters)                                                                              \
    extern int exported_##name parameters __asm__(symbol) EXPORTED __attribute__((alias("fake_cuda_" #name)));
PCCL_CUDA_FUNCTIONS(FORWARD)

/* Functions that device.c uses in addition. */
EXPORTED int cuMemAlloc_v2(uint64_t *memory, size_t bytes);
EXPORTED int cuMemAllocManaged(uint64_t *memory, size_t bytes, unsigned flags);
EXPORTED int cuMemFree_v2(uint64_t memory);
EXPORTED int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, struct pccl_cuda_stream *stream);

static int allocate(uint64_t *memory, enum fake_cuda_kind kind, size_t bytes)
{
    if (fake_cuda_current() == NULL)
        return FAKE_CUDA_INVALID_CONTEXT;
    *memory = (uintptr_t)fake_cuda_memory(fake_cuda_ordinal(fake_cuda_current()), kind, bytes);
    return PCCL_CUDA_SUCCESS;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) { return allocate(memory, FAKE_CUDA_DEVICE, bytes); }

int cuMemAllocManaged(uint64_t *memory, size_t bytes, unsigned flags)
{
    return flags == 1 ? allocate(memory, FAKE_CUDA_MANAGED, bytes) : PCCL_CUDA_INVALID_VALUE;
}

int cuMemFree_v2(uint64_t memory)
{
    fake_cuda_free((void *)(uintptr_t)memory);
    return PCCL_CUDA_SUCCESS;
}

int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, struct pccl_cuda_stream *stream)
{
    if (fake_cuda_current() == NULL || stream->context != fake_cuda_current())
        return FAKE_CUDA_INVALID_CONTEXT;
    fake_cuda_fill_later(fake_cuda_ordinal(stream->context), (void *)(uintptr_t)memory, value, bytes);
    return PCCL_CUDA_SUCCESS;
}

/* When the program ends, or the library is unloaded: wrong use is a failure. */
__attribute__((destructor)) static void end(void)
{
    const char *wrong = fake_cuda_end();
    if (wrong == NULL)
        return;
    fprintf(stderr, "driver of the test: %s\n", wrong);
    _Exit(1);
}
