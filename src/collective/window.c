/*
 * The window of an operation. A group is open from its grant until all its messages have come in and gone out. The
 * lowest group that is open anywhere is granted by everybody, because everybody always has one open: so it comes to its
 * end, and so do all.
 */
#include "collective/internal.h"

/* Groups may end out of order, so the window may reach further than its groups that are open: up to so many times. */
enum { SLOTS_PER_OPEN_GROUP = 4 };
/* Where there is no way to fill, more groups only drive each other out of the caches. */
enum { SHORT_PATH_WINDOW = 4 };
/* And so do more windows: what all operations together have there should stay in the second and third caches. */
enum { SHORT_PATH_SCRATCH_BYTES = 12 << 20 };
enum { OFFERS = 4, LONG_PATH_OFFERS = 16 }; /* times that a window's credit is told */

static uint32_t parcel_count(const struct pccl_plan *plan)
{
    return plan->algorithm == PCCL_RING ? pccl_plan_steps(plan) : 2 * plan->ranks;
}

struct pccl_parcel *pccl_transfer_parcel(const struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step,
                                         uint32_t other)
{
    const struct pccl_plan *plan = &transfer->plan;
    return &group->parcels[plan->algorithm == PCCL_RING ? step : step * plan->ranks + other];
}

static struct pccl_group **slot_of(const struct pccl_transfer *transfer, uint64_t number)
{
    return &transfer->slots[number & (transfer->slot_count - 1)];
}

struct pccl_group *pccl_group_of(const struct pccl_transfer *transfer, uint64_t number)
{
    if (number < transfer->first_open || number >= transfer->granted)
        return NULL;
    return *slot_of(transfer, number);
}

static size_t group_bytes(const struct pccl_plan *plan)
{
    return sizeof(struct pccl_group) + parcel_count(plan) * sizeof(struct pccl_parcel);
}

bool pccl_group_reserve(struct pccl_transfer *transfer)
{
    struct pccl_group *group = pccl_allocate(&transfer->exchange->memory, group_bytes(&transfer->plan));
    if (group == NULL)
        return false;
    group->next = transfer->idle_groups;
    transfer->idle_groups = group;
    return true;
}

static void set_up_group(struct pccl_transfer *transfer, struct pccl_group *group)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t segments = pccl_plan_segments(plan, transfer->granted);
    struct pccl_group_shape shape =
        plan->algorithm == PCCL_RING ? pccl_ring_shape(plan, segments) : pccl_direct_shape(plan, segments);
    group->number = transfer->granted;
    group->arrivals_left = shape.arrivals;
    group->departures_left = shape.departures;
    group->results_left = segments;
    group->parts_left = plan->ranks - 1;
    uint32_t others = plan->algorithm == PCCL_RING ? 1 : plan->ranks;
    for (uint32_t i = 0; i < parcel_count(plan); i++)
        group->parcels[i] = (struct pccl_parcel){.group = group, .step = i / others};
}

/*
 * Tells the senders of new credit when a part of the window has come together: not each time. On a long path a smaller
 * part, for what waits for credit there starts a whole pass round the ring late; and the last of it at once.
 */
static void offer(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint64_t open = transfer->granted - transfer->complete;
    uint64_t enough = transfer->granted == plan->groups ? 1 : open / (plan->long_path ? LONG_PATH_OFFERS : OFFERS);
    for (uint32_t i = transfer->neighbours; i < 2 * transfer->neighbours; i++) {
        struct pccl_channel *channel = &transfer->channels[i];
        uint64_t untold = transfer->granted - channel->told;
        /* What is told always holds the lowest open group, so nothing waits for ever. */
        if (untold > 0 && untold >= enough) {
            channel->tell = true;
            pccl_channel_wake(channel);
        }
    }
}

static bool open_group(struct pccl_transfer *transfer)
{
    PCCL_ASSERT(transfer->granted < transfer->plan.groups && *slot_of(transfer, transfer->granted) == NULL);
    if (transfer->idle_groups == NULL && !pccl_group_reserve(transfer))
        return false;
    struct pccl_group *group = transfer->idle_groups;
    transfer->idle_groups = group->next;
    set_up_group(transfer, group);
    *slot_of(transfer, transfer->granted) = group;
    transfer->granted++;
    transfer->exchange->scratch.reserved_bytes += transfer->group_scratch;
    offer(transfer);
    for (uint32_t i = 0; i < transfer->neighbours; i++)
        pccl_channel_wake(&transfer->channels[i]);
    pccl_ahead_take(transfer, group);
    return true;
}

static bool wants_group(const struct pccl_transfer *transfer)
{
    return !transfer->failed && transfer->granted < transfer->plan.groups &&
           transfer->granted - transfer->complete < transfer->window &&
           transfer->granted - transfer->first_open < transfer->slot_count;
}

/*
 * How much may be reserved when another group of this transfer is opened. All transfers that run at a time are of one
 * view, and so on paths of one kind. A whole window always has room, for in large rings its groups are large.
 */
static size_t budget_of(const struct pccl_transfer *transfer)
{
    size_t all = transfer->exchange->scratch.bytes_max;
    if (transfer->plan.long_path)
        return all;
    uint64_t cached = pccl_max_u64(SHORT_PATH_SCRATCH_BYTES, transfer->window * transfer->group_scratch);
    return (size_t)pccl_min_u64(all, cached);
}

/* Larger windows, from what is left of the budget, in turn. */
void pccl_window_share_out(struct pccl_exchange *exchange)
{
    struct pccl_scratch_pool *pool = &exchange->scratch;
    while (!pccl_link_is_alone(&exchange->wanting)) {
        struct pccl_transfer *transfer = PCCL_CONTAINER_OF(exchange->wanting.next, struct pccl_transfer, wanting);
        bool wants = wants_group(transfer); /* or it got its minimum meanwhile */
        if (wants && pool->reserved_bytes + transfer->group_scratch > budget_of(transfer))
            return;
        pccl_link_remove(&transfer->wanting);
        if (wants && open_group(transfer) && wants_group(transfer))
            pccl_link_append(&exchange->wanting, &transfer->wanting);
    }
}

/* One group is always open, whatever the budget says; the memory for its record is there. */
void pccl_window_widen(struct pccl_transfer *transfer)
{
    if (transfer->granted == transfer->complete && wants_group(transfer)) {
        bool opened = open_group(transfer);
        PCCL_ASSERT(opened);
    }
    if (wants_group(transfer) && pccl_link_is_alone(&transfer->wanting))
        pccl_link_append(&transfer->exchange->wanting, &transfer->wanting);
    pccl_window_share_out(transfer->exchange);
}

void pccl_group_close_if_complete(struct pccl_transfer *transfer, struct pccl_group *group)
{
    if (group->arrivals_left > 0 || group->departures_left > 0)
        return;
    PCCL_ASSERT(group->results_left == 0);
    PCCL_ASSERT(transfer->exchange->scratch.reserved_bytes >= transfer->group_scratch);
    *slot_of(transfer, group->number) = NULL;
    group->next = transfer->idle_groups;
    transfer->idle_groups = group;
    transfer->exchange->scratch.reserved_bytes -= transfer->group_scratch;
    transfer->complete++;
    while (transfer->first_open < transfer->granted && *slot_of(transfer, transfer->first_open) == NULL)
        transfer->first_open++;
    pccl_window_widen(transfer);
    offer(transfer);
}

/* Segments of a group that may be in scratch at once, given that nobody sends a result before its parts. */
static uint32_t group_buffers(const struct pccl_plan *plan)
{
    uint32_t others = plan->ranks - 1;
    if (plan->codec == NULL)
        return others; /* parts; results lie in the caller's memory */
    return plan->algorithm == PCCL_RING ? plan->ranks : 2 * others;
}

void pccl_window_size(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    size_t segment_bytes = pccl_plan_bytes_most(plan, plan->segment_elements);
    /* Each step of a group is one trip; the credit that follows its end is another one, on which nothing is moved. */
    uint64_t steps = pccl_plan_steps(plan), window_bytes = transfer->exchange->config.window_bytes;
    uint64_t window = (window_bytes + window_bytes / steps) / segment_bytes;
    if (!plan->long_path)
        window = pccl_min_u64(window, SHORT_PATH_WINDOW);
    transfer->window = pccl_min_u64(pccl_max_u64(window, 1), plan->groups);
    transfer->group_scratch = group_buffers(plan) * pccl_scratch_size(segment_bytes);
    transfer->slot_count = 1;
    while (transfer->slot_count < pccl_min_u64(transfer->window * SLOTS_PER_OPEN_GROUP, plan->groups))
        transfer->slot_count *= 2;
}

static void free_group(struct pccl_transfer *transfer, struct pccl_group *group)
{
    pccl_release(&transfer->exchange->memory, group, group_bytes(&transfer->plan));
}

void pccl_groups_free(struct pccl_transfer *transfer)
{
    struct pccl_scratch_pool *pool = &transfer->exchange->scratch;
    for (uint64_t number = transfer->first_open; number < transfer->granted; number++) {
        struct pccl_group *group = *slot_of(transfer, number);
        if (group == NULL)
            continue;
        for (uint32_t i = 0; i < parcel_count(&transfer->plan); i++)
            pccl_scratch_give(pool, group->parcels[i].scratch);
        pool->reserved_bytes -= transfer->group_scratch;
        free_group(transfer, group);
    }
    while (transfer->idle_groups != NULL) {
        struct pccl_group *group = transfer->idle_groups;
        transfer->idle_groups = group->next;
        free_group(transfer, group);
    }
}
