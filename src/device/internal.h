/* Declarations that the files of this module share. */
#ifndef PCCL_DEVICE_INTERNAL_H
#define PCCL_DEVICE_INTERNAL_H

#include "device/cuda_driver.h"
#include "device/device.h"

struct pccl_device {
    const struct pccl_cuda_driver *cuda;
};

/*
 * Determines the number of the device that owns this memory. Returns ARGUMENT with a reason if it is not device memory,
 * MEMORY or SYSTEM if the driver fails.
 */
PCCL_MUST_CHECK enum pccl_status pccl_device_locate(const struct pccl_cuda_driver *cuda, const void *pointer,
                                                    int *ordinal, struct pccl_text *reason);

#endif
