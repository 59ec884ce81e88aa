/*
 * E1-E3: subgroups, as reported by the master. E1: a member's subgroup equals the report, and is the same for all. E2:
 * no member succeeds in one that has ended. E3: no subgroup ends without a cause.
 */
#include "check.h"
#include "master/roster.h"
#include "master/operations.h"
#include "peer/subgroups.h"
#include "support/peer_check.h"
#include "wire/subgroup.h"

#include <stdlib.h>
#include <string.h>

struct subgroup_seen *sim_subgroup_find(const struct sim *sim, const struct pccl_id *lineage, uint64_t name)
{
    struct subgroup_seen *seen = sim->checks->subgroups;
    while (seen != NULL && !(seen->name == name && pccl_id_equal(&seen->lineage, lineage)))
        seen = seen->next;
    return seen;
}

static uint64_t admitted(const struct pccl_master *m, const struct pccl_id *id)
{
    const struct pccl_remote *remote = pccl_master_find(m, id);
    return remote != NULL ? remote->admitted : 0;
}

/* Notes each subgroup once; it does not change. */
static void note_founded(struct sim *sim, const struct sim_master *master, const struct pccl_msg_outcome *outcome)
{
    const struct pccl_bytes *founded = &outcome->result;
    uint64_t name = pccl_subgroup_name(&outcome->instance);
    uint64_t hash = 0;
    for (uint32_t i = 0; i < founded->length; i++)
        hash = sim_mix(hash, founded->data[i]);
    struct subgroup_seen *seen = sim_subgroup_find(sim, &master->machine->lineage, name);
    if (seen != NULL && seen->hash != hash)
        sim_fail(sim, "E1 the master tells two results of one founding");
    if (seen != NULL)
        return;
    seen = calloc(1, sizeof *seen);
    uint32_t count = pccl_founded_count(founded);
    struct pccl_id *members = malloc(count * sizeof *members + 1);
    uint64_t *told_boots = calloc(count + 1, sizeof *told_boots);
    if (seen == NULL || members == NULL || told_boots == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        members[i] = pccl_founded_seat(founded, i).id;
        if (i > 0 && !sim->lies && admitted(master->machine, &members[i - 1]) != 0 &&
            admitted(master->machine, &members[i - 1]) >= admitted(master->machine, &members[i]))
            sim_fail(sim, "E1 the ranks of a subgroup are not in the order of admission");
    }
    *seen = (struct subgroup_seen){.next = sim->checks->subgroups,
                                   .lineage = master->machine->lineage,
                                   .name = name,
                                   .hash = hash,
                                   .boot = master->config.boot,
                                   .members = members,
                                   .told_boots = told_boots,
                                   .count = count};
    sim->checks->subgroups = seen;
}

/* Returns true if a member has departed, a link has failed, or some did not return. */
static bool has_cause(const struct sim_master *master, const struct subgroup_seen *seen)
{
    const struct pccl_master *m = master->machine;
    if (seen->closed || seen->boot != master->config.boot)
        return true;
    for (uint32_t i = 0; i < seen->count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &seen->members[i]);
        if (remote == NULL || !pccl_master_is_living_member(remote))
            return true;
    }
    for (uint32_t i = 0; i < m->edge_count; i++)
        if (pccl_id_find(seen->members, seen->count, &m->edges[i].from) < seen->count &&
            pccl_id_find(seen->members, seen->count, &m->edges[i].to) < seen->count)
            return true;
    return false;
}

void sim_check_subgroups_told(struct sim *sim, const struct sim_master *master, const struct sim_peer *to,
                              const struct pccl_msg *msg)
{
    const struct pccl_instance *instance = &msg->as.outcome.instance;
    if (msg->type == PCCL_MSG_outcome && msg->as.outcome.class == PCCL_CLASS_NONE &&
        instance->subgroup == PCCL_FOUNDING)
        note_founded(sim, master, &msg->as.outcome);
    if (sim->lies)
        return;
    if (msg->type == PCCL_MSG_subgroup_ended) {
        struct subgroup_seen *seen = sim_subgroup_find(sim, &master->machine->lineage, msg->as.subgroup_ended.subgroup);
        if (seen == NULL || pccl_id_find(seen->members, seen->count, &to->id) == seen->count)
            sim_fail(sim, "E1 p%u is told the end of a subgroup that it is not in", to->process.number);
        if (!has_cause(master, seen))
            sim_fail(sim, "E3 a subgroup of p%u ends without a cause", to->process.number);
        seen->ended_boot = master->config.boot;
        seen->told_boots[pccl_id_find(seen->members, seen->count, &to->id)] = master->config.boot;
        return;
    }
    if (msg->type == PCCL_MSG_outcome && instance->pair != 0) {
        const struct pccl_remote *remote = pccl_master_find(master->machine, &to->id);
        if (remote == NULL || (remote->admitted != pccl_pair_source(instance->pair) &&
                               remote->admitted != pccl_pair_destination(instance->pair)))
            sim_fail(sim, "E1 p%u is told an outcome of a pair that it is not in", to->process.number);
    }
    if (msg->type == PCCL_MSG_outcome && pccl_master_names_subgroup(instance)) {
        const struct subgroup_seen *seen = sim_subgroup_find(sim, &master->machine->lineage, instance->subgroup);
        if (seen == NULL || pccl_id_find(seen->members, seen->count, &to->id) == seen->count)
            sim_fail(sim, "E1 p%u is told an outcome of a subgroup that it is not in", to->process.number);
        if (seen->told_boots[pccl_id_find(seen->members, seen->count, &to->id)] == master->config.boot)
            sim_fail(sim, "E2 p%u is told an outcome of a subgroup that has ended", to->process.number);
    }
}

void sim_check_closing(struct sim *sim, struct sim_peer *peer, uint64_t name)
{
    struct subgroup_seen *seen = sim_subgroup_find(sim, &peer->machine->lineage, name);
    if (seen != NULL)
        seen->closed = true;
}

void sim_check_subgroup_commit(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(peer->machine, op->instance.subgroup);
    if (subgroup == NULL || subgroup->all.ended)
        sim_fail(sim, "E2 p%u succeeds in a subgroup that has ended", peer->process.number);
}

void sim_check_subgroup_founded(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op)
{
    uint64_t name = pccl_subgroup_name(&op->instance);
    const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(peer->machine, name);
    const struct subgroup_seen *seen = sim_subgroup_find(sim, &peer->machine->lineage, name);
    bool same = subgroup != NULL && seen != NULL && subgroup->all.count == seen->count;
    for (uint32_t rank = 0; same && rank < seen->count; rank++)
        same = pccl_id_equal(pccl_peer_member_at(&subgroup->all, rank), &seen->members[rank]);
    if (!same)
        sim_fail(sim, "E1 p%u founds another subgroup than the master told", peer->process.number);
}

void sim_check_subgroup_ended(struct sim *sim, struct sim_peer *peer, uint64_t name)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(peer->machine, name);
    if (subgroup == NULL || !subgroup->all.ended || subgroup->reason.length == 0)
        sim_fail(sim, "E1 p%u: a subgroup ends without a word", peer->process.number);
    sim->totals.subgroups_ended++;
}

/* Checks that at rest master and members have the same subgroups. */
void sim_check_subgroups_idle(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!sim_is_survivor(sim, peer))
            continue;
        const struct pccl_peer_group *group = pccl_master_group(sim->master->machine, peer->group, false);
        uint32_t here = 0, there = 0;
        for (const struct pccl_peer_subgroup *s = NULL; (s = pccl_peer_next_subgroup(peer->machine, s)) != NULL;)
            here += !s->all.ended && pccl_master_find_subgroup(group, s->name) != NULL;
        for (const struct pccl_peer_subgroup *s = NULL; (s = pccl_peer_next_subgroup(peer->machine, s)) != NULL;)
            if (!s->all.ended && pccl_master_find_subgroup(group, s->name) == NULL)
                sim_fail(sim, "E1 p%u rests in a subgroup that has ended", peer->process.number);
        const struct pccl_remote *remote = pccl_master_find(m, &peer->id);
        for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); node != NULL;
             node = pccl_table_after(&group->subgroups, node)) {
            const struct pccl_subgroup *s = PCCL_CONTAINER_OF(node, const struct pccl_subgroup, by_name);
            there += pccl_master_seat_in(s, remote) < s->count;
        }
        if (here != there)
            sim_fail(sim, "E1 p%u rests in %u subgroups, and by the master in %u", peer->process.number, here, there);
    }
}

void sim_check_subgroups_fini(struct sim *sim)
{
    while (sim->checks->subgroups != NULL) {
        struct subgroup_seen *seen = sim->checks->subgroups;
        sim->checks->subgroups = seen->next;
        free(seen->members);
        free(seen->told_boots);
        free(seen);
    }
    for (uint32_t i = 0; i < sim->peer_count; i++)
        while (sim->peers[i]->subgroup_uses != NULL) {
            struct sim_use *use = sim->peers[i]->subgroup_uses;
            sim->peers[i]->subgroup_uses = use->next_of_subgroup;
            free(use);
        }
}
