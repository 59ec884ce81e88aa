/* Positions of the elements of a plan, and sizes of messages. */
#include "collective/plan.h"

struct pccl_seat pccl_plan_seat(const struct pccl_plan *plan, uint64_t stripe)
{
    struct pccl_seat seat = plan->seat;
    if (plan->turns > 1)
        seat.turn = (uint32_t)(stripe / plan->turn_stripes % plan->turns);
    return seat;
}

uint32_t pccl_plan_parts(const struct pccl_plan *plan)
{
    return plan->division == PCCL_DIVISION_EXCHANGED ? plan->seat.ranks * plan->seat.ranks : plan->seat.ranks;
}

uint64_t pccl_plan_whole(const struct pccl_plan *plan)
{
    if (plan->starts != NULL)
        return plan->starts[pccl_plan_parts(plan)];
    return plan->count * (plan->positions != NULL ? plan->seat.ranks : 1);
}

uint64_t pccl_plan_part_start(const struct pccl_plan *plan, uint32_t part)
{
    return plan->starts != NULL ? plan->starts[part] : part * plan->count;
}

uint64_t pccl_plan_part_length(const struct pccl_plan *plan, uint32_t part)
{
    return plan->starts != NULL ? plan->starts[part + 1] - plan->starts[part] : plan->count;
}

uint32_t pccl_plan_part_between(const struct pccl_plan *plan, uint32_t from, uint32_t to)
{
    return plan->positions[from] * plan->seat.ranks + plan->positions[to];
}

uint64_t pccl_plan_stripe_elements(const struct pccl_plan *plan)
{
    return (uint64_t)plan->segment_elements * (plan->positions != NULL ? 1 : plan->pieces);
}

uint64_t pccl_plan_place(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    return (stripe * plan->pieces + number) << 32;
}

size_t pccl_plan_input_at(const struct pccl_plan *plan, const struct pccl_segment *segment)
{
    return plan->bytes_before + (size_t)(segment->first - plan->input_from) * plan->element_bytes;
}

size_t pccl_plan_result_at(const struct pccl_plan *plan, const struct pccl_segment *segment)
{
    uint64_t first = segment->first - plan->result_from;
    if (plan->division == PCCL_DIVISION_EXCHANGED)
        first = pccl_plan_exchanged_at(plan, segment);
    return plan->bytes_before + (size_t)first * plan->element_bytes;
}

bool pccl_plan_shares_lines(const struct pccl_plan *plan)
{
    switch (plan->algorithm) {
    case PCCL_DIRECT:
    case PCCL_SPREAD:
    case PCCL_STAR:
    case PCCL_GATHER_DIRECT:
    case PCCL_SCATTER_DIRECT:
    case PCCL_REDUCE_DIRECT:
    case PCCL_TO_ROOT_DIRECT:
    case PCCL_FROM_ROOT_DIRECT:
    case PCCL_EXCHANGE_DIRECT: return plan->seat.ranks > 2;
    default: return false;
    }
}

const struct pccl_plan *pccl_plan_section(const struct pccl_plan *plans, uint32_t count, uint64_t stripe)
{
    uint32_t index = 0;
    while (index + 1 < count && plans[index + 1].first_stripe <= stripe)
        index++;
    return &plans[index];
}

static uint64_t stripe_of_turn(const struct pccl_plan *plan, uint64_t stripe)
{
    if (plan->turns == 1)
        return stripe;
    return stripe / plan->turn_stripes / plan->turns * plan->turn_stripes + stripe % plan->turn_stripes;
}

struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    stripe -= plan->first_stripe;
    PCCL_ASSERT(stripe < plan->stripes && number < plan->pieces);
    if (plan->positions != NULL) {
        struct pccl_seat seat = pccl_plan_seat(plan, stripe);
        uint32_t part = plan->positions[number];
        if (plan->division == PCCL_DIVISION_EXCHANGED)
            part = pccl_plan_part_between(plan, number, (number + pccl_exchange_places(seat)) % seat.ranks);
        uint64_t start = stripe_of_turn(plan, stripe) * plan->segment_elements,
                 length = pccl_plan_part_length(plan, part);
        uint64_t rest = start < length ? length - start : 0;
        uint32_t count = (uint32_t)pccl_min_u64(plan->segment_elements, rest);
        return (struct pccl_segment){pccl_plan_part_start(plan, part) + start, count, part};
    }
    uint64_t start = stripe * pccl_plan_stripe_elements(plan);
    if (stripe + 1 < plan->stripes)
        return (struct pccl_segment){start + (uint64_t)number * plan->segment_elements, plan->segment_elements, 0};
    uint64_t rest = plan->count - start, filled = plan->pieces;
    if (plan->leaves_pieces)
        filled = pccl_min_u64(filled, pccl_divide_up(rest, plan->segment_elements));
    if (number >= filled)
        return (struct pccl_segment){plan->count, 0, 0};
    uint64_t whole = rest / filled, longer = rest % filled;
    uint64_t first = start + number * whole + pccl_min_u64(number, longer);
    return (struct pccl_segment){first, (uint32_t)(whole + (number < longer)), 0};
}

uint32_t pccl_plan_part_from(const struct pccl_plan *plan, uint32_t position)
{
    uint32_t own = plan->positions[plan->seat.rank];
    return plan->division == PCCL_DIVISION_EXCHANGED   ? position * plan->seat.ranks + own
           : plan->division == PCCL_DIVISION_SCATTERED ? own
                                                       : position;
}

uint32_t pccl_plan_giver(const struct pccl_plan *plan, uint32_t part)
{
    return plan->division == PCCL_DIVISION_EXCHANGED   ? part / plan->seat.ranks
           : plan->division == PCCL_DIVISION_SCATTERED ? plan->positions[plan->seat.root]
                                                       : part;
}

uint64_t pccl_plan_exchanged_at(const struct pccl_plan *plan, const struct pccl_segment *segment)
{
    uint64_t before = 0;
    if (plan->starts == NULL)
        before = segment->part / plan->seat.ranks * plan->count;
    for (uint32_t part = segment->part % plan->seat.ranks; plan->starts != NULL && part < segment->part;
         part += plan->seat.ranks)
        before += pccl_plan_part_length(plan, part);
    return before + segment->first - pccl_plan_part_start(plan, segment->part);
}

uint64_t pccl_plan_part_stripes(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    return pccl_divide_up(pccl_plan_part_length(plan, pccl_plan_segment(plan, stripe, number).part),
                          plan->segment_elements);
}

bool pccl_plan_has_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    return number != PCCL_NO_PIECE && pccl_plan_segment(plan, stripe, number).count > 0;
}

bool pccl_plan_keeps(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    const struct pccl_schedule *schedule = pccl_schedules[plan->algorithm];
    return schedule->keeps != NULL && schedule->keeps(pccl_plan_seat(plan, stripe), number) &&
           pccl_plan_has_segment(plan, stripe, number);
}

bool pccl_plan_keeps_sent(const struct pccl_plan *plan)
{
    const bool changes = pccl_packing_packs(&plan->packing) || plan->scan != PCCL_NO_SCAN;
    return changes && !pccl_schedules[plan->algorithm]->keeps_unsent;
}

bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step)
{
    return plan->folded_datatype != plan->datatype &&
           pccl_schedules[plan->algorithm]->carries(plan->seat, step) == PCCL_CONTENT_SUM &&
           !pccl_packing_packs(&plan->packing);
}

size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count)
{
    if (pccl_packing_packs(&plan->packing))
        return pccl_packing_bytes(&plan->packing, count);
    return count * (pccl_plan_is_wide(plan, step) ? pccl_datatype_bytes(plan->folded_datatype) : plan->element_bytes);
}

size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count) { return pccl_plan_bytes(plan, 1, count); }
