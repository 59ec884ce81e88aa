/* Ends subgroups, with the effects on their operations and members (PROTOCOL 15.4). */
#include "master/operations_internal.h"
#include "master/links.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"

/* Ends a subgroup for all members that know it. Earlier outcomes are already in the sessions. */
static void end(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup,
                const struct pccl_text *reason)
{
    struct pccl_log_fields fields = {.reason = reason->bytes, .cause = PCCL_LOG_CAUSE_OPERATION};
    pccl_master_log(m, PCCL_LOG_INFO, &fields, "a subgroup of %u in group %u ended: %s", subgroup->world, group->number,
                    reason->bytes);
    pccl_master_drop_operations_of(m, group, subgroup);
    struct pccl_msg msg = {.type = PCCL_MSG_subgroup_ended,
                           .as.subgroup_ended = {.subgroup = subgroup->name, .reason = pccl_bytes_of_text(reason)}};
    for (uint32_t i = 0; i < subgroup->count; i++) {
        struct pccl_remote *remote = subgroup->members[i];
        if (remote->where.instance.subgroup == subgroup->name)
            remote->where.call = PCCL_CALL_NONE;
        if (subgroup->living)
            pccl_master_count_seats(remote, subgroup->world, false);
        if (subgroup->knows[i])
            pccl_master_send(m, remote, &msg, 0);
    }
    pccl_master_count_subgroup_links(m, subgroup, false);
    pccl_master_request_better_links(m, group); /* the end of the subgroup may have dropped their requests */
    pccl_master_request_hub_links(m, group);
    pccl_master_forget_subgroup(m, group, subgroup);
}

void pccl_master_subgroup_closed(struct pccl_master *m, struct pccl_remote *from, uint64_t name)
{
    struct pccl_subgroup *subgroup = pccl_master_find_subgroup(from->group, name);
    if (subgroup == NULL)
        return; /* it ended while the message was under way */
    if (pccl_master_seat_in(subgroup, from) == subgroup->count) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it closed a subgroup that it does not belong to");
        return;
    }
    struct pccl_text reason;
    pccl_text_format(&reason, "peer %s closed the subgroup", pccl_id_str(&from->id));
    end(m, from->group, subgroup, &reason);
}

/*
 * Commits the operations that the remaining members have finished, before a view without the departing ones (PROTOCOL
 * 6.2). Tiny operations are excluded, because they need the payloads of all members of their view, and so are pairs,
 * because sender and receiver need each other (16.3).
 */
static void commit_remaining(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->decided || op->tiny || op->done_count == 0 || op->instance.pair != 0)
            continue;
        struct pccl_participants them = pccl_master_participants(group, op);
        bool all = true, any = false;
        for (uint32_t i = 0; i < them.count; i++) {
            any = any || !them.members[i]->departing;
            all = all && (them.members[i]->departing || op->parts[i].done);
        }
        if (all && any)
            pccl_master_commit(m, group, op);
    }
}

/* Ends the subgroups of departing members and aborts their foundings, before the view without these members. */
static void end_departed_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text reason;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        const struct pccl_remote *gone = pccl_master_departing_of(subgroup);
        if (gone == NULL)
            continue;
        pccl_text_format(&reason, "a member of the subgroup left: peer %s: %s", pccl_id_str(&gone->id),
                         gone->reason.bytes);
        end(m, group, subgroup, &reason);
    }
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        const struct pccl_remote *gone = !op->decided && op->instance.subgroup == PCCL_FOUNDING && op->subgroup != NULL
                                             ? pccl_master_departing_of(op->subgroup)
                                             : NULL;
        if (gone == NULL)
            continue;
        pccl_text_format(&reason, "not a current member: peer %s: %s", pccl_id_str(&gone->id), gone->reason.bytes);
        pccl_master_abort(m, group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
    }
}

void pccl_master_settle_operations(struct pccl_master *m, struct pccl_peer_group *group)
{
    commit_remaining(m, group);
    end_departed_subgroups(m, group);
    pccl_master_drop_departed_pairs(m, group);
}

/* ---- links ---- */

static bool relies_on(const struct pccl_subgroup *subgroup, const struct pccl_remote *from,
                      const struct pccl_remote *to)
{
    uint32_t one = pccl_master_seat_in(subgroup, from), other = pccl_master_seat_in(subgroup, to);
    if (one == subgroup->count || other == subgroup->count || one == other)
        return false;
    for (uint32_t place = 0; place < subgroup->count; place++)
        if (subgroup->ring[place] == one && subgroup->ring[(place + 1) % subgroup->count] == other)
            return true;
    return subgroup->cost.mesh != 0;
}

void pccl_master_end_linked_subgroups(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_remote *to)
{
    struct pccl_peer_group *group = from->group;
    struct pccl_text reason;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        if (!relies_on(subgroup, from, to))
            continue;
        pccl_text_format(&reason, "the link from peer %s to peer %s failed", pccl_id_str(&from->id),
                         pccl_id_str(&to->id));
        end(m, group, subgroup, &reason);
    }
}

/* ---- after a restart ---- */

static bool is_whole(const struct pccl_subgroup *subgroup)
{
    uint32_t knows = 0;
    for (uint32_t i = 0; i < subgroup->count; i++)
        knows += subgroup->knows[i] && !subgroup->members[i]->departing;
    return knows == subgroup->world;
}

void pccl_master_judge_reported_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "a member of the subgroup did not reconnect after the master restarted");
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        if (subgroup->living)
            continue; /* it was founded just now */
        if (!is_whole(subgroup)) {
            end(m, group, subgroup, &reason);
            continue;
        }
        subgroup->living = true;
        for (uint32_t i = 0; i < subgroup->count; i++)
            pccl_master_count_seats(subgroup->members[i], subgroup->world, true);
    }
}
