/*
 * Effects of the state machine that only the loop can carry out. They run inside a step, under the lock and on any
 * thread, and only record the work.
 */
#include "drive/communicator.h"
#include "drive/comm_links.h"
#include "drive/comm_master.h"
#include "drive/comm_wait.h"

#include "net/heap.h"

#include <string.h>

/* ---- the connection to the master ---- */

void pccl_comm_effect_dial_master(void *context)
{
    struct pccl_communicator *comm = context;
    comm->master.dial = true;
}

void pccl_comm_effect_close_master(void *context)
{
    struct pccl_communicator *comm = context;
    comm->master.dial = false;
    comm->master.cancel = true;
    if (!comm->master.connection)
        return;
    pccl_comm_replace_leader(comm);
    comm->master.connection->next_dirty = comm->master.closing;
    comm->master.closing = comm->master.connection;
    comm->master.connection = NULL;
}

void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length)
{
    struct pccl_communicator *comm = context;
    if (comm->master.connection)
        pccl_connection_send(comm->master.connection, bytes, length);
}

void pccl_comm_effect_accept_master(void *context)
{
    struct pccl_communicator *comm = context;
    if (comm->master.connection)
        pccl_connection_raise(comm->master.connection);
}

/* ---- links to other peers ---- */

struct pccl_comm_link *pccl_comm_link_find(const struct pccl_communicator *comm, const struct pccl_id *peer)
{
    for (struct pccl_table_node *node = pccl_table_find(&comm->links.by_peer, pccl_id_hash(&comm->hash, peer)); node;
         node = pccl_table_find_next(node)) {
        struct pccl_comm_link *link = PCCL_CONTAINER_OF(node, struct pccl_comm_link, by_peer);
        if (pccl_id_equal(&link->peer, peer))
            return link;
    }
    return NULL;
}

struct pccl_comm_link *pccl_comm_link_make(struct pccl_communicator *comm, const struct pccl_id *peer)
{
    struct pccl_comm_link *link = pccl_comm_link_find(comm, peer);
    if (link)
        return link;
    link = pccl_allocate(pccl_heap(), sizeof *link);
    if (!link)
        return NULL;
    link->comm = comm;
    link->peer = *peer;
    for (uint32_t i = 0; i < PCCL_POOL_MAX; i++)
        link->slots[i].link = link;
    pccl_table_insert(&comm->links.by_peer, &link->by_peer, pccl_id_hash(&comm->hash, peer));
    return link;
}

void pccl_comm_link_queue(struct pccl_comm_link *link)
{
    if (link->queued)
        return;
    link->queued = true;
    link->next_queued = link->comm->links.queued;
    link->comm->links.queued = link;
}

void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                const struct pccl_address *candidates, uint32_t count, bool reversed)
{
    struct pccl_communicator *comm = context;
    struct pccl_comm_link *link = pccl_comm_link_make(comm, peer);
    if (!link) {
        comm->starved = true;
        return;
    }
    PCCL_ASSERT(count <= PCCL_CANDIDATES_MAX);
    link->ticket = *ticket;
    if (count)
        memcpy(link->candidates, candidates, count * sizeof *candidates);
    link->candidate_count = count;
    link->reversed = reversed;
    link->dial = true;
    pccl_comm_link_queue(link);
}

void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming)
{
    struct pccl_comm_link *link = pccl_comm_link_find(context, peer);
    if (!link)
        return;
    if (incoming) {
        link->close_incoming = true;
    } else {
        link->close_outgoing = true;
        link->dial = false;
    }
    pccl_comm_link_queue(link);
}

void pccl_comm_effect_cut_link(void *context, const struct pccl_id *peer, uint64_t number)
{
    struct pccl_communicator *comm = context;
    struct pccl_comm_link *link = pccl_comm_link_find(comm, peer);
    for (uint32_t slot = 0; link && slot < PCCL_POOL_MAX; slot++) {
        if (link->slots[slot].dialed != number)
            continue;
        link->slots[slot].dialed = 0; /* a connection whose handshake completes later is closed */
        if (link->outgoing & UINT64_C(1) << slot)
            pccl_engine_cut(comm->data.engine, peer, true, slot);
        else if (link->slots[slot].awaited)
            pccl_comm_link_queue(link); /* the loop ends the attempt */
    }
}

void pccl_comm_links_close_all(struct pccl_communicator *comm)
{
    comm->links.backs_over = !pccl_list_is_empty(&comm->links.backs);
    for (struct pccl_table_node *node = pccl_table_first(&comm->links.by_peer); node;
         node = pccl_table_after(&comm->links.by_peer, node)) {
        struct pccl_comm_link *link = PCCL_CONTAINER_OF(node, struct pccl_comm_link, by_peer);
        link->close_incoming = link->close_outgoing = true;
        link->dial = false;
        pccl_comm_link_queue(link);
    }
}
