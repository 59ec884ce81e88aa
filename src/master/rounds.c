/* Joint calls: votes, identified by kind and round, of all living members (PROTOCOL 10, 11). */
#include "master/rounds_internal.h"
#include "master/commands.h"
#include "master/diagnosis.h"
#include "master/links.h"
#include "master/shortages.h"
#include "master/membership.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/topology.h"

/* Returns true if every member has voted in the open round of this kind. */
static bool all_voted(const struct pccl_master *m, uint8_t kind)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && !m->remotes[i]->votes[kind])
            return false;
    return m->member_count > 0;
}

/*
 * Returns true if some member has voted and every missing member is untried: it is the first of a new group and has
 * made no call yet. Such a member needed no link to be admitted, so no other member has confirmed that it works. Once
 * all others have voted, its time for the first call is limited, because otherwise any peer that reaches the master's
 * port could block the run forever. For other members the round waits as long as they live (RELIABILITY).
 */
static bool only_untried_are_missing(const struct pccl_master *m, uint8_t kind)
{
    bool missing = false, voted = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_MEMBER)
            continue;
        if (!remote->votes[kind] && !remote->untried)
            return false;
        voted = voted || remote->votes[kind];
        missing = missing || !remote->votes[kind];
    }
    return voted && missing;
}

static void send_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind, uint64_t round, uint8_t outcome)
{
    PCCL_ASSERT(to->group != NULL && kind < PCCL_ROUND_KINDS && kind != PCCL_ROUND_SYNC);
    struct pccl_msg msg = {
        .type = PCCL_MSG_round,
        .as.round = {.kind = kind, .round = round, .outcome = outcome, .attributes = to->group->last_attributes[kind]}};
    if (kind == PCCL_ROUND_OPTIMIZE && outcome == PCCL_ROUND_FAILED)
        msg.as.round.reason = pccl_bytes_of_text(&to->group->optimize_reason);
    pccl_master_send(m, to, &msg, 0);
}

static void clear_where(struct pccl_remote *remote, enum pccl_call call)
{
    if (remote->where.call == call)
        remote->where.call = PCCL_CALL_NONE;
}

/* Returns the outcome for this member. An optimization has an outcome for each group. */
static uint8_t outcome_for(const struct pccl_master *m, const struct pccl_remote *remote, uint8_t kind)
{
    return kind == PCCL_ROUND_OPTIMIZE ? remote->group->optimize_outcome : m->last_outcome[kind];
}

/*
 * Sends the result to the members that voted, that is, not to newcomers admitted in this round. A quiet round begins a
 * new era, whose operations cannot be launched before the view that belongs to it.
 */
static void conclude_round(struct pccl_master *m, uint8_t kind, uint8_t outcome)
{
    PCCL_ASSERT(!m->recovering && kind != PCCL_ROUND_SYNC);
    uint64_t round = m->rounds[kind]++;
    bool quiet = kind != PCCL_ROUND_PENDING;
    if (quiet)
        pccl_master_mark(m, PCCL_STAGE_ERAS);
    m->last_outcome[kind] = outcome;
    (outcome == PCCL_ROUND_FAILED ? m->tally.rounds_failed : m->tally.rounds_done)[kind]++;
    for (uint32_t i = 0; i < m->group_count; i++)
        m->groups[i]->last_attributes[kind] = pccl_master_attributes(m, m->groups[i]);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        remote->awaits_view_ack = remote->awaits_view_ack && !quiet;
        if (!pccl_master_is_living_member(remote) || !remote->votes[kind])
            continue;
        remote->votes[kind] = false;
        remote->sole_aborts = quiet ? 0 : remote->sole_aborts;
        clear_where(remote, pccl_call_of_round(kind));
        send_round(m, remote, kind, round, outcome_for(m, remote, kind));
    }
}

static void conclude_pending(struct pccl_master *m)
{
    bool any = pccl_master_eligible(m) > 0 || pccl_master_can_leave_slow_links(m) || pccl_master_has_drained(m);
    conclude_round(m, PCCL_ROUND_PENDING, any ? PCCL_ROUND_TRUE : PCCL_ROUND_DONE);
}

/* Adds the eligible newcomers to their rings. Returns their number and lists them in `added`. */
static uint32_t admit_all(struct pccl_master *m, struct pccl_member *added)
{
    uint32_t count = 0, remotes = m->remote_count;
    for (uint32_t i = 0; i < remotes; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (!remote->eligible)
            continue;
        struct pccl_peer_group *group = pccl_master_group(m, remote->group_number, true);
        if (group == NULL || !pccl_master_join_ring(m, group, remote, remote->follows)) {
            pccl_master_remove(m, remote, PCCL_REFUSAL_FULL,
                               "the master has too many members or groups, or not enough memory for another one");
            continue;
        }
        pccl_master_show_verdicts(m, group);
        remote->unwelcomed = true;
        remote->untried = group->ring_count == 1;
        added[count++] = pccl_master_as_member(remote);
    }
    return count;
}

/* Sends `epoch_change`, then `round` to the members and `welcome` to the newcomers (PROTOCOL 11.5). */
static void conclude_update(struct pccl_master *m)
{
    PCCL_ASSERT(m->departing_count == 0);
    uint32_t remotes = m->remote_count, added_count = 0;
    struct pccl_member *added = pccl_allocate(&m->memory, pccl_max_u64(1, remotes) * sizeof *added);
    if (added != NULL && pccl_master_eligible(m) > 0)
        added_count = admit_all(m, added);
    pccl_master_age_hubs(m);
    struct pccl_text why, costs; /* no operation is under way, so the new view aborts none */
    uint32_t adopted = pccl_master_adopt_rings(m, &why), moved = pccl_master_review_costs(m, &costs);
    if (added_count > 0)
        pccl_text_format(&why, "%u admitted", added_count);
    if (added_count > 0 || adopted > 0 || moved > 0)
        pccl_master_next_epoch(m, added, added_count, NULL, 0, added_count > 0 || adopted > 0 ? &why : &costs);
    conclude_round(m, PCCL_ROUND_UPDATE, PCCL_ROUND_DONE);
    pccl_master_mark(m, PCCL_STAGE_SEARCHES);
    for (uint32_t i = 0; i < added_count; i++) {
        struct pccl_remote *remote = pccl_master_find(m, &added[i].peer);
        if (remote != NULL && pccl_master_is_living_member(remote))
            pccl_master_welcome(m, remote);
    }
    pccl_release(&m->memory, added, pccl_max_u64(1, remotes) * sizeof *added);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
}

/* Sends `epoch_change` if a ring or the costs have changed, then `round`. */
static void continue_optimization(struct pccl_master *m)
{
    if (!pccl_master_optimize(m))
        return;
    struct pccl_text why, costs;
    uint32_t adopted = pccl_master_adopt_rings(m, &why), moved = pccl_master_review_costs(m, &costs);
    if (adopted > 0 || moved > 0)
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, adopted > 0 ? &why : &costs);
    conclude_round(m, PCCL_ROUND_OPTIMIZE, PCCL_ROUND_DONE);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_publish_topology(m, m->groups[i]);
    pccl_master_mark(m, PCCL_STAGE_SEARCHES);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
}

static void wait_for_untried(struct pccl_master *m, uint8_t kind)
{
    uint64_t *since_us = &m->untried_since_us[kind], patience_us = m->config.first_call_ms * UINT64_C(1000);
    if (patience_us == 0 || !only_untried_are_missing(m, kind)) {
        *since_us = 0;
        return;
    }
    if (*since_us == 0)
        *since_us = m->now_us;
    if (m->now_us < *since_us + patience_us) {
        pccl_master_arm(m, *since_us + patience_us);
        return;
    }
    *since_us = 0;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (pccl_master_is_living_member(m->remotes[i]) && !m->remotes[i]->votes[kind])
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_SILENT,
                               "it was the first peer of a new group and made no call for %s while all others waited",
                               pccl_duration_str(patience_us));
}

/* Decides complete rounds. If a send makes a peer depart, the view is created next, and this stage runs again. */
void pccl_master_decide_rounds(struct pccl_master *m)
{
    PCCL_ASSERT(m->departing_count == 0);
    if (m->recovering)
        return;
    if (all_voted(m, PCCL_ROUND_PENDING))
        conclude_pending(m);
    if (m->departing_count == 0 && all_voted(m, PCCL_ROUND_UPDATE))
        pccl_master_remove_drained(m);
    if (m->departing_count == 0 && all_voted(m, PCCL_ROUND_UPDATE) && !pccl_master_update_waits_for_rings(m))
        conclude_update(m);
    if (m->departing_count == 0 && all_voted(m, PCCL_ROUND_OPTIMIZE))
        continue_optimization(m);
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS && m->departing_count == 0; kind++)
        if (kind != PCCL_ROUND_SYNC)
            wait_for_untried(m, kind);
}

/* Sends the answer of the last round to a member that has not received it. */
void pccl_master_answer_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind)
{
    send_round(m, to, kind, m->rounds[kind] - 1, outcome_for(m, to, kind));
}

void pccl_master_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_vote *vote)
{
    uint8_t kind = vote->kind;
    uint64_t round = vote->round;
    if (kind == PCCL_ROUND_SYNC) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it voted for a synchronization without a state");
        return;
    }
    if (vote->drain != 0)
        pccl_master_note_drain(m, from);
    if (pccl_master_is_last_round(round, m->rounds[kind])) {
        pccl_master_answer_round(m, from, kind);
        return;
    }
    if (round != m->rounds[kind]) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it voted in a round that is not open");
        return;
    }
    if (!from->votes[kind])
        from->voted_us[kind] = m->now_us;
    from->votes[kind] = true;
    pccl_master_note_ability(m, from, kind, vote->unable);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
}

/* Withdraws a vote. The answer is the round's outcome if that has been decided, or the withdrawal. */
void pccl_master_withdraw(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round)
{
    if (kind == PCCL_ROUND_SYNC) {
        pccl_master_withdraw_sync(m, from, round);
        return;
    }
    if (round != m->rounds[kind] || !from->votes[kind])
        return; /* decided: the `round` message has been sent */
    if (kind == PCCL_ROUND_OPTIMIZE && m->optimizing)
        return; /* it ends soon, with one outcome for all */
    from->votes[kind] = false;
    clear_where(from, pccl_call_of_round(kind));
    send_round(m, from, kind, round, PCCL_ROUND_WITHDRAWN);
}
