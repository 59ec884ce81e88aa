#include "drive/comm_members.h"
#include "drive/communicator.h"

#include "net/heap.h"

#include <string.h>

static size_t bytes_of(uint32_t count) { return sizeof(struct pccl_comm_members) + count * sizeof(struct pccl_id); }

/* Allocates a list; the caller fills in ids and rank. Returns NULL if out of memory. */
static struct pccl_comm_members *make(uint32_t count)
{
    struct pccl_comm_members *list = pccl_allocate(pccl_heap(), bytes_of(count));
    if (!list)
        return NULL;
    list->references = 1;
    list->count = count;
    return list;
}

struct pccl_comm_members *pccl_comm_members_copy(const struct pccl_communicator *comm, const struct pccl_id *ids,
                                                 uint32_t count)
{
    struct pccl_comm_members *list = make(count);
    if (!list)
        return NULL;
    memcpy(list->ids, ids, count * sizeof *ids);
    list->rank = pccl_id_find(ids, count, &comm->id);
    return list;
}

struct pccl_comm_members *pccl_comm_members_hold(struct pccl_comm_members *list)
{
    list->references++;
    return list;
}

struct pccl_comm_members *pccl_comm_members_share(struct pccl_communicator *comm, bool as_of_view)
{
    struct pccl_comm_members *last = comm->operations.members;
    const uint64_t number = pccl_peer_members_number(comm->peer, as_of_view);
    if (last && pccl_id_equal(&last->self, &comm->id) && last->number == number)
        return pccl_comm_members_hold(last);
    uint32_t count;
    const struct pccl_member *members =
        as_of_view ? pccl_peer_view_members(comm->peer, &count) : pccl_peer_members(comm->peer, &count);
    struct pccl_comm_members *list = make(count);
    if (!list)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        list->ids[i] = members[i].peer;
    list->rank = pccl_id_find(list->ids, count, &comm->id);
    list->self = comm->id;
    list->number = number;
    pccl_comm_members_drop(last);
    comm->operations.members = list;
    return pccl_comm_members_hold(list);
}

void pccl_comm_members_drop(struct pccl_comm_members *list)
{
    if (list && --list->references == 0)
        pccl_release(pccl_heap(), list, bytes_of(list->count));
}
