/*
 * All operations and lanes of one peer: passes each event of the driver to the transfers and lanes
 * that it concerns. Knows no schedule.
 */
#include "collective/exchange.h"

#include "collective/agree.h"
#include "collective/ahead.h"
#include "collective/held.h"
#include "collective/kept.h"
#include "collective/lane.h"
#include "collective/messages.h"
#include "collective/outcome.h"
#include "collective/transfer.h"

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
    pccl_scratch_init(&exchange->scratch, config->scratch_bytes_max, &exchange->memory);
    pccl_backup_pool_init(&exchange->backups, &exchange->memory);
    return exchange;
}

/* ---- operations that have ended ---- */

static struct pccl_ended *find_ended(const struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->ended, pccl_instance_hash(&exchange->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_ended *ended = PCCL_CONTAINER_OF(node, struct pccl_ended, by_instance);
        if (pccl_instance_equal(&ended->instance, instance))
            return ended;
    }
    return NULL;
}

static void forget_ended(struct pccl_exchange *exchange, struct pccl_ended *ended)
{
    pccl_list_remove(&ended->link);
    pccl_table_remove(&exchange->ended, &ended->by_instance);
    pccl_release(&exchange->memory, ended, sizeof *ended);
}

static void forget_oldest_ended(struct pccl_exchange *exchange)
{
    forget_ended(exchange, PCCL_CONTAINER_OF(exchange->ended_list.next, struct pccl_ended, link));
}

static void remember_ended(struct pccl_exchange *exchange, struct pccl_ended *ended,
                           const struct pccl_instance *instance)
{
    ended->instance = *instance;
    pccl_list_append(&exchange->ended_list, &ended->link);
    pccl_table_insert(&exchange->ended, &ended->by_instance, pccl_instance_hash(&exchange->hash, instance));
    if (exchange->ended.count > PCCL_OPS_PER_PEER_MAX)
        forget_oldest_ended(exchange);
}

static void forget_others(struct pccl_exchange *exchange)
{
    PCCL_ASSERT(exchange->transfers.count == 0);
    pccl_lanes_free(exchange);
    while (!pccl_list_is_empty(&exchange->ended_list))
        forget_oldest_ended(exchange);
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

void pccl_exchange_set_time(struct pccl_exchange *exchange, uint64_t now_us) { exchange->now_us = now_us; }

void pccl_exchange_admit(struct pccl_exchange *exchange, const struct pccl_id *members, uint32_t count)
{
    struct pccl_id *kept =
        pccl_grow(&exchange->memory, exchange->members, &exchange->member_capacity, count, sizeof *kept);
    if (kept == NULL)
        return; /* lanes in use keep their own room; the others have to share the rest */
    memcpy(kept, members, count * sizeof *kept);
    exchange->members = kept;
    exchange->member_count = count;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        pccl_held_own(exchange, lane, lane->used, pccl_lane_is_of_member(exchange, lane));
    }
}

/* ---- operations ---- */

static struct pccl_transfer *find_transfer(const struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->transfers, pccl_instance_hash(&exchange->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_transfer *transfer = PCCL_CONTAINER_OF(node, struct pccl_transfer, by_instance);
        if (pccl_instance_equal(&transfer->instance, instance))
            return transfer;
    }
    return NULL;
}

/*
 * Takes the kept announcements of all members of the view: a member that plans differently may have
 * sent one although our plan has no link to it.
 */
static void take_announcements(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        struct pccl_kept *kept = pccl_kept_find(lane, &transfer->instance);
        if (kept == NULL)
            continue;
        int order = pccl_epoch_compare(&kept->ready.view, &transfer->view);
        if (order > 0)
            continue;
        struct pccl_msg_ready ready = kept->ready;
        pccl_kept_free(exchange, lane, kept);
        if (order == 0)
            (void)pccl_agree_take_ready(transfer, lane, &ready);
        pccl_lane_tidy(exchange, lane);
    }
}

/* Forgets the announcements of views that have passed. */
static void forget_announcements(struct pccl_exchange *exchange)
{
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        pccl_kept_forget_before(exchange, lane, &exchange->view);
        pccl_lane_tidy(exchange, lane);
    }
}

enum pccl_status pccl_exchange_start(struct pccl_exchange *exchange, const struct pccl_transfer_config *config,
                                     struct pccl_transfer **transfer, struct pccl_text *reason)
{
    if (find_transfer(exchange, &config->instance) != NULL) {
        pccl_text_format(reason, "this operation runs already");
        return PCCL_ARGUMENT;
    }
    struct pccl_transfer *made;
    enum pccl_status status = pccl_transfer_make(exchange, config, &made, reason);
    if (status != PCCL_OK)
        return status;
    *transfer = made;
    pccl_table_insert(&exchange->transfers, &made->by_instance, pccl_instance_hash(&exchange->hash, &made->instance));
    if (pccl_epoch_compare(&made->view, &exchange->view) > 0) {
        exchange->view = made->view;
        forget_announcements(exchange);
    }
    pccl_ahead_start(made);
    pccl_transfer_widen(made);
    take_announcements(made);
    for (uint32_t i = 0; i < made->outgoing_count; i++)
        pccl_ahead_allow(&made->flows[i]);
    return PCCL_OK;
}

void pccl_exchange_stop(struct pccl_exchange *exchange, struct pccl_transfer *transfer, bool committed)
{
    PCCL_ASSERT(transfer->exchange == exchange && transfer->ended != NULL && exchange->transfers.count > 0);
    if (!committed)
        pccl_transfer_restore(transfer);
    pccl_table_remove(&exchange->transfers, &transfer->by_instance);
    pccl_held_forget(exchange, &transfer->instance);
    remember_ended(exchange, transfer->ended, &transfer->instance);
    transfer->ended = NULL;
    pccl_transfer_free(transfer);
}

/* What others have said and sent in the view to come is kept. */
void pccl_exchange_break_off(struct pccl_exchange *exchange, struct pccl_transfer *transfer)
{
    PCCL_ASSERT(transfer->exchange == exchange && exchange->transfers.count > 0);
    pccl_transfer_restore(transfer);
    pccl_table_remove(&exchange->transfers, &transfer->by_instance);
    pccl_transfer_free(transfer);
}

void pccl_exchange_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    PCCL_ASSERT(find_transfer(exchange, instance) == NULL);
    pccl_held_forget(exchange, instance);
    if (find_ended(exchange, instance) != NULL)
        return;
    struct pccl_ended *ended = pccl_allocate(&exchange->memory, sizeof *ended);
    if (ended != NULL) /* without the record, late data would be held as if the operation were still to start */
        remember_ended(exchange, ended, instance);
}

void pccl_exchange_stays(struct pccl_exchange *exchange, struct pccl_transfer *transfer)
{
    PCCL_ASSERT(transfer->exchange == exchange && transfer->stay_due);
    transfer->stay_due = false;
    if (!transfer->failed)
        pccl_transfer_stays(transfer);
}

void *pccl_transfer_user(const struct pccl_transfer *transfer) { return transfer->user; }

bool pccl_transfer_is_at_rest(const struct pccl_transfer *transfer) { return transfer->at_rest; }

bool pccl_transfer_is_sending(const struct pccl_transfer *transfer) { return transfer->departures != NULL; }

struct pccl_traffic pccl_transfer_traffic(const struct pccl_transfer *transfer) { return transfer->traffic; }

bool pccl_transfer_shares_lines(const struct pccl_transfer *transfer)
{
    return pccl_plan_shares_lines(&transfer->plan);
}

/* ---- connections ---- */

/*
 * READY may have been lost with a connection. Even if this transfer is done and needs no more data,
 * the sender cannot be done without it.
 */
static void tell_again(struct pccl_flow *flow)
{
    if (flow->outgoing)
        return;
    flow->tell = true;
    pccl_flow_wake(flow);
}

enum pccl_status pccl_exchange_connected(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_get(exchange, peer, outgoing);
    if (lane == NULL)
        return PCCL_MEMORY;
    lane->connections++;
    for (struct pccl_list_node *link = lane->flows.next; link != &lane->flows; link = link->next)
        tell_again(PCCL_CONTAINER_OF(link, struct pccl_flow, on_lane));
    if (!pccl_list_is_empty(&lane->queue))
        exchange->effects.writable(exchange->effects.context, peer, outgoing);
    return PCCL_OK;
}

/*
 * Whether the flow may lose bytes when its lane loses a connection. Bytes that the kernel took have
 * not necessarily been received: a sender cannot tell until the outcome is known, and the receiver
 * may have closed its end before it began to wait.
 */
static bool relies_on(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    return !transfer->failed && (flow->outgoing || !transfer->done);
}

void pccl_exchange_rejected(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing,
                            const struct pccl_text *reason)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane == NULL)
        return;
    for (struct pccl_list_node *link = lane->flows.next; link != &lane->flows; link = link->next) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(link, struct pccl_flow, on_lane);
        if (relies_on(flow))
            pccl_outcome_fail(flow->transfer, PCCL_CLASS_INTERNAL, "%s", reason->bytes);
    }
}

void pccl_exchange_disconnected(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane == NULL || lane->connections == 0)
        return;
    lane->connections--;
    for (struct pccl_list_node *link = lane->flows.next; link != &lane->flows; link = link->next) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(link, struct pccl_flow, on_lane);
        if (relies_on(flow))
            pccl_outcome_fail(flow->transfer, PCCL_CLASS_PEER_LOST, "a connection %s peer %s was lost",
                              outgoing ? "to" : "from", pccl_id_str(&lane->peer));
        else
            tell_again(flow);
    }
    if (lane->connections ==
        0) /* it came over connections that are gone, and the sender fails its operation for that */
        pccl_held_forget_lane(lane);
    pccl_lane_tidy(exchange, lane);
}

bool pccl_exchange_next(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing,
                        struct pccl_departure *departure)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    *departure = (struct pccl_departure){.payload = NULL};
    while (lane != NULL && !pccl_list_is_empty(&lane->queue)) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(lane->queue.next, struct pccl_flow, in_queue);
        pccl_list_remove(&flow->in_queue);
        bool filled = pccl_flow_has_something(flow) && pccl_messages_next(flow, departure);
        if (!filled)
            continue;
        if (pccl_flow_has_something(flow))
            pccl_list_append(&lane->queue, &flow->in_queue);
        return true;
    }
    return false;
}

bool pccl_exchange_awaits_credit(struct pccl_exchange *exchange, const struct pccl_id *peer)
{
    const struct pccl_lane *lane = pccl_lane_find(exchange, peer, true);
    if (lane == NULL)
        return false;
    for (struct pccl_list_node *link = lane->flows.next; link != &lane->flows; link = link->next)
        if (pccl_flow_awaits_credit(PCCL_CONTAINER_OF(link, struct pccl_flow, on_lane)))
            return true;
    return false;
}

void pccl_exchange_sent(struct pccl_exchange *exchange, struct pccl_departure *departure)
{
    (void)exchange;
    pccl_transfer_sent(departure);
}

/* READY of an operation that does not run here, or runs in another view. */
static enum pccl_status keep_ready(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                   const struct pccl_msg_ready *ready, struct pccl_text *reason)
{
    if (pccl_view_is_past(&ready->instance, &ready->view, &exchange->view) ||
        find_ended(exchange, &ready->instance) != NULL)
        return PCCL_OK;
    bool first = false;
    if (!pccl_kept_add(exchange, lane, ready, &first)) {
        /* Dropping it would leave that peer waiting forever. */
        pccl_text_format(reason, "out of memory for the announcements of peer %s", pccl_id_str(&lane->peer));
        return PCCL_MEMORY;
    }
    if (first && find_transfer(exchange, &ready->instance) == NULL)
        exchange->effects.announced(exchange->effects.context, &lane->peer, ready);
    return PCCL_OK;
}

static enum pccl_status receive_ready(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                      const struct pccl_msg_ready *ready, struct pccl_text *reason)
{
    struct pccl_transfer *transfer = find_transfer(exchange, &ready->instance);
    int order = transfer != NULL ? pccl_epoch_compare(&ready->view, &transfer->view) : 1;
    if (order > 0)
        return keep_ready(exchange, lane, ready, reason);
    if (order < 0 || pccl_agree_take_ready(transfer, lane, ready))
        return PCCL_OK;
    pccl_text_format(reason, "peer %s expects data that this peer does not send", pccl_id_str(&lane->peer));
    return PCCL_MALFORMED;
}

/* DATA of an operation that does not run here, or not in that view: not yet, or not any more. */
static enum pccl_status receive_early(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                      const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                      struct pccl_text *reason)
{
    if (data->step != 0 || pccl_view_is_past(&data->instance, &data->view, &exchange->view) ||
        find_ended(exchange, &data->instance) != NULL)
        return PCCL_OK;
    return pccl_held_add(exchange, lane, data, arrival, reason);
}

bool pccl_exchange_is_due(struct pccl_exchange *exchange, const struct pccl_id *peer, const struct pccl_msg_data *data)
{
    const struct pccl_lane *lane = pccl_lane_find(exchange, peer, false);
    return lane == NULL || lane->used || lane->member ||
           pccl_view_is_past(&data->instance, &data->view, &exchange->view) ||
           find_transfer(exchange, &data->instance) != NULL || find_ended(exchange, &data->instance) != NULL;
}

static enum pccl_status receive_data(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                     const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                     struct pccl_text *reason)
{
    *arrival = (struct pccl_arrival){.length = data->length};
    struct pccl_transfer *transfer = find_transfer(exchange, &data->instance);
    if (transfer == NULL)
        return receive_early(exchange, lane, data, arrival, reason);
    if (!pccl_epoch_equal(&transfer->view, &data->view)) {
        bool is_later = pccl_epoch_compare(&data->view, &transfer->view) > 0; /* it may begin again in that view */
        return is_later ? receive_early(exchange, lane, data, arrival, reason) : PCCL_OK;
    }
    if (transfer->failed)
        return PCCL_OK;
    struct pccl_flow *flow = pccl_flow_find(transfer, lane);
    if (flow != NULL && pccl_ahead_is_foreign(flow, data)) {
        if (!transfer->done) /* else the member before it in the ring reports that */
            pccl_ahead_fail(transfer, &lane->peer, data->stripe, data->length);
        return PCCL_OK;
    }
    if (flow != NULL)
        return pccl_messages_receive(flow, data, arrival, reason);
    if (transfer->plan.long_path && data->step == 0)
        return PCCL_OK; /* it plans the operation differently: the member before it in the ring reports that */
    pccl_text_format(reason, "peer %s sent data that this peer does not expect", pccl_id_str(&lane->peer));
    return PCCL_MALFORMED;
}

enum pccl_status pccl_exchange_receive(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing,
                                       const struct pccl_msg *msg, struct pccl_arrival *arrival,
                                       struct pccl_text *reason)
{
    *arrival = (struct pccl_arrival){.length = 0};
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane != NULL && outgoing && msg->type == PCCL_MSG_ready)
        return receive_ready(exchange, lane, &msg->as.ready, reason);
    if (lane != NULL && !outgoing && msg->type == PCCL_MSG_data)
        return receive_data(exchange, lane, &msg->as.data, arrival, reason);
    pccl_text_format(reason, "peer %s sent %s on a connection %s it", pccl_id_str(peer), pccl_wire_name(msg->type),
                     outgoing ? "to" : "from");
    return PCCL_MALFORMED;
}

void pccl_exchange_received(struct pccl_exchange *exchange, struct pccl_arrival *arrival)
{
    (void)exchange;
    if (arrival->held != NULL)
        pccl_held_received(arrival);
    else
        pccl_transfer_received(arrival);
}

void pccl_exchange_dropped(struct pccl_exchange *exchange, struct pccl_departure *departure,
                           struct pccl_arrival *arrival)
{
    (void)exchange;
    if (departure != NULL)
        pccl_departure_release(departure);
    if (arrival != NULL && arrival->held != NULL)
        pccl_held_dropped(arrival);
    else if (arrival != NULL)
        pccl_arrival_release(arrival);
}

uint64_t pccl_exchange_room(const struct pccl_exchange *exchange) { return exchange->room; }

size_t pccl_exchange_scratch_bytes(const struct pccl_exchange *exchange, size_t *peak)
{
    if (peak != NULL)
        *peak = exchange->scratch.peak_bytes;
    return exchange->scratch.used_bytes;
}

size_t pccl_exchange_ahead_bytes(const struct pccl_exchange *exchange) { return exchange->ahead_bytes; }
