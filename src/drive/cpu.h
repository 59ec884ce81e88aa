/* Detects the processor features that the kernels can use. */
#ifndef PCCL_DRIVE_CPU_H
#define PCCL_DRIVE_CPU_H

#include <stdint.h>

/*
 * Returns the set of enum pccl_cpu_feature that the processor, the operating system and this build support. Any thread.
 */
uint32_t pccl_cpu_features(void);

#endif
