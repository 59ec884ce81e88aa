/* Stores the reports of a group's members. */
#include "master/verdicts_internal.h"

#include <string.h>

static const uint64_t bytes_most = UINT64_C(1) << 50;

static const struct pccl_seen_link *find_link(const struct pccl_seen_link *links, uint32_t count,
                                              const struct pccl_id *peer)
{
    for (uint32_t i = 0; i < count; i++)
        if (pccl_id_equal(&links[i].peer, peer))
            return &links[i];
    return NULL;
}

/* Returns the time that operations took within the report's window. Links may be idle for the rest of the window. */
static uint64_t time_of(const struct pccl_msg_sight *telemetry)
{
    uint64_t window_us = telemetry->window_ms * UINT64_C(1000);
    return telemetry->operations > 0 ? pccl_min_u64(window_us, telemetry->took_us) : window_us;
}

static void take_links(struct pccl_witness *witness, const struct pccl_msg_sight *telemetry)
{
    struct pccl_seen_link before[PCCL_TELEMETRY_LINKS_MAX];
    uint32_t before_count = witness->link_count;
    memcpy(before, witness->links, sizeof before);
    witness->link_count = telemetry->links_count;
    witness->time_us = witness->time_us / 2 + time_of(telemetry);
    for (uint32_t i = 0; i < telemetry->links_count; i++) {
        struct pccl_seen_link *link = &witness->links[i];
        witness->latest_links[i] = telemetry->links[i];
        const struct pccl_seen_link *was = find_link(before, before_count, &telemetry->links[i].peer);
        *link = telemetry->links[i];
        link->bytes = pccl_min_u64(link->bytes, bytes_most);
        link->resent = pccl_min_u64(link->resent, link->bytes);
        link->busy_us =
            (uint32_t)pccl_min_u64(link->busy_us, pccl_min_u64(telemetry->window_ms * UINT64_C(1000), UINT32_MAX / 2));
        if (was == NULL)
            continue;
        link->bytes += was->bytes / 2;
        link->resent += was->resent / 2;
        link->busy_us += was->busy_us / 2;
        link->lately_us = link->lately_us > was->lately_us / 2 ? link->lately_us : was->lately_us / 2;
    }
}

/* Each operation counts once, because each member has one vote about it. */
static void take_round(struct pccl_witness *witness, uint64_t now_us, const struct pccl_seen_round *round)
{
    for (uint32_t i = 0; i < PCCL_WITNESS_ROUNDS && i < witness->round_count; i++)
        if (witness->rounds[i].key == round->key)
            return;
    witness->rounds[witness->round_count++ % PCCL_WITNESS_ROUNDS] =
        (struct pccl_witness_round){.key = round->key, .received_us = now_us, .took_us = round->took_us};
}

void pccl_witness_take(struct pccl_witness *witness, uint64_t now_us, const struct pccl_msg_sight *telemetry)
{
    witness->received_us = now_us;
    witness->judged = false;
    witness->window_ms = telemetry->window_ms;
    witness->stalled_ms = (uint32_t)pccl_min_u64(telemetry->stalled_ms, telemetry->window_ms);
    for (uint32_t i = 0; i < telemetry->rounds_count; i++)
        take_round(witness, now_us, &telemetry->rounds[i]);
    take_links(witness, telemetry);
    witness->ring_bytes = pccl_min_u64(telemetry->ring_bytes, bytes_most);
    witness->ring_left = pccl_min_u64(telemetry->ring_left, witness->ring_bytes);
    witness->instance = telemetry->instance;
    witness->wait_count = telemetry->waits_count;
    if (telemetry->waits_count > 0)
        memcpy(witness->waits, telemetry->waits, telemetry->waits_count * sizeof *witness->waits);
}

struct pccl_link_past *pccl_witness_past(struct pccl_witness *witness, const struct pccl_id *peer)
{
    struct pccl_link_past *unused = NULL;
    for (uint32_t i = 0; i < PCCL_TELEMETRY_LINKS_MAX; i++) {
        struct pccl_link_past *past = &witness->past[i];
        if (pccl_id_equal(&past->peer, peer))
            return past;
        bool old = unused == NULL && find_link(witness->links, witness->link_count, &past->peer) == NULL;
        if (pccl_id_is_zero(&past->peer) || old)
            unused = past;
    }
    PCCL_ASSERT(unused != NULL); /* there are as many places as links in a report, one of which has no place yet */
    *unused = (struct pccl_link_past){.peer = *peer};
    return unused;
}
