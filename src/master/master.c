/*
 * Creation of the master, dispatch of its events, timers, and the order of its decisions. The other files handle the
 * events.
 */
#include "master/membership.h"
#include "master/commands.h"
#include "master/diagnosis.h"
#include "master/shortages.h"
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

enum { STANDSTILL_US = 1000000, READ_FIRST_US = 1000 };

_Static_assert(PCCL_HUB_PEERS_MAX == 64, "master/params.h repeats this limit");

struct pccl_master_config pccl_master_defaults(void)
{
#define DEFAULT(X, name, env, value, ...) .name = value,
    return (struct pccl_master_config){.mesh_ms = 500,
                                       .hub_updates = 32,
                                       .kernels = pccl_kernels_for(0),
                                       PCCL_MASTER_PARAMS(DEFAULT, PCCL_MASTER_NO_FIELD, )};
}

struct pccl_master *pccl_master_create(const struct pccl_master_config *config, const struct pccl_memory *memory,
                                       const struct pccl_master_effects *effects, uint64_t now_us)
{
    struct pccl_master *m = pccl_allocate(memory, sizeof *m);
    if (m == NULL)
        return NULL;
    m->config = *config;
    m->memory = *memory;
    m->effects = *effects;
    m->now_us = m->started_us = m->created_us = now_us;
    m->found_us = now_us + config->found_after_ms * UINT64_C(1000);
    if (config->run_noted)
        pccl_master_expect_older_run(m);
    m->deadline_us = UINT64_MAX;
    m->last_test = config->boot; /* so that tests of different boots have different numbers */
    pccl_prng_seed(&m->prng, config->seed);
    pccl_hash_key_init(&m->hash, config->hash_seed);
    pccl_table_init(&m->by_id, &m->memory, &m->hash);
    pccl_table_init(&m->by_conn, &m->memory, &m->hash);
    pccl_table_init(&m->strangers_by_conn, &m->memory, &m->hash);
    pccl_table_init(&m->groups_by_number, &m->memory, &m->hash);
    pccl_table_init(&m->queues, &m->memory, &m->hash);
    pccl_table_init(&m->sites, &m->memory, &m->hash);
    pccl_list_init(&m->stale_queues);
    m->newcomers_due_us = UINT64_MAX;
    pccl_names_init(&m->names, &m->memory, &m->hash);
    return m;
}

void pccl_master_destroy(struct pccl_master *m)
{
    if (m == NULL)
        return;
    while (m->oldest_stranger != NULL)
        pccl_master_drop_stranger(m, m->oldest_stranger);
    for (uint32_t i = 0; i < m->group_count; i++) {
        pccl_master_drop_operations(m, m->groups[i]);
        pccl_master_drop_subgroups(m, m->groups[i]);
        m->groups[i]->ring_count = 0; /* its members are freed below */
    }
    while (m->remote_count > 0)
        pccl_master_free_remote(m, m->remotes[m->remote_count - 1]);
    pccl_master_end_run(m);
    pccl_release(&m->memory, m->remotes, m->remote_capacity * sizeof *m->remotes);
    pccl_release(&m->memory, m->groups, m->group_capacity * sizeof *m->groups);
    pccl_release(&m->memory, m->edges, m->edge_capacity * sizeof *m->edges);
    pccl_release(&m->memory, m->gone, m->gone_capacity * sizeof *m->gone);
    pccl_release(&m->memory, m->cooling, m->cooling_capacity * sizeof *m->cooling);
    pccl_release(&m->memory, m->claims, m->claim_capacity * sizeof *m->claims);
    pccl_table_fini(&m->by_id);
    pccl_table_fini(&m->by_conn);
    pccl_table_fini(&m->strangers_by_conn);
    pccl_table_fini(&m->groups_by_number);
    pccl_table_fini(&m->queues);
    pccl_table_fini(&m->sites);
    pccl_names_fini(&m->names);
    struct pccl_memory memory = m->memory;
    pccl_release(&memory, m, sizeof *m);
}

/* ---- time ---- */

uint64_t pccl_master_deadline(const struct pccl_master *m) { return m->deadline_us; }

static void shift(uint64_t *time_us, uint64_t by_us)
{
    if (*time_us != 0 && *time_us != UINT64_MAX)
        *time_us += by_us;
}

/* Extends all timers after a standstill of this process, during which it could not receive messages (PROTOCOL 9.5). */
static void discount_standstill(struct pccl_master *m, uint64_t gap_us)
{
    pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.event = PCCL_EVENT_MASTER_SUSPENDED},
                    "the master process was suspended for %s; extending all timers", pccl_duration_str(gap_us));
    for (uint32_t i = 0; i < m->remote_count; i++) {
        shift(&m->remotes[i]->received_us, gap_us);
        shift(&m->remotes[i]->attached_us, gap_us);
        shift(&m->remotes[i]->warm_since_us, gap_us);
        shift(&m->remotes[i]->log_us, gap_us);
        shift(&m->remotes[i]->unanswered_us, gap_us);
        shift(&m->remotes[i]->look_again_us, gap_us);
        shift(&m->remotes[i]->lack_us, gap_us);
        shift(&m->remotes[i]->test.until_us, gap_us);
        if (m->remotes[i]->report != NULL) {
            shift(&m->remotes[i]->report->since_us, gap_us);
            shift(&m->remotes[i]->report->received_us, gap_us);
        }
    }
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_verdict_entry *verdict;
        shift(&m->groups[i]->tuning.patience_us, gap_us);
        shift(&m->groups[i]->slow_removed_us, gap_us);
        for (uint32_t n = 0; (verdict = pccl_verdicts_at(&m->groups[i]->verdicts, n)) != NULL; n++)
            shift(&verdict->enough_us, gap_us);
    }
    shift(&m->tests_end_us, gap_us);
    for (struct pccl_stranger *stranger = m->oldest_stranger; stranger != NULL; stranger = stranger->newer)
        shift(&stranger->opened_us, gap_us);
    for (uint32_t i = 0; i < m->edge_count; i++) {
        shift(&m->edges[i].since_us, gap_us);
        shift(&m->edges[i].failed_us, gap_us);
        shift(&m->edges[i].act_us, gap_us);
        shift(&m->edges[i].bad_until_us, gap_us);
    }
    for (uint32_t i = 0; i < PCCL_ROUND_KINDS; i++)
        shift(&m->untried_since_us[i], gap_us);
    shift(&m->started_us, gap_us);
    shift(&m->found_us, gap_us);
    shift(&m->recovering_since_us, gap_us);
}

/* Advances the clock. Returns true if the process was suspended before this event. */
static bool advance_time(struct pccl_master *m, uint64_t now_us)
{
    uint64_t due_us = pccl_max_u64(m->now_us, m->deadline_us);
    m->now_us = pccl_max_u64(m->now_us, now_us);
    /* below STANDSTILL_US if the silence limit is short */
    uint64_t tolerance_us = pccl_min_u64(STANDSTILL_US, m->config.silence_ms * UINT64_C(250));
    if (m->deadline_us == UINT64_MAX || now_us <= due_us + tolerance_us)
        return false;
    discount_standstill(m, now_us - due_us);
    return true;
}

static void watch_remotes(struct pccl_master *m)
{
    uint64_t silence_us = m->config.silence_ms * UINT64_C(1000), heartbeat_us = m->config.heartbeat_ms * UINT64_C(1000);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->departing)
            continue;
        if (m->now_us >= remote->received_us + silence_us) {
            pccl_master_remove(m, remote, PCCL_REFUSAL_SILENT, "silent for %s",
                               pccl_duration_str(m->now_us - remote->received_us));
            continue;
        }
        pccl_master_arm(m, remote->received_us + silence_us);
        pccl_master_probe_if_due(m, remote);
        if (remote->conn == 0)
            continue;
        if (m->now_us >= remote->sent_us + heartbeat_us)
            pccl_master_send_heartbeat(m, remote, false);
        pccl_master_arm(m, remote->sent_us + heartbeat_us);
    }
}

/*
 * Makes all stages due; each one schedules its next tick. After a standstill, the input that arrived during it is read
 * first, so that nothing expires early.
 */
static void tick(struct pccl_master *m, bool was_suspended)
{
    if (was_suspended) {
        m->deadline_us = m->now_us + READ_FIRST_US;
    } else if (m->now_us >= m->deadline_us) {
        m->deadline_us = UINT64_MAX;
        m->due = (1U << PCCL_STAGES) - 1;
    }
}

/* ---- decisions ---- */

/*
 * Decisions that affect more peers than the sender of a message, in the order in which they are made. Operations are an
 * exception: the last message about an operation decides it (operations_messages.c). Reasons for the order:
 *
 *   - Ended eras are first, so that no other stage handles an operation whose outcome no member needs.
 *   - Silence precedes departures: peers found silent at the same time leave in one view, so that operations fail once.
 *   - Departures precede all decisions for members, so that no round, synchronization or recovery includes a peer that
 *     is about to leave. They wait until all input that arrived with their cause has been read. By then operations that
 *     the other peers have finished can be committed before the view, and all departures are known.
 *   - Recovery and the founding of a run precede all stages for members of a run.
 *   - Links precede operations: an abort held for a failed link is replaced by the view without that link.
 *   - Warm-up precedes rounds: a newcomer that took too long is refused, not admitted.
 *   - Rounds precede synchronizations, because the end of a round changes the era.
 *   - Searches in the background and verdicts are last, because they depend on the results of all others.
 *
 * A stage can make earlier ones due, for example if sending finds a full queue, so the loop restarts at the top until
 * no stage is due.
 */
static void (*const stages[PCCL_STAGES])(struct pccl_master *m) = {
    [PCCL_STAGE_ERAS] = pccl_master_forget_ended_eras,
    [PCCL_STAGE_STRANGERS] = pccl_master_expire_strangers,
    [PCCL_STAGE_SILENCE] = watch_remotes,
    [PCCL_STAGE_DEPARTURES] = pccl_master_expel_departing,
    [PCCL_STAGE_RECOVERY] = pccl_master_decide_recovery,
    [PCCL_STAGE_FOUNDING] = pccl_master_start_run_if_empty,
    [PCCL_STAGE_LINKS] = pccl_master_decide_failed_links,
    [PCCL_STAGE_OPERATIONS] = pccl_master_release_held_aborts,
    [PCCL_STAGE_WARM_UP] = pccl_master_plan_warm_up,
    [PCCL_STAGE_TESTS] = pccl_master_expire_tests,
    [PCCL_STAGE_ROUNDS] = pccl_master_decide_rounds,
    [PCCL_STAGE_SYNCS] = pccl_master_decide_syncs,
    [PCCL_STAGE_SEARCHES] = pccl_master_search_in_background,
    [PCCL_STAGE_VERDICTS] = pccl_master_decide_verdicts,
    [PCCL_STAGE_WAITING] = pccl_master_log_waiting_newcomers,
};

static enum pccl_master_stage first_due(const struct pccl_master *m)
{
    uint32_t stage = 0;
    while ((m->due >> stage & 1) == 0)
        stage++;
    return (enum pccl_master_stage)stage;
}

static void decide(struct pccl_master *m, bool all_is_read)
{
    while (m->due != 0) {
        enum pccl_master_stage stage = first_due(m);
        if (stage == PCCL_STAGE_DEPARTURES && !all_is_read)
            break; /* later stages wait, too */
        m->due &= ~(1U << stage);
        stages[stage](m);
    }
    if (m->due != 0)
        pccl_master_arm(m, m->now_us);
}

/* ---- received frames ---- */

static void take_acknowledgment(struct pccl_master *m, struct pccl_remote *remote, uint64_t acknowledged)
{
    bool invalid = false;
    uint64_t mark = pccl_session_acknowledge(&remote->session, acknowledged, &invalid);
    if (invalid) {
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it acknowledged a message that was never sent");
        return;
    }
    if (mark > 0)
        pccl_master_note_known(m, remote, mark);
}

static void note_training(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_training *training)
{
    memcpy(&from->training_loss, &training->loss, sizeof from->training_loss);
    from->training_step = training->step;
    from->training_us = m->now_us;
    pccl_tally_step(&m->tally, from->training_step, from->training_loss);
}

static void dispatch_member(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_training) {
        note_training(m, from, &msg->as.training);
        return;
    }
    /* a view_ack does not result from a call of the application */
    from->untried = from->untried && msg->type == PCCL_MSG_view_ack;
    switch (msg->type) {
    case PCCL_MSG_vote: pccl_master_vote(m, from, &msg->as.vote); break;
    case PCCL_MSG_withdraw: pccl_master_withdraw(m, from, msg->as.withdraw.kind, msg->as.withdraw.round); break;
    case PCCL_MSG_measured: pccl_master_measured(m, from, &msg->as.measured); break;
    case PCCL_MSG_describe: pccl_master_describe(m, from, &msg->as.describe); break;
    case PCCL_MSG_sync_vote:
    case PCCL_MSG_sync_proof:
    case PCCL_MSG_sync_done: pccl_master_sync_message(m, from, msg); break;
    case PCCL_MSG_done:
    case PCCL_MSG_failed:
    case PCCL_MSG_abort_request:
    case PCCL_MSG_view_ack:
    case PCCL_MSG_subgroup_end:
    case PCCL_MSG_listen: pccl_master_operation_message(m, from, msg); break;
    case PCCL_MSG_want_link: pccl_master_send_address(m, from, &msg->as.want_link.peer); break;
    case PCCL_MSG_sight: pccl_master_telemetry(m, from, &msg->as.sight); break;
    case PCCL_MSG_where: pccl_master_where(m, from, &msg->as.where); break;
    default: pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "a member sent %s", pccl_wire_name(msg->type)); break;
    }
}

static void left(struct pccl_master *m, struct pccl_remote *from, struct pccl_bytes reason)
{
    struct pccl_text words;
    pccl_text_clear(&words);
    pccl_text_add(&words, reason.length > 0 ? "it gave up: " : "it left");
    pccl_text_add_bytes(&words, (const char *)reason.data, reason.length);
    pccl_master_remove(m, from, PCCL_REFUSAL_LEFT, "%s", words.bytes);
}

static void dispatch(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    switch (msg->type) {
    case PCCL_MSG_leave: left(m, from, msg->as.leave.reason); return;
    case PCCL_MSG_link_lost:
    case PCCL_MSG_link_up: pccl_master_link_message(m, from, msg); return;
    case PCCL_MSG_link_gone: pccl_master_link_gone(m, from, &msg->as.link_gone); return;
    case PCCL_MSG_want_back: pccl_master_want_back(m, from, &msg->as.want_back); return;
    case PCCL_MSG_shortage: pccl_master_note_shortage(m, from, msg->as.shortage.reason); return;
    default: break;
    }
    switch (from->state) {
    case PCCL_REMOTE_MEMBER: dispatch_member(m, from, msg); break;
    case PCCL_REMOTE_RESUMING: pccl_master_resume_received(m, from, msg); break;
    case PCCL_REMOTE_PENDING:
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "a newcomer sent %s", pccl_wire_name(msg->type));
        break;
    }
}

static void remote_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_frame *frame,
                            const struct pccl_msg *msg)
{
    if (from->departing)
        return;
    from->received_us = m->now_us;
    take_acknowledgment(m, from, frame->acknowledged);
    if (msg->type == PCCL_MSG_heartbeat) {
        if (msg->as.heartbeat.answer)
            pccl_master_send_heartbeat(m, from, false);
        return;
    }
    bool gap = frame->sequence == 0;
    bool fresh = !gap && pccl_session_accept(&from->session, frame->sequence, &gap);
    if (gap) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "gap in its messages before %s", pccl_wire_name(msg->type));
        return;
    }
    if (fresh) {
        pccl_text_clear(&from->undecodable);
        dispatch(m, from, msg);
    }
}

/* ---- events ---- */

static struct pccl_remote *remote_of(const struct pccl_master *m, pccl_conn conn)
{
    struct pccl_table_node *node = pccl_table_find(&m->by_conn, conn);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_remote, by_conn) : NULL;
}

static struct pccl_stranger *stranger_of(const struct pccl_master *m, pccl_conn conn)
{
    struct pccl_table_node *node = pccl_table_find(&m->strangers_by_conn, conn);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_stranger, by_conn) : NULL;
}

/* Returns the peer that sent the frame; NULL if the sender is a stranger. */
static struct pccl_remote *received(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_remote *remote = remote_of(m, event->conn);
    struct pccl_stranger *stranger = stranger_of(m, event->conn);
    if (remote != NULL)
        remote_received(m, remote, event->frame, event->msg);
    else if (stranger != NULL)
        pccl_master_stranger_received(m, stranger, event);
    return remote;
}

static void closed(struct pccl_master *m, pccl_conn conn)
{
    struct pccl_remote *remote = remote_of(m, conn);
    struct pccl_stranger *stranger = stranger_of(m, conn);
    if (stranger != NULL)
        pccl_master_drop_stranger(m, stranger);
    if (remote != NULL)
        pccl_master_control_lost(m, remote);
}

/*
 * Records an invalid message that arrived intact. Returns false for a second one on a short-lived connection, without a
 * valid message in between, because the peer would resend it over every connection.
 */
static bool may_reconnect(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_master_event *event)
{
    bool lasted = m->now_us >= remote->attached_us + m->config.silence_ms * UINT64_C(1000);
    if (event->frame == NULL)
        return true;
    if (remote->undecodable.length > 0 && !lasted)
        return false;
    remote->undecodable = *event->reason;
    remote->stuck = event->frame->sequence == remote->session.received + 1;
    return true;
}

/* Handles undecodable bytes. They end only the connection, and the session detects lost messages after a reconnect. */
static void garbage(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_stranger *stranger = stranger_of(m, event->conn);
    if (stranger != NULL) {
        pccl_master_log(m, PCCL_LOG_INFO,
                        &(struct pccl_log_fields){.reason = event->reason->bytes,
                                                  .cause = PCCL_LOG_CAUSE_REFUSED,
                                                  .event = PCCL_EVENT_REFUSED},
                        "refused %s: %s", pccl_address_str(&stranger->address), event->reason->bytes);
        pccl_master_refuse(m, event->conn, event->other_build ? PCCL_REFUSAL_VERSION : PCCL_REFUSAL_MALFORMED,
                           event->reason->bytes);
        pccl_master_drop_stranger(m, stranger);
        m->effects.close(m->effects.context, event->conn);
        return;
    }
    struct pccl_remote *remote = remote_of(m, event->conn);
    if (remote == NULL || remote->departing)
        return;
    if (!may_reconnect(m, remote, event)) {
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it sent an invalid message for the second time: %s",
                           event->reason->bytes);
        return;
    }
    pccl_master_log(m, PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.peer = &remote->id,
                                              .reason = event->reason->bytes,
                                              .cause = PCCL_LOG_CAUSE_MEMBERSHIP,
                                              .event = PCCL_EVENT_INVALID},
                    "peer %s sent %s: %s", pccl_id_str(&remote->id),
                    event->frame != NULL ? "an invalid message" : "garbage", event->reason->bytes);
    m->effects.close(m->effects.context, event->conn);
    pccl_master_control_lost(m, remote);
}

/* Removes the peers with a revoked pass. A connection that has not sent its hello yet is refused when it does. */
static void revoked(struct pccl_master *m, uint32_t pass)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->pass == pass)
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_IDENTITY, "its token was revoked");
}

void pccl_master_each_of_pass(const struct pccl_master *m, uint32_t pass,
                              void (*each)(void *context, uint32_t pass, const struct pccl_id *token), void *context)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->pass == pass && !m->remotes[i]->departing)
            each(context, pass, &m->remotes[i]->token);
}

/* Returns true if all members are connected, so that the shutdown message ends the run for all of them. */
static bool ends_for_all(const struct pccl_master *m)
{
    bool all = m->founded && !m->recovering;
    for (uint32_t i = 0; i < m->remote_count; i++)
        all = all && (m->remotes[i]->conn != 0 || m->remotes[i]->state != PCCL_REMOTE_MEMBER);
    return all;
}

static void shut_down(struct pccl_master *m)
{
    m->shut = true;
    if (ends_for_all(m))
        pccl_master_note_run(m, NULL);
    while (m->oldest_stranger != NULL) {
        struct pccl_stranger *stranger = m->oldest_stranger;
        pccl_master_refuse(m, stranger->conn, PCCL_REFUSAL_SHUTDOWN, "the master is shutting down");
        m->effects.close(m->effects.context, stranger->conn);
        pccl_master_drop_stranger(m, stranger);
    }
    for (uint32_t i = 0; i < m->remote_count; i++)
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_SHUTDOWN, "the master is shutting down");
}

/*
 * Records the facts first, then makes the decisions that follow, and finally acknowledges the input, unless a message
 * sent in the meantime has done so.
 */
void pccl_master_step(struct pccl_master *m, const struct pccl_master_event *event)
{
    bool was_suspended = advance_time(m, event->now_us), all_is_read = false;
    struct pccl_remote *from = NULL;
    switch (event->kind) {
    case PCCL_MASTER_OPENED: pccl_master_opened(m, event); break;
    case PCCL_MASTER_CLOSED: closed(m, event->conn); break;
    case PCCL_MASTER_RECEIVED: from = received(m, event); break;
    case PCCL_MASTER_GARBAGE: garbage(m, event); break;
    case PCCL_MASTER_PROBED: pccl_master_probed(m, event); break;
    case PCCL_MASTER_SOLVED: pccl_master_solved(m, event); break;
    case PCCL_MASTER_COMMAND: pccl_master_command(m, event); break;
    case PCCL_MASTER_IDLE: all_is_read = true; break;
    case PCCL_MASTER_TICK:
        tick(m, was_suspended);
        all_is_read = !was_suspended;
        break;
    case PCCL_MASTER_REVOKED: revoked(m, event->pass); break;
    case PCCL_MASTER_SHUTDOWN:
        shut_down(m);
        all_is_read = true;
        break;
    }
    decide(m, all_is_read);
    if (from != NULL && !from->departing && pccl_session_needs_acknowledgment(&from->session))
        pccl_master_send_heartbeat(m, from, false);
}

struct pccl_master_counts pccl_master_count(const struct pccl_master *m)
{
    return (struct pccl_master_counts){
        .members = m->member_count,
        .pending = m->newcomer_count,
        .groups = m->group_count,
        .strangers = m->strangers_by_conn.count,
        .committed = pccl_tally_sum(m->tally.committed, PCCL_TALLY_KINDS),
        .aborted = pccl_tally_sum(m->tally.aborted, PCCL_TALLY_KINDS),
        .departures = pccl_tally_sum(m->tally.members_removed, PCCL_TALLY_REASONS) +
                      pccl_tally_sum(m->tally.newcomers_removed, PCCL_TALLY_REASONS),
        .epoch = m->epoch,
        .recovering = m->recovering,
    };
}
