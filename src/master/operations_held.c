/* When aborts that are held (operations.c) are decided: the view is known, links stand again, or their time is over. */
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/roster.h"

/* Do all links that its group needs stand again from and to the peer that reported the failure? */
static bool is_mended(const struct pccl_master *m, const struct pccl_operation *op)
{
    const struct pccl_remote *remote = pccl_master_find(m, &op->failed_by);
    const struct pccl_peer_group *group = remote != NULL ? remote->group : NULL;
    for (uint32_t i = 0; group != NULL && i < group->ring_count; i++) {
        const struct pccl_remote *other = group->ring[i];
        if ((pccl_master_needs_link(remote, other) && !pccl_master_holds_link(remote, other)) ||
            (pccl_master_needs_link(other, remote) && !pccl_master_holds_link(other, remote)))
            return false;
    }
    return true;
}

/*
 * Is an abort that is held for a link held longer? It waits until all failed links of the peer are
 * decided.
 */
static bool has_to_wait(struct pccl_master *m, struct pccl_operation *op)
{
    if (m->now_us >= op->held_until_us && !is_mended(m, op))
        op->held_until_us = pccl_max_u64(op->held_until_us, pccl_master_link_decided_at(m, &op->failed_by));
    return m->departing_count > 0 || m->now_us < op->held_until_us; /* a view may be coming */
}

/* mended_a, mended_b: the ends of a link that has come up, or NULL. */
static void release_held(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *mended_a,
                         const struct pccl_remote *mended_b)
{
    bool view_known = pccl_master_is_view_known(group);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL && group->held_count > 0;
         op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided || op->held_until_us == 0)
            continue;
        bool waits_for_view = op->held_class != PCCL_CLASS_PEER_LOST; /* never in a subgroup */
        bool concerned = mended_a != NULL &&
                         (pccl_id_equal(&mended_a->id, &op->failed_by) || pccl_id_equal(&mended_b->id, &op->failed_by));
        if (waits_for_view ? view_known : (concerned && is_mended(m, op)) || !has_to_wait(m, op)) {
            struct pccl_text reason = op->reason;
            pccl_master_abort(m, group, op, op->held_class, &reason);
        } else {
            pccl_master_arm(m, pccl_max_u64(m->now_us, op->held_until_us));
        }
    }
}

void pccl_master_release_held_of(struct pccl_master *m, struct pccl_peer_group *group)
{
    release_held(m, group, NULL, NULL);
}

void pccl_master_release_held_aborts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        release_held(m, m->groups[i], NULL, NULL);
}

void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from->group != NULL && from->group == to->group && from->group->held_count > 0)
        release_held(m, from->group, from, to);
}
