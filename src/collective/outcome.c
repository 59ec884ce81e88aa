/* Tells the driver what becomes of an operation. */
#include "collective/outcome.h"

static void tell_arrivals(struct pccl_transfer *transfer)
{
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    transfer->has_arrived = false;
    for (uint32_t i = 0; i < transfer->plan.seat.ranks; i++) {
        if (transfer->missing[i] > 0)
            continue;
        transfer->missing[i] = PCCL_ARRIVAL_TOLD;
        effects->arrived(effects->context, transfer, i);
    }
}

void pccl_outcome_report(struct pccl_transfer *transfer)
{
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    bool was_at_rest = transfer->at_rest;
    /*
     * A result does not count until all receivers have been compared: it may be made of segments
     * that came ahead, or of what this rank had.
     */
    bool agreed = transfer->unheard == 0;
    if (agreed && transfer->has_arrived)
        tell_arrivals(transfer);
    transfer->at_rest = agreed && !transfer->stay_due && transfer->complete == transfer->plan.stripes;
    if (agreed && !transfer->stay_due && !transfer->done && transfer->results_complete == transfer->plan.stripes) {
        transfer->done = true;
        effects->done(effects->context, transfer);
    }
    if (transfer->at_rest && !was_at_rest)
        effects->at_rest(effects->context, transfer);
}

void pccl_outcome_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...)
{
    PCCL_ASSERT(!transfer->failed && class != PCCL_CLASS_NONE);
    transfer->failed = true;
    for (uint32_t i = 0; i < transfer->flow_count; i++)
        pccl_list_remove(&transfer->flows[i].in_queue);
    pccl_list_remove(&transfer->wanting);
    struct pccl_text reason;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&reason, format, arguments);
    va_end(arguments);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    effects->failed(effects->context, transfer, class, &reason);
}
