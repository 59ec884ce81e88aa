/* Descriptions of tensors in a vote, from which the master describes the first difference between two shared states. */
#ifndef PCCL_STATE_LINES_H
#define PCCL_STATE_LINES_H

#include "state/state.h"

struct pccl_tensor_lines {
    struct pccl_tensor_line *lines; /* their names are in `names` */
    char (*names)[PCCL_TENSOR_NAME_MAX];
    uint32_t count;
};

/* Describes the first tensors of the state. If memory runs out, describes none, so that messages are less detailed. */
void pccl_tensor_lines_init(struct pccl_tensor_lines *lines, const struct pccl_state *state);
void pccl_tensor_lines_fini(struct pccl_tensor_lines *lines, const struct pccl_state *state);

#endif
