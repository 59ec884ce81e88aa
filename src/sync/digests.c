/*
 * Threads take runs of chunks from a shared counter, so that a slow thread delays the others only briefly. Chunks on a
 * device are read into page-locked memory, and the next ones arrive there while one is digested.
 */
#include "sync/digests.h"

#include "net/guard.h"
#include "os/thread.h"
#include "sync/copiers.h"

#include <stdatomic.h>

enum {
    RUN_CHUNKS = 8,
    THREADS_USUAL = 8,           /* enough to saturate one processor's memory */
    THREAD_BYTES_MIN = 32 << 20, /* minimum work per thread; less is done before another thread has started */
};

struct work {
    struct pccl_state *state;
    const struct pccl_sync_tensor *tensors;
    bool proves;               /* true: compute proofs; false: digests */
    const atomic_bool *leave;  /* stops the work when set; NULL: never */
    atomic_uint_fast64_t next; /* next chunk of the state */
    atomic_bool stop;          /* true if a thread has failed */
};

/* A read from a device in progress. */
struct arrival {
    struct pccl_device_copier *copier;
    uint64_t index; /* index of the chunk in the state */
    uint32_t length;
};

struct digester {
    struct work *work;
    uv_thread_t thread;
    enum pccl_status status;
    struct pccl_text reason;
    struct pccl_sync_copiers copiers;
    struct arrival arrivals[PCCL_DEVICE_BUFFERS]; /* reads in progress, by index of the copier's buffer */
    uint32_t first, count;
};

static void fail(struct digester *digester, enum pccl_status status)
{
    digester->status = status;
    atomic_store_explicit(&digester->work->stop, true, memory_order_relaxed);
}

/* Returns the tensor that contains this chunk of the state, which is the last one that begins at or before it. */
static uint32_t find_tensor(const struct pccl_state *state, uint64_t index)
{
    uint32_t least = 0, most = state->tensor_count; /* the tensor is in [least, most) */
    while (most - least > 1) {
        uint32_t middle = least + (most - least) / 2;
        if (state->tensors[middle].first_chunk <= index)
            least = middle;
        else
            most = middle;
    }
    return least;
}

static void note_chunk(const struct work *work, uint64_t index, const void *bytes, uint32_t length)
{
    struct pccl_state *state = work->state;
    if (work->proves)
        state->proofs[index] = pccl_proof_bytes(state->kernels, bytes, length);
    else
        state->chunks[index] = pccl_digest_bytes(state->kernels, bytes, length);
}

/* ---- devices ---- */

static bool finish_oldest(struct digester *digester)
{
    const struct arrival *arrival = &digester->arrivals[digester->first];
    enum pccl_status status = pccl_device_wait(arrival->copier, digester->first, &digester->reason);
    if (status != PCCL_OK) {
        fail(digester, status);
        return false;
    }
    note_chunk(digester->work, arrival->index, pccl_device_copier_buffer(arrival->copier, digester->first),
               arrival->length);
    digester->first = (digester->first + 1) % PCCL_DEVICE_BUFFERS;
    digester->count--;
    return true;
}

static bool begin_reading(struct digester *digester, const struct pccl_sync_tensor *tensor, uint64_t chunk,
                          uint64_t index, uint32_t length)
{
    if (digester->count == PCCL_DEVICE_BUFFERS && !finish_oldest(digester))
        return false;
    uint32_t buffer = (digester->first + digester->count) % PCCL_DEVICE_BUFFERS;
    struct pccl_device_copier *copier;
    enum pccl_status status = pccl_sync_copiers_find(&digester->copiers, tensor, &copier, &digester->reason);
    if (status == PCCL_OK)
        status = pccl_device_read(copier, buffer, pccl_sync_chunk(tensor, chunk), length, &digester->reason);
    if (status != PCCL_OK) {
        fail(digester, status);
        return false;
    }
    digester->arrivals[buffer] = (struct arrival){.copier = copier, .index = index, .length = length};
    digester->count++;
    return true;
}

/* ---- the threads ---- */

/* Returns false if the digester has failed. */
static bool digest_run(struct digester *digester, uint64_t first, uint64_t end)
{
    struct pccl_state *state = digester->work->state;
    uint32_t number = find_tensor(state, first);
    for (uint64_t index = first; index < end; index++) {
        while (index - state->tensors[number].first_chunk >= state->tensors[number].chunks)
            number++;
        const struct pccl_tensor *tensor = &state->tensors[number];
        const struct pccl_sync_tensor *where = &digester->work->tensors[number];
        uint64_t chunk = index - tensor->first_chunk;
        uint32_t length = pccl_state_chunk_length(tensor, chunk);
        if (!where->device)
            note_chunk(digester->work, index, pccl_sync_chunk(where, chunk), length);
        else if (!begin_reading(digester, where, chunk, index, length))
            return false;
    }
    return true;
}

static void digest_all(void *argument)
{
    struct digester *digester = argument;
    struct work *work = digester->work;
    uint64_t total = work->state->chunk_count;
    bool good = true;
    while (good && !atomic_load_explicit(&work->stop, memory_order_relaxed)) {
        if (work->leave && atomic_load_explicit(work->leave, memory_order_relaxed))
            break;
        uint64_t first = atomic_fetch_add_explicit(&work->next, RUN_CHUNKS, memory_order_relaxed);
        if (first >= total)
            break;
        good = digest_run(digester, first, pccl_min_u64(first + RUN_CHUNKS, total));
    }
    while (good && digester->count)
        good = finish_oldest(digester);
    pccl_sync_copiers_close(&digester->copiers);
}

static void digest_runs(void *argument)
{
    struct digester *digester = argument;
    if (pccl_guard_run(digest_all, digester))
        return;
    pccl_text_format(&digester->reason, "%s", pccl_status_text(PCCL_INTERNAL));
    fail(digester, PCCL_INTERNAL);
}

static uint32_t processors(void)
{
#if UV_VERSION_HEX >= 0x012c00
    return uv_available_parallelism();
#else
    uv_cpu_info_t *infos;
    int count;
    if (uv_cpu_info(&infos, &count) != 0)
        return 1;
    uv_free_cpu_info(infos, count);
    return (uint32_t)count;
#endif
}

static uint32_t worthwhile(const struct pccl_state *state, uint32_t threads)
{
    uint64_t wanted = threads ? threads : pccl_min_u64(processors(), THREADS_USUAL), bytes = 0;
    for (uint32_t i = 0; i < state->tensor_count; i++)
        bytes += pccl_min_u64(state->tensors[i].bytes, THREAD_BYTES_MIN * (uint64_t)PCCL_SYNC_THREADS_MAX);
    wanted = pccl_min_u64(wanted, pccl_max_u64(bytes / THREAD_BYTES_MIN, 1));
    return (uint32_t)pccl_min_u64(wanted, PCCL_SYNC_THREADS_MAX);
}

static enum pccl_status do_all(struct work *work, uint32_t threads, struct pccl_text *reason)
{
    struct digester digesters[PCCL_SYNC_THREADS_MAX];
    uint32_t wanted = worthwhile(work->state, threads), count = 1;
    atomic_init(&work->next, 0);
    atomic_init(&work->stop, false);
    for (uint32_t i = 0; i < PCCL_SYNC_THREADS_MAX; i++)
        digesters[i] = (struct digester){.work = work, .status = PCCL_OK};
    while (count < wanted && pccl_thread_start(&digesters[count].thread, digest_runs, &digesters[count]) == 0)
        count++; /* if no further thread starts, the existing ones do all the work */
    digest_runs(&digesters[0]);
    for (uint32_t i = 1; i < count; i++)
        (void)uv_thread_join(&digesters[i].thread);
    for (uint32_t i = 0; i < count; i++)
        if (digesters[i].status != PCCL_OK) {
            *reason = digesters[i].reason;
            return digesters[i].status;
        }
    if (atomic_load_explicit(&work->next, memory_order_relaxed) >= work->state->chunk_count)
        return PCCL_OK;
    /* The threads were stopped before they had taken all chunks. */
    return pccl_fail(reason, PCCL_ABORTED, "%s", pccl_status_text(PCCL_ABORTED));
}

enum pccl_status pccl_sync_digest(struct pccl_state *state, const struct pccl_sync_tensor *tensors, uint32_t threads,
                                  struct pccl_text *reason)
{
    struct work work = {.state = state, .tensors = tensors};
    return do_all(&work, threads, reason);
}

enum pccl_status pccl_sync_prove(struct pccl_state *state, const struct pccl_sync_tensor *tensors, uint32_t threads,
                                 const atomic_bool *leave, struct pccl_text *reason)
{
    struct work work = {.state = state, .tensors = tensors, .proves = true, .leave = leave};
    return do_all(&work, threads, reason);
}
