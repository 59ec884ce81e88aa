/* The state of diagnosis: peers that stay out. Part of state.h. */
#ifndef PCCL_MASTER_DIAGNOSIS_STATE_H
#define PCCL_MASTER_DIAGNOSIS_STATE_H

#include "core/address.h"
#include "core/limits.h"
#include "core/text.h"

/* A peer that was expelled for being slow, by what will show that it is back (diagnosis_slow_peers.c). */
struct pccl_cooling {
    struct pccl_address address; /* from which the master saw it come ... */
    struct pccl_address host;    /* ... and by its own account */
    char name[PCCL_NAME_MAX + 1];
    uint32_t name_length; /* of it as far as it counts */
    uint32_t pass;
    uint32_t doublings;
    uint64_t until_us;     /* it stays out */
    uint64_t forgotten_us; /* it was good for so long that it counts as any other */
    struct pccl_text why;
};

#endif
