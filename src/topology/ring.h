/* Finds a ring that avoids given pairs of neighbors. Pure. */
#ifndef PCCL_TOPOLOGY_RING_H
#define PCCL_TOPOLOGY_RING_H

#include "core/base.h"

/*
 * Orders count nodes into a ring without bad pairs of neighbors, including the last and the first. `order` contains the
 * given order on entry and, on success, a ring close to it. bad(context, a, b) returns true if an undirected pair must
 * not be used; it is called at most 200,000 + 64 * count times. Returns false, with `order` unchanged, if no ring was
 * found within that budget; for count <= 8 there is then no ring. `scratch` has count items. The result depends only on
 * the arguments.
 */
bool pccl_ring_avoiding(uint32_t *order, uint32_t count, bool (*bad)(void *context, uint32_t a, uint32_t b),
                        void *context, uint32_t *scratch);

#endif
