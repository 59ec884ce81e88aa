#include "state/serve.h"

/* Returns a description of the error; NULL if the request fits this state. */
static const char *find_fault(const struct pccl_state *state, const struct pccl_msg_state_want *want)
{
    if (want->tensor >= state->tensor_count)
        return "it requested a tensor that this state does not have";
    if (want->count == 0 || want->count > PCCL_STATE_DIGESTS_MAX)
        return "it requested an invalid number of proofs";
    switch (want->what) {
    case PCCL_WANT_ROOTS:
        return want->first == 0 ? NULL : "it requested the roots of tensors with the number of a chunk";
    case PCCL_WANT_CHUNKS: break;
    case PCCL_WANT_DATA:
        if (want->count != 1)
            return "it requested several chunks at once";
        break;
    default: return "it sent an unknown request";
    }
    return want->first < state->tensors[want->tensor].chunks ? NULL
                                                             : "it requested a chunk that the tensor does not have";
}

static void answer_proofs(const struct pccl_state *state, const struct pccl_msg_state_want *want,
                          struct pccl_proof *roots, struct pccl_msg *answer)
{
    struct pccl_msg_state_proofs *proofs = &answer->as.state_proofs;
    *answer = (struct pccl_msg){.type = PCCL_MSG_state_proofs};
    *proofs = (struct pccl_msg_state_proofs){
        .round = want->round, .what = want->what, .tensor = want->tensor, .first = want->first};
    if (want->what == PCCL_WANT_ROOTS) {
        proofs->proofs = roots;
        proofs->proofs_count = (uint32_t)pccl_min_u64(want->count, state->tensor_count - want->tensor);
        for (uint32_t i = 0; i < proofs->proofs_count; i++)
            roots[i] = state->tensors[want->tensor + i].proof;
    } else {
        const struct pccl_tensor *tensor = &state->tensors[want->tensor];
        proofs->proofs = state->proofs + tensor->first_chunk + want->first;
        proofs->proofs_count = (uint32_t)pccl_min_u64(want->count, tensor->chunks - want->first);
    }
}

enum pccl_status pccl_serve(const struct pccl_state *state, uint64_t round, const struct pccl_msg_state_want *want,
                            struct pccl_proof *roots, struct pccl_msg *answer, struct pccl_text *reason)
{
    if (want->round != round)
        return pccl_fail(reason, PCCL_MALFORMED, "it sent a request of round %" PRIu64 ", expected round %" PRIu64,
                         want->round, round);
    const char *fault = find_fault(state, want);
    if (fault != NULL)
        return pccl_fail(reason, PCCL_MALFORMED, "%s: tensor %u, first %" PRIu64 ", count %u", fault, want->tensor,
                         want->first, want->count);
    if (want->what != PCCL_WANT_DATA) {
        answer_proofs(state, want, roots, answer);
        return PCCL_OK;
    }
    *answer = (struct pccl_msg){.type = PCCL_MSG_state_data};
    answer->as.state_data = (struct pccl_msg_state_data){
        .round = round,
        .tensor = want->tensor,
        .chunk = want->first,
        .length = pccl_state_chunk_length(&state->tensors[want->tensor], want->first),
    };
    return PCCL_OK;
}
