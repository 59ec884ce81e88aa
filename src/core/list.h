/*
 * Doubly linked lists with a head of the same kind; an item that is in no list is linked to itself.
 */
#ifndef PCCL_CORE_LIST_H
#define PCCL_CORE_LIST_H

#include "core/base.h"

struct pccl_list_node {
    struct pccl_list_node *previous, *next;
};

static inline void pccl_list_init(struct pccl_list_node *link) { link->previous = link->next = link; }
static inline bool pccl_list_is_empty(const struct pccl_list_node *link) { return link->next == link; }
static inline void pccl_list_append(struct pccl_list_node *head, struct pccl_list_node *link)
{
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}
static inline void pccl_list_remove(struct pccl_list_node *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    pccl_list_init(link);
}

#endif
