/*
 * Optimization of the topology within a joint call: tests (topology_tests.c), a search for the best ring in another
 * thread, links along that ring, and its adoption. Each group passes through these phases independently; the round ends
 * when all groups have.
 *
 * If a ring is not proven to be the best, the search continues in the background, and the next joint topology call
 * adopts its result, unless the membership or the ring has changed by then. If figures have changed, an update starts a
 * short search and waits for it, so that a group can leave a link that has become slow.
 */
#include "master/links.h"
#include "master/shortages.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/topology_internal.h"
#include "wire/cost.h"

#include <string.h>

enum {
    /* maximum number of searches in one optimization; a link of the new ring may fail to open */
    ATTEMPTS_MAX = 3,
    GAIN_PERMILLE = 20,     /* minimum gain in the slowest link's rate for a new ring, in thousandths */
    LATENCY_PERMILLE = 100, /* minimum gain in latency for a new ring of about the same rate */
    LINKS_MS = 2000,        /* time allowed for opening the links of a new ring */
    SEEDS = 0x70636c,       /* seed of the first search */
};

/* ---- benefit of a ring ---- */

static bool is_worth_it(const struct pccl_ring_worth *now, const struct pccl_ring_worth *then)
{
    if (!then->exists || !now->exists)
        return then->exists;
    uint64_t gain = now->slowest / 1000 * GAIN_PERMILLE;
    if (then->slowest > now->slowest + gain)
        return true;
    return then->slowest + gain >= now->slowest &&
           then->latency_us + now->latency_us / 1000 * LATENCY_PERMILLE < now->latency_us;
}

static void forget_better(struct pccl_master *m, struct pccl_tuning *tuning)
{
    pccl_release(&m->memory, tuning->better, tuning->better_count * sizeof *tuning->better);
    tuning->better = NULL;
    tuning->better_count = 0;
}

/* Stores a ring, given by the members' numbers, for later adoption. */
static void keep_better(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *ring)
{
    struct pccl_tuning *tuning = &group->tuning;
    forget_better(m, tuning);
    tuning->better = pccl_allocate(&m->memory, group->ring_count * sizeof *tuning->better);
    if (tuning->better == NULL)
        return; /* the present ring stays */
    for (uint32_t i = 0; i < group->ring_count; i++)
        for (uint32_t k = 0; k < group->ring_count; k++)
            if (group->ring[k]->number == ring[i])
                tuning->better[i] = k;
    tuning->better_count = group->ring_count;
    tuning->better_version = group->ring_version;
}

/* ---- links of a future ring ---- */

enum links { LINKS_UP, LINKS_PENDING, LINKS_FAILED };

/* Returns the state of the ring's links. Marks a link that could not be opened as unreachable. */
static enum links check_links(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *ring)
{
    enum links links = LINKS_UP;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[ring[i]], *to = pccl_master_next_of(group, ring, i);
        if (pccl_master_holds_link(from, to))
            continue;
        const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
        if (intent != NULL && intent->failed) {
            pccl_master_note_unreachable(m, from, to);
            links = LINKS_FAILED;
        } else if (links == LINKS_UP) {
            links = LINKS_PENDING;
        }
    }
    return links;
}

/* ---- the search ---- */

static void end_search(struct pccl_master *m, struct pccl_peer_group *group)
{
    if (group->tuning.ticket != 0)
        m->effects.stop_solving(m->effects.context, group->tuning.ticket);
    group->tuning.ticket = 0;
}

/* Ends the searches in the background, so that no call waits for them. They start over later. */
static void end_background_searches(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_tuning *tuning = &m->groups[i]->tuning;
        if (tuning->ticket == 0 || !tuning->background)
            continue;
        end_search(m, m->groups[i]);
        tuning->unproven = true;
    }
}

/* Begins a search. Returns false if it could not begin for lack of memory. */
static bool begin_search(struct pccl_master *m, struct pccl_peer_group *group, bool background)
{
    PCCL_ASSERT(group->ring_count > 2);
    struct pccl_tuning *tuning = &group->tuning;
    struct pccl_ring_problem problem;
    end_search(m, group);
    end_background_searches(m);
    if (!pccl_master_build_ring_problem(m, group, &problem))
        return false;
    tuning->seed = problem.seed = SEEDS + ++m->last_ticket;
    tuning->steps = problem.steps = background ? PCCL_SOLVE_STEPS_LONG : PCCL_SOLVE_STEPS_QUICK;
    tuning->ticket = m->last_ticket;
    tuning->background = background;
    tuning->ring_version = group->ring_version;
    tuning->moved = false;
    m->effects.solve(m->effects.context, tuning->ticket, &problem);
    pccl_master_free_problem(m, &problem);
    return true;
}

void pccl_master_drop_tuning(struct pccl_master *m, struct pccl_peer_group *group)
{
    pccl_master_forget_report(m, group);
    end_search(m, group);
    forget_better(m, &group->tuning);
}

static struct pccl_peer_group *searcher(const struct pccl_master *m, uint64_t ticket)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.ticket == ticket)
            return m->groups[i];
    return NULL;
}

static void fail(struct pccl_peer_group *group, const char *reason)
{
    group->tuning.failed = true;
    pccl_text_format(&group->tuning.reason, "%s", reason);
    group->tuning.phase = PCCL_TUNING_OVER;
}

/* Stores the ring that the search found, if it is worth the change, and requests its links. */
static void take_answer(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_master_event *event)
{
    struct pccl_ring_problem problem;
    if (!pccl_master_build_ring_problem(m, group, &problem))
        return;
    struct pccl_ring_worth was = pccl_ring_worth(&problem, problem.ring), is = pccl_ring_worth(&problem, event->ring);
    if (is_worth_it(&was, &is))
        keep_better(m, group, event->ring);
    pccl_master_free_problem(m, &problem);
    if (!pccl_master_has_better(group))
        return;
    pccl_master_request_better_links(m, group);
    group->tuning.patience_us = m->now_us + LINKS_MS * UINT64_C(1000);
    pccl_master_arm(m, group->tuning.patience_us);
}

/* Handles the answer to the search of an optimization. */
static void answered(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_master_event *event)
{
    struct pccl_tuning *tuning = &group->tuning;
    bool found = event->status == PCCL_OK && event->answer->worth.exists;
    tuning->known = true;
    tuning->phase = PCCL_TUNING_OVER;
    if (event->status != PCCL_OK)
        fail(group, "the master lacks memory or threads to search for a ring");
    else if (!found && event->answer->proven)
        fail(group, "no ring exists: too many pairs of members cannot reach each other");
    else if (!found)
        fail(group, "no ring found: too many pairs of members cannot reach each other");
    if (!found)
        return;
    take_answer(m, group, event);
    if (pccl_master_has_better(group))
        tuning->phase = PCCL_TUNING_LINKS;
}

void pccl_master_solved(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_peer_group *group = searcher(m, event->ticket);
    if (group == NULL)
        return;
    struct pccl_tuning *tuning = &group->tuning;
    bool same_ring = tuning->ring_version == group->ring_version;
    bool found = same_ring && event->status == PCCL_OK && event->answer->worth.exists;
    tuning->ticket = 0;
    if (tuning->phase == PCCL_TUNING_SEARCH && same_ring)
        answered(m, group, event);
    else if (found)
        take_answer(m, group, event); /* the search was in the background or for an update */
    tuning->unproven = found && !event->answer->proven && !tuning->background;
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
    if (tuning->background)
        pccl_master_mark(m, PCCL_STAGE_SEARCHES);
}

/* Runs only one search at a time, because each uses a processor for seconds. */
void pccl_master_search_in_background(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.ticket != 0)
            return;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        bool wanted = group->tuning.unproven && group->ring_count > 2;
        group->tuning.unproven = false;
        if (wanted && begin_search(m, group, true)) /* false only if out of memory */
            return;
    }
}

/* Returns true if links of the better ring found for this update are still being opened and time is left. */
static bool waits_for_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    const struct pccl_tuning *tuning = &group->tuning;
    return tuning->searched_for == pccl_master_joint(m) + 1 && pccl_master_has_better(group) &&
           m->now_us < tuning->patience_us && check_links(m, group, tuning->better) == LINKS_PENDING;
}

/* Starts at most one search per update. Figures that change during it are left to the next update. */
bool pccl_master_update_waits_for_rings(struct pccl_master *m)
{
    bool waits = false;
    uint64_t update = pccl_master_joint(m) + 1;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        struct pccl_tuning *tuning = &group->tuning;
        if (tuning->moved && tuning->known && group->ring_count > 2 && tuning->searched_for != update &&
            (tuning->ticket == 0 || tuning->background)) {
            tuning->searched_for = update;
            (void)begin_search(m, group, false);
        }
        bool searches = tuning->ticket != 0 && !tuning->background && tuning->ring_version == group->ring_version;
        waits = waits || searches || waits_for_links(m, group);
    }
    return waits;
}

/* ---- adoption ---- */

bool pccl_master_weigh_better_ring(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_ring_worth *was,
                                   struct pccl_ring_worth *is)
{
    PCCL_ASSERT(group->tuning.better != NULL);
    struct pccl_ring_problem problem;
    size_t bytes = group->ring_count * sizeof(uint32_t);
    uint32_t *better = pccl_allocate(&m->memory, bytes); /* by the members' numbers, as in the problem */
    bool posed = better != NULL && pccl_master_build_ring_problem(m, group, &problem);
    for (uint32_t i = 0; posed && i < group->ring_count; i++)
        better[i] = group->ring[group->tuning.better[i]]->number;
    if (posed) {
        *was = pccl_ring_worth(&problem, problem.ring);
        *is = pccl_ring_worth(&problem, better);
        pccl_master_free_problem(m, &problem);
    }
    pccl_release(&m->memory, better, bytes);
    return posed;
}

bool pccl_master_ring_is_ready(struct pccl_master *m, struct pccl_peer_group *group)
{
    return pccl_master_has_better(group) && check_links(m, group, group->tuning.better) == LINKS_UP;
}

static bool adopt(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_text *why)
{
    struct pccl_ring_worth was, is;
    if (!pccl_master_ring_is_ready(m, group))
        return false;
    group->tuning.replans = false; /* otherwise pending rounds would return true again after every update */
    if (!pccl_master_weigh_better_ring(m, group, &was, &is) || !is_worth_it(&was, &is) ||
        !pccl_master_reorder(m, group, group->tuning.better))
        return false;
    pccl_text_format(why, "found a better ring for group %u: slowest link %s, was %s; total round-trip time %s, was %s",
                     group->number, pccl_rate_str(is.slowest), pccl_rate_str(was.slowest),
                     pccl_duration_str(is.latency_us), pccl_duration_str(was.latency_us));
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.event = PCCL_EVENT_RING_CHANGED}, "%s", why->bytes);
    return true;
}

bool pccl_master_adopt_ring(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_text *why)
{
    bool adopted = adopt(m, group, why);
    if (!pccl_master_has_better(group))
        forget_better(m, &group->tuning);
    return adopted;
}

uint32_t pccl_master_adopt_rings(struct pccl_master *m, struct pccl_text *why)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->group_count; i++)
        count += pccl_master_adopt_ring(m, m->groups[i], why);
    return count;
}

/* ---- the optimization ---- */

static void begin(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_tuning *tuning = &group->tuning;
    struct pccl_text unable;
    tuning->phase = PCCL_TUNING_OVER;
    tuning->failed = false;
    tuning->attempts = 0;
    tuning->unproven = tuning->replans = false;
    tuning->assumed_rate = 0; /* the tests provide better estimates */
    end_search(m, group);     /* the estimates that it uses are about to change */
    pccl_text_clear(&tuning->reason);
    if (group->ring_count < 2)
        return;
    if (pccl_master_some_are_unable(group, PCCL_ROUND_OPTIMIZE, &unable))
        fail(group, unable.bytes);
    else if (group->ring_count > PCCL_OPTIMIZE_PEERS_MAX)
        fail(group, "the group is too large to optimize");
    else if (!pccl_matrix_reserve(&group->matrix, group->place_count))
        fail(group, "the master ran out of memory");
    else
        tuning->phase = PCCL_TUNING_TESTS;
    pccl_master_calibrate_tests(group);
    pccl_master_begin_tests(group);
}

static void search(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_tuning *tuning = &group->tuning;
    tuning->phase = PCCL_TUNING_OVER;
    if (group->ring_count < 3)
        return; /* only one ring is possible */
    if (tuning->attempts++ == ATTEMPTS_MAX)
        return; /* the present ring stays */
    tuning->phase = PCCL_TUNING_SEARCH;
    if (!begin_search(m, group, false))
        fail(group, "the master ran out of memory");
}

/* Advances a group through the phases as far as is possible now. */
static void advance(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(m->optimizing);
    struct pccl_tuning *tuning = &group->tuning;
    if (tuning->phase == PCCL_TUNING_TESTS && !pccl_master_run_tests(m, group))
        search(m, group);
    if (tuning->phase == PCCL_TUNING_SEARCH && tuning->ring_version != group->ring_version)
        search(m, group); /* the ring has changed, so the search under way is invalid */
    if (tuning->phase != PCCL_TUNING_LINKS)
        return;
    enum links links = pccl_master_has_better(group) ? check_links(m, group, tuning->better) : LINKS_FAILED;
    if (links == LINKS_FAILED)
        search(m, group);
    else if (links == LINKS_UP || m->now_us >= tuning->patience_us)
        tuning->phase = PCCL_TUNING_OVER;
}

static bool is_over(const struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.phase != PCCL_TUNING_OVER)
            return false;
    return true;
}

static void end(struct pccl_master *m)
{
    PCCL_ASSERT(m->optimizing);
    m->optimizing = false;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        group->tuning.phase = PCCL_TUNING_NONE;
        group->optimize_outcome = group->tuning.failed ? PCCL_ROUND_FAILED : PCCL_ROUND_DONE;
        group->optimize_reason = group->tuning.reason;
    }
}

bool pccl_master_optimize(struct pccl_master *m)
{
    PCCL_ASSERT(!m->recovering && m->departing_count == 0);
    if (!m->optimizing) {
        m->optimizing = true;
        m->tests_begin_us = m->now_us;
        m->tests_end_us = m->now_us + m->config.optimize_ms * UINT64_C(1000);
        for (uint32_t i = 0; i < m->group_count; i++)
            begin(m, m->groups[i]);
    }
    for (uint32_t i = 0; i < m->group_count; i++)
        advance(m, m->groups[i]);
    if (m->departing_count > 0 || !is_over(m))
        return false;
    end(m);
    return true;
}

void pccl_master_expire_tests(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_tuning *tuning = &m->groups[i]->tuning;
        if (tuning->phase == PCCL_TUNING_TESTS)
            pccl_master_expire_tests_of(m, m->groups[i]);
        if (pccl_master_has_better(m->groups[i]) && m->now_us < tuning->patience_us)
            pccl_master_arm(m, tuning->patience_us);
    }
}
