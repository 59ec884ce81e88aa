#include "drive/comm_progress.h"

/* pcclProgressCall_t and enum pccl_call have the same values. */
_Static_assert((int)pcclProgressUpdate == (int)PCCL_CALL_UPDATE && (int)pcclProgressPending == (int)PCCL_CALL_PENDING &&
                   (int)pcclProgressOperation == (int)PCCL_CALL_OPERATION &&
                   (int)pcclProgressConnect == (int)PCCL_CALL_CONNECT &&
                   (int)pcclProgressSynchronize == (int)PCCL_CALL_SYNC &&
                   (int)pcclProgressOptimize == (int)PCCL_CALL_OPTIMIZE,
               "the same numbers");

/* Selects the call that began first. */
static void consider(enum pccl_call call, uint64_t since_us, enum pccl_call *longest, uint64_t *longest_us)
{
    if (since_us == 0 || since_us >= *longest_us)
        return;
    *longest = call;
    *longest_us = since_us;
}

static enum pccl_call find_longest(const struct pccl_communicator *comm, uint64_t *since_us)
{
    enum pccl_call longest = PCCL_CALL_NONE;
    *since_us = UINT64_MAX;
    for (uint32_t call = 0; call < PCCL_COUNT_OF(comm->calls); call++)
        if (comm->calls[call].outstanding && !comm->calls[call].done)
            consider((enum pccl_call)call, comm->calls[call].begun_us, &longest, since_us);
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        const struct pccl_comm_op *operation = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if ((operation->awaited || operation->wait_expires_us) && !operation->over)
            consider(PCCL_CALL_OPERATION, operation->launched_us, &longest, since_us);
    }
    return longest;
}

static void look_at_transfer(const struct pccl_communicator *comm, uint64_t now_us, pcclProgress_t *progress)
{
    uint64_t since_us;
    pccl_synchronizer_progress(comm->calls[PCCL_CALL_SYNC].worker, &progress->done, &progress->total, &since_us);
    uint64_t took_ms = since_us != 0 ? (now_us - pccl_min_u64(now_us, since_us)) / 1000 : 0;
    if (took_ms == 0 || progress->done == 0)
        return;
    progress->rate = progress->done / took_ms * 1000;
    if (progress->rate != 0)
        progress->remaining_ms = (progress->total - progress->done) / pccl_max_u64(1, progress->rate / 1000);
}

void pccl_comm_progress(const struct pccl_communicator *comm, pcclProgress_t *progress)
{
    uint64_t since_us, now_us = pccl_now_us();
    enum pccl_call longest = find_longest(comm, &since_us);
    *progress = (pcclProgress_t){.size = progress->size, .call = (pcclProgressCall_t)longest};
    if (longest == PCCL_CALL_NONE)
        return;
    progress->elapsed_ms = (now_us - pccl_min_u64(now_us, since_us)) / 1000;
    if (longest == PCCL_CALL_SYNC && comm->calls[longest].worker)
        look_at_transfer(comm, now_us, progress);
}
