/*
 * The tests of an optimization: which paths are tested when. A test is of one path: a member loads
 * it and reports what arrived. Each member loads one path at a time and receives over one, from
 * another member than the one it loads. So all test at once, as all send at once in a ring, and the
 * answers of a test do not wait behind the load of the opposite path. Only paths of which nothing
 * fresh is known are tested. When the time of the optimization is up no test begins; the next
 * optimization tests the rest.
 *
 * The tests of a member end when it dies, and one that does not report in time is not tested any
 * more. Neither costs more than the paths of that member, since the time lost by waiting for it is
 * added to that of the others.
 */
#include "core/ticket.h"
#include "master/lacks.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/topology.h"

enum {
    LIMIT_LEAST_MS = 80,    /* a shorter test shows nothing */
    LIMIT_MOST_MS = 2000,   /* of one test */
    ROUND_TRIPS_BEFORE = 6, /* before the first data: to dial, and to measure the round trip */
    ROUND_TRIPS_LEAST = 12, /* of a test, at least: a connection starts slowly */
    REPORT_MS = 4500,       /* beyond its limit: to dial, and for the report to come */
    EXTENSION_MS = 5000,    /* at most, for tests that failed */
};

void pccl_master_begin_tests(struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->test = (struct pccl_master_test){.looks = true};
}

static bool can_load(const struct pccl_remote *remote)
{
    return !remote->departing && !remote->test.running && !remote->test.sits_out;
}

static bool can_receive(const struct pccl_remote *remote)
{
    return !remote->departing && !remote->test.loaded && !remote->test.sits_out;
}

static bool needs_test(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from != to && !from->test.sits_out && !to->test.sits_out && pccl_master_is_stale(m, from, to);
}

static bool tests(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from->test.running && pccl_id_equal(&from->test.to, &to->id);
}

/* ---- one test ---- */

/* How many tests `from` has still to load or `to` to receive, whichever is more. */
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
 * Its share of the time that is left; on long paths at least as much as a connection needs to get
 * up to speed.
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
 * Finds a member for it to load, and one to load it. If there is none, a member that becomes free
 * later finds it. The search goes around the ring, so that the links of the ring are tested first.
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
        if (remote->test.looks && m->now_us < m->tests_end_us)
            look(m, remote);
        remote->test.looks = false;
    }
    for (uint32_t i = 0; i < group->ring_count; i++)
        runs = runs || (!group->ring[i]->departing && group->ring[i]->test.running);
    return runs;
}

/* ---- its end ---- */

static void end_test(struct pccl_master *m, struct pccl_remote *from)
{
    PCCL_ASSERT(from->test.running);
    struct pccl_remote *to = pccl_master_find(m, &from->test.to);
    from->test.running = false;
    from->test.looks = true;
    if (to == NULL)
        return;
    to->test.loaded = false;
    to->test.looks = true;
}

/* Adds the time that was lost to that of the other tests. */
static void extend(struct pccl_master *m, const struct pccl_remote *from)
{
    uint64_t most_us = m->tests_begin_us + (m->config.optimize_ms + (uint64_t)EXTENSION_MS) * 1000;
    m->tests_end_us = pccl_min_u64(most_us, m->tests_end_us + (m->now_us - from->test.begun_us));
}

void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured)
{
    if (!from->test.running || measured->test != from->test.number)
        return; /* it comes too late, or belongs to an earlier boot */
    struct pccl_remote *to = pccl_master_find(m, &from->test.to);
    bool known = to != NULL && !to->departing && to->group == from->group;
    if (known && measured->failed == 0 && measured->rate != 0)
        pccl_master_note_test(m, from, to, measured->rtt_us, measured->rate);
    else if (known && measured->failed != 0 &&
             (measured->how == 0 || pccl_master_lacks_since(to, from->test.begun_us))) /* no word about the path */
        pccl_master_note_inconclusive(m, from, to);
    else if (known)
        pccl_master_note_unreachable(m, from, to);
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
        pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &remote->id},
                        "peer %s did not report the test of its link to peer %s: its links are not tested",
                        pccl_id_str(&remote->id), pccl_id_str(&remote->test.to));
        remote->test.sits_out = true;
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
