/*
 * The links of a group that is too large to show each of them (figures.h): a square of blocks. A block contains the
 * links from one section of the ring to another, and shows the slowest of them. The links are visited a few at a time,
 * so each call takes bounded time; at 1,000 members a row of blocks is renewed every second call.
 */
#ifndef PCCL_MASTER_LINK_BLOCKS_H
#define PCCL_MASTER_LINK_BLOCKS_H

#include "master/state.h"

enum { PCCL_LINK_BLOCKS = 32, PCCL_LINK_BLOCKS_VISITS = 16384 };

struct pccl_link_block {
    uint64_t rate;      /* rate of the slowest link that is known and reachable; 0 if no link is */
    uint32_t rtt_us;    /* round trip of that link; 0 if unknown */
    uint32_t known;     /* number of links with a known rate, or known to be unreachable */
    uint32_t unreached; /* number of unreachable links */
};

struct pccl_link_blocks_row {
    uint32_t group, position, members, count; /* section of the ring, and number of blocks in the row */
    struct pccl_link_block blocks[PCCL_LINK_BLOCKS];
};

/* Zeroed at first. */
struct pccl_link_blocks {
    uint32_t group, members, count; /* group with its size, and number of rows; 0: no group is large enough */
    uint32_t row, position;         /* row and member that the next call visits */
    struct pccl_link_block visited[PCCL_LINK_BLOCKS]; /* of that row, so far */
    struct pccl_link_blocks_row rows[PCCL_LINK_BLOCKS];
};

/* Visits the next links of the first group with more than `most` members. Begins again if that group has changed. */
void pccl_link_blocks_visit(struct pccl_link_blocks *blocks, const struct pccl_master *m, uint32_t most);

#endif
