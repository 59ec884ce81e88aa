/*
 * Sends the messages of operations: decides which message of a lane may be sent next, and fills it in. The work for one
 * message is constant or, on a long path, at most proportional to the window.
 *
 * On long paths the sender does not wait for READY of the receiver, which would cost half a round trip. It begins with
 * its own part of the first stripes (step 0), and the receiver buffers this early data (lane.c) until it opens the
 * stripe or the operation has ended.
 *
 * When an early segment is sent, descriptors have not been compared, so its receiver may fold parts that do not belong
 * together. This is harmless: all later steps wait for READY, and no peer is done before all its receivers have sent
 * READY and agree. Each member of the ring is compared by the member before it, which must agree before the operation
 * commits. Lengths or numbers that do not fit reveal a mismatch earlier.
 *
 * The sender has an allowance for early data on each lane. It is returned when the receiver has opened all the stripes
 * or the operation has ended. The receiver may detect that end later, perhaps only in the next view or era, so it
 * buffers more than one allowance. If even that is not enough, it drops all early data of the lane and closes the
 * connection, and the sender fails its operations on that lane.
 */
#include "collective/fold.h"

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

/*
 * Returns true if the next stripe has a first segment. Caches the answer, because it is needed often before the stripe
 * begins.
 */
static bool has_first_segment(struct pccl_flow *flow)
{
    uint64_t stripe = flow->begun;
    if (flow->to_begin != stripe + 1 &&
        pccl_plan_has_segment(pccl_plan_of(flow->transfer, stripe), stripe, pccl_flow_first_piece(flow, stripe)))
        flow->to_begin = stripe + 1;
    return flow->to_begin == stripe + 1;
}

static bool takes_turns(const struct pccl_transfer *transfer)
{
    return transfer->plan.turn_stripes > 1 && transfer->outgoing_count > 1;
}

/*
 * Returns the end of the stripes of a turn in which the flow has a first segment, or the start of the turn if there are
 * no such stripes.
 */
static uint64_t end_in_turn(const struct pccl_flow *flow, uint64_t turn)
{
    const struct pccl_plan *plan = &flow->transfer->plan;
    uint64_t first = turn * plan->turn_stripes;
    uint32_t number = pccl_flow_first_piece(flow, first);
    return first + (number != PCCL_NO_PIECE ? pccl_plan_part_stripes(plan, first, number) : 0);
}

/*
 * Returns true if the order of turns permits the flow's next stripe to begin. If turns continue to the end of their
 * parts, a turn waits until all stripes of the previous one have begun, regardless of the window, so that the first
 * parts get all links of this rank.
 */
static bool is_its_turn(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    const struct pccl_plan *plan = &transfer->plan;
    if (!takes_turns(transfer))
        return true;
    for (uint64_t turn = flow->begun / plan->turn_stripes; turn-- > 0;) {
        for (uint32_t i = 0; i < transfer->outgoing_count; i++) {
            uint64_t end = end_in_turn(&transfer->flows[i], turn);
            if (end > turn * plan->turn_stripes)
                return transfer->flows[i].begun >= end; /* that turn has already waited for earlier ones */
        }
    }
    return true;
}

/* Returns true if the first step of another stripe may be sent. */
static bool can_begin(struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    uint64_t end = pccl_min_u64(pccl_max_u64(flow->granted, flow->ahead), transfer->granted);
    while (flow->begun < end && !has_first_segment(flow))
        flow->begun++; /* empty segments are not sent */
    return flow->begun < end && is_its_turn(flow);
}

/* Begins the next stripe and returns its number. */
static uint64_t begin(struct pccl_flow *flow)
{
    struct pccl_transfer *transfer = flow->transfer;
    PCCL_ASSERT(flow->outgoing && flow->begun < transfer->granted);
    uint64_t stripe = flow->begun++;
    PCCL_TELEMETRY_SET(flow->telemetry->begun_stripes, flow->begun);
    bool ends = takes_turns(transfer) && flow->begun == end_in_turn(flow, stripe / transfer->plan.turn_stripes);
    for (uint32_t i = 0; i < transfer->outgoing_count && ends; i++)
        if (&transfer->flows[i] != flow)
            pccl_flow_wake(&transfer->flows[i]); /* the turn of another flow may begin now */
    return stripe;
}

static bool has_something(struct pccl_flow *flow)
{
    return flow->tell || (flow->outgoing && (flow->ready.first != NULL || can_begin(flow)));
}

void pccl_flow_wake(struct pccl_flow *flow)
{
    struct pccl_transfer *transfer = flow->transfer;
    if (transfer->failed || !pccl_list_is_empty(&flow->in_queue) || !has_something(flow))
        return;
    struct pccl_lane *lane = flow->lane;
    pccl_list_append(&lane->queue, &flow->in_queue);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    if (lane->connections > 0)
        effects->writable(effects->context, lane->user);
}

/*
 * Inserts the parcel before parcels of later steps. A parcel with a longer path left must not wait, because otherwise
 * it would circle the ring alone after all others have arrived.
 */
static void insert_by_step(struct pccl_parcel_queue *queue, struct pccl_parcel *parcel)
{
    if (queue->first == NULL || queue->last->step <= parcel->step) {
        append(queue, parcel);
        return;
    }
    struct pccl_parcel **at = &queue->first;
    while ((*at)->step <= parcel->step)
        at = &(*at)->next;
    parcel->next = *at;
    *at = parcel;
}

static void enqueue(struct pccl_flow *flow, struct pccl_parcel *parcel)
{
    if (parcel->stripe->number >= flow->granted)
        append(&flow->later, parcel);
    else if (flow->transfer->plan.long_path)
        insert_by_step(&flow->ready, parcel);
    else
        append(&flow->ready, parcel);
}

/*
 * Queues the parcel until its stripe is granted and it is sent. On a long path, it follows parcels of the same and of
 * earlier steps.
 */
static void send_parcel(struct pccl_flow *flow, struct pccl_parcel *parcel)
{
    PCCL_ASSERT(flow->outgoing && !parcel->handed);
    enqueue(flow, parcel);
    pccl_flow_wake(flow);
}

/* ---- early data ---- */

/* Returns the part of the lane's allowance that the first step of this stripe uses. */
static size_t ahead_bytes_of(const struct pccl_flow *flow, uint64_t stripe)
{
    const struct pccl_plan *plan = pccl_plan_of(flow->transfer, stripe);
    uint32_t number = pccl_flow_first_piece(flow, stripe);
    if (!pccl_plan_has_segment(plan, stripe, number))
        return 0;
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    return pccl_scratch_size(pccl_plan_bytes(plan, 0, segment.count));
}

/*
 * Returns a flow's share of the lane's allowance. Flows that begin at the same time share the sender's line, so the
 * full allowance on all lanes would be a burst that overflows a queue on the path.
 */
static size_t share_of(const struct pccl_transfer *transfer)
{
    return PCCL_EARLY_BYTES / (transfer->plan.turns == 1 ? transfer->outgoing_count : 1);
}

void pccl_flow_allow(struct pccl_flow *flow)
{
    const struct pccl_plan *plan = &flow->transfer->plan;
    struct pccl_lane *lane = flow->lane;
    if (flow->agreed || flow->transfer->failed)
        return;
    uint64_t stripes = pccl_early_stripes(plan);
    for (; flow->ahead < stripes; flow->ahead++) {
        size_t bytes = ahead_bytes_of(flow, flow->ahead);
        uint32_t segments = bytes > 0;
        if (flow->early_bytes + bytes > share_of(flow->transfer) || lane->early_bytes + bytes > PCCL_EARLY_BYTES ||
            lane->early_segments + segments > PCCL_EARLY_SEGMENTS)
            break;
        lane->early_bytes += bytes;
        lane->early_segments += segments;
        flow->early_bytes += bytes;
        flow->early_segments += segments;
    }
    pccl_flow_wake(flow);
}

void pccl_flow_give_back(struct pccl_flow *flow)
{
    if (flow->early_bytes == 0)
        return;
    PCCL_ASSERT(flow->lane->early_bytes >= flow->early_bytes);
    flow->lane->early_bytes -= flow->early_bytes;
    flow->lane->early_segments -= flow->early_segments;
    flow->early_bytes = 0;
    flow->early_segments = 0;
}

/* ---- credit ---- */

void pccl_flow_credit(struct pccl_flow *flow, uint64_t granted)
{
    PCCL_ASSERT(flow->outgoing);
    if (!flow->agreed) {
        PCCL_ASSERT(flow->transfer->unheard > 0);
        flow->agreed = true;
        flow->tell = false;
        flow->transfer->unheard--;
        flow->ahead = pccl_min_u64(flow->ahead, flow->begun); /* no more early data */
    }
    if (granted >= flow->ahead)
        pccl_flow_give_back(flow);
    if (granted <= flow->granted)
        return; /* a newer READY has already arrived on another connection */
    flow->granted = granted;
    struct pccl_parcel_queue later = flow->later;
    flow->later = (struct pccl_parcel_queue){NULL, NULL};
    struct pccl_parcel *parcel;
    while ((parcel = take(&later)) != NULL)
        enqueue(flow, parcel);
    pccl_flow_wake(flow);
}

/* Returns true if an outgoing flow has a piece to send that waits only for the receiver to grant its stripe. */
static bool awaits_credit(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    bool begins = flow->begun >= flow->granted && flow->begun < transfer->plan.stripes &&
                  pccl_flow_first_piece(flow, flow->begun) != PCCL_NO_PIECE;
    return !transfer->failed && (begins || flow->later.first != NULL);
}

bool pccl_exchange_awaits_credit(const struct pccl_lane *lane)
{
    for (struct pccl_list_node *node = lane->flows.next; node != &lane->flows; node = node->next)
        if (awaits_credit(PCCL_CONTAINER_OF(node, struct pccl_flow, on_lane)))
            return true;
    return false;
}

/* ---- messages ---- */

void pccl_task_send(struct pccl_transfer *transfer, struct pccl_stripe *stripe, const struct pccl_task *task,
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
        send_parcel(&flows[i], parcel);
    }
}

static void fill_ready(struct pccl_flow *flow, struct pccl_departure *departure)
{
    const struct pccl_transfer *transfer = flow->transfer;
    flow->tell = false;
    if (!flow->outgoing) {
        flow->told = transfer->granted;
        pccl_telemetry_grant(flow->telemetry, flow->told, transfer->exchange->now_us);
    }
    departure->msg.type = PCCL_MSG_ready;
    departure->msg.as.ready = (struct pccl_msg_ready){.instance = transfer->config->instance,
                                                      .view = transfer->config->view,
                                                      .descriptor = transfer->config->descriptor,
                                                      .algorithm = (uint8_t)transfer->plan.algorithm,
                                                      .segment_elements = transfer->plan.segment_elements,
                                                      .granted = flow->told};
}

/*
 * Shares the packed piece of this flow with all flows that send the same piece, and unpacks it here as the receivers
 * do.
 */
static void keep_packed(struct pccl_flow *flow, struct pccl_stripe *stripe, const struct pccl_piece *piece,
                        struct pccl_scratch *packed)
{
    struct pccl_transfer *transfer = flow->transfer;
    for (uint32_t i = 0; i < transfer->outgoing_count; i++) {
        struct pccl_flow *other = &transfer->flows[i];
        if (other == flow || pccl_flow_first_piece(other, stripe->number) != piece->number)
            continue;
        pccl_scratch_share(packed);
        pccl_flow_parcel(other, stripe, 0)->scratch = packed;
    }
    pccl_fold_unpack(transfer, piece, packed->bytes);
    pccl_stripe_result(stripe, piece->number);
}

/*
 * Returns this rank's part of the next stripe, either in the caller's memory or created from it. Returns NULL if out of
 * memory.
 */
static const uint8_t *first_payload(struct pccl_flow *flow, struct pccl_parcel *parcel, const struct pccl_piece *piece,
                                    struct pccl_scratch **scratch)
{
    struct pccl_transfer *transfer = flow->transfer;
    const uint8_t *input = pccl_fold_input(transfer, piece);
    if (input != NULL)
        return input;
    bool keeps = pccl_plan_keeps(piece->plan, piece->stripe, piece->number);
    if (keeps) {
        *scratch = parcel->scratch;
        parcel->scratch = NULL;
    }
    if (*scratch == NULL) {
        *scratch = pccl_fold_make(transfer, piece);
        if (keeps && *scratch != NULL && !pccl_packing_packs(&piece->plan->packing))
            pccl_stripe_result(parcel->stripe, piece->number);
        else if (keeps && *scratch != NULL)
            keep_packed(flow, parcel->stripe, piece, *scratch);
    }
    return *scratch != NULL ? (*scratch)->bytes : NULL;
}

static void link_departure(struct pccl_transfer *transfer, struct pccl_departure *departure)
{
    departure->transfer = transfer;
    pccl_list_append(&transfer->departures, &departure->node);
}

/*
 * Fills in a data message. Received pieces are sent on first, while they are in the caches. On a long path, new stripes
 * come first and then pieces of earlier steps (insert_by_step).
 */
static bool fill_data(struct pccl_flow *flow, struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = flow->transfer;
    bool first = flow->ready.first == NULL || (transfer->plan.long_path && can_begin(flow));
    struct pccl_parcel *parcel = first ? NULL : take(&flow->ready);
    if (first)
        parcel = pccl_flow_parcel(flow, pccl_stripe_of(transfer, begin(flow)), 0);
    struct pccl_stripe *stripe = parcel->stripe;
    const struct pccl_piece piece = pccl_piece_of(flow, stripe->number, parcel->step);
    PCCL_ASSERT(!parcel->handed);
    struct pccl_scratch *scratch = NULL;
    const uint8_t *payload = NULL;
    if (first) {
        payload = first_payload(flow, parcel, &piece, &scratch);
    } else {
        scratch = parcel->scratch;
        parcel->scratch = NULL;
        payload = pccl_fold_later(transfer, &piece, parcel->step, &scratch);
    }
    if (payload == NULL) {
        pccl_transfer_fail(transfer, PCCL_CLASS_INTERNAL, "out of memory for data to send");
        return false;
    }
    parcel->handed = true;
    departure->payload = payload;
    departure->length = (uint32_t)pccl_plan_bytes(piece.plan, parcel->step, piece.segment.count);
    departure->flow = flow;
    departure->stripe = stripe->number;
    departure->scratch = scratch;
    departure->msg.type = PCCL_MSG_data;
    departure->msg.as.data = (struct pccl_msg_data){.instance = transfer->config->instance,
                                                    .view = transfer->config->view,
                                                    .stripe = stripe->number,
                                                    .step = parcel->step,
                                                    .length = departure->length};
    link_departure(transfer, departure);
    pccl_telemetry_begin_sending(flow->telemetry, transfer->exchange->now_us);
    return true;
}

/* Fills in the next message. Returns false if the transfer failed. */
static bool fill(struct pccl_flow *flow, struct pccl_departure *departure)
{
    if (!flow->tell)
        return fill_data(flow, departure);
    fill_ready(flow, departure);
    return true;
}

bool pccl_exchange_next(struct pccl_lane *lane, struct pccl_departure *departure)
{
    *departure = (struct pccl_departure){.payload = NULL};
    while (!pccl_list_is_empty(&lane->queue)) {
        struct pccl_flow *flow = PCCL_CONTAINER_OF(lane->queue.next, struct pccl_flow, in_queue);
        pccl_list_remove(&flow->in_queue);
        if (!has_something(flow) || !fill(flow, departure))
            continue;
        if (has_something(flow))
            pccl_list_append(&lane->queue, &flow->in_queue);
        return true;
    }
    return false;
}

void pccl_departure_release(struct pccl_departure *departure)
{
    struct pccl_transfer *transfer = departure->transfer;
    if (transfer == NULL)
        return;
    pccl_list_remove(&departure->node);
    pccl_scratch_give(&transfer->exchange->scratch, departure->scratch);
    departure->payload = NULL;
    departure->transfer = NULL;
    departure->scratch = NULL;
}
