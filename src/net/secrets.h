/* Memory for secrets: kept out of core dumps where the system can do that, and overwritten when it is released. */
#ifndef PCCL_NET_SECRETS_H
#define PCCL_NET_SECRETS_H

#include "core/memory.h"

/* As pccl_heap. Each block takes whole pages. */
const struct pccl_memory *pccl_secrets(void);

#endif
