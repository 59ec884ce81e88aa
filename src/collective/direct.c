/*
 * Direct exchange (plan.h). The owner of a segment sends the result only when it has everybody's part, so a result that
 * comes in may be written over the input.
 */
#include "collective/internal.h"

struct pccl_group_shape pccl_direct_shape(const struct pccl_plan *plan, uint32_t segments)
{
    /* The own segment: all the others' parts come, and go as results. Each other one: a part goes, the result comes. */
    bool owner = (plan->rank + 1) % plan->ranks < segments;
    uint32_t messages = segments - owner + (owner ? plan->ranks - 1 : 0);
    return (struct pccl_group_shape){messages, messages};
}

static const void *part_of(const struct pccl_transfer *transfer, struct pccl_group *group,
                           const struct pccl_segment *segment, uint32_t rank)
{
    if (rank == transfer->plan.rank)
        return pccl_input_of(transfer, segment);
    return pccl_transfer_parcel(transfer, group, 0, rank)->scratch->bytes;
}

/* All parts in the order of the ring, from the rank that has the segment's number to the owner. */
static void fold_elements(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t number)
{
    const struct pccl_plan *plan = &transfer->plan;
    struct pccl_segment segment = pccl_plan_segment(plan, group->number, number);
    const void *parts[PCCL_MESH_PEERS_MAX];
    for (uint32_t i = 0; i < plan->ranks; i++)
        parts[i] = part_of(transfer, group, &segment, (number + i) % plan->ranks);
    pccl_transfer_save(transfer, group->number, number);
    pccl_combine_all(transfer->exchange->config.kernels, plan->datatype, plan->reduction, parts, plan->ranks,
                     segment.count, pccl_result_of(transfer, &segment));
}

static void fold_packed(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t number,
                        struct pccl_scratch *packed)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint8_t *parts[PCCL_MESH_PEERS_MAX];
    for (uint32_t i = 0; i + 1 < plan->ranks; i++)
        parts[i] = pccl_transfer_parcel(transfer, group, 0, (number + i) % plan->ranks)->scratch->bytes;
    pccl_packed_fold(transfer, group->number, number, parts, plan->ranks - 1, packed->bytes);
}

static void give_parts(struct pccl_transfer *transfer, struct pccl_group *group)
{
    for (uint32_t rank = 0; rank < transfer->plan.ranks; rank++) {
        struct pccl_parcel *parcel = pccl_transfer_parcel(transfer, group, 0, rank);
        pccl_scratch_give(&transfer->exchange->scratch, parcel->scratch);
        parcel->scratch = NULL;
    }
}

/* Everybody's part is here. */
static void fold(struct pccl_transfer *transfer, struct pccl_group *group)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t number = (plan->rank + 1) % plan->ranks;
    struct pccl_scratch *packed = NULL;
    if (plan->codec != NULL) {
        packed = pccl_transfer_parcel(transfer, group, 0, number)->scratch;
        pccl_scratch_share(packed);
        fold_packed(transfer, group, number, packed);
    } else {
        fold_elements(transfer, group, number);
    }
    give_parts(transfer, group);
    for (uint32_t i = 1; i < plan->ranks; i++) {
        if (packed != NULL)
            pccl_scratch_share(packed);
        pccl_transfer_send(transfer, group, 1, (plan->rank + i) % plan->ranks, packed);
    }
    pccl_scratch_give(&transfer->exchange->scratch, packed);
    pccl_transfer_result(transfer, group);
}

void pccl_direct_received(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step, uint32_t from,
                          struct pccl_scratch *scratch)
{
    if (step == 0) {
        pccl_transfer_parcel(transfer, group, 0, from)->scratch = scratch;
        PCCL_ASSERT(group->parts_left > 0);
        if (--group->parts_left == 0)
            fold(transfer, group);
        return;
    }
    if (scratch != NULL)
        pccl_packed_store(transfer, group->number, (from + 1) % transfer->plan.ranks, scratch->bytes);
    pccl_scratch_give(&transfer->exchange->scratch, scratch);
    pccl_transfer_result(transfer, group);
}
