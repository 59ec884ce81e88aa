/*
 * Answers waiting members (PROTOCOL 9.6) with the members that have not entered the call, and the calls in which these
 * members wait.
 */
#include "master/operations.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/rounds.h"
#include "master/where.h"
#include "wire/describe.h"

#include <string.h>

/* Kinds of rounds, by priority. A member that has voted in several waits in the first. */
static const uint8_t voted_kinds[] = {PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE, PCCL_ROUND_PENDING};

/* Returns the first of these kinds for which the member has voted; NULL if it has voted for none. */
static const uint8_t *voted_kind(const struct pccl_remote *remote)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(voted_kinds); i++)
        if (remote->votes[voted_kinds[i]])
            return &voted_kinds[i];
    return NULL;
}

static bool is_silent(const struct pccl_master *m, const struct pccl_remote *remote)
{
    return m->now_us - pccl_min_u64(m->now_us, remote->received_us) > m->config.heartbeat_ms * UINT64_C(2000);
}

/*
 * Returns the call in which the member waits, as far as the master knows, or call NONE. A quiet call takes precedence.
 */
static struct pccl_msg_where call_of(const struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_instance *instance = &remote->where.instance;
    const uint8_t *kind = voted_kind(remote);
    bool is_quiet = kind != NULL && *kind != PCCL_ROUND_PENDING;
    if (!is_quiet && remote->sync_part != NULL)
        return (struct pccl_msg_where){.call = PCCL_CALL_SYNC,
                                       .round = remote->group->sync,
                                       .since_us = m->now_us - remote->voted_us[PCCL_ROUND_SYNC]};
    if (!is_quiet && remote->where.call == PCCL_CALL_OPERATION && instance->joint == pccl_master_joint(m) &&
        instance->sync == remote->group->sync)
        return remote->where;
    if (kind == NULL)
        return (struct pccl_msg_where){.call = PCCL_CALL_NONE};
    return (struct pccl_msg_where){.call = (uint8_t)pccl_call_of_round(*kind),
                                   .round = m->rounds[*kind],
                                   .since_us = m->now_us - remote->voted_us[*kind]};
}

struct pccl_place pccl_master_place(const struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_msg_where where = call_of(m, remote);
    struct pccl_place place = {.peer = remote->id,
                               .state = where.call != PCCL_CALL_NONE ? PCCL_PLACE_ELSEWHERE : PCCL_PLACE_HERE,
                               .call = where.call,
                               .collective = where.collective,
                               .detail = where.call == PCCL_CALL_OPERATION ? where.instance.tag : where.round,
                               .since_us = where.since_us};
    if (remote->conn == 0 || is_silent(m, remote)) {
        place.state = remote->conn == 0 ? PCCL_PLACE_DISCONNECTED : PCCL_PLACE_SILENT;
        place.since_us = m->now_us - pccl_min_u64(m->now_us, remote->received_us);
    }
    return place;
}

static bool has_finished(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_instance *instance)
{
    const struct pccl_operation *op = pccl_master_operation(m, remote->group, instance, false);
    return op != NULL && (op->decided || (op->parts != NULL && op->parts[pccl_master_seat(op, remote)].done));
}

static bool has_entered(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_msg_where *where)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(voted_kinds); i++)
        if (where->call == pccl_call_of_round(voted_kinds[i]))
            return remote->votes[voted_kinds[i]];
    if (where->call == PCCL_CALL_SYNC)
        return pccl_master_has_voted_sync(remote);
    bool waits =
        remote->where.call == PCCL_CALL_OPERATION && pccl_instance_equal(&remote->where.instance, &where->instance);
    return waits || has_finished(m, remote, &where->instance);
}

static bool in_scope(const struct pccl_remote *remote, const struct pccl_remote *from,
                     const struct pccl_msg_where *where)
{
    bool operation = where->call == PCCL_CALL_OPERATION;
    if (!pccl_master_is_living_member(remote))
        return false;
    if (!operation && where->call != PCCL_CALL_SYNC)
        return true;
    return remote->group == from->group &&
           (!operation || pccl_master_standing(remote, &where->instance) != PCCL_STANDING_NONE);
}

static bool all_have_entered(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (in_scope(m->remotes[i], from, where) && !has_entered(m, m->remotes[i], where))
            return false;
    return true;
}

/*
 * Lists the members that have not entered the call or, if all have entered an operation, those that have not finished
 * it. Returns their number.
 */
static uint32_t find_missing(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where,
                             struct pccl_place *places)
{
    bool all_entered = all_have_entered(m, from, where);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!in_scope(remote, from, where))
            continue;
        if (all_entered ? where->call != PCCL_CALL_OPERATION || has_finished(m, remote, &where->instance)
                        : has_entered(m, remote, where))
            continue;
        if (missing < PCCL_PLACES_MAX)
            places[missing] = pccl_master_place(m, remote);
        missing++;
    }
    return missing;
}

/* ---- calls that cannot complete together (PROTOCOL 9.6) ---- */

enum { STEPS_MAX = 64 }; /* limits the work for one request */

/* A call, and a member that waits in it. */
struct step {
    const struct pccl_remote *by, *first; /* first: the member that the initial call waits for */
    struct pccl_msg_where call;
    bool certain; /* true if no other thread of a member on the path can enter the call */
};

static bool is_same_call(const struct step *a, const struct step *b)
{
    if (a->call.call != b->call.call)
        return false;
    if (a->call.call == PCCL_CALL_OPERATION)
        return a->by->group == b->by->group && pccl_instance_equal(&a->call.instance, &b->call.instance);
    return a->call.call != PCCL_CALL_SYNC || a->by->group == b->by->group;
}

/*
 * Returns true if the member can make no other call during this wait, because a single thread makes all of its calls.
 */
static bool does_nothing_else(const struct pccl_remote *remote, const struct pccl_msg_where *own)
{
    return remote->where.call == own->call && remote->where.several == 0;
}

/*
 * Returns true if a member in call `own` cannot enter `call` with any thread, because a peer makes no other call during
 * a quiet one (PROTOCOL 5.1, 10.1).
 */
static bool excludes(const struct pccl_msg_where *own, const struct pccl_msg_where *call)
{
    return pccl_call_is_quiet(own->call) || pccl_call_is_quiet(call->call);
}

/*
 * Returns true if the member cannot enter the call before its own call ends. If these calls do not exclude each other,
 * the member must have no other thread. Bulk operations are excluded, because the member may have started them without
 * the master's knowledge.
 */
static bool is_kept_from(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_msg_where *own,
                         const struct pccl_msg_where *call)
{
    if (excludes(own, call))
        return true;
    if (!does_nothing_else(remote, own))
        return false;
    if (call->call != PCCL_CALL_OPERATION)
        return true;
    const struct pccl_operation *op = pccl_master_operation(m, remote->group, &call->instance, false);
    return op != NULL && op->parts != NULL && op->tiny;
}

/* Returns true if the step's call waits for the member, which waits in another call, *next, that blocks it. */
static bool waits_for(struct pccl_master *m, const struct step *step, const struct pccl_remote *remote,
                      struct step *next)
{
    if (!in_scope(remote, step->by, &step->call))
        return false;
    struct pccl_msg_where own = call_of(m, remote);
    *next = (struct step){.by = remote,
                          .first = step->first != NULL ? step->first : remote,
                          .call = own,
                          .certain = step->certain && excludes(&own, &step->call)};
    return own.call != PCCL_CALL_NONE && !is_same_call(next, step) && !has_entered(m, remote, &step->call) &&
           is_kept_from(m, remote, &own, &step->call);
}

/* Returns true if all members of the call are connected and not silent. Removing a silent member could end the call. */
static bool are_all_responsive(struct pccl_master *m, const struct step *step)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (in_scope(m->remotes[i], step->by, &step->call) && (m->remotes[i]->conn == 0 || is_silent(m, m->remotes[i])))
            return false;
    return true;
}

static bool is_known(const struct step *steps, uint32_t count, const struct step *step)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].certain >= step->certain && is_same_call(&steps[i], step))
            return true;
    return false;
}

/*
 * Follows the call to the calls of the members that it waits for, and so on, until it reaches the first call again: a
 * cycle, in which no call can end first. One member that cannot enter is enough, because a call needs all its members.
 * *culprit is the member that the call waits for, or NULL if it is not stuck.
 */
static uint8_t how_stuck(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where,
                         const struct pccl_remote **culprit)
{
    struct step steps[STEPS_MAX], next;
    uint32_t count = 0;
    uint8_t stuck = PCCL_STUCK_NOT;
    *culprit = NULL;
    if (m->recovering)
        return stuck;
    steps[count++] = (struct step){.by = from, .call = *where, .certain = true};
    for (uint32_t at = 0; at < count; at++) {
        if (!are_all_responsive(m, &steps[at]))
            continue;
        for (uint32_t i = 0; i < m->remote_count; i++) {
            if (!waits_for(m, &steps[at], m->remotes[i], &next))
                continue;
            bool cycle = is_same_call(&next, &steps[0]);
            if (cycle && (next.certain || *culprit == NULL)) {
                *culprit = next.first;
                stuck = next.certain ? PCCL_STUCK_CERTAIN : PCCL_STUCK_LIKELY;
            }
            if (stuck == PCCL_STUCK_CERTAIN)
                return stuck;
            if (!cycle && count < STEPS_MAX && !is_known(steps, count, &next))
                steps[count++] = next;
        }
    }
    return stuck;
}

/* Moves the member to the first place, adding it if it is not in the list. */
static void put_first(const struct pccl_master *m, const struct pccl_remote *culprit, struct pccl_place *places,
                      uint32_t count)
{
    uint32_t at = 0;
    while (at < count && !pccl_id_equal(&places[at].peer, &culprit->id))
        at++;
    if (at < count)
        places[at] = places[0];
    places[0] = pccl_master_place(m, culprit);
}

void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *reason)
{
    const struct pccl_operation *op = pccl_master_operation(m, from->group, instance, false);
    bool reported = from->where.call == PCCL_CALL_OPERATION && pccl_instance_equal(&from->where.instance, instance);
    uint8_t collective = reported ? from->where.collective : PCCL_COLLECTIVES;
    if (op != NULL && op->parts != NULL)
        collective = op->descriptor.collective;
    from->where = (struct pccl_msg_where){.call = PCCL_CALL_OPERATION, .instance = *instance};
    struct pccl_place places[PCCL_PLACES_MAX];
    uint32_t missing = find_missing(m, from, &from->where, places);
    if (missing == 0)
        return;
    bool all_entered = all_have_entered(m, from, &from->where);
    pccl_text_add(reason, ": ");
    pccl_describe_call(reason, PCCL_CALL_OPERATION, collective, instance->tag);
    pccl_text_add(reason, all_entered ? " was not finished by " : " waited for ");
    pccl_describe_places(reason, places, missing < PCCL_PLACES_MAX ? missing : PCCL_PLACES_MAX, missing);
}

/*
 * Logs each newcomer once. Eligible newcomers are admitted when all members have voted, so if one still waits, some
 * member has not called.
 */
void pccl_master_log_waiting_newcomers(struct pccl_master *m)
{
    uint32_t votes = 0;
    for (uint32_t i = 0; i < m->remote_count; i++)
        votes += pccl_master_is_living_member(m->remotes[i]) && m->remotes[i]->votes[PCCL_ROUND_UPDATE];
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || remote->log_us == UINT64_MAX)
            continue;
        if (m->now_us >= remote->log_us && m->member_count == 0) {
            remote->log_us = m->now_us + PCCL_ADMISSION_LOG_US; /* no member exists that could admit it */
        } else if (m->now_us >= remote->log_us) {
            pccl_master_log(m, PCCL_LOG_WARN,
                            &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_NEWCOMER},
                            "peer %s has waited %s for admission: members admit it with comm.update_topology(), in C "
                            "pcclUpdateTopology; %u of %u have called it",
                            pccl_id_str(&remote->id), pccl_duration_str(PCCL_ADMISSION_LOG_US), votes, m->member_count);
            remote->log_us = UINT64_MAX;
        }
        pccl_master_arm(m, remote->log_us);
    }
}

void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where)
{
    if (where->call == PCCL_CALL_OPERATION && !pccl_master_concerns(m, from, &where->instance))
        return;
    from->where = *where;
    if (where->call == PCCL_CALL_NONE)
        return;
    struct pccl_place places[PCCL_PLACES_MAX];
    uint32_t missing = find_missing(m, from, where, places);
    uint32_t count = missing < PCCL_PLACES_MAX ? missing : PCCL_PLACES_MAX;
    const struct pccl_remote *culprit;
    uint8_t stuck = how_stuck(m, from, where, &culprit);
    if (culprit != NULL && count > 0)
        put_first(m, culprit, places, count);
    struct pccl_msg msg = {.type = PCCL_MSG_who_is_where,
                           .as.who_is_where = {.call = where->call,
                                               .instance = where->instance,
                                               .round = where->round,
                                               .stuck = stuck,
                                               .missing = missing,
                                               .places = places,
                                               .places_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

/* ---- for pages ---- */

/*
 * Work limits: listing a call visits all members two or three times; listing a group's calls, all its operations once.
 */
enum { VISITS_MAX = 16384, OPERATIONS_VISITED_MAX = 16384, WAITS_MIN = 4 };

struct listing {
    struct pccl_wait *waits;
    uint32_t count, most;
    bool left_out;
};

static void add_entered(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where,
                        struct pccl_wait *wait)
{
    bool operation = where->call == PCCL_CALL_OPERATION;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!in_scope(remote, from, where))
            continue;
        wait->world++;
        if (!has_entered(m, remote, where))
            continue;
        if (wait->entered_count < PCCL_PLACES_MAX)
            wait->entered[wait->entered_count] = remote->id;
        wait->entered_count++;
        wait->finished += operation && has_finished(m, remote, &where->instance);
    }
}

/* Adds a call. `from` is one of its participants. */
static void add_wait(struct pccl_master *m, struct listing *listing, const struct pccl_remote *from,
                     const struct pccl_msg_where *where, uint64_t since_us)
{
    if (listing->count == listing->most) {
        listing->left_out = true;
        return;
    }
    struct pccl_wait *wait = &listing->waits[listing->count++];
    *wait = (struct pccl_wait){.call = where->call,
                               .collective = where->collective,
                               .group = from->group_number,
                               .instance = where->instance,
                               .round = where->round,
                               .since_us = since_us};
    add_entered(m, from, where, wait);
    wait->missing_count = find_missing(m, from, where, wait->missing);
}

static void add_joint(struct pccl_master *m, struct listing *listing, uint8_t kind)
{
    const struct pccl_remote *from = NULL;
    uint64_t since_us = m->now_us;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote) || !remote->votes[kind])
            continue;
        from = remote;
        since_us = pccl_min_u64(since_us, remote->voted_us[kind]);
    }
    struct pccl_msg_where where = {.call = (uint8_t)pccl_call_of_round(kind), .round = m->rounds[kind]};
    if (from != NULL)
        add_wait(m, listing, from, &where, m->now_us - since_us);
}

static void add_sync(struct pccl_master *m, struct listing *listing, const struct pccl_peer_group *group)
{
    const struct pccl_remote *from = NULL;
    uint64_t since_us = m->now_us;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        if (group->ring[i]->departing || group->ring[i]->sync_part == NULL)
            continue;
        from = group->ring[i];
        since_us = pccl_min_u64(since_us, from->voted_us[PCCL_ROUND_SYNC]);
    }
    struct pccl_msg_where where = {.call = PCCL_CALL_SYNC, .round = group->sync};
    if (from != NULL)
        add_wait(m, listing, from, &where, m->now_us - since_us);
}

/* Adds operations that have a finished part, oldest first. */
static void add_operations(struct pccl_master *m, struct listing *listing, const struct pccl_peer_group *group)
{
    uint32_t visited = 0;
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer) {
        if (++visited > OPERATIONS_VISITED_MAX) {
            listing->left_out = true;
            return;
        }
        if (op->decided || op->part_count == 0)
            continue;
        struct pccl_msg_where where = {
            .call = PCCL_CALL_OPERATION, .collective = op->descriptor.collective, .instance = op->instance};
        struct pccl_participants all = pccl_master_participants(group, op);
        if (all.count > 0)
            add_wait(m, listing, all.members[0], &where, m->now_us - op->first_us);
    }
}

static bool is_listed(const struct listing *listing, const struct pccl_remote *remote)
{
    for (uint32_t i = 0; i < listing->count; i++)
        if (listing->waits[i].call == PCCL_CALL_OPERATION && listing->waits[i].group == remote->group_number &&
            pccl_instance_equal(&listing->waits[i].instance, &remote->where.instance))
            return true;
    return false;
}

/*
 * Adds the operations in which members report that they wait. Without a report, the master does not know of a bulk
 * operation before a part is complete.
 */
static void add_reported_waits(struct pccl_master *m, struct listing *listing)
{
    for (uint32_t i = 0; i < m->remote_count && !listing->left_out; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote) || remote->where.call != PCCL_CALL_OPERATION ||
            is_listed(listing, remote))
            continue;
        add_wait(m, listing, remote, &remote->where, remote->where.since_us);
    }
}

uint32_t pccl_master_list_waits(struct pccl_master *m, struct pccl_wait waits[PCCL_WAITS_MAX], bool *left_out)
{
    uint64_t most = VISITS_MAX / (2 * (uint64_t)m->remote_count + 1);
    struct listing listing = {.waits = waits, .most = (uint32_t)pccl_min_u64(PCCL_WAITS_MAX, most)};
    listing.most = pccl_max_u32(listing.most, WAITS_MIN);
    for (size_t i = 0; i < PCCL_COUNT_OF(voted_kinds); i++)
        add_joint(m, &listing, voted_kinds[i]);
    for (uint32_t i = 0; i < m->group_count && !listing.left_out; i++) {
        add_sync(m, &listing, m->groups[i]);
        add_operations(m, &listing, m->groups[i]);
    }
    add_reported_waits(m, &listing);
    *left_out = listing.left_out;
    return listing.count;
}
