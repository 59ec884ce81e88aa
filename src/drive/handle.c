#include "drive/handle.h"

#include "os/fork.h"
#include "net/heap.h"

static _Atomic uint64_t last_key;

void pccl_handle_init(struct pcclComm_t *handle, struct pccl_communicator *comm, bool extended_results)
{
    handle->key = atomic_fetch_add(&last_key, 1) + 1;
    handle->generation = pccl_fork_generation();
    handle->extended_results = extended_results;
    handle->comm = comm;
}

static enum pccl_status enter_group(struct pccl_group_handle *group, struct pccl_text *reason)
{
    enum pccl_status status = PCCL_OK;
    uv_mutex_lock(&group->lock);
    if (group->shut)
        status = pccl_fail(reason, PCCL_USAGE, "the group is closed or being destroyed");
    else if (!group->handle.comm)
        status =
            pccl_fail(reason, PCCL_USAGE, "the group's communicator was destroyed; the group can only be destroyed");
    else if (!pccl_comm_call_begin(group->handle.comm))
        status = pccl_fail(reason, PCCL_USAGE, "the group's communicator is closed or being destroyed");
    else
        group->inside++;
    uv_mutex_unlock(&group->lock);
    return status;
}

enum pccl_status pccl_handle_enter(struct pcclComm_t *handle, struct pccl_text *reason)
{
    if (handle->group)
        return enter_group(handle->group, reason);
    return pccl_comm_call_begin(handle->comm)
               ? PCCL_OK
               : pccl_fail(reason, PCCL_USAGE, "the communicator is closed or being destroyed");
}

void pccl_handle_leave(struct pcclComm_t *handle)
{
    struct pccl_group_handle *group = handle->group;
    struct pccl_communicator *comm = handle->comm;
    if (group) {
        uv_mutex_lock(&group->lock);
        if (--group->inside == 0)
            uv_cond_broadcast(&group->left);
        uv_mutex_unlock(&group->lock);
    }
    pccl_comm_call_end(comm);
}

/* ---- groups ---- */

static size_t size_of(uint32_t count) { return sizeof(struct pccl_group_handle) + count * sizeof(struct pccl_id); }

struct pccl_group_handle *pccl_group_handle_create(uint32_t count)
{
    struct pccl_group_handle *group = pccl_allocate(pccl_heap(), size_of(count));
    if (!group)
        return NULL;
    group->count = count;
    group->handle.group = group;
    if (uv_mutex_init(&group->lock) != 0)
        goto no_lock;
    if (uv_cond_init(&group->left) != 0)
        goto no_condition;
    return group;

no_condition:
    uv_mutex_destroy(&group->lock);
no_lock:
    pccl_release(pccl_heap(), group, size_of(count));
    return NULL;
}

void pccl_group_handle_free(struct pccl_group_handle *group)
{
    uv_cond_destroy(&group->left);
    uv_mutex_destroy(&group->lock);
    pccl_release(pccl_heap(), group, size_of(group->count));
}

void pccl_group_handle_refuse_calls(struct pccl_group_handle *group)
{
    uv_mutex_lock(&group->lock);
    group->shut = true;
    uv_mutex_unlock(&group->lock);
}

bool pccl_group_handle_begin_destroy(struct pccl_group_handle *group)
{
    uv_mutex_lock(&group->lock);
    bool mine = !group->taken;
    group->taken = group->shut = true;
    uv_mutex_unlock(&group->lock);
    return mine;
}

void pccl_group_handle_await_callers(struct pccl_group_handle *group)
{
    uv_mutex_lock(&group->lock);
    while (group->inside)
        uv_cond_wait(&group->left, &group->lock);
    uv_mutex_unlock(&group->lock);
}

struct pccl_communicator *pccl_group_handle_hold(struct pccl_group_handle *group)
{
    uv_mutex_lock(&group->lock);
    struct pccl_communicator *comm = group->handle.comm;
    bool held = comm && pccl_comm_call_begin(comm);
    group->orphan = comm && !held;
    uv_mutex_unlock(&group->lock);
    if (!comm)
        pccl_group_handle_free(group);
    return held ? comm : NULL;
}

void pccl_group_handle_abandon(struct pccl_group_handle *group)
{
    uv_mutex_lock(&group->lock);
    group->handle.comm = NULL;
    bool orphan = group->orphan;
    uv_mutex_unlock(&group->lock);
    if (orphan)
        pccl_group_handle_free(group);
}
