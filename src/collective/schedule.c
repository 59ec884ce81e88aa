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
    [PCCL_REDUCE_CHAIN] = &pccl_reduce_chain,
    [PCCL_REDUCE_DIRECT] = &pccl_reduce_direct,
    [PCCL_TO_ROOT_CHAIN] = &pccl_to_root_chain,
    [PCCL_TO_ROOT_DIRECT] = &pccl_to_root_direct,
    [PCCL_FROM_ROOT_CHAIN] = &pccl_from_root_chain,
    [PCCL_FROM_ROOT_DIRECT] = &pccl_from_root_direct,
    [PCCL_EXCHANGE_RING] = &pccl_exchange_ring,
    [PCCL_EXCHANGE_DIRECT] = &pccl_exchange_direct,
    [PCCL_SCAN_RING] = &pccl_scan_ring,
    [PCCL_SCAN_DIRECT] = &pccl_scan_direct,
    [PCCL_STAR] = &pccl_star,
};
