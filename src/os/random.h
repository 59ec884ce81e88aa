/* Unpredictable numbers for identities and secrets. Any thread. */
#ifndef PCCL_OS_RANDOM_H
#define PCCL_OS_RANDOM_H

#include "core/id.h"

/* false: the system provides no entropy. */
PCCL_MUST_CHECK bool pccl_random_bytes(void *bytes, size_t count);
PCCL_MUST_CHECK bool pccl_random_id(struct pccl_id *id); /* not zero */
PCCL_MUST_CHECK bool pccl_random_u64(uint64_t *number);  /* not zero */

#endif
