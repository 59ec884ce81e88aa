/* How members of a group differ about one operation, in words: the same ones wherever it is found. */
#ifndef PCCL_WIRE_DESCRIBE_H
#define PCCL_WIRE_DESCRIBE_H

#include "wire/wire.h"

/* What one peer launched. */
struct pccl_described {
    const struct pccl_id *peer;
    const struct pccl_descriptor *descriptor;
    bool tiny;
};

/* "peer a called sum of 10 f32 through the master but peer b called avg of 10 f32 peer to peer". Replaces the text. */
void pccl_describe_difference(struct pccl_text *words, const struct pccl_described *a, const struct pccl_described *b);

#endif
