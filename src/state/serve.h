/* The donor's side of a transfer: answers a state_want. Pure. */
#ifndef PCCL_STATE_SERVE_H
#define PCCL_STATE_SERVE_H

#include "state/state.h"

/*
 * Answers a request. Returns OK with *answer: state_proofs (its list a view into the state or into `roots`, an array of
 * PCCL_STATE_DIGESTS_MAX that the caller lends) or state_data, whose bytes are the named chunk and follow the frame.
 * Returns MALFORMED with a reason if it is of another round or does not fit this state; the connection is then
 * unusable.
 */
PCCL_MUST_CHECK enum pccl_status pccl_serve(const struct pccl_state *state, uint64_t round,
                                            const struct pccl_msg_state_want *want, struct pccl_proof *roots,
                                            struct pccl_msg *answer, struct pccl_text *reason);

#endif
