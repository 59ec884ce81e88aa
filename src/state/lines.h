/*
 * Descriptions of tensors for a vote, so that the master can say in which tensor two shared states
 * differ, and how.
 */
#ifndef PCCL_STATE_LINES_H
#define PCCL_STATE_LINES_H

#include "state/state.h"

struct pccl_tensor_lines {
    struct pccl_tensor_line *lines; /* their names are in `names` */
    char (*names)[PCCL_TENSOR_NAME_MAX];
    uint32_t count;
};

/* Describes the first tensors of the state; none if memory is short: then messages say less. */
void pccl_tensor_lines_init(struct pccl_tensor_lines *lines, const struct pccl_state *state);
void pccl_tensor_lines_fini(struct pccl_tensor_lines *lines, const struct pccl_state *state);

#endif
