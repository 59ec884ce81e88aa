/* The table of all schedules. */
#include "collective/schedule.h"

const struct pccl_schedule *const pccl_schedules[PCCL_ALGORITHMS] = {
    [PCCL_RING] = &pccl_ring,
    [PCCL_DIRECT] = &pccl_direct,
    [PCCL_CHAIN] = &pccl_chain,
    [PCCL_SPREAD] = &pccl_spread,
    [PCCL_GATHER_RING] = &pccl_gather_ring,
    [PCCL_GATHER_DIRECT] = &pccl_gather_direct,
    [PCCL_SCATTER_RING] = &pccl_scatter_ring,
    [PCCL_SCATTER_DIRECT] = &pccl_scatter_direct,
};
