/*
 * Rules of the election, in order. If a rule expels a ballot, the election ends and is repeated without that ballot.
 *  1 The revision grows by one with each synchronization. The first one may have any revision.
 *  2 Members that enforce the popular state do not mix with members that only send or only receive.
 *  3 Candidates are votes that offer their content at the group's next revision; in the first
 *    synchronization, at the highest revision offered. The content with the most votes wins; at a tie, the
 *    one with the most votes that are not fresh, and then the one with the lowest peer id.
 *  4 Members whose list of tensors differs from the winner's are expelled.
 *  5 Members that only send and do not have the elected content are expelled.
 */
#include "master/rounds_election.h"

static bool offers(const struct pccl_ballot *ballot)
{
    return ballot->strategy != PCCL_RECEIVE_ONLY && !ballot->torn && !ballot->expelled;
}

static bool brings_the_same(const struct pccl_ballot *a, const struct pccl_ballot *b)
{
    return pccl_digest_equal(&a->structure, &b->structure) && pccl_digest_equal(&a->content, &b->content);
}

bool pccl_ballot_gives(const struct pccl_ballot *ballot)
{
    return ballot->strategy != PCCL_RECEIVE_ONLY && !ballot->lacks && !ballot->takes_unequal;
}

/* ---- rules 1 and 2 ---- */

/* Returns true if a ballot is expelled, as do the functions of the other rules. */
static bool expel_jumps(struct pccl_ballot *ballots, uint32_t count, uint64_t next)
{
    bool any = false;
    for (uint32_t i = 0; next != 0 && i < count; i++) {
        if (ballots[i].revision <= next)
            continue;
        ballots[i].expelled = PCCL_EXPELLED_JUMPS;
        any = true;
    }
    return any;
}

static bool expel_other_strategies(struct pccl_ballot *ballots, uint32_t count)
{
    uint32_t enforcing = 0, receiving = 0;
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        enforcing += ballots[i].strategy == PCCL_ENFORCE_POPULAR;
        receiving += ballots[i].strategy == PCCL_RECEIVE_ONLY;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (enforcing > 0 ? ballots[i].strategy == PCCL_ENFORCE_POPULAR : receiving < count)
            continue;
        ballots[i].expelled = enforcing > 0 ? PCCL_EXPELLED_MIXES : PCCL_EXPELLED_ALL_RECEIVE;
        any = true;
    }
    return any;
}

/* ---- rule 3 ---- */

static uint64_t highest_offered(const struct pccl_ballot *ballots, uint32_t count)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < count; i++)
        if (offers(&ballots[i]))
            highest = pccl_max_u64(highest, ballots[i].revision);
    return highest;
}

/* Votes for one content, and the ballot with the lowest peer id among them. */
struct tally {
    uint32_t votes, veterans, ballot;
};

static struct tally tally_of(const struct pccl_ballot *ballots, uint32_t count, uint32_t first, uint64_t revision)
{
    struct tally tally = {.ballot = first};
    for (uint32_t i = first; i < count; i++) {
        const struct pccl_ballot *ballot = &ballots[i];
        if (!offers(ballot) || ballot->revision != revision || !brings_the_same(ballot, &ballots[first]))
            continue;
        tally.votes++;
        tally.veterans += !ballot->fresh;
        if (pccl_id_compare(&ballot->peer, &ballots[tally.ballot].peer) < 0)
            tally.ballot = i;
    }
    return tally;
}

static bool beats(const struct pccl_ballot *ballots, const struct tally *a, const struct tally *b)
{
    if (a->votes != b->votes)
        return a->votes > b->votes;
    if (a->veterans != b->veterans)
        return a->veterans > b->veterans;
    return pccl_id_compare(&ballots[a->ballot].peer, &ballots[b->ballot].peer) < 0;
}

/*
 * Finds the winner. Returns false if no candidate has this revision. A content may be tallied again from a later
 * ballot, but that tally has fewer votes, so it cannot win. Usually all members have the same content and there is one
 * tally.
 */
static bool find_winner(const struct pccl_ballot *ballots, uint32_t count, uint64_t revision, uint32_t *winner)
{
    struct tally best = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!offers(&ballots[i]) || ballots[i].revision != revision)
            continue;
        if (best.votes > 0 && brings_the_same(&ballots[i], &ballots[best.ballot]))
            continue;
        struct tally tally = tally_of(ballots, count, i, revision);
        if (best.votes == 0 || beats(ballots, &tally, &best))
            best = tally;
    }
    *winner = best.ballot;
    return best.votes > 0;
}

static void elect_none(struct pccl_election *election, const struct pccl_ballot *ballots, uint32_t count,
                       uint64_t revision)
{
    election->end = PCCL_NONE_ELECTED;
    bool any_whole = false;
    for (uint32_t i = 0; i < count; i++)
        any_whole = any_whole || offers(&ballots[i]);
    if (!any_whole)
        pccl_text_format(&election->reason, "no member has an intact shared state: incomplete transfers overwrote "
                                            "parts of every copy; restore one from a checkpoint and reconnect");
    else if (highest_offered(ballots, count) + 1 == revision)
        pccl_text_format(&election->reason,
                         "no member offers the group's next revision %" PRIu64 ", only %" PRIu64
                         ", which was already synchronized: each synchronization needs a new revision: call "
                         "push_revision() before it, in C `revision++`; or, if the members with the newer state have "
                         "left, resume from a checkpoint of revision %" PRIu64 " or start a new run",
                         revision, revision - 1, revision);
    else
        pccl_text_format(&election->reason,
                         "no member offers the group's next revision %" PRIu64
                         ": the members that had it have left; resume from "
                         "a checkpoint of that revision or start a new run",
                         revision);
}

/* ---- rules 4 and 5, and the result for each member ---- */

static enum pccl_expulsion mismatch_of(const struct pccl_ballot *ballot, const struct pccl_ballot *winner,
                                       uint64_t revision)
{
    bool same = pccl_digest_equal(&ballot->content, &winner->content);
    if (!pccl_digest_equal(&ballot->structure, &winner->structure))
        return PCCL_EXPELLED_OTHER_LIST;
    if (ballot->strategy == PCCL_SEND_ONLY && (!same || ballot->torn))
        return PCCL_EXPELLED_SENDS_OTHER;
    if (ballot->strategy == PCCL_SEND_ONLY && ballot->revision != revision)
        return PCCL_EXPELLED_SENDS_EARLIER;
    return PCCL_NOT_EXPELLED;
}

static bool expel_mismatched(struct pccl_ballot *ballots, uint32_t count, const struct pccl_election *election)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        ballots[i].expelled = mismatch_of(&ballots[i], &ballots[election->winner], election->revision);
        any = any || ballots[i].expelled != PCCL_NOT_EXPELLED;
    }
    return any;
}

static void assign(struct pccl_ballot *ballots, uint32_t count, const struct pccl_ballot *winner)
{
    bool held = false; /* true if a donor that is not fresh has the tensors that may differ */
    for (uint32_t i = 0; i < count; i++) {
        ballots[i].takes_unequal = false;
        ballots[i].lacks = ballots[i].torn || !pccl_digest_equal(&ballots[i].content, &winner->content);
        held = held || (!ballots[i].fresh && pccl_ballot_gives(&ballots[i]));
    }
    for (uint32_t i = 0; i < count; i++)
        ballots[i].takes_unequal =
            held && ballots[i].unequal && ballots[i].fresh && ballots[i].strategy != PCCL_SEND_ONLY;
}

struct pccl_election pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next)
{
    PCCL_ASSERT(count > 0);
    struct pccl_election election = {.end = PCCL_EXPELS, .revision = next};
    for (uint32_t i = 0; i < count; i++)
        ballots[i].expelled = PCCL_NOT_EXPELLED;
    if (expel_jumps(ballots, count, next) || expel_other_strategies(ballots, count))
        return election;
    election.revision = next != 0 ? next : highest_offered(ballots, count);
    if (!find_winner(ballots, count, election.revision, &election.winner)) {
        elect_none(&election, ballots, count, election.revision);
        return election;
    }
    if (expel_mismatched(ballots, count, &election))
        return election;
    election.end = PCCL_ELECTED;
    assign(ballots, count, &ballots[election.winner]);
    return election;
}

void pccl_describe_expulsion(struct pccl_text *reason, const struct pccl_ballot *ballot,
                             const struct pccl_election *election)
{
    switch (ballot->expelled) {
    case PCCL_NOT_EXPELLED: pccl_text_clear(reason); break;
    case PCCL_EXPELLED_JUMPS:
        pccl_text_format(reason,
                         "its shared state has revision %" PRIu64 ", but the group's next one is %" PRIu64
                         ": each synchronization must increment the revision by one",
                         ballot->revision, election->revision);
        break;
    case PCCL_EXPELLED_MIXES:
        pccl_text_format(reason, "its strategy is SEND_ONLY or RECEIVE_ONLY, the others' is ENFORCE_POPULAR");
        break;
    case PCCL_EXPELLED_ALL_RECEIVE:
        pccl_text_format(reason, "no member offers a shared state: the strategy of all is RECEIVE_ONLY");
        break;
    case PCCL_EXPELLED_OTHER_LIST: pccl_text_format(reason, "its list of tensors differs from the group's"); break;
    case PCCL_EXPELLED_SENDS_OTHER:
        pccl_text_format(reason, "its strategy is SEND_ONLY, but the group elected different content");
        break;
    case PCCL_EXPELLED_SENDS_EARLIER:
        pccl_text_format(reason,
                         "its strategy is SEND_ONLY, but it has revision %" PRIu64 " and the group has %" PRIu64,
                         ballot->revision, election->revision);
        break;
    }
}
