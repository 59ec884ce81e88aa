/* When a figure of a link has moved so much that it is told, and that plans made with the old one are poor. */
#ifndef PCCL_WIRE_COST_H
#define PCCL_WIRE_COST_H

#include "core/base.h"

#define PCCL_RATE_MOST UINT64_C(10000000000) /* bytes per second; what is faster is not told apart */

/* By a factor of two or more, or the figure was not known before. 0: unknown; what becomes unknown has not moved. */
bool pccl_rtt_moved(uint32_t was_us, uint32_t now_us);
bool pccl_rate_moved(uint64_t was, uint64_t now);

#endif
