/* core/memory: allocating and growing, also when memory is short; and the text of every status. */
#include "unit.h"
#include "core/memory.h"
#include "core/status.h"
#include "support.h"

TEST(test_allocate_zeroes_and_releases)
{
    struct test_memory m;
    test_memory_init(&m);
    unsigned char *block = pccl_allocate(&m.memory, 100);
    assert_non_null(block);
    for (int i = 0; i < 100; i++)
        assert_int_equal(block[i], 0);
    assert_int_equal(m.live_bytes, 100);
    pccl_release(&m.memory, block, 100);
    pccl_release(&m.memory, NULL, 0);
    assert_int_equal(m.live_blocks, 0);
    m.fail_at = m.requests + 1;
    assert_null(pccl_allocate(&m.memory, 8));
}

TEST(test_grow_keeps_contents_and_is_geometric)
{
    struct test_memory m;
    test_memory_init(&m);
    uint32_t *items = NULL;
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        items = pccl_grow(&m.memory, items, &capacity, i + 1, sizeof *items);
        assert_non_null(items);
        assert_true(capacity > i);
        items[i] = i;
    }
    assert_in_range(m.requests, 1, 12);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    assert_int_equal(m.live_bytes, capacity * sizeof *items);
    pccl_release(&m.memory, items, capacity * sizeof *items);
    assert_int_equal(m.live_bytes, 0);
}

TEST(test_failed_grow_changes_nothing)
{
    struct test_memory m;
    test_memory_init(&m);
    uint32_t capacity = 0;
    uint32_t *items = pccl_grow(&m.memory, NULL, &capacity, 4, sizeof *items);
    assert_non_null(items);
    items[3] = 77;
    m.fail_at = m.requests + 1;
    assert_null(pccl_grow(&m.memory, items, &capacity, capacity + 1, sizeof *items));
    assert_int_equal(m.failures, 1);
    assert_int_equal(items[3], 77);
    assert_null(pccl_grow(&m.memory, items, &capacity, UINT32_MAX, SIZE_MAX / 2)); /* would overflow */
    assert_int_equal(items[3], 77);
    assert_int_equal(m.live_bytes, capacity * sizeof *items);
    pccl_release(&m.memory, items, capacity * sizeof *items);
}

TEST(test_every_status_has_name_words_and_loss)
{
    for (int i = 0; i < PCCL_STATUS_COUNT; i++) {
        assert_true(pccl_status_name((enum pccl_status)i)[0] != '\0');
        assert_true(pccl_status_text((enum pccl_status)i)[0] != '\0');
        assert_in_range(pccl_status_lost((enum pccl_status)i), PCCL_LOST_NOTHING, PCCL_LOST_MEMBERSHIP);
    }
    assert_string_equal(pccl_status_name(PCCL_PEER_LOST), "PEER_LOST");
    assert_string_equal(pccl_status_text(PCCL_OK), "success");
    assert_int_equal(pccl_status_lost(PCCL_EXPELLED), PCCL_LOST_MEMBERSHIP);
    assert_string_equal(pccl_status_name((enum pccl_status)1000), "INTERNAL");
    assert_string_equal(pccl_status_name((enum pccl_status) - 1), "INTERNAL");
}
