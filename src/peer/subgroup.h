/*
 * Members of operations, and the subgroups of a peer. A subgroup exists from the commit of its founding until it has
 * ended and its caller has closed it. It does not change except for its end. Drivers may read it while it exists.
 */
#ifndef PCCL_PEER_SUBGROUP_H
#define PCCL_PEER_SUBGROUP_H

#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

/* Group of an operation's members: the peer group in the current view, a subgroup, or the two members of a pair. */
struct pccl_peer_participants {
    uint32_t count;
    uint32_t place; /* place of this peer in the ring */
    struct pccl_id *ring;
    uint32_t *positions; /* rank in canonical order, by place in the ring */
    struct pccl_cost cost;
    bool ended;  /* true if launches are refused; in a pair: the other peer is not a member of the view */
    bool closed; /* true if the caller has closed it */
};

/* The two members of a pair, the source first, in the form of a group. */
struct pccl_peer_pair {
    struct pccl_id ids[2]; /* 0: not a member of the view's group, or not chosen yet */
    uint32_t positions[2];
    struct pccl_peer_participants all;
};

struct pccl_peer_subgroup {
    struct pccl_table_node by_name; /* in the machine's table */
    uint64_t name;                  /* name in launches and instances */
    struct pccl_instance founding;
    struct pccl_peer_participants all; /* owns its lists */
    struct pccl_text reason;           /* reason for its end */
};

#endif
