/* Finds the differences, from a donor's roots to lists of chunks, and completes tensors from chunks. */
#include "state/internal.h"

#include <string.h>

void pccl_fetch_fail(struct pccl_fetch *fetch, const char *reason)
{
    if (fetch->status != PCCL_FETCH_RUNNING)
        return;
    fetch->status = PCCL_FETCH_FAILED;
    pccl_text_format(&fetch->reason, "%s", reason);
}

static const struct pccl_proof *chunks_of(const struct pccl_fetch *fetch, uint32_t tensor)
{
    uint64_t first = pccl_fetch_tensor(fetch, tensor)->first_chunk;
    return fetch->state->proofs == NULL ? NULL : fetch->state->proofs + first;
}

static struct pccl_text *malformed(struct pccl_text *reason, const struct pccl_fetch *fetch, uint32_t tensor,
                                   const char *what)
{
    pccl_text_format(reason, "%s of tensor '%s'", what, pccl_fetch_tensor(fetch, tensor)->name);
    return reason;
}

/* ---- tasks ---- */

static void forget_list(struct pccl_fetch *fetch, uint32_t tensor)
{
    struct pccl_fetch_task *task = &fetch->tasks[tensor];
    pccl_release(&fetch->memory, task->list, (size_t)pccl_fetch_tensor(fetch, tensor)->chunks * sizeof *task->list);
    task->list = NULL;
    task->listed = 0;
}

static void forget_task(struct pccl_fetch *fetch, uint32_t tensor)
{
    struct pccl_fetch_task *task = &fetch->tasks[tensor];
    forget_list(fetch, tensor);
    for (uint64_t i = 0; i < task->chunk_count; i++)
        pccl_list_remove(&task->chunks[i].node);
    pccl_release(&fetch->memory, task->chunks, (size_t)task->chunk_count * sizeof *task->chunks);
    pccl_list_remove(&task->node);
    task->chunks = NULL;
    task->chunk_count = task->missing = 0;
}

void pccl_fetch_forget_tasks(struct pccl_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++)
        forget_task(fetch, i);
    fetch->missing[0] = fetch->missing[1] = 0;
}

void pccl_fetch_source_lost(struct pccl_fetch *fetch)
{
    fetch->source = PCCL_FETCH_NO_DONOR;
    if (fetch->status != PCCL_FETCH_RUNNING || fetch->missing[1] == 0)
        return;
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++)
        if (pccl_fetch_tensor(fetch, i)->unequal)
            forget_task(fetch, i);
    fetch->missing[1] = 0;
    fetch->known[1] = false;
}

/* Returns false if out of memory. */
static bool make_chunks(struct pccl_fetch *fetch, uint32_t tensor, uint64_t count)
{
    struct pccl_fetch_task *task = &fetch->tasks[tensor];
    task->chunks = count > SIZE_MAX / sizeof *task->chunks
                       ? NULL
                       : pccl_allocate(&fetch->memory, (size_t)count * sizeof *task->chunks);
    if (task->chunks == NULL)
        return false;
    task->chunk_count = task->missing = count;
    return true;
}

static void open_chunk(struct pccl_fetch *fetch, uint32_t tensor, uint64_t number, uint64_t index,
                       const struct pccl_proof *proof)
{
    PCCL_ASSERT(number < fetch->tasks[tensor].chunk_count);
    struct pccl_fetch_chunk *chunk = &fetch->tasks[tensor].chunks[number];
    *chunk =
        (struct pccl_fetch_chunk){.tensor = tensor, .index = index, .proof = *proof, .writer = PCCL_FETCH_NO_DONOR};
    pccl_list_init(&chunk->node);
    pccl_fetch_place(fetch, chunk);
}

/* Completes a tensor, which must have the expected root. */
static void complete_tensor(struct pccl_fetch *fetch, uint32_t tensor)
{
    PCCL_ASSERT(fetch->missing[pccl_fetch_tensor(fetch, tensor)->unequal] > 0);
    pccl_state_prove_tensor(fetch->state, tensor);
    PCCL_ASSERT(pccl_proof_equal(&pccl_fetch_tensor(fetch, tensor)->proof, &fetch->expected[tensor]));
    fetch->tasks[tensor].torn = false;
    fetch->missing[pccl_fetch_tensor(fetch, tensor)->unequal]--;
}

void pccl_fetch_finish(struct pccl_fetch *fetch)
{
    if (fetch->status != PCCL_FETCH_RUNNING)
        return;
    for (unsigned unequal = 0; unequal < 2; unequal++)
        if (fetch->wanted[unequal] && (!fetch->known[unequal] || fetch->missing[unequal] > 0))
            return;
    pccl_state_prove_content(fetch->state);
    PCCL_ASSERT(pccl_proof_equal(&fetch->state->proof, &fetch->proof));
    fetch->status = PCCL_FETCH_COMPLETE;
}

/* ---- roots ---- */

/* Creates a task for every tensor that differs from the expected roots. */
static void compare(struct pccl_fetch *fetch, bool unequal)
{
    static const struct pccl_proof unknown = {0};
    for (uint32_t i = 0; i < fetch->state->tensor_count && fetch->status == PCCL_FETCH_RUNNING; i++) {
        const struct pccl_tensor *tensor = pccl_fetch_tensor(fetch, i);
        struct pccl_fetch_task *task = &fetch->tasks[i];
        if (tensor->unequal != unequal)
            continue;
        if (pccl_proof_equal(&tensor->proof, &fetch->expected[i])) {
            task->torn = false;
            continue;
        }
        PCCL_ASSERT(tensor->chunks > 0); /* an empty tensor with a different root was refused */
        fetch->missing[unequal]++;
        if (tensor->chunks > 1)
            pccl_list_append(&fetch->unlisted[unequal], &task->node);
        else if (make_chunks(fetch, i, 1))
            open_chunk(fetch, i, 0, 0, &unknown);
        else
            pccl_fetch_fail(fetch, pccl_status_text(PCCL_MEMORY));
    }
    fetch->known[unequal] = true;
}

static void take_expected(struct pccl_fetch *fetch, bool unequal)
{
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++)
        if (pccl_fetch_tensor(fetch, i)->unequal == unequal)
            fetch->expected[i] = fetch->roots[i];
    compare(fetch, unequal);
}

enum pccl_status pccl_fetch_take_roots(struct pccl_fetch *fetch, struct pccl_text *reason)
{
    struct pccl_proof content = pccl_proof_content(fetch->state, fetch->roots);
    if (!pccl_proof_equal(&content, &fetch->proof))
        return pccl_fail(reason, PCCL_MALFORMED, "its roots do not match the elected content");
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++) {
        const struct pccl_tensor *tensor = pccl_fetch_tensor(fetch, i);
        if (tensor->chunks == 0 && !pccl_proof_equal(&tensor->proof, &fetch->roots[i])) {
            (void)malformed(reason, fetch, i, "it sent a root");
            pccl_text_append(reason, " for an empty tensor");
            return PCCL_MALFORMED;
        }
    }
    uint8_t donor = fetch->root_donor;
    fetch->root_donor = PCCL_FETCH_NO_DONOR;
    if (!fetch->known[0])
        take_expected(fetch, false);
    if (fetch->wanted[1] && !fetch->known[1] && fetch->donors[donor].holds_unequal) {
        fetch->source = donor;
        take_expected(fetch, true);
    }
    pccl_fetch_finish(fetch);
    return PCCL_OK;
}

/* ---- lists ---- */

void pccl_fetch_unlist(struct pccl_fetch *fetch, struct pccl_fetch_task *task)
{
    if (!pccl_list_is_empty(&task->node))
        return;
    uint32_t tensor = (uint32_t)(task - fetch->tasks);
    task->listed = 0;
    pccl_list_append(&fetch->unlisted[pccl_fetch_tensor(fetch, tensor)->unequal], &task->node);
}

static uint64_t count_differing(const struct pccl_proof *a, const struct pccl_proof *b, uint64_t count)
{
    uint64_t differing = 0;
    for (uint64_t i = 0; i < count; i++)
        differing += !pccl_proof_equal(&a[i], &b[i]);
    return differing;
}

enum pccl_status pccl_fetch_take_list(struct pccl_fetch *fetch, uint32_t tensor, struct pccl_text *reason)
{
    struct pccl_fetch_task *task = &fetch->tasks[tensor];
    const struct pccl_tensor *of = pccl_fetch_tensor(fetch, tensor);
    PCCL_ASSERT(task->list != NULL && task->listed == of->chunks);
    struct pccl_proof root = pccl_proof_root(fetch->state->kernels, of->bytes, task->list, of->chunks);
    if (!pccl_proof_equal(&root, &fetch->expected[tensor])) {
        (void)malformed(reason, fetch, tensor, "its chunk proofs do not match the root");
        return PCCL_MALFORMED;
    }
    const struct pccl_proof *chunks = chunks_of(fetch, tensor);
    uint64_t differing = count_differing(chunks, task->list, of->chunks);
    if (differing == 0) {
        complete_tensor(fetch, tensor);
        pccl_fetch_finish(fetch);
    } else if (make_chunks(fetch, tensor, differing)) {
        for (uint64_t i = 0, number = 0; i < of->chunks; i++)
            if (!pccl_proof_equal(&chunks[i], &task->list[i]))
                open_chunk(fetch, tensor, number++, i, &task->list[i]);
    } else {
        pccl_fetch_fail(fetch, pccl_status_text(PCCL_MEMORY));
    }
    forget_list(fetch, tensor);
    return PCCL_OK;
}

/* ---- chunks ---- */

void pccl_fetch_place(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk)
{
    pccl_list_remove(&chunk->node);
    if (chunk->done || chunk->writer != PCCL_FETCH_NO_DONOR)
        return;
    bool unequal = pccl_fetch_tensor(fetch, chunk->tensor)->unequal;
    chunk->asked_us = fetch->now_us;
    if (chunk->askers == 0)
        pccl_list_append(&fetch->open[unequal], &chunk->node);
    else if ((chunk->askers & (chunk->askers - 1)) == 0 && !unequal)
        pccl_list_append(&fetch->asked, &chunk->node);
}

static struct pccl_proof *place_of(struct pccl_fetch *fetch, const struct pccl_fetch_chunk *chunk)
{
    return &fetch->state->proofs[pccl_fetch_tensor(fetch, chunk->tensor)->first_chunk + chunk->index];
}

void pccl_fetch_write(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk, uint32_t donor)
{
    struct pccl_tensor *tensor = &fetch->state->tensors[chunk->tensor];
    PCCL_ASSERT(donor < PCCL_FETCH_DONORS && !chunk->done && chunk->writer == PCCL_FETCH_NO_DONOR);
    chunk->writer = (uint8_t)donor;
    pccl_list_remove(&chunk->node);
    *place_of(fetch, chunk) = (struct pccl_proof){0};
    /* The root of the tensor and the content are invalid, too. */
    fetch->tasks[chunk->tensor].torn = true;
    tensor->proof = (struct pccl_proof){0};
    if (!tensor->unequal)
        fetch->state->proof = (struct pccl_proof){0};
}

enum pccl_status pccl_fetch_written(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk,
                                    const struct pccl_proof *proof, struct pccl_text *reason)
{
    const struct pccl_tensor *tensor = pccl_fetch_tensor(fetch, chunk->tensor);
    struct pccl_fetch_task *task = &fetch->tasks[chunk->tensor];
    struct pccl_proof root =
        tensor->chunks == 1 ? pccl_proof_root(fetch->state->kernels, tensor->bytes, proof, 1) : *proof;
    if (!pccl_proof_equal(&root, tensor->chunks == 1 ? &fetch->expected[chunk->tensor] : &chunk->proof)) {
        (void)malformed(reason, fetch, chunk->tensor, "its bytes do not match the chunk");
        return PCCL_MALFORMED;
    }
    *place_of(fetch, chunk) = *proof;
    PCCL_ASSERT(!chunk->done && chunk->writer != PCCL_FETCH_NO_DONOR && task->missing > 0);
    chunk->writer = PCCL_FETCH_NO_DONOR;
    chunk->done = true;
    fetch->bytes += pccl_state_chunk_length(tensor, chunk->index);
    if (--task->missing == 0) {
        complete_tensor(fetch, chunk->tensor);
        pccl_fetch_finish(fetch);
    }
    return PCCL_OK;
}
