/* Public functions of groups: founding, and the end. Everything else takes them as communicators. */
#include "api/api.h"
#include "drive/comm_broken.h"
#include "net/heap.h"

/* ---- founding ---- */

static enum pccl_status refuse(struct pccl_text *reason, const char *words)
{
    pccl_text_format(reason, "pcclCreateGroup: %s", words);
    return PCCL_ARGUMENT;
}

static enum pccl_status read_options(const pcclGroupOptions_t *given, struct pccl_founding *founding,
                                     struct pccl_text *reason)
{
    if (!given)
        return PCCL_OK;
    enum pccl_status status = pccl_api_struct_check(given, sizeof *given, "PCCL_GROUP_OPTIONS_INIT", reason);
    if (status != PCCL_OK)
        return status;
    if (given->label && !pccl_label_of(given->label, &founding->label))
        return refuse(reason, "a label has at most 32 bytes of printable UTF-8");
    founding->timeout_ms = given->timeout_ms;
    return PCCL_OK;
}

static enum pccl_status read_ids(const pcclPeerId_t *ids, struct pccl_id *members, uint32_t count,
                                 struct pccl_text *reason)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *digits = ids[i].digits;
        if (digits[PCCL_PEER_ID_SIZE - 1] || !pccl_id_read(digits, PCCL_PEER_ID_SIZE - 1, &members[i]))
            return refuse(reason, "an id of the list has not 32 lower-case hexadecimal digits");
    }
    return PCCL_OK;
}

static enum pccl_status found(pcclComm_t *comm, const pcclPeerId_t *ids, struct pccl_id *members,
                              struct pccl_founding *founding, struct pccl_group_handle *group, struct pccl_why *why)
{
    enum pccl_status status = read_ids(ids, members, founding->count, &why->reason);
    if (status != PCCL_OK)
        return status;
    pccl_comm_enter(comm->comm);
    status = pccl_comm_group_found(comm->comm, founding, group, why);
    pccl_comm_leave(comm->comm);
    return status;
}

static pcclResult_t create_group(pcclComm_t *comm, const pcclPeerId_t *ids, uint32_t count,
                                 const pcclGroupOptions_t *options, pcclComm_t **group_out)
{
    struct pccl_why why = {0};
    struct pccl_founding founding = {.count = count};
    enum pccl_status status = PCCL_OK;
    if (!ids || !group_out)
        status = refuse(&why.reason, "ids or group_out is NULL");
    else if (count == 0 || count > PCCL_PEERS_MAX)
        status = refuse(&why.reason, count ? "the list is longer than any group" : "the list is empty");
    else
        status = read_options(options, &founding, &why.reason);
    if (status != PCCL_OK)
        return pccl_api_fail_why(comm, PCCL_FAMILY_REDUCE, status, &why);
    struct pccl_group_handle *group = pccl_group_handle_create(count);
    struct pccl_id *members = pccl_allocate(pccl_heap(), count * sizeof *members);
    founding.members = members;
    if (group && members) {
        status = found(comm, ids, members, &founding, group, &why);
    } else {
        pccl_text_format(&why.reason, "out of memory for a group of %u", count);
        status = PCCL_MEMORY;
    }
    pccl_release(pccl_heap(), members, count * sizeof *members);
    if (status == PCCL_OK) {
        pccl_errors_forget(group->handle.key);
        *group_out = &group->handle;
        return pcclSuccess;
    }
    if (group)
        pccl_group_handle_free(group);
    return pccl_api_fail_why(comm, PCCL_FAMILY_REDUCE, status, &why);
}

pcclResult_t pcclCreateGroup(const pcclComm_t *comm_const, const pcclPeerId_t *ids, uint32_t count,
                             const pcclGroupOptions_t *options, pcclComm_t **group_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_WHOLE_CALL(comm, PCCL_FAMILY_REDUCE, create_group(comm, ids, count, options, group_out));
}

/* ---- the end ---- */

pcclResult_t pccl_api_close_group(pcclComm_t *handle)
{
    pccl_group_handle_refuse_calls(handle->group);
    pccl_comm_enter(handle->comm);
    pccl_comm_group_close(handle->comm, handle->group);
    pccl_comm_leave(handle->comm);
    return pcclSuccess;
}

static void close_and_remove(struct pccl_communicator *comm, struct pccl_group_handle *group)
{
    pccl_comm_enter(comm);
    pccl_comm_group_close(comm, group);
    pccl_comm_leave(comm);
    pccl_group_handle_await_callers(group);
    pccl_comm_enter(comm);
    pccl_comm_group_remove(comm, group);
    pccl_comm_leave(comm);
}

pcclResult_t pccl_api_destroy_group(pcclComm_t *handle)
{
    struct pccl_group_handle *group = handle->group;
    if (!pccl_group_handle_begin_destroy(group))
        return pccl_api_fail_with(handle, PCCL_FAMILY_GENERAL, PCCL_USAGE, "the group is being destroyed");
    pccl_errors_forget(handle->key);
    struct pccl_communicator *comm = pccl_group_handle_hold(group);
    if (!comm)
        return pcclSuccess;
    struct pccl_caller caller;
    pccl_caller_begin(&caller, comm);
    if (setjmp(caller.guard.place) == 0) {
        close_and_remove(comm, group);
        pccl_caller_end(&caller);
    } else {
        pccl_caller_broke(&caller); /* what is left of the group is never used again */
    }
    pccl_comm_call_end(comm);
    return pcclSuccess;
}
