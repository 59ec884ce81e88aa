#include "drive/comm_feedback.h"

#include "drive/communicator.h"
#include "net/heap.h"
#include "wire/choice.h"
#include "wire/packing.h"

#include <string.h>

struct pccl_comm_feedback {
    struct pccl_table_node by_tag;
    const struct pcclComm_t *handle;
    uint64_t tag;
    bool in_use;
    bool adopted; /* true once `adopter` is the descriptor of the reduction that left this residual */
    struct pccl_descriptor adopter;
    uint64_t count;
    float *kept, *next; /* owned, in one block */
};

static uint64_t bytes_of(uint64_t count) { return count * 2 * sizeof(float); }

static struct pccl_comm_feedback *find(const struct pcclComm_t *handle, uint64_t tag)
{
    struct pccl_table_node *node = pccl_table_find(&handle->comm->feedbacks.by_tag, tag);
    for (; node; node = pccl_table_find_next(node)) {
        struct pccl_comm_feedback *feedback = PCCL_CONTAINER_OF(node, struct pccl_comm_feedback, by_tag);
        if (feedback->handle == handle)
            return feedback;
    }
    return NULL;
}

static void drop(struct pccl_communicator *comm, struct pccl_comm_feedback *feedback)
{
    PCCL_ASSERT(!feedback->in_use);
    pccl_table_remove(&comm->feedbacks.by_tag, &feedback->by_tag);
    comm->feedbacks.bytes -= bytes_of(feedback->count);
    float *memory = feedback->kept < feedback->next ? feedback->kept : feedback->next;
    pccl_release(pccl_heap(), memory, bytes_of(feedback->count));
    pccl_release(pccl_heap(), feedback, sizeof *feedback);
}

/* Creates a residual of zeros. Returns NULL with a reason if out of memory or if feedback_mib would be exceeded. */
static struct pccl_comm_feedback *make(const struct pcclComm_t *handle, uint64_t tag, uint64_t count,
                                       struct pccl_text *reason)
{
    struct pccl_communicator *comm = handle->comm;
    const uint64_t most = (uint64_t)comm->params.feedback_mib << 20;
    if (count > most / bytes_of(1) || comm->feedbacks.bytes + bytes_of(count) > most) {
        pccl_text_format(reason,
                         "error feedback of %" PRIu64 " elements exceeds feedback_mib: it needs %" PRIu64
                         " bytes, other tags use %" PRIu64,
                         count, bytes_of(count), comm->feedbacks.bytes);
        return NULL;
    }
    struct pccl_comm_feedback *feedback = pccl_allocate(pccl_heap(), sizeof *feedback);
    float *memory = pccl_allocate(pccl_heap(), bytes_of(count));
    if (!feedback || !memory) {
        pccl_release(pccl_heap(), feedback, sizeof *feedback);
        pccl_release(pccl_heap(), memory, bytes_of(count));
        pccl_text_format(reason, "out of memory for the error feedback of %" PRIu64 " elements", count);
        return NULL;
    }
    *feedback = (struct pccl_comm_feedback){
        .handle = handle, .tag = tag, .count = count, .kept = memory, .next = memory + count};
    comm->feedbacks.bytes += bytes_of(count);
    pccl_table_insert(&comm->feedbacks.by_tag, &feedback->by_tag, tag);
    return feedback;
}

static bool is_list(const struct pccl_descriptor *descriptor)
{
    return pccl_collective(descriptor->collective)->of == PCCL_OF_TENSORS;
}

static bool is_of(const struct pccl_comm_feedback *feedback, const struct pccl_descriptor *descriptor, uint64_t count)
{
    const struct pccl_descriptor *adopter = &feedback->adopter;
    if (feedback->count != count || !feedback->adopted)
        return feedback->count == count;
    /* An automatic codec may change its level between reductions. */
    bool are_automatic = pccl_choice_is_automatic(adopter) && pccl_choice_is_automatic(descriptor);
    return adopter->datatype == descriptor->datatype && (are_automatic || pccl_packing_equal(adopter, descriptor)) &&
           is_list(adopter) == is_list(descriptor) &&
           (!is_list(descriptor) || pccl_id_equal(&adopter->counts, &descriptor->counts));
}

static void drop_misfit(struct pccl_communicator *comm, struct pccl_comm_feedback *feedback, uint64_t count)
{
    struct pccl_text words;
    pccl_text_format(&words,
                     "tag %" PRIu64 ": dropping the error feedback of %" PRIu64 " elements: the tag is now used ",
                     feedback->tag, feedback->count);
    if (feedback->count != count)
        pccl_text_append(&words, "for %" PRIu64 " elements", count);
    else
        pccl_text_append(&words, "with another codec or data type");
    pccl_comm_log_note(&comm->log, PCCL_LOG_WARN, words.bytes);
    drop(comm, feedback);
}

enum pccl_status pccl_comm_feedback_begin(const struct pcclComm_t *handle, uint64_t tag,
                                          const struct pccl_descriptor *descriptor, uint64_t count,
                                          struct pccl_comm_feedback **feedback_out, struct pccl_text *reason)
{
    struct pccl_comm_feedback *feedback = find(handle, tag);
    if (feedback && !is_of(feedback, descriptor, count)) {
        drop_misfit(handle->comm, feedback, count);
        feedback = NULL;
    }
    if (!feedback)
        feedback = make(handle, tag, count, reason);
    if (!feedback)
        return PCCL_MEMORY;
    PCCL_ASSERT(!feedback->in_use);
    feedback->in_use = true;
    feedback->adopted = true;
    feedback->adopter = *descriptor;
    *feedback_out = feedback;
    return PCCL_OK;
}

struct pccl_feedback pccl_comm_feedback_memory(const struct pccl_comm_feedback *feedback)
{
    return feedback ? (struct pccl_feedback){feedback->kept, feedback->next} : (struct pccl_feedback){0};
}

void pccl_comm_feedback_end(struct pccl_comm_feedback *feedback, bool committed)
{
    if (!feedback)
        return;
    feedback->in_use = false;
    if (!committed)
        return;
    float *before = feedback->kept;
    feedback->kept = feedback->next;
    feedback->next = before;
}

const float *pccl_comm_feedback_kept(const struct pcclComm_t *handle, uint64_t tag, uint64_t *count)
{
    const struct pccl_comm_feedback *feedback = find(handle, tag);
    *count = feedback ? feedback->count : 0;
    return feedback ? feedback->kept : NULL;
}

enum pccl_status pccl_comm_feedback_set(const struct pcclComm_t *handle, uint64_t tag, const float *kept,
                                        uint64_t count, struct pccl_text *reason)
{
    struct pccl_comm_feedback *feedback = find(handle, tag);
    if (feedback && feedback->in_use)
        return pccl_fail(reason, PCCL_USAGE, "an operation with tag %" PRIu64 " has been launched but not yet awaited",
                         tag);
    if (feedback)
        drop(handle->comm, feedback);
    if (count == 0)
        return PCCL_OK;
    feedback = make(handle, tag, count, reason);
    if (!feedback)
        return PCCL_MEMORY;
    memcpy(feedback->kept, kept, count * sizeof *kept);
    return PCCL_OK;
}

void pccl_comm_feedbacks_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle)
{
    struct pccl_table_node *node = pccl_table_first(&comm->feedbacks.by_tag), *next;
    for (; node; node = next) {
        struct pccl_comm_feedback *feedback = PCCL_CONTAINER_OF(node, struct pccl_comm_feedback, by_tag);
        next = pccl_table_after(&comm->feedbacks.by_tag, node);
        if (!handle || feedback->handle == handle)
            drop(comm, feedback);
    }
}
