/* Distributes requests over donors. */
#include "state/internal.h"

static void ask_for(struct pccl_fetch *fetch, uint32_t number, const struct pccl_fetch_outstanding *request)
{
    PCCL_ASSERT(request->bytes > 0 && fetch->donors[number].up &&
                fetch->donors[number].outstanding_count < PCCL_FETCH_OUTSTANDING_MAX);
    struct pccl_fetch_donor *donor = &fetch->donors[number];
    if (donor->outstanding_count == 0)
        donor->received_us = fetch->now_us; /* its silence is measured from now on */
    *pccl_fetch_outstanding_at(donor, donor->outstanding_count) = *request;
    donor->outstanding_count++;
    donor->outstanding_bytes += request->bytes;
    struct pccl_msg msg = {.type = PCCL_MSG_state_want};
    msg.as.state_want = (struct pccl_msg_state_want){.round = fetch->round,
                                                     .what = request->what,
                                                     .tensor = request->tensor,
                                                     .first = request->first,
                                                     .count = request->what == PCCL_WANT_DATA ? 1 : request->count};
    fetch->effects.send(fetch->effects.context, number, &msg);
}

static void ask_proofs(struct pccl_fetch *fetch, uint32_t number, enum pccl_want_kind what, uint32_t tensor,
                       uint64_t first, uint32_t count)
{
    const struct pccl_fetch_outstanding request = {.what = (uint8_t)what,
                                                   .count = count,
                                                   .tensor = tensor,
                                                   .bytes = count * (uint32_t)sizeof(struct pccl_proof),
                                                   .first = first};
    ask_for(fetch, number, &request);
}

/* ---- roots ---- */

/* Chooses the donor for the roots, one at a time. If a source is needed, prefers a donor that can be the source. */
static void choose_root_donor(struct pccl_fetch *fetch)
{
    bool source = fetch->wanted[1] && !fetch->known[1];
    if (fetch->root_donor != PCCL_FETCH_NO_DONOR || (fetch->known[0] && !source))
        return;
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++) {
        const struct pccl_fetch_donor *donor = &fetch->donors[i];
        bool fits = source && donor->holds_unequal;
        if (!donor->up || donor->suspected || !(fits || (!fetch->known[0] && fetch->root_donor == PCCL_FETCH_NO_DONOR)))
            continue;
        fetch->root_donor = (uint8_t)i;
        fetch->roots_asked = fetch->roots_received = 0;
        if (fits)
            return;
    }
}

static bool ask_roots(struct pccl_fetch *fetch, uint32_t number)
{
    uint32_t left = fetch->state->tensor_count - fetch->roots_asked;
    if (fetch->root_donor != number || left == 0)
        return false;
    uint32_t count = (uint32_t)pccl_min_u64(left, PCCL_STATE_DIGESTS_MAX), first = fetch->roots_asked;
    fetch->roots_asked += count;
    ask_proofs(fetch, number, PCCL_WANT_ROOTS, first, 0, count);
    return true;
}

/* ---- lists of chunk proofs, each from a single donor, so that the sender of a wrong one is known ---- */

static struct pccl_fetch_task *take_unlisted(struct pccl_fetch *fetch, bool unequal)
{
    if (pccl_list_is_empty(&fetch->unlisted[unequal]))
        return NULL;
    struct pccl_fetch_task *task = PCCL_CONTAINER_OF(fetch->unlisted[unequal].next, struct pccl_fetch_task, node);
    uint64_t chunks = pccl_fetch_tensor(fetch, (uint32_t)(task - fetch->tasks))->chunks;
    if (task->list == NULL)
        task->list = pccl_allocate(&fetch->memory, (size_t)chunks * sizeof *task->list);
    if (task->list == NULL) {
        pccl_fetch_fail(fetch, pccl_status_text(PCCL_MEMORY));
        return NULL;
    }
    pccl_list_remove(&task->node);
    return task;
}

static bool ask_list(struct pccl_fetch *fetch, uint32_t number)
{
    struct pccl_fetch_donor *donor = &fetch->donors[number];
    if (donor->listing == NULL) {
        donor->listing_asked = 0;
        donor->listing = fetch->source == number ? take_unlisted(fetch, true) : NULL;
        if (donor->listing == NULL)
            donor->listing = take_unlisted(fetch, false);
    }
    struct pccl_fetch_task *task = donor->listing;
    if (task == NULL || fetch->status != PCCL_FETCH_RUNNING)
        return false;
    uint32_t tensor = (uint32_t)(task - fetch->tasks);
    uint64_t first = donor->listing_asked, chunks = pccl_fetch_tensor(fetch, tensor)->chunks;
    uint32_t count = (uint32_t)pccl_min_u64(chunks - first, PCCL_STATE_DIGESTS_MAX);
    donor->listing_asked += count;
    if (donor->listing_asked == chunks)
        donor->listing = NULL;
    ask_proofs(fetch, number, PCCL_WANT_CHUNKS, tensor, first, count);
    return true;
}

/* ---- chunks ---- */

static void ask_chunk(struct pccl_fetch *fetch, uint32_t number, struct pccl_fetch_chunk *chunk)
{
    PCCL_ASSERT(!chunk->done && chunk->writer == PCCL_FETCH_NO_DONOR);
    chunk->askers |= pccl_fetch_bit(number);
    pccl_fetch_place(fetch, chunk);
    const struct pccl_fetch_outstanding request = {
        .what = PCCL_WANT_DATA,
        .tensor = chunk->tensor,
        .bytes = pccl_state_chunk_length(pccl_fetch_tensor(fetch, chunk->tensor), chunk->index),
        .first = chunk->index,
        .chunk = chunk,
    };
    ask_for(fetch, number, &request);
}

static struct pccl_fetch_chunk *first_of(const struct pccl_list_node *head)
{
    return pccl_list_is_empty(head) ? NULL : PCCL_CONTAINER_OF(head->next, struct pccl_fetch_chunk, node);
}

static bool ask_data(struct pccl_fetch *fetch, uint32_t number)
{
    const struct pccl_fetch_donor *donor = &fetch->donors[number];
    struct pccl_fetch_chunk *chunk = fetch->source == number ? first_of(&fetch->open[1]) : NULL;
    if (chunk == NULL)
        chunk = first_of(&fetch->open[0]);
    if (chunk == NULL && donor->idle) {
        chunk = first_of(&fetch->asked);
        if (chunk != NULL && ((chunk->askers & pccl_fetch_bit(number)) != 0 ||
                              fetch->now_us < chunk->asked_us + PCCL_FETCH_PATIENCE_MS * UINT64_C(1000)))
            chunk = NULL;
    }
    if (chunk == NULL)
        return false;
    ask_chunk(fetch, number, chunk);
    return true;
}

/* Returns true if the window has room for another whole chunk. A message with proofs is never larger. */
static bool may_be_asked(const struct pccl_fetch_donor *donor)
{
    return donor->up && !donor->suspected && donor->outstanding_count < PCCL_FETCH_OUTSTANDING_MAX &&
           donor->outstanding_bytes + PCCL_STATE_CHUNK_BYTES <= donor->window;
}

/* Sends requests to the donors in turn, one at a time, so that even a little work is spread over all of them. */
void pccl_fetch_ask(struct pccl_fetch *fetch)
{
    if (!fetch->begun || fetch->status != PCCL_FETCH_RUNNING)
        return;
    choose_root_donor(fetch);
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++)
        fetch->donors[i].idle = fetch->donors[i].outstanding_count == 0;
    bool asked = true;
    while (asked) {
        asked = false;
        for (uint32_t i = 0; i < PCCL_FETCH_DONORS && fetch->status == PCCL_FETCH_RUNNING; i++)
            if (may_be_asked(&fetch->donors[i]))
                asked |= ask_roots(fetch, i) || ask_list(fetch, i) || ask_data(fetch, i);
    }
}
