#include "core/table.h"

#include <string.h>

enum { INLINE_SHIFT = 61 };
_Static_assert(UINT64_C(1) << (64 - INLINE_SHIFT) == PCCL_TABLE_INLINE, "places of the inline buckets");

static struct pccl_table_node **bucket_of(const struct pccl_table *table, uint64_t key)
{
    return &table->buckets[pccl_hash_place(table->hash, key, table->shift)];
}

void pccl_table_init(struct pccl_table *table, const struct pccl_memory *memory, const struct pccl_hash_key *hash)
{
    memset(table, 0, sizeof *table);
    table->memory = memory;
    table->hash = hash;
    table->buckets = table->inline_buckets;
    table->bucket_count = PCCL_TABLE_INLINE;
    table->shift = INLINE_SHIFT;
    pccl_list_init(&table->nodes);
}

void pccl_table_fini(struct pccl_table *table)
{
    if (table->buckets != table->inline_buckets)
        pccl_release(table->memory, table->buckets, table->bucket_count * sizeof *table->buckets);
    pccl_table_init(table, table->memory, table->hash);
}

static void link_in(struct pccl_table *table, struct pccl_table_node *node)
{
    struct pccl_table_node **head = bucket_of(table, node->key);
    node->next = *head;
    *head = node;
}

static void grow(struct pccl_table *table)
{
    if (table->count < table->bucket_count || table->bucket_count > UINT32_MAX / 2)
        return;
    uint32_t bucket_count = table->bucket_count * 2;
    struct pccl_table_node **buckets = pccl_allocate(table->memory, bucket_count * sizeof *buckets);
    if (buckets == NULL)
        return;
    struct pccl_table_node **before = table->buckets;
    uint32_t before_count = table->bucket_count;
    table->buckets = buckets;
    table->bucket_count = bucket_count;
    table->shift--;
    for (uint32_t i = 0; i < before_count; i++) {
        struct pccl_table_node *next;
        for (struct pccl_table_node *node = before[i]; node != NULL; node = next) {
            next = node->next;
            link_in(table, node);
        }
    }
    if (before != table->inline_buckets)
        pccl_release(table->memory, before, before_count * sizeof *before);
}

void pccl_table_insert(struct pccl_table *table, struct pccl_table_node *node, uint64_t key)
{
    grow(table);
    node->key = key;
    link_in(table, node);
    pccl_list_append(&table->nodes, &node->in_order);
    table->count++;
}

void pccl_table_remove(struct pccl_table *table, struct pccl_table_node *node)
{
    struct pccl_table_node **at = bucket_of(table, node->key);
    while (*at != NULL && *at != node)
        at = &(*at)->next;
    PCCL_ASSERT(*at == node);
    *at = node->next;
    node->next = NULL;
    pccl_list_remove(&node->in_order);
    table->count--;
}

static struct pccl_table_node *skip_to_key(struct pccl_table_node *node, uint64_t key)
{
    while (node != NULL && node->key != key)
        node = node->next;
    return node;
}

struct pccl_table_node *pccl_table_find(const struct pccl_table *table, uint64_t key)
{
    return skip_to_key(*bucket_of(table, key), key);
}

struct pccl_table_node *pccl_table_find_next(const struct pccl_table_node *node)
{
    return skip_to_key(node->next, node->key);
}

static struct pccl_table_node *at_node(const struct pccl_table *table, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&table->nodes, node, struct pccl_table_node, in_order);
}

struct pccl_table_node *pccl_table_first(const struct pccl_table *table) { return at_node(table, table->nodes.next); }

struct pccl_table_node *pccl_table_after(const struct pccl_table *table, const struct pccl_table_node *node)
{
    return at_node(table, node->in_order.next);
}
