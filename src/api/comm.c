/* Public functions of communicators: life, attributes, joint calls. */
#include "api/list.h"
#include "ccoip.h"
#include "drive/comm_callers.h"
#include "drive/comm_engine.h"
#include "drive/comm_broken.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"
#include "drive/credentials.h"
#include "net/fork.h"
#include "peer/queries.h"

#include <stdio.h>
#include <string.h>

/* ---- create and destroy ---- */

static pcclResult_t create_failed(enum pccl_status status, bool extended, const struct pccl_text *reason)
{
    return pccl_errors_fail(0, PCCL_FAMILY_GENERAL, extended, status, "%s", reason->bytes);
}

static pcclResult_t create(const pcclOptions_t *options, const struct pccl_host *hosts, uint32_t count,
                           const pcclCommCreateParams_t *given, bool extended, pcclComm_t **comm_out)
{
    struct pccl_params params;
    struct pccl_text reason;
    enum pccl_status status = pccl_params_load(options, pcclParameterCommunicator, &params, &reason);
    if (status != PCCL_OK)
        return create_failed(status, extended, &reason);
    if (given) {
        params.peer_group = given->peer_group;
        params.connection_pool_size = (uint32_t)pccl_min_u64(given->p2p_connection_pool_size, PCCL_POOL_MAX);
    }
    struct pccl_keys *keys = NULL;
    status = pccl_comm_sight_check(&params, &reason);
    if (status == PCCL_OK)
        status = pccl_credentials_of_peer(&params, &keys, &reason);
    if (status != PCCL_OK)
        return create_failed(status, extended, &reason);
    struct pccl_communicator *comm = pccl_comm_create(&params, hosts, count);
    if (!comm) {
        pccl_keys_destroy(keys);
        pccl_text_format(&reason, "out of memory for a communicator");
        return create_failed(PCCL_MEMORY, extended, &reason);
    }
    pccl_comm_secure(comm, keys);
    pccl_errors_forget(comm->handle.key);
    *comm_out = &comm->handle;
    return pcclSuccess;
}

static pcclResult_t create_communicator(const pcclCommCreateParams_t *params, pcclComm_t **comm_out)
{
    struct pccl_host host;
    struct pccl_text reason;
    if (!pccl_api_initialized())
        return pccl_api_fail_with(NULL, PCCL_FAMILY_GENERAL, PCCL_NOT_INITIALIZED, "pcclInit has not been called");
    if (!params || !comm_out)
        return pccl_api_fail_with(NULL, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclCreateCommunicator: params or comm_out is NULL");
    enum pccl_status status = pccl_api_host(&params->master_address, &host, &reason);
    if (status != PCCL_OK)
        return create_failed(status, false, &reason);
    return create(NULL, &host, 1, params, false, comm_out);
}

pcclResult_t pcclCreateCommunicator(const pcclCommCreateParams_t *params, pcclComm_t **comm_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, create_communicator(params, comm_out));
}

static pcclResult_t create_with_options(const char *master_addresses, const pcclOptions_t *options,
                                        pcclComm_t **comm_out)
{
    struct pccl_host hosts[PCCL_MASTER_ADDRESSES_MAX];
    struct pccl_text reason;
    uint32_t count;
    if (!pccl_api_initialized())
        return pccl_api_fail_with(NULL, PCCL_FAMILY_GENERAL, PCCL_NOT_INITIALIZED, "pcclInit has not been called");
    if (!master_addresses || !comm_out)
        return pccl_api_fail_with(NULL, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclCreateCommunicatorWithOptions: master_addresses or comm_out is NULL");
    enum pccl_status status =
        pccl_api_hosts(master_addresses, CCOIP_PROTOCOL_PORT_MASTER, hosts, PCCL_MASTER_ADDRESSES_MAX, &count, &reason);
    for (uint32_t i = 0; status == PCCL_OK && i < count; i++) {
        if (hosts[i].port != 0)
            continue;
        pccl_text_format(&reason, "the port of the master at %s is 0", hosts[i].name);
        status = PCCL_ARGUMENT;
    }
    if (status != PCCL_OK)
        return create_failed(status, true, &reason);
    return create(options, hosts, count, NULL, true, comm_out);
}

pcclResult_t pcclCreateCommunicatorWithOptions(const char *master_addresses, const pcclOptions_t *options,
                                               pcclComm_t **comm_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, create_with_options(master_addresses, options, comm_out));
}

static pcclResult_t close_communicator(pcclComm_t *handle)
{
    if (handle->group)
        return pccl_api_close_group(handle);
    pccl_comm_refuse_calls(handle->comm);
    pccl_comm_evict_callers(handle->comm);
    return pcclSuccess;
}

pcclResult_t pcclCloseCommunicator(pcclComm_t *comm)
{
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, close_communicator(comm));
}

/* Whatever breaks there, it is destroyed. */
static void send_out_guarded(struct pccl_communicator *comm)
{
    struct pccl_caller caller;
    pccl_caller_begin(&caller, comm);
    if (setjmp(caller.guard.place) == 0) {
        pccl_comm_evict_callers(comm);
        pccl_caller_end(&caller);
    } else {
        pccl_caller_broke(&caller);
    }
}

pcclResult_t pcclDestroyCommunicator(pcclComm_t *comm)
{
    if (!pccl_api_initialized() || !comm)
        return pccl_api_check(comm, PCCL_FAMILY_GENERAL);
    /* In a forked child locks and threads of the parent mean nothing; its sockets are closed here already. */
    if (comm->generation != pccl_fork_generation())
        return pcclSuccess;
    if (comm->group)
        return pccl_api_destroy_group(comm);
    if (!pccl_comm_begin_destroy(comm->comm))
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_USAGE, PCCL_BEING_DESTROYED);
    pccl_errors_forget(comm->key);
    send_out_guarded(comm->comm);
    pccl_comm_destroy(comm->comm);
    return pcclSuccess;
}

/* ---- attributes ---- */

static pcclResult_t get_attribute(pcclComm_t *comm, pcclAttribute_t attribute, int *attribute_out)
{
    if (!attribute_out)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT, "pcclGetAttribute: attribute_out is NULL");
    struct pccl_text reason;
    struct pccl_attributes attributes = {0}, now = {0};
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(comm->comm);
    if (pccl_comm_is_connected(comm->comm)) {
        attributes = pccl_peer_attributes(comm->comm->peer);
        now = pccl_peer_attributes_now(comm->comm->peer);
    } else {
        status = pccl_comm_why_unconnected(comm->comm, &reason);
    }
    pccl_comm_leave(comm->comm);
    if (comm->group) /* its members never change */
        attributes.group_world = now.group_world = comm->group->count;
    uint32_t value;
    switch (attribute) {
    case PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE: value = attributes.world; break;
    case PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE: value = attributes.group_world; break;
    case PCCL_ATTRIBUTE_NUM_DISTINCT_PEER_GROUPS: value = attributes.groups; break;
    case PCCL_ATTRIBUTE_LARGEST_PEER_GROUP_WORLD_SIZE: value = attributes.largest_group; break;
    case PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW: value = now.world; break;
    case PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE_NOW: value = now.group_world; break;
    default: return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT, "pcclGetAttribute: unknown attribute");
    }
    if (status != PCCL_OK)
        return pccl_api_fail(comm, PCCL_FAMILY_GENERAL, status, &reason);
    *attribute_out = (int)value;
    return pcclSuccess;
}

pcclResult_t pcclGetAttribute(const pcclComm_t *comm_const, pcclAttribute_t attribute, int *attribute_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, get_attribute(comm, attribute, attribute_out));
}

static pcclResult_t get_peer_id(pcclComm_t *comm, char *id, size_t size)
{
    if (!id || size < PCCL_PEER_ID_SIZE)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT, "pcclGetPeerId: id is NULL or has no room");
    pccl_comm_enter(comm->comm);
    bool known = comm->comm->peer != NULL;
    if (known)
        pccl_id_write(&comm->comm->id, id, PCCL_PEER_ID_SIZE - 1);
    pccl_comm_leave(comm->comm);
    if (!known)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_USAGE,
                                  "pcclGetPeerId: there is no id before pcclConnect");
    id[PCCL_PEER_ID_SIZE - 1] = '\0';
    return pcclSuccess;
}

pcclResult_t pcclGetPeerId(const pcclComm_t *comm_const, char *id, size_t size)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, get_peer_id(comm, id, size));
}

static void write_id(const struct pccl_id *id, pcclPeerId_t *written)
{
    pccl_id_write(id, written->digits, PCCL_PEER_ID_SIZE - 1);
    written->digits[PCCL_PEER_ID_SIZE - 1] = '\0';
}

/* They never change, so they are told whatever has become of the group. */
static enum pccl_status copy_group(const struct pccl_group_handle *group, pcclPeerId_t *members, size_t max,
                                   size_t *count, uint32_t *rank, struct pccl_text *reason)
{
    *count = group->count;
    if (members && group->count > max) {
        pccl_text_format(reason, "pcclGetMembers: there are %u members, and room for %zu", group->count, max);
        return PCCL_ARGUMENT;
    }
    if (rank)
        *rank = group->rank;
    for (uint32_t i = 0; members && i < group->count; i++)
        write_id(&group->members[i], &members[i]);
    return PCCL_OK;
}

static enum pccl_status copy_members(const struct pccl_communicator *comm, pcclPeerId_t *members, size_t max,
                                     size_t *count, uint32_t *rank, struct pccl_text *reason)
{
    uint32_t known_count;
    if (!pccl_comm_is_connected(comm))
        return pccl_comm_why_unconnected(comm, reason);
    const struct pccl_member *known = pccl_peer_members(comm->peer, &known_count);
    *count = known_count;
    if (members && known_count > max) {
        pccl_text_format(reason, "pcclGetMembers: there are %u members, and room for %zu", known_count, max);
        return PCCL_ARGUMENT;
    }
    for (uint32_t i = 0; i < known_count; i++) {
        if (rank && pccl_id_equal(&known[i].peer, &comm->id))
            *rank = i;
        if (members)
            write_id(&known[i].peer, &members[i]);
    }
    return PCCL_OK;
}

static pcclResult_t get_members(pcclComm_t *comm, pcclPeerId_t *members, size_t max, size_t *count, uint32_t *rank)
{
    struct pccl_text reason;
    if (!count || (!members && max))
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetMembers: count is NULL, or members is NULL and max is not 0");
    pccl_comm_enter(comm->comm);
    enum pccl_status status = comm->group ? copy_group(comm->group, members, max, count, rank, &reason)
                                          : copy_members(comm->comm, members, max, count, rank, &reason);
    pccl_comm_leave(comm->comm);
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail(comm, PCCL_FAMILY_GENERAL, status, &reason);
}

pcclResult_t pcclGetMembers(const pcclComm_t *comm_const, pcclPeerId_t *members, size_t max, size_t *count,
                            uint32_t *rank)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, get_members(comm, members, max, count, rank));
}

_Static_assert(PCCL_PEER_NAME_SIZE == PCCL_NAME_MAX + 1, "any name fits");

static pcclResult_t get_peer_name(pcclComm_t *comm, const char *digits, char *name, size_t size)
{
    struct pccl_id id;
    if (!digits || !name || size < PCCL_PEER_NAME_SIZE)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetPeerName: id or name is NULL, or name has no room");
    if (strlen(digits) != PCCL_PEER_ID_SIZE - 1 || !pccl_id_read(digits, PCCL_PEER_ID_SIZE - 1, &id))
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetPeerName: an id has 32 lower-case hexadecimal digits");
    pccl_comm_enter(comm->comm);
    const char *known = comm->comm->peer ? pccl_peer_name_of(comm->comm->peer, &id) : NULL;
    (void)snprintf(name, size, "%s", known ? known : "");
    pccl_comm_leave(comm->comm);
    return pcclSuccess;
}

pcclResult_t pcclGetPeerName(const pcclComm_t *comm_const, const char *id, char *name, size_t size)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, get_peer_name(comm, id, name, size));
}

static pcclResult_t describe_waits(pcclComm_t *comm, char *text, size_t size)
{
    if (!text || size == 0)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclDescribeWaits: text is NULL or size is 0");
    pccl_comm_enter(comm->comm);
    (void)snprintf(text, size, "%s", comm->comm->peer ? pccl_peer_waiting(comm->comm->peer)->bytes : "");
    if (comm->comm->peer)
        pccl_api_lists_describe(comm->comm, text, size);
    pccl_comm_leave(comm->comm);
    return pcclSuccess;
}

pcclResult_t pcclDescribeWaits(const pcclComm_t *comm_const, char *text, size_t size)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_GENERAL, describe_waits(comm, text, size));
}

/* ---- joint calls ---- */

static void explain_failed_call(const struct pccl_communicator *comm, enum pccl_status status, struct pccl_text *reason)
{
    if (status == PCCL_OK)
        return;
    pccl_text_clear(reason);
    if (comm->peer)
        *reason = *pccl_peer_last_reason(comm->peer);
    if (reason->length == 0)
        pccl_text_format(reason, "%s", pccl_status_text(status));
}

/* true: this thread connects now. */
static bool begin_connect(struct pccl_communicator *comm, enum pccl_status *status, struct pccl_text *reason)
{
    struct pccl_call_slot *slot = &comm->calls[PCCL_CALL_CONNECT];
    *status = PCCL_USAGE;
    if (comm->defect) { /* maybe it ended the call that is outstanding */
        *status = pccl_comm_why_unconnected(comm, reason);
    } else if (pccl_comm_is_connected(comm)) {
        pccl_text_format(reason, "connected already");
    } else if (slot->outstanding) {
        pccl_text_format(reason, "another thread is connecting this communicator");
    } else {
        *slot = (struct pccl_call_slot){.outstanding = true, .begun_us = pccl_now_us()};
        return true;
    }
    return false;
}

static enum pccl_status connect_with(struct pccl_communicator *comm, const struct pccl_peer_config *config,
                                     struct pccl_text *reason)
{
    enum pccl_status status = pccl_comm_create_machine(comm, config, reason);
    if (status != PCCL_OK)
        return status;
    status = pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = PCCL_CALL_CONNECT});
    if (status == PCCL_OK)
        status = pccl_comm_await_call(comm, &comm->calls[PCCL_CALL_CONNECT]);
    explain_failed_call(comm, status, reason);
    return status;
}

static pcclResult_t connect_to_run(struct pccl_communicator *comm)
{
    struct pccl_text reason;
    struct pccl_peer_config config;
    enum pccl_status status;
    pccl_comm_enter(comm);
    bool mine = begin_connect(comm, &status, &reason);
    pccl_comm_leave(comm);
    if (mine) {
        status = pccl_comm_prepare(comm, &config, &reason);
        pccl_comm_enter(comm);
        if (status == PCCL_OK)
            status = connect_with(comm, &config, &reason);
        comm->calls[PCCL_CALL_CONNECT].outstanding = false;
        pccl_comm_leave(comm);
    }
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail(&comm->handle, PCCL_FAMILY_CONNECT, status, &reason);
}

pcclResult_t pcclConnect(pcclComm_t *comm)
{
    PCCL_API_WHOLE_CALL(comm, PCCL_FAMILY_CONNECT, connect_to_run(comm->comm));
}

/* Update and pending. */
static pcclResult_t joint_call(struct pccl_communicator *comm, enum pccl_call call, enum pccl_family family,
                               bool *value)
{
    struct pccl_why why = {0};
    pccl_comm_enter(comm);
    struct pccl_call_slot *slot = &comm->calls[call];
    enum pccl_status status = pccl_api_may_call(comm, &why.reason);
    if (status == PCCL_OK) {
        *slot = (struct pccl_call_slot){
            .outstanding = true, .begun_us = pccl_now_us(), .known = pccl_peer_attributes(comm->peer).epoch};
        pccl_comm_measure(comm);
        status = pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = call});
        if (status == PCCL_OK)
            status = pccl_comm_await_call(comm, slot);
        if (status != PCCL_OK)
            pccl_api_explain_call(comm, call, status, &why);
        slot->outstanding = false;
        if (status == PCCL_OK && value)
            *value = slot->value;
    }
    pccl_comm_leave(comm);
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail_why(&comm->handle, family, status, &why);
}

pcclResult_t pcclUpdateTopology(pcclComm_t *comm)
{
    PCCL_API_WHOLE_CALL(comm, PCCL_FAMILY_UPDATE, joint_call(comm->comm, PCCL_CALL_UPDATE, PCCL_FAMILY_UPDATE, NULL));
}

static pcclResult_t are_peers_pending(struct pccl_communicator *comm, bool *pending_out)
{
    if (pending_out)
        return joint_call(comm, PCCL_CALL_PENDING, PCCL_FAMILY_PENDING, pending_out);
    return pccl_api_fail_with(&comm->handle, PCCL_FAMILY_PENDING, PCCL_ARGUMENT,
                              "pcclArePeersPending: pending_out is NULL");
}

pcclResult_t pcclArePeersPending(const pcclComm_t *comm_const, bool *pending_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_WHOLE_CALL(comm, PCCL_FAMILY_PENDING, are_peers_pending(comm->comm, pending_out));
}
