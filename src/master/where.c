/* Who is where: nobody waits in silence (PROTOCOL F26). The master names those who have not come, and what they wait
 * in. */
#include "master/internal.h"

#include <string.h>

static bool is_waiting(const struct pccl_remote *remote)
{
    return remote->votes[PCCL_ROUND_UPDATE] || remote->votes[PCCL_ROUND_PENDING] ||
           remote->where.call != PCCL_CALL_NONE;
}

static struct pccl_place place_of(const struct pccl_master *m, const struct pccl_remote *remote)
{
    struct pccl_place place = {.peer = remote->id, .state = PCCL_PLACE_HERE};
    uint64_t silent_us = m->now_us - pccl_min_u64(m->now_us, remote->heard_us);
    if (remote->votes[PCCL_ROUND_UPDATE] || remote->votes[PCCL_ROUND_PENDING]) {
        uint8_t kind = remote->votes[PCCL_ROUND_UPDATE] ? PCCL_ROUND_UPDATE : PCCL_ROUND_PENDING;
        place.call = kind == PCCL_ROUND_UPDATE ? PCCL_CALL_UPDATE : PCCL_CALL_PENDING;
        place.detail = m->rounds[kind];
        place.since_us = m->now_us - remote->voted_us[kind];
    } else if (remote->where.call == PCCL_CALL_REDUCE) {
        place.call = PCCL_CALL_REDUCE;
        place.detail = remote->where.instance.tag;
        place.since_us = remote->where.since_us;
    }
    if (place.call != PCCL_CALL_NONE)
        place.state = PCCL_PLACE_ELSEWHERE;
    if (remote->conn == 0)
        place.state = PCCL_PLACE_DISCONNECTED;
    else if (silent_us > m->config.heartbeat_ms * UINT64_C(2000))
        place.state = PCCL_PLACE_SILENT;
    if (place.state != PCCL_PLACE_ELSEWHERE && place.state != PCCL_PLACE_HERE)
        place.since_us = silent_us;
    return place;
}

static bool has_finished(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_instance *instance)
{
    const struct pccl_operation *op = pccl_master_operation(m, remote->group, instance, false);
    return op != NULL && (op->decided || (op->parts != NULL && op->parts[remote->position].done));
}

static bool has_come(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_msg_where *where)
{
    if (where->call == PCCL_CALL_UPDATE)
        return remote->votes[PCCL_ROUND_UPDATE];
    if (where->call == PCCL_CALL_PENDING)
        return remote->votes[PCCL_ROUND_PENDING];
    return has_finished(m, remote, &where->instance) ||
           (remote->where.call == PCCL_CALL_REDUCE && pccl_instance_equal(&remote->where.instance, &where->instance));
}

static bool in_scope(const struct pccl_remote *remote, const struct pccl_remote *from, uint8_t call)
{
    return pccl_master_is_living_member(remote) && (call != PCCL_CALL_REDUCE || remote->group == from->group);
}

static bool all_have_come(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (in_scope(m->remotes[i], from, where->call) && !has_come(m, m->remotes[i], where))
            return false;
    return true;
}

/*
 * Everybody is blocked, and nobody in an operation that all have entered (its data may be moving). Joint calls need no
 * look: they are decided when the last vote comes.
 */
static bool is_stuck(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (pccl_master_is_living_member(m->remotes[i]) && (!is_waiting(m->remotes[i]) || m->remotes[i]->conn == 0))
            return false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (pccl_master_is_living_member(remote) && remote->where.call == PCCL_CALL_REDUCE &&
            all_have_come(m, remote, &remote->where))
            return false;
    }
    return true;
}

/* Those who have not come to the call; or, if all have come to an operation, those who have not finished it. */
static uint32_t find_missing(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_where *where,
                             struct pccl_place *places)
{
    bool all_came = all_have_come(m, from, where);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!in_scope(remote, from, where->call))
            continue;
        if (all_came ? where->call != PCCL_CALL_REDUCE || has_finished(m, remote, &where->instance)
                     : has_come(m, remote, where))
            continue;
        if (missing < PCCL_PLACES_MAX)
            places[missing] = place_of(m, remote);
        missing++;
    }
    return missing;
}

void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where)
{
    if (where->call == PCCL_CALL_REDUCE && where->instance.group != from->group_number) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it waits in an operation of another group");
        return;
    }
    from->where = *where;
    if (where->call == PCCL_CALL_NONE)
        return;
    struct pccl_place places[PCCL_PLACES_MAX];
    uint32_t missing = find_missing(m, from, where, places);
    struct pccl_msg msg = {.type = PCCL_MSG_who_is_where,
                           .as.who_is_where = {.call = where->call,
                                               .instance = where->instance,
                                               .round = where->round,
                                               .stuck = is_stuck(m),
                                               .missing = missing,
                                               .places = places,
                                               .places_count = missing < PCCL_PLACES_MAX ? missing : PCCL_PLACES_MAX}};
    pccl_master_send(m, from, &msg, 0);
}
