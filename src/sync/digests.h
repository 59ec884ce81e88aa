/* The digests or the proofs of all chunks of a state, on several threads: the calling one, and further ones where there
 * is much. */
#ifndef PCCL_SYNC_DIGESTS_H
#define PCCL_SYNC_DIGESTS_H

#include "sync/session.h"

#include <stdatomic.h>

enum { PCCL_SYNC_THREADS_MAX = 64 };

/*
 * Fills in state->chunks; the state is not sealed. tensors: those that the state was made of. threads 0: as many as
 * there are processors, within reason. MEMORY or SYSTEM with a reason: a device failed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_digest(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                  uint32_t threads, struct pccl_text *reason);
/* The same for state->proofs. *leave: the caller is waited for, it ends soon; ABORTED: some are not made. */
PCCL_MUST_CHECK enum pccl_status pccl_sync_prove(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                 uint32_t threads, const atomic_bool *leave, struct pccl_text *reason);

#endif
