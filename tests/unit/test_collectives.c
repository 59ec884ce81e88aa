/* The table of collectives (wire/collectives.h), against the public header and sets that were written by hand. */
#include "unit.h"
#include "pccl.h"
#include "wire/collectives.h"

static const struct {
    pcclCollective_t number;
    enum pccl_collective collective;
    const char *name;
} listed[] = {
    {pcclCollectiveAllReduce, PCCL_ALL_REDUCE, "all-reduce"},
    {pcclCollectiveBroadcast, PCCL_BROADCAST, "broadcast"},
    {pcclCollectiveAllGather, PCCL_ALL_GATHER, "all-gather"},
    {pcclCollectiveReduceScatter, PCCL_REDUCE_SCATTER, "reduce-scatter"},
    {pcclCollectiveBarrier, PCCL_BARRIER, "barrier"},
    {pcclCollectiveAllGatherV, PCCL_ALL_GATHER_V, "all-gather of blobs"},
    {pcclCollectiveReduce, PCCL_REDUCE, "reduce"},
    {pcclCollectiveGather, PCCL_GATHER, "gather"},
    {pcclCollectiveScatter, PCCL_SCATTER, "scatter"},
    {pcclCollectiveAllToAll, PCCL_ALL_TO_ALL, "all-to-all"},
    {pcclCollectiveGatherV, PCCL_GATHER_V, "gather of blobs"},
    {pcclCollectiveScatterV, PCCL_SCATTER_V, "scatter of blobs"},
    {pcclCollectiveAllToAllV, PCCL_ALL_TO_ALL_V, "all-to-all of blobs"},
    {pcclCollectiveCoalesced, PCCL_COALESCED, "coalesced all-reduce"},
    {pcclCollectiveExclusiveScan, PCCL_EXCLUSIVE_SCAN, "exclusive scan"},
    {pcclCollectiveInclusiveScan, PCCL_INCLUSIVE_SCAN, "inclusive scan"},
};

TEST(test_numbers_in_lists)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(listed); i++) {
        assert_int_equal(pccl_collective_listed_as((uint32_t)listed[i].number), listed[i].collective);
        assert_string_equal(pccl_collective_name((uint8_t)listed[i].collective), listed[i].name);
    }
    assert_int_equal(pccl_collective_listed_as(pcclCollectiveSend), PCCL_COLLECTIVES);
    assert_int_equal(pccl_collective_listed_as(pcclCollectiveInclusiveScan + 1), PCCL_COLLECTIVES);
    assert_int_equal(pccl_collective_listed_as(PCCL_NOT_LISTED), PCCL_COLLECTIVES);
    assert_int_equal(pccl_collective_listed_as(UINT32_MAX), PCCL_COLLECTIVES);
}

TEST(test_unknown)
{
    assert_string_equal(pccl_collective_name(PCCL_COLLECTIVES), "operation");
    assert_string_equal(pccl_collective_name(UINT8_MAX), "operation");
    assert_int_equal(pccl_collective(UINT8_MAX)->of, PCCL_OF_NOTHING);
}

static uint64_t bit(enum pccl_collective collective) { return UINT64_C(1) << collective; }

/* Sets of collectives that follow from the rows. */
TEST(test_sets)
{
    const uint64_t blobs = bit(PCCL_ALL_GATHER_V) | bit(PCCL_GATHER_V) | bit(PCCL_SCATTER_V) | bit(PCCL_ALL_TO_ALL_V);
    const uint64_t to_or_from_one = bit(PCCL_GATHER) | bit(PCCL_SCATTER) | bit(PCCL_GATHER_V) | bit(PCCL_SCATTER_V);
    const uint64_t exchanges = bit(PCCL_ALL_TO_ALL) | bit(PCCL_ALL_TO_ALL_V);
    const uint64_t scans = bit(PCCL_EXCLUSIVE_SCAN) | bit(PCCL_INCLUSIVE_SCAN);
    const uint64_t one_reduction =
        bit(PCCL_ALL_REDUCE) | bit(PCCL_REDUCE_SCATTER) | bit(PCCL_REDUCE) | bit(PCCL_COALESCED);
    uint64_t is_of_blobs = 0, has_root = 0, exchange = 0, relay = 0, reduce = 0, divide = 0, averages = 0;
    for (uint8_t i = 0; i < PCCL_COLLECTIVES; i++) {
        const struct pccl_collective_row *row = pccl_collective(i);
        is_of_blobs |= (uint64_t)pccl_collective_is_of_blobs(i) << i;
        has_root |= (uint64_t)pccl_collective_has_root(i) << i;
        exchange |= (uint64_t)pccl_row_exchanges(row) << i;
        relay |= (uint64_t)pccl_row_relays(row) << i;
        reduce |= (uint64_t)pccl_collective_reduces(i) << i;
        divide |= (uint64_t)pccl_row_divides(row) << i;
        averages |= (uint64_t)(pccl_row_misfit(row, PCCL_F32, PCCL_AVG) == NULL) << i;
        assert_true((row->of == PCCL_OF_NOTHING) == (row->input.amount == PCCL_NO_PART));
        assert_true((row->of == PCCL_OF_NOTHING) == (row->result.amount == PCCL_NO_PART));
        assert_true(row->codecs == PCCL_NEVER_PACKED || row->of == PCCL_OF_ELEMENTS || row->of == PCCL_OF_TENSORS);
    }
    assert_int_equal(is_of_blobs, blobs);
    assert_int_equal(has_root, to_or_from_one | bit(PCCL_BROADCAST) | bit(PCCL_REDUCE) | bit(PCCL_SEND));
    assert_int_equal(exchange, exchanges);
    assert_int_equal(relay, to_or_from_one | exchanges | scans);
    assert_int_equal(reduce, one_reduction | scans);
    assert_int_equal(divide, exchanges | scans | bit(PCCL_REDUCE_SCATTER) | bit(PCCL_SCATTER) | bit(PCCL_SCATTER_V));
    assert_int_equal(averages, (bit(PCCL_COLLECTIVES) - 1) & ~scans);
}

static void must_have(enum pccl_collective collective, bool is_root, uint32_t input, uint32_t result)
{
    const struct pccl_collective_row *row = pccl_collective((uint8_t)collective);
    assert_int_equal(pccl_parts_of(&row->input, 5, is_root), input);
    assert_int_equal(pccl_parts_of(&row->result, 5, is_root), result);
}

TEST(test_parts)
{
    must_have(PCCL_BARRIER, false, 0, 0);
    must_have(PCCL_ALL_REDUCE, false, 1, 1);
    must_have(PCCL_REDUCE, false, 1, 0);
    must_have(PCCL_BROADCAST, false, 0, 1);
    must_have(PCCL_SEND, true, 1, 0);
    must_have(PCCL_SEND, false, 0, 1);
    must_have(PCCL_GATHER, false, 1, 0);
    must_have(PCCL_SCATTER_V, true, 5, 1);
    must_have(PCCL_ALL_TO_ALL, false, 5, 5);
    must_have(PCCL_REDUCE_SCATTER, false, 5, 1);
}
