/* State of operations: parts, subgroups and pairs, instances. Part of state.h. */
#ifndef PCCL_MASTER_OPERATIONS_STATE_H
#define PCCL_MASTER_OPERATIONS_STATE_H

#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

struct pccl_remote; /* master/remote.h */

/* One member's part in an operation. */
struct pccl_part {
    bool done;
    uint8_t *payload; /* owned; tiny: the member's contribution; NULL: empty */
    uint32_t payload_bytes;
};

/* A subgroup (PROTOCOL 15), the members of a founding, or a pair (16). */
struct pccl_subgroup {
    struct pccl_table_node by_name; /* linked once the subgroup is founded, or reported as founded */
    uint64_t name;
    struct pccl_instance founding;
    /* number of founders; greater than `count` after a restart if some have not returned */
    uint32_t world;
    uint32_t count;               /* number of living members; length of the arrays, which follow the struct */
    struct pccl_remote **members; /* in ascending order of id; the index is the seat */
    bool *knows;                  /* by seat: whether the member has received the founding and not the end */
    uint32_t *ring, *ranks;       /* seat of each place in its ring; rank of each seat */
    struct pccl_cost cost;
    bool founded; /* true if it is linked in the table */
    /* true if its members' totals include it; false while a restarted master does not know whether it is complete */
    bool living;
    bool holds_links;    /* true if its links are counted (links_state.h) */
    uint32_t operations; /* number of operations of a pair, which is freed with the last one */
};

/* An operation instance (PROTOCOL 6). Undecided instances of the whole group belong to its current view. */
struct pccl_operation {
    struct pccl_table_node by_instance;
    struct pccl_operation *older, *newer;
    struct pccl_instance instance;
    /* participants: a subgroup, a pair, or the members of a founding (owned); NULL: the whole group */
    struct pccl_subgroup *subgroup;
    struct pccl_descriptor descriptor;
    struct pccl_id described_by;
    bool described; /* true if the descriptor is known */
    bool tiny;
    bool offered; /* true if it has been offered to its receiver (operations_participants.c) */
    bool decided;
    enum pccl_class class;
    uint64_t first_us; /* time of the first message about it */
    uint64_t decision;
    uint32_t world;
    uint32_t part_count, done_count; /* parts by seat (operations.h); freed at the decision */
    struct pccl_part *parts;
    /* automatic codec: choice in the first part; after the commit, choice for the next use */
    struct pccl_choice choice;
    uint64_t launched_us; /* automatic codec: latest launch that members reported; 0: unknown */
    bool combined;        /* true if the result of a tiny operation is final */
    uint8_t *result;      /* owned; NULL: empty */
    uint32_t result_bytes;
    /* time until which its abort is held; 0: not held; UINT64_MAX: until the view is acknowledged */
    uint64_t held_until_us;
    enum pccl_class held_class;
    struct pccl_id failed_by;
    struct pccl_id ended_by;   /* member that aborted it alone; zero: none */
    struct pccl_id named_last; /* last peer that reported its end */
    uint32_t named_count;      /* number of peers that reported its end */
    struct pccl_text reason;
};

#endif
