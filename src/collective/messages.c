/*
 * Sends and receives the messages of an operation. Everything is driven by what was sent or came
 * in; the work for one message is constant, or proportional to the number of ranks if it concerns
 * all of them; on a long path, to the window at most.
 */
#include "collective/messages.h"

#include "collective/ahead.h"
#include "collective/fold.h"
#include "collective/held.h"
#include "collective/lane.h"
#include "collective/outcome.h"
#include "collective/window.h"

#include <string.h>

/* The result of the segment is there, as it will be. */
static void is_stored(struct pccl_stripe *stripe, uint32_t number)
{
    struct pccl_transfer *transfer = stripe->transfer;
    pccl_stripe_result(stripe);
    if (transfer->missing == NULL)
        return;
    const struct pccl_segment segment = pccl_plan_segment(&transfer->plan, stripe->number, number);
    uint64_t *missing = &transfer->missing[pccl_plan_giver(&transfer->plan, segment.part)];
    PCCL_ASSERT(*missing >= segment.count && *missing != PCCL_ARRIVAL_TOLD);
    *missing -= segment.count;
    transfer->has_arrived = transfer->has_arrived || *missing == 0;
}

/* ---- sending ---- */

/*
 * Sends the task's piece to all ranks that it names, from scratch or (NULL) from the result. Takes
 * over the scratch.
 */
static void send_on(struct pccl_transfer *transfer, struct pccl_stripe *stripe, const struct pccl_task *task,
                    struct pccl_scratch *scratch)
{
    if (task->to_count == 0) {
        pccl_scratch_give(&transfer->exchange->scratch, scratch);
        return;
    }
    struct pccl_flow *flows = pccl_flow_to(transfer, task->to);
    for (uint32_t i = 0; i < task->to_count; i++) {
        struct pccl_parcel *parcel = pccl_flow_parcel(&flows[i], stripe, task->step);
        if (scratch != NULL && i > 0)
            pccl_scratch_share(scratch);
        parcel->scratch = scratch;
        pccl_flow_send(&flows[i], parcel);
    }
}

static void fill_ready(struct pccl_flow *flow, struct pccl_departure *departure)
{
    const struct pccl_transfer *transfer = flow->transfer;
    flow->told = transfer->granted;
    flow->tell = false;
    pccl_sight_grant(flow->sight, flow->told, transfer->exchange->now_us);
    departure->msg.type = PCCL_MSG_ready;
    departure->msg.as.ready = (struct pccl_msg_ready){.instance = transfer->instance,
                                                      .view = transfer->view,
                                                      .descriptor = transfer->descriptor,
                                                      .algorithm = (uint8_t)transfer->plan.algorithm,
                                                      .segment_elements = transfer->plan.segment_elements,
                                                      .granted = transfer->granted};
}

/* What this rank contributes, where that is not its input. NULL: memory is short. */
static struct pccl_scratch *make_own(struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                     const struct pccl_segment *segment, uint64_t place)
{
    struct pccl_scratch *own =
        pccl_scratch_take(&transfer->exchange->scratch, pccl_plan_bytes(plan, 0, segment->count));
    if (own == NULL)
        return NULL;
    if (pccl_packing_packs(&plan->packing)) {
        pccl_packed_own(transfer, plan, segment, place, own->bytes);
        return own;
    }
    if (pccl_is_scaled(transfer, plan))
        pccl_contribution_of(transfer, plan, pccl_input_of(transfer, plan, segment), segment->count, own->bytes);
    else
        pccl_input_take(transfer, plan, segment, own->bytes);
    return own;
}

/* What this flow sends is packed once, for all flows that carry the piece, and unpacked here as it is there. */
static void keep_packed(struct pccl_flow *flow, struct pccl_stripe *stripe, struct pccl_scratch *packed)
{
    struct pccl_transfer *transfer = flow->transfer;
    uint32_t number = pccl_flow_first_piece(flow, stripe->number);
    for (uint32_t i = 0; i < transfer->outgoing_count; i++) {
        struct pccl_flow *other = &transfer->flows[i];
        if (other == flow || pccl_flow_first_piece(other, stripe->number) != number)
            continue;
        pccl_scratch_share(packed);
        pccl_flow_parcel(other, stripe, 0)->scratch = packed;
    }
    pccl_packed_store(transfer, stripe->number, number, packed->bytes);
    is_stored(stripe, number);
}

/* The own part of the next stripe: from the caller's memory, or made of it. NULL: memory is short. */
static const uint8_t *first_payload(struct pccl_flow *flow, struct pccl_parcel *parcel,
                                    const struct pccl_segment *segment, struct pccl_scratch **scratch)
{
    struct pccl_transfer *transfer = flow->transfer;
    uint64_t stripe = parcel->stripe->number;
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    if (!pccl_packing_packs(&plan->packing) && !transfer->scales && pccl_segment_is_whole(transfer, plan, segment))
        return pccl_input_of(transfer, plan, segment);
    uint32_t number = pccl_flow_first_piece(flow, stripe);
    bool keeps = pccl_plan_keeps(plan, stripe, number);
    if (keeps) {
        *scratch = parcel->scratch;
        parcel->scratch = NULL;
    }
    if (*scratch == NULL) {
        *scratch = make_own(transfer, plan, segment, pccl_plan_place(plan, stripe, number));
        if (keeps && *scratch != NULL)
            keep_packed(flow, parcel->stripe, *scratch);
    }
    return *scratch != NULL ? (*scratch)->bytes : NULL;
}

/*
 * The payload of a step after the first: a sum or a result. A sum may be longer than the part that
 * it begins with.
 */
static const uint8_t *later_payload(struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                    const struct pccl_segment *segment, uint32_t step, struct pccl_scratch **scratch)
{
    if (*scratch == NULL)
        return pccl_result_of(transfer, plan, segment);
    if (step == 1 && pccl_plan_is_wide(plan, step))
        *scratch = pccl_fold_widen(transfer, plan, segment, *scratch);
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
 * What came in is sent on first, while it is in the caches. On a long path earlier steps go first,
 * new stripes before all (lane.c).
 */
static bool fill_data(struct pccl_flow *flow, struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = flow->transfer;
    bool first = flow->ready.first == NULL || (transfer->plan.long_path && pccl_flow_can_begin(flow));
    struct pccl_parcel *parcel = first ? NULL : pccl_flow_take(flow);
    if (first)
        parcel = pccl_flow_parcel(flow, pccl_stripe_of(transfer, pccl_flow_begin(flow)), 0);
    struct pccl_stripe *stripe = parcel->stripe;
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe->number);
    uint32_t number = pccl_flow_piece(flow, pccl_plan_seat(plan, stripe->number), parcel->step);
    PCCL_ASSERT(!parcel->handed);
    struct pccl_segment segment = pccl_plan_segment(plan, stripe->number, number);
    struct pccl_scratch *scratch = NULL;
    const uint8_t *payload = NULL;
    if (first) {
        payload = first_payload(flow, parcel, &segment, &scratch);
    } else {
        scratch = parcel->scratch;
        parcel->scratch = NULL;
        payload = later_payload(transfer, plan, &segment, parcel->step, &scratch);
    }
    if (payload == NULL) {
        pccl_outcome_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for a segment");
        return false;
    }
    parcel->handed = true;
    departure->payload = payload;
    departure->length = (uint32_t)pccl_plan_bytes(plan, parcel->step, segment.count);
    departure->flow = flow;
    departure->stripe = stripe->number;
    departure->scratch = scratch;
    departure->msg.type = PCCL_MSG_data;
    departure->msg.as.data = (struct pccl_msg_data){.instance = transfer->instance,
                                                    .view = transfer->view,
                                                    .stripe = stripe->number,
                                                    .step = parcel->step,
                                                    .length = departure->length};
    link_departure(transfer, departure);
    pccl_sight_begin_sending(flow->sight, transfer->exchange->now_us);
    return true;
}

bool pccl_messages_next(struct pccl_flow *flow, struct pccl_departure *departure)
{
    if (flow->outgoing)
        return fill_data(flow, departure);
    fill_ready(flow, departure);
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

/* ---- receiving ---- */

/* Whether this is a result whose sender cannot have had this rank's part of it. */
static bool comes_too_early(const struct pccl_transfer *transfer, struct pccl_stripe *stripe, struct pccl_seat seat,
                            uint32_t step, uint32_t number)
{
    const struct pccl_schedule *schedule = pccl_plan_schedule(&transfer->plan);
    if (schedule->spent == NULL || schedule->carries(seat, step) != PCCL_CONTENT_RESULT)
        return false;
    struct pccl_sending spent = schedule->spent(seat, number);
    return !pccl_flow_parcel(pccl_flow_to(transfer, spent.to), stripe, spent.step)->handed;
}

/* NULL: nothing. The seat is that of its stripe; *number: which segment of that it is. */
static const char *what_is_wrong(const struct pccl_flow *flow, const struct pccl_msg_data *data, struct pccl_seat seat,
                                 uint32_t *number)
{
    const struct pccl_transfer *transfer = flow->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    bool is_ahead = data->step == 0 && data->stripe < pccl_ahead_stripes(plan);
    if (data->stripe >= flow->told && !is_ahead)
        return "more than was granted";
    if (data->step >= pccl_plan_schedule(plan)->steps(seat))
        return "no such step";
    *number = pccl_flow_piece(flow, seat, data->step);
    if (*number == PCCL_NO_PIECE)
        return "no such step";
    plan = pccl_plan_of(transfer, data->stripe);
    struct pccl_segment segment = pccl_plan_segment(plan, data->stripe, *number);
    if (segment.count == 0 || data->length != pccl_plan_bytes(plan, data->step, segment.count))
        return "a wrong length";
    if (data->stripe >= transfer->granted)
        return NULL;
    struct pccl_stripe *stripe = pccl_stripe_of(transfer, data->stripe);
    if (stripe == NULL || pccl_flow_parcel(flow, stripe, data->step)->arrived)
        return "the same segment twice";
    return comes_too_early(transfer, stripe, seat, data->step, *number) ? "a result before its parts" : NULL;
}

/* Whether it can be received in the result, as no byte of it has to be changed and all belong in one place. */
static bool comes_as_result(const struct pccl_transfer *transfer, const struct pccl_plan *plan, struct pccl_seat seat,
                            const struct pccl_msg_data *data, uint32_t number)
{
    return !pccl_packing_packs(&plan->packing) &&
           pccl_plan_schedule(plan)->carries(seat, data->step) == PCCL_CONTENT_RESULT &&
           pccl_piece_is_whole(transfer, plan, data->stripe, number);
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

enum pccl_status pccl_messages_receive(struct pccl_flow *flow, const struct pccl_msg_data *data,
                                       struct pccl_arrival *arrival, struct pccl_text *reason)
{
    struct pccl_transfer *transfer = flow->transfer;
    const struct pccl_seat seat = pccl_plan_seat(&transfer->plan, data->stripe);
    uint32_t number = 0;
    const char *wrong = what_is_wrong(flow, data, seat, &number);
    if (wrong != NULL) {
        pccl_text_format(reason, "peer %s sent %s: group %" PRIu64 ", step %u, %u bytes",
                         pccl_id_str(&flow->lane->peer), wrong, data->stripe, data->step, data->length);
        return PCCL_MALFORMED;
    }
    if (data->stripe >= transfer->granted)
        return pccl_held_add(transfer->exchange, flow->lane, data, arrival, reason);
    *arrival = (struct pccl_arrival){.length = data->length, .flow = flow, .stripe = data->stripe, .step = data->step};
    const struct pccl_plan *plan = pccl_plan_of(transfer, data->stripe);
    if (comes_as_result(transfer, plan, seat, data, number)) {
        struct pccl_segment segment = pccl_plan_segment(plan, data->stripe, number);
        pccl_fold_save(transfer, data->stripe, number);
        arrival->payload = pccl_result_of(transfer, plan, &segment);
    } else {
        struct pccl_scratch *scratch = pccl_scratch_take(&transfer->exchange->scratch, data->length);
        if (scratch == NULL) {
            pccl_outcome_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for a segment");
            return PCCL_OK;
        }
        arrival->scratch = scratch;
        arrival->payload = scratch->bytes;
    }
    pccl_flow_parcel(flow, pccl_stripe_of(transfer, data->stripe), data->step)->arrived = true;
    link_arrival(transfer, arrival);
    pccl_sight_begin_receiving(flow->sight, transfer->exchange->now_us);
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

/*
 * All parts of the piece are here: folds them in the order of the ring, from the rank after this
 * one.
 */
static struct pccl_scratch *fold_collected(struct pccl_transfer *transfer, struct pccl_stripe *stripe, uint32_t number,
                                           const struct pccl_task *task)
{
    struct pccl_scratch *parts[PCCL_MESH_PEERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = transfer->flow_count; i-- > transfer->outgoing_count;) {
        struct pccl_parcel *parcel = pccl_flow_parcel(&transfer->flows[i], stripe, 0);
        PCCL_SIGHT_ADD(transfer->flows[i].sight->folded, 1);
        PCCL_ASSERT(parcel->scratch != NULL && count < PCCL_MESH_PEERS_MAX);
        parts[count++] = parcel->scratch;
        parcel->scratch = NULL;
    }
    return pccl_fold_collected(transfer, stripe->number, number, task, parts, count);
}

/*
 * A segment has come in: does what the schedule says. Takes over the scratch (NULL: it came into
 * the result).
 */
static void is_arriving(struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step, struct pccl_scratch *scratch,
                        uint32_t length)
{
    struct pccl_transfer *transfer = flow->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    PCCL_ASSERT(stripe != NULL && stripe->arrivals_left > 0);
    const struct pccl_seat seat = pccl_plan_seat(plan, stripe->number);
    struct pccl_task task = pccl_plan_schedule(plan)->arrived(seat, step);
    uint32_t number = pccl_flow_piece(flow, seat, step);
    stripe->arrivals_left--;
    transfer->traffic.received_bytes += length;
    pccl_sight_received(flow->sight, length, transfer->exchange->now_us);
    if (task.work != PCCL_WORK_COLLECT) {
        PCCL_SIGHT_ADD(flow->sight->folded, 1);
        scratch = pccl_fold_arrived(transfer, stripe->number, number, step, &task, scratch);
    } else {
        pccl_flow_parcel(flow, stripe, step)->scratch = scratch;
        PCCL_ASSERT(stripe->parts_left > 0);
        if (--stripe->parts_left > 0)
            return;
        scratch = fold_collected(transfer, stripe, number, &task);
    }
    send_on(transfer, stripe, &task, scratch);
    if (task.work != PCCL_WORK_FOLD && task.work != PCCL_WORK_PASS)
        is_stored(stripe, number);
}

struct pccl_stripe *pccl_messages_received(struct pccl_arrival *arrival)
{
    struct pccl_scratch *scratch = arrival->scratch;
    struct pccl_stripe *stripe = pccl_stripe_of(arrival->transfer, arrival->stripe);
    unlink_arrival(arrival);
    is_arriving(arrival->flow, stripe, arrival->step, scratch, arrival->length);
    return stripe;
}

static void take_held(struct pccl_flow *flow, struct pccl_stripe *stripe)
{
    struct pccl_held_segment taken;
    if (!pccl_held_take(flow->lane, flow->transfer, stripe->number, &taken))
        return;
    pccl_flow_parcel(flow, stripe, 0)->arrived = true;
    pccl_sight_begin_receiving(flow->sight, flow->transfer->exchange->now_us);
    if (taken.arrival != NULL) { /* it is still coming in */
        taken.arrival->flow = flow;
        taken.arrival->stripe = stripe->number;
        taken.arrival->step = 0;
        taken.arrival->scratch = taken.scratch;
        link_arrival(flow->transfer, taken.arrival);
        return;
    }
    is_arriving(flow, stripe, 0, taken.scratch, taken.length);
}

/* The pieces whose result is this rank's own part. If they are sent packed it is known when that is done. */
static void keep_own(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe->number);
    if (transfer->stays_apart || pccl_plan_packs_own(plan))
        return;
    for (uint32_t number = 0; number < plan->pieces; number++)
        if (pccl_plan_keeps(plan, stripe->number, number)) {
            pccl_fold_keep(transfer, stripe->number, number);
            is_stored(stripe, number);
        }
}

void pccl_messages_begin(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    keep_own(stripe);
    if (transfer->exchange->ahead_bytes == 0)
        return;
    for (uint32_t i = transfer->outgoing_count; i < transfer->flow_count; i++)
        take_held(&transfer->flows[i], stripe);
}
