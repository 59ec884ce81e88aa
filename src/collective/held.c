/*
 * Keeps what others sent ahead (ahead.c) for stripes that are not open here, by lane and operation,
 * within bounds.
 *
 * All lanes together are bounded, too. A lane of a member of our view, or one that operations have
 * received over, has room for what its sender may send ahead, whatever others do. So newcomers
 * never block members, and what is sent ahead never blocks what follows it on the connection. All
 * other lanes (their peers' view may be ahead of ours) share what is left; while nothing is left
 * they are not read, and nothing here waits for them.
 */
#include "collective/held.h"

struct pccl_held *pccl_held_find(const struct pccl_lane *lane, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&lane->held, pccl_instance_hash(lane->held.hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_held *held = PCCL_CONTAINER_OF(node, struct pccl_held, by_instance);
        if (pccl_instance_equal(&held->instance, instance))
            return held;
    }
    return NULL;
}

/* Segments are mostly taken in the order of the list. */
static struct pccl_held_segment *find_segment(struct pccl_held *held, uint64_t stripe)
{
    struct pccl_list_node *link = held->segments.next;
    while (link != &held->segments && pccl_held_segment_of(link)->stripe < stripe)
        link = link->next;
    return link != &held->segments && pccl_held_segment_of(link)->stripe == stripe ? pccl_held_segment_of(link) : NULL;
}

/*
 * The last segment up to this stripe, or the head. Searched from the end, as they come in about
 * that order.
 */
static struct pccl_list_node *place_of(struct pccl_held *held, uint64_t stripe)
{
    struct pccl_list_node *link = held->segments.previous;
    while (link != &held->segments && pccl_held_segment_of(link)->stripe > stripe)
        link = link->previous;
    return link;
}

static bool is_there(struct pccl_held *held, uint64_t stripe)
{
    struct pccl_list_node *place = place_of(held, stripe);
    return place != &held->segments && pccl_held_segment_of(place)->stripe == stripe;
}

static struct pccl_held *make_held(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                   const struct pccl_msg_data *data)
{
    struct pccl_held *held = pccl_allocate(&exchange->memory, sizeof *held);
    if (held == NULL)
        return NULL;
    held->exchange = exchange;
    held->lane = lane;
    held->instance = data->instance;
    held->view = data->view;
    pccl_list_init(&held->segments);
    pccl_table_insert(&lane->held, &held->by_instance, pccl_instance_hash(lane->held.hash, &held->instance));
    return held;
}

static void release_if_empty(struct pccl_held *held)
{
    if (!pccl_list_is_empty(&held->segments))
        return;
    pccl_table_remove(&held->lane->held, &held->by_instance);
    pccl_release(&held->exchange->memory, held, sizeof *held);
}

static size_t cost_of(size_t bytes, uint32_t segments) { return bytes + (size_t)segments * PCCL_AHEAD_SEGMENT_COST; }

/* The room that the lane has for itself, whatever others hold. */
static size_t own_cost(const struct pccl_lane *lane) { return lane->used || lane->member ? PCCL_AHEAD_OWN_COST : 0; }

/*
 * The caller has taken its scratch and its arrival. Frees the operation's record, too, if this was
 * its last segment.
 */
static void remove_segment(struct pccl_held_segment *segment)
{
    struct pccl_held *held = segment->held;
    size_t bytes = pccl_scratch_size(segment->length);
    PCCL_ASSERT(held->lane->ahead_segments > 0 && held->exchange->ahead_segments > 0);
    PCCL_ASSERT(held->lane->ahead_bytes >= bytes && held->exchange->ahead_bytes >= bytes);
    if (cost_of(held->lane->ahead_bytes, held->lane->ahead_segments) > own_cost(held->lane))
        held->exchange->room++;
    held->lane->ahead_bytes -= bytes;
    held->lane->ahead_segments--;
    held->exchange->ahead_bytes -= bytes;
    held->exchange->ahead_segments--;
    pccl_list_remove(&segment->link);
    pccl_release(&held->exchange->memory, segment, sizeof *segment);
    release_if_empty(held);
}

static void detach(struct pccl_arrival *arrival)
{
    arrival->held = NULL;
    arrival->payload = NULL;
}

static void drop_segment(struct pccl_held_segment *segment)
{
    if (segment->arrival != NULL)
        detach(segment->arrival);
    pccl_scratch_give(&segment->held->exchange->scratch, segment->scratch);
    remove_segment(segment);
}

void pccl_held_drop(struct pccl_held *held)
{
    PCCL_ASSERT(!pccl_list_is_empty(&held->segments));
    for (bool last = false; !last;) { /* with the last one it is gone */
        last = held->segments.next == held->segments.previous;
        drop_segment(pccl_held_segment_of(held->segments.next));
    }
}

/* Whoever takes part in an era has left the one before it. */
static bool is_past(const struct pccl_held *held, const struct pccl_transfer *transfer)
{
    const struct pccl_instance *then = &held->instance, *now = &transfer->instance;
    return pccl_view_is_past(then, &held->view, &transfer->view) || then->joint < now->joint || then->sync < now->sync;
}

void pccl_held_drop_past(struct pccl_lane *lane, const struct pccl_transfer *transfer)
{
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&lane->held); node != NULL; node = next) {
        next = pccl_table_after(&lane->held, node);
        struct pccl_held *held = PCCL_CONTAINER_OF(node, struct pccl_held, by_instance);
        if (is_past(held, transfer))
            pccl_held_drop(held);
    }
}

void pccl_held_forget_lane(struct pccl_lane *lane)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&lane->held)) != NULL)
        pccl_held_drop(PCCL_CONTAINER_OF(node, struct pccl_held, by_instance));
}

void pccl_held_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    if (exchange->ahead_bytes == 0)
        return;
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        struct pccl_held *held = pccl_held_find(lane, instance);
        if (held != NULL)
            pccl_held_drop(held);
    }
}

/* ---- bounds ---- */

/* What is held beyond what each lane has for itself, once this lane holds so much. */
static size_t spare_cost(const struct pccl_exchange *exchange, const struct pccl_lane *growing, size_t cost)
{
    size_t spare = 0;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        const struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        size_t held = lane == growing ? cost : cost_of(lane->ahead_bytes, lane->ahead_segments);
        size_t own = own_cost(lane);
        spare += lane->outgoing || held < own ? 0 : held - own;
    }
    return spare;
}

/* Does this lane's next segment fit into what is held in all of them? */
static bool has_room(const struct pccl_exchange *exchange, const struct pccl_lane *lane, size_t bytes)
{
    size_t cost = cost_of(lane->ahead_bytes + bytes, lane->ahead_segments + 1);
    return cost_of(exchange->ahead_bytes + bytes, exchange->ahead_segments + 1) <= PCCL_AHEAD_SPARE_COST ||
           cost <= own_cost(lane) || spare_cost(exchange, lane, cost) <= PCCL_AHEAD_SPARE_COST;
}

void pccl_held_own(struct pccl_exchange *exchange, struct pccl_lane *lane, bool used, bool member)
{
    size_t before = own_cost(lane);
    lane->used = used;
    lane->member = member;
    if (own_cost(lane) > before && lane->ahead_segments > 0)
        exchange->room++; /* what it holds is its own from now on */
}

/* ---- what comes, and what is taken ---- */

/* false: memory is short. */
static bool add_segment(struct pccl_held *held, const struct pccl_msg_data *data, struct pccl_arrival *arrival)
{
    struct pccl_exchange *exchange = held->exchange;
    struct pccl_held_segment *segment = pccl_allocate(&exchange->memory, sizeof *segment);
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
    pccl_list_append(place_of(held, data->stripe)->next, &segment->link);
    held->lane->ahead_bytes += bytes;
    held->lane->ahead_segments++;
    exchange->ahead_bytes += bytes;
    exchange->ahead_segments++;
    arrival->held = segment;
    arrival->payload = segment->scratch->bytes;
    return true;
}

enum pccl_status pccl_held_add(struct pccl_exchange *exchange, struct pccl_lane *lane, const struct pccl_msg_data *data,
                               struct pccl_arrival *arrival, struct pccl_text *reason)
{
    PCCL_ASSERT(!lane->outgoing);
    *arrival = (struct pccl_arrival){.length = data->length};
    struct pccl_held *held = pccl_held_find(lane, &data->instance);
    int order = held != NULL ? pccl_epoch_compare(&data->view, &held->view) : 0;
    if (order < 0)
        return PCCL_OK;
    if (order > 0) {
        pccl_held_drop(held);
        held = NULL;
    }
    if (held != NULL && is_there(held, data->stripe)) {
        pccl_text_format(reason, "peer %s sent the same segment twice: group %" PRIu64 ", ahead",
                         pccl_id_str(&lane->peer), data->stripe);
        return PCCL_MALFORMED;
    }
    bool fits_all = has_room(exchange, lane, pccl_scratch_size(data->length));
    if (!fits_all && !lane->used)
        return PCCL_LIMIT;
    if (!fits_all || lane->ahead_bytes + pccl_scratch_size(data->length) > PCCL_AHEAD_HELD_BYTES ||
        lane->ahead_segments == PCCL_AHEAD_HELD_SEGMENTS) {
        pccl_text_format(reason, "peer %s sent ahead more than the %u bytes and %u segments that may be held",
                         pccl_id_str(&lane->peer), PCCL_AHEAD_HELD_BYTES, PCCL_AHEAD_HELD_SEGMENTS);
        pccl_held_forget_lane(lane);
        return PCCL_MEMORY; /* not malformed: the sender may count less, because it knows of more ended operations */
    }
    if (held == NULL)
        held = make_held(exchange, lane, data);
    if (held != NULL && add_segment(held, data, arrival))
        return PCCL_OK;
    if (held != NULL)
        release_if_empty(held);
    pccl_text_format(reason, "out of memory for the data that peer %s sent ahead", pccl_id_str(&lane->peer));
    return PCCL_MEMORY;
}

bool pccl_held_take(struct pccl_lane *lane, const struct pccl_transfer *transfer, uint64_t stripe,
                    struct pccl_held_segment *taken)
{
    struct pccl_held *held = pccl_held_find(lane, &transfer->instance);
    bool is_later = held != NULL && !pccl_epoch_equal(&held->view, &transfer->view);
    struct pccl_held_segment *segment = held == NULL || is_later ? NULL : find_segment(held, stripe);
    if (segment == NULL)
        return false;
    if (segment->arrival != NULL)
        segment->arrival->held = NULL;
    *taken = *segment;
    remove_segment(segment);
    return true;
}

void pccl_held_received(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->held != NULL && arrival->held->arrival == arrival);
    arrival->held->arrival = NULL;
    detach(arrival);
}

void pccl_held_dropped(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->held != NULL && arrival->held->arrival == arrival);
    drop_segment(arrival->held);
}
