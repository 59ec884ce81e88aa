/*
 * core/table and core/crowd: random histories, no memory to grow, and numbers, ids and addresses
 * that collide under one key only.
 */
#include "unit.h"
#include "core/bytes.h"
#include "core/crowd.h"
#include "core/id.h"
#include "core/prng.h"
#include "core/table.h"
#include "support.h"

enum { ITEMS = 5000, KEYS = 3000 };

struct item {
    struct pccl_table_node node;
    bool inside;
};

/* The key is valid until the next call. */
static const struct pccl_hash_key *keyed(uint64_t seed)
{
    static struct pccl_hash_key key;
    pccl_hash_key_init(&key, seed);
    return &key;
}

static uint32_t count_with_key(const struct pccl_table *table, uint64_t key)
{
    uint32_t count = 0;
    for (struct pccl_table_node *node = pccl_table_find(table, key); node != NULL; node = pccl_table_find_next(node)) {
        assert_true(node->key == key);
        count++;
    }
    return count;
}

/* Random inserts and removals against a plain count of each key. */
static void churn(struct test_memory *m, uint64_t seed, struct item *items, struct pccl_table *table)
{
    static uint32_t expected[KEYS];
    memset(expected, 0, sizeof expected);
    struct pccl_prng prng = unit_prng(seed);
    pccl_table_init(table, &m->memory, keyed(seed));
    for (int step = 0; step < 20000; step++) {
        struct item *item = &items[pccl_prng_below(&prng, ITEMS)];
        if (item->inside) {
            pccl_table_remove(table, &item->node);
            expected[item->node.key]--;
        } else {
            uint64_t key = pccl_prng_below(&prng, KEYS);
            pccl_table_insert(table, &item->node, key);
            expected[key]++;
        }
        item->inside = !item->inside;
    }
    uint32_t inside = 0, walked = 0;
    for (int i = 0; i < ITEMS; i++)
        inside += items[i].inside;
    for (struct pccl_table_node *node = pccl_table_first(table); node != NULL; node = pccl_table_after(table, node))
        walked++;
    assert_int_equal(table->count, inside);
    assert_int_equal(walked, inside);
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(count_with_key(table, key), expected[key]);
}

TEST(test_random_history)
{
    struct test_memory m;
    test_memory_init(&m);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct item *items = calloc(ITEMS, sizeof *items);
        struct pccl_table table;
        churn(&m, seed, items, &table);
        assert_true(table.bucket_count > PCCL_TABLE_INLINE);
        pccl_table_fini(&table);
        free(items);
    }
    assert_int_equal(m.live_blocks, 0);
}

TEST(test_without_memory_it_only_gets_slower)
{
    for (uint64_t fail_at = 1; fail_at <= 5; fail_at += 2) {
        struct test_memory m;
        test_memory_init(&m);
        m.fail_at = fail_at;
        m.fail_after = true;
        struct item *items = calloc(ITEMS, sizeof *items);
        struct pccl_table table;
        churn(&m, fail_at, items, &table);
        assert_true(m.failures > 0);
        assert_int_equal(table.bucket_count, PCCL_TABLE_INLINE << (fail_at - 1));
        pccl_table_fini(&table);
        assert_int_equal(m.live_blocks, 0);
        free(items);
    }
}

TEST(test_iteration_may_remove_the_visited_node)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_table_node *nodes = calloc(100, sizeof *nodes);
    struct pccl_table table;
    pccl_table_init(&table, &m.memory, keyed(1));
    for (uint64_t i = 0; i < 100; i++)
        pccl_table_insert(&table, &nodes[i], i % 7);
    uint32_t visited = 0;
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&table); node != NULL; node = next) {
        next = pccl_table_after(&table, node);
        pccl_table_remove(&table, node);
        visited++;
    }
    assert_int_equal(visited, 100);
    assert_int_equal(table.count, 0);
    assert_null(pccl_table_first(&table));
    pccl_table_fini(&table);
    free(nodes);
}

TEST(test_order_is_that_of_insertion)
{
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_table_node *nodes = calloc(1000, sizeof *nodes);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct pccl_table table;
        pccl_table_init(&table, &m.memory, keyed(seed));
        for (uint64_t i = 0; i < 1000; i++)
            pccl_table_insert(&table, &nodes[i], i * i % 601);
        for (uint64_t i = 0; i < 1000; i += 7)
            pccl_table_remove(&table, &nodes[i]);
        uint64_t i = 0;
        for (struct pccl_table_node *node = pccl_table_first(&table); node != NULL;
             node = pccl_table_after(&table, node)) {
            i += i % 7 == 0;
            assert_ptr_equal(node, &nodes[i]);
            i++;
        }
        assert_int_equal(i, 1000);
        pccl_table_fini(&table);
    }
    free(nodes);
}

/* ---- hashes forged to collide ---- */

enum { MADE_UP = 1024, OTHER_KEYS = 200, CHAIN_MAX = 16 };

static uint32_t longest_chain(const uint64_t *keys, const struct pccl_hash_key *hash)
{
    static struct pccl_table_node nodes[MADE_UP];
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_table table;
    pccl_table_init(&table, &m.memory, hash);
    for (uint32_t i = 0; i < MADE_UP; i++)
        pccl_table_insert(&table, &nodes[i], keys[i]);
    uint32_t longest = 0;
    for (uint32_t i = 0; i < table.bucket_count; i++) {
        uint32_t length = 0;
        for (const struct pccl_table_node *node = table.buckets[i]; node != NULL; node = node->next)
            length++;
        longest = length > longest ? length : longest;
    }
    pccl_table_fini(&table);
    return longest;
}

static bool shares_a_bucket(uint64_t key) { return pccl_hash_place(keyed(1), key, 54) == 0; }

TEST(test_numbers_that_collide_do_so_under_one_key_only)
{
    uint64_t keys[MADE_UP], next = 0;
    for (uint32_t i = 0; i < MADE_UP; i++) {
        while (!shares_a_bucket(next))
            next++;
        keys[i] = next++;
    }
    assert_int_equal(longest_chain(keys, keyed(1)), MADE_UP);
    for (uint64_t seed = 2; seed < 2 + OTHER_KEYS; seed++)
        assert_in_range(longest_chain(keys, keyed(seed)), 1, CHAIN_MAX);
}

static void keys_of_ids(const struct pccl_id *ids, uint64_t seed, uint64_t *keys)
{
    for (uint32_t i = 0; i < MADE_UP; i++)
        keys[i] = pccl_id_hash(keyed(seed), &ids[i]);
}

static void check_spread_ids(const struct pccl_id *ids)
{
    for (uint64_t seed = 2; seed < 2 + OTHER_KEYS; seed++) {
        uint64_t keys[MADE_UP];
        keys_of_ids(ids, seed, keys);
        assert_in_range(longest_chain(keys, keyed(seed)), 1, CHAIN_MAX);
    }
}

TEST(test_ids_that_collide_do_so_under_one_key_only)
{
    struct pccl_id ids[MADE_UP];
    uint64_t keys[MADE_UP];
    struct pccl_prng prng = unit_prng(5);
    for (uint32_t i = 0; i < MADE_UP; i++) {
        do
            ids[i] = pccl_prng_id(&prng);
        while (!shares_a_bucket(pccl_id_hash(keyed(1), &ids[i])));
    }
    keys_of_ids(ids, 1, keys);
    assert_int_equal(longest_chain(keys, keyed(1)), MADE_UP);
    check_spread_ids(ids);
}

/* Each half undoes the mixing of the other: a hash of well mixed halves, without a key, is the same for all. */
TEST(test_ids_that_collide_without_a_key)
{
    struct pccl_id ids[MADE_UP];
    for (uint64_t i = 0; i < MADE_UP; i++) {
        pccl_put(ids[i].bytes, 8, pccl_prng_mix(i));
        pccl_put(ids[i].bytes + 8, 8, i);
    }
    check_spread_ids(ids);
}

/* Places in a crowd: of 64 addresses that share one under a key, few do under another. */
TEST(test_addresses_that_collide_do_so_under_one_key_only)
{
    struct pccl_hash_key key = *keyed(1), other = *keyed(2);
    struct pccl_crowd crowd = {.hash = &key}, spread = {.hash = &other};
    struct pccl_address first = pccl_address_v4(10, 0, 0, 0, 0);
    pccl_crowd_add(&crowd, &first);
    for (uint32_t i = 1, found = 0; found < 64; i++) {
        struct pccl_address next = pccl_address_v4(10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i, 0);
        if (pccl_crowd_count(&crowd, &next) == 0)
            continue;
        pccl_crowd_add(&spread, &next);
        found++;
        assert_in_range(pccl_crowd_count(&spread, &next), 1, 4);
    }
}
