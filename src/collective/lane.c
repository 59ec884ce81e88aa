/* Lanes: the turns of the operations that have something to send, and what was announced but is not started here. */
#include "collective/internal.h"

static uint64_t key_of(const struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    return pccl_id_hash(&exchange->hash, peer) ^ outgoing;
}

struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_node *node = pccl_table_find(&exchange->lanes, key_of(exchange, peer, outgoing));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        if (lane->outgoing == outgoing && pccl_id_equal(&lane->peer, peer))
            return lane;
    }
    return NULL;
}

bool pccl_lane_is_of_member(const struct pccl_exchange *exchange, const struct pccl_lane *lane)
{
    for (uint32_t i = 0; i < exchange->member_count; i++)
        if (pccl_id_equal(&exchange->members[i], &lane->peer))
            return true;
    return false;
}

struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane != NULL)
        return lane;
    lane = pccl_allocate(&exchange->memory, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->peer = *peer;
    lane->outgoing = outgoing;
    lane->member = pccl_lane_is_of_member(exchange, lane);
    pccl_link_init(&lane->channels);
    pccl_link_init(&lane->queue);
    pccl_link_init(&lane->kept);
    pccl_table_init(&lane->kept_by_instance, &exchange->memory, &exchange->hash);
    pccl_table_init(&lane->ahead, &exchange->memory, &exchange->hash);
    pccl_table_insert(&exchange->lanes, &lane->by_peer, key_of(exchange, peer, outgoing));
    return lane;
}

static void lane_free(struct pccl_exchange *exchange, struct pccl_lane *lane)
{
    while (!pccl_link_is_alone(&lane->kept))
        pccl_kept_free(exchange, lane, PCCL_CONTAINER_OF(lane->kept.next, struct pccl_kept, link));
    pccl_ahead_forget_lane(lane);
    pccl_table_fini(&lane->kept_by_instance);
    pccl_table_fini(&lane->ahead);
    pccl_table_remove(&exchange->lanes, &lane->by_peer);
    pccl_release(&exchange->memory, lane, sizeof *lane);
}

void pccl_lane_tidy(struct pccl_exchange *exchange, struct pccl_lane *lane)
{
    if (lane != NULL && lane->connections == 0 && pccl_link_is_alone(&lane->channels) &&
        pccl_link_is_alone(&lane->kept))
        lane_free(exchange, lane);
}

void pccl_lanes_free(struct pccl_exchange *exchange)
{
    struct pccl_node *node;
    while ((node = pccl_table_first(&exchange->lanes)) != NULL) {
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        PCCL_ASSERT(pccl_link_is_alone(&lane->channels));
        lane_free(exchange, lane);
    }
}

void pccl_channel_wake(struct pccl_channel *channel)
{
    struct pccl_transfer *transfer = channel->transfer;
    if (transfer->failed || !pccl_link_is_alone(&channel->in_queue) || !pccl_channel_has_something(channel))
        return;
    struct pccl_lane *lane = channel->lane;
    pccl_link_append(&lane->queue, &channel->in_queue);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    if (lane->connections > 0)
        effects->writable(effects->context, &lane->peer, lane->outgoing);
}

/* ---- what was announced ---- */

static struct pccl_kept *kept_of(struct pccl_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_kept, by_instance);
}

struct pccl_kept *pccl_kept_find(struct pccl_lane *lane, const struct pccl_instance *instance)
{
    struct pccl_node *node = pccl_table_find(&lane->kept_by_instance, pccl_instance_hash(lane->ahead.hash, instance));
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
    pccl_link_append(&lane->kept, &kept->link);
    pccl_table_insert(&lane->kept_by_instance, &kept->by_instance,
                      pccl_instance_hash(lane->ahead.hash, &ready->instance));
    return true;
}

void pccl_kept_free(struct pccl_exchange *exchange, struct pccl_lane *lane, struct pccl_kept *kept)
{
    PCCL_ASSERT(lane->kept_by_instance.count > 0);
    pccl_link_remove(&kept->link);
    pccl_table_remove(&lane->kept_by_instance, &kept->by_instance);
    pccl_release(&exchange->memory, kept, sizeof *kept);
}

void pccl_kept_forget_before(struct pccl_exchange *exchange, const struct pccl_epoch *view)
{
    struct pccl_node *next;
    for (struct pccl_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        struct pccl_link *after;
        for (struct pccl_link *link = lane->kept.next; link != &lane->kept; link = after) {
            after = link->next;
            struct pccl_kept *kept = PCCL_CONTAINER_OF(link, struct pccl_kept, link);
            if (pccl_epoch_compare(&kept->ready.view, view) < 0)
                pccl_kept_free(exchange, lane, kept);
        }
        pccl_lane_tidy(exchange, lane);
    }
}
