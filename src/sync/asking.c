/*
 * The requester's side of one connection. Sends the machine's requests, receives the bytes of chunks directly into the
 * caller's memory, and hashes them while they are in the cache. Chunks for a device are received in page-locked memory,
 * and hashed while they are copied from there.
 */
#include "sync/internal.h"

#include "sync/asking.h"

enum {
    LARGE_BYTES = 64 << 10, /* minimum size of a chunk after which the machine may request more at once */
    PUBLISH_EVERY_US = 100000,
};

static struct pccl_synchronizer *synchronizer_of(const struct pccl_sync_asker *asker)
{
    return pccl_sync_of(asker->link.worker);
}

static struct pccl_fetch *machine_of(const struct pccl_sync_asker *asker)
{
    return synchronizer_of(asker)->fetching.machine;
}

/* ---- chunks ---- */

static bool copy_to_device(struct pccl_sync_asker *asker, struct pccl_proof *proof, struct pccl_text *reason)
{
    const struct pccl_fetch_arrival *arrival = &asker->arrival;
    const struct pccl_sync_tensor *tensor = &synchronizer_of(asker)->config.tensors[arrival->tensor];
    if (pccl_device_write(asker->copier, 0, pccl_sync_chunk(tensor, arrival->chunk), arrival->length, reason) !=
        PCCL_OK)
        return false;
    *proof = pccl_proof_bytes(synchronizer_of(asker)->state.kernels, asker->target, arrival->length);
    return pccl_device_wait(asker->copier, 0, reason) == PCCL_OK;
}

/* Gives up because one of this peer's devices has failed, so that no further bytes can be stored. */
static void give_up(struct pccl_sync_asker *asker, const struct pccl_text *reason)
{
    asker->link.reason = *reason;
    asker->doomed = asker->device_failed = true;
}

/* Publishes the progress, but only at intervals, because it is a sum over all tensors. */
static void publish_progress(struct pccl_synchronizer *synchronizer, const struct pccl_fetch *machine)
{
    uint64_t now_us = pccl_now_us();
    if (synchronizer->published_us != 0 && now_us < synchronizer->published_us + PUBLISH_EVERY_US)
        return;
    synchronizer->published_us = now_us;
    uint64_t done = pccl_fetch_bytes(machine);
    if (atomic_load_explicit(&synchronizer->fetch_since_us, memory_order_relaxed) == 0)
        atomic_store_explicit(&synchronizer->fetch_since_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&synchronizer->to_fetch, done + pccl_fetch_left(machine), memory_order_relaxed);
    atomic_store_explicit(&synchronizer->fetched, done, memory_order_relaxed);
}

/* Handles a chunk whose bytes have all arrived. */
static void end_chunk(struct pccl_sync_asker *asker)
{
    struct pccl_worker_link *link = &asker->link;
    struct pccl_synchronizer *synchronizer = synchronizer_of(asker);
    struct pccl_proof proof = {0};
    struct pccl_text reason;
    bool wanted = asker->arrival.wanted;
    link->pauses = link->channel.expected >= LARGE_BYTES;
    if (wanted && asker->copier && !copy_to_device(asker, &proof, &reason)) {
        give_up(asker, &reason);
        return;
    }
    if (wanted && !asker->copier)
        proof = pccl_proof_bytes(synchronizer->state.kernels, asker->target, asker->arrival.length);
    asker->target = NULL;
    pccl_channel_expect(&link->channel, &asker->target, 0);
    if (pccl_fetch_arrived(machine_of(asker), pccl_now_us(), asker->number, &proof, &link->reason) != PCCL_OK) {
        asker->doomed = true;
        return;
    }
    if (!wanted)
        return;
    synchronizer->received += asker->arrival.length;
    publish_progress(synchronizer, machine_of(asker));
    pccl_sync_line_of(link->line)->donor->tried = 1; /* the donor works, so earlier attempts no longer count */
}

/* Returns the destination of the chunk's bytes, or NULL with a reason if a device has failed. */
static uint8_t *aim(struct pccl_sync_asker *asker, struct pccl_text *reason)
{
    const struct pccl_sync_tensor *tensor = &synchronizer_of(asker)->config.tensors[asker->arrival.tensor];
    asker->copier = NULL;
    if (!tensor->device)
        return pccl_sync_chunk(tensor, asker->arrival.chunk);
    if (pccl_sync_copiers_find(&asker->copiers, tensor, &asker->copier, reason) != PCCL_OK)
        return NULL;
    return pccl_device_copier_buffer(asker->copier, 0);
}

static void begin_chunk(struct pccl_sync_asker *asker, uint32_t length)
{
    struct pccl_synchronizer *synchronizer = synchronizer_of(asker);
    struct pccl_text reason = {.length = 0};
    asker->target = NULL;
    if (asker->arrival.wanted) {
        if (!synchronizer->fetching.touched)
            synchronizer->config.touching(synchronizer->config.worker.context);
        synchronizer->fetching.touched = true;
        asker->target = aim(asker, &reason);
        if (!asker->target)
            give_up(asker, &reason);
    }
    pccl_channel_expect(&asker->link.channel, &asker->target, length);
}

/* ---- receiving ---- */

bool pccl_sync_asker_message(struct pccl_worker_link *link, const struct pccl_msg *msg)
{
    struct pccl_sync_asker *asker = pccl_sync_asker_of(link);
    struct pccl_text *reason = &link->reason;
    bool proofs = msg->type == PCCL_MSG_state_proofs, data = msg->type == PCCL_MSG_state_data;
    if (!(proofs || data) || !asker->outstanding) {
        pccl_text_format(reason, "it sent an unrequested %s", pccl_wire_name(msg->type));
        return false;
    }
    asker->outstanding--;
    asker->arrival = (struct pccl_fetch_arrival){0};
    if (pccl_fetch_received(machine_of(asker), pccl_now_us(), asker->number, msg, &asker->arrival, reason) != PCCL_OK)
        return false;
    if (data)
        begin_chunk(asker, msg->as.state_data.length);
    return !asker->doomed;
}

static bool is_over(const struct pccl_sync_asker *asker)
{
    return asker->doomed || asker->link.channel.state == PCCL_CHANNEL_CLOSED;
}

enum pccl_channel_io pccl_sync_asker_take(struct pccl_worker_link *link)
{
    struct pccl_sync_asker *asker = pccl_sync_asker_of(link);
    if (!link->channel.expected)
        return pccl_worker_link_take(link);
    end_chunk(asker);
    return asker->doomed ? PCCL_CHANNEL_ENDED : PCCL_CHANNEL_MOVED;
}

bool pccl_sync_asker_receive(struct pccl_sync_asker *asker, size_t *budget)
{
    size_t before = *budget;
    if (is_over(asker))
        return false;
    asker->link.pauses = false;
    enum pccl_channel_io io = pccl_worker_link_receive(&asker->link, budget);
    if (*budget < before)
        pccl_fetch_progress(machine_of(asker), pccl_now_us(), asker->number);
    asker->doomed = asker->doomed || io == PCCL_CHANNEL_ENDED;
    return io == PCCL_CHANNEL_MOVED;
}

/* ---- sending and release ---- */

void pccl_sync_asker_release(struct pccl_worker_link *link)
{
    pccl_sync_copiers_close(&pccl_sync_asker_of(link)->copiers);
}

void pccl_sync_asker_watch(struct pccl_sync_asker *asker)
{
    pccl_worker_link_watch(&asker->link, true, asker->outstanding || asker->link.channel.expected);
}

void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg)
{
    if (is_over(asker))
        return;
    asker->outstanding++;
    if (!pccl_channel_put_message(&asker->link.channel, msg))
        asker->doomed = true;
}
