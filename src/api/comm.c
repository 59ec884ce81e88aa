/* Public functions of communicators: creation, destruction, attributes and joint calls. */
#include "api/list.h"
#include "ccoip.h"
#include "drive/comm_callers.h"
#include "drive/comm_engine.h"
#include "drive/comm_broken.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"
#include "drive/credentials.h"
#include "os/fork.h"
#include "peer/queries.h"

#include <stdio.h>
#include <string.h>

/* ---- create and destroy ---- */

static enum pccl_status create(struct pccl_api_call *call, const pcclOptions_t *options, const struct pccl_host *hosts,
                               uint32_t count, const pcclCommCreateParams_t *given, pcclComm_t **comm_out)
{
    struct pccl_params params;
    struct pccl_keys *keys = NULL;
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = pccl_params_load(options, pcclParameterCommunicator, &params, reason);
    if (status != PCCL_OK)
        return status;
    if (given) {
        params.peer_group = given->peer_group;
        params.connection_pool_size = (uint32_t)pccl_min_u64(given->p2p_connection_pool_size, PCCL_POOL_MAX);
    }
    status = pccl_comm_telemetry_check(&params, reason);
    if (status == PCCL_OK)
        status = pccl_credentials_of_peer(&params, &keys, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_communicator *comm = pccl_comm_create(&params, hosts, count);
    if (!comm) {
        pccl_keys_destroy(keys);
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for a communicator");
    }
    pccl_comm_secure(comm, keys);
    pccl_errors_forget(comm->handle.key);
    *comm_out = &comm->handle;
    return PCCL_OK;
}

static enum pccl_status create_communicator(struct pccl_api_call *call, const pcclCommCreateParams_t *params,
                                            pcclComm_t **comm_out)
{
    struct pccl_host host;
    if (!params || !comm_out)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclCreateCommunicator: params or comm_out is NULL");
    enum pccl_status status = pccl_api_host(&params->master_address, &host, &call->why.reason);
    return status == PCCL_OK ? create(call, NULL, &host, 1, params, comm_out) : status;
}

pcclResult_t pcclCreateCommunicator(const pcclCommCreateParams_t *params, pcclComm_t **comm_out)
{
    PCCL_API_CALL(CREATION, NULL, PCCL_FAMILY_GENERAL, create_communicator(call, params, comm_out));
}

static enum pccl_status create_with_options(struct pccl_api_call *call, const char *master_addresses,
                                            const pcclOptions_t *options, pcclComm_t **comm_out)
{
    struct pccl_host hosts[PCCL_MASTER_ADDRESSES_MAX];
    struct pccl_text *reason = &call->why.reason;
    uint32_t count;
    call->extended = true;
    if (!master_addresses || !comm_out)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "pcclCreateCommunicatorWithOptions: master_addresses or comm_out is NULL");
    enum pccl_status status =
        pccl_api_hosts(master_addresses, CCOIP_PROTOCOL_PORT_MASTER, hosts, PCCL_MASTER_ADDRESSES_MAX, &count, reason);
    for (uint32_t i = 0; status == PCCL_OK && i < count; i++)
        if (hosts[i].port == 0)
            status = pccl_fail(reason, PCCL_ARGUMENT, "invalid master address %s: the port is 0", hosts[i].name);
    return status == PCCL_OK ? create(call, options, hosts, count, NULL, comm_out) : status;
}

pcclResult_t pcclCreateCommunicatorWithOptions(const char *master_addresses, const pcclOptions_t *options,
                                               pcclComm_t **comm_out)
{
    PCCL_API_CALL(CREATION, NULL, PCCL_FAMILY_GENERAL, create_with_options(call, master_addresses, options, comm_out));
}

static enum pccl_status close_handle(pcclComm_t *handle)
{
    if (handle->group) {
        pccl_api_close_group(handle);
    } else {
        pccl_comm_refuse_calls(handle->comm);
        pccl_comm_evict_callers(handle->comm);
    }
    return PCCL_OK;
}

pcclResult_t pcclCloseCommunicator(pcclComm_t *comm)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, close_handle(call->handle));
}

/* Requests a drain. Async-signal-safe: takes no lock and does not allocate. */
static enum pccl_status drain(struct pccl_api_call *call, pcclComm_t *comm)
{
    call->extended = true;
    if (!comm)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclDrain: comm is NULL");
    call->key = comm->key;
    if (comm->group)
        return pccl_fail(&call->why.reason, PCCL_USAGE,
                         "pcclDrain: not supported on a group; call it on the group's communicator");
    pccl_comm_ask_drain(comm->comm);
    return PCCL_OK;
}

pcclResult_t pcclDrain(pcclComm_t *comm) { PCCL_API_SIGNAL_CALL(PCCL_FAMILY_GENERAL, drain(call, comm)); }

static void evict_callers(void *comm) { pccl_comm_evict_callers(comm); }

static enum pccl_status destroy(struct pccl_api_call *call)
{
    /*
     * The locks and threads of the parent do not exist in a forked child, and the child has already closed the sockets.
     */
    if (call->handle->generation != pccl_fork_generation())
        return PCCL_OK;
    if (call->handle->group)
        return pccl_api_destroy_group(call);
    struct pccl_communicator *comm = call->handle->comm;
    if (!pccl_comm_begin_destroy(comm))
        return pccl_fail(&call->why.reason, PCCL_USAGE, PCCL_BEING_DESTROYED);
    pccl_errors_forget(call->key);
    pccl_api_run_inside(comm, evict_callers, comm);
    pccl_comm_destroy(comm);
    return PCCL_OK;
}

pcclResult_t pcclDestroyCommunicator(pcclComm_t *comm)
{
    PCCL_API_CALL(DESTRUCTION, comm, PCCL_FAMILY_GENERAL, destroy(call));
}

/* ---- attributes ---- */

static enum pccl_status get_attribute(struct pccl_api_call *call, pcclAttribute_t attribute, int *attribute_out)
{
    struct pccl_text *reason = &call->why.reason;
    struct pccl_communicator *comm = call->comm;
    struct pccl_attributes attributes = {0}, now = {0};
    enum pccl_status status = PCCL_OK;
    if (!attribute_out)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclGetAttribute: attribute_out is NULL");
    pccl_comm_enter(comm);
    if (pccl_comm_is_connected(comm)) {
        attributes = pccl_peer_attributes(comm->peer);
        now = pccl_peer_attributes_now(comm->peer);
    } else {
        status = pccl_comm_why_unconnected(comm, reason);
    }
    pccl_comm_leave(comm);
    if (call->handle->group) /* the members of a group never change */
        attributes.group_world = now.group_world = call->handle->group->count;
    uint32_t value;
    switch (attribute) {
    case PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE: value = attributes.world; break;
    case PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE: value = attributes.group_world; break;
    case PCCL_ATTRIBUTE_NUM_DISTINCT_PEER_GROUPS: value = attributes.groups; break;
    case PCCL_ATTRIBUTE_LARGEST_PEER_GROUP_WORLD_SIZE: value = attributes.largest_group; break;
    case PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW: value = now.world; break;
    case PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE_NOW: value = now.group_world; break;
    default: return pccl_fail(reason, PCCL_ARGUMENT, "pcclGetAttribute: unknown attribute");
    }
    if (status == PCCL_OK)
        *attribute_out = (int)value;
    return status;
}

pcclResult_t pcclGetAttribute(const pcclComm_t *comm, pcclAttribute_t attribute, int *attribute_out)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_attribute(call, attribute, attribute_out));
}

static enum pccl_status get_peer_id(struct pccl_api_call *call, char *id, size_t size)
{
    struct pccl_communicator *comm = call->comm;
    if (!id || size < PCCL_PEER_ID_SIZE)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetPeerId: id is NULL or too small");
    pccl_comm_enter(comm);
    bool known = comm->peer != NULL;
    if (known)
        pccl_id_write(&comm->id, id, PCCL_PEER_ID_SIZE - 1);
    pccl_comm_leave(comm);
    if (!known)
        return pccl_fail(&call->why.reason, PCCL_USAGE, "pcclGetPeerId: this peer has no id before pcclConnect");
    id[PCCL_PEER_ID_SIZE - 1] = '\0';
    return PCCL_OK;
}

pcclResult_t pcclGetPeerId(const pcclComm_t *comm, char *id, size_t size)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_peer_id(call, id, size));
}

static void write_id(const struct pccl_id *id, pcclPeerId_t *written)
{
    pccl_id_write(id, written->digits, PCCL_PEER_ID_SIZE - 1);
    written->digits[PCCL_PEER_ID_SIZE - 1] = '\0';
}

/* Copies the members of a group. They never change, so the group may be in any state. */
static enum pccl_status copy_group(const struct pccl_group_handle *group, pcclPeerId_t *members, size_t max,
                                   size_t *count, uint32_t *rank, struct pccl_text *reason)
{
    *count = group->count;
    if (members && group->count > max)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclGetMembers: the buffer is too small: %u members, max is %zu",
                         group->count, max);
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
    if (members && known_count > max)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclGetMembers: the buffer is too small: %u members, max is %zu",
                         known_count, max);
    for (uint32_t i = 0; i < known_count; i++) {
        if (rank && pccl_id_equal(&known[i].peer, &comm->id))
            *rank = i;
        if (members)
            write_id(&known[i].peer, &members[i]);
    }
    return PCCL_OK;
}

static enum pccl_status get_members(struct pccl_api_call *call, pcclPeerId_t *members, size_t max, size_t *count,
                                    uint32_t *rank)
{
    struct pccl_text *reason = &call->why.reason;
    const struct pccl_group_handle *group = call->handle->group;
    if (!count || (!members && max))
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclGetMembers: count is NULL, or members is NULL and max is not 0");
    pccl_comm_enter(call->comm);
    enum pccl_status status = group ? copy_group(group, members, max, count, rank, reason)
                                    : copy_members(call->comm, members, max, count, rank, reason);
    pccl_comm_leave(call->comm);
    return status;
}

pcclResult_t pcclGetMembers(const pcclComm_t *comm, pcclPeerId_t *members, size_t max, size_t *count, uint32_t *rank)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_members(call, members, max, count, rank));
}

_Static_assert(PCCL_PEER_NAME_SIZE == PCCL_NAME_MAX + 1, "any name fits");

static enum pccl_status get_peer_name(struct pccl_api_call *call, const char *digits, char *name, size_t size)
{
    struct pccl_communicator *comm = call->comm;
    struct pccl_id id;
    if (!digits || !name || size < PCCL_PEER_NAME_SIZE)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetPeerName: id or name is NULL, or name is too small");
    if (strlen(digits) != PCCL_PEER_ID_SIZE - 1 || !pccl_id_read(digits, PCCL_PEER_ID_SIZE - 1, &id))
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclGetPeerName: invalid id: expected 32 lower-case hexadecimal digits");
    pccl_comm_enter(comm);
    const char *known = comm->peer ? pccl_peer_name_of(comm->peer, &id) : NULL;
    (void)snprintf(name, size, "%s", known ? known : "");
    pccl_comm_leave(comm);
    return PCCL_OK;
}

pcclResult_t pcclGetPeerName(const pcclComm_t *comm, const char *id, char *name, size_t size)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_peer_name(call, id, name, size));
}

static enum pccl_status describe_waits(struct pccl_api_call *call, char *text, size_t size)
{
    struct pccl_communicator *comm = call->comm;
    if (!text || size == 0)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclDescribeWaits: text is NULL or size is 0");
    pccl_comm_enter(comm);
    (void)snprintf(text, size, "%s", comm->peer ? pccl_peer_waiting(comm->peer)->bytes : "");
    if (comm->peer)
        pccl_api_lists_describe(comm, text, size);
    pccl_comm_leave(comm);
    return PCCL_OK;
}

pcclResult_t pcclDescribeWaits(const pcclComm_t *comm, char *text, size_t size)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, describe_waits(call, text, size));
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

/* Returns true if this thread may connect now; otherwise sets the status and the reason. */
static bool begin_connect(struct pccl_communicator *comm, enum pccl_status *status, struct pccl_text *reason)
{
    struct pccl_call_slot *slot = &comm->calls[PCCL_CALL_CONNECT];
    *status = PCCL_USAGE;
    if (comm->defect) { /* a broken invariant may have ended the call in progress */
        *status = pccl_comm_why_unconnected(comm, reason);
    } else if (pccl_comm_is_connected(comm)) {
        pccl_text_format(reason, "already connected");
    } else if (atomic_load(&comm->drain_asked)) {
        *status = PCCL_DRAINED;
        pccl_text_format(reason, "this communicator was drained by pcclDrain and cannot connect again");
    } else if (slot->outstanding) {
        pccl_text_format(reason, "another thread is already connecting this communicator");
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

static enum pccl_status connect_to_run(struct pccl_api_call *call, uint32_t retry_ms)
{
    struct pccl_communicator *comm = call->comm;
    struct pccl_text *reason = &call->why.reason;
    struct pccl_peer_config config;
    enum pccl_status status;
    pccl_comm_enter(comm);
    bool mine = begin_connect(comm, &status, reason);
    pccl_comm_leave(comm);
    if (!mine)
        return status;
    status = pccl_comm_prepare(comm, &config, reason);
    pccl_comm_enter(comm);
    if (status == PCCL_OK) {
        config.connect_retry_ms = (uint32_t)pccl_min_u64(config.connect_retry_ms, retry_ms);
        status = connect_with(comm, &config, reason);
    }
    comm->calls[PCCL_CALL_CONNECT].outstanding = false;
    pccl_comm_leave(comm);
    return status;
}

pcclResult_t pccl_api_connect(pcclComm_t *comm, uint32_t retry_ms)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_CONNECT, connect_to_run(call, retry_ms));
}

pcclResult_t pcclConnect(pcclComm_t *comm) { return pccl_api_connect(comm, UINT32_MAX); }

/* Makes the joint call `kind`, which is UPDATE or PENDING. */
static enum pccl_status joint_call(struct pccl_api_call *call, enum pccl_call kind, bool *value)
{
    struct pccl_communicator *comm = call->comm;
    pccl_comm_enter(comm);
    struct pccl_call_slot *slot = &comm->calls[kind];
    enum pccl_status status = pccl_api_may_call(comm, &call->why.reason);
    if (status == PCCL_OK) {
        *slot = (struct pccl_call_slot){
            .outstanding = true, .begun_us = pccl_now_us(), .known = pccl_peer_attributes(comm->peer).epoch};
        pccl_comm_measure(comm);
        pccl_comm_begin_drain(comm);
        status = pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = kind});
        if (status == PCCL_OK)
            status = pccl_comm_await_call(comm, slot);
        if (status != PCCL_OK)
            pccl_api_explain_call(comm, kind, status, &call->why);
        slot->outstanding = false;
        if (status == PCCL_OK && value)
            *value = slot->value;
    }
    pccl_comm_leave(comm);
    return status;
}

pcclResult_t pcclUpdateTopology(pcclComm_t *comm)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_UPDATE, joint_call(call, PCCL_CALL_UPDATE, NULL));
}

static enum pccl_status are_peers_pending(struct pccl_api_call *call, bool *pending_out)
{
    return pending_out ? joint_call(call, PCCL_CALL_PENDING, pending_out)
                       : pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclArePeersPending: pending_out is NULL");
}

pcclResult_t pcclArePeersPending(const pcclComm_t *comm, bool *pending_out)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_PENDING, are_peers_pending(call, pending_out));
}
