/* Features of the processor. */
#ifndef PCCL_OS_CPU_H
#define PCCL_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns the set of enum pccl_cpu_feature supported by the processor, the operating system and this build. Any thread.
 */
uint32_t pccl_cpu_features(void);
/* Returns true if AES-GCM is faster than ChaCha20-Poly1305. Any thread. */
bool pccl_cpu_has_aes(void);

#endif
