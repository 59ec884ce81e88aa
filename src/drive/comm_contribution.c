#include "drive/comm_contribution.h"

#include "os/cpu.h"
#include "kernels/kernels.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "wire/coalesced.h"

#include <string.h>

/* ---- elements ---- */

/* Transformation of the caller's elements of one section into the contribution. */
struct making {
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    bool reduces, leaves_own; /* leaves_own: the result excludes this peer's elements */
    double factor;
    struct pccl_feedback feedback;
};

/* Returns the transformation for a section. Feedback covers the elements of all sections; only floats use it. */
static struct making making_of(const struct pccl_op_args *args, const struct pccl_comm_op *operation,
                               const struct pccl_section *section, size_t elements_before)
{
    struct making making = {.datatype = (enum pccl_datatype)section->datatype,
                            .reduction = (enum pccl_reduce_op)section->operation,
                            .reduces = pccl_collective_reduces(args->launch.descriptor.collective),
                            .leaves_own = pccl_collective(args->launch.descriptor.collective)->scan == PCCL_EXCLUSIVE,
                            .factor = args->factor,
                            .feedback = pccl_comm_feedback_memory(operation->feedback)};
    if (!pccl_datatype_is_float(making.datatype))
        making.feedback = (struct pccl_feedback){0};
    if (pccl_feedback_is_kept(&making.feedback)) {
        making.feedback.kept += elements_before;
        making.feedback.next += elements_before;
    }
    return making;
}

/*
 * Applies the transformation. Returns false without writing if it would not change the elements. `result` may be
 * `input`.
 */
static bool make(const struct making *making, const void *input, size_t count, void *result)
{
    const bool scales = making->reduction == PCCL_PREMUL_SUM, adds = pccl_feedback_is_kept(&making->feedback);
    if (!scales && !adds)
        return false;
    const struct pccl_kernels *kernels = pccl_kernels_for(pccl_cpu_features());
    if (scales)
        pccl_scale(kernels, making->datatype, result, input, count, making->factor);
    if (adds)
        pccl_feedback_apply(kernels, making->datatype, &making->feedback, scales ? result : input, count, result);
    return true;
}

static size_t bytes_of(const struct pccl_section *section)
{
    return (size_t)section->count * pccl_datatype_bytes((enum pccl_datatype)section->datatype);
}

/* ---- contributions ---- */

/* Writes the table of sections and then the elements of each section (wire/coalesced.h). */
static void put_sections(const struct pccl_op_args *args, const struct pccl_comm_op *operation, uint8_t *contribution,
                         size_t bytes)
{
    const struct pccl_buffers *buffers = &args->buffers;
    size_t at = (size_t)pccl_sections_table_bytes(buffers->section_count), before = 0, elements = 0;
    memset(contribution, 0, bytes);
    pccl_sections_write(buffers->sections, buffers->section_count, contribution);
    for (uint32_t i = 0; i < buffers->section_count; i++) {
        const struct pccl_section *section = &buffers->sections[i];
        const struct making making = making_of(args, operation, section, elements);
        pccl_extents_read(&buffers->input, before, bytes_of(section), contribution + at, NULL);
        (void)make(&making, contribution + at, (size_t)section->count, contribution + at);
        at += (size_t)pccl_section_bytes(section);
        before += bytes_of(section);
        elements += (size_t)section->count;
    }
}

bool pccl_contribution_make(const struct pccl_op_args *args, const struct pccl_comm_op *operation, void *contribution,
                            size_t bytes)
{
    if (!args->buffers.sections && !operation->feedback && args->launch.descriptor.operation != PCCL_PREMUL_SUM)
        return false; /* the most common case */
    if (args->buffers.sections) {
        put_sections(args, operation, contribution, bytes);
        return true;
    }
    const struct pccl_section all = pccl_op_args_section(args, 0, bytes);
    const struct making making = making_of(args, operation, &all, 0);
    return make(&making, args->buffers.input.memory, (size_t)all.count, contribution);
}

/* ---- results ---- */

static size_t lists_bytes(const struct pccl_buffers *buffers)
{
    return buffers->result.count * sizeof *buffers->result.list + buffers->section_count * sizeof *buffers->sections;
}

bool pccl_contribution_keep_result(struct pccl_comm_op *operation, const struct pccl_op_args *args)
{
    const struct pccl_buffers *given = &args->buffers;
    operation->buffers.result.memory = given->result.memory;
    if (!given->result.list)
        return true;
    struct pccl_extent *list = pccl_allocate(pccl_heap(), lists_bytes(given));
    if (!list)
        return false;
    struct pccl_section *sections = (struct pccl_section *)(void *)&list[given->result.count];
    memcpy(list, given->result.list, given->result.count * sizeof *list);
    memcpy(sections, given->sections, given->section_count * sizeof *sections);
    operation->buffers = (struct pccl_buffers){.result = {list->memory, list, given->result.count},
                                               .sections = sections,
                                               .section_count = given->section_count};
    return true;
}

void pccl_contribution_drop_result(struct pccl_comm_op *operation)
{
    struct pccl_buffers *buffers = &operation->buffers;
    pccl_release(pccl_heap(), (void *)(uintptr_t)buffers->result.list, lists_bytes(buffers));
}

/* Uses our own list of sections: the table in the payload was written by another peer and is not trusted. */
static void take_sections(const struct pccl_buffers *buffers, const uint8_t *payload)
{
    size_t at = (size_t)pccl_sections_table_bytes(buffers->section_count), before = 0;
    for (uint32_t i = 0; i < buffers->section_count; i++) {
        const struct pccl_section *section = &buffers->sections[i];
        pccl_extents_write(&buffers->result, before, bytes_of(section), payload + at, NULL);
        at += (size_t)pccl_section_bytes(section);
        before += bytes_of(section);
    }
}

void pccl_contribution_take_result(const struct pccl_comm_op *operation, const struct pccl_peer_op *op)
{
    const struct pccl_buffers *buffers = &operation->buffers;
    const bool exchanges = pccl_row_exchanges(pccl_collective(op->descriptor.collective));
    const uint32_t parts = exchanges ? operation->members->count : 1; /* one part from each contribution */
    size_t part = operation->result_bytes / parts, all = op->payload_bytes / parts;
    PCCL_ASSERT(operation->outcome_skip + part <= all);
    for (uint32_t i = 0; i < parts && !buffers->sections; i++)
        pccl_extents_write(&buffers->result, i * part, part, op->payload + i * all + operation->outcome_skip, NULL);
    if (buffers->sections)
        take_sections(buffers, op->payload);
}

/* ---- a peer alone in its group ---- */

/*
 * Writes the result in a group of one: the identity in an exclusive scan, otherwise the contribution, in which reduced
 * bools become 0 or 1.
 */
static void reduce_alone(const struct making *making, const void *input, size_t bytes, void *result)
{
    const size_t count = bytes / pccl_datatype_bytes(making->datatype);
    if (making->leaves_own)
        pccl_fill_identity(making->datatype, making->reduction, count, result);
    if (making->leaves_own || make(making, input, count, result))
        return;
    if (making->reduces && making->datatype == PCCL_BOOL)
        pccl_combine_all(pccl_kernels_for(0), PCCL_BOOL, PCCL_OR, &input, 1, bytes, result);
    else if (result != input)
        memmove(result, input, bytes);
}

void pccl_contribution_alone(const struct pccl_op_args *args, const struct pccl_comm_op *operation)
{
    const struct pccl_buffers *buffers = &args->buffers;
    size_t at = 0, end = 0, elements = 0;
    for (uint32_t i = 0; i == 0 || i < buffers->section_count; i++) {
        const struct pccl_section section = pccl_op_args_section(args, i, operation->result_bytes);
        end += bytes_of(&section);
        for (size_t bytes; at < end; at += bytes) { /* input and result have the same extents */
            const struct making making = making_of(args, operation, &section, elements);
            bytes = pccl_extents_together(&buffers->input, at, end - at);
            reduce_alone(&making, pccl_extents_at(&buffers->input, at), bytes, pccl_extents_at(&buffers->result, at));
            elements += bytes / pccl_datatype_bytes(making.datatype);
        }
    }
}
