/*
 * T1-T9: the optimization of the topology. The checker receives the peers' reports on their paths, and examines every
 * ring that a joint call has changed.
 */
#include "master/links.h"
#include "master/roster.h"
#include "master/topology.h"
#include "check.h"
#include "perf/report_parse.h"
#include "wire/cost.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEST_MOST_US = 8500000, /* limit and report of one test */
    REPORT_US = 4500000,    /* least time to wait for a test after its limit */
    EXTENSION_US = 5000000, /* limit, for tests without a result */
    LINKS_US = 3 * 2000000, /* for the number of rings that are tried */
    SLACK_US = 2000000,     /* messages in flight, a slow connection */
    SEARCHES = 3,           /* searches in one optimization */
    UNREACHABLE_FRESH_MS = 30000,
    TOLERANCE_PERMILLE = 21, /* share of the slowest path, for a shorter ring */
};

/* Last report on a path to one life of the master. */
struct path_heard {
    struct path_heard *next;
    uint64_t boot;
    struct pccl_id from, to;
    uint64_t rate, rtt_us, tested_us, figure_rtt_us;
    bool tested, unreachable; /* the last report is from a test, not from traffic */
    bool shared;              /* a rate was measured on a shared line */
    bool doubtful;            /* a report claimed that nothing gets through, in one direction or the other */
};
/* A test requested by one life of the master. */
struct test_told {
    struct test_told *next;
    uint64_t boot, number, until_us;
    struct pccl_id of, with;
    bool reported;
};
/* End of one peer's call. */
struct optimized {
    struct optimized *next;
    struct pccl_id lineage;
    uint32_t group;
    uint64_t round;
    enum pccl_status status;
    struct sim_peer *by;
};
/* A group's ring when the checker last saw it. */
struct ring_shot {
    struct ring_shot *next;
    uint64_t boot, joint;
    struct pccl_id lineage;
    uint32_t group, version, count;
    struct pccl_id *ring; /* owned */
};

static void *create(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (block == NULL)
        abort();
    return block;
}

/* ---- reports on paths ---- */

static struct path_heard *path_of(struct sim *sim, uint64_t boot, const struct pccl_id *from, const struct pccl_id *to)
{
    struct path_heard *path = sim->checks->paths;
    while (path != NULL && !(path->boot == boot && pccl_id_equal(&path->from, from) && pccl_id_equal(&path->to, to)))
        path = path->next;
    if (path != NULL)
        return path;
    path = create(sizeof *path);
    *path = (struct path_heard){.next = sim->checks->paths, .boot = boot, .from = *from, .to = *to};
    sim->checks->paths = path;
    return path;
}

bool sim_path_was_told(struct sim *sim, uint64_t boot, const struct pccl_id *from, const struct pccl_id *to,
                       uint64_t rate, uint64_t rtt_us)
{
    const struct path_heard *path = path_of(sim, boot, from, to);
    /* The master may have dropped a rate, and received a rate of a shared line since. */
    return (rate == 0 || rate == path->rate || (path->shared && rate < path->rate)) &&
           (rtt_us == 0 || rtt_us == path->rtt_us || rtt_us == path->figure_rtt_us);
}

static bool is_fresh(const struct sim *sim, const struct path_heard *path)
{
    uint64_t fresh_ms = sim->plan.master.fresh_ms;
    if (path->unreachable)
        fresh_ms = pccl_min_u64(fresh_ms, UNREACHABLE_FRESH_MS);
    return (path->tested || path->unreachable) && sim->now < path->tested_us + fresh_ms * 1000;
}

static void heard_test(struct sim *sim, const struct sim_master *master, const struct pccl_remote *from,
                       const struct pccl_msg_measured *measured)
{
    const struct pccl_remote *to = pccl_master_find(master->machine, &from->test.to);
    if (!from->test.running || from->test.number != measured->test || to == NULL || to->departing ||
        to->group != from->group)
        return;
    struct path_heard *path = path_of(sim, master->config.boot, &from->id, &to->id);
    struct path_heard *back = path_of(sim, master->config.boot, &to->id, &from->id);
    bool failed = measured->failed != 0 || measured->rate == 0;
    if (measured->failed != 0 && measured->how == 0)
        return;
    path->doubtful = failed;
    back->doubtful = back->doubtful || failed;
    if (failed && !is_fresh(sim, back)) {
        back->unreachable = true;
        back->tested = false;
        back->tested_us = sim->now;
    }
    path->unreachable = failed;
    path->tested = !failed;
    path->tested_us = sim->now;
    if (failed)
        return;
    path->rate = pccl_min_u64(measured->rate, PCCL_RATE_MOST);
    path->rtt_us = measured->rtt_us != 0 ? measured->rtt_us : path->rtt_us;
    path->figure_rtt_us = measured->rtt_us;
}

static void heard_link(struct sim *sim, const struct sim_master *master, const struct pccl_remote *from,
                       const struct pccl_msg_link_up *up)
{
    struct path_heard *path = path_of(sim, master->config.boot, &from->id, &up->peer);
    if (pccl_master_find_intent(from, &up->peer) == NULL || pccl_master_find(master->machine, &up->peer) == NULL)
        return;
    path->unreachable = path->doubtful = false;
    if (up->rtt_us != 0)
        path->rtt_us = up->rtt_us;
    uint64_t rate = pccl_min_u64(up->rate, PCCL_RATE_MOST);
    path->shared = path->shared || up->shared != 0;
    if (rate == 0 || (up->shared != 0 && rate <= path->rate))
        return; /* T4: a rate of a shared line lowers no figure */
    if (up->rtt_us != 0)
        path->figure_rtt_us = up->rtt_us;
    path->tested = false;
    path->rate = rate;
}

static void heard_loss(struct sim *sim, const struct sim_master *master, const struct pccl_remote *from,
                       const struct pccl_msg_link_lost *lost)
{
    struct path_heard *path = path_of(sim, master->config.boot, &from->id, &lost->peer);
    struct path_heard *back = path_of(sim, master->config.boot, &lost->peer, &from->id);
    path->doubtful = back->doubtful = true;
    path->tested = back->tested = false;
}

void sim_check_topology_heard(struct sim *sim, const struct sim_master *master, struct sim_peer *from,
                              const struct pccl_msg *msg)
{
    const struct pccl_remote *remote = pccl_master_find(master->machine, &from->id);
    if (remote == NULL)
        return;
    if (msg->type == PCCL_MSG_link_up)
        heard_link(sim, master, remote, &msg->as.link_up);
    if (msg->type == PCCL_MSG_link_lost && msg->as.link_lost.incoming == 0)
        heard_loss(sim, master, remote, &msg->as.link_lost);
    if (msg->type != PCCL_MSG_measured)
        return;
    heard_test(sim, master, remote, &msg->as.measured);
    for (struct test_told *test = sim->checks->tests; test != NULL; test = test->next)
        if (test->boot == master->config.boot && test->number == msg->as.measured.test &&
            pccl_id_equal(&test->of, &from->id))
            test->reported = true;
}

/* T4: the matrix has the figures that peers reported, and none of departed members. */
static void check_figures(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        for (uint32_t k = 0; k < group->ring_count; k++) {
            const struct pccl_remote *from = group->ring[i], *to = group->ring[k];
            const struct pccl_figure *figure = pccl_master_find_figure(from, to);
            if (figure == NULL || figure->source == PCCL_FIGURE_NONE || figure->judged)
                continue; /* judged: scenarios_slow_links.c */
            const struct path_heard *path = path_of(sim, master->config.boot, &from->id, &to->id);
            const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id),
                                          *back = pccl_master_find_intent(to, &from->id);
            bool lost = path->doubtful || (intent != NULL && intent->failed) || (back != NULL && back->failed);
            if (figure->source == PCCL_FIGURE_UNREACHABLE && pccl_master_holds_link(from, to))
                sim_fail(sim, "T4 the master believes that a way of %02x%02x is closed, and a link stands over it",
                         from->id.bytes[0], from->id.bytes[1]);
            if (figure->source == PCCL_FIGURE_UNREACHABLE ? !lost || figure->rate != 0
                                                          : figure->rate != path->rate || figure->rate == 0)
                sim_fail(sim,
                         "T4 the master believes of a way of %02x%02x what it was not told: source %u, %llu, not %llu",
                         from->id.bytes[0], from->id.bytes[1], figure->source, (unsigned long long)figure->rate,
                         (unsigned long long)path->rate);
        }
}

/* ---- T3, T6: tests ---- */

/*
 * Returns true if the test may still load its path, as far as the master can know. Its request may have been made some
 * time before it arrived.
 */
static bool may_run(const struct sim *sim, const struct sim_master *master, const struct test_told *test)
{
    const struct pccl_remote *of = pccl_master_find(master->machine, &test->of);
    const struct pccl_remote *with = pccl_master_find(master->machine, &test->with);
    return of != NULL && pccl_master_is_living_member(of) && with != NULL && pccl_master_is_living_member(with) &&
           !test->reported && sim->now + SIM_S < test->until_us;
}

/* Returns true if the request was delivered at once; otherwise it may have waited for a connection. */
static bool was_told_at_once(const struct sim *sim, const struct sim_peer *peer)
{
    return peer->unwell_until + 10 * SIM_S < sim->now || peer->unwell_until == 0;
}

static void check_test_begins(struct sim *sim, const struct sim_master *master, const struct sim_peer *to,
                              const struct pccl_msg_measure *measure)
{
    uint64_t boot = master->config.boot;
    bool at_once = was_told_at_once(sim, to);
    for (const struct test_told *test = sim->checks->tests; test != NULL && at_once; test = test->next) {
        const struct sim_peer *of = test->boot == boot ? sim_peer_find(sim, &test->of) : NULL;
        bool of_this = pccl_id_equal(&test->of, &to->id), to_that = pccl_id_equal(&test->with, &measure->peer);
        bool back = pccl_id_equal(&test->of, &measure->peer) && pccl_id_equal(&test->with, &to->id);
        if ((of_this || to_that || back) && of != NULL && was_told_at_once(sim, of) && may_run(sim, master, test))
            sim_fail(sim, "T3 p%u is to load a way while %s", to->process.number,
                     of_this   ? "it loads another"
                     : to_that ? "another one loads the way there"
                               : "the way back is loaded");
    }
    const struct path_heard *path = path_of(sim, boot, &to->id, &measure->peer);
    if (path->tested && is_fresh(sim, path) && !path->unreachable &&
        pccl_master_find(master->machine, &measure->peer) != NULL)
        sim_fail(sim, "T6 p%u is to test a way of which everything is known", to->process.number);
    const struct sim_checks *checks = sim->checks;
    uint64_t since = pccl_max_u64(checks->optimizing_since, to->master_unwell_until);
    if (checks->optimizing && checks->optimizing_boot == boot && at_once &&
        sim->now > since + sim->plan.master.optimize_ms * SIM_MS + EXTENSION_US)
        sim_fail(sim, "T5 p%u is to test a way when the time for tests is over", to->process.number);
    struct test_told *test = create(sizeof *test);
    *test = (struct test_told){.next = sim->checks->tests,
                               .boot = boot,
                               .number = measure->test,
                               .until_us = sim->now + measure->limit_ms * SIM_MS + REPORT_US,
                               .of = to->id,
                               .with = measure->peer};
    sim->checks->tests = test;
}

void sim_check_topology_told(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                             const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_measure)
        check_test_begins(sim, master, to, &msg->as.measure);
}

/* ---- T2: rings ---- */

struct worth {
    uint64_t slowest, latency_us; /* slowest 0: no ring */
};

static int compare_shares(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Returns the share of their tested rates that the better half of a ring's paths achieve, in thousandths. */
static uint64_t share_of(const struct pccl_master *m, const struct pccl_id *ring, uint32_t count)
{
    uint64_t *shares = create((count + 1u) * sizeof *shares), used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_figure *figure =
            pccl_master_find_figure(pccl_master_find(m, &ring[i]), pccl_master_find(m, &ring[(i + 1) % count]));
        if (figure != NULL && figure->tested_rate != 0)
            shares[used++] = pccl_max_u64(1, pccl_min_u64(1000, figure->rate * 1000 / figure->tested_rate));
    }
    qsort(shares, used, sizeof *shares, compare_shares);
    uint64_t share = used > 0 ? shares[(used - 1) / 2] : 1000;
    free(shares);
    return share;
}

/* Returns the rate as in a search; 0: no path, 1: unknown. */
static uint64_t rate_of(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t share, uint32_t *rtt_us)
{
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    uint8_t source = figure != NULL ? figure->source : PCCL_FIGURE_NONE;
    *rtt_us = figure != NULL ? figure->rtt_us : 0;
    uint64_t assumed = from->group->tuning.assumed_rate, unknown = assumed != 0 ? pccl_rate_rounded(assumed) : 1;
    if (source == PCCL_FIGURE_TRAFFIC)
        return pccl_rate_rounded(figure->rate);
    if (source == PCCL_FIGURE_TESTED)
        return pccl_rate_rounded(figure->rate / 1000 * share);
    if (!pccl_master_holds_link(from, to))
        return source == PCCL_FIGURE_NONE ? unknown : 0;
    *rtt_us = intent->rtt_us;
    return intent->rate != 0 ? pccl_rate_rounded(intent->rate) : unknown;
}

static struct worth worth_of(const struct pccl_master *m, const struct pccl_id *ring, uint32_t count, uint64_t share)
{
    struct worth worth = {.slowest = UINT64_MAX};
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *from = pccl_master_find(m, &ring[i]);
        const struct pccl_remote *to = pccl_master_find(m, &ring[(i + 1) % count]);
        uint32_t rtt_us;
        worth.slowest = pccl_min_u64(worth.slowest, rate_of(from, to, share, &rtt_us));
        worth.latency_us += rtt_us;
    }
    return worth;
}

/*
 * Returns true if a link of it has failed, or fails: then any other ring is acceptable, not only one from a search
 * (PROTOCOL 9.4).
 */
static bool has_failures(const struct pccl_master *m, const struct pccl_id *ring, uint32_t count)
{
    for (uint32_t e = 0; e < m->edge_count; e++)
        for (uint32_t i = 0; i < count; i++) {
            const struct pccl_id *a = &ring[i], *b = &ring[(i + 1) % count];
            const struct pccl_edge *edge = &m->edges[e];
            if ((pccl_id_equal(&edge->from, a) && pccl_id_equal(&edge->to, b)) ||
                (pccl_id_equal(&edge->from, b) && pccl_id_equal(&edge->to, a)))
                return true;
        }
    return false;
}

/* Returns true if it has the same members in another order. */
static bool is_permutation(const struct ring_shot *shot, const struct pccl_peer_group *group)
{
    bool same = shot->count == group->ring_count, moved = false;
    for (uint32_t i = 0; same && i < shot->count; i++)
        moved = moved || !pccl_id_equal(&shot->ring[i], &group->ring[i]->id);
    for (uint32_t i = 0; same && i < shot->count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < shot->count && !found; k++)
            found = pccl_id_equal(&shot->ring[i], &group->ring[k]->id);
        same = found;
    }
    return same && moved;
}

/* Checks that another ring of the same members, adopted by a joint call, is better by the master's figures. */
static void check_adopted(struct sim *sim, const struct sim_master *master, const struct ring_shot *before,
                          const struct pccl_peer_group *group)
{
    const struct pccl_master *m = master->machine;
    if (has_failures(m, before->ring, before->count))
        return;
    struct pccl_id *ring = create((group->ring_count + 1u) * sizeof *ring);
    for (uint32_t i = 0; i < group->ring_count; i++)
        ring[i] = group->ring[i]->id;
    uint64_t share = share_of(m, before->ring, before->count);
    struct worth was = worth_of(m, before->ring, before->count, share);
    struct worth is = worth_of(m, ring, group->ring_count, share);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_id *to = &ring[(i + 1) % group->ring_count];
        const struct path_heard *path = path_of(sim, master->config.boot, &ring[i], to);
        if (!pccl_master_holds_link(group->ring[i], group->ring[(i + 1) % group->ring_count]))
            sim_fail(sim, "T2 a new ring of group %u, and nobody said that its way from %02x%02x stands%s",
                     group->number, ring[i].bytes[0], ring[i].bytes[1], path->unreachable ? "; a test failed" : "");
    }
    free(ring);
    bool better = was.slowest == 0 || is.slowest > was.slowest || is.latency_us < was.latency_us;
    uint64_t tolerance = was.slowest / 1000 * TOLERANCE_PERMILLE + 1;
    if (is.slowest == 0 || is.slowest + tolerance < was.slowest || !better)
        sim_fail(sim, "T2 a new ring of group %u is no better: slowest %llu, was %llu; latency %llu, was %llu",
                 group->number, (unsigned long long)is.slowest, (unsigned long long)was.slowest,
                 (unsigned long long)is.latency_us, (unsigned long long)was.latency_us);
    sim->totals.adoptions++;
    sim_note(sim, "group %u: another ring, slowest link %llu, was %llu", group->number, (unsigned long long)is.slowest,
             (unsigned long long)was.slowest);
}

static struct ring_shot *shot_of(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group)
{
    struct ring_shot *shot = sim->checks->shots;
    while (shot != NULL && !(shot->boot == master->config.boot && shot->group == group->number &&
                             pccl_id_equal(&shot->lineage, &master->machine->lineage)))
        shot = shot->next;
    return shot;
}

static void take_shot(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                      struct ring_shot *shot)
{
    if (shot == NULL) {
        shot = create(sizeof *shot);
        *shot = (struct ring_shot){.next = sim->checks->shots,
                                   .boot = master->config.boot,
                                   .lineage = master->machine->lineage,
                                   .group = group->number};
        sim->checks->shots = shot;
    }
    free(shot->ring);
    shot->ring = create((group->ring_count + 1u) * sizeof *shot->ring);
    for (uint32_t i = 0; i < group->ring_count; i++)
        shot->ring[i] = group->ring[i]->id;
    shot->count = group->ring_count;
    shot->version = group->ring_version;
}

/* Runs after each step of a master that has created a run, is not recovering, and is not removing members. */
void sim_check_topology(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    struct sim_checks *checks = sim->checks;
    uint64_t joint = pccl_master_joint(m);
    if (!checks->optimizing || checks->optimizing_boot != master->config.boot)
        checks->optimizing_since = sim->now;
    checks->optimizing = m->optimizing;
    checks->optimizing_boot = master->config.boot;
    for (uint32_t i = 0; i < m->group_count; i++) {
        const struct pccl_peer_group *group = m->groups[i];
        struct ring_shot *shot = shot_of(sim, master, group);
        bool concluded = shot != NULL && joint == shot->joint + 1;
        if (concluded) {
            check_figures(sim, master, group);
            if (group->by_instance.count != 0)
                sim_fail(sim, "I7 the master enters era %llu with operations", (unsigned long long)joint);
        }
        if (shot == NULL || shot->version != group->ring_version) {
            if (concluded && is_permutation(shot, group))
                check_adopted(sim, master, shot, group);
            take_shot(sim, master, group, shot);
            shot = shot_of(sim, master, group);
        }
        shot->joint = joint;
    }
}

/* ---- T1: the call ---- */

static void check_alike(struct sim *sim, struct sim_peer *peer, uint64_t round, enum pccl_status status)
{
    struct optimized *seen = sim->checks->optimized;
    while (seen != NULL && !(seen->round == round && seen->group == peer->group &&
                             pccl_id_equal(&seen->lineage, &peer->machine->lineage)))
        seen = seen->next;
    if (seen == NULL) {
        seen = create(sizeof *seen);
        *seen = (struct optimized){.next = sim->checks->optimized,
                                   .lineage = peer->machine->lineage,
                                   .group = peer->group,
                                   .round = round,
                                   .status = status,
                                   .by = peer};
        sim->checks->optimized = seen;
    }
    if (seen->status != status && sim_is_survivor(sim, peer) && sim_is_survivor(sim, seen->by))
        sim_fail(sim, "T1 optimization %llu of group %u ended with %s for p%u and with %s for p%u",
                 (unsigned long long)round, peer->group, pccl_status_name(status), peer->process.number,
                 pccl_status_name(seen->status), seen->by->process.number);
}

void sim_check_optimized(struct sim *sim, struct sim_peer *peer, enum pccl_status status)
{
    const struct pccl_peer *p = peer->machine;
    uint64_t round = peer->asked_round[PCCL_ROUND_OPTIMIZE];
    if (p->state != PCCL_PEER_MEMBER)
        return; /* ended with the communicator */
    if (p->rounds[PCCL_ROUND_OPTIMIZE] == round) {
        if (status != PCCL_ABORTED && status != PCCL_TIMEOUT)
            sim_fail(sim, "T1 p%u: optimization %llu is not decided, and ended with %s", peer->process.number,
                     (unsigned long long)round, pccl_status_name(status));
        return;
    }
    bool failed = p->last_outcome[PCCL_ROUND_OPTIMIZE] == PCCL_ROUND_FAILED;
    if (status != (failed ? PCCL_NO_RING : PCCL_OK) || (failed && pccl_peer_last_reason(p)->length == 0))
        sim_fail(sim, "T1 p%u: optimization %llu %s, and ended with %s: %s", peer->process.number,
                 (unsigned long long)round, failed ? "failed" : "was done", pccl_status_name(status),
                 pccl_peer_last_reason(p)->bytes);
    *(failed ? &sim->totals.no_rings : &sim->totals.optimizations) += 1;
    check_alike(sim, peer, round, status);
}

/* ---- T5: it ends ---- */

void sim_check_topology_time(struct sim *sim)
{
    const struct sim_master *master = sim->master;
    const struct sim_checks *checks = sim->checks;
    if (!sim_master_is_up(sim) || !sim_process_runs(&master->process) || !master->machine->optimizing ||
        checks->optimizing_boot != master->config.boot || sim->searches_by_hand)
        return;
    uint64_t since = checks->optimizing_since;
    for (uint32_t i = 0; i < sim->peer_count; i++)
        since = pccl_max_u64(since, sim->peers[i]->master_unwell_until);
    uint64_t bound =
        sim->plan.master.optimize_ms * SIM_MS + TEST_MOST_US + LINKS_US + SEARCHES * sim->plan.search_us + SLACK_US;
    if (sim->now > since + bound)
        sim_fail(sim, "T5 an optimization has gone on for %.1f s", (double)(sim->now - since) / 1e6);
}

/* ---- T7: topology reports ---- */

void sim_check_topology_report(struct sim *sim, const char *text, size_t length)
{
    struct pccl_topology_report report;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    if (length == 0 && (sim->oom_at != 0 || sim->master->process.memory.fail_at != 0))
        return;
    if (perf_report_parse(text, length, &sim->driver_hook, &report, &reason) != PCCL_OK)
        sim_fail(sim, "T7 a topology report that cannot be read: %s", reason.bytes);
    for (uint32_t i = 0; i < report.count; i++)
        if (pccl_id_is_zero(&report.peers[i].id))
            sim_fail(sim, "T7 a topology report with a peer that has no id");
    for (uint32_t i = 0; i < report.link_count; i++)
        if (report.links[i].source != PCCL_FIGURE_UNREACHABLE && report.links[i].rate == 0)
            sim_fail(sim, "T7 a topology report with a link of no rate");
    pccl_topology_report_fini(&report);
}

/* ---- the end ---- */

void sim_check_topology_idle(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    if (m->optimizing)
        sim_fail(sim, "I11 the master still optimizes");
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->test.running || m->remotes[i]->test.loaded)
            sim_fail(sim, "I11 the master still waits for a test");
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.phase != PCCL_TUNING_NONE)
            sim_fail(sim, "I11 group %u is still being optimized", m->groups[i]->number);
    for (uint32_t i = 0; i < sim->peer_count; i++)
        if (sim->peers[i]->process.alive && (sim->peers[i]->app.describing || sim->peers[i]->machine->test.outstanding))
            sim_fail(sim, "I11 p%u still waits for a picture, or tests", i);
}

void sim_check_topology_fini(struct sim *sim)
{
    struct sim_checks *checks = sim->checks;
    while (checks->paths != NULL) {
        struct path_heard *path = checks->paths;
        checks->paths = path->next;
        free(path);
    }
    while (checks->tests != NULL) {
        struct test_told *test = checks->tests;
        checks->tests = test->next;
        free(test);
    }
    while (checks->optimized != NULL) {
        struct optimized *seen = checks->optimized;
        checks->optimized = seen->next;
        free(seen);
    }
    while (checks->shots != NULL) {
        struct ring_shot *shot = checks->shots;
        checks->shots = shot->next;
        free(shot->ring);
        free(shot);
    }
}
