/*
 * Receives the messages of operations and reacts to messages that were received or sent. The work for one message is
 * constant, or proportional to the number of ranks if it affects all of them. Uses the running schedule only through
 * its table (schedule.h).
 */
#include "collective/fold.h"

#include <string.h>

enum { OFFERS = 4, LONG_PATH_OFFERS = 16 }; /* number of READY messages that grant the credit of a window */

/* ---- receiving ---- */

/* Returns true if this is a result that its sender cannot have yet, because this rank has not sent its part of it. */
static bool comes_too_early(const struct pccl_transfer *transfer, struct pccl_stripe *stripe,
                            const struct pccl_piece *piece, uint32_t step)
{
    const struct pccl_schedule *schedule = pccl_schedules[transfer->plan.algorithm];
    if (schedule->spent == NULL || schedule->carries(piece->seat, step) != PCCL_CONTENT_RESULT)
        return false;
    struct pccl_sending spent = schedule->spent(piece->seat, piece->number);
    return !pccl_flow_parcel(pccl_flow_to(transfer, spent.to), stripe, spent.step)->handed;
}

/* Returns NULL and sets *piece if the message is valid; otherwise returns the error. */
static const char *what_is_wrong(const struct pccl_flow *flow, const struct pccl_msg_data *data,
                                 struct pccl_piece *piece)
{
    const struct pccl_transfer *transfer = flow->transfer;
    bool is_ahead = data->step == 0 && data->stripe < pccl_early_stripes(&transfer->plan);
    if (data->stripe >= flow->told && !is_ahead)
        return "data without credit";
    if (data->step >= pccl_schedules[transfer->plan.algorithm]->steps(transfer->plan.seat))
        return "data of an unknown step";
    *piece = pccl_piece_of(flow, data->stripe, data->step);
    if (piece->number == PCCL_NO_PIECE)
        return "data of an unknown step";
    const uint32_t count = piece->segment.count;
    if (count == 0 || data->length != pccl_plan_bytes(piece->plan, data->step, count))
        return "a segment of the wrong length";
    if (data->stripe >= transfer->granted)
        return NULL;
    struct pccl_stripe *stripe = pccl_stripe_of(transfer, data->stripe);
    if (stripe == NULL || pccl_flow_parcel(flow, stripe, data->step)->arrived)
        return "the same segment twice";
    return comes_too_early(transfer, stripe, piece, data->step) ? "a result before all of its parts" : NULL;
}

static void link_arrival(struct pccl_transfer *transfer, struct pccl_arrival *arrival)
{
    PCCL_ASSERT(arrival->transfer == NULL);
    arrival->transfer = transfer;
    pccl_list_append(&transfer->arrivals, &arrival->node);
}

/* Processes DATA of a running transfer. Returns the status for pccl_exchange_receive. */
static enum pccl_status receive_segment(struct pccl_flow *flow, const struct pccl_msg_data *data,
                                        struct pccl_arrival *arrival, struct pccl_text *reason)
{
    struct pccl_transfer *transfer = flow->transfer;
    struct pccl_piece piece;
    const char *wrong = what_is_wrong(flow, data, &piece);
    if (wrong != NULL)
        return pccl_fail(reason, PCCL_MALFORMED, "peer %s sent %s: stripe %" PRIu64 ", step %u, %u bytes",
                         pccl_id_str(&flow->lane->peer), wrong, data->stripe, data->step, data->length);
    if (data->stripe >= transfer->granted)
        return pccl_lane_buffer_data(flow->lane, data, arrival, reason);
    *arrival = (struct pccl_arrival){.length = data->length, .flow = flow, .stripe = data->stripe, .step = data->step};
    if (pccl_schedules[transfer->plan.algorithm]->carries(piece.seat, data->step) == PCCL_CONTENT_RESULT)
        arrival->payload = pccl_fold_place(transfer, &piece);
    if (arrival->payload == NULL) {
        struct pccl_scratch *scratch = pccl_scratch_take(&transfer->exchange->scratch, data->length);
        if (scratch == NULL) {
            pccl_transfer_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for received data");
            return PCCL_OK;
        }
        arrival->scratch = scratch;
        arrival->payload = scratch->bytes;
    }
    pccl_flow_parcel(flow, pccl_stripe_of(transfer, data->stripe), data->step)->arrived = true;
    flow->agreed = true;
    link_arrival(transfer, arrival);
    pccl_telemetry_begin_receiving(flow->telemetry, transfer->exchange->now_us);
    return PCCL_OK;
}

/* Folds the parts of a piece, all of which have arrived, in ring order from the rank after this one. */
static struct pccl_scratch *fold_collected(struct pccl_transfer *transfer, struct pccl_stripe *stripe,
                                           const struct pccl_piece *piece, const struct pccl_task *task)
{
    struct pccl_scratch *parts[PCCL_MESH_PEERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = transfer->flow_count; i-- > transfer->outgoing_count;) {
        struct pccl_parcel *parcel = pccl_flow_parcel(&transfer->flows[i], stripe, 0);
        PCCL_TELEMETRY_ADD(transfer->flows[i].telemetry->folded, 1);
        PCCL_ASSERT(parcel->scratch != NULL && count < PCCL_MESH_PEERS_MAX);
        parts[count++] = parcel->scratch;
        parcel->scratch = NULL;
    }
    return pccl_fold_collected(transfer, piece, task, parts, count);
}

/*
 * Runs the schedule's task for a received segment. Takes ownership of the scratch, which is NULL if the segment was
 * received into the result.
 */
static void is_arriving(struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step, struct pccl_scratch *scratch,
                        uint32_t length)
{
    struct pccl_transfer *transfer = flow->transfer;
    PCCL_ASSERT(stripe != NULL && stripe->arrivals_left > 0);
    const struct pccl_piece piece = pccl_piece_of(flow, stripe->number, step);
    struct pccl_task task = pccl_schedules[transfer->plan.algorithm]->arrived(piece.seat, step);
    stripe->arrivals_left--;
    transfer->traffic.received_bytes += length;
    pccl_telemetry_received(flow->telemetry, length, transfer->exchange->now_us);
    if (task.work != PCCL_WORK_COLLECT) {
        PCCL_TELEMETRY_ADD(flow->telemetry->folded, 1);
        scratch = pccl_fold_arrived(transfer, &piece, step, &task, scratch);
    } else {
        pccl_flow_parcel(flow, stripe, step)->scratch = scratch;
        PCCL_ASSERT(stripe->parts_left > 0);
        if (--stripe->parts_left > 0)
            return;
        scratch = fold_collected(transfer, stripe, &piece, &task);
    }
    pccl_task_send(transfer, stripe, &task, scratch);
    if (task.work != PCCL_WORK_FOLD && task.work != PCCL_WORK_PASS)
        pccl_stripe_result(stripe, piece.number);
}

static void take_held(struct pccl_flow *flow, struct pccl_stripe *stripe)
{
    struct pccl_buffered_segment taken;
    if (!pccl_lane_take_data(flow->lane, flow->transfer, stripe->number, &taken))
        return;
    pccl_flow_parcel(flow, stripe, 0)->arrived = true;
    pccl_telemetry_begin_receiving(flow->telemetry, flow->transfer->exchange->now_us);
    if (taken.arrival != NULL) { /* the segment is still arriving */
        taken.arrival->flow = flow;
        taken.arrival->stripe = stripe->number;
        taken.arrival->step = 0;
        taken.arrival->scratch = taken.scratch;
        link_arrival(flow->transfer, taken.arrival);
        return;
    }
    is_arriving(flow, stripe, 0, taken.scratch, taken.length);
}

/*
 * Pauses a transfer. Stripes that need no messages follow each other immediately, and copying a long part must not
 * delay the driver's connections.
 */
static void rest(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    /* required even if others pause, because their wake-up may be the current visit */
    exchange->effects.rests(exchange->effects.context);
    pccl_list_append(&exchange->resting, &transfer->resting);
}

/*
 * Copies the pieces whose result is this rank's own part. Pieces that are sent packed get their result when they are
 * sent.
 */
static void keep_own(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    struct pccl_exchange *exchange = transfer->exchange;
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe->number);
    const size_t before = exchange->kept_bytes;
    if (pccl_plan_keeps_sent(plan))
        return;
    for (uint32_t number = 0; number < plan->pieces; number++)
        if (pccl_plan_keeps(plan, stripe->number, number)) {
            exchange->kept_bytes += pccl_fold_keep(transfer, plan, stripe->number, number);
            pccl_stripe_result(stripe, number);
        }
    if (exchange->kept_bytes > before && exchange->kept_bytes >= exchange->config.kept_bytes_most)
        rest(transfer);
}

/*
 * Schedules READY with new credit once the credit is at least 1/OFFERS of the open window. On a long path
 * 1/LONG_PATH_OFFERS suffices, because a stripe that waits for credit there is late by a whole round of the ring. The
 * last credit is sent immediately.
 */
static void offer(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint64_t open = transfer->granted - transfer->complete;
    uint64_t enough = transfer->granted == plan->stripes ? 1 : open / (plan->long_path ? LONG_PATH_OFFERS : OFFERS);
    for (uint32_t i = transfer->outgoing_count; i < transfer->flow_count; i++) {
        struct pccl_flow *flow = &transfer->flows[i];
        uint64_t untold = flow->is_empty && flow->told > 0 ? 0 : transfer->granted - flow->told;
        /* Granted credit always covers the lowest open stripe, so nothing waits forever. */
        if (untold > 0 && untold >= enough) {
            flow->tell = true;
            pccl_flow_wake(flow);
        }
    }
}

/* Begins an opened stripe without reporting to the driver. */
static void begin_stripe(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    offer(transfer);
    for (uint32_t i = 0; i < transfer->outgoing_count; i++)
        pccl_flow_wake(&transfer->flows[i]);
    keep_own(stripe);
    if (transfer->exchange->early_bytes == 0)
        return;
    for (uint32_t i = transfer->outgoing_count; i < transfer->flow_count; i++)
        take_held(&transfer->flows[i], stripe);
}

/* ---- progress ---- */

/*
 * Begins an opened stripe. If it needs only early data and nothing must be sent, it is complete immediately, and the
 * next one may be, too.
 */
static void begin(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    begin_stripe(stripe);
    if (!pccl_stripe_close(stripe))
        return;
    while ((stripe = pccl_window_open_least(transfer)) != NULL) {
        begin_stripe(stripe);
        if (!pccl_stripe_close(stripe))
            break;
    }
    pccl_window_enqueue(transfer);
    offer(transfer);
    pccl_transfer_report(transfer);
}

void pccl_exchange_widen(struct pccl_exchange *exchange)
{
    struct pccl_stripe *stripe;
    while ((stripe = pccl_window_open_next(exchange)) != NULL)
        begin(stripe);
}

void pccl_transfer_widen(struct pccl_transfer *transfer)
{
    struct pccl_stripe *least = pccl_window_open_least(transfer);
    if (least != NULL)
        begin(least);
    pccl_window_enqueue(transfer);
    pccl_exchange_widen(transfer->exchange);
}

/* Continues after a message of the stripe was received or sent. */
static void go_on(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    if (pccl_stripe_close(stripe)) {
        pccl_transfer_widen(transfer);
        offer(transfer);
    }
    pccl_transfer_report(transfer);
}

void pccl_exchange_sent(struct pccl_exchange *exchange, struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = departure->transfer;
    const struct pccl_flow *flow = departure->flow;
    pccl_departure_release(departure);
    if (transfer == NULL || transfer->failed)
        return;
    pccl_telemetry_sent(flow->telemetry, departure->length, exchange->now_us);
    transfer->traffic.sent_bytes += departure->length;
    struct pccl_stripe *stripe = pccl_stripe_of(transfer, departure->stripe);
    PCCL_ASSERT(stripe != NULL && stripe->departures_left > 0);
    stripe->departures_left--;
    go_on(stripe);
}

static void received(struct pccl_arrival *arrival)
{
    struct pccl_transfer *transfer = arrival->transfer;
    if (transfer == NULL || transfer->failed) {
        pccl_arrival_release(arrival);
        return;
    }
    struct pccl_scratch *scratch = arrival->scratch;
    struct pccl_stripe *stripe = pccl_stripe_of(transfer, arrival->stripe);
    arrival->scratch = NULL;
    pccl_arrival_release(arrival);
    is_arriving(arrival->flow, stripe, arrival->step, scratch, arrival->length);
    go_on(stripe);
}

/* ---- messages ---- */

/* Buffers a READY of an operation that is not running here, or is running in another view. */
static enum pccl_status keep_ready(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                   const struct pccl_msg_ready *ready, struct pccl_text *reason)
{
    if (pccl_view_is_past(&ready->instance, &ready->view, &exchange->view) ||
        pccl_instance_has_ended(exchange, &ready->instance))
        return PCCL_OK;
    bool first = false;
    if (!pccl_lane_buffer_ready(lane, ready, &first)) {
        /* without its READY, that peer would wait forever */
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for an announcement from peer %s",
                         pccl_id_str(&lane->peer));
    }
    if (first && pccl_transfer_find(exchange, &ready->instance) == NULL)
        exchange->effects.announced(exchange->effects.context, &lane->peer, ready);
    return PCCL_OK;
}

static enum pccl_status receive_ready(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                      const struct pccl_msg_ready *ready, struct pccl_text *reason)
{
    struct pccl_transfer *transfer = pccl_transfer_find(exchange, &ready->instance);
    int order = transfer != NULL ? pccl_epoch_compare(&ready->view, &transfer->config->view) : 1;
    if (order > 0)
        return keep_ready(exchange, lane, ready, reason);
    if (order < 0 || pccl_agree_take_ready(transfer, lane, ready))
        return PCCL_OK;
    return pccl_fail(reason, PCCL_MALFORMED, "peer %s requested data that this peer does not have for it",
                     pccl_id_str(&lane->peer));
}

/*
 * Reports a send that its source has started. The announcement is not buffered, because the source compares the two
 * descriptions when it receives READY.
 */
static enum pccl_status receive_announcement(struct pccl_exchange *exchange, const struct pccl_lane *lane,
                                             const struct pccl_msg_ready *ready)
{
    if (pccl_transfer_find(exchange, &ready->instance) == NULL && !pccl_instance_has_ended(exchange, &ready->instance))
        exchange->effects.announced(exchange->effects.context, &lane->peer, ready);
    return PCCL_OK;
}

/* Processes DATA of an operation that is not running here in that view: it may start later, or have ended. */
static enum pccl_status receive_early(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                      const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                      struct pccl_text *reason)
{
    if (data->step != 0 || pccl_view_is_past(&data->instance, &data->view, &exchange->view) ||
        pccl_instance_has_ended(exchange, &data->instance))
        return PCCL_OK;
    return pccl_lane_buffer_data(lane, data, arrival, reason);
}

bool pccl_exchange_is_due(const struct pccl_lane *lane, const struct pccl_msg_data *data)
{
    const struct pccl_exchange *exchange = lane->exchange;
    return lane->used || lane->member || pccl_view_is_past(&data->instance, &data->view, &exchange->view) ||
           pccl_transfer_find(exchange, &data->instance) != NULL || pccl_instance_has_ended(exchange, &data->instance);
}

static enum pccl_status receive_data(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                     const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                     struct pccl_text *reason)
{
    *arrival = (struct pccl_arrival){.length = data->length};
    struct pccl_transfer *transfer = pccl_transfer_find(exchange, &data->instance);
    if (transfer == NULL)
        return receive_early(exchange, lane, data, arrival, reason);
    if (!pccl_epoch_equal(&transfer->config->view, &data->view)) {
        bool is_later =
            pccl_epoch_compare(&data->view, &transfer->config->view) > 0; /* the operation may restart in that view */
        return is_later ? receive_early(exchange, lane, data, arrival, reason) : PCCL_OK;
    }
    if (transfer->failed)
        return PCCL_OK;
    struct pccl_flow *flow = pccl_flow_find(transfer, lane);
    if (flow != NULL)
        return pccl_flow_is_foreign(flow, data) ? PCCL_OK : receive_segment(flow, data, arrival, reason);
    if (transfer->plan.long_path && data->step == 0)
        return PCCL_OK; /* the sender has a different plan; the member before it in the ring reports that */
    return pccl_fail(reason, PCCL_MALFORMED, "peer %s sent data that this peer does not expect",
                     pccl_id_str(&lane->peer));
}

enum pccl_status pccl_exchange_receive(struct pccl_lane *lane, const struct pccl_msg *msg, struct pccl_arrival *arrival,
                                       struct pccl_text *reason)
{
    *arrival = (struct pccl_arrival){.length = 0};
    if (lane->outgoing && msg->type == PCCL_MSG_ready)
        return receive_ready(lane->exchange, lane, &msg->as.ready, reason);
    if (msg->type == PCCL_MSG_ready && msg->as.ready.instance.pair != 0)
        return receive_announcement(lane->exchange, lane, &msg->as.ready);
    if (!lane->outgoing && msg->type == PCCL_MSG_data)
        return receive_data(lane->exchange, lane, &msg->as.data, arrival, reason);
    return pccl_fail(reason, PCCL_MALFORMED, "peer %s sent %s in the wrong direction, on a connection %s it",
                     pccl_id_str(&lane->peer), pccl_wire_name(msg->type), lane->outgoing ? "to" : "from");
}

void pccl_exchange_received(struct pccl_exchange *exchange, struct pccl_arrival *arrival)
{
    (void)exchange;
    if (arrival->held != NULL)
        pccl_buffered_received(arrival);
    else
        received(arrival);
}

void pccl_exchange_dropped(struct pccl_exchange *exchange, struct pccl_departure *departure,
                           struct pccl_arrival *arrival)
{
    (void)exchange;
    if (departure != NULL)
        pccl_departure_release(departure);
    if (arrival != NULL && arrival->held != NULL)
        pccl_buffered_dropped(arrival);
    else if (arrival != NULL)
        pccl_arrival_release(arrival);
}
