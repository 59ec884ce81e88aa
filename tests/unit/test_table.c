#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/prng.h"
#include "core/table.h"
#include "support.h"

enum { ITEMS = 5000, KEYS = 3000 };

struct item {
    struct pccl_node node;
    bool inside;
};

static uint32_t count_with_key(const struct pccl_table *table, uint64_t key)
{
    uint32_t count = 0;
    for (struct pccl_node *node = pccl_table_find(table, key); node != NULL; node = pccl_table_find_next(node)) {
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
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed);
    pccl_table_init(table, &m->memory);
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
    for (struct pccl_node *node = pccl_table_first(table); node != NULL; node = pccl_table_after(table, node))
        walked++;
    assert_int_equal(table->count, inside);
    assert_int_equal(walked, inside);
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(count_with_key(table, key), expected[key]);
}

static void test_random_history(void **state)
{
    (void)state;
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

static void test_without_memory_it_only_gets_slower(void **state)
{
    (void)state;
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

static void test_iteration_may_remove_the_visited_node(void **state)
{
    (void)state;
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_node *nodes = calloc(100, sizeof *nodes);
    struct pccl_table table;
    pccl_table_init(&table, &m.memory);
    for (uint64_t i = 0; i < 100; i++)
        pccl_table_insert(&table, &nodes[i], i % 7);
    uint32_t visited = 0;
    struct pccl_node *next;
    for (struct pccl_node *node = pccl_table_first(&table); node != NULL; node = next) {
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

/* Nodes lie elsewhere, in another order of addresses: the walk shows the same keys. */
static void test_order_depends_on_keys_only(void **state)
{
    (void)state;
    struct test_memory m;
    test_memory_init(&m);
    struct pccl_node *nodes = calloc(2000, sizeof *nodes);
    struct pccl_table up, down;
    pccl_table_init(&up, &m.memory);
    pccl_table_init(&down, &m.memory);
    for (uint64_t i = 0; i < 1000; i++) {
        pccl_table_insert(&up, &nodes[i], i * i % 601);
        pccl_table_insert(&down, &nodes[1999 - i], i * i % 601);
    }
    struct pccl_node *a = pccl_table_first(&up), *b = pccl_table_first(&down);
    while (a != NULL && b != NULL) {
        assert_true(a->key == b->key);
        assert_int_equal(a - nodes, 1999 - (b - nodes));
        a = pccl_table_after(&up, a);
        b = pccl_table_after(&down, b);
    }
    assert_null(a);
    assert_null(b);
    pccl_table_fini(&up);
    pccl_table_fini(&down);
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_history),
        cmocka_unit_test(test_without_memory_it_only_gets_slower),
        cmocka_unit_test(test_iteration_may_remove_the_visited_node),
        cmocka_unit_test(test_order_depends_on_keys_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
