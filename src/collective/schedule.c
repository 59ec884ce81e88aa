/* The table of all schedules. */
#include "collective/schedule.h"

const struct pccl_schedule *const pccl_schedules[PCCL_ALGORITHMS] = {
    [PCCL_RING] = &pccl_ring,
    [PCCL_DIRECT] = &pccl_direct,
};
