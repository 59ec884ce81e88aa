#include "wire/collectives.h"

#define ROW(name, listed, of, input, senders, result, receivers, codecs, ...)                                          \
    {                                                                                                                  \
        name, listed, PCCL_OF_##of, {PCCL_##input, PCCL_BY_##senders}, {PCCL_##result, PCCL_BY_##receivers},           \
            PCCL_##codecs, __VA_ARGS__                                                                                 \
    }

const struct pccl_collective_row pccl_collective_rows[PCCL_COLLECTIVES + 1] = {
    [PCCL_ALL_REDUCE] =
        ROW("all-reduce", 0, ELEMENTS, ONE_PART, ALL, ONE_PART, ALL, GIVEN_OR_AUTOMATIC_CODEC, .reduces = true),
    [PCCL_BROADCAST] = ROW("broadcast", 1, ELEMENTS, ONE_PART, ROOT, ONE_PART, ALL, GIVEN_CODEC, .ranks_matter = true,
                           .one_buffer = true),
    [PCCL_ALL_GATHER] =
        ROW("all-gather", 2, ELEMENTS, ONE_PART, ALL, PART_FOR_EACH, ALL, GIVEN_CODEC, .ranks_matter = true),
    [PCCL_REDUCE_SCATTER] = ROW("reduce-scatter", 3, ELEMENTS, PART_FOR_EACH, ALL, ONE_PART, ALL,
                                GIVEN_OR_AUTOMATIC_CODEC, .reduces = true, .ranks_matter = true, .has_counts = true),
    [PCCL_BARRIER] = {.name = "barrier", .listed = 4},
    [PCCL_ALL_GATHER_V] =
        ROW("all-gather of blobs", 5, BLOBS, ONE_PART, ALL, PART_FOR_EACH, ALL, NEVER_PACKED, .has_counts = true),
    [PCCL_FOUND] = {.name = "creation of a group", .listed = PCCL_NOT_LISTED, .ranks_matter = true},
    [PCCL_REDUCE] =
        ROW("reduce", 6, ELEMENTS, ONE_PART, ALL, ONE_PART, ROOT, GIVEN_CODEC, .reduces = true, .ranks_matter = true),
    [PCCL_GATHER] = ROW("gather", 7, ELEMENTS, ONE_PART, ALL, PART_FOR_EACH, ROOT, GIVEN_CODEC, .ranks_matter = true),
    [PCCL_SCATTER] = ROW("scatter", 8, ELEMENTS, PART_FOR_EACH, ROOT, ONE_PART, ALL, GIVEN_CODEC, .ranks_matter = true),
    [PCCL_ALL_TO_ALL] =
        ROW("all-to-all", 9, ELEMENTS, PART_FOR_EACH, ALL, PART_FOR_EACH, ALL, GIVEN_CODEC, .ranks_matter = true),
    [PCCL_SEND] =
        ROW("send", PCCL_NOT_LISTED, ELEMENTS, ONE_PART, ROOT, ONE_PART, OTHERS, NEVER_PACKED, .ranks_matter = true),
    [PCCL_GATHER_V] = ROW("gather of blobs", 10, BLOBS, ONE_PART, ALL, PART_FOR_EACH, ROOT, NEVER_PACKED,
                          .ranks_matter = true, .has_counts = true),
    [PCCL_SCATTER_V] = ROW("scatter of blobs", 11, BLOBS, PART_FOR_EACH, ROOT, ONE_PART, ALL, NEVER_PACKED,
                           .ranks_matter = true, .has_counts = true),
    [PCCL_ALL_TO_ALL_V] = ROW("all-to-all of blobs", 12, BLOBS, PART_FOR_EACH, ALL, PART_FOR_EACH, ALL, NEVER_PACKED,
                              .ranks_matter = true, .has_counts = true),
    [PCCL_COALESCED] = ROW("coalesced all-reduce", 13, TENSORS, ONE_PART, ALL, ONE_PART, ALL, GIVEN_OR_AUTOMATIC_CODEC,
                           .reduces = true, .has_counts = true),
    [PCCL_EXCLUSIVE_SCAN] = ROW("exclusive scan", 16, ELEMENTS, ONE_PART, ALL, ONE_PART, ALL, NEVER_PACKED,
                                .reduces = true, .scan = PCCL_EXCLUSIVE, .ranks_matter = true),
    [PCCL_INCLUSIVE_SCAN] = ROW("inclusive scan", 17, ELEMENTS, ONE_PART, ALL, ONE_PART, ALL, NEVER_PACKED,
                                .reduces = true, .scan = PCCL_INCLUSIVE, .ranks_matter = true),
    [PCCL_COLLECTIVES] = {.name = "operation", .listed = PCCL_NOT_LISTED},
};

enum pccl_collective pccl_collective_listed_as(uint32_t number)
{
    uint32_t collective = 0;
    while (collective < PCCL_COLLECTIVES &&
           (number == PCCL_NOT_LISTED || pccl_collective_rows[collective].listed != number))
        collective++;
    return (enum pccl_collective)collective;
}

const char *pccl_row_misfit(const struct pccl_collective_row *row, enum pccl_datatype datatype,
                            enum pccl_reduce_op reduction)
{
    if (row->scan != PCCL_NO_SCAN && reduction == PCCL_AVG)
        return "an average cannot be scanned: the next rank cannot continue a partial average";
    return pccl_reduction_misfit(datatype, reduction);
}
