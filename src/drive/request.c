#include "drive/request.h"

#include "core/status.h"
#include "kernels/kernels.h"

bool pccl_request_needs_members(const struct pccl_request *request)
{
    uint8_t collective = request->descriptor.collective;
    return request->members || (collective != PCCL_ALL_REDUCE && collective != PCCL_BARRIER);
}

struct pccl_request_extent pccl_request_extent(const struct pccl_request *request, uint32_t world, uint32_t rank)
{
    size_t part = request->descriptor.count * pccl_datatype_bytes((enum pccl_datatype)request->descriptor.datatype);
    struct pccl_request_extent extent = {.input = part, .result = part};
    if (request->descriptor.collective == PCCL_ALL_GATHER)
        extent.result = world * part;
    if (request->descriptor.collective == PCCL_REDUCE_SCATTER)
        extent.input = world * part;
    if (extent.result != extent.input)
        extent.own = rank * part;
    return extent;
}

/* The one place where the other buffer may lie although they overlap. */
static bool is_in_place(const struct pccl_request *request, const struct pccl_request_extent *extent)
{
    uintptr_t input = (uintptr_t)request->input, result = (uintptr_t)request->result;
    return extent->input < extent->result ? input == result + extent->own : result == input + extent->own;
}

enum pccl_status pccl_request_check_buffers(const struct pccl_request *request, uint32_t world, uint32_t rank,
                                            struct pccl_text *reason)
{
    if (request->descriptor.count > SIZE_MAX / 16 / world) {
        pccl_text_format(reason, "count is larger than any memory");
        return PCCL_ARGUMENT;
    }
    struct pccl_request_extent extent = pccl_request_extent(request, world, rank);
    uintptr_t input = (uintptr_t)request->input, result = (uintptr_t)request->result;
    bool overlap = input < result + extent.result && result < input + extent.input;
    if (!overlap || is_in_place(request, &extent))
        return PCCL_OK;
    if (extent.own || extent.input != extent.result)
        pccl_text_format(reason, "sendbuf and recvbuf overlap, and the smaller one is not the part of rank %u", rank);
    else
        pccl_text_format(reason, "sendbuf and recvbuf overlap partly");
    return PCCL_ARGUMENT;
}
