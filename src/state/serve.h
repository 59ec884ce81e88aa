/* The donor's side of a transfer: answers a state_want. Pure. */
#ifndef PCCL_STATE_SERVE_H
#define PCCL_STATE_SERVE_H

#include "state/state.h"

/*
 * Answers a request. Returns OK and sets *answer to state_proofs or state_data. The list of proofs points into the
 * state or into `roots`, an array of PCCL_STATE_DIGESTS_MAX that the caller provides. The bytes of the named chunk
 * follow the frame of state_data. Returns MALFORMED with a reason if the request belongs to another round or does not
 * fit this state; the connection is then unusable.
 */
PCCL_MUST_CHECK enum pccl_status pccl_serve(const struct pccl_state *state, uint64_t round,
                                            const struct pccl_msg_state_want *want, struct pccl_proof *roots,
                                            struct pccl_msg *answer, struct pccl_text *reason);

#endif
