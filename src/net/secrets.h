/* Memory for secrets: excluded from core dumps if the system supports that, and overwritten when it is released. */
#ifndef PCCL_NET_SECRETS_H
#define PCCL_NET_SECRETS_H

#include "core/memory.h"

/* Returns the memory interface, as pccl_heap does. Each block occupies whole pages. */
const struct pccl_memory *pccl_secrets(void);

#endif
