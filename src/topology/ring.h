/* Rings over the members of a group. Pure. */
#ifndef PCCL_TOPOLOGY_RING_H
#define PCCL_TOPOLOGY_RING_H

#include "core/base.h"

/*
 * Orders count nodes into a ring whose consecutive pairs (also last-first) are all permitted, staying close to the
 * given order: `order` holds it on entry and the new ring on success. bad(context, a, b) tells an undirected pair that
 * must not be used; it is asked at most 200,000 + 64 * count times. false: none was found within that budget (for count
 * <= 8 that means there is none), and `order` is as it was. `scratch` has count items. The result depends on the
 * arguments only.
 */
bool pccl_ring_avoiding(uint32_t *order, uint32_t count, bool (*bad)(void *context, uint32_t a, uint32_t b),
                        void *context, uint32_t *scratch);

#endif
