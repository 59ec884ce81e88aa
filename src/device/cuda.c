/* Opens CUDA as a device, and checks that memory belongs to it. Copying is in copier.c. */
#include "device/internal.h"

#include <stdlib.h>

/* ---- opening ---- */

static enum pccl_status initialize(const struct pccl_cuda_driver *cuda, struct pccl_text *reason)
{
    int count = 0;
    enum pccl_status status = pccl_cuda_outcome(cuda, PCCL_CUDA_init, cuda->init(0), reason);
    if (status == PCCL_OK)
        status = pccl_cuda_outcome(cuda, PCCL_CUDA_device_get_count, cuda->device_get_count(&count), reason);
    if (status != PCCL_OK)
        return PCCL_UNSUPPORTED; /* no device; a broken driver may fail here, too */
    if (count > 0)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_UNSUPPORTED, "the CUDA driver found no device");
}

enum pccl_status pccl_device_over(const struct pccl_cuda_driver *driver, struct pccl_device **device,
                                  struct pccl_text *reason)
{
    enum pccl_status status = initialize(driver, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_device *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory");
    opened->cuda = driver;
    *device = opened;
    return PCCL_OK;
}

void pccl_device_close(struct pccl_device *device) { free(device); }

/* The system's driver, loaded once per process, and the result of loading it. */
static uv_once_t once = UV_ONCE_INIT;
static struct {
    uv_lib_t library;
    struct pccl_cuda_driver driver;
    struct pccl_device device;
    enum pccl_status status;
    struct pccl_text reason; /* reason if the status is not OK */
    uv_pid_t process;        /* process that has loaded the driver */
} loaded;

static void load(void)
{
    loaded.process = uv_os_getpid();
    loaded.status = pccl_cuda_load(&loaded.library, &loaded.driver, &loaded.reason);
    if (loaded.status == PCCL_OK)
        loaded.status = initialize(&loaded.driver, &loaded.reason);
    loaded.device.cuda = &loaded.driver;
}

enum pccl_status pccl_device_cuda(struct pccl_device **device, struct pccl_text *reason)
{
    uv_once(&once, load);
    if (loaded.status != PCCL_OK) {
        *reason = loaded.reason;
        return loaded.status;
    }
    /* CUDA does not survive a fork: calls in the child fail or have undefined effects. */
    if (loaded.process != uv_os_getpid())
        return pccl_fail(reason, PCCL_UNSUPPORTED,
                         "CUDA cannot be used in a process forked after its parent used CUDA");
    *device = &loaded.device;
    return PCCL_OK;
}

/* ---- pointers ---- */

static enum pccl_status attribute(const struct pccl_cuda_driver *cuda, int number, const void *pointer, void *value,
                                  struct pccl_text *reason)
{
    int result = cuda->pointer_get_attribute(value, number, (uintptr_t)pointer);
    return pccl_cuda_outcome(cuda, PCCL_CUDA_pointer_get_attribute, result, reason);
}

static enum pccl_status not_of_a_device(struct pccl_text *reason, const char *but)
{
    return pccl_fail(reason, PCCL_ARGUMENT, "not a pointer to CUDA device memory: %s", but);
}

/*
 * Accepts device memory, and managed memory, which moves between the host and devices and may be reported as either
 * kind.
 */
static enum pccl_status check_kind(const struct pccl_cuda_driver *cuda, const void *pointer, struct pccl_text *reason)
{
    unsigned type = 0;
    uint64_t managed = 0; /* wide enough for whatever integer the driver writes as a boolean */
    int result = cuda->pointer_get_attribute(&type, PCCL_CUDA_MEMORY_TYPE, (uintptr_t)pointer);
    if (result == PCCL_CUDA_INVALID_VALUE)
        return not_of_a_device(reason, "unknown to the CUDA driver");
    enum pccl_status status = pccl_cuda_outcome(cuda, PCCL_CUDA_pointer_get_attribute, result, reason);
    if (status != PCCL_OK || type == PCCL_CUDA_MEMORY_DEVICE)
        return status;
    status = attribute(cuda, PCCL_CUDA_IS_MANAGED, pointer, &managed, reason);
    if (status != PCCL_OK || managed != 0)
        return status;
    return not_of_a_device(reason, type == PCCL_CUDA_MEMORY_HOST ? "page-locked host memory"
                                                                 : "an array or another kind of memory");
}

enum pccl_status pccl_device_locate(const struct pccl_cuda_driver *cuda, const void *pointer, int *ordinal,
                                    struct pccl_text *reason)
{
    enum pccl_status status = check_kind(cuda, pointer, reason);
    if (status == PCCL_OK)
        status = attribute(cuda, PCCL_CUDA_DEVICE_ORDINAL, pointer, ordinal, reason);
    return status;
}

enum pccl_status pccl_device_check(struct pccl_device *device, const void *pointer, uint64_t bytes,
                                   struct pccl_text *reason)
{
    uint64_t start = 0, address = (uintptr_t)pointer;
    size_t size = 0;
    if (bytes == 0)
        return PCCL_OK;
    enum pccl_status status = check_kind(device->cuda, pointer, reason);
    if (status == PCCL_OK)
        status = attribute(device->cuda, PCCL_CUDA_RANGE_START, pointer, &start, reason);
    if (status == PCCL_OK)
        status = attribute(device->cuda, PCCL_CUDA_RANGE_SIZE, pointer, &size, reason);
    if (status != PCCL_OK)
        return status;
    /* An inconsistent answer from the driver is treated as out of range. */
    uint64_t before = address >= start ? address - start : UINT64_MAX;
    uint64_t behind = before <= size ? size - before : 0;
    if (bytes <= behind)
        return PCCL_OK;
    pccl_text_format(
        reason, "the CUDA allocation is too small: %" PRIu64 " bytes needed, %" PRIu64 " available from the pointer",
        bytes, behind);
    return PCCL_ARGUMENT;
}
