/*
 * Queues of waiting newcomers (PROTOCOL 11), one for each group, with counts by address. The cost of a newcomer depends
 * only on the queue of its group, and a queue is examined only after it has changed, so a crowd of strangers cannot
 * take up the master's time or other newcomers' places.
 */
#include "master/membership_internal.h"
#include "master/output.h"

/* ---- lookup and creation ---- */

struct pccl_queue *pccl_master_find_queue(const struct pccl_master *m, uint32_t group_number)
{
    struct pccl_table_node *node = pccl_table_find(&m->queues, group_number);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_queue, by_number) : NULL;
}

struct pccl_site *pccl_master_find_site(const struct pccl_master *m, const struct pccl_address *address)
{
    struct pccl_table_node *node = pccl_table_find(&m->sites, pccl_address_site(&m->hash, address));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_site *site = PCCL_CONTAINER_OF(node, struct pccl_site, by_address);
        if (pccl_address_same_site(&site->address, address))
            return site;
    }
    return NULL;
}

static void drop_if_empty(struct pccl_master *m, struct pccl_queue *queue, struct pccl_site *site)
{
    if (queue != NULL && queue->count == 0) {
        pccl_list_remove(&queue->stale);
        pccl_table_remove(&m->queues, &queue->by_number);
        pccl_release(&m->memory, queue, sizeof *queue);
    }
    if (site != NULL && site->count == 0) {
        pccl_table_remove(&m->sites, &site->by_address);
        pccl_release(&m->memory, site, sizeof *site);
    }
}

static struct pccl_queue *find_or_make_queue(struct pccl_master *m, uint32_t group_number)
{
    struct pccl_queue *queue = pccl_master_find_queue(m, group_number);
    if (queue != NULL)
        return queue;
    queue = pccl_allocate(&m->memory, sizeof *queue);
    if (queue == NULL)
        return NULL;
    queue->number = group_number;
    queue->due_us = UINT64_MAX;
    pccl_list_init(&queue->newcomers);
    pccl_list_init(&queue->stale);
    pccl_table_insert(&m->queues, &queue->by_number, group_number);
    return queue;
}

static struct pccl_site *find_or_make_site(struct pccl_master *m, const struct pccl_address *address)
{
    struct pccl_site *site = pccl_master_find_site(m, address);
    if (site != NULL)
        return site;
    site = pccl_allocate(&m->memory, sizeof *site);
    if (site == NULL)
        return NULL;
    site->address = *address;
    pccl_table_insert(&m->sites, &site->by_address, pccl_address_site(&m->hash, address));
    return site;
}

/* ---- contents ---- */

static void recheck(struct pccl_master *m, struct pccl_queue *queue)
{
    pccl_list_remove(&queue->stale);
    pccl_list_append(&m->stale_queues, &queue->stale);
}

void pccl_master_recheck_queue(struct pccl_master *m, uint32_t group_number)
{
    struct pccl_queue *queue = pccl_master_find_queue(m, group_number);
    if (queue != NULL)
        recheck(m, queue);
}

void pccl_master_recheck_all_queues(struct pccl_master *m)
{
    for (struct pccl_table_node *node = pccl_table_first(&m->queues); node != NULL;
         node = pccl_table_after(&m->queues, node))
        recheck(m, PCCL_CONTAINER_OF(node, struct pccl_queue, by_number));
}

bool pccl_master_enqueue(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_address *from)
{
    PCCL_ASSERT(remote->state == PCCL_REMOTE_PENDING && remote->queue == NULL);
    struct pccl_queue *queue = find_or_make_queue(m, remote->group_number);
    struct pccl_site *site = find_or_make_site(m, from);
    if (queue == NULL || site == NULL) {
        drop_if_empty(m, queue, site);
        return false;
    }
    remote->queue = queue;
    remote->site = site;
    pccl_list_append(&queue->newcomers, &remote->in_queue);
    queue->count++;
    site->count++;
    m->newcomer_count++;
    pccl_master_arm(m, remote->log_us);
    recheck(m, queue);
    return true;
}

void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_queue *queue = remote->queue;
    struct pccl_site *site = remote->site;
    if (queue == NULL)
        return;
    pccl_list_remove(&remote->in_queue);
    PCCL_ASSERT(queue->count > 0 && site->count > 0 && m->newcomer_count > 0);
    remote->queue = NULL;
    remote->site = NULL;
    remote->warming = remote->eligible = false;
    queue->count--;
    site->count--;
    m->newcomer_count--;
    recheck(m, queue);
    drop_if_empty(m, queue, site);
}
