/* State of diagnosis: the expelled peers in their cool-down. Part of state.h. */
#ifndef PCCL_MASTER_DIAGNOSIS_STATE_H
#define PCCL_MASTER_DIAGNOSIS_STATE_H

#include "core/address.h"
#include "core/limits.h"
#include "core/text.h"

/* An expelled slow peer, with the properties that identify it when it returns (diagnosis_slow_peers.c). */
struct pccl_cool_down {
    struct pccl_address address; /* address that the master saw */
    struct pccl_address host;    /* first address that the peer reported */
    char name[PCCL_NAME_MAX + 1];
    uint32_t name_length; /* bytes of `name` that are compared */
    uint32_t pass;
    uint32_t doublings;
    uint64_t until_us;     /* end of the cool-down */
    uint64_t forgotten_us; /* time at which this record expires */
    struct pccl_text why;
};

#endif
