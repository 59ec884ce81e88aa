/*
 * The messages of an operation, out and in. Everything is driven by what was sent or came in; the work for one message
 * is constant, or the number of ranks where all of them are concerned.
 */
#include "collective/internal.h"

static void append(struct pccl_parcel_queue *queue, struct pccl_parcel *parcel)
{
    parcel->next = NULL;
    if (queue->first == NULL)
        queue->first = parcel;
    else
        queue->last->next = parcel;
    queue->last = parcel;
}

static struct pccl_parcel *take(struct pccl_parcel_queue *queue)
{
    struct pccl_parcel *parcel = queue->first;
    if (parcel != NULL)
        queue->first = parcel->next;
    return parcel;
}

/* ---- channels ---- */

struct pccl_channel *pccl_transfer_channel(struct pccl_transfer *transfer, const struct pccl_lane *lane)
{
    for (uint32_t i = 0; i < 2 * transfer->neighbours; i++)
        if (transfer->channels[i].lane == lane)
            return &transfer->channels[i];
    return NULL;
}

static struct pccl_channel *channel_to(struct pccl_transfer *transfer, uint32_t rank)
{
    const struct pccl_plan *plan = &transfer->plan;
    struct pccl_channel *channel = &transfer->channels[(rank + plan->ranks - plan->rank - 1) % plan->ranks];
    PCCL_ASSERT(channel->outgoing && channel->other == rank);
    return channel;
}

/* Whether the first step of another group may be sent. */
static bool can_begin(struct pccl_channel *channel)
{
    const struct pccl_transfer *transfer = channel->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    uint64_t end = pccl_min_u64(pccl_max_u64(channel->granted, channel->ahead), transfer->granted);
    uint32_t number = 0;
    bool sends = pccl_plan_message(plan, plan->rank, channel->other, 0, &number);
    PCCL_ASSERT(sends);
    while (channel->begun < end && number >= pccl_plan_segments(plan, channel->begun))
        channel->begun++; /* nothing in it, and so nothing to send */
    return channel->begun < end;
}

bool pccl_channel_has_something(struct pccl_channel *channel)
{
    return channel->outgoing ? channel->ready.first != NULL || can_begin(channel) : channel->tell;
}

/* ---- sending ---- */

static void queue_parcel(struct pccl_channel *channel, struct pccl_parcel *parcel)
{
    append(parcel->group->number < channel->granted ? &channel->ready : &channel->held, parcel);
}

void pccl_transfer_send(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step, uint32_t other,
                        struct pccl_scratch *scratch)
{
    struct pccl_channel *channel = channel_to(transfer, other);
    struct pccl_parcel *parcel = pccl_transfer_parcel(transfer, group, step, other);
    parcel->scratch = scratch;
    queue_parcel(channel, parcel);
    pccl_channel_wake(channel);
}

void pccl_transfer_credit(struct pccl_channel *channel, uint64_t granted)
{
    if (granted <= channel->granted)
        return; /* overtaken on another connection */
    channel->granted = granted;
    struct pccl_parcel_queue held = channel->held;
    channel->held = (struct pccl_parcel_queue){NULL, NULL};
    struct pccl_parcel *parcel;
    while ((parcel = take(&held)) != NULL)
        queue_parcel(channel, parcel);
    pccl_channel_wake(channel);
}

static void fill_ready(struct pccl_channel *channel, struct pccl_departure *departure)
{
    const struct pccl_transfer *transfer = channel->transfer;
    channel->told = transfer->granted;
    channel->tell = false;
    departure->msg.type = PCCL_MSG_ready;
    departure->msg.as.ready = (struct pccl_msg_ready){.instance = transfer->instance,
                                                      .view = transfer->view,
                                                      .descriptor = transfer->descriptor,
                                                      .algorithm = (uint8_t)transfer->plan.algorithm,
                                                      .segment_elements = transfer->plan.segment_elements,
                                                      .granted = transfer->granted};
}

/* The own part of the next group: from the caller's memory, or packed. NULL: memory is short. */
static const uint8_t *first_payload(struct pccl_transfer *transfer, const struct pccl_segment *segment,
                                    struct pccl_scratch **scratch)
{
    const struct pccl_plan *plan = &transfer->plan;
    const uint8_t *own = pccl_input_of(transfer, segment);
    if (plan->codec == NULL)
        return own;
    *scratch = pccl_scratch_take(&transfer->exchange->scratch, pccl_plan_bytes(plan, 0, segment->count));
    if (*scratch == NULL)
        return NULL;
    pccl_codec_encode(plan->codec, transfer->exchange->config.kernels, own, segment->count, (*scratch)->bytes);
    return (*scratch)->bytes;
}

/* What came by, or a finished segment. What is folded so far may be longer than the part that it begins with. */
static const uint8_t *later_payload(struct pccl_transfer *transfer, const struct pccl_segment *segment, uint32_t step,
                                    struct pccl_scratch **scratch)
{
    if (*scratch == NULL)
        return pccl_result_of(transfer, segment);
    if (step == 1 && pccl_plan_is_wide(&transfer->plan, step))
        *scratch = pccl_ring_widen(transfer, segment, *scratch);
    return *scratch != NULL ? (*scratch)->bytes : NULL;
}

static void link_departure(struct pccl_transfer *transfer, struct pccl_departure *departure)
{
    departure->transfer = transfer;
    departure->next = transfer->departures;
    if (departure->next != NULL)
        departure->next->previous = departure;
    transfer->departures = departure;
}

/*
 * What came by is sent on first, while it is in the caches. On a long path new groups go first: those begun last would
 * make their way round the ring alone.
 */
static bool fill_data(struct pccl_channel *channel, struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = channel->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    bool first = channel->ready.first == NULL || (plan->long_path && can_begin(channel));
    struct pccl_parcel *parcel = first ? NULL : take(&channel->ready);
    if (first)
        parcel = pccl_transfer_parcel(transfer, pccl_group_of(transfer, channel->begun++), 0, channel->other);
    struct pccl_group *group = parcel->group;
    uint32_t number = 0;
    bool sends = pccl_plan_message(plan, plan->rank, channel->other, parcel->step, &number);
    PCCL_ASSERT(sends && !parcel->handed);
    struct pccl_segment segment = pccl_plan_segment(plan, group->number, number);
    struct pccl_scratch *scratch = NULL;
    const uint8_t *payload = NULL;
    if (first) {
        payload = first_payload(transfer, &segment, &scratch);
    } else {
        scratch = parcel->scratch;
        parcel->scratch = NULL;
        payload = later_payload(transfer, &segment, parcel->step, &scratch);
    }
    if (payload == NULL) {
        pccl_transfer_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for a segment");
        return false;
    }
    parcel->handed = true;
    departure->payload = payload;
    departure->length = (uint32_t)pccl_plan_bytes(plan, parcel->step, segment.count);
    departure->group = group->number;
    departure->step = parcel->step;
    departure->to = channel->other;
    departure->scratch = scratch;
    departure->msg.type = PCCL_MSG_data;
    departure->msg.as.data = (struct pccl_msg_data){.instance = transfer->instance,
                                                    .view = transfer->view,
                                                    .group = group->number,
                                                    .step = parcel->step,
                                                    .length = departure->length};
    link_departure(transfer, departure);
    return true;
}

bool pccl_transfer_next(struct pccl_channel *channel, struct pccl_departure *departure)
{
    if (channel->outgoing)
        return fill_data(channel, departure);
    fill_ready(channel, departure);
    return true;
}

void pccl_departure_release(struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = departure->transfer;
    if (transfer == NULL)
        return;
    if (departure->next != NULL)
        departure->next->previous = departure->previous;
    if (departure->previous != NULL)
        departure->previous->next = departure->next;
    else
        transfer->departures = departure->next;
    pccl_scratch_give(&transfer->exchange->scratch, departure->scratch);
    departure->payload = NULL;
    departure->transfer = NULL;
    departure->scratch = NULL;
    departure->previous = departure->next = NULL;
}

void pccl_transfer_sent(struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = departure->transfer;
    pccl_departure_release(departure);
    if (transfer == NULL || transfer->failed)
        return;
    transfer->traffic.sent_bytes += departure->length;
    struct pccl_group *group = pccl_group_of(transfer, departure->group);
    PCCL_ASSERT(group != NULL && group->departures_left > 0);
    group->departures_left--;
    pccl_group_close_if_complete(transfer, group);
    pccl_transfer_report(transfer);
}

/* ---- receiving ---- */

/* The message to the same rank, or round the ring, that the sender must have had before it can send this one. */
static bool comes_too_early(const struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step,
                            uint32_t number, uint32_t from)
{
    const struct pccl_plan *plan = &transfer->plan;
    if (plan->algorithm == PCCL_DIRECT)
        return step == 1 && !pccl_transfer_parcel(transfer, group, 0, from)->handed;
    uint32_t passed_on_in = (plan->rank + plan->ranks - number) % plan->ranks;
    return step >= plan->ranks - 1 && !group->parcels[passed_on_in].handed;
}

static const char *what_is_wrong(const struct pccl_channel *channel, const struct pccl_msg_data *data,
                                 struct pccl_segment *segment, uint32_t *number)
{
    const struct pccl_transfer *transfer = channel->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    bool is_ahead = data->step == 0 && data->group < pccl_ahead_groups(plan);
    if (data->group >= channel->told && !is_ahead)
        return "more than was granted";
    if (!pccl_plan_message(plan, channel->other, plan->rank, data->step, number))
        return "no such step";
    *segment = pccl_plan_segment(plan, data->group, *number);
    if (segment->count == 0 || data->length != pccl_plan_bytes(plan, data->step, segment->count))
        return "a wrong length";
    if (data->group >= transfer->granted)
        return NULL;
    struct pccl_group *group = pccl_group_of(transfer, data->group);
    if (group == NULL || pccl_transfer_parcel(transfer, group, data->step, channel->other)->arrived)
        return "the same segment twice";
    if (comes_too_early(transfer, group, data->step, *number, channel->other))
        return "a result before its parts";
    return NULL;
}

static bool comes_as_result(const struct pccl_plan *plan, uint32_t step)
{
    return plan->codec == NULL && step >= (plan->algorithm == PCCL_RING ? plan->ranks - 1 : 1);
}

static void link_arrival(struct pccl_transfer *transfer, struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->transfer == NULL);
    arrival->transfer = transfer;
    arrival->next = transfer->arrivals;
    if (arrival->next != NULL)
        arrival->next->previous = arrival;
    transfer->arrivals = arrival;
}

enum pccl_status pccl_transfer_receive(struct pccl_channel *channel, const struct pccl_msg_data *data,
                                       struct pccl_arrival *arrival, struct pccl_text *words)
{
    struct pccl_transfer *transfer = channel->transfer;
    struct pccl_segment segment = {0, 0};
    uint32_t number = 0;
    const char *wrong = what_is_wrong(channel, data, &segment, &number);
    if (wrong != NULL) {
        pccl_text_format(words, "peer %i sent %s: group %u, step %u, %u bytes", &channel->lane->peer, wrong,
                         data->group, (uint64_t)data->step, (uint64_t)data->length);
        return PCCL_MALFORMED;
    }
    if (data->group >= transfer->granted)
        return pccl_ahead_hold(transfer->exchange, channel->lane, data, arrival, words);
    *arrival =
        (struct pccl_arrival){.length = data->length, .group = data->group, .step = data->step, .from = channel->other};
    if (comes_as_result(&transfer->plan, data->step)) {
        pccl_transfer_save(transfer, data->group, number);
        arrival->payload = pccl_result_of(transfer, &segment);
    } else {
        struct pccl_scratch *scratch = pccl_scratch_take(&transfer->exchange->scratch, data->length);
        if (scratch == NULL) {
            pccl_transfer_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for a segment");
            return PCCL_OK;
        }
        arrival->scratch = scratch;
        arrival->payload = scratch->bytes;
    }
    pccl_transfer_parcel(transfer, pccl_group_of(transfer, data->group), data->step, channel->other)->arrived = true;
    link_arrival(transfer, arrival);
    return PCCL_OK;
}

/* The scratch stays. */
static void unlink_arrival(struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->transfer != NULL);
    if (arrival->next != NULL)
        arrival->next->previous = arrival->previous;
    if (arrival->previous != NULL)
        arrival->previous->next = arrival->next;
    else
        arrival->transfer->arrivals = arrival->next;
    arrival->payload = NULL;
    arrival->transfer = NULL;
    arrival->scratch = NULL;
    arrival->previous = arrival->next = NULL;
}

void pccl_arrival_release(struct pccl_arrival *arrival)
{
    if (arrival->transfer == NULL)
        return;
    pccl_scratch_give(&arrival->transfer->exchange->scratch, arrival->scratch);
    unlink_arrival(arrival);
}

static void came_in(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step, uint32_t from,
                    struct pccl_scratch *scratch, uint32_t length)
{
    transfer->traffic.received_bytes += length;
    PCCL_ASSERT(group != NULL && group->arrivals_left > 0);
    if (transfer->plan.algorithm == PCCL_RING)
        pccl_ring_received(transfer, group, step, scratch);
    else
        pccl_direct_received(transfer, group, step, from, scratch);
    group->arrivals_left--;
}

void pccl_transfer_take(struct pccl_channel *channel, struct pccl_group *group, struct pccl_scratch *scratch,
                        uint32_t length)
{
    struct pccl_transfer *transfer = channel->transfer;
    pccl_transfer_parcel(transfer, group, 0, channel->other)->arrived = true;
    came_in(transfer, group, 0, channel->other, scratch, length);
    PCCL_ASSERT(group->departures_left > 0); /* it has just been opened: something is to be sent */
}

void pccl_transfer_adopt(struct pccl_channel *channel, struct pccl_group *group, struct pccl_scratch *scratch,
                         struct pccl_arrival *arrival)
{
    pccl_transfer_parcel(channel->transfer, group, 0, channel->other)->arrived = true;
    arrival->group = group->number;
    arrival->step = 0;
    arrival->from = channel->other;
    arrival->scratch = scratch;
    link_arrival(channel->transfer, arrival);
}

void pccl_transfer_received(struct pccl_arrival *arrival)
{
    struct pccl_transfer *transfer = arrival->transfer;
    if (transfer == NULL || transfer->failed) {
        pccl_arrival_release(arrival);
        return;
    }
    struct pccl_scratch *scratch = arrival->scratch;
    unlink_arrival(arrival);
    struct pccl_group *group = pccl_group_of(transfer, arrival->group);
    came_in(transfer, group, arrival->step, arrival->from, scratch, arrival->length);
    pccl_group_close_if_complete(transfer, group);
    pccl_transfer_report(transfer);
}
