/*
 * The members that operations have, and the subgroups of a peer. The machine keeps a subgroup from the commit of its
 * founding until it has ended and its caller has closed it; only its end changes. Drivers may read it until then.
 */
#ifndef PCCL_PEER_SUBGROUP_H
#define PCCL_PEER_SUBGROUP_H

#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

/* A group as its operations see it: the peer group in the present view, a subgroup, or the two of a send. */
struct pccl_peer_participants {
    uint32_t count;
    uint32_t place; /* of this peer in the ring */
    struct pccl_id *ring;
    uint32_t *positions; /* by place in the ring, the rank in canonical order */
    struct pccl_cost cost;
    bool ended;  /* launches are refused */
    bool closed; /* its caller has closed it */
};

struct pccl_peer_subgroup {
    struct pccl_table_node by_name; /* in the machine's table */
    uint64_t name;                  /* as launches and instances have it */
    struct pccl_instance founding;
    struct pccl_peer_participants all; /* owns its lists */
    struct pccl_text reason;           /* why it has ended */
};

#endif
