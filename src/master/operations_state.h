/* The state of operations: parts, subgroups and pairs, instances. Part of state.h. */
#ifndef PCCL_MASTER_OPERATIONS_STATE_H
#define PCCL_MASTER_OPERATIONS_STATE_H

#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

struct pccl_remote; /* master/remote.h */

/* One member's part of an operation. */
struct pccl_part {
    bool done;
    uint8_t *payload; /* owned; tiny: what the member contributes; NULL: nothing */
    uint32_t payload_bytes;
};

/* A subgroup (PROTOCOL 15), those who are founding one, or a pair (16). */
struct pccl_subgroup {
    struct pccl_table_node by_name; /* once it is founded, or reported as founded */
    uint64_t name;
    struct pccl_instance founding;
    uint32_t world;               /* who founded it: more than `count` after a restart, if some are not back */
    uint32_t count;               /* the living members; these arrays lie behind the struct: */
    struct pccl_remote **members; /* ascending by id, so an index is a seat */
    bool *knows;                  /* by seat: it has been told that it is founded, and not that it has ended */
    uint32_t *ring, *ranks;       /* the seat of each place in its ring; of each seat, the rank */
    struct pccl_cost cost;
    bool founded;        /* it is in the table */
    bool living;         /* ... and its members are counted; not yet: a restarted master does not know it to be whole */
    bool holds_links;    /* its links are included in the counts of remote.h */
    uint32_t operations; /* of a pair, which is forgotten with the last of them */
};

/* An instance X (PROTOCOL 6). Undecided ones of the whole group belong to its current view. */
struct pccl_operation {
    struct pccl_table_node by_instance;
    struct pccl_operation *older, *newer;
    struct pccl_instance instance;
    struct pccl_subgroup
        *subgroup; /* participants: a subgroup, a pair, or (owned) the founders of one; NULL: the whole group */
    struct pccl_descriptor descriptor;
    struct pccl_id described_by;
    bool described; /* somebody has said what it is */
    bool tiny;
    bool offered; /* its receiver, which asked for such, has been told of it (operations_participants.c) */
    bool decided;
    enum pccl_class class;
    uint64_t first_us; /* when the master first heard of it */
    uint64_t decision;
    uint32_t world;
    uint32_t part_count, done_count; /* parts by seat (operations.h); freed at the decision */
    struct pccl_part *parts;
    struct pccl_choice choice; /* of an automatic codec: as in the first part; committed: for the next use */
    uint64_t launched_us;      /* ... when the last member launched it, by what they say; 0: unknown */
    bool combined;             /* tiny, to be committed or committed: this is its result */
    uint8_t *result;           /* owned; NULL: nothing */
    uint32_t result_bytes;
    uint64_t held_until_us; /* its abort is held; 0: it is not; UINT64_MAX: until the view is known */
    enum pccl_class held_class;
    struct pccl_id failed_by;
    struct pccl_id ended_by;   /* whose lone end it is; zero: nobody's */
    struct pccl_id named_last; /* the last peer that named it as ended */
    uint32_t named_count;      /* how many peers have */
    struct pccl_text reason;
};

#endif
