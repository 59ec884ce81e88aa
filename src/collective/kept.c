/*
 * Announcements: READY of operations that have not been started here, by the lane that is to carry
 * the data.
 */
#include "collective/kept.h"

static struct pccl_kept *kept_of(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_kept, by_instance);
}

struct pccl_kept *pccl_kept_find(struct pccl_lane *lane, const struct pccl_instance *instance)
{
    struct pccl_table_node *node =
        pccl_table_find(&lane->kept_by_instance, pccl_instance_hash(lane->held.hash, instance));
    while (node != NULL && !pccl_instance_equal(&kept_of(node)->ready.instance, instance))
        node = pccl_table_find_next(node);
    return node != NULL ? kept_of(node) : NULL;
}

/* The same announcement may come over several connections, in any order. */
static void renew(struct pccl_kept *kept, const struct pccl_msg_ready *ready)
{
    int order = pccl_epoch_compare(&ready->view, &kept->ready.view);
    if (order > 0 || (order == 0 && ready->granted > kept->ready.granted))
        kept->ready = *ready;
}

bool pccl_kept_add(struct pccl_exchange *exchange, struct pccl_lane *lane, const struct pccl_msg_ready *ready,
                   bool *first)
{
    PCCL_ASSERT(lane->outgoing);
    struct pccl_kept *kept = pccl_kept_find(lane, &ready->instance);
    *first = kept == NULL;
    if (kept != NULL) {
        renew(kept, ready);
        return true;
    }
    if (lane->kept_by_instance.count >= PCCL_OPS_PER_PEER_MAX)
        pccl_kept_free(exchange, lane, PCCL_CONTAINER_OF(lane->kept.next, struct pccl_kept, link));
    kept = pccl_allocate(&exchange->memory, sizeof *kept);
    if (kept == NULL)
        return false;
    kept->ready = *ready;
    pccl_list_append(&lane->kept, &kept->link);
    pccl_table_insert(&lane->kept_by_instance, &kept->by_instance,
                      pccl_instance_hash(lane->held.hash, &ready->instance));
    return true;
}

void pccl_kept_free(struct pccl_exchange *exchange, struct pccl_lane *lane, struct pccl_kept *kept)
{
    PCCL_ASSERT(lane->kept_by_instance.count > 0);
    pccl_list_remove(&kept->link);
    pccl_table_remove(&lane->kept_by_instance, &kept->by_instance);
    pccl_release(&exchange->memory, kept, sizeof *kept);
}

void pccl_kept_forget_before(struct pccl_exchange *exchange, struct pccl_lane *lane, const struct pccl_epoch *view)
{
    struct pccl_list_node *after;
    for (struct pccl_list_node *link = lane->kept.next; link != &lane->kept; link = after) {
        after = link->next;
        struct pccl_kept *kept = PCCL_CONTAINER_OF(link, struct pccl_kept, link);
        if (pccl_view_is_past(&kept->ready.instance, &kept->ready.view, view))
            pccl_kept_free(exchange, lane, kept);
    }
}
