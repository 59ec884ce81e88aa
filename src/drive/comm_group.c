#include "drive/comm_group.h"

#include "drive/comm_machine.h"
#include "drive/comm_op.h"
#include "drive/communicator.h"
#include "peer/queries.h"

/* ---- creation ---- */

static void take(struct pccl_communicator *comm, struct pccl_group_handle *group)
{
    pccl_handle_init(&group->handle, comm, comm->params.extended_results);
    group->self = comm->id;
    pccl_list_append(&comm->groups, &group->node);
}

static enum pccl_status found_alone(struct pccl_communicator *comm, const struct pccl_founding *founding,
                                    struct pccl_group_handle *group, struct pccl_text *reason)
{
    if (!pccl_id_equal(&founding->members[0], &comm->id))
        return pccl_fail(reason, PCCL_ARGUMENT, "this peer is not in the member list");
    group->members[0] = comm->id;
    take(comm, group);
    return PCCL_OK;
}

/*
 * Determines why the state machine rejected a list of members. Ids come from member lists, so an id that belongs to no
 * member is assumed to belong to a departed peer. The status is the same that the master would return.
 */
static enum pccl_status check_list(const struct pccl_communicator *comm, const struct pccl_founding *founding,
                                   struct pccl_text *reason)
{
    uint32_t known_count;
    const struct pccl_member *known = pccl_peer_members(comm->peer, &known_count);
    const struct pccl_id *gone = NULL;
    bool has_self = false;
    for (uint32_t i = 0; i < founding->count && !reason->length; i++) {
        const struct pccl_id *id = &founding->members[i];
        uint32_t rank = 0;
        while (rank < known_count && !pccl_id_equal(&known[rank].peer, id))
            rank++;
        has_self |= pccl_id_equal(id, &comm->id);
        gone = rank == known_count && !gone ? id : gone;
        if (pccl_id_find(founding->members, founding->count, id) < i)
            pccl_text_format(reason, "duplicate peer in the member list: %s", pccl_id_str(id));
    }
    if (!reason->length && !has_self)
        pccl_text_format(reason, "this peer is not in the member list");
    if (reason->length)
        return PCCL_ARGUMENT;
    if (!gone)
        return PCCL_OK;
    pccl_text_format(reason, "not a current member: peer %s", pccl_id_str(gone));
    pccl_peer_add_names(comm->peer, reason);
    return PCCL_MEMBERS_CHANGED;
}

enum pccl_status pccl_comm_group_found(struct pccl_communicator *comm, const struct pccl_founding *founding,
                                       struct pccl_group_handle *group, struct pccl_why *why)
{
    struct pccl_comm_op *operation;
    if (!pccl_comm_is_connected(comm))
        return pccl_comm_why_unconnected(comm, &why->reason);
    if (founding->count == 1)
        return found_alone(comm, founding, group, &why->reason);
    enum pccl_status status = check_list(comm, founding, &why->reason);
    if (status == PCCL_OK)
        status = pccl_comm_op_launch_founding(comm, founding, &operation, why);
    if (status != PCCL_OK)
        return status;
    bool over = pccl_comm_op_wait(comm, operation, UINT64_MAX);
    PCCL_ASSERT(over);
    const struct pccl_peer_subgroup *founded =
        operation->op && !operation->detached ? pccl_peer_founded(comm->peer, operation->op) : NULL;
    if (founded) {
        const struct pccl_peer_participants *all = &founded->all;
        PCCL_ASSERT(all->count == group->count);
        group->subgroup = founded->name;
        group->rank = all->positions[all->place];
        for (uint32_t place = 0; place < all->count; place++)
            group->members[all->positions[place]] = all->ring[place];
        group->open = true;
        take(comm, group);
    }
    status = pccl_comm_op_end(comm, operation, NULL, why);
    if (founded || status != PCCL_OK)
        return status;
    pccl_text_format(&why->reason, "the communicator reconnected during the call"); /* caused by another thread */
    return PCCL_PEER_LOST;
}

/* ---- closing and removing ---- */

void pccl_comm_group_close(struct pccl_communicator *comm, struct pccl_group_handle *group)
{
    bool open = group->open && comm->peer && pccl_id_equal(&comm->id, &group->self);
    group->open = false;
    if (open)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_SUBGROUP_CLOSE, .subgroup = group->subgroup});
}

void pccl_comm_group_remove(struct pccl_communicator *comm, struct pccl_group_handle *group)
{
    PCCL_ASSERT(!group->open);
    pccl_comm_ops_drop(comm, &group->handle);
    pccl_comm_feedbacks_drop(comm, &group->handle);
    pccl_list_remove(&group->node);
    pccl_group_handle_free(group);
}

void pccl_comm_groups_abandon(struct pccl_communicator *comm)
{
    while (!pccl_list_is_empty(&comm->groups)) {
        struct pccl_group_handle *group = PCCL_CONTAINER_OF(comm->groups.next, struct pccl_group_handle, node);
        pccl_list_remove(&group->node);
        pccl_group_handle_abandon(group);
    }
}
