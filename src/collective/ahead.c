/*
 * Sending ahead, on long paths: waiting for the receiver's READY would cost half a round trip, so
 * the sender begins without it, but only with its own part of the first stripes (step 0). The
 * receiver holds what comes for a stripe that it has not opened, until it does, or until the
 * operation has ended.
 *
 * Nobody has compared descriptors when such a segment is sent. So its receiver may fold parts that
 * do not belong together. That does no harm: all later steps wait for READY, and no peer is done
 * before those who receive from it have said READY and agree. Each member of the ring is compared
 * by the one before it, whose consent a commit needs. Lengths or numbers that do not fit show the
 * same mismatch earlier.
 *
 * The sender's allowance is bounded for each lane, and is returned when the receiver has opened all
 * the stripes or the operation has ended. The receiver may learn of that end later, perhaps not
 * before the next view or era, so it holds more than one allowance. If that is not enough either,
 * it drops all it holds of the lane and closes the connection, and the sender fails whatever runs
 * over it.
 */
#include "collective/ahead.h"

#include "collective/held.h"
#include "collective/lane.h"
#include "collective/outcome.h"

/* ---- sending ---- */

static size_t bytes_of(const struct pccl_flow *flow, uint64_t stripe)
{
    const struct pccl_plan *plan = pccl_plan_of(flow->transfer, stripe);
    uint32_t number = pccl_flow_first_piece(flow, stripe);
    if (!pccl_plan_has_segment(plan, stripe, number))
        return 0;
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    return pccl_scratch_size(pccl_plan_bytes(plan, 0, segment.count));
}

uint64_t pccl_ahead_stripes(const struct pccl_plan *plan)
{
    if (!plan->long_path)
        return 0;
    return pccl_min_u64(plan->stripes,
                        PCCL_AHEAD_BYTES / pccl_scratch_size(pccl_plan_bytes(plan, 0, plan->segment_elements)));
}

/*
 * Of the lane's allowance. Flows that begin at the same time share the sender's line: all that their
 * lanes allow together would come as one burst, and overflow a queue on the way.
 */
static size_t share_of(const struct pccl_transfer *transfer)
{
    return PCCL_AHEAD_BYTES / (transfer->plan.turns == 1 ? transfer->outgoing_count : 1);
}

void pccl_ahead_allow(struct pccl_flow *flow)
{
    const struct pccl_plan *plan = &flow->transfer->plan;
    struct pccl_lane *lane = flow->lane;
    if (flow->agreed || flow->transfer->failed)
        return;
    uint64_t stripes = pccl_ahead_stripes(plan);
    for (; flow->ahead < stripes; flow->ahead++) {
        size_t bytes = bytes_of(flow, flow->ahead);
        uint32_t segments = bytes > 0;
        if (flow->ahead_bytes + bytes > share_of(flow->transfer) || lane->ahead_bytes + bytes > PCCL_AHEAD_BYTES ||
            lane->ahead_segments + segments > PCCL_AHEAD_SEGMENTS)
            break;
        lane->ahead_bytes += bytes;
        lane->ahead_segments += segments;
        flow->ahead_bytes += bytes;
        flow->ahead_segments += segments;
    }
    pccl_flow_wake(flow);
}

void pccl_ahead_agree(struct pccl_flow *flow, uint64_t granted)
{
    if (!flow->agreed) {
        PCCL_ASSERT(flow->transfer->unheard > 0);
        flow->agreed = true;
        flow->transfer->unheard--;
        flow->ahead = pccl_min_u64(flow->ahead, flow->begun); /* no more of it */
    }
    if (granted >= flow->ahead)
        pccl_ahead_give_back(flow);
}

void pccl_ahead_give_back(struct pccl_flow *flow)
{
    if (flow->ahead_bytes == 0)
        return;
    PCCL_ASSERT(flow->lane->ahead_bytes >= flow->ahead_bytes);
    flow->lane->ahead_bytes -= flow->ahead_bytes;
    flow->lane->ahead_segments -= flow->ahead_segments;
    flow->ahead_bytes = 0;
    flow->ahead_segments = 0;
}

/* ---- comparing what came ---- */

static bool fits(const struct pccl_flow *flow, uint64_t stripe, uint32_t length)
{
    if (stripe >= flow->transfer->plan.stripes)
        return false;
    const struct pccl_plan *plan = pccl_plan_of(flow->transfer, stripe);
    uint32_t number = pccl_flow_first_piece(flow, stripe);
    return pccl_plan_has_segment(plan, stripe, number) &&
           length == pccl_plan_bytes(plan, 0, pccl_plan_segment(plan, stripe, number).count);
}

bool pccl_ahead_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data)
{
    const struct pccl_transfer *transfer = flow->transfer;
    return transfer->plan.long_path && data->step == 0 && !fits(flow, data->stripe, data->length);
}

void pccl_ahead_fail(struct pccl_transfer *transfer, const struct pccl_id *peer, uint64_t stripe, uint32_t length)
{
    pccl_outcome_fail(transfer, PCCL_CLASS_MISMATCH,
                      "peer %s sent a segment of %u bytes for group %" PRIu64 ", where peer %s plans none",
                      pccl_id_str(peer), length, stripe, pccl_id_str(&transfer->exchange->config.self));
}

/* NULL: all of it is what such a plan sends ahead. */
static const struct pccl_held_segment *find_foreign(const struct pccl_flow *flow, struct pccl_held *held)
{
    for (struct pccl_list_node *link = held->segments.next; link != &held->segments; link = link->next) {
        const struct pccl_held_segment *segment = pccl_held_segment_of(link);
        if (segment->stripe >= pccl_ahead_stripes(&flow->transfer->plan) ||
            !fits(flow, segment->stripe, segment->length))
            return segment;
    }
    return NULL;
}

/*
 * A peer that sends us nothing under our plan proves nothing by sending ahead. If it plans the
 * operation differently, the member before it in the ring finds out, whatever the two plan.
 */
static void begin_with(struct pccl_transfer *transfer, struct pccl_lane *lane, struct pccl_held *held)
{
    const struct pccl_flow *flow = pccl_flow_find(transfer, lane);
    int order = pccl_epoch_compare(&held->view, &transfer->view);
    if (order > 0)
        return; /* that peer is in a later view already, which aborts the operation, or has it begin again */
    if (order < 0 || flow == NULL) {
        pccl_held_drop(held);
        return;
    }
    const struct pccl_held_segment *foreign = find_foreign(flow, held);
    if (foreign != NULL && !transfer->failed)
        pccl_ahead_fail(transfer, &lane->peer, foreign->stripe, foreign->length);
}

void pccl_ahead_start(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    if (exchange->ahead_bytes == 0)
        return;
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&exchange->lanes); node != NULL; node = next) {
        next = pccl_table_after(&exchange->lanes, node);
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        pccl_held_drop_past(lane, transfer);
        struct pccl_held *held = pccl_held_find(lane, &transfer->instance);
        if (held != NULL)
            begin_with(transfer, lane, held);
    }
}
