/* Circular doubly linked lists whose head is a node like the items. A node that is in no list is linked to itself. */
#ifndef PCCL_CORE_LIST_H
#define PCCL_CORE_LIST_H

#include "core/base.h"

struct pccl_list_node {
    struct pccl_list_node *previous, *next;
};

/*
 * Returns the item that contains `node` as `member`, or NULL if the node is the head, which is both after the last item
 * and before the first.
 */
#define PCCL_LIST_ITEM(head, node, type, member) ((node) == (head) ? NULL : PCCL_CONTAINER_OF(node, type, member))

static inline void pccl_list_init(struct pccl_list_node *node) { node->previous = node->next = node; }
static inline bool pccl_list_is_empty(const struct pccl_list_node *node) { return node->next == node; }
static inline void pccl_list_append(struct pccl_list_node *head, struct pccl_list_node *node)
{
    node->previous = head->previous;
    node->next = head;
    head->previous->next = node;
    head->previous = node;
}
static inline void pccl_list_remove(struct pccl_list_node *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    pccl_list_init(node);
}

#endif
