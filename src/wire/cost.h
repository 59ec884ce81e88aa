/*
 * Decides when a figure of a link has changed so much that it is reported, as plans made with the
 * old one would be poor.
 */
#ifndef PCCL_WIRE_COST_H
#define PCCL_WIRE_COST_H

#include "core/base.h"

#define PCCL_RATE_MOST UINT64_C(10000000000) /* bytes per second; all faster links count as equal */

/*
 * Whether it has changed by a factor of two or more, or was unknown (0) before. One that becomes
 * unknown has not moved.
 */
bool pccl_rtt_moved(uint32_t was_us, uint32_t now_us);
bool pccl_rate_moved(uint64_t was, uint64_t now);

#endif
