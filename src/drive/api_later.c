/* Public functions whose work is not there yet: they check everything that can be checked and say so. */
#include "drive/api.h"
#include "kernels/reduce.h"

/* Connected, and nothing un-awaited? Fills words otherwise. */
static enum pccl_status check_quiet(pcclComm_t *comm, uint32_t *world, struct pccl_text *words)
{
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(comm);
    if (!pccl_api_connected(comm)) {
        status = pccl_api_unconnected(comm, words);
    } else if (comm->reductions.count) {
        pccl_text_format(words, "%u reductions are launched and not yet awaited", (uint64_t)comm->reductions.count);
        status = PCCL_PENDING_OPS;
    } else {
        *world = pccl_peer_attributes(comm->peer).world;
    }
    pccl_comm_leave(comm);
    return status;
}

pcclResult_t pcclOptimizeTopology(const pcclComm_t *comm_const)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_OPTIMIZE);
    if (result != pcclSuccess)
        return result;
    struct pccl_text words;
    uint32_t world = 0;
    enum pccl_status status = check_quiet(comm, &world, &words);
    if (status != PCCL_OK)
        return pccl_api_fail(comm, PCCL_FAMILY_OPTIMIZE, status, &words);
    if (world <= 1)
        return pccl_api_fail_in_words(comm, PCCL_FAMILY_OPTIMIZE, PCCL_USAGE,
                                      "this peer is alone: there is nothing to optimise");
    return pccl_api_fail_in_words(comm, PCCL_FAMILY_OPTIMIZE, PCCL_UNSUPPORTED,
                                  "pcclOptimizeTopology is not supported by this version");
}

static const char *what_is_wrong(const pcclTensorInfo_t *tensor)
{
    if (!tensor->name || !tensor->name[0])
        return "a tensor has no name";
    if (!tensor->data && tensor->count > 0)
        return "a tensor has elements but no data";
    if ((unsigned)tensor->datatype >= PCCL_DATATYPES)
        return "a tensor has an unknown data type";
    if (tensor->device_type == pcclDeviceCuda)
        return "a tensor is on a CUDA device, and this build has no CUDA support";
    if (tensor->device_type != pcclDeviceCpu)
        return "a tensor is on an unknown device";
    return NULL;
}

pcclResult_t pcclSynchronizeSharedState(const pcclComm_t *comm_const, pcclSharedState_t *shared_state,
                                        pcclSharedStateSyncStrategy_t strategy,
                                        pcclSharedStateSyncInfo_t *sync_info_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    const char *wrong = NULL;
    (void)sync_info_out;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_SYNC);
    if (result != pcclSuccess)
        return result;
    if (!shared_state)
        wrong = "shared_state is NULL";
    else if (!shared_state->infos && shared_state->count > 0)
        wrong = "infos is NULL";
    else if ((unsigned)strategy > PCCL_SHARED_STATE_SYNC_STRATEGY_SEND_ONLY)
        wrong = "unknown strategy";
    for (size_t i = 0; !wrong && i < shared_state->count; i++)
        wrong = what_is_wrong(&shared_state->infos[i]);
    if (wrong)
        return pccl_api_fail_in_words(comm, PCCL_FAMILY_SYNC, PCCL_ARGUMENT, wrong);
    struct pccl_text words;
    uint32_t world;
    enum pccl_status status = check_quiet(comm, &world, &words);
    if (status != PCCL_OK)
        return pccl_api_fail(comm, PCCL_FAMILY_SYNC, status, &words);
    return pccl_api_fail_in_words(comm, PCCL_FAMILY_SYNC, PCCL_UNSUPPORTED,
                                  "pcclSynchronizeSharedState is not supported by this version");
}
