/* All operations and lanes of a peer. Passes each event of the driver to the transfers and lanes it affects. */
#include "collective/internal.h"

#include <string.h>

struct pccl_exchange *pccl_exchange_create(const struct pccl_exchange_config *config, const struct pccl_memory *memory,
                                           const struct pccl_exchange_effects *effects)
{
    struct pccl_exchange *exchange = pccl_allocate(memory, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->config = *config;
    exchange->memory = *memory;
    exchange->effects = *effects;
    pccl_hash_key_init(&exchange->hash, config->hash_seed);
    pccl_table_init(&exchange->lanes, &exchange->memory, &exchange->hash);
    pccl_table_init(&exchange->transfers, &exchange->memory, &exchange->hash);
    pccl_table_init(&exchange->ended, &exchange->memory, &exchange->hash);
    pccl_list_init(&exchange->ended_list);
    pccl_list_init(&exchange->wanting);
    pccl_list_init(&exchange->resting);
    pccl_scratch_init(&exchange->scratch, config->scratch_bytes_max, &exchange->memory);
    pccl_backup_pool_init(&exchange->backups, &exchange->memory);
    return exchange;
}

static void forget_others(struct pccl_exchange *exchange)
{
    PCCL_ASSERT(exchange->transfers.count == 0);
    pccl_lanes_free(exchange);
    pccl_instances_forget(exchange);
}

void pccl_exchange_destroy(struct pccl_exchange *exchange)
{
    if (exchange == NULL)
        return;
    forget_others(exchange);
    pccl_release(&exchange->memory, exchange->members, exchange->member_capacity * sizeof *exchange->members);
    pccl_table_fini(&exchange->lanes);
    pccl_table_fini(&exchange->transfers);
    pccl_table_fini(&exchange->ended);
    pccl_scratch_fini(&exchange->scratch);
    pccl_backup_pool_fini(&exchange->backups);
    struct pccl_memory memory = exchange->memory;
    pccl_release(&memory, exchange, sizeof *exchange);
}

void pccl_exchange_rename(struct pccl_exchange *exchange, const struct pccl_id *self)
{
    forget_others(exchange);
    exchange->config.self = *self;
    exchange->view = (struct pccl_epoch){0, 0};
    exchange->member_count = 0;
}

void pccl_exchange_set_time(struct pccl_exchange *exchange, uint64_t now_us)
{
    exchange->now_us = now_us;
    exchange->kept_bytes = 0;
}

void pccl_exchange_admit(struct pccl_exchange *exchange, const struct pccl_id *members, uint32_t count)
{
    struct pccl_id *kept =
        pccl_grow(&exchange->memory, exchange->members, &exchange->member_capacity, count, sizeof *kept);
    if (kept == NULL)
        return; /* lanes in use keep their reserved room; the others must share the rest */
    memcpy(kept, members, count * sizeof *kept);
    exchange->members = kept;
    exchange->member_count = count;
    pccl_lanes_admit(exchange);
}

/* ---- operations ---- */

/*
 * Processes the buffered announcements from all members of the view. A member with a different plan may have sent one
 * even if this peer's plan has no link to it.
 */
static void take_announcements(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        struct pccl_msg_ready ready;
        if (pccl_lane_take_ready(lane, transfer, &ready))
            (void)pccl_agree_take_ready(transfer, lane, &ready);
        pccl_lane_tidy(lane);
    }
}

enum pccl_status pccl_exchange_start(struct pccl_exchange *exchange, const struct pccl_transfer_config *config,
                                     struct pccl_transfer **transfer, struct pccl_text *reason)
{
    if (pccl_transfer_find(exchange, &config->instance) != NULL)
        return pccl_fail(reason, PCCL_ARGUMENT, "an operation with the same tag is already running");
    struct pccl_transfer *made;
    enum pccl_status status = pccl_transfer_make(exchange, config, &made, reason);
    if (status != PCCL_OK)
        return status;
    *transfer = made;
    if (pccl_epoch_compare(&made->config->view, &exchange->view) > 0) {
        exchange->view = made->config->view;
        pccl_lanes_forget_views(exchange);
    }
    pccl_lanes_begin(made);
    pccl_transfer_widen(made);
    take_announcements(made);
    for (uint32_t i = 0; i < made->outgoing_count; i++)
        pccl_flow_allow(&made->flows[i]);
    return PCCL_OK;
}

void pccl_exchange_stop(struct pccl_exchange *exchange, struct pccl_transfer *transfer, bool committed)
{
    PCCL_ASSERT(transfer->exchange == exchange && transfer->ended != NULL && exchange->transfers.count > 0);
    if (!committed)
        pccl_transfer_restore(transfer);
    pccl_lanes_forget(exchange, &transfer->config->instance);
    pccl_instance_end(exchange, transfer->ended, &transfer->config->instance);
    transfer->ended = NULL;
    pccl_transfer_end(transfer);
    pccl_exchange_widen(exchange);
}

/* Keeps the messages that other peers have already sent for the next view. */
void pccl_exchange_break_off(struct pccl_exchange *exchange, struct pccl_transfer *transfer)
{
    PCCL_ASSERT(transfer->exchange == exchange && exchange->transfers.count > 0);
    pccl_transfer_restore(transfer);
    pccl_transfer_end(transfer);
    pccl_exchange_widen(exchange);
}

void pccl_exchange_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    PCCL_ASSERT(pccl_transfer_find(exchange, instance) == NULL);
    pccl_lanes_forget(exchange, instance);
    if (pccl_instance_has_ended(exchange, instance))
        return;
    struct pccl_ended *ended = pccl_allocate(&exchange->memory, sizeof *ended);
    if (ended != NULL) /* without the record, late data would be buffered as if the operation had not started yet */
        pccl_instance_end(exchange, ended, instance);
}

void pccl_exchange_continue(struct pccl_exchange *exchange)
{
    const struct pccl_list_node *last = exchange->resting.previous;
    exchange->kept_bytes = 0;
    for (bool more = !pccl_list_is_empty(&exchange->resting); more;) {
        struct pccl_list_node *node = exchange->resting.next;
        more = node != last; /* transfers that pause again are appended after `last` */
        pccl_list_remove(node);
        pccl_transfer_widen(PCCL_CONTAINER_OF(node, struct pccl_transfer, resting));
    }
}

void *pccl_transfer_user(const struct pccl_transfer *transfer) { return transfer->config->user; }

bool pccl_transfer_is_at_rest(const struct pccl_transfer *transfer) { return transfer->stage == PCCL_TRANSFER_AT_REST; }

bool pccl_transfer_is_sending(const struct pccl_transfer *transfer)
{
    return !pccl_list_is_empty(&transfer->departures);
}

struct pccl_traffic pccl_transfer_traffic(const struct pccl_transfer *transfer) { return transfer->traffic; }

bool pccl_transfer_shares_lines(const struct pccl_transfer *transfer)
{
    return pccl_plan_shares_lines(&transfer->plan);
}

/* ---- connections ---- */

/*
 * Sends READY again, because it may have been lost with a connection. The sender cannot finish without it, even if this
 * transfer is done and needs no more data.
 */
static void tell_again(struct pccl_flow *flow)
{
    if (flow->outgoing && (flow->agreed || !pccl_transfer_is_send(flow->transfer)))
        return;
    flow->tell = true;
    pccl_flow_wake(flow);
}

struct pccl_lane *pccl_exchange_connected(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing,
                                          void *user)
{
    struct pccl_lane *lane = pccl_lane_get(exchange, peer, outgoing);
    if (lane == NULL)
        return NULL;
    lane->user = user;
    lane->connections++;
    for (struct pccl_list_node *node = lane->flows.next; node != &lane->flows; node = node->next)
        tell_again(PCCL_CONTAINER_OF(node, struct pccl_flow, on_lane));
    if (!pccl_list_is_empty(&lane->queue))
        exchange->effects.writable(exchange->effects.context, user);
    return lane;
}

static bool is_under_way(const struct pccl_flow *flow)
{
    return !flow->transfer->failed && (flow->outgoing || flow->transfer->stage == PCCL_TRANSFER_MOVING);
}

/*
 * Returns true if the flow may lose bytes when its lane loses a connection. A sender cannot know before the outcome
 * whether the bytes that the kernel accepted were received, so an outgoing flow may always lose bytes. A receiver has
 * all data that was sent over a complete connection.
 */
static bool relies_on(const struct pccl_flow *flow, bool complete)
{
    if (complete && !flow->outgoing)
        return false;
    if (pccl_transfer_is_send(flow->transfer) && (flow->outgoing ? flow->begun == 0 : !flow->agreed))
        return false; /* no data has been sent, and READY is repeated on the next connection */
    return is_under_way(flow);
}

void pccl_exchange_rejected(struct pccl_lane *lane, const struct pccl_text *reason)
{
    for (struct pccl_list_node *node = lane->flows.next; node != &lane->flows; node = node->next) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(node, struct pccl_flow, on_lane);
        if (is_under_way(flow))
            pccl_transfer_fail(flow->transfer, PCCL_CLASS_INTERNAL, "%s", reason->bytes);
    }
}

void pccl_exchange_disconnected(struct pccl_lane *lane, bool complete)
{
    PCCL_ASSERT(lane->connections > 0);
    lane->connections--;
    for (struct pccl_list_node *node = lane->flows.next; node != &lane->flows; node = node->next) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(node, struct pccl_flow, on_lane);
        if (relies_on(flow, complete))
            pccl_transfer_fail(flow->transfer, PCCL_CLASS_PEER_LOST, "lost a connection %s peer %s",
                               lane->outgoing ? "to" : "from", pccl_id_str(&lane->peer));
        else
            tell_again(flow);
    }
    if (lane->connections == 0) /* the lane's connections are gone, and the sender's operation fails with them */
        pccl_lane_drop(lane);
    pccl_lane_tidy(lane);
}

uint64_t pccl_exchange_room(const struct pccl_exchange *exchange) { return exchange->room; }

size_t pccl_exchange_scratch_bytes(const struct pccl_exchange *exchange, size_t *peak)
{
    if (peak != NULL)
        *peak = exchange->scratch.peak_bytes;
    return exchange->scratch.used_bytes;
}

size_t pccl_exchange_early_bytes(const struct pccl_exchange *exchange) { return exchange->early_bytes; }
