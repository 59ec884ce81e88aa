/*
 * PEACE, R9 and the master's half of I9: no machine breaks the protocol toward the other, and no member is removed
 * without cause.
 */
#include "master/roster.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN_US = 1500000 }; /* time within which a break is repaired, and a message arrives */

/* The members of a master's run when it last changed. */
struct roll {
    struct roll *next;
    uint64_t boot;
    struct pccl_id lineage;
    struct pccl_id *members; /* owned */
    uint32_t count;
};

/* ---- PEACE ---- */

static bool begins_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* Returns true for a legitimate reason to be out. Any other is a complaint about a message of the master. */
static bool is_a_good_end(const char *reason)
{
    static const char *const good[] = {"this peer left the run",
                                       "the master removed this peer: ",
                                       "the master drained this peer: ",
                                       "the master refused this peer: ",
                                       "no topology update within drain_ms ",
                                       "this peer ", /* GONE: was removed, did not return in time */
                                       "cannot reach the master: ",
                                       "the master did not come back within ",
                                       "the master is shutting down",
                                       "not admitted before the deadline",
                                       "the caller cancelled connecting"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (begins_with(reason, good[i]))
            return strstr(reason, "the session cannot be resumed") == NULL;
    return false;
}

void sim_check_end_of_life(struct sim *sim, struct sim_peer *peer)
{
    if (peer->end_checked || peer->machine->state != PCCL_PEER_OVER)
        return;
    peer->end_checked = true;
    const char *reason = pccl_peer_last_reason(peer->machine)->bytes;
    if (!is_a_good_end(reason) && (sim->oom_at == 0 || strstr(reason, "memory") == NULL))
        sim_fail(sim, "PEACE p%u gives up: %s", peer->process.number, reason);
}

/* ---- R9: a healthy peer is not removed ---- */

void sim_check_unwell(struct sim *sim, const struct sim_process *process, uint64_t until)
{
    if (process == NULL)
        return;
    for (uint32_t i = 0; process->is_master && i < sim->peer_count; i++)
        sim->peers[i]->master_unwell_until = pccl_max_u64(sim->peers[i]->master_unwell_until, until);
    if (process->is_master)
        return;
    struct sim_peer *peer = sim->peers[process->number];
    peer->unwell_until = pccl_max_u64(peer->unwell_until, until);
}

void sim_check_conn_unwell(struct sim *sim, const struct sim_conn *conn, uint64_t until)
{
    if (conn->plane != SIM_CONTROL)
        return;
    for (int end = 0; end < 2; end++)
        if (conn->ends[end].process != NULL && !conn->ends[end].process->is_master)
            sim_check_unwell(sim, conn->ends[end].process, until);
}

void sim_check_hosts_unwell(struct sim *sim, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < sim->peer_count; i++)
        if (sim->peers[i]->process.host == a || sim->peers[i]->process.host == b)
            sim_check_unwell(sim, &sim->peers[i]->process, sim->now);
}

/*
 * Returns true if its process ran, and its connection to the master was healthy for longer than the limit. A master
 * that was stopped must forgive silence, but a connection that a peer gave up during that time is evidence like any
 * other.
 */
static bool was_well(const struct sim *sim, const struct sim_master *master, const struct sim_peer *peer, bool silent)
{
    uint64_t window = sim->plan.master.silence_ms * SIM_MS + MARGIN_US;
    uint64_t since = pccl_max_u64(peer->unwell_until, master->started_at);
    if (!silent)
        since = pccl_max_u64(since, peer->master_unwell_until);
    return peer->process.alive && peer->machine != NULL && peer->machine->state == PCCL_PEER_MEMBER &&
           sim_net_state(sim, peer->process.host, master->process.host, SIM_CONTROL) == SIM_WHOLE &&
           sim->now > since + window;
}

static void judge(struct sim *sim, const struct sim_master *master, struct sim_peer *peer, uint16_t why,
                  const char *reason)
{
    const struct pccl_remote *remote = pccl_master_find(master->machine, &peer->id);
    bool silent = why == PCCL_REFUSAL_SILENT;
    if (why == PCCL_REFUSAL_PROTOCOL && !peer->lies)
        sim_fail(sim, "PEACE the master removes p%u: %s", peer->process.number, reason);
    if (remote == NULL || remote->state != PCCL_REMOTE_MEMBER)
        return;
    if (why == PCCL_REFUSAL_DRAINED && remote->drains_itself && peer->machine != NULL && !peer->machine->draining &&
        !peer->lies)
        sim_fail(sim, "R9.10 p%u is drained, and did not ask for it", peer->process.number);
    if (why == PCCL_REFUSAL_STATE)
        sim_check_state_refused(sim, master, peer, reason);
    if (why == PCCL_REFUSAL_UNREACHABLE)
        sim_check_unreachable(sim, master, peer);
    if ((silent || why == PCCL_REFUSAL_GONE) && was_well(sim, master, peer, silent))
        sim_fail(sim, "R9 p%u is well and removed: %s", peer->process.number, reason);
}

void sim_check_expelled(struct sim *sim, const struct sim_master *master, struct sim_peer *peer,
                        const struct pccl_msg_expelled *expelled)
{
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_text_add_bytes(&reason, (const char *)expelled->reason.data, expelled->reason.length);
    judge(sim, master, peer, expelled->code, reason.bytes);
}

void sim_check_removals(struct sim *sim, struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    for (uint32_t i = 0; m->departing_count > 0 && i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (!remote->departing)
            continue;
        struct sim_peer *peer = sim_peer_find(sim, &remote->id);
        if (peer != NULL)
            judge(sim, master, peer, (uint16_t)remote->why, remote->reason.bytes);
    }
}

/* ---- I9 ---- */

static struct roll *roll_of(struct sim *sim, const struct sim_master *master)
{
    struct roll *roll = sim->checks->rolls;
    while (roll != NULL &&
           !(roll->boot == master->config.boot && pccl_id_equal(&roll->lineage, &master->machine->lineage)))
        roll = roll->next;
    return roll;
}

static bool is_on(const struct roll *roll, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < roll->count; i++)
        if (pccl_id_equal(&roll->members[i], id))
            return true;
    return false;
}

/*
 * Checks that each new member is a newcomer: a master that has recovered a run, or has ended it, does not take back a
 * member that it has continued without.
 */
void sim_check_roll(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    struct roll *roll = roll_of(sim, master);
    bool first = roll == NULL;
    if (first) {
        roll = calloc(1, sizeof *roll);
        if (roll == NULL)
            abort();
        *roll = (struct roll){.next = sim->checks->rolls, .boot = master->config.boot, .lineage = m->lineage};
        sim->checks->rolls = roll;
    }
    struct pccl_id *members = calloc(m->remote_count + 1u, sizeof *members);
    if (members == NULL)
        abort();
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        const struct sim_peer *peer = sim_peer_find(sim, &remote->id);
        if (remote->state != PCCL_REMOTE_MEMBER)
            continue;
        if (!first && peer != NULL && peer->was_connected && !is_on(roll, &remote->id))
            sim_fail(sim, "I9 the master takes p%u back, without which it had gone on", peer->process.number);
        members[count++] = remote->id;
    }
    free(roll->members);
    roll->members = members;
    roll->count = count;
}

void sim_check_conduct_fini(struct sim *sim)
{
    while (sim->checks->rolls != NULL) {
        struct roll *roll = sim->checks->rolls;
        sim->checks->rolls = roll->next;
        free(roll->members);
        free(roll);
    }
}
