/* Manages the rings of the groups: their order, joining and leaving, and the stages that a change makes due. */
#include "master/membership_internal.h"
#include "master/links.h"
#include "master/rounds.h"
#include "master/topology.h"

#include <string.h>

static void note_ring_change(struct pccl_master *m, struct pccl_peer_group *group)
{
    group->changed = true;
    group->ring_us = m->now_us;
    group->ring_version++;
    pccl_master_recheck_queue(m, group->number);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
    pccl_master_note_sync(m, group, NULL);
}

bool pccl_master_is_before(const struct pccl_remote *a, const struct pccl_remote *b)
{
    return a->admitted != b->admitted ? a->admitted < b->admitted : pccl_id_compare(&a->id, &b->id) < 0;
}

/* Puts a member into the ring after `previous`; NULL: at the end. */
static void insert(struct pccl_peer_group *group, struct pccl_remote *remote, const struct pccl_remote *previous)
{
    uint32_t at = previous != NULL ? previous->position + 1 : group->ring_count;
    PCCL_ASSERT(previous == NULL || previous->group == group);
    for (uint32_t i = group->ring_count++; i > at; i--) {
        group->ring[i] = group->ring[i - 1];
        group->ring[i]->position = i;
    }
    group->ring[at] = remote;
    remote->position = at;
}

bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_remote *remote,
                           const struct pccl_remote *previous)
{
    PCCL_ASSERT(remote->group == NULL && remote->group_number == group->number);
    PCCL_ASSERT(remote->state != PCCL_REMOTE_MEMBER && !remote->departing);
    struct pccl_remote **ring =
        pccl_grow(&m->memory, group->ring, &group->ring_capacity, group->ring_count + 1, sizeof *ring);
    if (ring == NULL)
        return false;
    group->ring = ring;
    if (!pccl_master_enter_matrix(m, group, remote))
        return false;
    if (remote->admitted == 0) { /* otherwise it was a member before the master restarted */
        remote->admitted = ++m->admissions;
        remote->joined_us = m->now_us;
    }
    remote->rank = 0;
    for (uint32_t i = 0; i < group->ring_count; i++)
        ++*(pccl_master_is_before(group->ring[i], remote) ? &remote->rank : &group->ring[i]->rank);
    insert(group, remote, previous);
    remote->group = group;
    remote->state = PCCL_REMOTE_MEMBER;
    remote->decision_known = remote->decision_sent = group->decisions; /* earlier decisions count as sent and known */
    pccl_master_unqueue(m, remote);
    note_ring_change(m, group);
    m->member_count++;
    return true;
}

bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order)
{
    size_t bytes = group->ring_count * sizeof(struct pccl_remote *);
    struct pccl_remote **ring = pccl_allocate(&m->memory, bytes);
    if (ring == NULL)
        return false;
    memcpy(ring, group->ring, bytes);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        PCCL_ASSERT(order[i] < group->ring_count && ring[order[i]] != NULL); /* each position occurs once */
        group->ring[i] = ring[order[i]];
        ring[order[i]] = NULL;
        group->ring[i]->position = i;
    }
    pccl_release(&m->memory, ring, bytes);
    note_ring_change(m, group);
    return true;
}

void pccl_master_leave_ring(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    PCCL_ASSERT(remote->departing && group != NULL && m->member_count > 0);
    PCCL_ASSERT(remote->position < group->ring_count && group->ring[remote->position] == remote);
    pccl_master_end_tests_of(m, remote);
    for (uint32_t i = remote->position + 1; i < group->ring_count; i++) {
        group->ring[i - 1] = group->ring[i];
        group->ring[i - 1]->position = i - 1;
    }
    group->ring_count--;
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->rank -= group->ring[i]->rank > remote->rank;
    note_ring_change(m, group);
    pccl_master_leave_matrix(group, remote);
    remote->group = NULL;
    m->member_count--;
}

bool pccl_master_has_better(const struct pccl_peer_group *group)
{
    const bool has = group->tuning.better != NULL && group->tuning.better_version == group->ring_version;
    PCCL_ASSERT(!has || group->tuning.better_count == group->ring_count);
    return has;
}

void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    const uint32_t *ring = group->tuning.better;
    for (uint32_t i = 0; pccl_master_has_better(group) && i < group->ring_count; i++)
        pccl_master_request_link(m, group->ring[ring[i]], pccl_master_next_of(group, ring, i));
}
