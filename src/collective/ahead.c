/*
 * Sending ahead, on long paths: half a round trip would pass until the READY of the receiver is here, so the sender
 * begins without it, with its own part of the first groups (step 0), and with nothing else. The receiver holds what
 * comes for a group that it has not opened, until it does, or until the operation is over.
 *
 * Nobody has compared descriptors when such a segment is sent. So its receiver may fold what does not belong together;
 * but all later steps wait for READY, and no peer is done before those who receive from it have said READY and agree:
 * each member of the ring is compared by the one before it, and that one's word is needed for a success. What
 * shows before that, by lengths or numbers that do not fit, is the same mismatch.
 *
 * What a sender promises itself is bounded for each lane, and free again when the receiver has opened all the groups,
 * or the operation is over. The receiver may learn later that it is over, or not before the next view or era, so it
 * holds more. Should that not be enough, it gives up all it holds of the lane together with the connection: the sender
 * fails whatever runs over it.
 *
 * All lanes together are bounded, too. One of a member of our view, or that operations have received over, has room for
 * what its sender may send ahead, whatever others do. So newcomers are not in the way of members, and what is sent
 * ahead never of what comes behind it on the connection. One of anybody else (whose view may be ahead of ours) shares
 * what is left over with others of the kind; it is not read while there is none, and nothing here waits for it.
 */
#include "collective/internal.h"

/* ---- sending ---- */

static size_t bytes_of(const struct pccl_plan *plan, uint64_t group, uint32_t number)
{
    struct pccl_segment segment = pccl_plan_segment(plan, group, number);
    return segment.count == 0 ? 0 : pccl_scratch_size(pccl_plan_bytes(plan, 0, segment.count));
}

uint64_t pccl_ahead_groups(const struct pccl_plan *plan)
{
    if (!plan->long_path)
        return 0;
    return pccl_min_u64(plan->groups,
                        PCCL_AHEAD_BYTES / pccl_scratch_size(pccl_plan_bytes(plan, 0, plan->segment_elements)));
}

void pccl_ahead_allow(struct pccl_channel *channel)
{
    const struct pccl_plan *plan = &channel->transfer->plan;
    struct pccl_lane *lane = channel->lane;
    if (channel->agreed || channel->transfer->failed)
        return;
    uint64_t groups = pccl_ahead_groups(plan);
    uint32_t number = 0;
    bool sends = pccl_plan_message(plan, plan->rank, channel->other, 0, &number);
    PCCL_ASSERT(sends);
    for (; channel->ahead < groups; channel->ahead++) {
        size_t bytes = bytes_of(plan, channel->ahead, number);
        uint32_t segments = bytes > 0;
        if (lane->ahead_bytes + bytes > PCCL_AHEAD_BYTES || lane->ahead_segments + segments > PCCL_AHEAD_SEGMENTS)
            break;
        lane->ahead_bytes += bytes;
        lane->ahead_segments += segments;
        channel->ahead_bytes += bytes;
        channel->ahead_segments += segments;
    }
    pccl_channel_wake(channel);
}

void pccl_ahead_agree(struct pccl_channel *channel, uint64_t granted)
{
    if (!channel->agreed) {
        PCCL_ASSERT(channel->transfer->unheard > 0);
        channel->agreed = true;
        channel->transfer->unheard--;
        channel->ahead = pccl_min_u64(channel->ahead, channel->begun); /* no more of it */
    }
    if (granted >= channel->ahead)
        pccl_ahead_give_back(channel);
}

void pccl_ahead_give_back(struct pccl_channel *channel)
{
    if (channel->ahead_bytes == 0)
        return;
    PCCL_ASSERT(channel->lane->ahead_bytes >= channel->ahead_bytes);
    channel->lane->ahead_bytes -= channel->ahead_bytes;
    channel->lane->ahead_segments -= channel->ahead_segments;
    channel->ahead_bytes = 0;
    channel->ahead_segments = 0;
}

/* ---- what is held ---- */

static struct pccl_ahead *find(const struct pccl_lane *lane, const struct pccl_instance *instance)
{
    struct pccl_node *node = pccl_table_find(&lane->ahead, pccl_instance_hash(lane->ahead.hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_ahead *ahead = PCCL_CONTAINER_OF(node, struct pccl_ahead, by_instance);
        if (pccl_instance_equal(&ahead->instance, instance))
            return ahead;
    }
    return NULL;
}

static struct pccl_ahead_segment *segment_of(struct pccl_link *link)
{
    return PCCL_CONTAINER_OF(link, struct pccl_ahead_segment, link);
}

/* They are taken in the order in which they lie. */
static struct pccl_ahead_segment *find_segment(struct pccl_ahead *ahead, uint64_t group)
{
    struct pccl_link *link = ahead->segments.next;
    while (link != &ahead->segments && segment_of(link)->group < group)
        link = link->next;
    return link != &ahead->segments && segment_of(link)->group == group ? segment_of(link) : NULL;
}

/* The last one up to this group, or the head: they come in about that order. */
static struct pccl_link *place_of(struct pccl_ahead *ahead, uint64_t group)
{
    struct pccl_link *link = ahead->segments.previous;
    while (link != &ahead->segments && segment_of(link)->group > group)
        link = link->previous;
    return link;
}

static bool is_there(struct pccl_ahead *ahead, uint64_t group)
{
    struct pccl_link *place = place_of(ahead, group);
    return place != &ahead->segments && segment_of(place)->group == group;
}

static struct pccl_ahead *make_ahead(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                     const struct pccl_msg_data *data)
{
    struct pccl_ahead *ahead = pccl_allocate(&exchange->memory, sizeof *ahead);
    if (ahead == NULL)
        return NULL;
    ahead->exchange = exchange;
    ahead->lane = lane;
    ahead->instance = data->instance;
    ahead->view = data->view;
    pccl_link_init(&ahead->segments);
    pccl_table_insert(&lane->ahead, &ahead->by_instance, pccl_instance_hash(lane->ahead.hash, &ahead->instance));
    return ahead;
}

static void release_if_empty(struct pccl_ahead *ahead)
{
    if (!pccl_link_is_alone(&ahead->segments))
        return;
    pccl_table_remove(&ahead->lane->ahead, &ahead->by_instance);
    pccl_release(&ahead->exchange->memory, ahead, sizeof *ahead);
}

static size_t cost_of(size_t bytes, uint32_t segments) { return bytes + (size_t)segments * PCCL_AHEAD_SEGMENT_COST; }

/* What the lane has for itself, whatever others hold. */
static size_t own_cost(const struct pccl_lane *lane) { return lane->used || lane->member ? PCCL_AHEAD_OWN_COST : 0; }

/* The caller has its scratch and its arrival. What is held for the operation may end with it. */
static void remove_segment(struct pccl_ahead_segment *segment)
{
    struct pccl_ahead *ahead = segment->ahead;
    size_t bytes = pccl_scratch_size(segment->length);
    PCCL_ASSERT(ahead->lane->ahead_segments > 0 && ahead->exchange->ahead_segments > 0);
    if (cost_of(ahead->lane->ahead_bytes, ahead->lane->ahead_segments) > own_cost(ahead->lane))
        ahead->exchange->room++;
    ahead->lane->ahead_bytes -= bytes;
    ahead->lane->ahead_segments--;
    ahead->exchange->ahead_bytes -= bytes;
    ahead->exchange->ahead_segments--;
    pccl_link_remove(&segment->link);
    pccl_release(&ahead->exchange->memory, segment, sizeof *segment);
    release_if_empty(ahead);
}

static void detach(struct pccl_arrival *arrival)
{
    arrival->ahead = NULL;
    arrival->payload = NULL;
}

static void drop_segment(struct pccl_ahead_segment *segment)
{
    if (segment->arrival != NULL)
        detach(segment->arrival);
    pccl_scratch_give(&segment->ahead->exchange->scratch, segment->scratch);
    remove_segment(segment);
}

static void drop(struct pccl_ahead *ahead)
{
    for (bool last = false; !last;) { /* with the last one it is gone */
        last = ahead->segments.next == ahead->segments.previous;
        drop_segment(segment_of(ahead->segments.next));
    }
}

void pccl_ahead_forget_lane(struct pccl_lane *lane)
{
    struct pccl_node *node;
    while ((node = pccl_table_first(&lane->ahead)) != NULL)
        drop(PCCL_CONTAINER_OF(node, struct pccl_ahead, by_instance));
}

void pccl_ahead_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    if (exchange->ahead_bytes == 0)
        return;
    struct pccl_node *next;
    for (struct pccl_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        struct pccl_ahead *ahead = find(lane, instance);
        if (ahead != NULL)
            drop(ahead);
    }
}

/* ---- bounds ---- */

/* What is held beyond what each lane has for itself, once this lane holds so much. */
static size_t spare_cost(const struct pccl_exchange *exchange, const struct pccl_lane *growing, size_t cost)
{
    size_t spare = 0;
    for (struct pccl_node *node = pccl_table_first(&exchange->lanes); node != NULL;
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

uint64_t pccl_exchange_room(const struct pccl_exchange *exchange) { return exchange->room; }

void pccl_ahead_own(struct pccl_exchange *exchange, struct pccl_lane *lane, bool used, bool member)
{
    size_t before = own_cost(lane);
    lane->used = used;
    lane->member = member;
    if (own_cost(lane) > before && lane->ahead_segments > 0)
        exchange->room++; /* what it holds is its own from now on */
}

/* ---- receiving ---- */

/* false: memory is short. */
static bool add_segment(struct pccl_ahead *ahead, const struct pccl_msg_data *data, struct pccl_arrival *arrival)
{
    struct pccl_exchange *exchange = ahead->exchange;
    struct pccl_ahead_segment *segment = pccl_allocate(&exchange->memory, sizeof *segment);
    if (segment == NULL)
        return false;
    segment->scratch = pccl_scratch_take(&exchange->scratch, data->length);
    if (segment->scratch == NULL) {
        pccl_release(&exchange->memory, segment, sizeof *segment);
        return false;
    }
    size_t bytes = pccl_scratch_size(data->length);
    segment->ahead = ahead;
    segment->group = data->group;
    segment->length = data->length;
    segment->arrival = arrival;
    pccl_link_append(place_of(ahead, data->group)->next, &segment->link);
    ahead->lane->ahead_bytes += bytes;
    ahead->lane->ahead_segments++;
    exchange->ahead_bytes += bytes;
    exchange->ahead_segments++;
    arrival->ahead = segment;
    arrival->payload = segment->scratch->bytes;
    return true;
}

enum pccl_status pccl_ahead_hold(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                 const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                 struct pccl_text *words)
{
    *arrival = (struct pccl_arrival){.length = data->length};
    struct pccl_ahead *ahead = find(lane, &data->instance);
    int order = ahead != NULL ? pccl_epoch_compare(&data->view, &ahead->view) : 0;
    if (order < 0)
        return PCCL_OK;
    if (order > 0) {
        drop(ahead);
        ahead = NULL;
    }
    if (ahead != NULL && is_there(ahead, data->group)) {
        pccl_text_format(words, "peer %i sent the same segment twice: group %u, ahead", &lane->peer, data->group);
        return PCCL_MALFORMED;
    }
    bool fits_all = has_room(exchange, lane, pccl_scratch_size(data->length));
    if (!fits_all && !lane->used)
        return PCCL_LIMIT;
    if (!fits_all || lane->ahead_bytes + pccl_scratch_size(data->length) > PCCL_AHEAD_HELD_BYTES ||
        lane->ahead_segments == PCCL_AHEAD_HELD_SEGMENTS) {
        pccl_text_format(words, "peer %i sent more ahead than the %u bytes and %u segments that are held", &lane->peer,
                         (uint64_t)PCCL_AHEAD_HELD_BYTES, (uint64_t)PCCL_AHEAD_HELD_SEGMENTS);
        pccl_ahead_forget_lane(lane);
        return PCCL_MALFORMED;
    }
    if (ahead == NULL)
        ahead = make_ahead(exchange, lane, data);
    if (ahead != NULL && add_segment(ahead, data, arrival))
        return PCCL_OK;
    if (ahead != NULL)
        release_if_empty(ahead);
    pccl_text_format(words, "out of memory for what peer %i sent ahead", &lane->peer);
    return PCCL_MEMORY;
}

void pccl_ahead_received(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->ahead->arrival == arrival);
    arrival->ahead->arrival = NULL;
    detach(arrival);
}

void pccl_ahead_dropped(struct pccl_arrival *arrival) { drop_segment(arrival->ahead); }

/* ---- taking it ---- */

static bool fits(const struct pccl_channel *channel, uint64_t group, uint32_t length)
{
    const struct pccl_plan *plan = &channel->transfer->plan;
    uint32_t number = 0;
    if (group >= plan->groups || !pccl_plan_message(plan, channel->other, plan->rank, 0, &number))
        return false;
    struct pccl_segment segment = pccl_plan_segment(plan, group, number);
    return segment.count > 0 && length == pccl_plan_bytes(plan, 0, segment.count);
}

bool pccl_ahead_is_foreign(const struct pccl_channel *channel, const struct pccl_msg_data *data)
{
    const struct pccl_transfer *transfer = channel->transfer;
    return transfer->plan.long_path && !transfer->done && data->step == 0 && !fits(channel, data->group, data->length);
}

void pccl_ahead_fail(struct pccl_transfer *transfer, const struct pccl_id *peer, uint64_t group, uint32_t length)
{
    pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH,
                       "peer %i sent a segment of %u bytes for group %u, where peer %i plans none", peer,
                       (uint64_t)length, group, &transfer->exchange->config.self);
}

/* An era is over for all who have gone on to the next one. */
static bool is_past(const struct pccl_ahead *ahead, const struct pccl_transfer *transfer)
{
    const struct pccl_instance *then = &ahead->instance, *now = &transfer->instance;
    return pccl_epoch_compare(&ahead->view, &transfer->view) < 0 ||
           (then->group == now->group && (then->joint < now->joint || then->sync < now->sync));
}

static void drop_past(struct pccl_lane *lane, const struct pccl_transfer *transfer)
{
    struct pccl_node *next;
    for (struct pccl_node *node = pccl_table_first(&lane->ahead); node != NULL; node = next) {
        next = pccl_table_after(&lane->ahead, node);
        struct pccl_ahead *ahead = PCCL_CONTAINER_OF(node, struct pccl_ahead, by_instance);
        if (is_past(ahead, transfer))
            drop(ahead);
    }
}

/* NULL: all of it is what such a plan sends ahead. */
static const struct pccl_ahead_segment *find_foreign(const struct pccl_channel *channel, struct pccl_ahead *ahead)
{
    for (struct pccl_link *link = ahead->segments.next; link != &ahead->segments; link = link->next) {
        const struct pccl_ahead_segment *segment = segment_of(link);
        if (segment->group >= pccl_ahead_groups(&channel->transfer->plan) ||
            !fits(channel, segment->group, segment->length))
            return segment;
    }
    return NULL;
}

/*
 * Who sends us nothing by our plan proves nothing either: one of the group that plans otherwise is found out by the one
 * before it in the ring, whichever way both plan.
 */
static void begin_with(struct pccl_transfer *transfer, struct pccl_lane *lane, struct pccl_ahead *ahead)
{
    const struct pccl_channel *channel = pccl_transfer_channel(transfer, lane);
    if (channel == NULL || !pccl_epoch_equal(&ahead->view, &transfer->view)) {
        drop(ahead); /* of another view: it will be aborted, for that peer has gone on to it */
        return;
    }
    const struct pccl_ahead_segment *foreign = find_foreign(channel, ahead);
    if (foreign != NULL && !transfer->failed)
        pccl_ahead_fail(transfer, &lane->peer, foreign->group, foreign->length);
}

void pccl_ahead_start(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    if (exchange->ahead_bytes == 0)
        return;
    struct pccl_node *next;
    for (struct pccl_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        drop_past(lane, transfer);
        struct pccl_ahead *ahead = find(lane, &transfer->instance);
        if (ahead != NULL)
            begin_with(transfer, lane, ahead);
    }
}

static void take_from(struct pccl_channel *channel, struct pccl_group *group)
{
    struct pccl_ahead *ahead = find(channel->lane, &channel->transfer->instance);
    struct pccl_ahead_segment *segment = ahead == NULL ? NULL : find_segment(ahead, group->number);
    if (segment == NULL)
        return;
    struct pccl_scratch *scratch = segment->scratch;
    struct pccl_arrival *arrival = segment->arrival;
    uint32_t length = segment->length;
    remove_segment(segment);
    if (arrival == NULL) {
        pccl_transfer_take(channel, group, scratch, length);
        return;
    }
    arrival->ahead = NULL;
    pccl_transfer_adopt(channel, group, scratch, arrival);
}

void pccl_ahead_take(struct pccl_transfer *transfer, struct pccl_group *group)
{
    if (transfer->exchange->ahead_bytes == 0)
        return;
    for (uint32_t i = transfer->neighbours; i < 2 * transfer->neighbours; i++)
        take_from(&transfer->channels[i], group);
}
