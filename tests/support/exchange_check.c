/*
 * Rules about the exchange's state that its functions rely on. They hold between two calls, for any
 * input, and also if memory was short. This file must not know which events led to a state.
 */
#include "support/exchange_check.h"

#include "collective/internal.h"
#include "core/rule.h"

/* ---- operations ---- */

static const char *check_queue(const struct pccl_parcel_queue *queue, uint64_t least, uint64_t below)
{
    for (const struct pccl_parcel *parcel = queue->first; parcel != NULL; parcel = parcel->next)
        PCCL_RULE(parcel->stripe->number >= least && parcel->stripe->number < below && !parcel->handed,
                  "granted parcels are ready and the others held until they are handed over");
    return NULL;
}

static const char *check_flow(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    bool queued = !pccl_list_is_empty(&flow->in_queue);
    PCCL_RULE(!queued || !transfer->failed, "a failed transfer sends nothing");
    PCCL_RULE(flow->outgoing == flow->lane->outgoing, "a flow has the direction of its lane");
    if (!flow->outgoing) {
        PCCL_RULE(flow->told <= transfer->granted, "no more stripes are told than are granted");
        PCCL_RULE(queued || transfer->failed || !flow->tell, "a flow that has to tell is queued");
        return NULL;
    }
    PCCL_RULE(flow->begun <= pccl_max_u64(flow->granted, flow->ahead),
              "stripes begin only when they are granted or may go ahead");
    PCCL_RULE(flow->begun <= transfer->granted, "stripes begin only when they are open here");
    PCCL_RULE(queued || transfer->failed || flow->ready.first == NULL, "a flow with ready parcels is queued");
    const char *broken = check_queue(&flow->ready, 0, flow->granted);
    return broken != NULL ? broken : check_queue(&flow->later, flow->granted, UINT64_MAX);
}

static const char *check_window(const struct pccl_transfer *transfer)
{
    uint64_t open = 0;
    PCCL_RULE(transfer->first_open <= transfer->granted && transfer->granted <= transfer->plan.stripes,
              "stripes are opened in order");
    PCCL_RULE(transfer->granted - transfer->first_open <= transfer->slot_count, "each open stripe has a slot");
    for (uint64_t number = transfer->first_open; number < transfer->granted; number++) {
        const struct pccl_stripe *stripe = pccl_stripe_of(transfer, number);
        PCCL_RULE(stripe != NULL || number > transfer->first_open, "the window begins with an open stripe");
        PCCL_RULE(stripe == NULL || stripe->number == number, "a stripe is in its slot");
        PCCL_RULE(stripe == NULL || stripe->arrivals_left > 0 || stripe->departures_left > 0,
                  "an open stripe still has something to receive or send");
        open += stripe != NULL;
    }
    PCCL_RULE(open == transfer->granted - transfer->complete, "the number of open stripes is right");
    PCCL_RULE(open <= transfer->window, "no more stripes are open than the window holds");
    PCCL_RULE(transfer->results_complete >= transfer->complete && transfer->results_complete <= transfer->granted,
              "a stripe has its results when it is complete");
    PCCL_RULE(transfer->failed || open > 0 || transfer->complete == transfer->plan.stripes ||
                  !pccl_list_is_empty(&transfer->resting),
              "some stripe is open until all are complete, unless the transfer rests");
    return NULL;
}

static const char *check_transfer(const struct pccl_transfer *transfer)
{
    uint32_t unheard = 0;
    const char *broken = check_window(transfer);
    for (uint32_t i = 0; broken == NULL && i < transfer->flow_count; i++) {
        const struct pccl_flow *flow = &transfer->flows[i];
        PCCL_RULE(flow->outgoing == (i < transfer->outgoing_count), "outgoing flows come before incoming ones");
        unheard += flow->outgoing && !flow->agreed;
        broken = check_flow(flow);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(transfer->unheard == unheard, "the number of receivers that have not said `ready` is right");
    PCCL_RULE(transfer->stage == PCCL_TRANSFER_MOVING || transfer->results_complete == transfer->plan.stripes,
              "a transfer that is done has its results");
    PCCL_RULE(transfer->stage != PCCL_TRANSFER_AT_REST ||
                  (pccl_list_is_empty(&transfer->departures) && pccl_list_is_empty(&transfer->arrivals)),
              "a transfer at rest moves nothing");
    PCCL_RULE(!transfer->failed || pccl_list_is_empty(&transfer->wanting), "a failed transfer waits for no room");
    return NULL;
}

/* ---- lanes ---- */

static const char *check_held(const struct pccl_lane *lane)
{
    size_t bytes = 0;
    uint32_t segments = 0;
    for (struct pccl_table_node *node = pccl_table_first(&lane->held); node != NULL;
         node = pccl_table_after(&lane->held, node)) {
        struct pccl_buffered *held = PCCL_CONTAINER_OF(node, struct pccl_buffered, by_instance);
        uint32_t before = segments;
        for (struct pccl_list_node *i = held->segments.next; i != &held->segments; i = i->next, segments++)
            bytes += pccl_scratch_size(PCCL_CONTAINER_OF(i, struct pccl_buffered_segment, node)->length);
        PCCL_RULE(segments > before, "an operation in the table of held segments has some");
    }
    PCCL_RULE(lane->early_bytes == bytes && lane->early_segments == segments, "the amount that is held ahead is right");
    PCCL_RULE(bytes <= PCCL_EARLY_BUFFER_BYTES && segments <= PCCL_EARLY_BUFFER_SEGMENTS,
              "the amount that is held ahead is within limits");
    return NULL;
}

static const char *check_promised(const struct pccl_lane *lane)
{
    size_t bytes = 0;
    for (struct pccl_list_node *node = lane->flows.next; node != &lane->flows; node = node->next)
        bytes += PCCL_CONTAINER_OF(node, struct pccl_flow, on_lane)->early_bytes;
    PCCL_RULE(lane->early_bytes == bytes, "the amount that may be sent ahead is right");
    PCCL_RULE(bytes <= PCCL_EARLY_BYTES && lane->early_segments <= PCCL_EARLY_SEGMENTS,
              "the amount that may be sent ahead is within limits");
    return NULL;
}

static const char *check_lane(const struct pccl_lane *lane)
{
    uint32_t held = 0;
    for (struct pccl_list_node *node = lane->buffered_list.next; node != &lane->buffered_list; node = node->next)
        held++;
    PCCL_RULE(held == lane->held.count, "the table of what is held is complete");
    PCCL_RULE(!lane->outgoing || held <= PCCL_OPS_PER_PEER_MAX, "announcements are within limits.h");
    PCCL_RULE(lane->connections > 0 || (lane->outgoing && held > 0) || !pccl_list_is_empty(&lane->flows),
              "a lane has a connection, an announcement or a flow");
    return lane->outgoing ? check_promised(lane) : check_held(lane);
}

const char *pccl_exchange_check(const struct pccl_exchange *exchange)
{
    const char *broken = NULL;
    size_t reserved = 0, on_short_paths = 0, moving = 0, ahead = 0;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->transfers); broken == NULL && node != NULL;
         node = pccl_table_after(&exchange->transfers, node)) {
        const struct pccl_transfer *transfer = PCCL_CONTAINER_OF(node, struct pccl_transfer, by_instance);
        const size_t open = (size_t)(transfer->granted - transfer->complete) * transfer->stripe_scratch;
        reserved += open;
        on_short_paths += transfer->plan.long_path ? 0 : open;
        moving += transfer->plan.long_path || transfer->complete == 0 ? 0 : open;
        broken = check_transfer(transfer);
    }
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); broken == NULL && node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        const struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        ahead += lane->outgoing ? 0 : lane->early_bytes;
        broken = check_lane(lane);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(exchange->scratch.reserved_bytes == reserved, "scratch is reserved for exactly the open stripes");
    PCCL_RULE(exchange->short_path_bytes == on_short_paths, "what of it belongs to transfers on short paths is right");
    PCCL_RULE(exchange->moving_bytes == moving, "what of that belongs to transfers that move is right");
    PCCL_RULE(exchange->early_bytes == ahead, "the amount that all lanes hold ahead is right");
    PCCL_RULE(exchange->ended.count <= PCCL_OPS_PER_PEER_MAX, "the memory of ended operations is within limits");
    return NULL;
}
