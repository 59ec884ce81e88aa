/*
 * The election of a shared state: every rule by examples, and random elections against a simple second version of the
 * rules, in every order of the ballots.
 *
 * An example's members are written as strategy (E enforces what is popular, R receives only, S sends only), revision,
 * content (a letter), and then any of: f fresh, t torn, u unequal, /n another list of tensors. The verdict of each
 * member: = keeps its content, < fetches, u fetches only the unequal tensors, * fetches both, x is expelled.
 */
#include "unit.h"
#include "core/prng.h"
#include "master/rounds_election.h"
#include "support.h"

#include <time.h>

HANDLE_ASSERTS

enum { MEMBERS_MAX = 8, CROWD = PCCL_PEERS_MAX };

/* ---- one election, reported by peer instead of by position ---- */

struct verdict {
    bool expelled, lacks, takes_unequal, gives;
    struct pccl_text reason;
};

struct result {
    enum pccl_election_end end;
    uint64_t revision;
    uint32_t winner; /* index of the member that wins */
    struct pccl_text reason;
    struct verdict verdicts[MEMBERS_MAX];
};

/* An earlier decision must have no influence. */
static void dirty(struct pccl_ballot *ballot, uint32_t seed)
{
    ballot->expelled = seed % 2 == 0 ? PCCL_EXPELLED_MIXES : PCCL_NOT_EXPELLED;
    ballot->lacks = seed % 3 == 0;
    ballot->takes_unequal = seed % 5 < 2;
}

/* order: which member has the first ballot, which the second, ... */
static struct result elect(const struct pccl_ballot *members, const uint32_t *order, uint32_t count, uint64_t next)
{
    struct pccl_ballot ballots[MEMBERS_MAX];
    struct result result = {0};
    for (uint32_t i = 0; i < count; i++) {
        ballots[i] = members[order[i]];
        dirty(&ballots[i], 7 * i + order[i]);
    }
    struct pccl_election election = pccl_elect(ballots, count, next);
    assert_true(election.winner < count);
    result.end = election.end;
    result.revision = election.revision;
    result.winner = order[election.winner];
    result.reason = election.reason;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_ballot *before = &members[order[i]], *after = &ballots[i];
        struct verdict *verdict = &result.verdicts[order[i]];
        assert_true(pccl_id_equal(&before->peer, &after->peer) && before->revision == after->revision);
        pccl_describe_expulsion(&verdict->reason, after, &election);
        verdict->expelled = after->expelled != PCCL_NOT_EXPELLED;
        assert_int_equal(verdict->expelled, verdict->reason.length > 0);
        assert_int_equal(after->expelled == PCCL_EXPELLED_OTHER_LIST,
                         strstr(verdict->reason.bytes, "list of tensors") != NULL);
        if (election.end != PCCL_ELECTED)
            continue;
        verdict->lacks = after->lacks;
        verdict->takes_unequal = after->takes_unequal;
        verdict->gives = pccl_ballot_gives(after);
    }
    return result;
}

/* ---- the rules again, in a simple form ---- */

enum reason { STAYS, JUMPS, MIXES, ALL_RECEIVE, OTHER_LIST, SENDS_OTHER, SENDS_OLD, REASONS };

static const char *const reason_words[REASONS] = {
    [JUMPS] = "increment the revision by one",
    [MIXES] = "the others' is ENFORCE_POPULAR",
    [ALL_RECEIVE] = "the strategy of all is RECEIVE_ONLY",
    [OTHER_LIST] = "its list of tensors differs from the group's",
    [SENDS_OTHER] = "its strategy is SEND_ONLY, but the group elected",
    [SENDS_OLD] = "its strategy is SEND_ONLY, but it has revision",
};

static bool same_list(const struct pccl_ballot *a, const struct pccl_ballot *b)
{
    return a->structure.low == b->structure.low && a->structure.high == b->structure.high;
}

static bool same_content(const struct pccl_ballot *a, const struct pccl_ballot *b)
{
    return same_list(a, b) && a->content.low == b->content.low && a->content.high == b->content.high;
}

static bool is_candidate(const struct pccl_ballot *ballot, uint64_t revision)
{
    return ballot->strategy != PCCL_RECEIVE_ONLY && !ballot->torn && ballot->revision == revision;
}

static uint32_t supporters(const struct pccl_ballot *members, uint32_t count, uint32_t of, bool veterans_only)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += is_candidate(&members[i], members[of].revision) && same_content(&members[i], &members[of]) &&
               !(veterans_only && members[i].fresh);
    return sum;
}

static bool is_better(const struct pccl_ballot *members, uint32_t count, uint32_t a, uint32_t b)
{
    for (int veterans_only = 0; veterans_only < 2; veterans_only++) {
        uint32_t of_a = supporters(members, count, a, veterans_only != 0);
        uint32_t of_b = supporters(members, count, b, veterans_only != 0);
        if (of_a != of_b)
            return of_a > of_b;
    }
    return memcmp(members[a].peer.bytes, members[b].peer.bytes, sizeof members[a].peer.bytes) < 0;
}

static uint64_t plain_revision(const struct pccl_ballot *members, uint32_t count, uint64_t next)
{
    uint64_t revision = next;
    for (uint32_t i = 0; next == 0 && i < count; i++)
        if (members[i].revision > revision && is_candidate(&members[i], members[i].revision))
            revision = members[i].revision;
    return revision;
}

/* Returns MEMBERS_MAX if there is no winner. */
static uint32_t plain_winner(const struct pccl_ballot *members, uint32_t count, uint64_t revision)
{
    uint32_t best = MEMBERS_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (is_candidate(&members[i], revision) && (best == MEMBERS_MAX || is_better(members, count, i, best)))
            best = i;
    return best;
}

static enum reason early_reason(const struct pccl_ballot *members, uint32_t count, uint64_t next, uint32_t of)
{
    uint32_t jumping = 0, of_strategy[3] = {0};
    for (uint32_t i = 0; i < count; i++) {
        jumping += next != 0 && members[i].revision > next;
        of_strategy[members[i].strategy]++;
    }
    if (jumping > 0)
        return members[of].revision > next ? JUMPS : STAYS;
    if (of_strategy[PCCL_RECEIVE_ONLY] == count)
        return ALL_RECEIVE;
    return of_strategy[PCCL_ENFORCE_POPULAR] > 0 && members[of].strategy != PCCL_ENFORCE_POPULAR ? MIXES : STAYS;
}

static enum reason late_reason(const struct pccl_ballot *member, const struct pccl_ballot *winner)
{
    if (!same_list(member, winner))
        return OTHER_LIST;
    if (member->strategy != PCCL_SEND_ONLY)
        return STAYS;
    if (!same_content(member, winner) || member->torn)
        return SENDS_OTHER;
    return member->revision != winner->revision ? SENDS_OLD : STAYS;
}

/* Finds the content that each member fetches, after an election in which all stay. */
static void plain_shares(const struct pccl_ballot *members, uint32_t count, uint32_t winner, struct result *plain)
{
    bool is_held = false; /* a member that may give the unequal tensors has them */
    for (uint32_t i = 0; i < count; i++) {
        plain->verdicts[i].lacks = members[i].torn || !same_content(&members[i], &members[winner]);
        is_held =
            is_held || (!members[i].fresh && !plain->verdicts[i].lacks && members[i].strategy != PCCL_RECEIVE_ONLY);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct verdict *verdict = &plain->verdicts[i];
        verdict->takes_unequal =
            is_held && members[i].fresh && members[i].unequal && members[i].strategy != PCCL_SEND_ONLY;
        verdict->gives = !verdict->lacks && !verdict->takes_unequal && members[i].strategy != PCCL_RECEIVE_ONLY;
    }
}

static bool judge(struct verdict *verdict, enum reason reason)
{
    verdict->expelled = reason != STAYS;
    if (reason != STAYS)
        pccl_text_add(&verdict->reason, reason_words[reason]);
    return reason != STAYS;
}

/* Compares only the beginning of the reason. */
static struct result plain_elect(const struct pccl_ballot *members, uint32_t count, uint64_t next)
{
    struct result plain = {.end = PCCL_EXPELS, .winner = MEMBERS_MAX};
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        any = judge(&plain.verdicts[i], early_reason(members, count, next, i)) || any;
    if (any)
        return plain;
    plain.revision = plain_revision(members, count, next);
    plain.winner = plain_winner(members, count, plain.revision);
    if (plain.winner == MEMBERS_MAX) {
        plain.end = PCCL_NONE_ELECTED;
        return plain;
    }
    for (uint32_t i = 0; i < count; i++)
        any = judge(&plain.verdicts[i], late_reason(&members[i], &members[plain.winner])) || any;
    if (any)
        return plain;
    plain.end = PCCL_ELECTED;
    plain_shares(members, count, plain.winner, &plain);
    return plain;
}

static void expect_plain(const struct result *result, const struct result *plain, uint32_t count)
{
    assert_int_equal(result->end, plain->end);
    if (plain->winner != MEMBERS_MAX) {
        assert_int_equal(result->winner, plain->winner);
        assert_true(result->revision == plain->revision);
    }
    assert_int_equal(result->reason.length > 0, plain->end == PCCL_NONE_ELECTED);
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict *a = &result->verdicts[i], *b = &plain->verdicts[i];
        assert_int_equal(a->expelled, b->expelled);
        assert_non_null(strstr(a->reason.bytes, b->reason.bytes));
        assert_int_equal(a->lacks, b->lacks);
        assert_int_equal(a->takes_unequal, b->takes_unequal);
        assert_int_equal(a->gives, b->gives);
    }
}

/* ---- the order of the ballots changes nothing ---- */

/* Makes the next order of these numbers. Returns false if that was the last. */
static bool advance(uint32_t *order, uint32_t count)
{
    uint32_t i = count - 1, k = count - 1;
    while (i > 0 && order[i - 1] >= order[i])
        i--;
    if (i == 0)
        return false;
    while (order[k] <= order[i - 1])
        k--;
    uint32_t swapped = order[i - 1];
    order[i - 1] = order[k];
    order[k] = swapped;
    for (uint32_t from = i, to = count - 1; from < to; from++, to--) {
        swapped = order[from];
        order[from] = order[to];
        order[to] = swapped;
    }
    return true;
}

static void expect_same(const struct result *a, const struct result *b, uint32_t count)
{
    assert_int_equal(a->end, b->end);
    assert_true(a->revision == b->revision);
    if (a->end == PCCL_ELECTED)
        assert_int_equal(a->winner, b->winner);
    assert_string_equal(a->reason.bytes, b->reason.bytes);
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict *x = &a->verdicts[i], *y = &b->verdicts[i];
        assert_true(x->expelled == y->expelled && x->lacks == y->lacks && x->takes_unequal == y->takes_unequal &&
                    x->gives == y->gives);
        assert_string_equal(x->reason.bytes, y->reason.bytes);
    }
}

/* Elects in 100 random orders of `prng`, or in all orders if it is NULL. All results must be the same. */
static struct result elect_in_many_orders(const struct pccl_ballot *members, uint32_t count, uint64_t next,
                                          struct pccl_prng *prng)
{
    uint32_t order[MEMBERS_MAX];
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    struct result first = elect(members, order, count, next);
    for (uint32_t run = 0; prng != NULL ? run < 100 : advance(order, count); run++) {
        for (uint32_t i = count; prng != NULL && i > 1; i--) {
            uint32_t k = (uint32_t)pccl_prng_below(prng, i), swapped = order[i - 1];
            order[i - 1] = order[k];
            order[k] = swapped;
        }
        struct result again = elect(members, order, count, next);
        expect_same(&first, &again, count);
    }
    return first;
}

/* ---- invariants of every election ---- */

static void expect_sense(const struct pccl_ballot *members, uint32_t count, const struct result *result)
{
    uint32_t expelled = 0, giving = 0, giving_unequal = 0, taking_unequal = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict *verdict = &result->verdicts[i];
        expelled += verdict->expelled;
        giving += verdict->gives;
        giving_unequal += verdict->gives && !members[i].fresh;
        taking_unequal += verdict->takes_unequal;
        if (members[i].strategy == PCCL_SEND_ONLY)
            assert_false(verdict->lacks || verdict->takes_unequal);
        if (members[i].strategy == PCCL_RECEIVE_ONLY)
            assert_false(verdict->gives);
        if (members[i].torn)
            assert_false(verdict->gives);
    }
    assert_int_equal(expelled > 0, result->end == PCCL_EXPELS);
    if (result->end != PCCL_ELECTED)
        return;
    const struct pccl_ballot *winner = &members[result->winner];
    assert_true(winner->strategy != PCCL_RECEIVE_ONLY && !winner->torn && winner->revision == result->revision);
    assert_true(giving > 0);
    assert_true(taking_unequal == 0 || giving_unequal > 0);
    for (uint32_t i = 0; i < count; i++)
        if (!result->verdicts[i].lacks)
            assert_true(same_content(&members[i], winner));
}

/*
 * Holds elections until no member is expelled. Returns the verdicts of all; an expelled member has the reason of its
 * election.
 */
struct course {
    struct result last; /* end EXPELS: no member is left */
    uint32_t elections;
};

static struct course elect_until_settled(const struct pccl_ballot *members, uint32_t count, uint64_t next,
                                         struct pccl_prng *prng)
{
    struct course course = {.last.end = PCCL_EXPELS};
    uint32_t whom[MEMBERS_MAX], left = count;
    for (uint32_t i = 0; i < count; i++)
        whom[i] = i;
    while (left > 0 && course.last.end == PCCL_EXPELS) {
        struct pccl_ballot ballots[MEMBERS_MAX];
        for (uint32_t i = 0; i < left; i++)
            ballots[i] = members[whom[i]];
        struct result result = elect_in_many_orders(ballots, left, next, prng);
        struct result plain = plain_elect(ballots, left, next);
        expect_plain(&result, &plain, left);
        expect_sense(ballots, left, &result);
        course.elections++;
        course.last.end = result.end;
        course.last.revision = result.revision;
        course.last.reason = result.reason;
        course.last.winner = whom[result.winner];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < left; i++) {
            course.last.verdicts[whom[i]] = result.verdicts[i];
            if (!result.verdicts[i].expelled)
                whom[kept++] = whom[i];
        }
        left = kept;
    }
    return course;
}

/* ---- examples ---- */

struct example {
    const char *name;
    uint64_t next;
    const char *members, *verdicts; /* NULL: the election fails for all */
    uint64_t revision;
    const char *reason; /* reason of those that are expelled, or of the failure */
};

static const struct example examples[] = {
    /* votes */
    {"all have the same", 0, "E0A E0A E0A", "= = =", 0, NULL},
    {"the minority votes first (25)", 1, "E1A E1B E1B", "< = =", 1, NULL},
    {"the minority votes last", 1, "E1B E1B E1A", "= = <", 1, NULL},
    {"no majority is needed", 2, "E2A E2B E2C E2D E2C", "< < = < =", 2, NULL},
    {"a tie: the lowest peer id", 1, "E1B E1A", "= <", 1, NULL},
    {"a tie of two and two", 1, "E1B E1A E1A E1B", "= < < =", 1, NULL},
    {"a tie: who has synchronized before", 1, "E1Bf E1A", "< =", 1, NULL},
    {"a tie: more of those who have synchronized before", 1, "E1Bf E1B E1A E1A", "< < = =", 1, NULL},
    {"newcomers vote like others", 1, "E1Bf E1Bf E1A", "= = <", 1, NULL},
    {"one who only receives is no candidate", 0, "R0B R0B S0A", "< < =", 0, NULL},
    {"what a receiver holds decides no tie", 0, "S0A S0A R0B R0B R0B", "= = < < <", 0, NULL},
    {"alone", 0, "E0A", "=", 0, NULL},
    {"alone, sending", 3, "S3A", "=", 3, NULL},
    {"alone, receiving", 0, "R0A", "x", 0, "the strategy of all is RECEIVE_ONLY"},
    /* revisions */
    {"a right revision beats any number of others", 4, "E3B E3B E3B E4A", "< < < =", 4, NULL},
    {"all of the first synchronization at 0", 0, "E0A E0A", "= =", 0, NULL},
    {"the first at 13, the other at 0 (37)", 0, "E13A E0B", "= <", 13, NULL},
    {"the same, the other way round", 0, "E0B E13A", "< =", 13, NULL},
    {"the first: the highest, whatever the number", 0, "E5B E5B E13A E0C", "< < = <", 13, NULL},
    {"the first: what a receiver has does not count", 0, "R20B S13A", "< =", 13, NULL},
    {"the first: what a torn one has does not count", 0, "E20Bt E13A", "< =", 13, NULL},
    {"one that does not count its revisions has the content (32)", 3, "E3A E3A E0A", "= = =", 3, NULL},
    {"one that does not count its revisions, content moves (33)", 3, "E3B E3B E0A", "= = <", 3, NULL},
    {"a newcomer in a later step, with the content (39)", 3, "E3A E3A E3Af", "= = =", 3, NULL},
    {"a newcomer at 0 with the content", 3, "E3A E3A E0Af", "= = =", 3, NULL},
    {"two at a time, both (36)", 2, "E3A E3A", "x x", 0, "the group's next one is 2"},
    {"two at a time, one of them", 2, "E3A E2A", "x =", 2, "revision 3"},
    {"two at a time, one who receives", 2, "R3A S2A", "x =", 2, "revision 3"},
    {"two at a time, and torn, and another list", 2, "E2A E9At/2", "= x", 2, "revision 9"},
    {"who jumped has no say in the strategy", 2, "E3A S2B R2A", "x = <", 2, "increment the revision by one"},
    {"one jumps, one sends only, one has another list", 2, "E3A S2B E2A/2 E2A E2A", "x x x = =", 2, ""},
    {"the greatest revision", 0, "E18446744073709551614A E0A", "= =", UINT64_C(18446744073709551614), NULL},
    {"members that held it are gone", 7, "E0A E5A", NULL, 0, "the members that had it have left"},
    {"nobody counted", 7, "E6A E6A", NULL, 0, "push_revision() before it"},
    {"nobody counted, and one slept longer", 7, "E0A E6A", NULL, 0, "push_revision() before it"},
    {"only receivers have the revision", 7, "R7A S6A", NULL, 0, "no member offers the group's next revision 7"},
    {"a checkpoint of just that revision", 7, "E0A E7Bf", "< =", 7, NULL},
    /* lists of tensors */
    {"another list (38)", 1, "E1A E1A E1A/2", "= = x", 1, "list of tensors"},
    {"another list, first in the ring", 1, "E1A/2 E1A E1A", "x = =", 1, "list of tensors"},
    {"the next step without it (38)", 2, "E2B E2B", "= =", 2, NULL},
    {"another list, an old revision", 2, "E2A E1B/2", "= x", 2, "list of tensors"},
    {"another list, and it only receives", 0, "R0A/2 S0A", "x =", 0, "list of tensors"},
    {"another list, and torn", 1, "E1A E1At/2", "= x", 1, "list of tensors"},
    {"lists in a tie: the lowest peer id", 1, "E1A/2 E1A", "= x", 1, "list of tensors"},
    {"lists in a tie: who has synchronized before", 1, "E1Af/2 E1A", "x =", 1, "list of tensors"},
    {"every list another", 1, "E1A/2 E1A/3 E1A/4", "= x x", 1, "list of tensors"},
    {"lists do not pool their votes", 1, "E1A/2 E1A/2 E1B E1C E1D", "= = x x x", 1, "list of tensors"},
    /* strategies */
    {"two send different things (40)", 0, "S0B S0A", "= x", 0, "elected different content"},
    {"two send different things: the majority", 0, "S0B S0A S0A", "x = =", 0, "elected different content"},
    {"two send the same", 0, "S0A S0A", "= =", 0, NULL},
    {"senders and a majority of receivers", 0, "S0A R0B R0B R0C", "= < < <", 0, NULL},
    {"a receiver that has it already", 0, "S0A R0A", "= =", 0, NULL},
    {"two only receive, different (41)", 0, "R0A R0B", "x x", 0, "the strategy of all is RECEIVE_ONLY"},
    {"two only receive, the same (42)", 0, "R0A R0A", "x x", 0, "the strategy of all is RECEIVE_ONLY"},
    {"enforce and receive (43)", 0, "E0A R0B", "= x", 0, "the others' is ENFORCE_POPULAR"},
    {"enforce and receive, the same", 0, "R0A E0A", "x =", 0, "the others' is ENFORCE_POPULAR"},
    {"enforce and send (44)", 0, "E0A S0B", "= x", 0, "the others' is ENFORCE_POPULAR"},
    {"enforce and two that send (45)", 0, "S0B E0A S0B", "x = x", 0, "the others' is ENFORCE_POPULAR"},
    {"enforce, send and receive (46)", 0, "S0B E0A R0C", "x = x", 0, "the others' is ENFORCE_POPULAR"},
    {"two enforce, of different content, and one sends", 0, "E0A S0B E0B", "= x <", 0,
     "the others' is ENFORCE_POPULAR"},
    {"groups: enforce and send in one (47)", 0, "E0A S0A", "= x", 0, "the others' is ENFORCE_POPULAR"},
    {"groups: send and send in the other (47)", 0, "S0B S0B", "= =", 0, NULL},
    {"one sends what is outdated", 5, "S4B S5A R0C", "x = <", 5, "elected different content"},
    {"one sends the right thing with an old number", 5, "S4A S5A", "x =", 5, "has revision 4 and the group has 5"},
    {"the same in the first one", 0, "S4A S5A R0A", "x = =", 5, "has revision 4 and the group has 5"},
    {"all that is sent is outdated", 5, "S4A R4A", NULL, 0, "no member offers the group's next revision 5"},
    /* torn */
    {"one is torn", 5, "E5At E5B", "< =", 5, NULL},
    {"one is torn, and brings the right digest", 5, "E5At E5A", "< =", 5, NULL},
    {"the torn have no vote", 5, "E5At E5At E5B", "< < =", 5, NULL},
    {"the torn and one who is outdated", 5, "E5At E4A", NULL, 0, "no member offers the group's next revision 5"},
    {"all are torn", 5, "E5At E5Bt", NULL, 0, "no member has an intact shared state"},
    {"all that send are torn", 5, "S5At R5A", NULL, 0, "no member has an intact shared state"},
    {"a torn one wants to send only", 5, "S5At S5A", "x =", 5, "its strategy is SEND_ONLY"},
    {"a torn one receives", 5, "R5At S5A", "< =", 5, NULL},
    /* tensors that need not be the same */
    {"nobody has any yet: each keeps its own", 0, "E0Afu E0Afu", "= =", 0, NULL},
    {"a newcomer gets them", 5, "E5Au E5Afu", "= u", 5, NULL},
    {"a newcomer gets everything", 5, "E5Au E0Bfu", "= *", 5, NULL},
    {"one that has its own keeps them, also where it is outdated", 5, "E5Au E4Bu", "= <", 5, NULL},
    {"a newcomer without any", 5, "E5A E5Af", "= =", 5, NULL},
    {"a newcomer that only sends keeps its own", 5, "S5Au S5Afu", "= =", 5, NULL},
    {"a newcomer that only receives", 5, "S5Au R5Afu", "= u", 5, NULL},
    {"only a receiver holds them: it gives nothing", 5, "R5Au S5Afu R5Afu", "= = =", 5, NULL},
    {"only a torn one holds them", 5, "E5Aut E5Afu", "< =", 5, NULL},
    {"who holds them lacks the content", 5, "E5Bu E5Afu E5Afu", "< = =", 5, NULL},
    {"a torn newcomer", 5, "E5Au E5Aftu", "= *", 5, NULL},
};

/* Contents and lists differ in either half of a digest. */
static struct pccl_digest digest_of(uint32_t number)
{
    return (struct pccl_digest){.low = number / 2, .high = (number + 1) / 2};
}

static struct pccl_ballot parse_member(const char **at)
{
    static const char strategies[] = "ERS";
    struct pccl_ballot ballot = {.structure = digest_of(1)};
    ballot.strategy = (uint8_t)(strchr(strategies, *(*at)++) - strategies);
    char *end;
    ballot.revision = strtoull(*at, &end, 10);
    *at = end;
    ballot.content = digest_of((uint32_t)(*(*at)++ - 'A'));
    for (; **at != '\0' && **at != ' '; (*at)++) {
        switch (**at) {
        case 'f': ballot.fresh = true; break;
        case 't': ballot.torn = true; break;
        case 'u': ballot.unequal = true; break;
        case '/': ballot.structure = digest_of((uint32_t)(*++*at - '0')); break;
        default: fail_msg("%s", *at);
        }
    }
    return ballot;
}

static uint32_t parse_members(const char *text, struct pccl_ballot *members)
{
    uint32_t count = 0;
    while (*text != '\0') {
        members[count] = parse_member(&text);
        members[count].peer.bytes[count % 2 == 0 ? 15 : 14] = 1; /* in ascending order, with different bytes */
        members[count].peer.bytes[3] = (uint8_t)(count / 2);
        members[count].peer.bytes[8] = (uint8_t)(count % 2);
        count++;
        text += *text == ' ';
    }
    return count;
}

static char letter_of(const struct verdict *verdict)
{
    if (verdict->expelled)
        return 'x';
    if (verdict->takes_unequal)
        return verdict->lacks ? '*' : 'u';
    return verdict->lacks ? '<' : '=';
}

static void run_example(const struct example *example)
{
    struct pccl_ballot members[MEMBERS_MAX];
    char letters[2 * MEMBERS_MAX];
    uint32_t count = parse_members(example->members, members);
    struct course course = elect_until_settled(members, count, example->next, NULL);
    bool fails = course.last.end == PCCL_NONE_ELECTED;
    if (fails != (example->verdicts == NULL))
        fail_msg("%s: %s", example->name, fails ? "nobody is elected" : "somebody is elected, or nobody is left");
    if (fails && strstr(course.last.reason.bytes, example->reason) == NULL)
        fail_msg("%s: \"%s\" without \"%s\"", example->name, course.last.reason.bytes, example->reason);
    if (example->verdicts == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict *verdict = &course.last.verdicts[i];
        letters[2 * i] = letter_of(verdict);
        letters[2 * i + 1] = i + 1 < count ? ' ' : '\0';
        if (verdict->expelled && strstr(verdict->reason.bytes, example->reason) == NULL)
            fail_msg("%s: \"%s\" without \"%s\"", example->name, verdict->reason.bytes, example->reason);
    }
    if (strcmp(letters, example->verdicts) != 0)
        fail_msg("%s: %s", example->name, letters);
    if (course.last.end == PCCL_ELECTED && course.last.revision != example->revision)
        fail_msg("%s: revision %llu", example->name, (unsigned long long)course.last.revision);
}

TEST(test_examples)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(examples); i++)
        run_example(&examples[i]);
}

/* ---- random elections ---- */

static uint8_t random_strategy(struct pccl_prng *prng, uint64_t mood)
{
    switch (mood) {
    case 0: return PCCL_ENFORCE_POPULAR;
    case 1: return pccl_prng_chance(prng, 500000) ? PCCL_SEND_ONLY : PCCL_RECEIVE_ONLY;
    case 2: return PCCL_SEND_ONLY;
    case 3: return pccl_prng_chance(prng, 900000) ? PCCL_RECEIVE_ONLY : PCCL_SEND_ONLY;
    default: return (uint8_t)pccl_prng_below(prng, 3);
    }
}

/* Draws from few values of everything, so that equal ones occur. */
static uint32_t random_members(struct pccl_prng *prng, struct pccl_ballot *members, uint64_t *next)
{
    uint32_t count = 1 + (uint32_t)pccl_prng_below(prng, MEMBERS_MAX);
    uint64_t mood = pccl_prng_below(prng, 6), contents = 1 + pccl_prng_below(prng, 4);
    uint32_t odd = pccl_prng_chance(prng, 300000) ? 300000 : 0; /* with another list */
    uint32_t torn = pccl_prng_chance(prng, 300000) ? 400000 : 0;
    uint32_t jumping = pccl_prng_chance(prng, 400000) ? 200000 : 0;
    *next = pccl_prng_below(prng, 3) * 2;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t behind = pccl_prng_chance(prng, 300000) ? 1 + pccl_prng_below(prng, 2) : 0;
        members[i] = (struct pccl_ballot){
            .revision = *next >= behind ? *next - behind : behind,
            .strategy = random_strategy(prng, mood),
            .fresh = pccl_prng_chance(prng, 400000),
            .torn = pccl_prng_chance(prng, torn),
            .unequal = pccl_prng_chance(prng, 500000),
            .structure = digest_of(pccl_prng_chance(prng, odd) ? 1 + (uint32_t)pccl_prng_below(prng, 2) : 0),
            .content = digest_of((uint32_t)pccl_prng_below(prng, contents))};
        members[i].revision += pccl_prng_chance(prng, jumping) ? *next + 1 : 0;
        members[i].peer.bytes[pccl_prng_below(prng, 15)] = (uint8_t)pccl_prng_below(prng, 3);
        members[i].peer.bytes[15] = (uint8_t)(1 + i);
    }
    return count;
}

TEST(test_random_elections)
{
    struct pccl_prng prng = unit_prng(1);
    uint32_t ends[3] = {0}, elections[4] = {0}, without_anybody = 0;
    for (uint32_t run = 0; run < 5000; run++) {
        struct pccl_ballot members[MEMBERS_MAX];
        uint64_t next;
        uint32_t count = random_members(&prng, members, &next);
        bool all_orders = count <= 5 || run % 400 == 0;
        struct course course = elect_until_settled(members, count, next, all_orders ? NULL : &prng);
        /* One for the revisions, one for the strategies, one for lists and senders, and the last. */
        assert_in_range(course.elections, 1, count < 4 ? count : 4);
        elections[course.elections - 1]++;
        ends[course.last.end]++;
        without_anybody += course.last.end == PCCL_EXPELS;
    }
    for (uint32_t i = 0; i < PCCL_COUNT_OF(elections); i++)
        assert_true(elections[i] > 5);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(ends); i++)
        assert_true(ends[i] > 100);
    assert_true(without_anybody > 100);
}

/* The elected content is elected again after the members that do not match have left. */
TEST(test_the_winner_stays)
{
    struct pccl_prng prng = unit_prng(2);
    static const uint32_t in_order[MEMBERS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t seen = 0;
    for (uint32_t run = 0; run < 20000; run++) {
        struct pccl_ballot members[MEMBERS_MAX], left[MEMBERS_MAX];
        uint64_t next;
        uint32_t count = random_members(&prng, members, &next), kept = 0, winner = 0;
        struct result first = elect(members, in_order, count, next);
        struct result plain = plain_elect(members, count, next);
        if (first.end != PCCL_EXPELS || plain.winner == MEMBERS_MAX)
            continue;
        for (uint32_t i = 0; i < count; i++) {
            winner = i == first.winner ? kept : winner;
            if (!first.verdicts[i].expelled)
                left[kept++] = members[i];
        }
        assert_false(first.verdicts[first.winner].expelled);
        struct result second = elect(left, in_order, kept, next);
        assert_int_equal(second.end, PCCL_ELECTED);
        assert_int_equal(second.winner, winner);
        assert_true(second.revision == first.revision);
        seen++;
    }
    assert_true(seen > 500);
}

/* ---- the largest number of members ---- */

static void elect_in_a_crowd(uint32_t of_each, uint32_t expected_votes)
{
    static struct pccl_ballot ballots[CROWD];
    uint32_t lacking = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        ballots[i] = (struct pccl_ballot){.revision = 3, .content = {.low = i % (CROWD / of_each), .high = 1}};
        ballots[i].peer.bytes[1] = (uint8_t)((CROWD - i) >> 8);
        ballots[i].peer.bytes[2] = (uint8_t)(CROWD - i);
    }
    clock_t begin = clock();
    struct pccl_election election = pccl_elect(ballots, CROWD, 3);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 1.0);
    assert_int_equal(election.end, PCCL_ELECTED);
    assert_int_equal(election.winner, CROWD - 1); /* the lowest peer id */
    for (uint32_t i = 0; i < CROWD; i++)
        lacking += ballots[i].lacks;
    assert_int_equal(lacking, CROWD - expected_votes);
}

TEST(test_a_crowd)
{
    elect_in_a_crowd(1, 1);
    elect_in_a_crowd(2, 2);
    elect_in_a_crowd(64, 64);
    elect_in_a_crowd(CROWD, CROWD);
}
