/* Creates and destroys groups. All other public functions accept a group as a communicator. */
#include "api/api.h"
#include "drive/comm_broken.h"
#include "net/heap.h"

/* ---- creation ---- */

static enum pccl_status read_options(const pcclGroupOptions_t *given, struct pccl_founding *founding,
                                     struct pccl_text *reason)
{
    if (!given)
        return PCCL_OK;
    enum pccl_status status = pccl_api_struct_check(given, sizeof *given, "PCCL_GROUP_OPTIONS_INIT", reason);
    if (status != PCCL_OK)
        return status;
    if (given->label && !pccl_label_of(given->label, &founding->label))
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "pcclCreateGroup: invalid label: expected at most 32 bytes of printable UTF-8");
    founding->timeout_ms = given->timeout_ms;
    return PCCL_OK;
}

static enum pccl_status read_ids(const pcclPeerId_t *ids, struct pccl_id *members, uint32_t count,
                                 struct pccl_text *reason)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *digits = ids[i].digits;
        if (digits[PCCL_PEER_ID_SIZE - 1] || !pccl_id_read(digits, PCCL_PEER_ID_SIZE - 1, &members[i]))
            return pccl_fail(reason, PCCL_ARGUMENT,
                             "pcclCreateGroup: invalid id in the list: expected 32 lower-case hexadecimal digits");
    }
    return PCCL_OK;
}

static enum pccl_status found(struct pccl_api_call *call, const pcclPeerId_t *ids, struct pccl_id *members,
                              struct pccl_founding *founding, struct pccl_group_handle *group)
{
    enum pccl_status status = read_ids(ids, members, founding->count, &call->why.reason);
    if (status != PCCL_OK)
        return status;
    pccl_comm_enter(call->comm);
    status = pccl_comm_group_found(call->comm, founding, group, &call->why);
    pccl_comm_leave(call->comm);
    return status;
}

static enum pccl_status create_group(struct pccl_api_call *call, const pcclPeerId_t *ids, uint32_t count,
                                     const pcclGroupOptions_t *options, pcclComm_t **group_out)
{
    struct pccl_text *reason = &call->why.reason;
    struct pccl_founding founding = {.count = count};
    const char *wrong = !ids || !group_out       ? "ids or group_out is NULL"
                        : count == 0             ? "the list is empty"
                        : count > PCCL_PEERS_MAX ? "the list has more entries than a group can have members"
                                                 : NULL;
    enum pccl_status status = wrong ? pccl_fail(reason, PCCL_ARGUMENT, "pcclCreateGroup: %s", wrong)
                                    : read_options(options, &founding, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_group_handle *group = pccl_group_handle_create(count);
    struct pccl_id *members = pccl_allocate(pccl_heap(), count * sizeof *members);
    founding.members = members;
    if (group && members)
        status = found(call, ids, members, &founding, group);
    else
        status = pccl_fail(reason, PCCL_MEMORY, "out of memory for a group of %u members", count);
    pccl_release(pccl_heap(), members, count * sizeof *members);
    if (status == PCCL_OK) {
        pccl_errors_forget(group->handle.key);
        *group_out = &group->handle;
    } else if (group) {
        pccl_group_handle_free(group);
    }
    return status;
}

pcclResult_t pcclCreateGroup(const pcclComm_t *comm, const pcclPeerId_t *ids, uint32_t count,
                             const pcclGroupOptions_t *options, pcclComm_t **group_out)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_REDUCE, create_group(call, ids, count, options, group_out));
}

/* ---- closing and destroying ---- */

void pccl_api_close_group(pcclComm_t *handle)
{
    pccl_group_handle_refuse_calls(handle->group);
    pccl_comm_enter(handle->comm);
    pccl_comm_group_close(handle->comm, handle->group);
    pccl_comm_leave(handle->comm);
}

struct closing {
    struct pccl_communicator *comm;
    struct pccl_group_handle *group;
};

static void close_and_remove(void *argument)
{
    const struct closing *closing = argument;
    struct pccl_communicator *comm = closing->comm;
    struct pccl_group_handle *group = closing->group;
    pccl_comm_enter(comm);
    pccl_comm_group_close(comm, group);
    pccl_comm_leave(comm);
    pccl_group_handle_await_callers(group);
    pccl_comm_enter(comm);
    pccl_comm_group_remove(comm, group);
    pccl_comm_leave(comm);
}

enum pccl_status pccl_api_destroy_group(struct pccl_api_call *call)
{
    struct pccl_group_handle *group = call->handle->group;
    if (!pccl_group_handle_begin_destroy(group))
        return pccl_fail(&call->why.reason, PCCL_USAGE, "the group is being destroyed");
    pccl_errors_forget(call->key);
    struct pccl_communicator *comm = pccl_group_handle_hold(group);
    if (!comm)
        return PCCL_OK;
    struct closing closing = {comm, group};
    pccl_api_run_inside(comm, close_and_remove, &closing); /* after a broken invariant the group is never used again */
    pccl_comm_call_end(comm);
    return PCCL_OK;
}
