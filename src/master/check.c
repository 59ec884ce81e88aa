/*
 * What is true of the master's state between two steps, whatever has come in and whether or not memory was short: the
 * rules that its functions rely on. Nothing here knows why a state came to be, or what the master has said.
 */
#include "core/check.h"
#include "master/check.h"
#include "master/eligibility.h"
#include "master/roster.h"
#include "master/sync.h"
#include "wire/cost.h"

/* ---- peers ---- */

static const char *check_tables(const struct pccl_master *m, const struct pccl_remote *remote)
{
    PCCL_RULE(pccl_master_find(m, &remote->id) == remote, "a peer is found by its id");
    PCCL_RULE(remote->conn == 0 || pccl_table_find(&m->by_conn, remote->conn) == &remote->by_conn,
              "a connected peer is found by its connection");
    PCCL_RULE(pccl_session_is_sound(&remote->session), "a session keeps what is not acknowledged, and nothing else");
    return NULL;
}

static const char *check_state(const struct pccl_master *m, const struct pccl_remote *remote)
{
    bool pending = remote->state == PCCL_REMOTE_PENDING, resuming = remote->state == PCCL_REMOTE_RESUMING;
    PCCL_RULE((remote->state == PCCL_REMOTE_MEMBER) == (remote->group != NULL), "members are in a group, others not");
    PCCL_RULE((remote->queue != NULL) == (pending && !remote->departing), "newcomers that stay wait in a queue");
    PCCL_RULE((remote->site != NULL) == (remote->queue != NULL), "who waits is counted at the site it comes from");
    PCCL_RULE(remote->queue != NULL || (!remote->warming && !remote->eligible), "only who waits is to be admitted");
    PCCL_RULE(!resuming || remote->departing || (m->recovering && remote->report != NULL),
              "who resumes reports to a master that recovers");
    PCCL_RULE(remote->report == NULL || (m->recovering && resuming), "reports are kept as long as the master recovers");
    return NULL;
}

static const char *check_member(const struct pccl_remote *remote)
{
    bool member = remote->state == PCCL_REMOTE_MEMBER;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        PCCL_RULE(!remote->votes[kind] || (member && kind != PCCL_ROUND_SYNC), "members vote, by joint round");
    PCCL_RULE(remote->sync_part == NULL || member, "members bring a shared state");
    PCCL_RULE(!remote->untried || member, "only a member may be untried");
    PCCL_RULE(!remote->unwelcomed || (member && remote->departing), "who is admitted is welcomed in the same step");
    PCCL_RULE(remote->lone_aborts <= PCCL_OPS_LONE_MAX || remote->departing, "who ends too many operations goes");
    PCCL_RULE(!remote->owes_view_ack || member, "members acknowledge views");
    PCCL_RULE(!pccl_master_is_fetching(remote) || remote->group->sync_planned, "shared state is fetched by a plan");
    return NULL;
}

/* Whom a peer should hold a link to. Members want their group's ring, and all of it if it is small. */
static const char *check_intents(const struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_peer_group *group = remote->group;
    uint32_t of_group = 0;
    for (uint32_t i = 0; i < remote->intent_count; i++) {
        const struct pccl_link_intent *intent = &remote->intents[i];
        const struct pccl_remote *to = pccl_master_find(m, &intent->to);
        PCCL_RULE(to != NULL && to != remote, "links are wanted to other peers that are here");
        PCCL_RULE(!intent->up || !intent->failed, "a link that stands has not failed");
        PCCL_RULE(intent->rate <= PCCL_RATE_MOST, "a rate is one that a link may have");
        of_group += group != NULL && to->group == group;
    }
    PCCL_RULE(!pccl_master_is_living_member(remote) || !pccl_master_is_small(group->ring_count) ||
                  of_group == group->ring_count - 1,
              "each member of a small group wants a link to each other one, once");
    PCCL_RULE(!pccl_master_is_living_member(remote) || group->ring_count < 2 ||
                  pccl_master_find_intent(remote, &group->ring[(remote->position + 1) % group->ring_count]->id) != NULL,
              "a member wants a link to its successor");
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
        PCCL_RULE(remote->index == i, "a peer is where its index says");
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
    PCCL_RULE(m->remote_count <= PCCL_PEERS_MAX, "peers are as many as limits.h says");
    PCCL_RULE(m->by_id.count == m->remote_count, "the table of ids has all peers");
    PCCL_RULE(m->by_conn.count == connected, "the table of connections has all who are connected");
    PCCL_RULE(m->member_count == members, "members are counted");
    PCCL_RULE(m->newcomer_count == queued, "newcomers are counted");
    PCCL_RULE(m->departing_count == departing, "who departs is counted");
    return NULL;
}

/* ---- newcomers, strangers, edges ---- */

static const char *check_queue(const struct pccl_master *m, const struct pccl_queue *queue)
{
    uint32_t count = 0;
    for (struct pccl_list_node *link = queue->newcomers.next; link != &queue->newcomers; link = link->next) {
        const struct pccl_remote *remote = PCCL_CONTAINER_OF(link, const struct pccl_remote, in_queue);
        PCCL_RULE(remote->queue == queue && remote->group_number == queue->number,
                  "a newcomer waits in the queue of its group");
        count++;
    }
    PCCL_RULE(count > 0 && count == queue->count, "a queue has somebody, and counts them");
    PCCL_RULE(count <= PCCL_NEWCOMERS_OF_GROUP_MAX, "newcomers of a group are as many as limits.h says");
    PCCL_RULE(m->newcomers_due_us <= queue->due_us, "no queue is due before the first one");
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
                  "newcomers of a site are as many as limits.h says, and without any it is forgotten");
        at_sites += site->count;
    }
    PCCL_RULE(queued == m->newcomer_count && at_sites == queued, "each newcomer is in a queue and at a site");
    PCCL_RULE(queued <= PCCL_NEWCOMERS_MAX, "newcomers are as many as limits.h says");
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
    PCCL_RULE(m->strangers_by_conn.count == count, "the table of strangers has all of them");
    PCCL_RULE(count <= PCCL_STRANGERS_MAX, "strangers are as many as limits.h says");
    return NULL;
}

static const char *check_edges(const struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        PCCL_RULE(pccl_master_find(m, &edge->from) != NULL, "who reported an edge is here");
    }
    PCCL_RULE(m->edge_count <= PCCL_EDGES_MAX, "edges are as many as limits.h says");
    return NULL;
}

/* ---- operations ---- */

static const char *check_decided(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    PCCL_RULE(op->parts == NULL && op->part_count == 0, "parts are freed at the decision");
    PCCL_RULE(op->held_until_us == 0, "what is decided waits for nothing");
    PCCL_RULE(op->decision > group->stable && op->decision <= group->decisions,
              "outcomes that all know are forgotten, others numbered");
    PCCL_RULE((op->result != NULL) == (op->tiny && op->class == PCCL_CLASS_NONE),
              "the result of a tiny operation is kept with its commit");
    return NULL;
}

static const char *check_undecided(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    uint32_t done = 0;
    PCCL_RULE(op->part_count == (op->parts != NULL ? group->ring_count : 0), "an operation has a part for each member");
    for (uint32_t i = 0; i < op->part_count; i++) {
        const struct pccl_part *part = &op->parts[i];
        PCCL_RULE((part->payload != NULL) == (part->done && op->tiny), "a part of a tiny operation has its payload");
        done += part->done;
    }
    PCCL_RULE(op->done_count == done, "who is done is counted");
    PCCL_RULE(op->result == NULL, "only a commit has a result");
    PCCL_RULE(op->part_count == 0 || done < op->part_count || op->held_until_us != 0,
              "what all have finished is decided, or its abort has to wait");
    return NULL;
}

/* Operations that this member has finished and that are undecided. */
static uint32_t count_under_way(const struct pccl_peer_group *group, uint32_t position)
{
    uint32_t count = 0;
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer)
        count += op->parts != NULL && op->parts[position].done;
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
    PCCL_RULE(group->by_instance.count == count, "the table of operations has all of them");
    PCCL_RULE(group->held_count == held, "aborts that wait are counted");
    for (uint32_t i = 0; i < group->ring_count; i++)
        PCCL_RULE(group->ring[i]->under_way == count_under_way(group, i), "operations under way are counted");
    return NULL;
}

/* ---- groups ---- */

static const char *check_ring(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    uint32_t behind = 0, placed = 0, loading = 0, loaded = 0;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_remote *remote = group->ring[i];
        const struct pccl_remote *to = remote->test.running ? pccl_master_find(m, &remote->test.to) : NULL;
        PCCL_RULE(remote->group == group && remote->position == i, "a member is where its position says");
        PCCL_RULE(remote->group_number == group->number, "a member is in the group that it has chosen");
        PCCL_RULE(remote->place < group->place_count && group->by_place[remote->place] == remote,
                  "a member has the place that it knows");
        PCCL_RULE(remote->decision_known <= group->decisions, "nobody knows an outcome that is not decided");
        PCCL_RULE(pccl_epoch_compare(&remote->view_acknowledged, &group->view) <= 0, "a view is acknowledged later");
        PCCL_RULE(!remote->test.running || (to != NULL && to != remote && to->group == group && to->test.loaded),
                  "a test loads the way to another member");
        behind += remote->decision_known <= group->stable;
        loading += remote->test.running;
        loaded += remote->test.loaded;
    }
    for (uint32_t i = 0; i < group->place_count; i++)
        placed += group->by_place[i] != NULL;
    PCCL_RULE(placed == group->ring_count, "only members have places");
    PCCL_RULE(group->behind == behind, "who is behind is counted");
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
    PCCL_RULE(tuning->better_count == count, "a better ring is one of all members");
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
    PCCL_RULE(!group->changed || m->member_count == 0, "a ring changes with an epoch, in one step");
    PCCL_RULE(pccl_epoch_compare(&group->view, &m->epoch) <= 0, "a view is an epoch of this run");
    PCCL_RULE(group->stable <= group->decisions, "all know only what is decided");
    PCCL_RULE(!group->sync_proven || group->sync_planned, "what is elected is proven behind its election");
    PCCL_RULE(m->optimizing || tuning->phase == PCCL_TUNING_NONE, "a group is tuned within an optimization");
    PCCL_RULE(tuning->ticket <= m->last_ticket, "a search has a number that was given out");
    PCCL_RULE((tuning->text != NULL) == (tuning->text_bytes > 0), "a picture has a length");
    PCCL_RULE(group->matrix.places == 0 || group->matrix.places >= group->place_count,
              "figures are kept of all members, or of none");
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
        if (broken == NULL && group->ring_count > 0)
            broken = check_operations(group);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(members == m->member_count, "each member is in one ring");
    PCCL_RULE(m->groups_by_number.count == m->group_count, "the table of groups has all of them");
    PCCL_RULE(m->group_count <= PCCL_GROUPS_MAX, "groups are as many as limits.h says");
    return NULL;
}

static const char *check_run(const struct pccl_master *m)
{
    PCCL_RULE(m->member_count == 0 || (m->founded && !m->recovering), "members are of a run that goes on");
    PCCL_RULE(!m->recovering || m->founded, "what is recovered is a run");
    PCCL_RULE(!m->founded || !pccl_id_is_zero(&m->lineage), "a run has a name");
    PCCL_RULE(!m->optimizing || !m->recovering, "a master that recovers decides nothing");
    PCCL_RULE(m->due == 0 || m->departing_count > 0, "what is due is decided, but for what waits for a departure");
    return NULL;
}

/* ---- time: nothing is due before the machine is woken ---- */

/* Behind a standstill what came meanwhile is read first, so what is due waits for a moment. */
static bool wakes_for(const struct pccl_master *m, uint64_t due_us)
{
    enum { READ_FIRST_US = 1000 };
    return m->deadline_us <= pccl_max_u64(due_us, m->now_us + READ_FIRST_US);
}

static const char *check_deadlines_of(const struct pccl_master *m, const struct pccl_remote *remote)
{
    uint64_t silence_us = m->config.silence_ms * UINT64_C(1000), heartbeat_us = m->config.heartbeat_ms * UINT64_C(1000);
    bool tests = remote->test.running && remote->group->tuning.phase == PCCL_TUNING_TESTS;
    PCCL_RULE(wakes_for(m, remote->heard_us + silence_us), "silence is noticed");
    PCCL_RULE(remote->conn == 0 || wakes_for(m, remote->spoke_us + heartbeat_us), "a heartbeat is sent in time");
    PCCL_RULE(remote->look_again_us == 0 || m->shut || wakes_for(m, remote->look_again_us),
              "a port is looked at again");
    PCCL_RULE(remote->queue == NULL || wakes_for(m, remote->tell_us), "who waits to be admitted is spoken of");
    PCCL_RULE(!tests || wakes_for(m, remote->test.until_us), "a test ends");
    return NULL;
}

static const char *check_held(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    for (const struct pccl_operation *op = group->oldest; op != NULL && group->held_count > 0; op = op->newer)
        PCCL_RULE(op->held_until_us == 0 || wakes_for(m, op->held_until_us), "an abort that waits comes");
    return NULL;
}

static const char *check_deadlines(const struct pccl_master *m)
{
    const struct pccl_stranger *stranger = m->oldest_stranger;
    const char *broken = NULL;
    bool admits = m->founded && !m->recovering && !m->shut;
    PCCL_RULE(m->departing_count == 0 || wakes_for(m, m->now_us), "who departs goes at once");
    PCCL_RULE(stranger == NULL || wakes_for(m, stranger->opened_us + m->config.hello_ms * UINT64_C(1000)),
              "a stranger is given up");
    PCCL_RULE(!admits || wakes_for(m, m->newcomers_due_us), "a newcomer that is not warm is given up");
    for (uint32_t i = 0; i < m->edge_count; i++)
        PCCL_RULE(m->edges[i].act_us == 0 || wakes_for(m, m->edges[i].act_us), "an edge that failed is given up");
    for (uint32_t i = 0; broken == NULL && i < m->remote_count; i++)
        if (!m->remotes[i]->departing)
            broken = check_deadlines_of(m, m->remotes[i]);
    for (uint32_t i = 0; broken == NULL && i < m->group_count; i++)
        broken = check_held(m, m->groups[i]);
    return broken;
}

const char *pccl_master_check(const struct pccl_master *m)
{
    static const char *(*const checks[])(const struct pccl_master *) = {
        check_run, check_remotes, check_newcomers, check_strangers, check_edges, check_groups, check_deadlines};
    const char *broken = NULL;
    for (size_t i = 0; broken == NULL && i < PCCL_COUNT_OF(checks); i++)
        broken = checks[i](m);
    return broken;
}
