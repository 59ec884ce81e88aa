/* The membership: peers, groups, the run, and departures (PROTOCOL 1.3, 6.2, 9). */
#include "core/ticket.h"
#include "master/admission.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/newcomers.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/rounds.h"
#include "master/sync.h"
#include "master/tuning.h"
#include "master/views.h"
#include "master/where.h"

#include <stdarg.h>
#include <string.h>

static const struct pccl_log_fields of_membership = {.cause = PCCL_LOG_CAUSE_MEMBERSHIP};

/* ---- peers ---- */

struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id)
{
    struct pccl_table_node *node = pccl_table_find(&m->by_id, pccl_id_hash(&m->hash, id));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_remote *remote = PCCL_CONTAINER_OF(node, struct pccl_remote, by_id);
        if (pccl_id_equal(&remote->id, id))
            return remote;
    }
    return NULL;
}

struct pccl_remote *pccl_master_add_remote(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                           enum pccl_remote_state state)
{
    PCCL_ASSERT(state != PCCL_REMOTE_MEMBER && pccl_master_find(m, &hello->peer) == NULL);
    if (m->remote_count >= PCCL_PEERS_MAX)
        return NULL;
    struct pccl_remote **remotes =
        pccl_grow(&m->memory, m->remotes, &m->remote_capacity, m->remote_count + 1, sizeof *remotes);
    if (remotes == NULL)
        return NULL;
    m->remotes = remotes;
    struct pccl_remote *remote = pccl_allocate(&m->memory, sizeof *remote);
    if (remote == NULL)
        return NULL;
    if (state == PCCL_REMOTE_RESUMING) {
        remote->report = pccl_allocate(&m->memory, sizeof *remote->report);
        if (remote->report == NULL) {
            pccl_release(&m->memory, remote, sizeof *remote);
            return NULL;
        }
        remote->report->since_us = remote->report->heard_us = m->now_us;
        pccl_master_arm(m, m->now_us + m->config.silence_ms * UINT64_C(1000));
    }
    remote->id = hello->peer;
    remote->token = hello->token;
    remote->token_digest = pccl_secret_digest(&hello->token);
    remote->link_key = hello->link_key;
    remote->state = state;
    remote->group_number = hello->group;
    remote->arrival = ++m->arrivals;
    remote->heard_us = remote->warm_since_us = m->now_us;
    remote->tell_us = m->now_us + PCCL_ADMISSION_TOLD_US;
    remote->observed.port = hello->port;
    remote->candidate_count = hello->candidates_count;
    for (uint32_t i = 0; i < hello->candidates_count; i++)
        remote->candidates[i] = hello->candidates[i];
    pccl_names_set(&m->names, &remote->id, (const char *)hello->name.data, hello->name.length);
    pccl_list_init(&remote->in_queue);
    pccl_session_init(&remote->session, &m->memory);
    pccl_table_insert(&m->by_id, &remote->by_id, pccl_id_hash(&m->hash, &remote->id));
    remote->index = m->remote_count;
    m->remotes[m->remote_count++] = remote;
    return remote;
}

/* The newest connection wins (PROTOCOL 3). */
void pccl_master_attach(struct pccl_master *m, struct pccl_remote *remote, pccl_conn conn,
                        const struct pccl_address *address)
{
    PCCL_ASSERT(conn != 0 && !remote->departing);
    if (remote->conn != 0) {
        pccl_table_remove(&m->by_conn, &remote->by_conn);
        m->effects.close(m->effects.context, remote->conn);
    }
    uint16_t port = remote->observed.port;
    remote->observed = *address;
    remote->observed.port = port;
    remote->conn = conn;
    remote->heard_us = m->now_us;
    pccl_table_insert(&m->by_conn, &remote->by_conn, conn);
    pccl_master_arm(m, m->now_us + m->config.silence_ms * UINT64_C(1000));
}

void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote)
{
    PCCL_ASSERT(m->remotes[remote->index] == remote);
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
    pccl_master_free_report(m, remote);
    pccl_master_drop_sync_part(m, remote);
    pccl_release(&m->memory, remote->intents, remote->intent_capacity * sizeof *remote->intents);
    pccl_release(&m->memory, remote, sizeof *remote);
}

uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses)
{
    uint32_t count = 0, most = remote->state == PCCL_REMOTE_PENDING ? PCCL_NEWCOMER_ADDRESSES_MAX : PCCL_CANDIDATES_MAX;
    bool observed_listed = false;
    for (uint32_t i = 0; i < remote->candidate_count && count < most - 1; i++) {
        addresses[count++] = remote->candidates[i];
        observed_listed = observed_listed || pccl_address_equal(&remote->candidates[i], &remote->observed);
    }
    if (!observed_listed)
        addresses[count++] =
            remote->observed; /* where the master sees it: helps if the peer does not know its own addresses */
    return count;
}

/* ---- groups ---- */

struct pccl_peer_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create)
{
    struct pccl_table_node *node = pccl_table_find(&m->groups_by_number, number);
    if (node != NULL)
        return PCCL_CONTAINER_OF(node, struct pccl_peer_group, by_number);
    if (!create || m->group_count >= PCCL_GROUPS_MAX)
        return NULL;
    struct pccl_peer_group **groups =
        pccl_grow(&m->memory, m->groups, &m->group_capacity, m->group_count + 1, sizeof *groups);
    if (groups == NULL)
        return NULL;
    m->groups = groups;
    struct pccl_peer_group *group = pccl_allocate(&m->memory, sizeof *group);
    if (group == NULL)
        return NULL;
    group->number = number;
    pccl_table_init(&group->by_instance, &m->memory, &m->hash);
    pccl_matrix_init(&group->matrix, &m->memory);
    pccl_table_insert(&m->groups_by_number, &group->by_number, number);
    m->groups[m->group_count++] = group;
    return group;
}

static void note_ring_change(struct pccl_master *m, struct pccl_peer_group *group)
{
    group->changed = true;
    group->ring_us = m->now_us;
    group->ring_version++;
    pccl_master_recheck_queue(m, group->number);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
    pccl_master_note_sync(m, group, NULL);
}

bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->group == NULL && remote->group_number == group->number);
    struct pccl_remote **ring =
        pccl_grow(&m->memory, group->ring, &group->ring_capacity, group->ring_count + 1, sizeof *ring);
    if (ring == NULL)
        return false;
    group->ring = ring;
    if (!pccl_master_enter_matrix(m, group, remote))
        return false;
    remote->position = group->ring_count;
    group->ring[group->ring_count++] = remote;
    remote->group = group;
    remote->state = PCCL_REMOTE_MEMBER;
    remote->decision_known = group->decisions; /* it needs no outcome from before its admission */
    pccl_master_unqueue(m, remote);
    note_ring_change(m, group);
    m->member_count++;
    return true;
}

bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order)
{
    size_t bytes = group->ring_count * sizeof(struct pccl_remote *);
    struct pccl_remote **ring = pccl_allocate(&m->memory, bytes);
    if (ring == NULL)
        return false;
    memcpy(ring, group->ring, bytes);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        group->ring[i] = ring[order[i]];
        group->ring[i]->position = i;
    }
    pccl_release(&m->memory, ring, bytes);
    note_ring_change(m, group);
    return true;
}

static void leave_ring(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    PCCL_ASSERT(remote->departing && group->ring[remote->position] == remote);
    pccl_master_end_tests_of(m, remote);
    for (uint32_t i = remote->position + 1; i < group->ring_count; i++) {
        group->ring[i - 1] = group->ring[i];
        group->ring[i - 1]->position = i - 1;
    }
    group->ring_count--;
    note_ring_change(m, group);
    pccl_master_leave_matrix(group, remote);
    remote->group = NULL;
    m->member_count--;
}

/* ---- founding and ending a run ---- */

void pccl_master_start_run(struct pccl_master *m, struct pccl_remote *first)
{
    PCCL_ASSERT(m->member_count == 0 && !m->recovering && first->state == PCCL_REMOTE_PENDING);
    struct pccl_peer_group *group = pccl_master_group(m, first->group_number, true);
    if (group == NULL || !pccl_master_join_ring(m, group, first)) {
        pccl_master_remove(m, first, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    m->founded = m->founded_by_newcomer = true;
    m->epoch = (struct pccl_epoch){.inc = 1, .number = 1};
    group->view = m->epoch;
    group->changed = false;
    pccl_master_log(m, PCCL_LOG_INFO, &of_membership, "run %s begins", pccl_id_str(&m->lineage));
    pccl_master_welcome(m, first);
    pccl_master_advance_stable(m, group);
}

void pccl_master_need_lineage(struct pccl_master *m)
{
    if (!pccl_id_is_zero(&m->lineage))
        return;
    struct pccl_id random = pccl_prng_id(&m->prng); /* there may be many runs in one boot */
    m->run_key = pccl_ticket(&m->config.secret, &random, &random);
    m->lineage = pccl_secret_digest(&m->run_key);
}

/*
 * If there is no member the first newcomer founds a run. If a newcomer waited at an earlier boot,
 * the members of that run may come back, and get as much time as a recovery.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m)
{
    if (m->recovering || m->member_count > 0 || m->shut)
        return;
    if (m->founded)
        pccl_master_end_run(m);
    uint64_t patience_us = m->started_us + m->config.recover_ms * UINT64_C(1000);
    if (m->older_run_expected && m->now_us < patience_us) {
        pccl_master_arm(m, patience_us);
        return;
    }
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing)
            continue;
        pccl_master_need_lineage(m);
        pccl_master_start_run(m, remote);
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
        pccl_master_log(m, PCCL_LOG_INFO, &of_membership, "run %s ends", pccl_id_str(&m->lineage));
        if (!m->recovering) /* in a recovery nothing was decided, and a later member may still bring the run back */
            m->over[m->over_count++ % PCCL_RUNS_OVER_MAX] = m->lineage;
    }
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        pccl_master_drop_operations(m, group);
        pccl_table_fini(&group->by_instance);
        pccl_master_drop_tuning(m, group);
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
    memset(m->rounds, 0, sizeof m->rounds);
    memset(m->last_outcome, 0, sizeof m->last_outcome);
    for (uint32_t i = 0; i < m->remote_count; i++)
        m->remotes[i]->intent_count = 0; /* links of the ended run are of no use to a new one */
    pccl_master_recheck_all_queues(m);
}

/* ---- departures ---- */

void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...)
{
    if (remote->departing)
        return;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&remote->reason, format, arguments);
    va_end(arguments);
    pccl_names_add_to(&m->names, &remote->reason); /* the departing peer may not know them */
    remote->departing = true;
    remote->why = why;
    m->departing_count++;
    m->departures++;
    pccl_master_mark(m, PCCL_STAGE_DEPARTURES);
    pccl_master_unqueue(m, remote);
    bool planned = why == PCCL_REFUSAL_LEFT || why == PCCL_REFUSAL_SHUTDOWN;
    pccl_master_log(m, planned ? PCCL_LOG_INFO : PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.peer = &remote->id,
                                              .reason = remote->reason.bytes,
                                              .cause = remote->state == PCCL_REMOTE_MEMBER ? PCCL_LOG_CAUSE_MEMBERSHIP
                                                                                           : PCCL_LOG_CAUSE_NEWCOMER},
                    "peer %s departs: %s", pccl_id_str(&remote->id), remote->reason.bytes);
    pccl_master_arm(m, m->now_us);
}

/* Tells the peer, if it is connected, and frees it. */
static void send_farewell(struct pccl_master *m, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->departing && remote->group == NULL && m->departing_count > 0);
    pccl_master_forget_links(m, remote);
    pccl_master_forget_edges(m, remote);
    if (remote->conn != 0) {
        struct pccl_msg msg = {
            .type = PCCL_MSG_expelled,
            .as.expelled = {.code = (uint16_t)remote->why, .reason = pccl_bytes_of_text(&remote->reason)}};
        struct pccl_bytes frame;
        if (pccl_session_push(&remote->session, &msg, 0, &frame) == PCCL_OK)
            m->effects.send(m->effects.context, remote->conn, frame.data, frame.length);
        m->effects.close(m->effects.context, remote->conn);
    }
    pccl_master_note_gone(m, remote);
    m->departing_count--;
    pccl_master_free_remote(m, remote);
}

/*
 * PROTOCOL 6.2: commits what all who remain have finished, before the view without the departing.
 */
static void commit_before_view(struct pccl_master *m)
{
    uint32_t departing = m->departing_count;
    for (uint32_t i = 0; i < m->group_count; i++) {
        bool touched = false;
        for (uint32_t k = 0; k < m->groups[i]->ring_count; k++)
            touched = touched || m->groups[i]->ring[k]->departing;
        if (touched)
            pccl_master_commit_remaining(m, m->groups[i]);
    }
    if (m->departing_count != departing)
        commit_before_view(m); /* sending made more peers depart */
}

static void expel_some(struct pccl_master *m)
{
    commit_before_view(m);
    struct pccl_id removed[64]; /* the others go in the next view */
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
            leave_ring(m, remote);
        }
        send_farewell(m, remote);
    }
    if (removed_count > 0 && m->member_count > 0)
        pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why);
}

/* Marks the stages that waited for this view. */
void pccl_master_expel_departing(struct pccl_master *m)
{
    while (m->departing_count > 0)
        expel_some(m);
    m->due &= ~(1U << PCCL_STAGE_DEPARTURES); /* peers that sending made depart are gone, too */
    pccl_master_mark(m, PCCL_STAGE_RECOVERY);
    pccl_master_mark(m, PCCL_STAGE_FOUNDING);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
    pccl_master_mark(m, PCCL_STAGE_ROUNDS);
    pccl_master_mark(m, PCCL_STAGE_SYNCS);
}
