#include "master/goodput.h"
#include "master/roster.h"

#include <string.h>

enum { PROBES = 8 };

/* A round of a group, by the reports of its members. */
struct pccl_goodput_round {
    uint64_t key, since_us;
    uint32_t reports, least_us; /* least_us: the time in it of the member that entered it last */
    struct pccl_id last;        /* that member */
};

/* ---- sums ---- */

static void add(struct pccl_master *m, struct pccl_goodput *goodput, enum pccl_time_use use, uint64_t us)
{
    goodput->whole[use] += us;
    goodput->current[use] += us;
    m->tally.time_us[use] += us;
}

static void turn(struct pccl_goodput *goodput)
{
    if (pccl_tally_sum(goodput->current, PCCL_TIME_USES) < PCCL_GOODPUT_RECENT_US)
        return;
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++) {
        goodput->previous[use] = goodput->current[use];
        goodput->current[use] = 0;
    }
    for (uint32_t i = 0; i < PCCL_GOODPUT_DELAYS_MAX; i++)
        goodput->delays[i].us /= 2;
    goodput->previous_delayed_us = goodput->delayed_us;
    goodput->delayed_us = 0;
}

/* Adds to the time for which a member has waited for another one. The one with the least time is replaced. */
static void add_delay(struct pccl_goodput *goodput, const struct pccl_id *by, uint64_t us)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < PCCL_GOODPUT_DELAYS_MAX; i++) {
        if (pccl_id_equal(&goodput->delays[i].by, by)) {
            goodput->delays[i].us += us;
            return;
        }
        if (goodput->delays[i].us < goodput->delays[at].us)
            at = i;
    }
    goodput->delays[at] = (struct pccl_goodput_delay){*by, us};
}

/* ---- rounds ---- */

static struct pccl_goodput_round *find_round(const struct pccl_peer_group *group, uint64_t key)
{
    for (uint32_t i = 0; group->rounds != NULL && i < PROBES; i++) {
        struct pccl_goodput_round *round = &group->rounds[(key + i) % PCCL_GOODPUT_ROUNDS];
        if (round->key == key && round->reports > 0)
            return round;
    }
    return NULL;
}

/* Returns a round, which is created if there is room; otherwise NULL. */
static struct pccl_goodput_round *make_round(struct pccl_master *m, struct pccl_peer_group *group, uint64_t key)
{
    struct pccl_goodput_round *found = find_round(group, key);
    if (found != NULL)
        return found;
    if (group->rounds == NULL)
        group->rounds = pccl_allocate(&m->memory, PCCL_GOODPUT_ROUNDS * sizeof *group->rounds);
    for (uint32_t i = 0; group->rounds != NULL && i < PROBES; i++) {
        struct pccl_goodput_round *round = &group->rounds[(key + i) % PCCL_GOODPUT_ROUNDS];
        if (round->reports > 0 && m->now_us < round->since_us + PCCL_GOODPUT_ROUND_US)
            continue;
        *round = (struct pccl_goodput_round){.key = key, .since_us = m->now_us, .least_us = UINT32_MAX};
        return round;
    }
    return NULL;
}

static bool is_pending(const struct pccl_goodput *goodput, uint64_t key)
{
    for (uint32_t i = 0; i < goodput->pending_count; i++)
        if (goodput->pending[i].key == key)
            return true;
    return false;
}

/* Keeps a round until it can be compared. Returns false if there is no room. */
static bool keep(struct pccl_master *m, struct pccl_remote *from, const struct pccl_seen_round *seen,
                 uint64_t weight_us)
{
    struct pccl_goodput *goodput = from->goodput;
    if (goodput->pending_count == PCCL_GOODPUT_PENDING_MAX || is_pending(goodput, seen->key))
        return false;
    struct pccl_goodput_round *round = make_round(m, from->group, seen->key);
    if (round == NULL)
        return false;
    if (seen->took_us < round->least_us) {
        round->least_us = seen->took_us;
        round->last = from->id;
    }
    round->reports++;
    goodput->pending[goodput->pending_count++] =
        (struct pccl_goodput_pending){.key = seen->key,
                                      .received_us = m->now_us,
                                      .weight_us = weight_us,
                                      .took_us = seen->took_us,
                                      .blocked_us = (uint32_t)pccl_min_u64(seen->blocked_us, seen->took_us)};
    return true;
}

/*
 * Divides the time for which a member has waited for an operation. All leave it at about the same time, so the member
 * with the shortest time in it entered last, and the others waited for it until then.
 */
static void compare(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_goodput_pending *pending)
{
    struct pccl_goodput *goodput = remote->goodput;
    const struct pccl_goodput_round *round = find_round(remote->group, pending->key);
    uint64_t waited_us = 0;
    if (round != NULL && round->reports > 1 && 2 * round->reports >= remote->group->ring_count &&
        pending->blocked_us > 0 && pending->took_us > round->least_us) {
        uint64_t late_us = pending->took_us - round->least_us, before_us = pending->took_us - pending->blocked_us;
        waited_us = pccl_min_u64(late_us - pccl_min_u64(late_us, before_us), pending->blocked_us);
        waited_us = (uint64_t)((double)waited_us / pending->blocked_us * (double)pending->weight_us);
        waited_us = pccl_min_u64(waited_us, pending->weight_us);
    }
    add(m, goodput, PCCL_TIME_WAITING, waited_us);
    add(m, goodput, PCCL_TIME_MOVING, pending->weight_us - waited_us);
    if (waited_us == 0)
        return;
    add_delay(goodput, &round->last, waited_us);
    struct pccl_remote *last = pccl_master_find(m, &round->last);
    if (last != NULL && last->goodput != NULL)
        last->goodput->delayed_us += waited_us;
}

/* Adds the rounds that all members have reported, or that have waited long enough; with `all`, every round. */
static void settle(struct pccl_master *m, struct pccl_remote *remote, bool all)
{
    struct pccl_goodput *goodput = remote->goodput;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < goodput->pending_count; i++) {
        const struct pccl_goodput_pending pending = goodput->pending[i];
        const struct pccl_goodput_round *round = find_round(remote->group, pending.key);
        if (!all && m->now_us < pending.received_us + PCCL_GOODPUT_SETTLED_US && round != NULL &&
            round->reports < remote->group->ring_count)
            goodput->pending[kept++] = pending;
        else
            compare(m, remote, &pending);
    }
    goodput->pending_count = kept;
}

/* ---- reports ---- */

/* Returns a reported sum: at least the last one, and at most by `*left_us` more, which it reduces. */
static uint64_t limit(uint64_t reported_us, uint64_t last_us, uint64_t *left_us)
{
    uint64_t more_us = pccl_min_u64(reported_us - pccl_min_u64(reported_us, last_us), *left_us);
    *left_us -= more_us;
    return last_us + more_us;
}

/* Limits the sums to the time that has passed here, and to each other. *computing_us is the rest of the new time. */
static struct pccl_times limit_times(const struct pccl_goodput *goodput, const struct pccl_times *reported,
                                     uint64_t now_us, uint64_t *computing_us)
{
    const struct pccl_times *last = &goodput->claimed;
    struct pccl_times times = *last;
    uint64_t most_us = goodput->base_lived_us + (now_us - goodput->base_us) + PCCL_GOODPUT_TOLERANCE_US;
    uint64_t left_us = most_us - pccl_min_u64(most_us, last->lived_us);
    times.lived_us = limit(reported->lived_us, last->lived_us, &left_us);
    left_us = times.lived_us - last->lived_us;
    times.operating_us = limit(reported->operating_us, last->operating_us, &left_us);
    times.lost_us = limit(reported->lost_us, last->lost_us, &left_us);
    times.joint_us = limit(reported->joint_us, last->joint_us, &left_us);
    *computing_us = left_us;
    left_us = times.operating_us - last->operating_us;
    times.rounds_us = limit(reported->rounds_us, last->rounds_us, &left_us);
    return times;
}

/*
 * Begins with the first report. After a restart of the master, the sums of a member include the time before, which its
 * own figures take over undivided; the sums of the run do not, because nothing here can limit them.
 */
static struct pccl_goodput *begin(struct pccl_master *m, const struct pccl_remote *from,
                                  const struct pccl_msg_sight *report)
{
    static const uint64_t years_us = UINT64_C(1) << 52;
    struct pccl_goodput *goodput = pccl_allocate(&m->memory, sizeof *goodput);
    if (goodput == NULL)
        return NULL;
    goodput->base_us = from->joined_us;
    if (from->joined_us != 0)
        return goodput;
    uint64_t computing_us, before[PCCL_TIME_USES] = {0};
    goodput->base_us = m->now_us;
    goodput->base_lived_us = pccl_min_u64(report->times.lived_us, years_us);
    goodput->claimed = limit_times(goodput, &report->times, m->now_us, &computing_us);
    before[PCCL_TIME_COMPUTING] = computing_us;
    before[PCCL_TIME_MOVING] = goodput->claimed.operating_us;
    before[PCCL_TIME_LOST] = goodput->claimed.lost_us;
    before[PCCL_TIME_JOINT] = goodput->claimed.joint_us;
    memcpy(goodput->whole, before, sizeof before);
    return goodput;
}

void pccl_goodput_take(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sight *report)
{
    if (from->goodput == NULL)
        from->goodput = begin(m, from, report);
    struct pccl_goodput *goodput = from->goodput;
    if (goodput == NULL)
        return; /* the next report tries again */
    settle(m, from, false);
    turn(goodput);
    const struct pccl_times last = goodput->claimed;
    uint64_t computing_us, blocked_us = 0;
    goodput->claimed = limit_times(goodput, &report->times, m->now_us, &computing_us);
    add(m, goodput, PCCL_TIME_COMPUTING, computing_us);
    add(m, goodput, PCCL_TIME_LOST, goodput->claimed.lost_us - last.lost_us);
    add(m, goodput, PCCL_TIME_JOINT, goodput->claimed.joint_us - last.joint_us);
    uint64_t operating_us = goodput->claimed.operating_us - last.operating_us;
    uint64_t rounds_us = goodput->claimed.rounds_us - last.rounds_us;
    for (uint32_t i = 0; i < report->rounds_count; i++)
        blocked_us += report->rounds[i].blocked_us;
    for (uint32_t i = 0; i < report->rounds_count; i++) {
        uint64_t weight_us =
            blocked_us > 0 ? (uint64_t)((double)report->rounds[i].blocked_us / (double)blocked_us * (double)rounds_us)
                           : 0;
        weight_us = pccl_min_u64(weight_us, operating_us);
        if (keep(m, from, &report->rounds[i], weight_us))
            operating_us -= weight_us;
    }
    add(m, goodput, PCCL_TIME_MOVING, operating_us);
}

void pccl_goodput_settle(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->goodput != NULL)
            settle(m, m->remotes[i], false);
}

void pccl_goodput_forget(struct pccl_master *m, struct pccl_remote *remote)
{
    if (remote->goodput == NULL)
        return;
    settle(m, remote, true);
    pccl_release(&m->memory, remote->goodput, sizeof *remote->goodput);
    remote->goodput = NULL;
}

void pccl_goodput_drop(struct pccl_master *m, struct pccl_peer_group *group)
{
    pccl_release(&m->memory, group->rounds, PCCL_GOODPUT_ROUNDS * sizeof *group->rounds);
    group->rounds = NULL;
}

/* ---- figures ---- */

void pccl_goodput_recent(const struct pccl_goodput *goodput, uint64_t times[PCCL_TIME_USES])
{
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++)
        times[use] = goodput->previous[use] + goodput->current[use];
}

const struct pccl_id *pccl_goodput_delayed_by(const struct pccl_goodput *goodput)
{
    const struct pccl_goodput_delay *longest = &goodput->delays[0];
    for (uint32_t i = 1; i < PCCL_GOODPUT_DELAYS_MAX; i++)
        if (goodput->delays[i].us > longest->us)
            longest = &goodput->delays[i];
    return longest->us > 0 ? &longest->by : NULL;
}
