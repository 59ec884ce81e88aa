/*
 * S1-S5: the synchronization of shared state. The checker receives every vote that the master receives, and holds the
 * election itself; it knows the content of each caller's memory.
 */
#include "master/rounds_election.h"
#include "master/roster.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* Vote of one member in one life of the master. */
struct sync_ballot {
    struct sync_ballot *next;
    struct sim_peer *peer;
    uint64_t boot;
    struct pccl_msg_sync_vote vote; /* without its list */
    bool done, failed;              /* completion of the plan's request */
    bool planned;                   /* has a plan, with the elected content: */
    struct pccl_digest elected;
    bool takes_unequal; /* ... and to fetch all tensors */
};
/* One election of one life of the master. */
struct sync_election {
    struct sync_election *next;
    uint64_t boot, revision;
    struct pccl_digest content;
};
/* End of one peer's call. */
struct sync_return {
    struct sync_return *next;
    struct sim_peer *peer;
    uint8_t outcome;
    enum pccl_status status;
    uint64_t content, revision;
    struct pccl_epoch epoch;
};
struct sync_round {
    struct sync_round *next;
    struct pccl_id lineage;
    uint32_t group;
    uint64_t number;
    struct sync_ballot *ballots;
    struct sync_election *elections;
    struct sync_return *returns;
};
/* State of a group of the master after the last step. */
struct sync_shadow {
    struct sync_shadow *next;
    uint64_t boot;
    struct pccl_id lineage;
    uint32_t group;
    uint64_t sync, revision;
    bool planned;
};

static void *make(size_t bytes)
{
    void *made = calloc(1, bytes);
    if (made == NULL)
        abort();
    return made;
}

static bool same(const struct pccl_digest *a, const struct pccl_digest *b)
{
    return a->low == b->low && a->high == b->high;
}

static struct sync_round *round_of(struct sim *sim, const struct pccl_id *lineage, uint32_t group, uint64_t number)
{
    struct sync_round *round = sim->checks->sync_rounds;
    while (round != NULL &&
           !(round->number == number && round->group == group && pccl_id_equal(&round->lineage, lineage)))
        round = round->next;
    if (round != NULL)
        return round;
    round = make(sizeof *round);
    *round =
        (struct sync_round){.next = sim->checks->sync_rounds, .lineage = *lineage, .group = group, .number = number};
    sim->checks->sync_rounds = round;
    return round;
}

static struct sync_ballot *ballot_of(const struct sync_round *round, uint64_t boot, const struct sim_peer *peer)
{
    struct sync_ballot *ballot = round->ballots;
    while (ballot != NULL && !(ballot->peer == peer && ballot->boot == boot))
        ballot = ballot->next;
    return ballot;
}

static const struct sync_election *election_of(const struct sync_round *round, uint64_t boot)
{
    const struct sync_election *election = round->elections;
    while (election != NULL && election->boot != boot)
        election = election->next;
    return election;
}

static bool holds(const struct sim_peer *peer, const struct pccl_digest *content)
{
    struct pccl_digest mine = sim_state_shown(&peer->state);
    return !peer->state.torn && same(&mine, content);
}

/* ---- messages ---- */

void sim_check_sync_said(struct sim *sim, struct sim_peer *peer, const struct pccl_msg *msg)
{
    const struct pccl_msg_sync_vote *vote = &msg->as.sync_vote;
    if (vote->unable.length == 0 && !vote->torn && !holds(peer, &vote->content))
        sim_fail(sim, "S3 p%u votes for a content that it does not hold", peer->process.number);
}

void sim_check_sync_heard(struct sim *sim, const struct sim_master *master, struct sim_peer *from,
                          const struct pccl_msg *msg)
{
    const struct pccl_master *m = master->machine;
    const struct pccl_remote *remote = pccl_master_find(m, &from->id);
    uint64_t boot = master->config.boot;
    if (remote == NULL || !pccl_master_is_living_member(remote))
        return;
    uint64_t open = remote->group->sync;
    struct sync_round *round;
    struct sync_ballot *ballot;
    switch (msg->type) {
    case PCCL_MSG_sync_vote:
        if (msg->as.sync_vote.round != open)
            return;
        round = round_of(sim, &m->lineage, from->group, open);
        ballot = ballot_of(round, boot, from);
        if (ballot == NULL) {
            ballot = make(sizeof *ballot);
            ballot->next = round->ballots;
            round->ballots = ballot;
        }
        *ballot = (struct sync_ballot){.next = ballot->next, .peer = from, .boot = boot, .vote = msg->as.sync_vote};
        ballot->vote.shapes = NULL;
        ballot->vote.lines = NULL;
        break;
    case PCCL_MSG_withdraw:
        round = round_of(sim, &m->lineage, from->group, open);
        ballot = ballot_of(round, boot, from);
        if (msg->as.withdraw.kind == PCCL_ROUND_SYNC && msg->as.withdraw.round == open && ballot != NULL &&
            !remote->group->sync_planned)
            ballot->boot = 0; /* void */
        break;
    case PCCL_MSG_sync_done:
        round = round_of(sim, &m->lineage, from->group, open);
        ballot = ballot_of(round, boot, from);
        if (msg->as.sync_done.round == open && ballot != NULL) {
            ballot->done = true;
            ballot->failed = msg->as.sync_done.failed != 0;
        }
        break;
    default: break;
    }
}

/* ---- S1: elections ---- */

static bool may_win(const struct pccl_msg_sync_vote *vote, uint64_t revision)
{
    return !vote->torn && vote->strategy != PCCL_RECEIVE_ONLY && vote->revision == revision;
}

/* Rank of a content: votes, then long-standing members, then the lowest id. */
struct support {
    uint32_t votes, veterans;
    const struct sync_ballot *lowest;
};

static struct support support_of(const struct sync_ballot *const *ballots, uint32_t count, uint32_t of,
                                 uint64_t revision)
{
    struct support support = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!may_win(&ballots[i]->vote, revision) || !same(&ballots[i]->vote.content, &ballots[of]->vote.content) ||
            !same(&ballots[i]->vote.structure, &ballots[of]->vote.structure))
            continue;
        support.votes++;
        support.veterans += !ballots[i]->vote.fresh;
        if (support.lowest == NULL || pccl_id_compare(&ballots[i]->peer->id, &support.lowest->peer->id) < 0)
            support.lowest = ballots[i];
    }
    return support;
}

static bool is_stronger(const struct support *a, const struct support *b)
{
    if (b->lowest == NULL || a->votes != b->votes)
        return b->lowest == NULL || a->votes > b->votes;
    if (a->veterans != b->veterans)
        return a->veterans > b->veterans;
    return pccl_id_compare(&a->lowest->peer->id, &b->lowest->peer->id) < 0;
}

/* Collects the votes of all members, which must have voted. */
static uint32_t collect(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                        const struct sync_round *round, const struct sync_ballot **ballots)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct sim_peer *peer = sim_peer_find(sim, &group->ring[i]->id);
        ballots[i] = ballot_of(round, master->config.boot, peer);
        if (ballots[i] == NULL)
            sim_fail(sim, "S1 group %u decides round %llu without the vote of p%u", group->number,
                     (unsigned long long)round->number, peer->process.number);
    }
    return group->ring_count;
}

/* Returns true if a member reports that it cannot take part. */
static bool is_void(const struct sync_ballot *const *ballots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ballots[i]->vote.unable.length > 0)
            return true;
    return false;
}

/* Returns the elected ballot, or NULL if no content can be elected. */
static const struct sync_ballot *elect(const struct sync_ballot *const *ballots, uint32_t count, uint64_t revision)
{
    struct support best = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!may_win(&ballots[i]->vote, revision))
            continue;
        struct support support = support_of(ballots, count, i, revision);
        if (is_stronger(&support, &best))
            best = support;
    }
    return best.lowest;
}

static uint64_t due_revision(const struct sync_shadow *before, const struct sync_ballot *const *ballots, uint32_t count)
{
    uint64_t revision = before->revision;
    for (uint32_t i = 0; before->revision == 0 && i < count; i++)
        if (!ballots[i]->vote.torn && ballots[i]->vote.strategy != PCCL_RECEIVE_ONLY)
            revision = pccl_max_u64(revision, ballots[i]->vote.revision);
    return revision;
}

/* Checks that no member is left with a vote that requires its removal. */
static void check_fit(struct sim *sim, const struct sync_ballot *const *ballots, uint32_t count,
                      const struct sync_ballot *winner, uint64_t next)
{
    bool enforcing = false;
    for (uint32_t i = 0; i < count; i++)
        enforcing = enforcing || ballots[i]->vote.strategy == PCCL_ENFORCE_POPULAR;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_msg_sync_vote *vote = &ballots[i]->vote;
        const char *why =
            next != 0 && vote->revision > next                    ? "a revision too high"
            : enforcing && vote->strategy != PCCL_ENFORCE_POPULAR ? "another strategy"
            : !same(&vote->structure, &winner->vote.structure)    ? "other tensors"
            : vote->strategy == PCCL_SEND_ONLY && (vote->torn || !same(&vote->content, &winner->vote.content) ||
                                                   vote->revision != winner->vote.revision)
                ? "something to receive, and it only sends"
                : NULL;
        if (why != NULL)
            sim_fail(sim, "S5 p%u stays in with %s", ballots[i]->peer->process.number, why);
    }
}

static bool fetches(const struct sync_ballot *ballot, const struct sync_election *election)
{
    return ballot->vote.torn || !same(&ballot->vote.content, &election->content);
}

/* Repeats the master's election. */
static const struct sync_election *check_election(struct sim *sim, const struct sim_master *master,
                                                  const struct pccl_peer_group *group, const struct sync_shadow *before)
{
    const struct sync_ballot *ballots[SIM_PEERS_MAX];
    struct sync_round *round = round_of(sim, &master->machine->lineage, group->number, before->sync);
    uint32_t count = collect(sim, master, group, round, ballots);
    uint64_t revision = due_revision(before, ballots, count);
    if (is_void(ballots, count))
        sim_fail(sim, "S1 group %u decides round %llu without somebody who cannot take part", group->number,
                 (unsigned long long)before->sync);
    const struct sync_ballot *winner = elect(ballots, count, revision);
    if (winner == NULL || group->sync_revision != revision)
        sim_fail(sim, "S1 group %u elects revision %llu in round %llu, which nobody offers", group->number,
                 (unsigned long long)group->sync_revision, (unsigned long long)before->sync);
    check_fit(sim, ballots, count, winner, before->revision);
    for (uint32_t i = 0; i < count; i++)
        if (ballots[i]->planned && !same(&ballots[i]->elected, &winner->vote.content))
            sim_fail(sim, "S1 p%u is told of another content than was elected", ballots[i]->peer->process.number);
    struct sync_election *election = make(sizeof *election);
    *election = (struct sync_election){
        .next = round->elections, .boot = master->config.boot, .revision = revision, .content = winner->vote.content};
    round->elections = election;
    sim->totals.elections++;
    return election;
}

/* ---- S3, S4: the end of a round ---- */

static void check_done(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                       const struct sync_shadow *before, const struct sync_election *election)
{
    const struct sync_round *round = round_of(sim, &master->machine->lineage, group->number, before->sync);
    bool any = false;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct sim_peer *peer = sim_peer_find(sim, &group->ring[i]->id);
        const struct sync_ballot *ballot = ballot_of(round, master->config.boot, peer);
        if (ballot == NULL || group->ring[i]->departing)
            continue;
        if (fetches(ballot, election) && !ballot->done)
            sim_fail(sim, "S3 round %llu of group %u ends while p%u fetches", (unsigned long long)before->sync,
                     group->number, peer->process.number);
        if (ballot->failed && fetches(ballot, election))
            continue;
        any = true;
        if (peer->process.alive && peer->machine != NULL && peer->machine->state == PCCL_PEER_MEMBER &&
            peer->machine->rounds[PCCL_ROUND_SYNC] == before->sync && !holds(peer, &election->content))
            sim_fail(sim, "S3 round %llu of group %u is done, and p%u does not hold what was elected",
                     (unsigned long long)before->sync, group->number, peer->process.number);
    }
    if (!any)
        sim_fail(sim, "S3 round %llu of group %u is done, and nobody holds what was elected",
                 (unsigned long long)before->sync, group->number);
    if (group->revision != election->revision + 1)
        sim_fail(sim, "S4 group %u has elected revision %llu and goes on with %llu", group->number,
                 (unsigned long long)election->revision, (unsigned long long)group->revision);
}

static void check_failed(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                         const struct sync_shadow *before)
{
    const struct sync_ballot *ballots[SIM_PEERS_MAX];
    const struct sync_round *round = round_of(sim, &master->machine->lineage, group->number, before->sync);
    uint32_t count = collect(sim, master, group, round, ballots);
    const struct sync_election *election = election_of(round, master->config.boot);
    if (group->revision != before->revision)
        sim_fail(sim, "S4 round %llu of group %u failed and moved the revision", (unsigned long long)before->sync,
                 group->number);
    if (!before->planned) {
        if (!is_void(ballots, count) && elect(ballots, count, due_revision(before, ballots, count)) != NULL)
            sim_fail(sim, "S1 round %llu of group %u failed, and somebody could have been elected",
                     (unsigned long long)before->sync, group->number);
        return;
    }
    for (uint32_t i = 0; election != NULL && i < count; i++)
        if (ballots[i]->vote.strategy != PCCL_RECEIVE_ONLY && !fetches(ballots[i], election) &&
            (!ballots[i]->vote.fresh || !ballots[i]->vote.unequal))
            sim_fail(sim, "S3 round %llu of group %u failed although p%u holds what was elected",
                     (unsigned long long)before->sync, group->number, ballots[i]->peer->process.number);
}

/* Checks a round that has not taken place, because all voters are gone. */
static void check_abandoned(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                            struct sync_round *round)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (ballot_of(round, master->config.boot, sim_peer_find(sim, &group->ring[i]->id)) != NULL)
            sim_fail(sim, "S1 group %u forgets its election", group->number);
    for (struct sync_ballot *ballot = round->ballots; ballot != NULL; ballot = ballot->next)
        ballot->boot = ballot->boot == master->config.boot ? 0 : ballot->boot;
    for (struct sync_election *election = round->elections; election != NULL; election = election->next)
        election->boot = election->boot == master->config.boot ? 0 : election->boot;
}

static void check_group(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                        const struct sync_shadow *before)
{
    struct sync_round *round = round_of(sim, &master->machine->lineage, group->number, before->sync);
    if (group->sync == before->sync) {
        if (group->revision != before->revision)
            sim_fail(sim, "S4 the revision of group %u moves in the middle of a round", group->number);
        if (group->sync_planned && !before->planned)
            (void)check_election(sim, master, group, before);
        if (!group->sync_planned && before->planned)
            check_abandoned(sim, master, group, round);
        return;
    }
    if (group->sync != before->sync + 1)
        sim_fail(sim, "S4 group %u jumps from round %llu to %llu", group->number, (unsigned long long)before->sync,
                 (unsigned long long)group->sync);
    if (group->sync_outcome == PCCL_ROUND_FAILED) {
        check_failed(sim, master, group, before);
        return;
    }
    const struct sync_election *election =
        before->planned ? election_of(round, master->config.boot) : check_election(sim, master, group, before);
    if (election != NULL)
        check_done(sim, master, group, before, election);
}

static struct sync_shadow *shadow_of(struct sim *sim, const struct sim_master *master, uint32_t group)
{
    struct sync_shadow *shadow = sim->checks->sync_shadows;
    while (shadow != NULL && !(shadow->boot == master->config.boot && shadow->group == group &&
                               pccl_id_equal(&shadow->lineage, &master->machine->lineage)))
        shadow = shadow->next;
    return shadow;
}

/* Checks that a restarted master continues where its members are. */
static void check_start(struct sim *sim, const struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct sim_peer *peer = sim_peer_find(sim, &group->ring[i]->id);
        if (sim_is_survivor(sim, peer) &&
            (peer->machine->revision > group->revision || peer->machine->rounds[PCCL_ROUND_SYNC] > group->sync))
            sim_fail(sim, "S4 the master goes back to round %llu, revision %llu, and p%u is at %llu, %llu",
                     (unsigned long long)group->sync, (unsigned long long)group->revision, peer->process.number,
                     (unsigned long long)peer->machine->rounds[PCCL_ROUND_SYNC],
                     (unsigned long long)peer->machine->revision);
    }
}

void sim_check_syncs(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    for (uint32_t i = 0; i < m->group_count; i++) {
        const struct pccl_peer_group *group = m->groups[i];
        struct sync_shadow *shadow = shadow_of(sim, master, group->number);
        if (shadow == NULL) {
            shadow = make(sizeof *shadow);
            *shadow = (struct sync_shadow){.next = sim->checks->sync_shadows,
                                           .boot = master->config.boot,
                                           .lineage = m->lineage,
                                           .group = group->number,
                                           .sync = group->sync,
                                           .revision = group->revision};
            sim->checks->sync_shadows = shadow;
            check_start(sim, group);
        }
        if (shadow->sync == group->sync && shadow->planned == group->sync_planned &&
            shadow->revision == group->revision)
            continue;
        if (sim->oom_at == 0 || sim->faults_stopped)
            check_group(sim, master, group, shadow);
        shadow->sync = group->sync;
        shadow->revision = group->revision;
        shadow->planned = group->sync_planned;
    }
}

/* ---- messages to members ---- */

static void told_plan(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                      const struct pccl_msg_sync_plan *plan)
{
    const struct sync_round *round = round_of(sim, &master->machine->lineage, to->group, plan->round);
    const struct sync_election *election = election_of(round, master->config.boot);
    struct sync_ballot *ballot = ballot_of(round, master->config.boot, to);
    if (ballot == NULL)
        sim_fail(sim, "S1 p%u is told of an election that it has no vote in", to->process.number);
    if (election != NULL && !same(&election->content, &plan->content))
        sim_fail(sim, "S1 p%u is told of another content than was elected", to->process.number);
    ballot->planned = true;
    ballot->elected = plan->content;
    ballot->takes_unequal = plan->takes_unequal != 0;
    if (plan->requests && ballot->vote.strategy == PCCL_SEND_ONLY)
        sim_fail(sim, "S5 p%u only sends, and is to fetch", to->process.number);
    if (plan->takes_unequal && (!ballot->vote.fresh || !ballot->vote.unequal || !plan->requests))
        sim_fail(sim, "S5 p%u is to fetch tensors that are its own", to->process.number);
    bool lacks = ballot->vote.torn || !same(&ballot->vote.content, &plan->content);
    if ((plan->requests != 0) != (lacks || plan->takes_unequal != 0))
        sim_fail(sim, "S3 p%u is told to %s, and it should not", to->process.number,
                 plan->requests ? "fetch" : "serve");
}

/* Checks a donor when it is sent, unless the message waited for a connection. */
static void told_donor(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                       const struct pccl_msg_sync_donor *donor)
{
    const struct sync_round *round = round_of(sim, &master->machine->lineage, to->group, donor->round);
    const struct sync_ballot *mine = ballot_of(round, master->config.boot, to);
    const struct sim_peer *from = sim_peer_find(sim, &donor->peer);
    const struct pccl_remote *remote = pccl_master_find(master->machine, &donor->peer);
    const struct sync_ballot *ballot = ballot_of(round, master->config.boot, from);
    bool passes_on = to->process.wall != SIM_WHOLE; /* its donors may be out of its reach */
    if (ballot == NULL || (ballot->vote.strategy == PCCL_RECEIVE_ONLY && !passes_on))
        sim_fail(sim, "S3 p%u is to fetch from p%u, who offers nothing", to->process.number, from->process.number);
    const struct pccl_sync_call *call = from->machine != NULL ? &from->machine->sync : NULL;
    bool has_got_them = call != NULL && call->complete && call->plan.takes_unequal;
    if (donor->holds_unequal && ballot->vote.fresh && call != NULL && !has_got_them)
        sim_fail(sim, "S3 p%u is to fetch from p%u what that does not hold", to->process.number, from->process.number);
    if (remote == NULL || mine == NULL || !from->process.alive || from->machine->state != PCCL_PEER_MEMBER ||
        from->machine->rounds[PCCL_ROUND_SYNC] != donor->round)
        return;
    if (!mine->planned || !holds(from, &mine->elected))
        sim_fail(sim, "S3 p%u is to fetch from p%u, who does not hold what was elected", to->process.number,
                 from->process.number);
}

/* Checks that most members that brought the elected content, and do not lie, have sent this proof. */
static void told_proof(struct sim *sim, struct sim_peer *to, const struct pccl_msg_sync_donor *donor)
{
    const struct sim_peer *from = sim_peer_find(sim, &donor->peer);
    struct pccl_proof proof = sim_state_proof(from->state.content);
    if (from->state.mimics != 0 || (!from->state.torn && !pccl_proof_equal(&proof, &donor->proof)))
        sim_fail(sim, "S3 p%u is to fetch from p%u what that proves not to hold", to->process.number,
                 from->process.number);
}

static void told_round(struct sim *sim, struct sim_peer *to, const struct pccl_msg_round *told)
{
    if (told->outcome == PCCL_ROUND_FAILED && told->reason.length == 0)
        sim_fail(sim, "S2 p%u is told of a failure without a reason", to->process.number);
}

void sim_check_sync_told(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                         const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_sync_plan)
        told_plan(sim, master, to, &msg->as.sync_plan);
    else if (msg->type == PCCL_MSG_sync_donor) {
        told_donor(sim, master, to, &msg->as.sync_donor);
        told_proof(sim, to, &msg->as.sync_donor);
    } else if (msg->as.round.kind == PCCL_ROUND_SYNC)
        told_round(sim, to, &msg->as.round);
}

/* ---- S2: results at the callers ---- */

static bool was_elected(const struct sync_round *round, const struct sim_peer *peer)
{
    for (const struct sync_election *election = round->elections; election != NULL; election = election->next)
        if (holds(peer, &election->content))
            return true;
    return false;
}

static void check_agreement(struct sim *sim, const struct sync_round *round, const struct sync_return *mine)
{
    for (const struct sync_return *other = round->returns; other != NULL; other = other->next) {
        if (other == mine || !sim_is_survivor(sim, mine->peer) || !sim_is_survivor(sim, other->peer))
            continue;
        bool both = mine->status == PCCL_OK && other->status == PCCL_OK;
        const char *what = mine->outcome != other->outcome                        ? "ended"
                           : both && mine->content != other->content              ? "left other content"
                           : both && mine->revision != other->revision            ? "left another revision"
                           : pccl_epoch_compare(&mine->epoch, &other->epoch) != 0 ? "has another epoch"
                                                                                  : NULL;
        if (what != NULL)
            sim_fail(sim, "S2 round %llu of group %u %s for p%u and p%u", (unsigned long long)round->number,
                     round->group, what, mine->peer->process.number, other->peer->process.number);
    }
}

/*
 * Returns true if the peer had to fetch all tensors, its memory was written, and the last plan no longer offers them:
 * its machine detects that, without a report of the transfer.
 */
static bool has_lost_unequal(const struct sim *sim, const struct sim_peer *peer)
{
    bool told = false;
    for (const struct sync_round *round = sim->checks->sync_rounds; round != NULL; round = round->next)
        for (const struct sync_ballot *ballot = round->ballots; ballot != NULL; ballot = ballot->next)
            told = told || (ballot->peer == peer && ballot->takes_unequal);
    return told && peer->state.torn && !peer->machine->sync.plan.takes_unequal;
}

static void check_status(struct sim *sim, const struct sync_round *round, const struct sync_return *mine)
{
    const struct sim_peer *peer = mine->peer;
    uint32_t number = peer->process.number;
    if (mine->outcome == PCCL_ROUND_FAILED) {
        if (mine->status != PCCL_STATE || pccl_peer_last_reason(peer->machine)->length == 0)
            sim_fail(sim, "S2 p%u: what failed for all returns %s", number, pccl_status_name(mine->status));
    } else if (mine->status == PCCL_OK) {
        if (!was_elected(round, peer) && sim->oom_at == 0)
            sim_fail(sim, "S3 p%u succeeds and holds what nobody has elected", number);
    } else {
        if (!peer->state.failed && !peer->machine->calls[PCCL_ROUND_SYNC].withdrawn && !has_lost_unequal(sim, peer))
            sim_fail(sim, "S2 p%u: %s, and neither did it fail nor was it given up", number,
                     pccl_status_name(mine->status));
        if (pccl_peer_last_reason(peer->machine)->length == 0)
            sim_fail(sim, "S2 p%u: a failure of its own without a reason", number);
    }
}

void sim_check_sync_returned(struct sim *sim, struct sim_peer *peer, enum pccl_status status)
{
    const struct pccl_peer *p = peer->machine;
    uint64_t asked = peer->asked_round[PCCL_ROUND_SYNC];
    if (p->state != PCCL_PEER_MEMBER)
        return;
    if (p->rounds[PCCL_ROUND_SYNC] == asked) {
        if (status == PCCL_OK || !p->calls[PCCL_ROUND_SYNC].withdrawn)
            sim_fail(sim, "S2 p%u returns from round %llu, which is not decided", peer->process.number,
                     (unsigned long long)asked);
        return;
    }
    struct sync_round *round = round_of(sim, &p->lineage, peer->group, asked);
    struct sync_return *mine = make(sizeof *mine);
    *mine = (struct sync_return){.next = round->returns,
                                 .peer = peer,
                                 .outcome = p->last_outcome[PCCL_ROUND_SYNC],
                                 .status = status,
                                 .content = peer->state.mimics ? peer->state.mimics : peer->state.content,
                                 .revision = pccl_peer_sync_revision(p),
                                 .epoch = p->last_attributes[PCCL_ROUND_SYNC].epoch};
    round->returns = mine;
    check_status(sim, round, mine);
    check_agreement(sim, round, mine);
}

/* ---- S5: removals because of the state ---- */

static const char *cause_of_refusal(const struct sim_master *master, const struct sync_round *round,
                                    const struct sync_ballot *mine, uint64_t next)
{
    bool enforcing = false, offering = false, structures = false, better = false;
    for (const struct sync_ballot *other = round->ballots; other != NULL; other = other->next) {
        if (other->boot != master->config.boot || pccl_master_find(master->machine, &other->peer->id) == NULL)
            continue;
        enforcing = enforcing || other->vote.strategy == PCCL_ENFORCE_POPULAR;
        offering = offering || other->vote.strategy != PCCL_RECEIVE_ONLY;
        structures = structures || !same(&other->vote.structure, &mine->vote.structure);
        better = better ||
                 (other->vote.strategy == PCCL_SEND_ONLY &&
                  (!same(&other->vote.content, &mine->vote.content) || other->vote.revision != mine->vote.revision));
    }
    if (next != 0 && mine->vote.revision > next)
        return "jump";
    if (enforcing && mine->vote.strategy != PCCL_ENFORCE_POPULAR)
        return "strategy";
    if (!offering)
        return "receivers";
    if (structures)
        return "structure";
    if (mine->vote.strategy == PCCL_SEND_ONLY && (mine->vote.torn || better))
        return "sender";
    return NULL;
}

void sim_check_state_refused(struct sim *sim, const struct sim_master *master, struct sim_peer *peer,
                             const char *reason)
{
    if (peer->state_judged)
        return; /* the members that caused it may be gone by now */
    peer->state_judged = true;
    const struct pccl_peer_group *group = pccl_master_group(master->machine, peer->group, false);
    const struct sync_round *round =
        group != NULL ? round_of(sim, &master->machine->lineage, peer->group, group->sync) : NULL;
    const struct sync_ballot *mine = round != NULL ? ballot_of(round, master->config.boot, peer) : NULL;
    const char *cause = mine != NULL ? cause_of_refusal(master, round, mine, group->revision) : NULL;
    const struct sim_plan *plan = &sim->plan;
    sim->totals.state_refusals++;
    if (cause == NULL)
        sim_fail(sim, "S5 p%u is removed without a cause: %s", peer->process.number, reason);
    bool orderly = plan->jump_permille == 0 && plan->odd_permille == 0 && plan->strategy_permille == 0 &&
                   plan->drift_permille == 0 && plan->lazy_permille == 0;
    if (orderly && !sim->state_by_hand && strcmp(cause, "receivers") != 0)
        sim_fail(sim, "S5 p%u is removed in a run where all do as they should: %s", peer->process.number, reason);
}

/* ---- the end ---- */

void sim_check_sync_idle(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->sync_planned)
            sim_fail(sim, "I11 the master still has an election of group %u", m->groups[i]->number);
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->sync_part != NULL)
            sim_fail(sim, "I11 the master still has a vote");
    for (const struct sync_round *round = sim->checks->sync_rounds; round != NULL; round = round->next)
        for (const struct sync_return *mine = round->returns; mine != NULL; mine = mine->next)
            check_agreement(sim, round, mine);
}

void sim_check_sync_fini(struct sim *sim)
{
    struct sim_checks *checks = sim->checks;
    while (checks->sync_rounds != NULL) {
        struct sync_round *round = checks->sync_rounds;
        checks->sync_rounds = round->next;
        while (round->ballots != NULL) {
            struct sync_ballot *ballot = round->ballots;
            round->ballots = ballot->next;
            free(ballot);
        }
        while (round->elections != NULL) {
            struct sync_election *election = round->elections;
            round->elections = election->next;
            free(election);
        }
        while (round->returns != NULL) {
            struct sync_return *returned = round->returns;
            round->returns = returned->next;
            free(returned);
        }
        free(round);
    }
    while (checks->sync_shadows != NULL) {
        struct sync_shadow *shadow = checks->sync_shadows;
        checks->sync_shadows = shadow->next;
        free(shadow);
    }
}
