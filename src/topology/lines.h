/*
 * Rates of the links of a group while every member sends to every other one at once. The flows then share lines: all
 * data of a member passes the member's line, and data that leaves or enters a site passes the line of the site. A site
 * is a set of members connected by short round trips. Pure.
 */
#ifndef PCCL_TOPOLOGY_LINES_H
#define PCCL_TOPOLOGY_LINES_H

#include "core/base.h"
#include "core/limits.h"

/* Links between all members of a small group, [from][to]. */
struct pccl_pairs {
    uint32_t count;                                             /* 2 to PCCL_MESH_PEERS_MAX */
    uint64_t rates[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX];   /* bytes per second of each link alone; > 0 */
    uint32_t rtts_us[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX]; /* 0: unknown, as between processes of one host */
};

/*
 * Returns the rate, in bytes per second and at least 1, of the slowest link while all of them carry data: the least of
 * the rate of each link and the capacity of each line divided by its flows. A member's line carries as much as the
 * member's fastest link. A site's line carries as much as the fastest link that crosses it, unless links that cross it
 * are about as fast as links within the site: then each member has a separate line to other sites.
 */
uint64_t pccl_pairs_share(const struct pccl_pairs *pairs);

#endif
