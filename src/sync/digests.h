/*
 * Computes the digests or the proofs of all chunks of a state, on the calling thread and, for large states, on more
 * threads.
 */
#ifndef PCCL_SYNC_DIGESTS_H
#define PCCL_SYNC_DIGESTS_H

#include "sync/synchronizer.h"

#include <stdatomic.h>

enum { PCCL_SYNC_THREADS_MAX = 64 };

/*
 * Fills in state->chunks; the state must not be sealed yet. `tensors`: the tensors of the state. With `threads` 0, uses
 * one for each processor, up to a limit. Returns MEMORY or SYSTEM with a reason if a device failed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_digest(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                  uint32_t threads, struct pccl_text *reason);
/*
 * Does the same for state->proofs. Ends soon when another thread, which waits for this call, sets *leave. Returns
 * ABORTED if some proofs were not computed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_prove(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                 uint32_t threads, const atomic_bool *leave, struct pccl_text *reason);

#endif
