/*
 * Cost data of a view: the links outside the ring that it includes, and how much a link's figures must change before
 * they are reported because plans made with the old figures would be poor.
 */
#ifndef PCCL_WIRE_COST_H
#define PCCL_WIRE_COST_H

#include "core/base.h"
#include "core/limits.h"
#include "core/text.h"
#include "wire/wire.h"

#define PCCL_RATE_MOST UINT64_C(10000000000) /* bytes per second; faster links are all treated as equal */

/*
 * Return true if a figure has changed by a factor of at least two, or was unknown (0) before. Becoming unknown is not a
 * change.
 */
bool pccl_rtt_moved(uint32_t was_us, uint32_t now_us);
bool pccl_rate_moved(uint64_t was, uint64_t now);
/*
 * Formats "125 bytes/s". A rate at the limit is not a measurement: "10000000000 bytes/s or more". The string returned
 * by pccl_rate_str is valid until the enclosing block ends.
 */
const char *pccl_rate_text(uint64_t rate, struct pccl_text *text);
#define pccl_rate_str(rate) pccl_rate_text(rate, &(struct pccl_text){.length = 0})

/* Returns the bit for a member, by its position in canonical order. For groups that may have hubs. */
static inline uint64_t pccl_hub_bit(uint32_t position) { return UINT64_C(1) << position; }
/* Returns the bits of all members, at most PCCL_HUB_PEERS_MAX. */
static inline uint64_t pccl_all_hubs(uint32_t members) { return UINT64_MAX >> (PCCL_HUB_PEERS_MAX - members); }
/*
 * Returns true if, in a view of this size, the member at position `from` of the canonical order keeps a link to the one
 * at position `to`, regardless of the ring. If `mesh` is 1, the link is up.
 */
static inline bool pccl_cost_wants(const struct pccl_cost *cost, uint32_t members, uint32_t from, uint32_t to)
{
    if (from == to || members <= PCCL_MESH_PEERS_MAX || members > PCCL_HUB_PEERS_MAX)
        return from != to && members <= PCCL_MESH_PEERS_MAX;
    return (cost->to_hubs & pccl_hub_bit(to)) != 0 || (cost->from_hubs & pccl_hub_bit(from)) != 0;
}

/* Returns true if links between all pairs are up. This also holds within any subset of the members. */
static inline bool pccl_cost_has_all_pairs(const struct pccl_cost *cost, uint32_t members)
{
    return cost->mesh != 0 && (members <= PCCL_MESH_PEERS_MAX ||
                               (members <= PCCL_HUB_PEERS_MAX && cost->to_hubs == pccl_all_hubs(members)));
}

#endif
