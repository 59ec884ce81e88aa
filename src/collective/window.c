/*
 * Window of an operation. A stripe is open from its grant until all its messages have been received and sent. Every
 * peer always has an open stripe, so every peer has granted the lowest stripe that is open on any peer. That stripe can
 * complete, and therefore so can all later ones.
 */
#include "collective/internal.h"

/* Stripes may complete out of order, so the window may span SLOTS_PER_OPEN_STRIPE times the number of open stripes. */
enum { SLOTS_PER_OPEN_STRIPE = 4 };
/* A few stripes fill a short path; more would only evict each other from the caches. */
enum { SHORT_PATH_WINDOW = 4 };
/*
 * Limits for the windows of all operations on short paths together, for the same reason: all their scratch should stay
 * in the second- and third-level caches, and the scratch of operations that move data closer. An operation whose peers
 * have not started reserves a window but does not touch it, so it must not reduce the room of those that move data.
 */
enum { SHORT_PATH_SCRATCH_BYTES = 12 << 20, SHORT_PATH_MOVING_BYTES = 3 << 20 };

const struct pccl_plan *pccl_plan_of(const struct pccl_transfer *transfer, uint64_t stripe)
{
    return transfer->section_count == 1 ? &transfer->plan
                                        : pccl_plan_section(transfer->sections, transfer->section_count, stripe);
}

uint32_t pccl_flow_piece(const struct pccl_flow *flow, struct pccl_seat seat, uint32_t step)
{
    uint32_t sender = flow->outgoing ? seat.rank : flow->other, receiver = flow->outgoing ? flow->other : seat.rank;
    return pccl_schedules[flow->transfer->plan.algorithm]->piece(seat, sender, receiver, step);
}

struct pccl_piece pccl_piece_of(const struct pccl_flow *flow, uint64_t stripe, uint32_t step)
{
    const struct pccl_plan *plan = pccl_plan_of(flow->transfer, stripe);
    const struct pccl_seat seat = pccl_plan_seat(&flow->transfer->plan, stripe);
    const uint32_t number = pccl_flow_piece(flow, seat, step);
    struct pccl_segment segment = {0, 0, 0};
    if (number != PCCL_NO_PIECE)
        segment = pccl_plan_segment(plan, stripe, number);
    return (struct pccl_piece){plan, seat, stripe, number, segment};
}

uint32_t pccl_flow_first_piece(const struct pccl_flow *flow, uint64_t stripe)
{
    return pccl_flow_piece(flow, pccl_plan_seat(&flow->transfer->plan, stripe), 0);
}

static uint32_t parcel_count(const struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    return pccl_schedules[plan->algorithm]->steps(plan->seat) * transfer->columns;
}

struct pccl_parcel *pccl_flow_parcel(const struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step)
{
    return &stripe->parcels[step * flow->transfer->columns + flow->column];
}

static struct pccl_stripe **slot_of(const struct pccl_transfer *transfer, uint64_t number)
{
    return &transfer->slots[number & (transfer->slot_count - 1)];
}

struct pccl_stripe *pccl_stripe_of(const struct pccl_transfer *transfer, uint64_t number)
{
    if (number < transfer->first_open || number >= transfer->granted)
        return NULL;
    return *slot_of(transfer, number);
}

static size_t stripe_bytes(const struct pccl_transfer *transfer)
{
    return sizeof(struct pccl_stripe) + parcel_count(transfer) * sizeof(struct pccl_parcel);
}

/* Allocates one more stripe. Returns false if out of memory. */
static bool reserve_stripe(struct pccl_transfer *transfer)
{
    struct pccl_stripe *stripe = pccl_allocate(&transfer->exchange->memory, stripe_bytes(transfer));
    if (stripe == NULL)
        return false;
    stripe->next = transfer->idle_stripes;
    transfer->idle_stripes = stripe;
    return true;
}

static void count_messages(const struct pccl_flow *flow, struct pccl_stripe *stripe)
{
    uint32_t before = stripe->departures_left + stripe->arrivals_left;
    const struct pccl_plan *plan = &flow->transfer->plan, *section = pccl_plan_of(flow->transfer, stripe->number);
    const struct pccl_schedule *schedule = pccl_schedules[plan->algorithm];
    const struct pccl_seat seat = pccl_plan_seat(plan, stripe->number);
    uint32_t steps = schedule->steps(seat);
    for (uint32_t step = 0; step < steps; step++) {
        if (!pccl_plan_has_segment(section, stripe->number, pccl_flow_piece(flow, seat, step)))
            continue;
        if (flow->outgoing) {
            stripe->departures_left++;
            continue;
        }
        enum pccl_work work = schedule->arrived(seat, step).work;
        stripe->arrivals_left++;
        stripe->parts_left += work == PCCL_WORK_COLLECT;
        stripe->results_left += work == PCCL_WORK_FINISH || work == PCCL_WORK_STORE || work == PCCL_WORK_SCAN;
    }
    pccl_telemetry_expect(flow->telemetry, stripe->number, stripe->departures_left + stripe->arrivals_left - before,
                          flow->transfer->exchange->now_us);
}

static void set_up_stripe(struct pccl_transfer *transfer, struct pccl_stripe *stripe)
{
    *stripe = (struct pccl_stripe){.transfer = transfer, .number = transfer->granted};
    for (uint32_t i = 0; i < transfer->flow_count; i++)
        count_messages(&transfer->flows[i], stripe);
    stripe->results_left += stripe->parts_left > 0;
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe->number);
    for (uint32_t number = 0; number < plan->pieces; number++)
        stripe->results_left += pccl_plan_keeps(plan, stripe->number, number);
    transfer->results_complete += stripe->results_left == 0;
    uint32_t parcels = parcel_count(transfer);
    for (uint32_t i = 0; i < parcels; i++)
        stripe->parcels[i] = (struct pccl_parcel){.stripe = stripe, .step = i / transfer->columns};
}

/* ---- scratch ---- */

/*
 * Returns true once a stripe is complete. This shows that the peers take part, because a stripe needs their messages
 * unless all its data stays here.
 */
static bool is_moving(const struct pccl_transfer *transfer) { return transfer->complete > 0; }

static void reserve_scratch(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    exchange->scratch.reserved_bytes += transfer->stripe_scratch;
    if (transfer->plan.long_path)
        return;
    exchange->short_path_bytes += transfer->stripe_scratch;
    exchange->moving_bytes += is_moving(transfer) ? transfer->stripe_scratch : 0;
}

static void give_back_scratch(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    const size_t bytes = transfer->stripe_scratch, moving = is_moving(transfer) ? bytes : 0;
    PCCL_ASSERT(exchange->scratch.reserved_bytes >= bytes);
    exchange->scratch.reserved_bytes -= bytes;
    if (transfer->plan.long_path)
        return;
    PCCL_ASSERT(exchange->short_path_bytes >= bytes && exchange->moving_bytes >= moving);
    exchange->short_path_bytes -= bytes;
    exchange->moving_bytes -= moving;
}

/*
 * Returns true if another stripe of this transfer may be opened in addition to all open ones. Operations on long paths
 * do not count against the limits of those on short paths, which include all sends: they would use up these limits for
 * as long as they run. There is always room for one whole window, because stripes of large rings are large.
 */
static bool has_room(const struct pccl_transfer *transfer)
{
    const struct pccl_exchange *exchange = transfer->exchange;
    const uint64_t window = transfer->window * transfer->stripe_scratch;
    const size_t more = transfer->stripe_scratch;
    return exchange->scratch.reserved_bytes + more <= exchange->scratch.bytes_max &&
           (transfer->plan.long_path ||
            (exchange->moving_bytes + more <= pccl_max_u64(SHORT_PATH_MOVING_BYTES, window) &&
             (is_moving(transfer) ||
              exchange->short_path_bytes + more <= pccl_max_u64(SHORT_PATH_SCRATCH_BYTES, window))));
}

/* ---- opening and closing ---- */

/* Opens the next stripe. Returns NULL if out of memory. */
static struct pccl_stripe *open_stripe(struct pccl_transfer *transfer)
{
    PCCL_ASSERT(transfer->granted < transfer->plan.stripes && *slot_of(transfer, transfer->granted) == NULL);
    if (transfer->idle_stripes == NULL && !reserve_stripe(transfer))
        return NULL;
    struct pccl_stripe *stripe = transfer->idle_stripes;
    transfer->idle_stripes = stripe->next;
    set_up_stripe(transfer, stripe);
    *slot_of(transfer, transfer->granted) = stripe;
    transfer->granted++;
    reserve_scratch(transfer);
    return stripe;
}

static bool wants_stripe(const struct pccl_transfer *transfer)
{
    return !transfer->failed && pccl_list_is_empty(&transfer->resting) && transfer->granted < transfer->plan.stripes &&
           transfer->granted - transfer->complete < transfer->window &&
           transfer->granted - transfer->first_open < transfer->slot_count;
}

struct pccl_stripe *pccl_window_open_next(struct pccl_exchange *exchange)
{
    struct pccl_stripe *stripe = NULL;
    for (struct pccl_list_node *node = exchange->wanting.next, *next; node != &exchange->wanting && stripe == NULL;
         node = next) {
        struct pccl_transfer *transfer = PCCL_CONTAINER_OF(node, struct pccl_transfer, wanting);
        next = node->next;
        if (wants_stripe(transfer)) { /* the transfer may have received its minimum in the meantime */
            if (!has_room(transfer))
                continue;
            stripe = open_stripe(transfer);
        }
        if (stripe == NULL || !wants_stripe(transfer))
            pccl_list_remove(&transfer->wanting);
    }
    return stripe;
}

struct pccl_stripe *pccl_window_open_least(struct pccl_transfer *transfer)
{
    if (transfer->granted != transfer->complete || !wants_stripe(transfer))
        return NULL;
    struct pccl_stripe *opened = open_stripe(transfer);
    PCCL_ASSERT(opened != NULL);
    return opened;
}

/*
 * Queues transfers in order of their start, because the windows of several operations evict each other from the caches,
 * and because the operations that started first then end first, too. All others keep one stripe, so they make progress.
 */
void pccl_window_enqueue(struct pccl_transfer *transfer)
{
    if (!wants_stripe(transfer) || !pccl_list_is_empty(&transfer->wanting))
        return;
    struct pccl_list_node *wanting = &transfer->exchange->wanting, *next = wanting->next;
    while (next != wanting &&
           PCCL_CONTAINER_OF(next, struct pccl_transfer, wanting)->start_number < transfer->start_number)
        next = next->next;
    pccl_list_append(next, &transfer->wanting); /* inserts the transfer before `next` */
}

void pccl_stripe_result(struct pccl_stripe *stripe, uint32_t number)
{
    struct pccl_transfer *transfer = stripe->transfer;
    PCCL_ASSERT(stripe->results_left > 0);
    if (--stripe->results_left == 0)
        transfer->results_complete++;
    if (transfer->missing == NULL)
        return;
    const struct pccl_segment segment = pccl_plan_segment(&transfer->plan, stripe->number, number);
    uint64_t *missing = &transfer->missing[pccl_plan_giver(&transfer->plan, segment.part)];
    PCCL_ASSERT(*missing >= segment.count && *missing != PCCL_ARRIVAL_REPORTED);
    *missing -= segment.count;
    transfer->has_arrived = transfer->has_arrived || *missing == 0;
}

bool pccl_stripe_close(struct pccl_stripe *stripe)
{
    struct pccl_transfer *transfer = stripe->transfer;
    if (stripe->arrivals_left > 0 || stripe->departures_left > 0)
        return false;
    PCCL_ASSERT(stripe->results_left == 0 && pccl_stripe_of(transfer, stripe->number) == stripe);
    *slot_of(transfer, stripe->number) = NULL;
    stripe->next = transfer->idle_stripes;
    transfer->idle_stripes = stripe;
    give_back_scratch(transfer);
    if (!is_moving(transfer) && !transfer->plan.long_path)
        transfer->exchange->moving_bytes += (size_t)(transfer->granted - 1) * transfer->stripe_scratch;
    transfer->complete++;
    while (transfer->first_open < transfer->granted && *slot_of(transfer, transfer->first_open) == NULL)
        transfer->first_open++;
    return true;
}

/*
 * Returns true for an all-to-all over long links. Each peer sends to all others over one line and receives from all
 * over one line, so one window for all senders fills that line; several windows would overflow the queues on the path.
 */
static bool has_one_line(const struct pccl_plan *plan)
{
    return plan->long_path && plan->algorithm == PCCL_EXCHANGE_DIRECT;
}

/*
 * Returns the window in stripes if data for several peers shares a line. The initial grants arrive as one burst, so the
 * window is limited to the capacity of the line. If results follow, they are added, so the window is smaller, unless it
 * covers the whole operation: a smaller one would wait for credit at the end.
 */
static uint64_t window_of_shared_line(const struct pccl_plan *plan, uint64_t line_bytes, uint64_t step_bytes)
{
    const uint64_t held = line_bytes / step_bytes;
    const bool has_results = pccl_schedules[plan->algorithm]->steps(plan->seat) > 1;
    return has_results && plan->stripes > held ? held * 2 / 3 : held;
}

static uint64_t window_of(const struct pccl_transfer *transfer, size_t segment_bytes)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint64_t window_bytes = transfer->exchange->config.window_bytes;
    if (has_one_line(plan))
        return window_bytes / segment_bytes;
    if (plan->long_path && plan->turns <= 1 && transfer->outgoing_count > 1)
        return window_of_shared_line(plan, window_bytes, segment_bytes * transfer->outgoing_count);
    /*
     * Each step of a stripe takes one trip, and the credit after its end takes another one without data. The fewer
     * steps a schedule has, the more this counts, and the less data fills the link while the last stripes are on their
     * way.
     */
    uint64_t steps = pccl_schedules[plan->algorithm]->steps(plan->seat);
    uint64_t window = (window_bytes + 2 * window_bytes / steps) / segment_bytes;
    if (!plan->long_path)
        window = pccl_min_u64(window, SHORT_PATH_WINDOW);
    /* Turns on different links should not wait for one another. */
    return plan->turns > 1 ? window * pccl_min_u64(plan->turns, transfer->outgoing_count) : window;
}

static void set_size(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    size_t segment_bytes = pccl_plan_bytes_most(plan, plan->segment_elements);
    PCCL_ASSERT(segment_bytes > 0);
    uint64_t window = window_of(transfer, segment_bytes);
    transfer->window = pccl_min_u64(pccl_max_u64(window, 1), plan->stripes);
    bool makes_own = pccl_packing_packs(&plan->packing) || transfer->scales ||
                     transfer->input_room != NULL; /* this rank's part is sent from scratch, too */
    transfer->stripe_scratch =
        pccl_schedules[plan->algorithm]->buffers(plan->seat, makes_own) * pccl_scratch_size(segment_bytes);
    transfer->slot_count = 1;
    while (transfer->slot_count < pccl_min_u64(transfer->window * SLOTS_PER_OPEN_STRIPE, plan->stripes))
        transfer->slot_count *= 2;
}

uint64_t pccl_early_stripes(const struct pccl_plan *plan)
{
    if (!plan->long_path)
        return 0;
    return pccl_min_u64(plan->stripes,
                        PCCL_EARLY_BYTES / pccl_scratch_size(pccl_plan_bytes(plan, 0, plan->segment_elements)));
}

static void free_stripe(struct pccl_transfer *transfer, struct pccl_stripe *stripe)
{
    pccl_release(&transfer->exchange->memory, stripe, stripe_bytes(transfer));
}

bool pccl_window_init(struct pccl_transfer *transfer)
{
    set_size(transfer);
    transfer->slots =
        pccl_allocate(&transfer->exchange->memory, (size_t)transfer->slot_count * sizeof(struct pccl_stripe *));
    return transfer->slots != NULL && reserve_stripe(transfer);
}

void pccl_window_fini(struct pccl_transfer *transfer)
{
    struct pccl_scratch_pool *pool = &transfer->exchange->scratch;
    for (uint64_t number = transfer->first_open; number < transfer->granted; number++) {
        struct pccl_stripe *stripe = *slot_of(transfer, number);
        if (stripe == NULL)
            continue;
        for (uint32_t i = 0; i < parcel_count(transfer); i++)
            pccl_scratch_give(pool, stripe->parcels[i].scratch);
        give_back_scratch(transfer);
        free_stripe(transfer, stripe);
    }
    while (transfer->idle_stripes != NULL) {
        struct pccl_stripe *stripe = transfer->idle_stripes;
        transfer->idle_stripes = stripe->next;
        free_stripe(transfer, stripe);
    }
    pccl_release(&transfer->exchange->memory, transfer->slots,
                 (size_t)transfer->slot_count * sizeof(struct pccl_stripe *));
}

/* ---- progress and failure of a transfer ---- */

static void tell_arrivals(struct pccl_transfer *transfer)
{
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    transfer->has_arrived = false;
    for (uint32_t i = 0; i < transfer->plan.seat.ranks; i++) {
        if (transfer->missing[i] > 0)
            continue;
        transfer->missing[i] = PCCL_ARRIVAL_REPORTED;
        effects->arrived(effects->context, transfer, i);
    }
}

void pccl_transfer_report(struct pccl_transfer *transfer)
{
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    /*
     * A result does not count until all receivers have been compared, because it may contain early data, or only this
     * rank's own part.
     */
    if (transfer->unheard > 0)
        return;
    if (transfer->has_arrived)
        tell_arrivals(transfer);
    enum pccl_transfer_stage before = transfer->stage;
    if (transfer->complete == transfer->plan.stripes)
        transfer->stage = PCCL_TRANSFER_AT_REST;
    else if (transfer->results_complete == transfer->plan.stripes)
        transfer->stage = PCCL_TRANSFER_DONE;
    if (before == PCCL_TRANSFER_MOVING && transfer->stage != before)
        effects->done(effects->context, transfer);
    if (transfer->stage == PCCL_TRANSFER_AT_REST && before != PCCL_TRANSFER_AT_REST)
        effects->at_rest(effects->context, transfer);
}

void pccl_transfer_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...)
{
    PCCL_ASSERT(!transfer->failed && class != PCCL_CLASS_NONE);
    transfer->failed = true;
    for (uint32_t i = 0; i < transfer->flow_count; i++)
        pccl_list_remove(&transfer->flows[i].in_queue);
    pccl_list_remove(&transfer->wanting);
    pccl_list_remove(&transfer->resting);
    struct pccl_text reason;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&reason, format, arguments);
    va_end(arguments);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    effects->failed(effects->context, transfer, class, &reason);
}
