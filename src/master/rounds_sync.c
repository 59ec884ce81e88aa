/*
 * Synchronization of a group's shared state (PROTOCOL 10.5). All members vote with the digests of their content. The
 * election decides (master/rounds_election.h); a member without the elected content receives the names of donors,
 * fetches, and reports the end. The round ends when no member fetches, and the group's revision advances at that time.
 * The content itself never passes through the master.
 *
 * A member that dies loses its vote and can no longer be a donor; members that fetched from it receive other donors. If
 * no holder of the elected content is left, the round fails for all. Any other failure of a member fails only its own
 * call.
 *
 * Equal digests prove equal content only if all members are honest, because other content with the same digest can be
 * constructed. Therefore, if a member fetches, the members that voted for the elected content send its proof
 * (state/state.h), and the proof of the majority is accepted. A member with another proof cannot be a donor, so a
 * forged digest gains a liar no more than its vote does.
 *
 * A restarted master has no state of the round: members vote again with their present content, and the election is
 * repeated.
 */
#include "core/ticket.h"
#include "master/rounds_internal.h"
#include "master/shortages.h"
#include "master/links.h"
#include "master/output.h"
#include "master/roster.h"

#include <string.h>

/* ---- parts ---- */

static void free_part(struct pccl_master *m, struct pccl_sync_part *part)
{
    pccl_release(&m->memory, part->shapes, part->shape_count * sizeof *part->shapes);
    pccl_release(&m->memory, part->lines, part->line_count * sizeof *part->lines);
    pccl_release(&m->memory, part->line_names, part->line_count * sizeof *part->line_names);
    pccl_release(&m->memory, part, sizeof *part);
}

void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_sync_part *part = remote->sync_part;
    if (part == NULL)
        return;
    remote->sync_part = NULL;
    free_part(m, part);
}

static struct pccl_sync_part *part_of(const struct pccl_remote *remote)
{
    return remote->departing ? NULL : remote->sync_part;
}

/* ---- messages to members ---- */

static void send_round(struct pccl_master *m, struct pccl_remote *to, uint64_t round, uint8_t outcome)
{
    const struct pccl_peer_group *group = to->group;
    bool withdrawn = outcome == PCCL_ROUND_WITHDRAWN;
    struct pccl_msg msg = {.type = PCCL_MSG_round,
                           .as.round = {.kind = PCCL_ROUND_SYNC,
                                        .round = round,
                                        .outcome = outcome,
                                        .attributes = withdrawn ? pccl_master_attributes(m, group)
                                                                : group->last_attributes[PCCL_ROUND_SYNC],
                                        .revision = withdrawn ? 0 : group->sync_revision}};
    if (outcome == PCCL_ROUND_FAILED)
        msg.as.round.reason = pccl_bytes_of_text(&group->sync_reason);
    pccl_master_send(m, to, &msg, 0);
}

void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to)
{
    send_round(m, to, to->group->sync - 1, to->group->sync_outcome);
}

static void clear_where(struct pccl_remote *remote)
{
    if (remote->where.call == PCCL_CALL_SYNC)
        remote->where.call = PCCL_CALL_NONE;
}

/* Ends the round and the era of the group. */
static void conclude(struct pccl_master *m, struct pccl_peer_group *group, uint8_t outcome)
{
    uint64_t round = group->sync++;
    group->sync_planned = group->sync_proven = false;
    group->sync_outcome = outcome;
    (outcome == PCCL_ROUND_FAILED ? m->tally.rounds_failed : m->tally.rounds_done)[PCCL_ROUND_SYNC]++;
    if (outcome == PCCL_ROUND_DONE)
        group->revision = group->sync_revision + 1;
    group->last_attributes[PCCL_ROUND_SYNC] = pccl_master_attributes(m, group);
    pccl_master_mark(m, PCCL_STAGE_ERAS);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        remote->awaits_view_ack = false; /* the view can abort only operations of the era that has ended */
        remote->sole_aborts = 0;         /* these also belong to the ended era */
        bool takes_part = part_of(remote) != NULL;
        pccl_master_drop_sync_part(m, remote);
        if (!takes_part)
            continue;
        clear_where(remote);
        send_round(m, remote, round, outcome);
    }
}

static void fail(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_text *reason)
{
    group->sync_reason = *reason;
    group->sync_revision = 0;
    pccl_master_log(m, PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.reason = reason->bytes, .event = PCCL_EVENT_STATE_FAILED},
                    "the shared state of group %u was not synchronized: %s", group->number, reason->bytes);
    conclude(m, group, PCCL_ROUND_FAILED);
}

/* ---- donors ---- */

/* Returns true if the member has the elected content. Until the proof is known, this means that it voted for it. */
static bool holds(const struct pccl_peer_group *group, const struct pccl_sync_part *part)
{
    return part != NULL && !part->ballot.lacks &&
           (!group->sync_proven || part->vouches || pccl_proof_equal(&part->proof, &group->sync_proof));
}

/* Returns true if the member has all content that others may fetch. */
static bool has_all(const struct pccl_remote *remote)
{
    const struct pccl_sync_part *part = part_of(remote);
    return holds(remote->group, part) && remote->group->sync_proven && !part->vouches && !part->fetches &&
           !part->ballot.takes_unequal;
}

static bool gives(const struct pccl_remote *remote)
{
    return has_all(remote) && pccl_ballot_gives(&remote->sync_part->ballot);
}

static bool knows_donor(const struct pccl_sync_part *part, const struct pccl_id *donor)
{
    return pccl_id_find(part->donors, part->donor_count, donor) < part->donor_count;
}

static void name_donor(struct pccl_master *m, struct pccl_remote *to, const struct pccl_remote *donor)
{
    struct pccl_sync_part *part = to->sync_part;
    PCCL_ASSERT(to->group->sync_proven && part->donor_count < PCCL_STATE_DONORS_MAX);
    struct pccl_address addresses[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(donor, addresses);
    struct pccl_msg msg = {.type = PCCL_MSG_sync_donor,
                           .as.sync_donor = {.round = to->group->sync,
                                             .peer = donor->id,
                                             .ticket = pccl_ticket(&donor->link_key, &to->id, &donor->id),
                                             .holds_unequal = donor->sync_part->holds_unequal,
                                             .reversed = pccl_master_is_reversed(to, donor),
                                             .proof = to->group->sync_proof,
                                             .candidates = addresses,
                                             .candidates_count = count}};
    part->donors[part->donor_count++] = donor->id;
    pccl_master_send(m, to, &msg, 0);
}

/* Members from which a member with a closed port can fetch, now or later. */
struct within_reach {
    bool donors, members; /* members: also those that only receive */
};

static struct within_reach reach_of(const struct pccl_remote *to)
{
    const struct pccl_peer_group *group = to->group;
    struct within_reach reach = {false, false};
    for (uint32_t i = 0; !to->verified && i < group->ring_count; i++) {
        const struct pccl_remote *other = group->ring[i];
        const struct pccl_sync_part *part = other != to ? part_of(other) : NULL;
        if (part == NULL || pccl_master_are_apart(to, other) || !(part->fetches || part->vouches || has_all(other)))
            continue;
        reach.members = true;
        reach.donors = reach.donors || part->ballot.strategy != PCCL_RECEIVE_ONLY;
    }
    return reach;
}

/*
 * Returns true if the member may fetch from this donor. If all donors are apart from it, members that only receive pass
 * on the fetched content; if it can link to no member, it tries the donors.
 */
static bool may_fetch_from(const struct pccl_remote *to, const struct pccl_remote *donor,
                           const struct within_reach *reach)
{
    if (!pccl_master_are_apart(to, donor))
        return gives(donor) || (!to->verified && !reach->donors && has_all(donor));
    return gives(donor) && !reach->members && to->sync_part->donor_count == 0;
}

/*
 * Names more donors to a member that fetches, up to the limit. Starts at the member's own position in the ring, so that
 * many requesters spread over many donors. If the member also takes tensors that may differ, donors that have those
 * come first, because others cannot provide them.
 */
static void name_donors(struct pccl_master *m, struct pccl_remote *to)
{
    const struct pccl_peer_group *group = to->group;
    struct pccl_sync_part *part = to->sync_part;
    const struct within_reach reach = reach_of(to);
    for (int pass = part->ballot.takes_unequal ? 0 : 1; pass < 2; pass++) {
        for (uint32_t i = 1; i < group->ring_count && part->donor_count < PCCL_STATE_DONORS_MAX; i++) {
            const struct pccl_remote *donor = group->ring[(to->position + i) % group->ring_count];
            if (may_fetch_from(to, donor, &reach) && !knows_donor(part, &donor->id) &&
                (pass == 1 || donor->sync_part->holds_unequal))
                name_donor(m, to, donor);
        }
    }
}

/* Removes dead donors, so that others can be named. */
static void forget_dead_donors(const struct pccl_master *m, struct pccl_sync_part *part)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < part->donor_count; k++) {
        const struct pccl_remote *donor = pccl_master_find(m, &part->donors[k]);
        if (donor != NULL && !donor->departing)
            part->donors[kept++] = part->donors[k];
    }
    part->donor_count = kept;
}

/* ---- election ---- */

static void expel(struct pccl_master *m, const struct pccl_peer_group *group, const struct pccl_election *election)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        struct pccl_text reason;
        if (remote->sync_part->ballot.expelled == PCCL_NOT_EXPELLED)
            continue;
        pccl_describe_expulsion(&reason, &remote->sync_part->ballot, election);
        if (remote->sync_part->ballot.expelled == PCCL_EXPELLED_OTHER_LIST)
            pccl_master_name_difference(group, remote->sync_part, group->ring[election->winner]->sync_part, &reason);
        pccl_master_remove(m, remote, PCCL_REFUSAL_STATE, "%s", reason.bytes);
    }
}

/* Sends every member its part in the plan, unless no member must fetch and the round can end. */
static void plan(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_election *election)
{
    PCCL_ASSERT(!group->sync_planned && election->winner < group->ring_count);
    const struct pccl_digest content = group->ring[election->winner]->sync_part->ballot.content;
    bool any = false;
    group->sync_planned = true;
    group->sync_proven = false;
    group->sync_revision = election->revision;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_sync_part *part = group->ring[i]->sync_part;
        part->fetches = part->ballot.lacks || part->ballot.takes_unequal;
        any = any || part->fetches;
    }
    for (uint32_t i = 0; any && i < group->ring_count; i++) {
        struct pccl_sync_part *part = group->ring[i]->sync_part;
        part->vouches = !part->ballot.lacks;
        struct pccl_msg msg = {.type = PCCL_MSG_sync_plan,
                               .as.sync_plan = {.round = group->sync,
                                                .revision = election->revision,
                                                .requests = part->fetches,
                                                .takes_unequal = part->ballot.takes_unequal,
                                                .content = content}};
        pccl_master_send(m, group->ring[i], &msg, 0);
    }
}

static void elect(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(group->ring_count > 0);
    struct pccl_text reason;
    /* the member that cannot take part may be the one with the state */
    if (pccl_master_some_are_unable(group, PCCL_ROUND_SYNC, &reason)) {
        fail(m, group, &reason);
        return;
    }
    size_t bytes = group->ring_count * sizeof(struct pccl_ballot);
    struct pccl_ballot *ballots = pccl_allocate(&m->memory, bytes);
    if (ballots == NULL) {
        pccl_text_format(&reason, "the master ran out of memory");
        fail(m, group, &reason);
        return;
    }
    for (uint32_t i = 0; i < group->ring_count; i++)
        ballots[i] = group->ring[i]->sync_part->ballot;
    struct pccl_election election = pccl_elect(ballots, group->ring_count, group->revision);
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->sync_part->ballot = ballots[i];
    pccl_release(&m->memory, ballots, bytes);
    if (election.end == PCCL_NONE_ELECTED)
        fail(m, group, &election.reason);
    else if (election.end == PCCL_ELECTED)
        plan(m, group, &election);
    else
        expel(m, group, &election);
}

/* ---- the proof of the elected content ---- */

/*
 * Support for one proof: the number of members with the elected content, of members whose proof is pending, and of
 * members that sent this proof.
 */
struct backing {
    uint32_t brought, pending, same, veterans;
    struct pccl_id least; /* lowest peer id among the members that sent this proof */
};

static struct backing backing_of(const struct pccl_peer_group *group, const struct pccl_proof *proof)
{
    struct backing backing = {0};
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_sync_part *part = part_of(group->ring[i]);
        if (part == NULL || part->ballot.lacks)
            continue;
        backing.brought++;
        backing.pending += part->vouches;
        if (part->vouches || !pccl_proof_equal(&part->proof, proof))
            continue;
        if (backing.same == 0 || pccl_id_compare(&part->ballot.peer, &backing.least) < 0)
            backing.least = part->ballot.peer;
        backing.same++;
        backing.veterans += !part->ballot.fresh;
    }
    return backing;
}

/* Returns true if `a` wins. As in the election: more members, then more that are not fresh, then the lower id. */
static bool backs_more(const struct backing *a, const struct backing *b)
{
    if (a->same != b->same)
        return a->same > b->same;
    if (a->veterans != b->veterans)
        return a->veterans > b->veterans;
    return pccl_id_compare(&a->least, &b->least) < 0;
}

static void report_if_odd(struct pccl_master *m, const struct pccl_peer_group *group, const struct pccl_remote *remote)
{
    const struct pccl_sync_part *part = part_of(remote);
    if (part == NULL || part->vouches || part->ballot.lacks || holds(group, part))
        return;
    pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &remote->id, .event = PCCL_EVENT_STATE_FAILED},
                    "peer %s cannot be a donor: its content differs from the majority's although the digest is equal",
                    pccl_id_str(&remote->id));
}

/*
 * Returns true if the proof is known: more than half of the members with the content have sent it, or all of them have
 * sent proofs and it is the most frequent one.
 */
static bool find_proof(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct backing best = {0};
    struct pccl_proof proof = {0};
    for (uint32_t i = 0; i < group->ring_count && !group->sync_proven; i++) {
        const struct pccl_sync_part *part = part_of(group->ring[i]);
        if (part == NULL || part->ballot.lacks || part->vouches || pccl_proof_is_zero(&part->proof))
            continue;
        struct backing backing = backing_of(group, &part->proof);
        if (best.same == 0 || backs_more(&backing, &best)) {
            best = backing;
            proof = part->proof;
        }
    }
    if (group->sync_proven)
        return true;
    if (best.same == 0 || (best.pending > 0 && best.same <= best.brought / 2))
        return false;
    group->sync_proven = true;
    group->sync_proof = proof;
    for (uint32_t i = 0; i < group->ring_count; i++)
        report_if_odd(m, group, group->ring[i]);
    return true;
}

/* ---- progress of a round ---- */

static bool all_have_voted(const struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (group->ring[i]->sync_part == NULL)
            return false;
    return group->ring_count > 0;
}

/*
 * Names donors to members that fetch. `only` is a member that has just become a donor; NULL after the election or a
 * departure, when any donors may be named.
 */
static void name_to_all(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only,
                        uint32_t givers)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_sync_part *part = part_of(group->ring[i]);
        if (part == NULL || !part->fetches)
            continue;
        if (only == NULL)
            forget_dead_donors(m, part);
        if (part->donor_count == givers || part->donor_count == PCCL_STATE_DONORS_MAX)
            continue; /* it knows all donors or has enough */
        const struct within_reach reach = reach_of(group->ring[i]);
        if (only == NULL)
            name_donors(m, group->ring[i]);
        else if (only != group->ring[i] && may_fetch_from(group->ring[i], only, &reach))
            name_donor(m, group->ring[i], only);
    }
}

static void go_on(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only)
{
    bool any_part = false, any_fetches = false, any_holds = false, any_vouches = false;
    uint32_t givers = 0;
    if (!group->sync_proven && find_proof(m, group))
        only = NULL; /* any member may be a donor now */
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_sync_part *part = part_of(group->ring[i]);
        any_part = any_part || part != NULL;
        any_fetches = any_fetches || (part != NULL && part->fetches);
        givers += gives(group->ring[i]);
        any_holds = any_holds || holds(group, part);
        any_vouches = any_vouches || (part != NULL && part->vouches);
    }
    if (!any_part) {
        group->sync_planned = group->sync_proven = false; /* all voters have left, so the round starts over */
        return;
    }
    if (any_fetches && givers == 0 && any_vouches)
        return; /* some proofs are still pending */
    if (any_fetches ? givers == 0 : !any_holds) {
        struct pccl_text reason;
        pccl_text_format(&reason, "all members that had the elected shared state have left");
        fail(m, group, &reason);
        return;
    }
    if (!any_fetches) {
        conclude(m, group, PCCL_ROUND_DONE);
        return;
    }
    name_to_all(m, group, only, givers);
}

/* Advances a due round. If a peer has departed, the round stays due, because the view is created first. */
static void decide(struct pccl_master *m, struct pccl_peer_group *group)
{
    if (!group->sync_planned && all_have_voted(group))
        elect(m, group);
    if (m->departing_count > 0)
        return;
    const struct pccl_remote *only = group->sync_news;
    group->sync_due = false;
    group->sync_news = NULL;
    if (group->sync_planned)
        go_on(m, group, only);
}

void pccl_master_decide_syncs(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count && !m->recovering && m->departing_count == 0; i++)
        if (m->groups[i]->sync_due)
            decide(m, m->groups[i]);
}

void pccl_master_note_sync(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only)
{
    group->sync_news = group->sync_due ? NULL : only;
    group->sync_due = true;
    pccl_master_mark(m, PCCL_STAGE_SYNCS);
}

/* ---- messages ---- */

static bool is_of_open_round(struct pccl_master *m, struct pccl_remote *from, uint64_t round)
{
    if (round == from->group->sync)
        return true;
    if (pccl_master_is_last_round(round, from->group->sync))
        pccl_master_answer_sync(m, from);
    else
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it voted in a round that is not open");
    return false;
}

/* Handles a vote. The last vote triggers the election. */
static void take_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_vote *vote)
{
    struct pccl_peer_group *group = from->group;
    if (!is_of_open_round(m, from, vote->round))
        return;
    if (from->sync_part != NULL || group->sync_planned) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it voted twice");
        return;
    }
    struct pccl_sync_part *part = pccl_allocate(&m->memory, sizeof *part);
    if (part == NULL || !pccl_master_keep_shapes(m, group, part, vote)) {
        if (part != NULL)
            free_part(m, part);
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for its vote");
        return;
    }
    part->ballot = (struct pccl_ballot){.peer = from->id,
                                        .revision = vote->revision,
                                        .strategy = vote->strategy,
                                        .fresh = vote->fresh != 0,
                                        .torn = vote->torn != 0,
                                        .unequal = vote->unequal != 0,
                                        .structure = vote->structure,
                                        .content = vote->content};
    part->holds_unequal = vote->fresh == 0;
    pccl_master_note_ability(m, from, PCCL_ROUND_SYNC, vote->unable);
    from->sync_part = part;
    from->voted_us[PCCL_ROUND_SYNC] = m->now_us;
    pccl_master_note_sync(m, group, NULL);
}

/* Handles the proof of a member that voted for the elected content. */
static void take_proof(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_proof *proof)
{
    struct pccl_peer_group *group = from->group;
    struct pccl_sync_part *part = from->sync_part;
    if (pccl_master_is_last_round(proof->round, group->sync))
        return; /* the round has ended without this proof */
    if (proof->round != group->sync || part == NULL || !part->vouches) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it confirmed content that it was not asked to confirm");
        return;
    }
    part->vouches = false;
    part->proof = proof->proof;
    report_if_odd(m, group, from);
    pccl_master_note_sync(m, group, from);
}

/* Handles the end of a fetch, successful or not. */
static void take_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_done *done)
{
    struct pccl_peer_group *group = from->group;
    struct pccl_sync_part *part = from->sync_part;
    if (pccl_master_is_last_round(done->round, group->sync))
        return; /* the round has ended without this member */
    if (done->round != group->sync || part == NULL || !part->fetches) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it reported a fetch that was not requested");
        return;
    }
    bool takes_unequal = part->ballot.takes_unequal;
    part->fetches = false;
    part->failed = done->failed != 0;
    *(part->failed ? &m->tally.fetches_failed : &m->tally.fetches) += 1;
    part->ballot.lacks = part->ballot.lacks && part->failed;
    part->ballot.takes_unequal = part->ballot.takes_unequal && part->failed;
    part->holds_unequal = part->holds_unequal || (takes_unequal && !part->failed);
    if (part->failed) {
        part->vouches = false; /* its proof is no longer awaited */
    } else if (!part->vouches) {
        part->proof = group->sync_proof;
    }
    if (!part->failed) {
        pccl_master_log(m, PCCL_LOG_DEBUG,
                        &(struct pccl_log_fields){.peer = &from->id, .event = PCCL_EVENT_STATE_FETCHED},
                        "peer %s fetched the shared state of group %u", pccl_id_str(&from->id), group->number);
    } else {
        struct pccl_text reason;
        pccl_text_clear(&reason);
        pccl_text_add_bytes(&reason, (const char *)done->reason.data, done->reason.length);
        pccl_master_log(
            m, PCCL_LOG_WARN,
            &(struct pccl_log_fields){.peer = &from->id, .reason = reason.bytes, .event = PCCL_EVENT_STATE_FAILED},
            "peer %s could not fetch the shared state: %s", pccl_id_str(&from->id), reason.bytes);
    }
    pccl_master_note_sync(m, group, part->failed ? NULL : from);
}

void pccl_master_sync_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_sync_vote)
        take_vote(m, from, &msg->as.sync_vote);
    else if (msg->type == PCCL_MSG_sync_proof)
        take_proof(m, from, &msg->as.sync_proof);
    else
        take_done(m, from, &msg->as.sync_done);
}

/* Withdraws a vote before the election. After the election the round must end first. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round)
{
    if (round != from->group->sync || from->sync_part == NULL || from->group->sync_planned)
        return;
    pccl_master_drop_sync_part(m, from);
    clear_where(from);
    send_round(m, from, round, PCCL_ROUND_WITHDRAWN);
}

/* ---- for where.c and pages ---- */

bool pccl_master_has_voted_sync(const struct pccl_remote *remote)
{
    return remote->sync_part != NULL && !remote->sync_part->fetches && !remote->sync_part->vouches;
}

bool pccl_master_is_fetching(const struct pccl_remote *remote)
{
    return remote->sync_part != NULL && (remote->sync_part->fetches || remote->sync_part->vouches);
}

uint32_t pccl_master_donor_count(const struct pccl_remote *remote)
{
    return remote->sync_part != NULL ? remote->sync_part->donor_count : 0;
}
