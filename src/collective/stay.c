#include "collective/stay.h"

#include "collective/exchange.h"

#include <string.h>

struct pccl_stay pccl_stay_of(const struct pccl_transfer_config *config, const struct pccl_id *self)
{
    if (!pccl_plan_may_stay(config->descriptor.collective))
        return (struct pccl_stay){.bytes = 0};
    const struct pccl_seat seat = {
        .ranks = config->ranks, .rank = pccl_id_find(config->ring, config->ranks, self), .root = config->root};
    struct pccl_stay stay = {.bytes = 0};
    struct pccl_plan plan;
    struct pccl_text reason;
    struct pccl_segment first;
    uint64_t count;
    if (seat.ranks < 2 || seat.rank == seat.ranks ||
        pccl_plan_make(&config->descriptor, &config->cost, seat, config->positions, config->starts, &plan, &reason) !=
            PCCL_OK ||
        !pccl_plan_stays(&plan, &first, &count))
        return stay;
    stay.from = pccl_extents_at(&config->buffers.input, pccl_plan_input_at(&plan, &first));
    stay.to = pccl_extents_at(&config->buffers.result, pccl_plan_result_at(&plan, &first));
    stay.bytes = stay.from != stay.to ? (size_t)count * plan.element_bytes : 0;
    stay.streamed = plan.large;
    return stay;
}

void pccl_stay_copy(const struct pccl_stay *stay, const struct pccl_kernels *kernels, size_t at, size_t bytes)
{
    PCCL_ASSERT(at + bytes <= stay->bytes);
    if (!stay->streamed) {
        memcpy(stay->to + at, stay->from + at, bytes);
        return;
    }
    pccl_copy_streaming(kernels, stay->to + at, stay->from + at, bytes);
    pccl_copied_streaming(kernels);
}
