/*
 * Invariants of the master's state. They hold between two steps, for any input, also when memory
 * was short. This file checks the state alone, not its history or the messages of the master.
 */
#include "support/master_check.h"

#include "core/rule.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/roster.h"
#include "master/operations.h"
#include "master/rounds.h"
#include "wire/cost.h"

/* ---- peers ---- */

static const char *check_tables(const struct pccl_master *m, const struct pccl_remote *remote)
{
    PCCL_RULE(pccl_master_find(m, &remote->id) == remote, "a peer is found by its id");
    PCCL_RULE(remote->conn == 0 || pccl_table_find(&m->by_conn, remote->conn) == &remote->by_conn,
              "a connected peer is found by its connection");
    PCCL_RULE(pccl_session_is_sound(&remote->session),
              "a session keeps exactly the messages that are not acknowledged");
    return NULL;
}

static const char *check_state(const struct pccl_master *m, const struct pccl_remote *remote)
{
    bool pending = remote->state == PCCL_REMOTE_PENDING, resuming = remote->state == PCCL_REMOTE_RESUMING;
    PCCL_RULE((remote->state == PCCL_REMOTE_MEMBER) == (remote->group != NULL),
              "members are in a group, and other peers are not");
    PCCL_RULE((remote->queue != NULL) == (pending && !remote->departing),
              "newcomers that are not departing wait in a queue");
    PCCL_RULE((remote->site != NULL) == (remote->queue != NULL), "a newcomer in a queue is counted at its site");
    PCCL_RULE(remote->queue != NULL || (!remote->warming && !remote->eligible),
              "only newcomers in a queue warm up or are eligible");
    PCCL_RULE(!resuming || remote->departing || (m->recovering && remote->report != NULL),
              "a resuming peer reports to a master that recovers");
    PCCL_RULE(remote->report == NULL || (m->recovering && resuming), "reports are kept only during a recovery");
    return NULL;
}

static const char *check_member(const struct pccl_remote *remote)
{
    bool member = remote->state == PCCL_REMOTE_MEMBER;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        PCCL_RULE(!remote->votes[kind] || (member && kind != PCCL_ROUND_SYNC),
                  "only members vote, and a synchronization has no joint vote");
    PCCL_RULE(remote->sync_part == NULL || member, "only members take part in a synchronization");
    PCCL_RULE(!remote->untried || member, "only a member may be untried");
    PCCL_RULE(remote->witness == NULL || member, "only what members report is kept");
    PCCL_RULE(!remote->unwelcomed || (member && remote->departing), "a new member is welcomed in the same step");
    PCCL_RULE(remote->sole_aborts <= PCCL_OPS_LONE_MAX || remote->departing,
              "a peer that ends too many operations alone is removed");
    PCCL_RULE(!remote->awaits_view_ack || member, "only members have views to acknowledge");
    PCCL_RULE(!pccl_master_is_fetching(remote) || remote->group->sync_planned,
              "shared state is fetched only after an election");
    return NULL;
}

/*
 * Checks which links a peer should hold: a member needs its links in the ring, and in a small group
 * those to all members, in a larger one those to the hubs.
 */
static const char *check_intents(const struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_peer_group *group = remote->group;
    uint32_t of_group = 0;
    for (uint32_t i = 0; i < remote->intent_count; i++) {
        const struct pccl_link_intent *intent = &remote->intents[i];
        const struct pccl_remote *to = pccl_master_find(m, &intent->to);
        PCCL_RULE(to != NULL && to != remote, "links are wanted only to other known peers");
        PCCL_RULE(!intent->up || !intent->failed, "a link that stands has not failed");
        PCCL_RULE(intent->rate <= PCCL_RATE_MOST, "rates are within limits");
        of_group += group != NULL && to->group == group;
    }
    PCCL_RULE(!pccl_master_is_living_member(remote) || !pccl_master_is_small(group->ring_count) ||
                  of_group == group->ring_count - 1,
              "each member of a small group wants a link to each other one, once");
    PCCL_RULE(!pccl_master_is_living_member(remote) || group->ring_count < 2 ||
                  pccl_master_find_intent(remote, &group->ring[(remote->position + 1) % group->ring_count]->id) != NULL,
              "a member wants a link to its successor");
    for (uint32_t i = 0; group != NULL && i < group->ring_count; i++)
        PCCL_RULE(!pccl_master_is_link_of_hub(m, remote, group->ring[i]) ||
                      pccl_master_find_intent(remote, &group->ring[i]->id) != NULL,
                  "what is wanted of a hub is asked for");
    return NULL;
}

static const char *check_remote(const struct pccl_master *m, const struct pccl_remote *remote)
{
    const char *broken = check_tables(m, remote);
    if (broken == NULL)
        broken = check_state(m, remote);
    if (broken == NULL)
        broken = check_member(remote);
    return broken != NULL ? broken : check_intents(m, remote);
}

static const char *check_remotes(const struct pccl_master *m)
{
    const char *broken = NULL;
    uint32_t connected = 0, members = 0, queued = 0, departing = 0;
    uint64_t arrival = 0;
    for (uint32_t i = 0; broken == NULL && i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        PCCL_RULE(remote->index == i, "a peer is at its index");
        PCCL_RULE(remote->arrival > arrival && remote->arrival <= m->arrivals, "peers are in order of arrival");
        arrival = remote->arrival;
        connected += remote->conn != 0;
        members += remote->group != NULL;
        queued += remote->queue != NULL;
        departing += remote->departing;
        broken = check_remote(m, remote);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(m->remote_count <= PCCL_PEERS_MAX, "peers are within limits.h");
    PCCL_RULE(m->by_id.count == m->remote_count, "the table of ids is complete");
    PCCL_RULE(m->by_conn.count == connected, "the table of connections is complete");
    PCCL_RULE(m->member_count == members, "the number of members is right");
    PCCL_RULE(m->newcomer_count == queued, "the number of newcomers is right");
    PCCL_RULE(m->departing_count == departing, "the number of departing peers is right");
    return NULL;
}

/* ---- newcomers, strangers, edges ---- */

static const char *check_queue(const struct pccl_master *m, const struct pccl_queue *queue)
{
    uint32_t count = 0;
    for (struct pccl_list_node *node = queue->newcomers.next; node != &queue->newcomers; node = node->next) {
        const struct pccl_remote *remote = PCCL_CONTAINER_OF(node, const struct pccl_remote, in_queue);
        PCCL_RULE(remote->queue == queue && remote->group_number == queue->number,
                  "a newcomer waits in the queue of its group");
        count++;
    }
    PCCL_RULE(count > 0 && count == queue->count, "a queue is not empty, and its count is right");
    PCCL_RULE(count <= PCCL_NEWCOMERS_OF_GROUP_MAX, "newcomers of a group are within limits.h");
    PCCL_RULE(m->newcomers_due_us <= queue->due_us, "no queue is due before the first due time");
    return NULL;
}

static const char *check_newcomers(const struct pccl_master *m)
{
    const char *broken = NULL;
    uint32_t queued = 0, at_sites = 0;
    for (struct pccl_table_node *node = pccl_table_first(&m->queues); broken == NULL && node != NULL;
         node = pccl_table_after(&m->queues, node)) {
        const struct pccl_queue *queue = PCCL_CONTAINER_OF(node, const struct pccl_queue, by_number);
        broken = check_queue(m, queue);
        queued += queue->count;
    }
    if (broken != NULL)
        return broken;
    for (struct pccl_table_node *node = pccl_table_first(&m->sites); node != NULL;
         node = pccl_table_after(&m->sites, node)) {
        const struct pccl_site *site = PCCL_CONTAINER_OF(node, const struct pccl_site, by_address);
        PCCL_RULE(site->count > 0 && site->count <= PCCL_NEWCOMERS_OF_ADDRESS_MAX,
                  "newcomers of a site are within limits.h, and an empty site is forgotten");
        at_sites += site->count;
    }
    PCCL_RULE(queued == m->newcomer_count && at_sites == queued, "each newcomer is in a queue and at a site");
    PCCL_RULE(queued <= PCCL_NEWCOMERS_MAX, "newcomers are within limits.h");
    return NULL;
}

static const char *check_strangers(const struct pccl_master *m)
{
    const struct pccl_stranger *before = NULL;
    uint32_t count = 0;
    for (const struct pccl_stranger *i = m->oldest_stranger; i != NULL; before = i, i = i->newer, count++) {
        PCCL_RULE(i->older == before, "strangers are linked both ways");
        PCCL_RULE(before == NULL || before->opened_us <= i->opened_us, "strangers are in order of arrival");
    }
    PCCL_RULE(m->newest_stranger == before, "the last stranger is the newest");
    PCCL_RULE(m->strangers_by_conn.count == count, "the table of strangers is complete");
    PCCL_RULE(count <= PCCL_STRANGERS_MAX, "strangers are within limits.h");
    return NULL;
}

static const char *check_edges(const struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        PCCL_RULE(pccl_master_find(m, &edge->from) != NULL, "the peer that reported an edge is known");
    }
    PCCL_RULE(m->edge_count <= PCCL_EDGES_MAX, "edges are within limits.h");
    return NULL;
}

/* ---- operations ---- */

static const char *check_decided(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    PCCL_RULE(op->parts == NULL && op->part_count == 0, "parts are freed at the decision");
    PCCL_RULE(op->held_until_us == 0, "a decided operation is not held");
    PCCL_RULE(op->decision > group->stable && op->decision <= group->decisions,
              "stable outcomes are forgotten, and the others are numbered");
    PCCL_RULE(op->combined == (op->tiny && op->class == PCCL_CLASS_NONE),
              "the result of a tiny operation is kept with its commit");
    PCCL_RULE((op->result != NULL) == (op->result_bytes > 0) && (op->combined || op->result == NULL),
              "a result is as long as it says");
    return NULL;
}

static const char *check_undecided(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    uint32_t done = 0;
    struct pccl_participants all = pccl_master_participants(group, op);
    PCCL_RULE(op->part_count == (op->parts != NULL ? all.count : 0), "an operation has a part for each participant");
    bool is_named = pccl_master_names_subgroup(&op->instance) || op->instance.pair != 0;
    PCCL_RULE(op->subgroup == NULL || op->subgroup->founded == is_named,
              "an operation is of a subgroup that lives or of a pair, or founds a subgroup");
    PCCL_RULE(op->subgroup != NULL || !is_named, "its subgroup lives");
    PCCL_RULE(!pccl_master_names_subgroup(&op->instance) ||
                  pccl_master_find_subgroup(group, op->instance.subgroup) != NULL,
              "an operation of a pair ends with its subgroup");
    for (uint32_t i = 0; i < op->part_count; i++) {
        const struct pccl_part *part = &op->parts[i];
        PCCL_RULE((part->payload != NULL) == (part->payload_bytes > 0), "a payload is as long as it says");
        PCCL_RULE(part->payload == NULL || (part->done && op->tiny), "only parts of tiny operations have a payload");
        done += part->done;
    }
    PCCL_RULE(op->done_count == done, "the number of parts that are done is right");
    PCCL_RULE(!op->combined && op->result == NULL, "only a commit has a result");
    PCCL_RULE(op->part_count == 0 || done < op->part_count || op->held_until_us != 0,
              "an operation that all have finished is decided, or its abort is held");
    return NULL;
}

/* Undecided operations whose part this member has finished. */
static uint32_t count_under_way(const struct pccl_peer_group *group, const struct pccl_remote *remote)
{
    uint32_t count = 0;
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer) {
        uint32_t seat = op->parts != NULL ? pccl_master_seat(op, remote) : 0;
        count += seat < op->part_count && op->parts[seat].done;
    }
    return count;
}

static const char *check_operations(const struct pccl_peer_group *group)
{
    const char *broken = NULL;
    const struct pccl_operation *before = NULL;
    uint32_t count = 0, held = 0;
    uint64_t decision = 0;
    for (const struct pccl_operation *op = group->oldest; broken == NULL && op != NULL; before = op, op = op->newer) {
        PCCL_RULE(op->older == before, "operations are linked both ways");
        PCCL_RULE(!op->decided || op->decision > decision, "outcomes are in order of decision");
        decision = op->decided ? op->decision : decision;
        count++;
        held += op->held_until_us != 0;
        broken = op->decided ? check_decided(group, op) : check_undecided(group, op);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(group->newest == before, "the last operation is the newest");
    PCCL_RULE(group->by_instance.count == count, "the table of operations is complete");
    PCCL_RULE(group->held_count == held, "the number of held aborts is right");
    for (uint32_t i = 0; i < group->ring_count; i++)
        PCCL_RULE(group->ring[i]->under_way == count_under_way(group, group->ring[i]),
                  "the number of operations under way is right");
    return NULL;
}

/* ---- subgroups ---- */

static bool relies_on(const struct pccl_subgroup *subgroup, uint32_t from, uint32_t to)
{
    return from != to && (subgroup->cost.mesh != 0 || to == (from + 1) % subgroup->count);
}

static const char *check_subgroup(const struct pccl_peer_group *group, const struct pccl_subgroup *subgroup)
{
    PCCL_RULE(pccl_master_find_subgroup(group, subgroup->name) == subgroup, "a subgroup is found by its name");
    PCCL_RULE(subgroup->founded && subgroup->living && subgroup->count == subgroup->world && subgroup->count > 1,
              "a subgroup lives, and all who founded it are in it");
    for (uint32_t i = 0; i < subgroup->count; i++) {
        const struct pccl_remote *remote = subgroup->members[i];
        PCCL_RULE(remote->group == group && pccl_master_seat_in(subgroup, remote) == i,
                  "the members of a subgroup are members of its group, ascending by id");
        PCCL_RULE(subgroup->knows[i], "all members know of a subgroup that lives");
        for (uint32_t k = 0; k < subgroup->count; k++) {
            const struct pccl_remote *from = subgroup->members[subgroup->ring[i]];
            const struct pccl_remote *to = subgroup->members[subgroup->ring[k]];
            PCCL_RULE(!relies_on(subgroup, i, k) || from->departing || pccl_master_serves_subgroups(from, to),
                      "the links that a subgroup relies on are wanted");
        }
    }
    return NULL;
}

static const char *check_pair(const struct pccl_peer_group *group, const struct pccl_subgroup *pair)
{
    uint32_t operations = 0;
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer)
        operations += op->subgroup == pair;
    PCCL_RULE(pair->operations == operations && operations > 0, "a pair is kept as long as an operation of it");
    PCCL_RULE(pair->world == 2 && pair->count == 2 && pair->members[0] != pair->members[1], "a pair has two members");
    for (uint32_t i = 0; i < 2; i++) {
        const struct pccl_remote *remote = pair->members[pair->ring[i]];
        uint64_t number = i == 0 ? pccl_pair_source(pair->name) : pccl_pair_destination(pair->name);
        PCCL_RULE(remote->group == group && remote->admitted == number && pair->ranks[pair->ring[i]] < 2,
                  "a pair is of the members that its name says");
        PCCL_RULE(pccl_master_seat_in(pair, remote) == pair->ring[i], "the members of a pair are ascending by id");
    }
    return NULL;
}

/* Returns the number of links that all subgroups rely on. */
static uint32_t count_relied_on(const struct pccl_peer_group *group)
{
    uint32_t count = 0;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); node != NULL;
         node = pccl_table_after(&group->subgroups, node)) {
        const struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, const struct pccl_subgroup, by_name);
        for (uint32_t i = 0; i < subgroup->count; i++)
            for (uint32_t k = 0; k < subgroup->count; k++)
                count += relies_on(subgroup, i, k);
    }
    return count;
}

static uint32_t count_wanted_for_subgroups(const struct pccl_peer_group *group)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->ring_count; i++)
        for (uint32_t k = 0; k < group->ring[i]->intent_count; k++)
            count += group->ring[i]->intents[k].subgroups;
    return count;
}

/* Checks the subgroups that a member belongs to, and those whose founding it has confirmed. */
static const char *check_seats(const struct pccl_peer_group *group, const struct pccl_remote *remote)
{
    uint32_t count = 0, seats = 0;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); node != NULL;
         node = pccl_table_after(&group->subgroups, node)) {
        const struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, const struct pccl_subgroup, by_name);
        bool member = pccl_master_seat_in(subgroup, remote) < subgroup->count;
        count += member;
        seats += member ? subgroup->count : 0;
    }
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer) {
        uint32_t seat = op->parts != NULL ? pccl_master_seat(op, remote) : 0;
        bool founds = op->instance.subgroup == PCCL_FOUNDING && seat < op->part_count && op->parts[seat].done;
        count += founds;
        seats += founds ? op->subgroup->world : 0;
    }
    PCCL_RULE(remote->founded_count == count && remote->seat_count == seats, "the number of subgroups is right");
    PCCL_RULE(count <= PCCL_SUBGROUPS_MAX && seats <= PCCL_SUBGROUP_SEATS_MAX, "subgroups are within limits.h");
    return NULL;
}

static const char *check_subgroups(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    const char *broken = NULL;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); broken == NULL && node != NULL;
         node = pccl_table_after(&group->subgroups, node))
        broken = check_subgroup(group, PCCL_CONTAINER_OF(node, const struct pccl_subgroup, by_name));
    for (struct pccl_table_node *node = pccl_table_first(&group->pairs); broken == NULL && node != NULL;
         node = pccl_table_after(&group->pairs, node))
        broken = check_pair(group, PCCL_CONTAINER_OF(node, const struct pccl_subgroup, by_name));
    for (uint32_t i = 0; broken == NULL && i < group->ring_count; i++)
        broken = check_seats(group, group->ring[i]);
    if (broken != NULL)
        return broken;
    PCCL_RULE(m->departing_count > 0 || count_wanted_for_subgroups(group) == count_relied_on(group),
              "each link is wanted as often as subgroups rely on it");
    return NULL;
}

/* ---- groups ---- */

static const char *check_ring(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    uint32_t behind = 0, placed = 0, loading = 0, loaded = 0;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_remote *remote = group->ring[i];
        const struct pccl_remote *to = remote->test.running ? pccl_master_find(m, &remote->test.to) : NULL;
        PCCL_RULE(remote->group == group && remote->position == i, "a member is at its position");
        PCCL_RULE(remote->group_number == group->number, "a member is in the group that it chose");
        PCCL_RULE(remote->admitted > 0 && remote->admitted <= m->admissions, "admissions are numbered");
        for (uint32_t k = 0; k < group->ring_count; k++)
            PCCL_RULE((group->ring[k]->rank < remote->rank) == pccl_master_is_before(group->ring[k], remote),
                      "ranks are in the order of admission");
        PCCL_RULE(remote->place < group->place_count && group->by_place[remote->place] == remote,
                  "a member is at its place");
        PCCL_RULE(remote->decision_known <= remote->decision_sent && remote->decision_sent <= group->decisions,
                  "no member knows an outcome that it was not told, nor one that is not decided");
        PCCL_RULE(pccl_epoch_compare(&remote->view_acknowledged, &group->view) <= 0,
                  "no member acknowledges a view before it is made");
        PCCL_RULE(!remote->test.running || (to != NULL && to != remote && to->group == group && to->test.loaded),
                  "a test loads the path to another member");
        behind += remote->decision_known < remote->decision_sent && remote->decision_known <= group->stable;
        loading += remote->test.running;
        loaded += remote->test.loaded;
    }
    for (uint32_t i = 0; i < group->place_count; i++)
        placed += group->by_place[i] != NULL;
    PCCL_RULE(placed == group->ring_count, "only members have places");
    PCCL_RULE(group->behind == behind, "the number of members that are behind is right");
    PCCL_RULE(loading == loaded, "a member is loaded by one test at most");
    return NULL;
}

static const char *check_better(const struct pccl_peer_group *group)
{
    const struct pccl_tuning *tuning = &group->tuning;
    PCCL_RULE((tuning->better != NULL) == (tuning->better_count > 0), "a better ring has members");
    if (tuning->better == NULL || tuning->better_version != group->ring_version)
        return NULL;
    uint64_t sum = 0, count = group->ring_count;
    PCCL_RULE(tuning->better_count == count, "a better ring has all members");
    for (uint32_t i = 0; i < count; i++) {
        PCCL_RULE(tuning->better[i] < count, "a better ring names members");
        sum += tuning->better[i];
    }
    PCCL_RULE(sum == count * (count - 1) / 2, "a better ring names each member once");
    return NULL;
}

static const char *check_group(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    const struct pccl_tuning *tuning = &group->tuning;
    PCCL_RULE(pccl_master_group((struct pccl_master *)(uintptr_t)m, group->number, false) == group,
              "a group is found by its number");
    PCCL_RULE(!group->changed || m->member_count == 0, "a ring changes and its epoch is made in one step");
    PCCL_RULE(pccl_epoch_compare(&group->view, &m->epoch) <= 0, "a view is not newer than the epoch of the run");
    PCCL_RULE(group->stable <= group->decisions, "no stable outcome is undecided");
    PCCL_RULE(!group->sync_proven || group->sync_planned, "the proof is known only after the election");
    PCCL_RULE(m->optimizing || tuning->phase == PCCL_TUNING_NONE, "a group is tuned only within an optimization");
    PCCL_RULE(tuning->ticket <= m->last_ticket, "a search has a ticket that was given out");
    PCCL_RULE((tuning->text != NULL) == (tuning->text_bytes > 0), "a topology report has a length");
    PCCL_RULE(group->matrix.places == 0 || group->matrix.places >= group->place_count,
              "estimates are kept for all members or for none");
    return NULL;
}

static const char *check_groups(const struct pccl_master *m)
{
    const char *broken = NULL;
    uint32_t members = 0;
    for (uint32_t i = 0; broken == NULL && i < m->group_count; i++) {
        const struct pccl_peer_group *group = m->groups[i];
        members += group->ring_count;
        broken = check_group(m, group);
        if (broken == NULL)
            broken = check_ring(m, group);
        if (broken == NULL)
            broken = check_better(group);
        if (broken == NULL)
            broken = pccl_verdicts_broken_rule(&group->verdicts);
        if (broken == NULL && group->ring_count > 0)
            broken = check_operations(group);
        if (broken == NULL && group->ring_count > 0)
            broken = check_subgroups(m, group);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(members == m->member_count, "each member is in one ring");
    PCCL_RULE(m->groups_by_number.count == m->group_count, "the table of groups is complete");
    PCCL_RULE(m->group_count <= PCCL_GROUPS_MAX, "groups are within limits.h");
    return NULL;
}

static const char *check_run(const struct pccl_master *m)
{
    PCCL_RULE(m->member_count == 0 || (m->founded && !m->recovering),
              "a master with members has a run and does not recover");
    PCCL_RULE(!m->recovering || m->founded, "a master that recovers has a run");
    PCCL_RULE(!m->founded || !pccl_id_is_zero(&m->lineage), "a run has a lineage");
    PCCL_RULE(!m->optimizing || !m->recovering, "a master that recovers decides nothing");
    PCCL_RULE(m->due == 0 || m->departing_count > 0, "no stage stays due unless a departure is pending");
    return NULL;
}

/* ---- time: the machine is woken when something is due ---- */

/* After a standstill the machine first reads the input that has arrived, so a due event may be a little late. */
static bool wakes_for(const struct pccl_master *m, uint64_t due_us)
{
    enum { READ_FIRST_US = 1000 };
    return m->deadline_us <= pccl_max_u64(due_us, m->now_us + READ_FIRST_US);
}

static const char *check_deadlines_of(const struct pccl_master *m, const struct pccl_remote *remote)
{
    uint64_t silence_us = m->config.silence_ms * UINT64_C(1000), heartbeat_us = m->config.heartbeat_ms * UINT64_C(1000);
    bool tests = remote->test.running && remote->group->tuning.phase == PCCL_TUNING_TESTS;
    PCCL_RULE(wakes_for(m, remote->received_us + silence_us), "silence is noticed in time");
    PCCL_RULE(remote->conn == 0 || wakes_for(m, remote->sent_us + heartbeat_us), "heartbeats are sent in time");
    PCCL_RULE(remote->look_again_us == 0 || m->shut || wakes_for(m, remote->look_again_us),
              "a port is dialed again in time");
    PCCL_RULE(remote->queue == NULL || wakes_for(m, remote->log_us), "a newcomer that nobody admits is logged in time");
    PCCL_RULE(!tests || wakes_for(m, remote->test.until_us), "a test ends in time");
    return NULL;
}

static const char *check_held(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    for (const struct pccl_operation *op = group->oldest; op != NULL && group->held_count > 0; op = op->newer)
        PCCL_RULE(op->held_until_us == 0 || wakes_for(m, op->held_until_us), "a held abort is decided in time");
    return NULL;
}

static const char *check_deadlines(const struct pccl_master *m)
{
    const struct pccl_stranger *stranger = m->oldest_stranger;
    const char *broken = NULL;
    bool admits = m->founded && !m->recovering && !m->shut;
    PCCL_RULE(m->departing_count == 0 || wakes_for(m, m->now_us), "a departing peer is removed at once");
    PCCL_RULE(stranger == NULL || wakes_for(m, stranger->opened_us + m->config.hello_ms * UINT64_C(1000)),
              "a stranger is refused in time");
    PCCL_RULE(!admits || wakes_for(m, m->newcomers_due_us), "a newcomer that is not warm is refused in time");
    for (uint32_t i = 0; i < m->edge_count; i++)
        PCCL_RULE(m->edges[i].act_us == 0 || wakes_for(m, m->edges[i].act_us), "an edge that failed is judged in time");
    for (uint32_t i = 0; broken == NULL && i < m->remote_count; i++)
        if (!m->remotes[i]->departing)
            broken = check_deadlines_of(m, m->remotes[i]);
    for (uint32_t i = 0; broken == NULL && i < m->group_count; i++)
        broken = check_held(m, m->groups[i]);
    return broken;
}

/* Every operation that was begun is under way or was counted once more at its end. */
static const char *check_tally(const struct pccl_master *m)
{
    uint64_t under_way[PCCL_TALLY_KINDS] = {0};
    for (uint32_t i = 0; i < m->group_count; i++)
        for (const struct pccl_operation *op = m->groups[i]->oldest; op != NULL; op = op->newer)
            if (op->described && !op->decided)
                under_way[op->descriptor.collective]++;
    for (uint32_t kind = 0; kind < PCCL_TALLY_KINDS; kind++)
        PCCL_RULE(m->tally.begun[kind] == m->tally.committed[kind] + m->tally.aborted[kind] + under_way[kind],
                  "operations are counted when they begin and when they end");
    PCCL_RULE(pccl_tally_sum(m->tally.latency, PCCL_TALLY_LATENCIES + 1) ==
                  pccl_tally_sum(m->tally.committed, PCCL_TALLY_KINDS) +
                      pccl_tally_sum(m->tally.aborted, PCCL_TALLY_KINDS),
              "each outcome has a latency");
    return NULL;
}

const char *pccl_master_check(const struct pccl_master *m)
{
    static const char *(*const checks[])(const struct pccl_master *) = {
        check_run,   check_remotes, check_newcomers, check_strangers,
        check_edges, check_groups,  check_tally,     check_deadlines};
    const char *broken = NULL;
    for (size_t i = 0; broken == NULL && i < PCCL_COUNT_OF(checks); i++)
        broken = checks[i](m);
    return broken;
}
