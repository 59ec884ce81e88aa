#ifndef PCCL_CORE_DEPARTED_H
#define PCCL_CORE_DEPARTED_H

#include "core/id.h"
#include "core/limits.h"

/*
 * Peers that left a group between two epochs: the total number, and the ids of the first ones, in order of departure.
 */
struct pccl_departed {
    uint32_t count;
    struct pccl_id ids[PCCL_DEPARTED_LISTED_MAX];
};

#endif
