#include "drive/comm_contribution.h"

#include "drive/cpu.h"
#include "kernels/kernels.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "wire/coalesced.h"

#include <string.h>

/* ---- elements ---- */

/* What is made of the elements of one tensor. */
struct making {
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    bool reduces;
    double factor;
    struct pccl_feedback feedback;
};

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

/* Its contribution is the result, but a bool that is reduced becomes 0 or 1. */
static void reduce_alone(const struct making *making, const void *input, size_t count, void *result)
{
    if (make(making, input, count, result))
        return;
    const size_t bytes = count * pccl_datatype_bytes(making->datatype);
    if (making->reduces && making->datatype == PCCL_BOOL)
        pccl_combine_all(pccl_kernels_for(0), PCCL_BOOL, PCCL_OR, &input, 1, bytes, result);
    else if (bytes && result != input)
        memmove(result, input, bytes);
}

static struct making making_of(const struct pccl_op_args *args, const struct pccl_comm_op *operation)
{
    return (struct making){.datatype = (enum pccl_datatype)args->descriptor.datatype,
                           .reduction = (enum pccl_reduce_op)args->descriptor.operation,
                           .reduces = pccl_collective_reduces(args->descriptor.collective),
                           .factor = args->factor,
                           .feedback = pccl_comm_feedback_memory(operation->feedback)};
}

/* Feedback has a place for each element of the list, and is used for those that can be packed. */
static struct making making_of_tensor(const struct pccl_op_args *args, const struct pccl_comm_op *operation,
                                      const struct pccl_coalesced_tensor *tensor, size_t elements_before)
{
    struct making making = making_of(args, operation);
    making.datatype = tensor->datatype;
    making.reduction = tensor->reduction;
    if (!pccl_datatype_is_float(tensor->datatype))
        making.feedback = (struct pccl_feedback){0};
    if (pccl_feedback_is_kept(&making.feedback)) {
        making.feedback.kept += elements_before;
        making.feedback.next += elements_before;
    }
    return making;
}

/* ---- several tensors ---- */

uint64_t pccl_coalesced_elements(const struct pccl_op_args *args)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < args->tensor_count; i++)
        elements += args->tensors[i].count;
    return elements;
}

bool pccl_coalesced_copy(struct pccl_comm_op *operation, const struct pccl_op_args *args)
{
    const size_t bytes = args->tensor_count * sizeof *operation->tensors;
    if (!args->tensors)
        return true;
    operation->tensors = pccl_allocate(pccl_heap(), bytes);
    if (!operation->tensors)
        return false;
    operation->tensor_count = args->tensor_count;
    memcpy(operation->tensors, args->tensors, bytes);
    return true;
}

/* Where the tensor's elements are in a tiny contribution or result, once those before it have been asked for. */
struct cursor {
    const struct pccl_comm_op *operation;
    uint8_t *bytes;
    size_t at;
    uint32_t index;
};

/* By the own list: what a table says that came from others is nothing to rely on. */
static struct cursor first(const struct pccl_comm_op *operation, uint8_t *bytes)
{
    uint32_t sections = 0;
    for (uint32_t i = 0; i < operation->tensor_count; i++)
        sections += pccl_tensors_begin_section(operation->tensors, i);
    return (struct cursor){.operation = operation, .bytes = bytes, .at = (size_t)pccl_sections_table_bytes(sections)};
}

/* Each section begins at a multiple of PCCL_SECTION_BYTES. */
static uint8_t *next(struct cursor *cursor)
{
    const struct pccl_coalesced_tensor *tensor = &cursor->operation->tensors[cursor->index];
    if (pccl_tensors_begin_section(cursor->operation->tensors, cursor->index))
        cursor->at = (size_t)pccl_round_up(cursor->at, PCCL_SECTION_BYTES);
    uint8_t *place = cursor->bytes + cursor->at;
    cursor->at += (size_t)tensor->count * pccl_datatype_bytes(tensor->datatype);
    cursor->index++;
    return place;
}

static void put_tensors(const struct pccl_op_args *args, const struct pccl_comm_op *operation, uint8_t *contribution,
                        size_t bytes)
{
    struct pccl_section sections[PCCL_TINY_BYTES_MAX / PCCL_SECTION_BYTES];
    size_t elements = 0;
    memset(contribution, 0, bytes);
    pccl_sections_write(sections, pccl_tensors_sections(operation->tensors, operation->tensor_count, sections),
                        contribution);
    struct cursor cursor = first(operation, contribution);
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const struct pccl_coalesced_tensor *tensor = &operation->tensors[i];
        const struct making making = making_of_tensor(args, operation, tensor, elements);
        uint8_t *place = next(&cursor);
        if (!make(&making, tensor->input, (size_t)tensor->count, place))
            memcpy(place, tensor->input, (size_t)tensor->count * pccl_datatype_bytes(tensor->datatype));
        elements += (size_t)tensor->count;
    }
}

void pccl_coalesced_take(const struct pccl_comm_op *operation, const struct pccl_peer_op *op)
{
    struct cursor cursor = first(operation, op->payload);
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const struct pccl_coalesced_tensor *tensor = &operation->tensors[i];
        memcpy(tensor->result, next(&cursor), (size_t)tensor->count * pccl_datatype_bytes(tensor->datatype));
    }
}

/* ---- of an operation ---- */

bool pccl_contribution_make(const struct pccl_op_args *args, const struct pccl_comm_op *operation, void *contribution,
                            size_t bytes)
{
    if (!args->tensors && !operation->feedback && args->descriptor.operation != PCCL_PREMUL_SUM)
        return false; /* nearly always */
    const struct making making = making_of(args, operation);
    if (!args->tensors)
        return make(&making, args->input, bytes / pccl_datatype_bytes(making.datatype), contribution);
    put_tensors(args, operation, contribution, bytes);
    return true;
}

void pccl_contribution_alone(const struct pccl_op_args *args, const struct pccl_comm_op *operation)
{
    const struct making making = making_of(args, operation);
    size_t elements = 0;
    if (!args->tensors)
        reduce_alone(&making, args->input, operation->result_bytes / pccl_datatype_bytes(making.datatype),
                     args->result);
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const struct pccl_coalesced_tensor *tensor = &operation->tensors[i];
        const struct making one = making_of_tensor(args, operation, tensor, elements);
        reduce_alone(&one, tensor->input, (size_t)tensor->count, tensor->result);
        elements += (size_t)tensor->count;
    }
}
