/*
 * Peers whose ports the master cannot reach, behind a NAT or a firewall. Two of them can be linked only if they are in
 * one network, which only their dials can show. Rings, subgroups, hubs and donors avoid these links (PROTOCOL 9.4).
 */
#include "master/links_internal.h"
#include "master/roster.h"
#include "topology/ring.h"

static bool has_failed(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    const struct pccl_figure *figure = pccl_master_link_figure(from, to);
    return (intent != NULL && intent->failed) || (figure != NULL && figure->source == PCCL_FIGURE_UNREACHABLE);
}

bool pccl_master_cannot_link(const struct pccl_remote *a, const struct pccl_remote *b)
{
    return pccl_master_are_apart(a, b) && (a->isolated || b->isolated || has_failed(a, b) || has_failed(b, a));
}

void pccl_master_note_isolation(const struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool up)
{
    if (!pccl_master_is_unreached(from) || !pccl_master_is_unreached(to))
        return;
    if (up) {
        from->isolated = to->isolated = false;
        return;
    }
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count && !any; i++) {
        const struct pccl_remote *other = m->remotes[i];
        any = other != from && pccl_master_is_unreached(other) &&
              (pccl_master_holds_link(from, other) || pccl_master_holds_link(other, from));
    }
    from->isolated = !any;
}

/* ---- rings of some members ---- */

struct seats {
    struct pccl_remote **members;
    bool only_tried; /* true if only pairs count that cannot be linked */
};

static bool is_bad(void *context, uint32_t a, uint32_t b)
{
    const struct seats *seats = context;
    return seats->only_tried ? pccl_master_cannot_link(seats->members[a], seats->members[b])
                             : pccl_master_are_apart(seats->members[a], seats->members[b]);
}

enum pccl_order_end pccl_master_order_apart(struct pccl_master *m, struct pccl_remote **members, uint32_t *order,
                                            uint32_t count)
{
    uint32_t *scratch = pccl_allocate(&m->memory, count * sizeof *scratch);
    struct seats seats = {members, false};
    if (scratch == NULL)
        return PCCL_ORDER_MEMORY;
    bool found = pccl_ring_avoiding(order, count, is_bad, &seats, scratch);
    seats.only_tried = true;
    found = found || pccl_ring_avoiding(order, count, is_bad, &seats, scratch);
    pccl_release(&m->memory, scratch, count * sizeof *scratch);
    return found ? PCCL_ORDER_FOUND : PCCL_ORDER_NONE;
}

bool pccl_master_find_unlinkable(struct pccl_remote **members, uint32_t count, const struct pccl_remote **one,
                                 const struct pccl_remote **other)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (pccl_master_cannot_link(members[i], members[k])) {
                *one = members[k];
                *other = members[i];
                return true;
            }
    return false;
}

/* ---- too many of them ---- */

/*
 * Returns the member, admitted last, that cannot be linked to another one, and this other one in `kept`; NULL if all
 * pairs can be linked.
 */
static struct pccl_remote *latest_unlinkable(struct pccl_remote **members, uint32_t count,
                                             const struct pccl_remote **kept)
{
    struct pccl_remote *latest = NULL;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; pccl_master_is_unreached(members[i]) && k < count &&
                             (latest == NULL || latest->admitted < members[i]->admitted);
             k++)
            if (pccl_master_cannot_link(members[i], members[k])) {
                latest = members[i];
                *kept = members[k];
            }
    return latest;
}

bool pccl_master_remove_unlinkable(struct pccl_master *m, struct pccl_peer_group *group)
{
    size_t bytes = group->ring_count * (sizeof(struct pccl_remote *) + sizeof(uint32_t));
    struct pccl_remote **members = pccl_allocate(&m->memory, bytes);
    bool any = false, goes_on = members != NULL;
    while (goes_on) {
        uint32_t *order = (void *)&members[group->ring_count], count = 0;
        const struct pccl_remote *kept = NULL;
        for (uint32_t i = 0; i < group->ring_count; i++)
            if (!group->ring[i]->departing) {
                order[count] = count;
                members[count++] = group->ring[i];
            }
        struct pccl_remote *latest = latest_unlinkable(members, count, &kept);
        goes_on = latest != NULL && pccl_master_order_apart(m, members, order, count) == PCCL_ORDER_NONE;
        if (!goes_on)
            break;
        pccl_master_remove(m, latest, PCCL_REFUSAL_UNREACHABLE,
                           "no ring without a link to peer %s exists, and there is no such link: the master can reach "
                           "the port of neither, and at most half of a group, one of two or three, can be like this",
                           pccl_id_str(&kept->id));
        any = true;
    }
    pccl_release(&m->memory, members, bytes);
    return any;
}
