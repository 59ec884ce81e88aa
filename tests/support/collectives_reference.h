/*
 * Expected results of collectives: the elements that form each element of a result. Numbers are in numbers.h. Uses only
 * the public headers.
 */
#ifndef PCCL_TESTS_SUPPORT_COLLECTIVES_REFERENCE_H
#define PCCL_TESTS_SUPPORT_COLLECTIVES_REFERENCE_H

#include "numbers.h"

enum size { NOTHING, ONE_PART, PART_FOR_EACH }; /* size of a peer's buffer */

struct collective_row {
    const char *name;
    pcclCollective_t id;
    enum size gives, gets;
    bool root_gives, root_gets; /* only the root */
    bool reduces, has_codec;
};

enum { COLLECTIVES = 11 };

/* A new collective of elements gets a row here, a case in source_of and one in unit/api_matrix' launch. */
static const struct collective_row collective_rows[COLLECTIVES] = {
    {"all-reduce", pcclCollectiveAllReduce, ONE_PART, ONE_PART, false, false, true, true},
    {"broadcast", pcclCollectiveBroadcast, ONE_PART, ONE_PART, true, false, false, true},
    {"all-gather", pcclCollectiveAllGather, ONE_PART, PART_FOR_EACH, false, false, false, true},
    {"reduce-scatter", pcclCollectiveReduceScatter, PART_FOR_EACH, ONE_PART, false, false, true, true},
    {"reduce", pcclCollectiveReduce, ONE_PART, ONE_PART, false, true, true, true},
    {"gather", pcclCollectiveGather, ONE_PART, PART_FOR_EACH, false, true, false, true},
    {"scatter", pcclCollectiveScatter, PART_FOR_EACH, ONE_PART, true, false, false, true},
    {"all-to-all", pcclCollectiveAllToAll, PART_FOR_EACH, PART_FOR_EACH, false, false, false, true},
    {"exclusive scan", pcclCollectiveExclusiveScan, ONE_PART, ONE_PART, false, false, true, false},
    {"inclusive scan", pcclCollectiveInclusiveScan, ONE_PART, ONE_PART, false, false, true, false},
    {"barrier", pcclCollectiveBarrier, NOTHING, NOTHING, false, false, false, false},
};

/* Returns the row of a collective of elements, or NULL. */
static inline const struct collective_row *row_of(pcclCollective_t id)
{
    for (size_t i = 0; i < COLLECTIVES; i++)
        if (collective_rows[i].id == id)
            return &collective_rows[i];
    return NULL;
}

/* Returns the number of elements that a rank gives or gets, in parts of `count` elements. */
static inline size_t elements_of_rank(const struct collective_row *row, bool gets, uint32_t world, uint32_t root,
                                      size_t count, uint32_t rank)
{
    const enum size size = gets ? row->gets : row->gives;
    if (size == NOTHING || ((gets ? row->root_gets : row->root_gives) && rank != root))
        return 0;
    return size == ONE_PART ? count : world * count;
}

/* The elements that make element `at` of a rank's result: of ranks from `first` on, `ranks` of them, the one at `at`.
 */
struct source {
    uint32_t first, ranks;
    size_t at;
};

/* share_first: of a reduce-scatter, where the rank's share begins. */
static inline struct source source_of(pcclCollective_t id, uint32_t world, uint32_t root, size_t count, uint32_t rank,
                                      size_t share_first, size_t at)
{
    const uint32_t part = count > 0 ? (uint32_t)(at / count) : 0;
    switch (id) {
    case pcclCollectiveReduceScatter: return (struct source){0, world, share_first + at};
    case pcclCollectiveExclusiveScan: return (struct source){0, rank, at};
    case pcclCollectiveInclusiveScan: return (struct source){0, rank + 1, at};
    case pcclCollectiveBroadcast: return (struct source){root, 1, at};
    case pcclCollectiveScatter: return (struct source){root, 1, rank * count + at};
    case pcclCollectiveAllGather:
    case pcclCollectiveGather: return (struct source){part, 1, at % count};
    case pcclCollectiveAllToAll: return (struct source){part, 1, rank * count + at % count};
    default: return (struct source){0, world, at}; /* an all-reduce, a reduce */
    }
}

#endif
