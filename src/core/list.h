/* Doubly linked lists with a head of the same kind; an item that is in no list is linked to itself. */
#ifndef PCCL_CORE_LIST_H
#define PCCL_CORE_LIST_H

#include "core/base.h"

struct pccl_link {
    struct pccl_link *previous, *next;
};

static inline void pccl_link_init(struct pccl_link *link) { link->previous = link->next = link; }
static inline bool pccl_link_is_alone(const struct pccl_link *link) { return link->next == link; }
static inline void pccl_link_append(struct pccl_link *head, struct pccl_link *link)
{
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}
static inline void pccl_link_remove(struct pccl_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    pccl_link_init(link);
}

#endif
