/*
 * The lines of a network, from the rates of the links of a group. Flows share lines: all data of a member uses the
 * member's line, and data that leaves or enters a site uses the line of the site. A site is a set of members connected
 * by short round trips. Pure.
 */
#ifndef PCCL_TOPOLOGY_LINES_H
#define PCCL_TOPOLOGY_LINES_H

#include "core/base.h"
#include "core/limits.h"
#include "topology/solve.h"

/* Figures of all links of a group, at [from * count + to]. The arrays are borrowed; the diagonal is not read. */
struct pccl_pairs {
    uint32_t count;          /* 2 to PCCL_TREES_PEERS_MAX */
    const uint64_t *rates;   /* of a link while no other is in use, in bytes per second, or PCCL_RATE_* */
    const uint32_t *rtts_us; /* 0 if unknown, for example between processes of one host */
};

/* Rates in bytes per second, at most PCCL_LINE_RATE_MOST. */
struct pccl_lines {
    struct pccl_pairs pairs;
    uint64_t up[PCCL_TREES_PEERS_MAX], down[PCCL_TREES_PEERS_MAX]; /* of each member; 0 if unknown */
    uint32_t site[PCCL_TREES_PEERS_MAX]; /* each member's site, identified by one of the site's members */
    /* at the site's number; PCCL_LINE_NONE if its members share no line */
    uint64_t site_up[PCCL_TREES_PEERS_MAX], site_down[PCCL_TREES_PEERS_MAX];
};

#define PCCL_LINE_RATE_MOST (UINT64_C(1) << 47) /* so that sums and small multiples fit in 64 bits */
#define PCCL_LINE_NONE UINT64_MAX

/*
 * Finds the lines of a group. The capacity of a member's line is the rate of the member's fastest link. The capacity of
 * a site's line is the rate of the fastest link that crosses it, unless crossing links are about as fast as links
 * within the site. In that case its members share no line.
 */
void pccl_lines_find(struct pccl_lines *lines, const struct pccl_pairs *pairs);
/*
 * Returns true if the known rate of a link is below a quarter of the rates of its lines, or no data arrives. Smaller
 * differences are due to tests that shared a line.
 */
bool pccl_lines_is_slow(const struct pccl_lines *lines, uint32_t from, uint32_t to);
/*
 * Returns the rate of a link while no other is in use: its known rate if it is slow, otherwise the lowest rate of its
 * lines. Returns 0 if no data arrives, or if a line is unknown.
 */
uint64_t pccl_lines_link(const struct pccl_lines *lines, uint32_t from, uint32_t to);
/*
 * Returns the rate of the slowest link while all members send to all others, in bytes per second and at least 1. This
 * is the minimum of all link rates and, for each line, its capacity divided by the number of flows that share it. All
 * rates must be known and not 0.
 */
uint64_t pccl_pairs_share(const struct pccl_pairs *pairs);

/* The lines that limit an all-reduce with any schedule. */
enum pccl_limit {
    PCCL_LIMIT_MEMBER,  /* the line of one member: its tensor leaves it once, and the result enters it once */
    PCCL_LIMIT_MEMBERS, /* the lines of all members: n - 1 tensors and n - 1 results pass them */
    PCCL_LIMIT_SITE,    /* the same for sites in place of members */
    PCCL_LIMIT_SITES,
};
struct pccl_bound {
    uint64_t rate; /* of an all-reduce: bytes of the tensor per second; 0 if a line is unknown */
    enum pccl_limit limit;
    uint32_t member; /* MEMBER: its number; SITE: number of the site */
    bool is_down;    /* true if the limit is a downlink */
};
struct pccl_bound pccl_lines_bound(const struct pccl_lines *lines);
/*
 * Returns the rate of an all-reduce around a ring, which has each member once, in bytes of the tensor per second; 0 if
 * a link carries no data or a line is unknown.
 */
uint64_t pccl_lines_ring(const struct pccl_lines *lines, const uint32_t *ring);

#endif
