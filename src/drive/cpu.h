/* What this processor can do, as far as the kernels care. */
#ifndef PCCL_DRIVE_CPU_H
#define PCCL_DRIVE_CPU_H

#include <stdint.h>

/* A set of enum pccl_cpu_feature: what processor, operating system and this build have. Any thread. */
uint32_t pccl_cpu_features(void);

#endif
