/*
 * Rates of the links of a group while every member sends to all others at once. The flows share lines: all data of a
 * member uses the member's line, and data that leaves or enters a site uses the line of the site. A site is a set of
 * members connected by short round trips. Pure.
 */
#ifndef PCCL_TOPOLOGY_LINES_H
#define PCCL_TOPOLOGY_LINES_H

#include "core/base.h"
#include "core/limits.h"

/* Links between all members of a small group, indexed by [from][to]. */
struct pccl_pairs {
    uint32_t count; /* 2 to PCCL_MESH_PEERS_MAX */
    /* rate of each link while no other link is in use, in bytes per second; > 0 */
    uint64_t rates[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX];
    /* 0 if unknown, for example between processes of one host */
    uint32_t rtts_us[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX];
};

/*
 * Returns the rate of the slowest link while all of them transfer data, in bytes per second and at least 1. This is the
 * minimum of all link rates and, for each line, its capacity divided by the number of flows that share it. The capacity
 * of a member's line is the rate of the member's fastest link. The capacity of a site's line is the rate of the fastest
 * link that crosses it, unless crossing links are about as fast as links within the site. In that case each member has
 * a separate line to other sites.
 */
uint64_t pccl_pairs_share(const struct pccl_pairs *pairs);

#endif
