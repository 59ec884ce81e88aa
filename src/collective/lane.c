/*
 * Lanes, and their buffered messages for operations that have not started here: READY on outgoing lanes, and early
 * segments (sending.c) on incoming ones. This file does not interpret the messages.
 *
 * Buffers are limited for each lane and in total. A lane has reserved room for the early data of its sender if its peer
 * is a member of this peer's view, or if an operation has received on it. So newcomers never block members, and early
 * data never blocks later messages on the same connection. All other lanes, for example of peers with a later view,
 * share the rest. While the rest is full, these lanes are not read; no operation here waits for them.
 */
#include "collective/internal.h"

static struct pccl_lane *lane_of(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
}

static struct pccl_buffered *held_of(struct pccl_list_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_buffered, node);
}

static struct pccl_buffered_segment *segment_of(struct pccl_list_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_buffered_segment, node);
}

/* Returns the messages buffered for the operation, or NULL. */
static struct pccl_buffered *find_held(const struct pccl_lane *lane, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&lane->held, pccl_instance_hash(lane->held.hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_buffered *held = PCCL_CONTAINER_OF(node, struct pccl_buffered, by_instance);
        if (pccl_instance_equal(&held->instance, instance))
            return held;
    }
    return NULL;
}

/* Creates an empty buffer for the operation's messages. Returns NULL if out of memory. */
static struct pccl_buffered *make_held(struct pccl_lane *lane, const struct pccl_instance *instance,
                                       const struct pccl_epoch *view)
{
    struct pccl_buffered *held = pccl_allocate(&lane->exchange->memory, sizeof *held);
    if (held == NULL)
        return NULL;
    held->lane = lane;
    held->instance = *instance;
    held->view = *view;
    pccl_list_init(&held->segments);
    pccl_list_append(&lane->buffered_list, &held->node);
    pccl_table_insert(&lane->held, &held->by_instance, pccl_instance_hash(lane->held.hash, instance));
    return held;
}

static void release_held(struct pccl_buffered *held)
{
    PCCL_ASSERT(pccl_list_is_empty(&held->segments) && held->lane->held.count > 0);
    pccl_list_remove(&held->node);
    pccl_table_remove(&held->lane->held, &held->by_instance);
    pccl_release(&held->lane->exchange->memory, held, sizeof *held);
}

/* ---- READY ---- */

bool pccl_lane_buffer_ready(struct pccl_lane *lane, const struct pccl_msg_ready *ready, bool *first)
{
    PCCL_ASSERT(lane->outgoing);
    struct pccl_buffered *held = find_held(lane, &ready->instance);
    *first = held == NULL;
    if (held == NULL) {
        if (lane->held.count >= PCCL_OPS_PER_PEER_MAX)
            release_held(held_of(lane->buffered_list.next));
        held = make_held(lane, &ready->instance, &ready->view);
        if (held == NULL)
            return false;
        held->ready = *ready;
        return true;
    }
    /* The same announcement may arrive on several connections, in any order. */
    int order = pccl_epoch_compare(&ready->view, &held->view);
    if (order > 0 || (order == 0 && ready->granted > held->ready.granted)) {
        held->view = ready->view;
        held->ready = *ready;
    }
    return true;
}

bool pccl_lane_take_ready(const struct pccl_lane *lane, const struct pccl_transfer *transfer,
                          struct pccl_msg_ready *ready)
{
    struct pccl_buffered *held = lane->outgoing ? find_held(lane, &transfer->config->instance) : NULL;
    int order = held != NULL ? pccl_epoch_compare(&held->view, &transfer->config->view) : 1;
    if (order > 0)
        return false;
    *ready = held->ready;
    release_held(held);
    return order == 0;
}

void pccl_lanes_forget_views(struct pccl_exchange *exchange)
{
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = lane_of(node);
        struct pccl_list_node *after;
        for (struct pccl_list_node *held = lane->buffered_list.next; lane->outgoing && held != &lane->buffered_list;
             held = after) {
            after = held->next;
            if (pccl_view_is_past(&held_of(held)->instance, &held_of(held)->view, &exchange->view))
                release_held(held_of(held));
        }
        pccl_lane_tidy(lane);
    }
}

/* ---- segments: dropping them ---- */

static size_t cost_of(size_t bytes, uint32_t segments) { return bytes + (size_t)segments * PCCL_EARLY_SEGMENT_COST; }

/* Returns the reserved room of the lane, which other lanes cannot use. */
static size_t own_cost(const struct pccl_lane *lane) { return lane->used || lane->member ? PCCL_EARLY_OWN_COST : 0; }

/* Removes a segment after the caller has taken its scratch and arrival. */
static void remove_segment(struct pccl_buffered_segment *segment)
{
    struct pccl_lane *lane = segment->held->lane;
    struct pccl_exchange *exchange = lane->exchange;
    size_t bytes = pccl_scratch_size(segment->length);
    PCCL_ASSERT(lane->early_segments > 0 && exchange->early_segments > 0);
    PCCL_ASSERT(lane->early_bytes >= bytes && exchange->early_bytes >= bytes);
    if (cost_of(lane->early_bytes, lane->early_segments) > own_cost(lane))
        exchange->room++;
    lane->early_bytes -= bytes;
    lane->early_segments--;
    exchange->early_bytes -= bytes;
    exchange->early_segments--;
    pccl_list_remove(&segment->node);
    pccl_release(&exchange->memory, segment, sizeof *segment);
}

static void release_if_empty(struct pccl_buffered *held)
{
    if (pccl_list_is_empty(&held->segments))
        release_held(held);
}

static void detach(struct pccl_arrival *arrival)
{
    arrival->held = NULL;
    arrival->payload = NULL;
}

static void drop_segment(struct pccl_buffered_segment *segment)
{
    if (segment->arrival != NULL)
        detach(segment->arrival);
    pccl_scratch_give(&segment->held->lane->exchange->scratch, segment->scratch);
    remove_segment(segment);
}

static void drop(struct pccl_buffered *held)
{
    while (!pccl_list_is_empty(&held->segments))
        drop_segment(segment_of(held->segments.next));
    release_held(held);
}

void pccl_lane_drop(struct pccl_lane *lane)
{
    while (!lane->outgoing && !pccl_list_is_empty(&lane->buffered_list))
        drop(held_of(lane->buffered_list.next));
}

void pccl_lanes_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    if (exchange->early_bytes == 0)
        return;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        struct pccl_buffered *held = lane_of(node)->outgoing ? NULL : find_held(lane_of(node), instance);
        if (held != NULL)
            drop(held);
    }
}

/* ---- segments: limits ---- */

/* Returns the buffered cost that exceeds the reserved rooms, assuming that the lane `growing` has this cost. */
static size_t spare_cost(const struct pccl_exchange *exchange, const struct pccl_lane *growing, size_t cost)
{
    size_t spare = 0;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        const struct pccl_lane *lane = lane_of(node);
        size_t held = lane == growing ? cost : cost_of(lane->early_bytes, lane->early_segments);
        size_t own = own_cost(lane);
        spare += lane->outgoing || held < own ? 0 : held - own;
    }
    return spare;
}

/* Returns true if another segment of this lane fits the limits. */
static bool has_room(const struct pccl_lane *lane, size_t bytes)
{
    const struct pccl_exchange *exchange = lane->exchange;
    size_t cost = cost_of(lane->early_bytes + bytes, lane->early_segments + 1);
    return cost_of(exchange->early_bytes + bytes, exchange->early_segments + 1) <= PCCL_EARLY_SPARE_COST ||
           cost <= own_cost(lane) || spare_cost(exchange, lane, cost) <= PCCL_EARLY_SPARE_COST;
}

/* Sets the two conditions under which the lane has reserved room. */
static void set_owner(struct pccl_lane *lane, bool used, bool member)
{
    size_t before = own_cost(lane);
    lane->used = used;
    lane->member = member;
    if (own_cost(lane) > before && lane->early_segments > 0)
        lane->exchange->room++; /* its segments now count toward the reserved room */
}

static bool is_of_member(const struct pccl_exchange *exchange, const struct pccl_lane *lane)
{
    return pccl_id_find(exchange->members, exchange->member_count, &lane->peer) < exchange->member_count;
}

void pccl_lane_use(struct pccl_lane *lane) { set_owner(lane, true, lane->member); }

void pccl_lanes_admit(struct pccl_exchange *exchange)
{
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node))
        set_owner(lane_of(node), lane_of(node)->used, is_of_member(exchange, lane_of(node)));
}

/* ---- segments: adding and taking ---- */

/*
 * Returns the last segment up to this stripe, or the head. Searches from the end, because segments arrive roughly in
 * order.
 */
static struct pccl_list_node *place_of(struct pccl_buffered *held, uint64_t stripe)
{
    struct pccl_list_node *node = held->segments.previous;
    while (node != &held->segments && segment_of(node)->stripe > stripe)
        node = node->previous;
    return node;
}

static bool is_there(struct pccl_buffered *held, uint64_t stripe)
{
    struct pccl_list_node *place = place_of(held, stripe);
    return place != &held->segments && segment_of(place)->stripe == stripe;
}

/* Adds a segment, which becomes the destination of the arrival. Returns false if out of memory. */
static bool add_segment(struct pccl_buffered *held, const struct pccl_msg_data *data, struct pccl_arrival *arrival)
{
    struct pccl_exchange *exchange = held->lane->exchange;
    struct pccl_buffered_segment *segment = pccl_allocate(&exchange->memory, sizeof *segment);
    if (segment == NULL)
        return false;
    segment->scratch = pccl_scratch_take(&exchange->scratch, data->length);
    if (segment->scratch == NULL) {
        pccl_release(&exchange->memory, segment, sizeof *segment);
        return false;
    }
    size_t bytes = pccl_scratch_size(data->length);
    segment->held = held;
    segment->stripe = data->stripe;
    segment->length = data->length;
    segment->arrival = arrival;
    pccl_list_append(place_of(held, data->stripe)->next, &segment->node);
    held->lane->early_bytes += bytes;
    held->lane->early_segments++;
    exchange->early_bytes += bytes;
    exchange->early_segments++;
    arrival->held = segment;
    arrival->payload = segment->scratch->bytes;
    return true;
}

enum pccl_status pccl_lane_buffer_data(struct pccl_lane *lane, const struct pccl_msg_data *data,
                                       struct pccl_arrival *arrival, struct pccl_text *reason)
{
    PCCL_ASSERT(!lane->outgoing);
    *arrival = (struct pccl_arrival){.length = data->length};
    struct pccl_buffered *held = find_held(lane, &data->instance);
    int order = held != NULL ? pccl_epoch_compare(&data->view, &held->view) : 0;
    if (order < 0)
        return PCCL_OK;
    if (order > 0) {
        drop(held);
        held = NULL;
    }
    if (held != NULL && is_there(held, data->stripe))
        return pccl_fail(reason, PCCL_MALFORMED, "peer %s sent the early data of stripe %" PRIu64 " twice",
                         pccl_id_str(&lane->peer), data->stripe);
    bool fits_all = has_room(lane, pccl_scratch_size(data->length));
    if (!fits_all && !lane->used)
        return PCCL_LIMIT;
    if (!fits_all || lane->early_bytes + pccl_scratch_size(data->length) > PCCL_EARLY_BUFFER_BYTES ||
        lane->early_segments == PCCL_EARLY_BUFFER_SEGMENTS) {
        pccl_text_format(reason, "peer %s sent too much early data: expected at most %u bytes and %u segments",
                         pccl_id_str(&lane->peer), PCCL_EARLY_BUFFER_BYTES, PCCL_EARLY_BUFFER_SEGMENTS);
        pccl_lane_drop(lane);
        return PCCL_MEMORY; /* not malformed: the sender may already know that more operations have ended */
    }
    if (held == NULL)
        held = make_held(lane, &data->instance, &data->view);
    if (held != NULL && add_segment(held, data, arrival))
        return PCCL_OK;
    if (held != NULL)
        release_if_empty(held);
    return pccl_fail(reason, PCCL_MEMORY, "out of memory for early data from peer %s", pccl_id_str(&lane->peer));
}

bool pccl_lane_take_data(struct pccl_lane *lane, const struct pccl_transfer *transfer, uint64_t stripe,
                         struct pccl_buffered_segment *taken)
{
    struct pccl_buffered *held = find_held(lane, &transfer->config->instance);
    if (held == NULL || !pccl_epoch_equal(&held->view, &transfer->config->view))
        return false;                                  /* the segments are of a later view */
    struct pccl_list_node *node = held->segments.next; /* segments are usually taken in this order */
    while (node != &held->segments && segment_of(node)->stripe < stripe)
        node = node->next;
    if (node == &held->segments || segment_of(node)->stripe != stripe)
        return false;
    *taken = *segment_of(node);
    if (taken->arrival != NULL)
        taken->arrival->held = NULL;
    remove_segment(segment_of(node));
    release_if_empty(held);
    return true;
}

void pccl_buffered_received(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->held != NULL && arrival->held->arrival == arrival);
    arrival->held->arrival = NULL;
    detach(arrival);
}

void pccl_buffered_dropped(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->held != NULL && arrival->held->arrival == arrival);
    struct pccl_buffered *held = arrival->held->held;
    drop_segment(arrival->held);
    release_if_empty(held);
}

/* ---- segments: comparison with the plan ---- */

static bool fits(const struct pccl_flow *flow, uint64_t stripe, uint32_t length)
{
    if (stripe >= flow->transfer->plan.stripes)
        return false;
    const struct pccl_plan *plan = pccl_plan_of(flow->transfer, stripe);
    uint32_t number = pccl_flow_first_piece(flow, stripe);
    return pccl_plan_has_segment(plan, stripe, number) &&
           length == pccl_plan_bytes(plan, 0, pccl_plan_segment(plan, stripe, number).count);
}

static void fail_as_foreign(struct pccl_transfer *transfer, const struct pccl_lane *lane, uint64_t stripe,
                            uint32_t length)
{
    pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH,
                       "peer %s sent %u bytes (stripe %" PRIu64
                       ") that peer %s does not expect: the arguments of the two peers differ",
                       pccl_id_str(&lane->peer), length, stripe, pccl_id_str(&transfer->exchange->config.self));
}

bool pccl_flow_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data)
{
    struct pccl_transfer *transfer = flow->transfer;
    if (!transfer->plan.long_path || data->step != 0 || fits(flow, data->stripe, data->length))
        return false;
    if (transfer->stage == PCCL_TRANSFER_MOVING) /* otherwise the member before it in the ring reports the difference */
        fail_as_foreign(transfer, flow->lane, data->stripe, data->length);
    return true;
}

/* Returns a segment that a peer with this plan would not send early, or NULL. */
static const struct pccl_buffered_segment *find_foreign(const struct pccl_flow *flow, struct pccl_buffered *held)
{
    for (struct pccl_list_node *node = held->segments.next; node != &held->segments; node = node->next) {
        const struct pccl_buffered_segment *segment = segment_of(node);
        if (segment->stripe >= pccl_early_stripes(&flow->transfer->plan) ||
            !fits(flow, segment->stripe, segment->length))
            return segment;
    }
    return NULL;
}

/*
 * Checks the buffered segments when a transfer starts. Early data from a peer that does not send to this peer under
 * this plan proves nothing; if that peer has a different plan, the member before it in the ring detects the difference.
 */
static void begin_with(struct pccl_transfer *transfer, struct pccl_buffered *held)
{
    const struct pccl_flow *flow = pccl_flow_find(transfer, held->lane);
    int order = pccl_epoch_compare(&held->view, &transfer->config->view);
    if (order > 0)
        return; /* the peer has a later view, which aborts or restarts the operation */
    if (order < 0 || flow == NULL) {
        drop(held);
        return;
    }
    const struct pccl_buffered_segment *foreign = find_foreign(flow, held);
    if (foreign != NULL && !transfer->failed)
        fail_as_foreign(transfer, held->lane, foreign->stripe, foreign->length);
}

/*
 * Returns true if the operation is over for a peer that starts this transfer, because it belongs to a past view or an
 * earlier era.
 */
static bool is_past(const struct pccl_buffered *held, const struct pccl_transfer *transfer)
{
    const struct pccl_instance *then = &held->instance, *now = &transfer->config->instance;
    return pccl_view_is_past(then, &held->view, &transfer->config->view) || then->joint < now->joint ||
           then->sync < now->sync;
}

void pccl_lanes_begin(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    if (exchange->early_bytes == 0)
        return;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        struct pccl_lane *lane = lane_of(node);
        struct pccl_list_node *next;
        for (struct pccl_list_node *old = lane->buffered_list.next; !lane->outgoing && old != &lane->buffered_list;
             old = next) {
            next = old->next;
            if (is_past(held_of(old), transfer))
                drop(held_of(old));
        }
        struct pccl_buffered *held = lane->outgoing ? NULL : find_held(lane, &transfer->config->instance);
        if (held != NULL)
            begin_with(transfer, held);
    }
}

/* ---- lanes ---- */

struct pccl_flow *pccl_flow_find(struct pccl_transfer *transfer, const struct pccl_lane *lane)
{
    for (uint32_t i = 0; i < transfer->flow_count; i++)
        if (transfer->flows[i].lane == lane)
            return &transfer->flows[i];
    return NULL;
}

struct pccl_flow *pccl_flow_to(const struct pccl_transfer *transfer, uint32_t rank)
{
    uint32_t i = 0;
    while (i < transfer->outgoing_count && transfer->flows[i].other != rank)
        i++;
    PCCL_ASSERT(i < transfer->outgoing_count);
    return &transfer->flows[i];
}

static uint64_t key_of(const struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    return pccl_id_hash(&exchange->hash, peer) ^ outgoing;
}

struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->lanes, key_of(exchange, peer, outgoing));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_lane *lane = lane_of(node);
        if (lane->outgoing == outgoing && pccl_id_equal(&lane->peer, peer))
            return lane;
    }
    return NULL;
}

struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane != NULL)
        return lane;
    lane = pccl_allocate(&exchange->memory, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->exchange = exchange;
    lane->peer = *peer;
    lane->outgoing = outgoing;
    lane->member = is_of_member(exchange, lane);
    pccl_list_init(&lane->flows);
    pccl_list_init(&lane->queue);
    pccl_list_init(&lane->buffered_list);
    pccl_table_init(&lane->held, &exchange->memory, &exchange->hash);
    pccl_table_insert(&exchange->lanes, &lane->by_peer, key_of(exchange, peer, outgoing));
    return lane;
}

static void free_lane(struct pccl_lane *lane)
{
    struct pccl_exchange *exchange = lane->exchange;
    while (!pccl_list_is_empty(&lane->buffered_list))
        drop(held_of(lane->buffered_list.next));
    pccl_table_fini(&lane->held);
    pccl_table_remove(&exchange->lanes, &lane->by_peer);
    pccl_release(&exchange->memory, lane, sizeof *lane);
}

void pccl_lane_tidy(struct pccl_lane *lane)
{
    if (lane != NULL && lane->connections == 0 && pccl_list_is_empty(&lane->flows) &&
        (!lane->outgoing || pccl_list_is_empty(&lane->buffered_list)))
        free_lane(lane);
}

void pccl_lanes_free(struct pccl_exchange *exchange)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&exchange->lanes)) != NULL) {
        PCCL_ASSERT(pccl_list_is_empty(&lane_of(node)->flows));
        free_lane(lane_of(node));
    }
}
