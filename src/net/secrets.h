/* Memory for secrets. It is excluded from core dumps if the system supports that, and overwritten when released. */
#ifndef PCCL_NET_SECRETS_H
#define PCCL_NET_SECRETS_H

#include "core/memory.h"

/* Returns the memory interface, like pccl_heap. Each block occupies whole pages. */
const struct pccl_memory *pccl_secrets(void);

#endif
