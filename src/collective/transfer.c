/* One operation: how it is made, what becomes of it, and how it is freed. */
#include "collective/internal.h"

#include <string.h>

/* ---- what becomes of it ---- */

void pccl_transfer_result(struct pccl_transfer *transfer, struct pccl_group *group)
{
    PCCL_ASSERT(group->results_left > 0);
    if (--group->results_left == 0)
        transfer->results_complete++;
}

void pccl_transfer_report(struct pccl_transfer *transfer)
{
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    bool was_at_rest = transfer->at_rest;
    /* What was made of segments that came ahead counts for nothing until everybody has compared. */
    bool agreed = !transfer->plan.long_path || transfer->unheard == 0;
    transfer->at_rest = agreed && transfer->complete == transfer->plan.groups;
    if (agreed && !transfer->done && transfer->results_complete == transfer->plan.groups) {
        transfer->done = true;
        effects->done(effects->context, transfer);
    }
    if (transfer->at_rest && !was_at_rest)
        effects->at_rest(effects->context, transfer);
}

void pccl_transfer_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...)
{
    PCCL_ASSERT(!transfer->failed);
    transfer->failed = true;
    for (uint32_t i = 0; i < 2 * transfer->neighbours; i++)
        pccl_link_remove(&transfer->channels[i].in_queue);
    pccl_link_remove(&transfer->wanting);
    struct pccl_text words;
    pccl_text_clear(&words);
    va_list arguments;
    va_start(arguments, format);
    pccl_text_append_list(&words, format, arguments);
    va_end(arguments);
    const struct pccl_exchange_effects *effects = &transfer->exchange->effects;
    effects->failed(effects->context, transfer, class, &words);
}

/* ---- results ---- */

void pccl_transfer_save(struct pccl_transfer *transfer, uint64_t group, uint32_t number)
{
    pccl_backup_save(&transfer->backup, transfer->exchange->config.kernels, &transfer->plan, group, number);
}

/* ---- making and freeing ---- */

static bool connect_channel(struct pccl_transfer *transfer, struct pccl_channel *channel, uint32_t other)
{
    struct pccl_lane *lane = pccl_lane_get(transfer->exchange, &transfer->ring[other], channel->outgoing);
    if (lane == NULL)
        return false;
    channel->other = other;
    channel->lane = lane;
    pccl_ahead_own(transfer->exchange, lane, true, lane->member);
    pccl_link_append(&lane->channels, &channel->on_lane);
    return true;
}

static bool make_channels(struct pccl_transfer *transfer)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t neighbours = plan->algorithm == PCCL_RING ? 1 : plan->ranks - 1;
    transfer->channels = pccl_allocate(&transfer->exchange->memory, 2 * neighbours * sizeof *transfer->channels);
    if (transfer->channels == NULL)
        return false;
    transfer->neighbours = transfer->unheard = neighbours;
    for (uint32_t i = 0; i < 2 * neighbours; i++) {
        struct pccl_channel *channel = &transfer->channels[i];
        channel->transfer = transfer;
        channel->outgoing = i < neighbours;
        pccl_link_init(&channel->on_lane);
        pccl_link_init(&channel->in_queue);
    }
    for (uint32_t i = 0; i < neighbours; i++)
        if (!connect_channel(transfer, &transfer->channels[i], (plan->rank + 1 + i) % plan->ranks) ||
            !connect_channel(transfer, &transfer->channels[neighbours + i],
                             (plan->rank + plan->ranks - 1 - i) % plan->ranks))
            return false;
    return true;
}

static bool allocate_parts(struct pccl_transfer *transfer, const struct pccl_transfer_config *config)
{
    struct pccl_exchange *exchange = transfer->exchange;
    const struct pccl_memory *memory = &exchange->memory;
    transfer->ring = pccl_allocate(memory, config->ranks * sizeof *transfer->ring);
    transfer->slots = pccl_allocate(memory, (size_t)transfer->slot_count * sizeof(struct pccl_group *));
    transfer->ended = pccl_allocate(memory, sizeof *transfer->ended);
    if (transfer->ring == NULL || transfer->slots == NULL || transfer->ended == NULL)
        return false;
    memcpy(transfer->ring, config->ring, config->ranks * sizeof *transfer->ring);
    if (!pccl_group_reserve(transfer) || !make_channels(transfer))
        return false;
    if (config->input != config->result)
        return true;
    return pccl_backup_init(&exchange->backups, &transfer->plan, config->result, &transfer->backup);
}

enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange, const struct pccl_transfer_config *config,
                                    struct pccl_transfer **transfer, struct pccl_text *words)
{
    uint32_t rank = pccl_id_find(config->ring, config->ranks, &exchange->config.self);
    if (rank == config->ranks || config->ranks < 2) {
        pccl_text_format(words, "this peer is not in the ring, or alone");
        return PCCL_ARGUMENT;
    }
    struct pccl_plan plan;
    enum pccl_status status = pccl_plan_make(&config->descriptor, &config->cost, config->ranks, rank, &plan, words);
    if (status != PCCL_OK)
        return status;
    struct pccl_transfer *made = pccl_allocate(&exchange->memory, sizeof *made);
    if (made != NULL) {
        made->exchange = exchange;
        made->instance = config->instance;
        made->view = config->view;
        made->descriptor = config->descriptor;
        made->plan = plan;
        made->input = config->input;
        made->result = config->result;
        made->user = config->user;
        pccl_link_init(&made->wanting);
        pccl_window_size(made);
        if (allocate_parts(made, config)) {
            *transfer = made;
            return PCCL_OK;
        }
        pccl_transfer_free(made);
    }
    pccl_text_format(words, "out of memory for an operation on %" PRIu64 " elements", config->descriptor.count);
    return PCCL_MEMORY;
}

void pccl_transfer_free(struct pccl_transfer *transfer)
{
    struct pccl_exchange *exchange = transfer->exchange;
    const struct pccl_memory *memory = &exchange->memory;
    while (transfer->departures != NULL)
        pccl_departure_release(transfer->departures);
    while (transfer->arrivals != NULL)
        pccl_arrival_release(transfer->arrivals);
    pccl_groups_free(transfer);
    pccl_link_remove(&transfer->wanting);
    for (uint32_t i = 0; i < 2 * transfer->neighbours; i++) {
        pccl_link_remove(&transfer->channels[i].in_queue);
        pccl_link_remove(&transfer->channels[i].on_lane);
        pccl_ahead_give_back(&transfer->channels[i]);
        pccl_lane_tidy(exchange, transfer->channels[i].lane);
    }
    pccl_backup_fini(&exchange->backups, &transfer->backup);
    pccl_release(memory, transfer->channels, 2 * transfer->neighbours * sizeof *transfer->channels);
    pccl_release(memory, transfer->ended, sizeof *transfer->ended);
    pccl_release(memory, transfer->slots, (size_t)transfer->slot_count * sizeof(struct pccl_group *));
    pccl_release(memory, transfer->ring, transfer->plan.ranks * sizeof *transfer->ring);
    pccl_release(memory, transfer, sizeof *transfer);
    pccl_window_share_out(exchange);
}
