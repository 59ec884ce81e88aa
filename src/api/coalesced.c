/* Converts the caller's list of tensors for a coalesced all-reduce. */
#include "api/api.h"
#include "net/heap.h"
#include "wire/choice.h"

#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 1 << 16 };

static enum pccl_status refuse_tensor(struct pccl_text *reason, size_t index, const char *words)
{
    return pccl_fail(reason, PCCL_ARGUMENT, "tensor %zu: %s", index, words);
}

/* Checks that the codec suits a tensor. Only tensors of floats are packed; the others are sent unchanged. */
static enum pccl_status check_codec(const pcclQuantizationOptions_t *codec, const pcclCoalescedTensor_t *tensor,
                                    size_t index, struct pccl_descriptor *descriptor, struct pccl_text *reason)
{
    struct pccl_descriptor one = *descriptor;
    struct pccl_text words;
    one.collective = PCCL_ALL_REDUCE; /* checked like a separate all-reduce */
    one.datatype = (uint8_t)tensor->datatype;
    one.operation = (uint8_t)tensor->op;
    if (!pccl_datatype_is_float((enum pccl_datatype)tensor->datatype))
        return PCCL_OK;
    if (pccl_api_codec(codec, &one, &words) != PCCL_OK)
        return refuse_tensor(reason, index, words.bytes);
    one.collective = descriptor->collective;
    one.datatype = descriptor->datatype;
    one.operation = descriptor->operation;
    *descriptor = one;
    return PCCL_OK;
}

static enum pccl_status check_tensor(const pcclCoalescedTensor_t *tensor, size_t index, struct pccl_text *reason)
{
    const char *wrong = !tensor->sendbuf || !tensor->recvbuf           ? "a buffer is NULL"
                        : tensor->count == 0                           ? "count is 0"
                        : tensor->count > SIZE_MAX / 16                ? "count is too large"
                        : (unsigned)tensor->datatype >= PCCL_DATATYPES ? "unknown data type"
                        : (unsigned)tensor->op >= PCCL_REDUCE_OPS      ? "unknown operation"
                                                                       : NULL;
    if (!wrong)
        wrong = pccl_reduction_misfit((enum pccl_datatype)tensor->datatype, (enum pccl_reduce_op)tensor->op);
    return wrong ? refuse_tensor(reason, index, wrong) : PCCL_OK;
}

/* ---- overlaps ---- */

struct range {
    uintptr_t from, to;
    bool result;
    size_t tensor;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct range *one = a, *other = b;
    return one->from < other->from ? -1 : one->from > other->from;
}

/* Lists the buffers of all tensors. For a tensor in place, lists only the result. */
static size_t list_ranges(const pcclCoalescedTensor_t *tensors, size_t count, struct range *ranges)
{
    size_t listed = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = tensors[i].count * pccl_datatype_bytes((enum pccl_datatype)tensors[i].datatype);
        const uintptr_t input = (uintptr_t)tensors[i].sendbuf, result = (uintptr_t)tensors[i].recvbuf;
        ranges[listed++] = (struct range){result, result + bytes, true, i};
        if (input != result)
            ranges[listed++] = (struct range){input, input + bytes, false, i};
    }
    return listed;
}

/* Refuses overlapping buffers, except for inputs that overlap each other. */
static enum pccl_status check_overlaps(const pcclCoalescedTensor_t *tensors, size_t count, struct pccl_text *reason)
{
    const size_t bytes = 2 * count * sizeof(struct range);
    struct range *ranges = pccl_allocate(pccl_heap(), bytes);
    enum pccl_status status = PCCL_OK;
    struct range result = {0}, any = {0}; /* earlier range that ends last */
    if (!ranges)
        return PCCL_MEMORY;
    const size_t listed = list_ranges(tensors, count, ranges);
    qsort(ranges, listed, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < listed && status == PCCL_OK; i++) {
        const struct range *range = &ranges[i], *before = range->result ? &any : &result;
        if (range->from < before->to) {
            pccl_text_format(reason, "buffers of tensors %zu and %zu overlap", before->tensor, range->tensor);
            status = PCCL_ARGUMENT;
        }
        if (range->to > any.to)
            any = *range;
        if (range->result && range->to > result.to)
            result = *range;
    }
    pccl_release(pccl_heap(), ranges, bytes);
    return status;
}

/* ---- the list ---- */

size_t pccl_api_coalesced_bytes(size_t tensor_count)
{
    return tensor_count * (2 * sizeof(struct pccl_extent) + sizeof(struct pccl_section));
}

/*
 * Lists the tensors grouped into sections. A section has all tensors of one type and reduction, in the caller's order.
 */
static void list_tensors(const pcclCoalescedTensor_t *tensors, size_t count, struct pccl_extent *inputs,
                         struct pccl_buffers *buffers)
{
    bool listed[PCCL_DATATYPES][PCCL_REDUCE_OPS] = {{false}};
    struct pccl_extent *input = inputs, *result = &inputs[count];
    struct pccl_section *section = (struct pccl_section *)(void *)&result[count];
    size_t from = 0;
    *buffers = (struct pccl_buffers){
        .input = {NULL, input, (uint32_t)count}, .result = {NULL, result, (uint32_t)count}, .sections = section};
    for (size_t i = 0; i < count; i++) {
        bool *known = &listed[tensors[i].datatype][tensors[i].op];
        if (*known)
            continue;
        *known = true;
        *section = (struct pccl_section){(uint8_t)tensors[i].datatype, (uint8_t)tensors[i].op, 0};
        for (size_t k = i; k < count; k++)
            if (tensors[k].datatype == tensors[i].datatype && tensors[k].op == tensors[i].op) {
                *input++ = (struct pccl_extent){from, (uint8_t *)(uintptr_t)tensors[k].sendbuf};
                *result++ = (struct pccl_extent){from, tensors[k].recvbuf};
                from += tensors[k].count * pccl_datatype_bytes((enum pccl_datatype)tensors[k].datatype);
                section->count += tensors[k].count;
            }
        section++;
        buffers->section_count++;
    }
    buffers->input.memory = inputs[0].memory;
    buffers->result.memory = inputs[count].memory;
}

/* Computes the size of the contribution if the operation is tiny, so that the master reduces it. */
static enum pccl_status measure(const struct pccl_buffers *buffers, uint64_t *bytes_out, struct pccl_text *reason)
{
    uint64_t bytes = pccl_sections_table_bytes(buffers->section_count);
    for (uint32_t i = 0; i < buffers->section_count && bytes <= SIZE_MAX / 16; i++) {
        const struct pccl_section *section = &buffers->sections[i];
        bytes += section->count > SIZE_MAX / 16 ? SIZE_MAX / 8 : pccl_section_bytes(section);
    }
    *bytes_out = bytes;
    return bytes <= SIZE_MAX / 16 ? PCCL_OK : pccl_fail(reason, PCCL_ARGUMENT, "the tensors are too large");
}

enum pccl_status pccl_api_coalesced(const pcclOperation_t *asked, const pcclQuantizationOptions_t *codec,
                                    struct pccl_op_args *args, struct pccl_text *reason)
{
    const pcclCoalescedTensor_t *tensors = asked->sendbuf;
    const bool quantized = codec->algorithm != pcclQuantNone;
    enum pccl_status status = PCCL_OK;
    bool multiplies = false;
    if (asked->count == 0 || asked->count > TENSORS_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         asked->count ? "the tensor list is too long" : "the tensor list is empty");
    for (size_t i = 0; i < asked->count && status == PCCL_OK; i++) {
        status = check_tensor(&tensors[i], i, reason);
        multiplies = multiplies || tensors[i].op == pcclPremulSum;
        if (status == PCCL_OK && quantized)
            status = check_codec(codec, &tensors[i], i, &args->launch.descriptor, reason);
    }
    if (status != PCCL_OK)
        return status;
    if (quantized && args->launch.descriptor.codec == PCCL_CODEC_NONE &&
        !pccl_choice_is_automatic(&args->launch.descriptor))
        return pccl_fail(reason, PCCL_ARGUMENT, "only floats can be quantized, but the list has no tensor of floats");
    if (args->factor != 1 && !multiplies)
        return pccl_fail(reason, PCCL_ARGUMENT, "only a premultiplied sum can have a factor");
    status = check_overlaps(tensors, asked->count, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_extent *inputs = pccl_allocate(pccl_heap(), pccl_api_coalesced_bytes(asked->count));
    if (!inputs)
        return PCCL_MEMORY;
    list_tensors(tensors, asked->count, inputs, &args->buffers);
    status = measure(&args->buffers, &args->launch.descriptor.count, reason);
    if (status == PCCL_OK)
        args->launch.descriptor.counts = pccl_op_args_digest_tensors(&args->buffers);
    return status;
}
