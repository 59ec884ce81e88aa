/*
 * Estimates of the links between members, from tests and operations, for the search for rings and the cost data of
 * views; and the order of the tests in an optimization.
 *
 * A test covers one path: a member loads it and reports the amount that was received. Each member loads one path at a
 * time and receives over one path, from a member other than the one it loads. So all members test at the same time,
 * just as all send at the same time in a ring, and the answers of a test do not wait behind the load of the opposite
 * path. Only paths without a fresh figure are tested. No test begins after the time limit of the optimization; the next
 * optimization tests the remaining paths.
 *
 * The tests of a member end when it dies, and a member that does not report in time is excluded from further tests. In
 * both cases only the paths of that member lose tests, because the lost time is added to the time for the others.
 */
#include "core/ticket.h"
#include "master/shortages.h"
#include "master/links.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/topology_internal.h"
#include "wire/cost.h"

enum { UNREACHABLE_FRESH_MS = 30000 }; /* age after which an unreachable path is tested again */

/* ---- places ---- */

bool pccl_master_enter_matrix(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->group == NULL);
    uint32_t place = 0;
    while (place < group->place_count && group->by_place[place] != NULL)
        place++;
    if (place == group->place_count) {
        struct pccl_remote **by_place =
            pccl_grow(&m->memory, group->by_place, &group->place_capacity, place + 1, sizeof *by_place);
        if (by_place == NULL)
            return false;
        group->by_place = by_place;
        if (group->matrix.places > 0 &&
            (place >= PCCL_OPTIMIZE_PEERS_MAX ||
             !pccl_matrix_reserve(&group->matrix, place + 1))) { /* the matrix cannot grow, so it is dropped */
            pccl_matrix_fini(&group->matrix);
            pccl_matrix_init(&group->matrix, &m->memory);
            group->tuning.known = false;
        }
        group->place_count = place + 1;
    }
    group->by_place[place] = remote;
    remote->place = place;
    return true;
}

void pccl_master_leave_matrix(struct pccl_peer_group *group, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->place < group->place_count && group->by_place[remote->place] == remote);
    group->by_place[remote->place] = NULL;
    if (remote->place < group->matrix.places)
        pccl_matrix_forget(&group->matrix, remote->place);
    while (group->place_count > 0 && group->by_place[group->place_count - 1] == NULL)
        group->place_count--;
}

/* ---- figures ---- */

struct pccl_figure *pccl_master_find_figure(const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from == to || from->group == NULL || from->group != to->group)
        return NULL;
    return pccl_matrix_at(&from->group->matrix, from->place, to->place);
}

static void put(struct pccl_master *m, struct pccl_figure *figure, enum pccl_figure_source source, uint32_t rtt_us,
                uint64_t rate)
{
    *figure = (struct pccl_figure){.rate = rate,
                                   .at_us = m->now_us,
                                   .tested_rate = source == PCCL_FIGURE_TRAFFIC ? figure->tested_rate : rate,
                                   .rtt_us = rtt_us,
                                   .source = (uint8_t)source};
}

void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure == NULL)
        return;
    if (figure->source == PCCL_FIGURE_UNREACHABLE)
        *figure = (struct pccl_figure){0};
    if (rate == 0)
        return;
    bool moved = figure->source != PCCL_FIGURE_NONE && pccl_rate_moved(figure->rate, rate);
    put(m, figure, PCCL_FIGURE_TRAFFIC, rtt_us != 0 ? rtt_us : figure->rtt_us, rate);
    from->group->tuning.moved = from->group->tuning.moved || moved;
}

/* Records that a test failed for local reasons, so that it is not repeated in this optimization. */
static void note_inconclusive(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure != NULL)
        put(m, figure, PCCL_FIGURE_NONE, 0, 0);
}

/* Returns true if the link has no fresh figure. */
static bool is_stale(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (m->optimizing && figure != NULL && figure->at_us != 0 && figure->at_us >= m->tests_begin_us &&
        figure->source != PCCL_FIGURE_TRAFFIC)
        return false; /* recorded in this optimization, so `fresh_ms` does not apply */
    if (figure == NULL || figure->source == PCCL_FIGURE_NONE)
        return true;
    uint64_t promised = figure->tested_rate / 1000 * from->group->tuning.share;
    if (figure->source == PCCL_FIGURE_TRAFFIC && pccl_rate_moved(promised, figure->rate))
        return true; /* its rate changes, so a test is better than the rates of operations */
    uint64_t fresh_ms = m->config.fresh_ms;
    if (figure->source == PCCL_FIGURE_UNREACHABLE)
        fresh_ms = pccl_min_u64(fresh_ms, UNREACHABLE_FRESH_MS);
    return m->now_us >= figure->at_us + fresh_ms * 1000;
}

void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to), *back = pccl_master_find_figure(to, from);
    if (figure == NULL || back == NULL)
        return;
    /* If a link is up, data flows over it, so another connection failed. */
    put(m, figure, pccl_master_holds_link(from, to) ? PCCL_FIGURE_NONE : PCCL_FIGURE_UNREACHABLE, 0, 0);
    if (!pccl_master_holds_link(to, from) && is_stale(m, to, from)) /* otherwise there is a better figure */
        put(m, back, PCCL_FIGURE_UNREACHABLE, 0, 0);
}

/* Records the result of a test. */
static void note_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, uint32_t rtt_us,
                      uint64_t rate)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure == NULL)
        return;
    rate = pccl_min_u64(rate, PCCL_RATE_MOST);
    put(m, figure, PCCL_FIGURE_TESTED, rtt_us, rate);
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent != NULL) {
        intent->rate = rate;
        intent->rtt_us = rtt_us != 0 ? rtt_us : intent->rtt_us;
    }
}

void pccl_master_link_cost(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate,
                           uint32_t *rtt_us)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    *rate = 0;
    *rtt_us = 0;
    if (intent != NULL && intent->up) {
        *rate = intent->rate;
        *rtt_us = intent->rtt_us;
    }
    if (figure == NULL || figure->source == PCCL_FIGURE_NONE || figure->source == PCCL_FIGURE_UNREACHABLE ||
        figure->judged)
        return;
    *rate = *rate != 0 ? *rate : figure->rate;
    *rtt_us = *rtt_us != 0 ? *rtt_us : figure->rtt_us;
}

/* ---- the problem ---- */

void pccl_master_calibrate_tests(struct pccl_peer_group *group)
{
    uint16_t shares[1001] = {0};
    uint32_t count = 0, seen = 0, share = 1000;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_figure *figure =
            pccl_master_find_figure(group->ring[i], group->ring[(i + 1) % group->ring_count]);
        if (figure == NULL || figure->tested_rate == 0)
            continue; /* if other figures had changed, they would have been reported */
        shares[pccl_min_u64(1000, figure->rate * 1000 / figure->tested_rate)]++;
        count++;
    }
    while (count > 0 && (seen += shares[share]) < (count + 1) / 2 && share > 1)
        share--;
    group->tuning.share = share;
}

struct pccl_figure pccl_master_link_estimate(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_figure *known = pccl_master_find_figure(from, to);
    struct pccl_figure figure = known != NULL ? *known : (struct pccl_figure){0};
    if (figure.source == PCCL_FIGURE_TESTED)
        figure.rate = figure.rate / 1000 * from->group->tuning.share;
    if (figure.source == PCCL_FIGURE_TESTED || figure.source == PCCL_FIGURE_TRAFFIC ||
        !pccl_master_holds_link(from, to))
        return figure;
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    figure.source = intent->rate != 0 ? PCCL_FIGURE_TRAFFIC : PCCL_FIGURE_NONE;
    figure.rate = intent->rate;
    figure.rtt_us = intent->rtt_us;
    return figure;
}

enum {
    LIMIT_LEAST_MS = 80,    /* a shorter test is inconclusive */
    LIMIT_MOST_MS = 2000,   /* maximum duration of one test */
    ROUND_TRIPS_BEFORE = 6, /* round trips before the first data, for the dial and the measurement of the round trip */
    ROUND_TRIPS_LEAST = 12, /* minimum duration of a test in round trips, because a connection starts slowly */
    REPORT_MS = 4500,       /* additional time to dial and to deliver the report */
    EXTENSION_MS = 5000,    /* maximum time added for failed tests */
};

void pccl_master_begin_tests(struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->test = (struct pccl_master_test){.became_free = true};
}

static bool can_load(const struct pccl_remote *remote)
{
    return !remote->departing && !remote->test.running && !remote->test.excluded;
}

static bool can_receive(const struct pccl_remote *remote)
{
    return !remote->departing && !remote->test.loaded && !remote->test.excluded;
}

static bool needs_test(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from != to && !from->test.excluded && !to->test.excluded && !pccl_master_cannot_link(from, to) &&
           is_stale(m, from, to);
}

static bool tests(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from->test.running && pccl_id_equal(&from->test.to, &to->id);
}

/* ---- one test ---- */

/* Returns the larger of two counts: tests that `from` still has to send, and tests that `to` still has to receive. */
static uint32_t tests_left(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_peer_group *group = from->group;
    uint32_t out = 0, in = 0;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        out += needs_test(m, from, group->ring[i]);
        in += needs_test(m, group->ring[i], to);
    }
    return out > in ? out : in;
}

/*
 * Returns the time limit of a test: an equal part of the remaining time, but on long paths at least the time that a
 * connection needs to reach its full rate.
 */
static uint32_t limit_of(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    PCCL_ASSERT(m->now_us < m->tests_end_us);
    uint64_t rounds = pccl_max_u64(1, tests_left(m, from, to)), rate;
    uint64_t share_us = (m->tests_end_us - m->now_us) / rounds;
    uint32_t rtt_us;
    pccl_master_link_cost(from, to, &rate, &rtt_us);
    uint64_t before_us = (uint64_t)rtt_us * ROUND_TRIPS_BEFORE, least_us = (uint64_t)rtt_us * ROUND_TRIPS_LEAST;
    uint64_t limit_us = share_us > before_us ? share_us - before_us : 0;
    uint64_t limit_ms = pccl_max_u64(pccl_max_u64(limit_us, least_us) / 1000, LIMIT_LEAST_MS);
    return (uint32_t)pccl_min_u64(limit_ms, LIMIT_MOST_MS);
}

static void begin_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    PCCL_ASSERT(from != to && from->group == to->group && !from->test.running && !to->test.loaded);
    uint32_t limit_ms = limit_of(m, from, to);
    struct pccl_master_test *test = &from->test;
    test->running = true;
    test->number = ++m->last_test;
    test->begun_us = m->now_us;
    test->until_us = m->now_us + (limit_ms + (uint64_t)REPORT_MS) * 1000;
    test->to = to->id;
    to->test.loaded = true;
    pccl_master_arm(m, test->until_us);
    struct pccl_address addresses[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(to, addresses);
    struct pccl_msg msg = {.type = PCCL_MSG_measure,
                           .as.measure = {.test = test->number,
                                          .peer = to->id,
                                          .ticket = pccl_ticket(&to->link_key, &from->id, &to->id),
                                          .limit_ms = limit_ms,
                                          .reversed = pccl_master_is_reversed(from, to),
                                          .candidates = addresses,
                                          .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

static bool try_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (!can_load(from) || !can_receive(to) || tests(to, from) || !needs_test(m, from, to))
        return false;
    begin_test(m, from, to);
    return true;
}

/*
 * Finds a member for `remote` to load, and one to load `remote`. If none is free, a member that becomes free later will
 * find `remote`. Searches along the ring, so that the links of the ring are tested first.
 */
static void look(struct pccl_master *m, struct pccl_remote *remote)
{
    const struct pccl_peer_group *group = remote->group;
    PCCL_ASSERT(group != NULL);
    uint32_t count = group->ring_count;
    for (uint32_t k = 1; k < count && can_load(remote); k++)
        (void)try_test(m, remote, group->ring[(remote->position + k) % count]);
    for (uint32_t k = 1; k < count && can_receive(remote); k++)
        (void)try_test(m, group->ring[(remote->position + count - k) % count], remote);
}

bool pccl_master_run_tests(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool runs = false;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        if (remote->test.became_free && m->now_us < m->tests_end_us)
            look(m, remote);
        remote->test.became_free = false;
    }
    for (uint32_t i = 0; i < group->ring_count; i++)
        runs = runs || (!group->ring[i]->departing && group->ring[i]->test.running);
    return runs;
}

/* ---- end of a test ---- */

static void end_test(struct pccl_master *m, struct pccl_remote *from)
{
    PCCL_ASSERT(from->test.running);
    struct pccl_remote *to = pccl_master_find(m, &from->test.to);
    from->test.running = false;
    from->test.became_free = true;
    if (to == NULL)
        return;
    to->test.loaded = false;
    to->test.became_free = true;
}

/* Adds the time lost in a test to the time of the other tests. */
static void extend(struct pccl_master *m, const struct pccl_remote *from)
{
    uint64_t most_us = m->tests_begin_us + (m->config.optimize_ms + (uint64_t)EXTENSION_MS) * 1000;
    m->tests_end_us = pccl_min_u64(most_us, m->tests_end_us + (m->now_us - from->test.begun_us));
}

void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured)
{
    if (!from->test.running || measured->test != from->test.number)
        return; /* too late, or from an earlier boot */
    struct pccl_remote *to = pccl_master_find(m, &from->test.to);
    bool known = to != NULL && !to->departing && to->group == from->group;
    if (known && measured->failed == 0 && measured->rate != 0)
        note_test(m, from, to, measured->rtt_us, measured->rate);
    else if (known && measured->failed != 0 &&
             /* the failure says nothing about the path */
             (measured->how == 0 || pccl_master_reported_shortage_since(to, from->test.begun_us)))
        note_inconclusive(m, from, to);
    else if (known) {
        pccl_master_note_unreachable(m, from, to);
        pccl_master_note_isolation(m, from, to, false);
    }
    if (measured->failed != 0)
        extend(m, from);
    end_test(m, from);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
}

void pccl_master_expire_tests_of(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        if (!remote->test.running)
            continue;
        if (m->now_us < remote->test.until_us) {
            pccl_master_arm(m, remote->test.until_us);
            continue;
        }
        pccl_master_log(
            m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &remote->id},
            "peer %s did not report the result of testing its link to peer %s: skipping further tests of its links",
            pccl_id_str(&remote->id), pccl_id_str(&remote->test.to));
        remote->test.excluded = true;
        extend(m, remote);
        end_test(m, remote);
    }
}

void pccl_master_end_tests_of(struct pccl_master *m, struct pccl_remote *gone)
{
    const struct pccl_peer_group *group = gone->group;
    PCCL_ASSERT(group != NULL && gone->departing);
    if (gone->test.running)
        end_test(m, gone);
    for (uint32_t i = 0; gone->test.loaded && i < group->ring_count; i++)
        if (tests(group->ring[i], gone))
            end_test(m, group->ring[i]);
}
