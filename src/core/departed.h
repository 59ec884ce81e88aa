#ifndef PCCL_CORE_DEPARTED_H
#define PCCL_CORE_DEPARTED_H

#include "core/id.h"
#include "core/limits.h"

/* Peers that left a group between two epochs, in order: their number, and the first ones. */
struct pccl_departed {
    uint32_t count;
    struct pccl_id ids[PCCL_DEPARTED_LISTED_MAX];
};

#endif
