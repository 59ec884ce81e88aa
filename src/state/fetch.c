/* Events of a fetch: donors are added and removed, answers arrive in order, time passes. */
#include "state/internal.h"

#include <string.h>

static const uint64_t ms = 1000;

/* ---- creation and destruction ---- */

struct pccl_fetch *pccl_fetch_create(struct pccl_state *state, const struct pccl_memory *memory,
                                     const struct pccl_fetch_effects *effects)
{
    struct pccl_fetch *fetch = pccl_allocate(memory, sizeof *fetch);
    if (fetch == NULL)
        return NULL;
    *fetch = (struct pccl_fetch){.memory = *memory,
                                 .effects = *effects,
                                 .state = state,
                                 .source = PCCL_FETCH_NO_DONOR,
                                 .root_donor = PCCL_FETCH_NO_DONOR};
    for (unsigned unequal = 0; unequal < 2; unequal++) {
        pccl_list_init(&fetch->unlisted[unequal]);
        pccl_list_init(&fetch->open[unequal]);
    }
    pccl_list_init(&fetch->asked);
    uint32_t count = state->tensor_count;
    if (count == 0)
        return fetch;
    fetch->expected = pccl_allocate(memory, count * sizeof *fetch->expected);
    fetch->roots = pccl_allocate(memory, count * sizeof *fetch->roots);
    fetch->tasks = pccl_allocate(memory, count * sizeof *fetch->tasks);
    for (uint32_t i = 0; fetch->tasks != NULL && i < count; i++)
        pccl_list_init(&fetch->tasks[i].node);
    if (fetch->expected == NULL || fetch->roots == NULL || fetch->tasks == NULL) {
        pccl_fetch_destroy(fetch);
        return NULL;
    }
    return fetch;
}

static void clear_donor(struct pccl_fetch *fetch, struct pccl_fetch_donor *donor)
{
    pccl_release(&fetch->memory, donor->outstanding, PCCL_FETCH_OUTSTANDING_MAX * sizeof *donor->outstanding);
    *donor = (struct pccl_fetch_donor){0};
}

/* Drops all donors and their requests. */
static void forget_all(struct pccl_fetch *fetch)
{
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++)
        clear_donor(fetch, &fetch->donors[i]);
    if (fetch->tasks != NULL)
        pccl_fetch_forget_tasks(fetch);
    fetch->source = fetch->root_donor = PCCL_FETCH_NO_DONOR;
}

void pccl_fetch_destroy(struct pccl_fetch *fetch)
{
    if (fetch == NULL)
        return;
    forget_all(fetch);
    uint32_t count = fetch->state->tensor_count;
    const struct pccl_memory memory = fetch->memory;
    pccl_release(&memory, fetch->expected, count * sizeof *fetch->expected);
    pccl_release(&memory, fetch->roots, count * sizeof *fetch->roots);
    pccl_release(&memory, fetch->tasks, count * sizeof *fetch->tasks);
    pccl_release(&memory, fetch, sizeof *fetch);
}

/*
 * Recomputes roots and content from the chunk proofs. Returns true if a tensor that may differ between peers is torn.
 */
static bool reseal(struct pccl_fetch *fetch)
{
    bool torn = false;
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++) {
        if (!fetch->tasks[i].torn)
            continue;
        pccl_state_prove_tensor(fetch->state, i);
        torn = torn || pccl_fetch_tensor(fetch, i)->unequal;
    }
    pccl_state_prove_content(fetch->state);
    return torn;
}

static bool has_unequal_bytes(const struct pccl_state *state)
{
    for (uint32_t i = 0; i < state->tensor_count; i++)
        if (state->tensors[i].unequal && state->tensors[i].chunks > 0)
            return true;
    return false;
}

void pccl_fetch_begin(struct pccl_fetch *fetch, uint64_t now_us, uint64_t round, const struct pccl_proof *content,
                      bool takes_unequal)
{
    forget_all(fetch);
    fetch->begun = true;
    fetch->status = PCCL_FETCH_RUNNING;
    pccl_text_clear(&fetch->reason);
    fetch->now_us = now_us;
    fetch->round = round;
    fetch->proof = *content;
    /* Tensors that an earlier plan began to write must be completed, even if this plan does not include them. */
    bool torn = reseal(fetch);
    fetch->wanted[0] = true;
    fetch->wanted[1] = (takes_unequal || torn) && has_unequal_bytes(fetch->state);
    fetch->known[0] = pccl_proof_equal(&fetch->state->proof, content);
    fetch->known[1] = false;
    if (!fetch->known[0] && fetch->state->tensor_count == 0)
        pccl_fetch_fail(fetch, "content was elected for a state without tensors");
    for (uint32_t i = 0; fetch->known[0] && i < fetch->state->tensor_count; i++)
        if (!pccl_fetch_tensor(fetch, i)->unequal)
            fetch->tasks[i].torn = false;
    pccl_fetch_finish(fetch);
}

/* ---- donors ---- */

static struct pccl_fetch_donor *find_donor(struct pccl_fetch *fetch, uint32_t number)
{
    return number < PCCL_FETCH_DONORS && fetch->donors[number].up ? &fetch->donors[number] : NULL;
}

/* Gives suspected donors a little more time to send something, because another donor can now replace them. */
static void give_grace(struct pccl_fetch *fetch)
{
    uint64_t until = fetch->now_us + PCCL_FETCH_GRACE_MS * ms;
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++)
        fetch->donors[i].expires_us = pccl_max_u64(fetch->donors[i].expires_us, until);
}

static void note_received(struct pccl_fetch *fetch, struct pccl_fetch_donor *donor)
{
    donor->received_us = fetch->now_us;
    if (!donor->suspected)
        return;
    donor->suspected = false;
    give_grace(fetch);
}

void pccl_fetch_donor_up(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor, bool holds_unequal, uint32_t rtt_us)
{
    PCCL_ASSERT(donor < PCCL_FETCH_DONORS && !fetch->donors[donor].up);
    fetch->now_us = now_us;
    struct pccl_fetch_donor *added = &fetch->donors[donor];
    added->outstanding = pccl_allocate(&fetch->memory, PCCL_FETCH_OUTSTANDING_MAX * sizeof *added->outstanding);
    if (added->outstanding == NULL) {
        fetch->effects.drop(fetch->effects.context, donor, pccl_status_text(PCCL_MEMORY));
        return;
    }
    added->up = true;
    added->holds_unequal = holds_unequal;
    uint32_t chunks = rtt_us < PCCL_LONG_PATH_RTT_US ? PCCL_FETCH_WINDOW : PCCL_FETCH_WINDOW_LONG;
    added->window = chunks * PCCL_STATE_CHUNK_BYTES;
    give_grace(fetch);
    pccl_fetch_ask(fetch);
}

/* Makes all undelivered requests to this donor available to other donors. */
static void take_claims(struct pccl_fetch *fetch, uint32_t number)
{
    struct pccl_fetch_donor *donor = &fetch->donors[number];
    for (uint32_t i = 0; i < donor->outstanding_count; i++) {
        const struct pccl_fetch_outstanding *request = pccl_fetch_outstanding_at(donor, i);
        if (request->what == PCCL_WANT_CHUNKS)
            pccl_fetch_unlist(fetch, &fetch->tasks[request->tensor]);
        if (request->what != PCCL_WANT_DATA)
            continue;
        request->chunk->askers &= ~pccl_fetch_bit(number);
        if (i == 0 && donor->writes)
            request->chunk->writer = PCCL_FETCH_NO_DONOR;
        pccl_fetch_place(fetch, request->chunk);
    }
    if (donor->listing != NULL)
        pccl_fetch_unlist(fetch, donor->listing);
}

static void remove_donor(struct pccl_fetch *fetch, uint32_t number)
{
    take_claims(fetch, number);
    clear_donor(fetch, &fetch->donors[number]);
    if (fetch->root_donor == number)
        fetch->root_donor = PCCL_FETCH_NO_DONOR;
    if (fetch->source == number)
        pccl_fetch_source_lost(fetch);
}

void pccl_fetch_donor_down(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor)
{
    if (find_donor(fetch, donor) == NULL)
        return;
    fetch->now_us = now_us;
    remove_donor(fetch, donor);
    pccl_fetch_ask(fetch);
}

/* ---- answers ---- */

static void answered(struct pccl_fetch_donor *donor)
{
    PCCL_ASSERT(donor->outstanding_count > 0);
    PCCL_ASSERT(donor->outstanding_bytes >= pccl_fetch_outstanding_at(donor, 0)->bytes);
    donor->outstanding_bytes -= pccl_fetch_outstanding_at(donor, 0)->bytes;
    donor->outstanding_first++;
    donor->outstanding_count--;
    donor->arriving = donor->writes = false;
}

static enum pccl_status take_proofs(struct pccl_fetch *fetch, struct pccl_fetch_donor *donor,
                                    const struct pccl_msg_state_proofs *proofs, struct pccl_text *reason)
{
    struct pccl_fetch_outstanding request = *pccl_fetch_outstanding_at(donor, 0);
    if (proofs->round != fetch->round || proofs->what != request.what || proofs->tensor != request.tensor ||
        proofs->first != request.first || proofs->proofs_count != request.count)
        return pccl_fail(reason, PCCL_MALFORMED, "it sent proofs that were not requested");
    enum pccl_status status = PCCL_OK;
    if (fetch->status != PCCL_FETCH_RUNNING) {
        /* the proofs are no longer needed */
    } else if (request.what == PCCL_WANT_ROOTS) {
        memcpy(fetch->roots + request.tensor, proofs->proofs, request.count * sizeof *fetch->roots);
        fetch->roots_received += request.count;
        if (fetch->roots_received == fetch->state->tensor_count)
            status = pccl_fetch_take_roots(fetch, reason);
    } else {
        struct pccl_fetch_task *task = &fetch->tasks[request.tensor];
        memcpy(task->list + request.first, proofs->proofs, request.count * sizeof *task->list);
        task->listed += request.count;
        if (task->listed == pccl_fetch_tensor(fetch, request.tensor)->chunks)
            status = pccl_fetch_take_list(fetch, request.tensor, reason);
    }
    if (status == PCCL_OK)
        answered(donor);
    return status;
}

static enum pccl_status take_data(struct pccl_fetch *fetch, uint32_t number, const struct pccl_msg_state_data *data,
                                  struct pccl_fetch_arrival *arrival, struct pccl_text *reason)
{
    struct pccl_fetch_donor *donor = &fetch->donors[number];
    const struct pccl_fetch_outstanding *request = pccl_fetch_outstanding_at(donor, 0);
    if (request->what != PCCL_WANT_DATA || data->round != fetch->round || data->tensor != request->tensor ||
        data->chunk != request->first || data->length != request->bytes)
        return pccl_fail(reason, PCCL_MALFORMED, "it sent a chunk that was not requested");
    struct pccl_fetch_chunk *chunk = request->chunk;
    chunk->askers &= ~pccl_fetch_bit(number);
    donor->arriving = true;
    donor->writes = fetch->status == PCCL_FETCH_RUNNING && !chunk->done && chunk->writer == PCCL_FETCH_NO_DONOR;
    if (donor->writes)
        pccl_fetch_write(fetch, chunk, number);
    *arrival = (struct pccl_fetch_arrival){
        .wanted = donor->writes, .tensor = data->tensor, .chunk = data->chunk, .length = data->length};
    return PCCL_OK;
}

enum pccl_status pccl_fetch_received(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                     const struct pccl_msg *msg, struct pccl_fetch_arrival *arrival,
                                     struct pccl_text *reason)
{
    *arrival = (struct pccl_fetch_arrival){0};
    struct pccl_fetch_donor *from = find_donor(fetch, donor);
    if (from == NULL || from->outstanding_count == 0 || from->arriving)
        return pccl_fail(reason, PCCL_MALFORMED, "it sent data that was not requested");
    fetch->now_us = now_us;
    enum pccl_status status = PCCL_MALFORMED;
    if (msg->type == PCCL_MSG_state_proofs && pccl_fetch_outstanding_at(from, 0)->what != PCCL_WANT_DATA)
        status = take_proofs(fetch, from, &msg->as.state_proofs, reason);
    else if (msg->type == PCCL_MSG_state_data)
        status = take_data(fetch, donor, &msg->as.state_data, arrival, reason);
    else
        pccl_text_format(reason, "it answered with %s", pccl_wire_name(msg->type));
    if (status != PCCL_OK)
        return status;
    note_received(fetch, from);
    pccl_fetch_ask(fetch);
    return PCCL_OK;
}

void pccl_fetch_progress(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor)
{
    struct pccl_fetch_donor *from = find_donor(fetch, donor);
    if (from == NULL)
        return;
    fetch->now_us = now_us;
    note_received(fetch, from);
}

enum pccl_status pccl_fetch_arrived(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                    const struct pccl_proof *proof, struct pccl_text *reason)
{
    struct pccl_fetch_donor *from = find_donor(fetch, donor);
    if (from == NULL || !from->arriving)
        return pccl_fail(reason, PCCL_MALFORMED, "no chunk is in flight from it");
    fetch->now_us = now_us;
    if (from->writes) {
        enum pccl_status status = pccl_fetch_written(fetch, pccl_fetch_outstanding_at(from, 0)->chunk, proof, reason);
        if (status != PCCL_OK)
            return status;
    }
    answered(from);
    note_received(fetch, from);
    pccl_fetch_ask(fetch);
    return PCCL_OK;
}

/* ---- time ---- */

/* Returns true if another donor that responds can provide the same data. */
static bool can_be_spared(const struct pccl_fetch *fetch, const struct pccl_fetch_donor *donor)
{
    bool source_needed = fetch->wanted[1] && (!fetch->known[1] || fetch->missing[1] > 0);
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++) {
        const struct pccl_fetch_donor *other = &fetch->donors[i];
        if (other != donor && other->up && !other->suspected &&
            (!source_needed || !donor->holds_unequal || other->holds_unequal))
            return true;
    }
    return false;
}

static uint64_t suspicion_us(const struct pccl_fetch_donor *donor)
{
    return donor->received_us + (PCCL_FETCH_STALL_MS - PCCL_FETCH_GRACE_MS) * ms;
}

static void suspect_silent(struct pccl_fetch *fetch)
{
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++) {
        struct pccl_fetch_donor *donor = &fetch->donors[i];
        if (donor->outstanding_count == 0 || donor->suspected || fetch->now_us < suspicion_us(donor))
            continue;
        donor->suspected = true;
        /*
         * This process may have been suspended. Input that arrived in the meantime must be read before the donor is
         * dropped.
         */
        donor->expires_us = fetch->now_us + PCCL_FETCH_GRACE_MS * ms;
    }
}

static void drop_expired(struct pccl_fetch *fetch)
{
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++) {
        const struct pccl_fetch_donor *donor = &fetch->donors[i];
        if (!donor->suspected || fetch->now_us < donor->expires_us || !can_be_spared(fetch, donor))
            continue;
        remove_donor(fetch, i);
        fetch->effects.drop(fetch->effects.context, i, "it does not answer a request, unlike the others");
    }
}

void pccl_fetch_tick(struct pccl_fetch *fetch, uint64_t now_us)
{
    fetch->now_us = now_us;
    if (!fetch->begun || fetch->status != PCCL_FETCH_RUNNING)
        return;
    suspect_silent(fetch);
    drop_expired(fetch);
    pccl_fetch_ask(fetch);
}

static uint64_t donor_deadline(const struct pccl_fetch *fetch, const struct pccl_fetch_donor *donor)
{
    if (!donor->up)
        return UINT64_MAX;
    if (donor->suspected)
        return can_be_spared(fetch, donor) ? donor->expires_us : UINT64_MAX;
    if (donor->outstanding_count > 0)
        return suspicion_us(donor);
    if (pccl_list_is_empty(&fetch->asked))
        return UINT64_MAX;
    const struct pccl_fetch_chunk *oldest = PCCL_CONTAINER_OF(fetch->asked.next, struct pccl_fetch_chunk, node);
    return oldest->asked_us + PCCL_FETCH_PATIENCE_MS * ms;
}

uint64_t pccl_fetch_deadline(const struct pccl_fetch *fetch)
{
    uint64_t deadline = UINT64_MAX;
    if (!fetch->begun || fetch->status != PCCL_FETCH_RUNNING)
        return deadline;
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++)
        deadline = pccl_min_u64(deadline, donor_deadline(fetch, &fetch->donors[i]));
    return deadline;
}

/* ---- queries ---- */

void pccl_fetch_give_up(struct pccl_fetch *fetch, const char *reason) { pccl_fetch_fail(fetch, reason); }

enum pccl_fetch_status pccl_fetch_status(const struct pccl_fetch *fetch) { return fetch->status; }

const struct pccl_text *pccl_fetch_reason(const struct pccl_fetch *fetch) { return &fetch->reason; }

bool pccl_fetch_is_starved(const struct pccl_fetch *fetch)
{
    if (!fetch->begun || fetch->status != PCCL_FETCH_RUNNING)
        return false;
    for (uint32_t i = 0; i < PCCL_FETCH_DONORS; i++)
        if (fetch->donors[i].outstanding_count > 0)
            return false;
    return true;
}

bool pccl_fetch_is_torn(const struct pccl_fetch *fetch, uint32_t tensor)
{
    PCCL_ASSERT(tensor < fetch->state->tensor_count);
    return fetch->tasks[tensor].torn;
}

uint64_t pccl_fetch_bytes(const struct pccl_fetch *fetch) { return fetch->bytes; }

uint64_t pccl_fetch_left(const struct pccl_fetch *fetch)
{
    uint64_t left = 0;
    for (uint32_t i = 0; i < fetch->state->tensor_count; i++) {
        const struct pccl_fetch_task *task = &fetch->tasks[i];
        uint64_t bytes = pccl_fetch_tensor(fetch, i)->bytes;
        if (task->chunks != NULL)
            left += pccl_min_u64(bytes, task->missing * PCCL_STATE_CHUNK_BYTES);
        else if (task->list != NULL || !pccl_list_is_empty(&task->node))
            left += bytes;
    }
    return left;
}
