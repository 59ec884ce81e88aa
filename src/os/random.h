/* Unpredictable numbers for identities and secrets. Any thread. */
#ifndef PCCL_OS_RANDOM_H
#define PCCL_OS_RANDOM_H

#include "core/id.h"

/* Fills `bytes`. Returns false if the system provides no entropy; the functions below do the same. */
PCCL_MUST_CHECK bool pccl_random_bytes(void *bytes, size_t count);
PCCL_MUST_CHECK bool pccl_random_id(struct pccl_id *id); /* never zero */
PCCL_MUST_CHECK bool pccl_random_u64(uint64_t *number);  /* never zero */

#endif
