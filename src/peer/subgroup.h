/*
 * A subgroup, as the machine of a member keeps it: from the commit of its founding until it has
 * ended and its caller has closed it. Nothing of it changes but its end. Drivers may read it until
 * then.
 */
#ifndef PCCL_PEER_SUBGROUP_H
#define PCCL_PEER_SUBGROUP_H

#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

struct pccl_peer_subgroup {
    struct pccl_table_node by_name; /* in the machine's table */
    uint64_t name;                  /* as launches and instances have it */
    struct pccl_instance founding;
    uint32_t count;
    struct pccl_id *members; /* owned: in canonical order, so an index is a rank */
    struct pccl_id *ring;    /* owned */
    uint32_t *positions;     /* owned: by place in the ring, the rank */
    uint32_t rank, place;    /* this peer's */
    struct pccl_cost cost;
    bool ended;              /* launches are refused: */
    struct pccl_text reason; /* ... why */
    bool closed;             /* its caller has closed it */
};

/* Members that an operation has, unless it is of a pair. Borrowed: valid until the machine's next step. */
struct pccl_peer_participants {
    uint32_t count; /* 0: there is no such subgroup */
    const struct pccl_id *ring;
    const uint32_t *positions; /* by place in the ring, the rank in canonical order */
    struct pccl_cost cost;
};

#endif
