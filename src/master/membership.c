/*
 * Begins and ends a run, and executes departures (PROTOCOL 1.3, 6.2, 9). Other files decide which peers leave, and
 * admit all newcomers but the first.
 */
#include "core/ticket.h"
#include "master/membership_internal.h"
#include "master/diagnosis.h"
#include "master/goodput.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "master/rounds.h"
#include "master/topology.h"
#include "master/where.h"

#include <stdarg.h>
#include <string.h>

static const struct pccl_log_fields of_membership = {.cause = PCCL_LOG_CAUSE_MEMBERSHIP};

/* ---- peers ---- */

void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->index < m->remote_count && m->remotes[remote->index] == remote);
    if (remote->conn != 0)
        pccl_table_remove(&m->by_conn, &remote->by_conn);
    pccl_table_remove(&m->by_id, &remote->by_id);
    pccl_master_unqueue(m, remote);
    pccl_names_forget(&m->names, &remote->id);
    for (uint32_t i = remote->index + 1; i < m->remote_count; i++) { /* keeps the order of arrival */
        m->remotes[i - 1] = m->remotes[i];
        m->remotes[i - 1]->index = i - 1;
    }
    m->remote_count--;
    pccl_session_fini(&remote->session);
    pccl_master_forget_listens(m, remote);
    pccl_table_fini(&remote->listens);
    pccl_master_free_report(m, remote);
    pccl_master_drop_sync_part(m, remote);
    pccl_release(&m->memory, remote->goodput, sizeof *remote->goodput);
    pccl_release(&m->memory, remote->witness, sizeof *remote->witness);
    pccl_release(&m->memory, remote->intents, remote->intent_capacity * sizeof *remote->intents);
    pccl_release(&m->memory, remote, sizeof *remote);
}

/* ---- begin and end of a run ---- */

/* Founds a run with its first member, in epoch 1.1. */
static void start_run(struct pccl_master *m, struct pccl_remote *first)
{
    PCCL_ASSERT(m->member_count == 0 && !m->recovering && first->state == PCCL_REMOTE_PENDING);
    struct pccl_peer_group *group = pccl_master_group(m, first->group_number, true);
    if (group == NULL || !pccl_master_join_ring(m, group, first, NULL)) {
        pccl_master_remove(m, first, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    m->founded = m->founded_by_newcomer = true;
    m->found_us = 0;
    m->epoch = (struct pccl_epoch){.inc = 1, .number = 1};
    group->view = group->firm = m->epoch;
    m->tally.views++;
    group->changed = false;
    pccl_master_log(m, PCCL_LOG_INFO,
                    &(struct pccl_log_fields){.cause = PCCL_LOG_CAUSE_MEMBERSHIP, .event = PCCL_EVENT_RUN_STARTED},
                    "run %s started", pccl_id_str(&m->lineage));
    pccl_master_note_run(m, &m->lineage); /* before the run has a member */
    pccl_master_welcome(m, first);
    pccl_master_advance_stable(m, group);
}

void pccl_master_need_lineage(struct pccl_master *m)
{
    if (!pccl_id_is_zero(&m->lineage))
        return;
    struct pccl_id random = pccl_prng_id(&m->prng); /* random, because one boot may have many runs */
    m->run_key = pccl_ticket(&m->config.secret, &random, &random);
    m->lineage = pccl_secret_digest(&m->run_key);
}

void pccl_master_note_run(struct pccl_master *m, const struct pccl_id *lineage)
{
    if (m->effects.note_run != NULL)
        m->effects.note_run(m->effects.context, lineage);
}

void pccl_master_expect_older_run(struct pccl_master *m)
{
    uint64_t until_us = m->started_us + m->config.recover_ms * UINT64_C(1000);
    if (until_us <= m->found_us)
        return;
    m->found_us = until_us;
    m->hold_logged = false;
}

uint32_t pccl_master_hold_ms(const struct pccl_master *m)
{
    bool founds = m->founded || m->now_us >= m->found_us;
    return founds ? 0 : (uint32_t)((m->found_us - m->now_us + 999) / 1000);
}

static void hold_newcomers(struct pccl_master *m)
{
    pccl_master_arm(m, m->found_us);
    if (m->newcomer_count == 0 || m->hold_logged)
        return;
    m->hold_logged = true;
    pccl_master_log(m, PCCL_LOG_INFO, &of_membership,
                    "newcomers wait for %s: this master has just started and waits for the members of a run that may "
                    "still be active",
                    pccl_duration_str(m->found_us - m->now_us));
}

/*
 * Lets the first newcomer found a run if there is no member, but not before found_us, because members of a run unknown
 * to this master may return.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m)
{
    if (m->recovering || m->member_count > 0 || m->shut)
        return;
    if (m->founded) {
        pccl_master_end_run(m);
        pccl_master_note_run(m, NULL);
    }
    if (m->now_us < m->found_us) {
        hold_newcomers(m);
        return;
    }
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing)
            continue;
        pccl_master_need_lineage(m);
        start_run(m, remote);
        return;
    }
}

bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage)
{
    for (uint32_t i = 0; i < PCCL_RUNS_OVER_MAX && i < m->over_count; i++)
        if (pccl_id_equal(&m->over[i], lineage))
            return true;
    return false;
}

void pccl_master_end_run(struct pccl_master *m)
{
    if (m->founded) {
        pccl_master_log(m, PCCL_LOG_INFO,
                        &(struct pccl_log_fields){.cause = PCCL_LOG_CAUSE_MEMBERSHIP, .event = PCCL_EVENT_RUN_ENDED},
                        "run %s ended", pccl_id_str(&m->lineage));
        if (!m->recovering) /* a recovering master has decided nothing, and a member may still bring the run back */
            m->over[m->over_count++ % PCCL_RUNS_OVER_MAX] = m->lineage;
    }
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        pccl_master_drop_operations(m, group);
        pccl_master_drop_subgroups(m, group);
        pccl_table_fini(&group->subgroups);
        pccl_table_fini(&group->pairs);
        pccl_table_fini(&group->by_instance);
        pccl_master_drop_tuning(m, group);
        pccl_master_drop_verdicts(m, group);
        pccl_matrix_fini(&group->matrix);
        pccl_release(&m->memory, group->by_place, group->place_capacity * sizeof *group->by_place);
        pccl_release(&m->memory, group->ring, group->ring_capacity * sizeof *group->ring);
        pccl_release(&m->memory, group, sizeof *group);
    }
    pccl_table_fini(&m->groups_by_number);
    m->group_count = 0;
    m->member_count = 0;
    m->edge_count = 0;
    m->founded = m->founded_by_newcomer = m->recovering = m->optimizing = false;
    m->run_key = m->lineage = (struct pccl_id){{0}};
    m->epoch = (struct pccl_epoch){0, 0};
    m->admissions = 0;
    memset(m->rounds, 0, sizeof m->rounds);
    memset(m->last_outcome, 0, sizeof m->last_outcome);
    for (uint32_t i = 0; i < m->remote_count; i++)
        m->remotes[i]->intent_count = 0; /* a new run cannot use the links of the ended one */
    pccl_master_recheck_all_queues(m);
}

/* ---- departures ---- */

/* Sends the peer the reason for its removal if it is connected, and frees it. */
static void send_farewell(struct pccl_master *m, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->departing && remote->group == NULL && m->departing_count > 0);
    pccl_master_forget_links(m, remote);
    if (remote->conn != 0) {
        struct pccl_msg msg = {
            .type = PCCL_MSG_expelled,
            .as.expelled = {.code = (uint16_t)remote->why, .reason = pccl_bytes_of_text(&remote->reason)}};
        struct pccl_bytes frame;
        if (pccl_session_push(&remote->session, &msg, 0, &frame) == PCCL_OK)
            m->effects.send(m->effects.context, remote->conn, frame.data, frame.length);
        m->effects.close(m->effects.context, remote->conn);
    }
    pccl_master_note_removed(m, remote);
    m->departing_count--;
    pccl_master_free_remote(m, remote);
}

/*
 * Commits the operations that all remaining members have finished, then ends the subgroups and pairs of departing
 * members, before the view without them is created (PROTOCOL 6.2, 15.4, 16.3).
 */
static void commit_before_view(struct pccl_master *m)
{
    uint32_t departing = m->departing_count;
    for (uint32_t i = 0; i < m->group_count; i++) {
        bool touched = false;
        for (uint32_t k = 0; k < m->groups[i]->ring_count; k++)
            touched = touched || m->groups[i]->ring[k]->departing;
        if (!touched)
            continue;
        (void)pccl_master_remove_unlinkable(m, m->groups[i]);
        pccl_master_settle_operations(m, m->groups[i]);
    }
    if (m->departing_count != departing)
        commit_before_view(m); /* the sends have made more peers depart */
}

static void expel_some(struct pccl_master *m)
{
    commit_before_view(m);
    struct pccl_id removed[64]; /* further peers leave in the next view */
    uint32_t removed_count = 0;
    struct pccl_text why;
    pccl_text_clear(&why);
    for (uint32_t i = 0; i < m->remote_count && removed_count < PCCL_COUNT_OF(removed);) {
        struct pccl_remote *remote = m->remotes[i];
        if (!remote->departing) {
            i++;
            continue;
        }
        if (remote->group != NULL) {
            pccl_text_append(&why, "%speer %s: %s", removed_count > 0 ? "; " : "", pccl_id_str(&remote->id),
                             remote->reason.bytes);
            removed[removed_count++] = remote->id;
            pccl_master_forget_witness(m, remote);
            pccl_master_leave_ring(m, remote);
        }
        send_farewell(m, remote);
    }
    if (removed_count > 0 && m->member_count > 0)
        pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why);
}

/* Removes the departing peers, then marks the stages that waited for this view. */
void pccl_master_expel_departing(struct pccl_master *m)
{
    while (m->departing_count > 0)
        expel_some(m);
    m->due &= ~(1U << PCCL_STAGE_DEPARTURES); /* peers that departed during the sends have been removed, too */
    pccl_master_mark(m, PCCL_STAGE_RECOVERY);
    pccl_master_mark(m, PCCL_STAGE_FOUNDING);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
    pccl_master_mark(m, PCCL_STAGE_SYNCS);
}
