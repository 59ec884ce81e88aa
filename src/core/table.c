#include "core/table.h"

#include <string.h>

static uint32_t bucket_of(uint64_t key, uint32_t bucket_count)
{
    return (uint32_t)(pccl_hash_u64(key) & (bucket_count - 1));
}

void pccl_table_init(struct pccl_table *table, const struct pccl_memory *memory)
{
    memset(table, 0, sizeof *table);
    table->memory = memory;
    table->buckets = table->inline_buckets;
    table->bucket_count = PCCL_TABLE_INLINE;
}

void pccl_table_fini(struct pccl_table *table)
{
    if (table->buckets != table->inline_buckets)
        pccl_release(table->memory, table->buckets, table->bucket_count * sizeof *table->buckets);
    pccl_table_init(table, table->memory);
}

static void grow(struct pccl_table *table)
{
    if (table->count < table->bucket_count || table->bucket_count > UINT32_MAX / 2)
        return;
    uint32_t bucket_count = table->bucket_count * 2;
    struct pccl_node **buckets = pccl_allocate(table->memory, bucket_count * sizeof *buckets);
    if (buckets == NULL)
        return;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        struct pccl_node *next;
        for (struct pccl_node *node = table->buckets[i]; node != NULL; node = next) {
            next = node->next;
            struct pccl_node **head = &buckets[bucket_of(node->key, bucket_count)];
            node->next = *head;
            *head = node;
        }
    }
    if (table->buckets != table->inline_buckets)
        pccl_release(table->memory, table->buckets, table->bucket_count * sizeof *table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
}

void pccl_table_insert(struct pccl_table *table, struct pccl_node *node, uint64_t key)
{
    grow(table);
    struct pccl_node **head = &table->buckets[bucket_of(key, table->bucket_count)];
    node->key = key;
    node->next = *head;
    *head = node;
    table->count++;
}

void pccl_table_remove(struct pccl_table *table, struct pccl_node *node)
{
    struct pccl_node **at = &table->buckets[bucket_of(node->key, table->bucket_count)];
    while (*at != NULL && *at != node)
        at = &(*at)->next;
    PCCL_ASSERT(*at == node);
    *at = node->next;
    node->next = NULL;
    table->count--;
}

static struct pccl_node *skip_to_key(struct pccl_node *node, uint64_t key)
{
    while (node != NULL && node->key != key)
        node = node->next;
    return node;
}

struct pccl_node *pccl_table_find(const struct pccl_table *table, uint64_t key)
{
    return skip_to_key(table->buckets[bucket_of(key, table->bucket_count)], key);
}

struct pccl_node *pccl_table_find_next(const struct pccl_node *node) { return skip_to_key(node->next, node->key); }

static struct pccl_node *first_from(const struct pccl_table *table, uint32_t bucket)
{
    for (; bucket < table->bucket_count; bucket++)
        if (table->buckets[bucket] != NULL)
            return table->buckets[bucket];
    return NULL;
}

struct pccl_node *pccl_table_first(const struct pccl_table *table) { return first_from(table, 0); }

struct pccl_node *pccl_table_after(const struct pccl_table *table, const struct pccl_node *node)
{
    if (node->next != NULL)
        return node->next;
    return first_from(table, bucket_of(node->key, table->bucket_count) + 1);
}

/* The finaliser of splitmix64. */
uint64_t pccl_hash_u64(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}
