/*
 * The invariants of the exchange's state between two calls, whatever has come in and whether or not
 * memory was short: the rules that its functions rely on. Nothing here knows how a state came
 * about.
 */
#include "collective/check.h"

#include "collective/window.h"
#include "core/check.h"

/* ---- operations ---- */

static const char *check_queue(const struct pccl_parcel_queue *queue, uint64_t least, uint64_t below)
{
    for (const struct pccl_parcel *parcel = queue->first; parcel != NULL; parcel = parcel->next)
        PCCL_RULE(parcel->stripe->number >= least && parcel->stripe->number < below && !parcel->handed,
                  "what is granted is ready, other parcels are held, until they are handed over");
    return NULL;
}

static const char *check_flow(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    bool queued = !pccl_list_is_empty(&flow->in_queue);
    PCCL_RULE(!queued || !transfer->failed, "what has failed sends nothing");
    PCCL_RULE(flow->outgoing == flow->lane->outgoing, "a flow goes the way of its lane");
    if (!flow->outgoing) {
        PCCL_RULE(flow->told <= transfer->granted, "what is told is granted");
        PCCL_RULE(queued || transfer->failed || !flow->tell, "what is to be told is queued");
        return NULL;
    }
    PCCL_RULE(flow->begun <= pccl_max_u64(flow->granted, flow->ahead), "groups begin when they may");
    PCCL_RULE(flow->begun <= transfer->granted, "groups begin when they are open here");
    PCCL_RULE(queued || transfer->failed || flow->ready.first == NULL, "what is ready is queued");
    const char *broken = check_queue(&flow->ready, 0, flow->granted);
    return broken != NULL ? broken : check_queue(&flow->held, flow->granted, UINT64_MAX);
}

static const char *check_window(const struct pccl_transfer *transfer)
{
    uint64_t open = 0;
    PCCL_RULE(transfer->first_open <= transfer->granted && transfer->granted <= transfer->plan.stripes,
              "groups are opened in order");
    PCCL_RULE(transfer->granted - transfer->first_open <= transfer->slot_count, "each open group has a slot");
    for (uint64_t number = transfer->first_open; number < transfer->granted; number++) {
        const struct pccl_stripe *stripe = pccl_stripe_of(transfer, number);
        PCCL_RULE(stripe != NULL || number > transfer->first_open, "the window begins with a group that is open");
        PCCL_RULE(stripe == NULL || stripe->number == number, "a group is in its slot");
        PCCL_RULE(stripe == NULL || stripe->arrivals_left > 0 || stripe->departures_left > 0,
                  "a group is open as long as something of it is to come or go");
        open += stripe != NULL;
    }
    PCCL_RULE(open == transfer->granted - transfer->complete, "groups that are not complete are open");
    PCCL_RULE(open <= transfer->window, "no more groups are open than the window has");
    PCCL_RULE(transfer->results_complete >= transfer->complete && transfer->results_complete <= transfer->granted,
              "a group has its results before it is complete");
    PCCL_RULE(transfer->failed || open > 0 || transfer->complete == transfer->plan.stripes,
              "a group is open until all are complete");
    return NULL;
}

static const char *check_transfer(const struct pccl_transfer *transfer)
{
    uint32_t unheard = 0;
    const char *broken = check_window(transfer);
    for (uint32_t i = 0; broken == NULL && i < transfer->flow_count; i++) {
        const struct pccl_flow *flow = &transfer->flows[i];
        PCCL_RULE(flow->outgoing == (i < transfer->outgoing_count), "flows out come before those in");
        unheard += flow->outgoing && !flow->agreed;
        broken = check_flow(flow);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(transfer->unheard == unheard, "who has not said READY is counted");
    PCCL_RULE(!transfer->done || transfer->results_complete == transfer->plan.stripes, "what is done has its results");
    PCCL_RULE(!transfer->at_rest || (transfer->done && transfer->departures == NULL && transfer->arrivals == NULL),
              "what is at rest moves nothing");
    PCCL_RULE(!transfer->failed || pccl_list_is_empty(&transfer->wanting), "what has failed wants no room");
    return NULL;
}

/* ---- lanes ---- */

static const char *check_held(const struct pccl_lane *lane)
{
    size_t bytes = 0;
    uint32_t segments = 0;
    for (struct pccl_table_node *node = pccl_table_first(&lane->held); node != NULL;
         node = pccl_table_after(&lane->held, node)) {
        struct pccl_held *held = PCCL_CONTAINER_OF(node, struct pccl_held, by_instance);
        uint32_t before = segments;
        for (struct pccl_list_node *link = held->segments.next; link != &held->segments; link = link->next, segments++)
            bytes += pccl_scratch_size(PCCL_CONTAINER_OF(link, struct pccl_held_segment, link)->length);
        PCCL_RULE(segments > before, "what is held ahead for an operation has segments");
    }
    PCCL_RULE(lane->ahead_bytes == bytes && lane->ahead_segments == segments, "what is held ahead is counted");
    PCCL_RULE(bytes <= PCCL_AHEAD_HELD_BYTES && segments <= PCCL_AHEAD_HELD_SEGMENTS, "what is held ahead is bounded");
    return NULL;
}

static const char *check_promised(const struct pccl_lane *lane)
{
    size_t bytes = 0;
    for (struct pccl_list_node *link = lane->flows.next; link != &lane->flows; link = link->next)
        bytes += PCCL_CONTAINER_OF(link, struct pccl_flow, on_lane)->ahead_bytes;
    PCCL_RULE(lane->ahead_bytes == bytes, "what may be sent ahead is counted");
    PCCL_RULE(bytes <= PCCL_AHEAD_BYTES && lane->ahead_segments <= PCCL_AHEAD_SEGMENTS,
              "what may be sent ahead is bounded");
    return NULL;
}

static const char *check_lane(const struct pccl_lane *lane)
{
    uint32_t kept = 0;
    for (struct pccl_list_node *link = lane->kept.next; link != &lane->kept; link = link->next)
        kept++;
    PCCL_RULE(kept == lane->kept_by_instance.count, "the table of announcements has all of them");
    PCCL_RULE(kept <= PCCL_OPS_PER_PEER_MAX, "announcements are as many as limits.h says");
    PCCL_RULE(lane->connections > 0 || kept > 0 || !pccl_list_is_empty(&lane->flows), "a lane is of use");
    return lane->outgoing ? check_promised(lane) : check_held(lane);
}

const char *pccl_exchange_check(const struct pccl_exchange *exchange)
{
    const char *broken = NULL;
    size_t reserved = 0, ahead = 0;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->transfers); broken == NULL && node != NULL;
         node = pccl_table_after(&exchange->transfers, node)) {
        const struct pccl_transfer *transfer = PCCL_CONTAINER_OF(node, struct pccl_transfer, by_instance);
        reserved += (size_t)(transfer->granted - transfer->complete) * transfer->stripe_scratch;
        broken = check_transfer(transfer);
    }
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); broken == NULL && node != NULL;
         node = pccl_table_after(&exchange->lanes, node)) {
        const struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        ahead += lane->outgoing ? 0 : lane->ahead_bytes;
        broken = check_lane(lane);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(exchange->scratch.reserved_bytes == reserved, "scratch is reserved for the groups that are open");
    PCCL_RULE(exchange->ahead_bytes == ahead, "what all lanes hold ahead is counted");
    PCCL_RULE(exchange->ended.count <= PCCL_OPS_PER_PEER_MAX, "operations that are over are bounded");
    return NULL;
}
