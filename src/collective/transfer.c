/* Operations: creation, lookup, end, and the record of ended operations. */
#include "collective/internal.h"

/* ---- creation ---- */

static bool connect_flow(struct pccl_transfer *transfer, struct pccl_flow *flow)
{
    struct pccl_lane *lane = pccl_lane_get(transfer->exchange, &transfer->config->ring[flow->other], flow->outgoing);
    if (lane == NULL)
        return false;
    flow->lane = lane;
    pccl_lane_use(lane);
    pccl_list_append(&lane->flows, &flow->on_lane);
    return true;
}

/*
 * Returns true if there is a flow. A send has only the flow of its source, on whose lane both ends send READY (PROTOCOL
 * 16.4).
 */
static bool has_flow(const struct pccl_transfer *transfer, uint32_t other, bool outgoing)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t rank = plan->seat.rank;
    if (pccl_transfer_is_send(transfer))
        return outgoing == (rank == plan->seat.root);
    return pccl_schedules[plan->algorithm]->sends(plan->seat, outgoing ? rank : other, outgoing ? other : rank);
}

/* Returns the i-th rank after this one or, for incoming flows, before it. */
static uint32_t rank_beside(struct pccl_seat seat, uint32_t i, bool outgoing)
{
    return (seat.rank + (outgoing ? i : seat.ranks - i)) % seat.ranks;
}

static uint32_t count_flows(const struct pccl_transfer *transfer, bool outgoing)
{
    const struct pccl_seat seat = transfer->plan.seat;
    uint32_t count = 0;
    for (uint32_t i = 1; i < seat.ranks; i++)
        count += has_flow(transfer, rank_beside(seat, i, outgoing), outgoing);
    return count;
}

static bool is_empty(const struct pccl_flow *flow)
{
    const struct pccl_plan *plan = &flow->transfer->plan;
    for (uint32_t turn = 0; turn < plan->turns; turn++) {
        const struct pccl_seat seat = pccl_plan_seat(plan, turn * plan->turn_stripes);
        const uint32_t steps = pccl_schedules[plan->algorithm]->steps(seat);
        for (uint32_t step = 0; step < steps; step++)
            if (pccl_flow_piece(flow, seat, step) != PCCL_NO_PIECE)
                return false;
    }
    return true;
}

static void list_flows(struct pccl_transfer *transfer, bool outgoing, struct pccl_flow *flows)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t count = 0;
    for (uint32_t i = 1; i < plan->seat.ranks; i++) {
        uint32_t other = rank_beside(plan->seat, i, outgoing);
        if (!has_flow(transfer, other, outgoing))
            continue;
        struct pccl_flow *flow = &flows[count];
        flow->transfer = transfer;
        flow->other = other;
        flow->column = count++;
        flow->outgoing = outgoing;
        flow->is_empty = !outgoing && is_empty(flow);
        flow->tell = outgoing && pccl_transfer_is_send(transfer);
        flow->telemetry = &transfer->exchange->unseen;
        pccl_list_init(&flow->on_lane);
        pccl_list_init(&flow->in_queue);
    }
}

static bool make_flows(struct pccl_transfer *transfer)
{
    uint32_t outgoing = count_flows(transfer, true), incoming = count_flows(transfer, false);
    transfer->flows = pccl_allocate(&transfer->exchange->memory, (outgoing + incoming) * sizeof *transfer->flows);
    if (transfer->flows == NULL)
        return false;
    transfer->outgoing_count = transfer->unheard = outgoing;
    transfer->flow_count = outgoing + incoming;
    transfer->columns = outgoing > incoming ? outgoing : incoming;
    list_flows(transfer, true, transfer->flows);
    list_flows(transfer, false, transfer->flows + outgoing);
    for (uint32_t i = 0; i < transfer->flow_count; i++)
        if (!connect_flow(transfer, &transfer->flows[i]))
            return false;
    return true;
}

static void record_flows(struct pccl_transfer *transfer, const struct pccl_transfer_config *config)
{
    for (uint32_t i = 0; i < transfer->flow_count && i < config->telemetry_count; i++) {
        struct pccl_flow *flow = &transfer->flows[i];
        flow->telemetry = &config->telemetry[i];
        pccl_telemetry_open(flow->telemetry, flow->other, flow->outgoing, transfer->plan.stripes);
    }
}

static size_t missing_bytes(const struct pccl_plan *plan) { return plan->seat.ranks * sizeof(uint64_t); }

static enum pccl_status make_plans(struct pccl_transfer *transfer, struct pccl_seat seat, struct pccl_text *reason)
{
    const struct pccl_transfer_config *config = transfer->config;
    const struct pccl_buffers *buffers = &config->buffers;
    if (buffers->sections == NULL)
        return pccl_plan_make(&config->descriptor, &config->cost, seat, config->positions, config->starts,
                              &transfer->plan, reason);
    if (buffers->section_count > 1) {
        struct pccl_plan *plans =
            pccl_allocate(&transfer->exchange->memory, buffers->section_count * sizeof *transfer->sections);
        if (plans == NULL)
            return PCCL_MEMORY;
        transfer->sections = plans;
        transfer->section_count = buffers->section_count;
    }
    return pccl_plan_make_sections(&config->descriptor, &config->cost, seat, buffers->sections, buffers->section_count,
                                   transfer->sections, &transfer->plan, reason);
}

/* Allocates room for a segment of any section. Returns false if out of memory. */
static bool make_rooms(struct pccl_transfer *transfer)
{
    const struct pccl_memory *memory = &transfer->exchange->memory;
    if (transfer->config->buffers.result.count <= 1)
        return true; /* parts with given lengths are in one extent each, or there is no list */
    for (uint32_t i = 0; i < transfer->section_count; i++) {
        const struct pccl_plan *plan = &transfer->sections[i];
        const uint64_t bytes = (uint64_t)plan->segment_elements * plan->element_bytes;
        transfer->room_bytes = (size_t)pccl_max_u64(transfer->room_bytes, bytes);
    }
    transfer->input_room = pccl_allocate(memory, transfer->room_bytes);
    transfer->result_room = pccl_allocate(memory, transfer->room_bytes);
    return transfer->input_room != NULL && transfer->result_room != NULL;
}

static bool scales(const struct pccl_transfer *transfer)
{
    bool some = false;
    for (uint32_t i = 0; i < transfer->section_count; i++)
        some = some || (transfer->sections[i].reduces && transfer->sections[i].reduction == PCCL_PREMUL_SUM);
    return some && transfer->config->factor != 1;
}

/* Returns true if the input and the result of this rank's part begin at the same address, in any extent. */
static bool is_in_place(const struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    const struct pccl_extents *input = &transfer->config->buffers.input, *result = &transfer->config->buffers.result;
    const struct pccl_segment own = {.first = plan->own_from};
    bool some = plan->own > 0 && pccl_extents_at(input, pccl_plan_input_at(plan, &own)) ==
                                     pccl_extents_at(result, pccl_plan_result_at(plan, &own));
    for (uint32_t i = 0; i < result->count; i++)
        some = some || input->list[i].memory == result->list[i].memory;
    return some;
}

/* Prepares the reports of complete parts. Empty parts are not reported. */
static bool expect_arrivals(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    PCCL_ASSERT(plan->starts != NULL);
    transfer->missing = pccl_allocate(&transfer->exchange->memory, missing_bytes(plan));
    for (uint32_t i = 0; i < plan->seat.ranks && transfer->missing != NULL; i++) {
        uint32_t part = pccl_plan_part_from(plan, i);
        uint64_t count = plan->starts[part + 1] - plan->starts[part];
        transfer->missing[i] = count > 0 ? count : PCCL_ARRIVAL_REPORTED;
    }
    return transfer->missing != NULL;
}

static size_t own_bytes(const struct pccl_transfer *transfer)
{
    const struct pccl_plan *last = &transfer->sections[transfer->section_count - 1];
    return last->bytes_before + (size_t)last->own * last->element_bytes;
}

static bool allocate_parts(struct pccl_transfer *transfer, const struct pccl_transfer_config *config)
{
    struct pccl_exchange *exchange = transfer->exchange;
    const struct pccl_memory *memory = &exchange->memory;
    transfer->ended = pccl_allocate(memory, sizeof *transfer->ended);
    if (transfer->ended == NULL || (config->tells_arrivals && !expect_arrivals(transfer)) || !make_flows(transfer))
        return false;
    record_flows(transfer, config);
    if (!make_rooms(transfer) || !pccl_window_init(transfer))
        return false;
    const struct pccl_plan *plan = &transfer->plan;
    if (!transfer->in_place || (!plan->reduces && !pccl_plan_keeps_sent(plan)))
        return true;
    return pccl_backup_init(&exchange->backups, plan, &config->buffers.result, own_bytes(transfer), &transfer->backup);
}

void pccl_arrival_release(struct pccl_arrival *arrival)
{
    struct pccl_transfer *transfer = arrival->transfer;
    if (transfer == NULL)
        return;
    pccl_list_remove(&arrival->node);
    pccl_scratch_give(&transfer->exchange->scratch, arrival->scratch);
    arrival->payload = NULL;
    arrival->transfer = NULL;
    arrival->scratch = NULL;
}

static void free_transfer(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    const struct pccl_memory *memory = &exchange->memory;
    while (!pccl_list_is_empty(&transfer->departures))
        pccl_departure_release(PCCL_CONTAINER_OF(transfer->departures.next, struct pccl_departure, node));
    while (!pccl_list_is_empty(&transfer->arrivals))
        pccl_arrival_release(PCCL_CONTAINER_OF(transfer->arrivals.next, struct pccl_arrival, node));
    pccl_window_fini(transfer);
    pccl_list_remove(&transfer->wanting);
    pccl_list_remove(&transfer->resting);
    for (uint32_t i = 0; i < transfer->flow_count; i++) {
        pccl_list_remove(&transfer->flows[i].in_queue);
        pccl_list_remove(&transfer->flows[i].on_lane);
        pccl_flow_give_back(&transfer->flows[i]);
        pccl_lane_tidy(transfer->flows[i].lane);
    }
    pccl_backup_fini(&exchange->backups, &transfer->backup);
    pccl_release(memory, transfer->flows, transfer->flow_count * sizeof *transfer->flows);
    pccl_release(memory, transfer->ended, sizeof *transfer->ended);
    pccl_release(memory, transfer->input_room, transfer->room_bytes);
    pccl_release(memory, transfer->result_room, transfer->room_bytes);
    if (transfer->sections != &transfer->plan)
        pccl_release(memory, transfer->sections, transfer->section_count * sizeof *transfer->sections);
    pccl_release(memory, transfer->missing, missing_bytes(&transfer->plan));
    pccl_release(memory, transfer, sizeof *transfer);
}

enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange, const struct pccl_transfer_config *config,
                                    struct pccl_transfer **transfer, struct pccl_text *reason)
{
    uint32_t rank = pccl_id_find(config->ring, config->ranks, &exchange->config.self);
    if (rank == config->ranks || config->ranks < 2)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "cannot start the operation: this peer is not in the ring, or the ring has no other peer");
    const struct pccl_seat seat = {.ranks = config->ranks, .rank = rank, .root = config->root};
    enum pccl_status status = PCCL_MEMORY;
    struct pccl_transfer *made = pccl_allocate(&exchange->memory, sizeof *made);
    if (made != NULL) {
        made->exchange = exchange;
        made->start_number = exchange->started++;
        made->config = config;
        made->sections = &made->plan;
        made->section_count = 1;
        pccl_list_init(&made->wanting);
        pccl_list_init(&made->resting);
        pccl_list_init(&made->departures);
        pccl_list_init(&made->arrivals);
        status = make_plans(made, seat, reason);
        made->seed = pccl_packing_seed(&config->instance, rank);
        if (status == PCCL_OK) {
            made->in_place = is_in_place(made);
            made->scales = scales(made);
        }
        if (status == PCCL_OK && allocate_parts(made, config)) {
            pccl_table_insert(&exchange->transfers, &made->by_instance,
                              pccl_instance_hash(&exchange->hash, &config->instance));
            *transfer = made;
            return PCCL_OK;
        }
        free_transfer(made);
    }
    if (status == PCCL_ARGUMENT)
        return status;
    return pccl_fail(reason, PCCL_MEMORY, "out of memory for an operation of %" PRIu64 " elements",
                     config->descriptor.count);
}

void pccl_transfer_restore(const struct pccl_transfer *transfer)
{
    for (uint32_t i = 0; i < transfer->section_count; i++)
        pccl_backup_restore(&transfer->backup, &transfer->sections[i]);
}

void pccl_transfer_end(struct pccl_transfer *transfer)
{
    pccl_table_remove(&transfer->exchange->transfers, &transfer->by_instance);
    free_transfer(transfer);
}

struct pccl_transfer *pccl_transfer_find(const struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->transfers, pccl_instance_hash(&exchange->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_transfer *transfer = PCCL_CONTAINER_OF(node, struct pccl_transfer, by_instance);
        if (pccl_instance_equal(&transfer->config->instance, instance))
            return transfer;
    }
    return NULL;
}

/* ---- operations that have ended ---- */

static struct pccl_ended *find_ended(const struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&exchange->ended, pccl_instance_hash(&exchange->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_ended *ended = PCCL_CONTAINER_OF(node, struct pccl_ended, by_instance);
        if (pccl_instance_equal(&ended->instance, instance))
            return ended;
    }
    return NULL;
}

static void forget_ended(struct pccl_exchange *exchange, struct pccl_ended *ended)
{
    pccl_list_remove(&ended->node);
    pccl_table_remove(&exchange->ended, &ended->by_instance);
    pccl_release(&exchange->memory, ended, sizeof *ended);
}

static void forget_oldest_ended(struct pccl_exchange *exchange)
{
    forget_ended(exchange, PCCL_CONTAINER_OF(exchange->ended_list.next, struct pccl_ended, node));
}

void pccl_instance_end(struct pccl_exchange *exchange, struct pccl_ended *ended, const struct pccl_instance *instance)
{
    ended->instance = *instance;
    pccl_list_append(&exchange->ended_list, &ended->node);
    pccl_table_insert(&exchange->ended, &ended->by_instance, pccl_instance_hash(&exchange->hash, instance));
    if (exchange->ended.count > PCCL_OPS_PER_PEER_MAX)
        forget_oldest_ended(exchange);
}

bool pccl_instance_has_ended(const struct pccl_exchange *exchange, const struct pccl_instance *instance)
{
    return find_ended(exchange, instance) != NULL;
}

void pccl_instances_forget(struct pccl_exchange *exchange)
{
    while (!pccl_list_is_empty(&exchange->ended_list))
        forget_oldest_ended(exchange);
}
