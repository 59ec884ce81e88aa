/*
 * Lanes and the flows that use them: what each operation has to send on a lane, how much of it may
 * be sent now, and whose turn it is.
 */
#include "collective/lane.h"

#include "collective/held.h"
#include "collective/kept.h"

static uint64_t key_of(const struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    return pccl_id_hash(&exchange->hash, peer) ^ outgoing;
}

struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->lanes, key_of(exchange, peer, outgoing));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        if (lane->outgoing == outgoing && pccl_id_equal(&lane->peer, peer))
            return lane;
    }
    return NULL;
}

bool pccl_lane_is_of_member(const struct pccl_exchange *exchange, const struct pccl_lane *lane)
{
    return pccl_id_find(exchange->members, exchange->member_count, &lane->peer) < exchange->member_count;
}

struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_lane *lane = pccl_lane_find(exchange, peer, outgoing);
    if (lane != NULL)
        return lane;
    lane = pccl_allocate(&exchange->memory, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->peer = *peer;
    lane->outgoing = outgoing;
    lane->member = pccl_lane_is_of_member(exchange, lane);
    pccl_list_init(&lane->flows);
    pccl_list_init(&lane->queue);
    pccl_list_init(&lane->kept);
    pccl_table_init(&lane->kept_by_instance, &exchange->memory, &exchange->hash);
    pccl_table_init(&lane->held, &exchange->memory, &exchange->hash);
    pccl_table_insert(&exchange->lanes, &lane->by_peer, key_of(exchange, peer, outgoing));
    return lane;
}

static void lane_free(struct pccl_exchange *exchange, struct pccl_lane *lane)
{
    while (!pccl_list_is_empty(&lane->kept))
        pccl_kept_free(exchange, lane, PCCL_CONTAINER_OF(lane->kept.next, struct pccl_kept, link));
    pccl_held_forget_lane(lane);
    pccl_table_fini(&lane->kept_by_instance);
    pccl_table_fini(&lane->held);
    pccl_table_remove(&exchange->lanes, &lane->by_peer);
    pccl_release(&exchange->memory, lane, sizeof *lane);
}

void pccl_lane_tidy(struct pccl_exchange *exchange, struct pccl_lane *lane)
{
    if (lane != NULL && lane->connections == 0 && pccl_list_is_empty(&lane->flows) && pccl_list_is_empty(&lane->kept))
        lane_free(exchange, lane);
}

void pccl_lanes_free(struct pccl_exchange *exchange)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&exchange->lanes)) != NULL) {
        struct pccl_lane *lane = PCCL_CONTAINER_OF(node, struct pccl_lane, by_peer);
        PCCL_ASSERT(pccl_list_is_empty(&lane->flows));
        lane_free(exchange, lane);
    }
}

/* ---- flows ---- */

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

/* Looked up once, as it is asked often before the stripe begins. */
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

/* The end of the stripes of a turn in which the flow sends something by itself; their beginning if there are none. */
static uint64_t end_in_turn(const struct pccl_flow *flow, uint64_t turn)
{
    const struct pccl_plan *plan = &flow->transfer->plan;
    uint64_t first = turn * plan->turn_stripes;
    uint32_t number = pccl_flow_first_piece(flow, first);
    return first + (number != PCCL_NO_PIECE ? pccl_plan_part_stripes(plan, first, number) : 0);
}

/*
 * Where turns go on to the end of their parts, one waits until all of those before it is under way,
 * however many stripes the window has; so the first parts have all of this rank's links.
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
                return transfer->flows[i].begun >= end; /* it has waited for earlier ones */
        }
    }
    return true;
}

bool pccl_flow_can_begin(struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    uint64_t end = pccl_min_u64(pccl_max_u64(flow->granted, flow->ahead), transfer->granted);
    while (flow->begun < end && !has_first_segment(flow))
        flow->begun++; /* the segment is empty, so there is nothing to send */
    return flow->begun < end && is_its_turn(flow);
}

uint64_t pccl_flow_begin(struct pccl_flow *flow)
{
    struct pccl_transfer *transfer = flow->transfer;
    PCCL_ASSERT(flow->outgoing && flow->begun < transfer->granted);
    uint64_t stripe = flow->begun++;
    PCCL_SIGHT_SET(flow->sight->begun_stripes, flow->begun);
    bool ends = takes_turns(transfer) && flow->begun == end_in_turn(flow, stripe / transfer->plan.turn_stripes);
    for (uint32_t i = 0; i < transfer->outgoing_count && ends; i++)
        if (&transfer->flows[i] != flow)
            pccl_flow_wake(&transfer->flows[i]); /* it may be the turn of another one */
    return stripe;
}

bool pccl_flow_awaits_credit(const struct pccl_flow *flow)
{
    const struct pccl_transfer *transfer = flow->transfer;
    bool begins = flow->begun >= flow->granted && flow->begun < transfer->plan.stripes &&
                  pccl_flow_first_piece(flow, flow->begun) != PCCL_NO_PIECE;
    return !transfer->failed && (begins || flow->held.first != NULL);
}

bool pccl_flow_has_something(struct pccl_flow *flow)
{
    return flow->outgoing ? flow->ready.first != NULL || pccl_flow_can_begin(flow) : flow->tell;
}

void pccl_flow_wake(struct pccl_flow *flow)
{
    struct pccl_transfer *transfer = flow->transfer;
    if (transfer->failed || !pccl_list_is_empty(&flow->in_queue) || !pccl_flow_has_something(flow))
        return;
    struct pccl_lane *lane = flow->lane;
    pccl_list_append(&lane->queue, &flow->in_queue);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    if (lane->connections > 0)
        effects->writable(effects->context, &lane->peer, lane->outgoing);
}

/*
 * Before those of later steps: what has the longest way left must not wait, or it would go round
 * the ring alone when all others are at their end.
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
        append(&flow->held, parcel);
    else if (flow->transfer->plan.long_path)
        insert_by_step(&flow->ready, parcel);
    else
        append(&flow->ready, parcel);
}

void pccl_flow_send(struct pccl_flow *flow, struct pccl_parcel *parcel)
{
    PCCL_ASSERT(flow->outgoing && !parcel->handed);
    enqueue(flow, parcel);
    pccl_flow_wake(flow);
}

struct pccl_parcel *pccl_flow_take(struct pccl_flow *flow) { return take(&flow->ready); }

void pccl_flow_credit(struct pccl_flow *flow, uint64_t granted)
{
    PCCL_ASSERT(flow->outgoing);
    if (granted <= flow->granted)
        return; /* a later READY overtook it on another connection */
    flow->granted = granted;
    struct pccl_parcel_queue held = flow->held;
    flow->held = (struct pccl_parcel_queue){NULL, NULL};
    struct pccl_parcel *parcel;
    while ((parcel = take(&held)) != NULL)
        enqueue(flow, parcel);
    pccl_flow_wake(flow);
}
