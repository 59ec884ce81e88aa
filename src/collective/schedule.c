/* The table of schedules: all that there are. */
#include "collective/schedule.h"

const struct pccl_schedule *const pccl_schedules[PCCL_ALGORITHMS] = {
    [PCCL_RING] = &pccl_ring,
    [PCCL_DIRECT] = &pccl_direct,
};
