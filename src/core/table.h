/*
 * Intrusive hash table from 64-bit keys to nodes. Several nodes may share a key. Insertion never fails: if there is no
 * memory for more buckets, the chains grow. Buckets depend on a random key of the table's owner, so peers cannot force
 * nodes into one bucket. Iteration is in order of insertion, independent of that key.
 */
#ifndef PCCL_CORE_TABLE_H
#define PCCL_CORE_TABLE_H

#include "core/base.h"
#include "core/hash.h"
#include "core/list.h"
#include "core/memory.h"

struct pccl_table_node {
    struct pccl_table_node *next;
    uint64_t key;
    struct pccl_list_node in_order;
};

enum { PCCL_TABLE_INLINE = 8 };
struct pccl_table {
    const struct pccl_memory *memory;
    const struct pccl_hash_key *hash; /* borrowed, like `memory` */
    struct pccl_table_node **buckets; /* owned; `inline_buckets` or allocated */
    struct pccl_list_node nodes;      /* in order of insertion */
    uint32_t bucket_count;            /* a power of two */
    uint32_t shift;                   /* shift for pccl_hash_place that matches bucket_count */
    uint32_t count;
    struct pccl_table_node *inline_buckets[PCCL_TABLE_INLINE];
};

/*
 * Initializes a table, which must not move afterward because it may point into itself. fini does not access the nodes.
 */
void pccl_table_init(struct pccl_table *table, const struct pccl_memory *memory, const struct pccl_hash_key *hash);
void pccl_table_fini(struct pccl_table *table);
void pccl_table_insert(struct pccl_table *table, struct pccl_table_node *node, uint64_t key);
void pccl_table_remove(struct pccl_table *table, struct pccl_table_node *node);
struct pccl_table_node *pccl_table_find(const struct pccl_table *table, uint64_t key);
/* Returns the next node with the same key as `node`, or NULL. */
struct pccl_table_node *pccl_table_find_next(const struct pccl_table_node *node);
/*
 * Return the first node, and the node after `node`, in order of insertion; NULL at the end. A node may be removed once
 * its successor has been read.
 */
struct pccl_table_node *pccl_table_first(const struct pccl_table *table);
struct pccl_table_node *pccl_table_after(const struct pccl_table *table, const struct pccl_table_node *node);

#endif
