/*
 * Computes the digests or the proofs of all chunks of a state, on the calling thread and, for large states, on further
 * threads.
 */
#ifndef PCCL_SYNC_DIGESTS_H
#define PCCL_SYNC_DIGESTS_H

#include "sync/synchronizer.h"

#include <stdatomic.h>

enum { PCCL_SYNC_THREADS_MAX = 64 };

/*
 * Fills in state->chunks. Call before pccl_state_seal. `tensors` are the tensors of the state. If `threads` is 0, uses
 * one per processor, up to a limit. Returns MEMORY, or SYSTEM with a reason if a device failed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_digest(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                  uint32_t threads, struct pccl_text *reason);
/*
 * Does the same for state->proofs. Returns soon after another thread, which may wait for this call, sets *leave.
 * Returns ABORTED if some proofs were not computed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_sync_prove(struct pccl_state *state, const struct pccl_sync_tensor *tensors,
                                                 uint32_t threads, const atomic_bool *leave, struct pccl_text *reason);

#endif
