/*
 * Handles strangers (connections without an accepted hello), and decides whether the sender of a hello is a newcomer, a
 * returning peer, or refused.
 */
#include "core/crowd.h"
#include "core/ticket.h"
#include "master/membership_internal.h"
#include "master/links.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "master/where.h"
#include "master/diagnosis.h"

#include <string.h>

/* limits for the connections that a peer makes others dial (PROTOCOL 11.6) */
enum { BACKS_PER_S = 32, BACKS_BURST = 256 };

/* ---- strangers ---- */

void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger)
{
    PCCL_ASSERT(m->strangers_by_conn.count > 0);
    pccl_table_remove(&m->strangers_by_conn, &stranger->by_conn);
    *(stranger->older != NULL ? &stranger->older->newer : &m->oldest_stranger) = stranger->newer;
    *(stranger->newer != NULL ? &stranger->newer->older : &m->newest_stranger) = stranger->older;
    pccl_release(&m->memory, stranger, sizeof *stranger);
}

static void refuse(struct pccl_master *m, struct pccl_stranger *stranger, enum pccl_refusal code, const char *reason)
{
    pccl_conn conn = stranger->conn;
    pccl_master_log(
        m, PCCL_LOG_INFO,
        &(struct pccl_log_fields){.reason = reason, .cause = PCCL_LOG_CAUSE_REFUSED, .event = PCCL_EVENT_REFUSED},
        "refused %s: %s", pccl_address_str(&stranger->address), reason);
    pccl_master_refuse(m, conn, code, reason);
    pccl_master_drop_stranger(m, stranger);
    m->effects.close(m->effects.context, conn);
}

void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *reason)
{
    m->tally.refused[code]++;
    struct pccl_msg msg = {.type = PCCL_MSG_refused,
                           .as.refused = {.version = PCCL_PROTOCOL_VERSION,
                                          .code = (uint16_t)code,
                                          .reason = pccl_bytes_of_string(reason)}};
    pccl_master_send_loose(m, conn, &msg, 0);
}

/* Returns the oldest stranger of the address with the most strangers. */
static struct pccl_stranger *most_crowded_stranger(const struct pccl_master *m)
{
    PCCL_ASSERT(m->oldest_stranger != NULL);
    struct pccl_crowd crowd = {.hash = &m->hash};
    struct pccl_stranger *found = m->oldest_stranger;
    for (const struct pccl_stranger *i = m->oldest_stranger; i != NULL; i = i->newer)
        pccl_crowd_add(&crowd, &i->address);
    for (struct pccl_stranger *i = m->oldest_stranger; i != NULL; i = i->newer)
        if (pccl_crowd_count(&crowd, &i->address) > pccl_crowd_count(&crowd, &found->address))
            found = i;
    return found;
}

void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_stranger *stranger = m->shut ? NULL : pccl_allocate(&m->memory, sizeof *stranger);
    if (stranger == NULL) {
        m->effects.close(m->effects.context, event->conn);
        return;
    }
    stranger->conn = event->conn;
    stranger->address = event->address;
    stranger->opened_us = m->now_us;
    stranger->older = m->newest_stranger;
    *(m->newest_stranger != NULL ? &m->newest_stranger->newer : &m->oldest_stranger) = stranger;
    m->newest_stranger = stranger;
    pccl_table_insert(&m->strangers_by_conn, &stranger->by_conn, event->conn);
    pccl_master_arm(m, m->now_us + m->config.hello_ms * UINT64_C(1000));
    if (m->strangers_by_conn.count > PCCL_STRANGERS_MAX)
        refuse(m, most_crowded_stranger(m), PCCL_REFUSAL_FULL, "too many connections without a hello");
}

void pccl_master_expire_strangers(struct pccl_master *m)
{
    uint64_t patience_us = m->config.hello_ms * UINT64_C(1000);
    while (m->oldest_stranger != NULL && m->now_us >= m->oldest_stranger->opened_us + patience_us)
        refuse(m, m->oldest_stranger, PCCL_REFUSAL_FULL, "no hello received in time");
    if (m->oldest_stranger != NULL)
        pccl_master_arm(m, m->oldest_stranger->opened_us + patience_us);
}

/* ---- removed peers ---- */

/*
 * Refuses a removed peer. A drained peer is always refused with DRAINED, because it would reconnect after another code.
 */
static void refuse_removed(struct pccl_master *m, struct pccl_stranger *stranger, enum pccl_refusal why,
                           const struct pccl_text *reason)
{
    struct pccl_text words;
    pccl_text_format(&words, "this peer was removed from the run: %s", reason->bytes);
    refuse(m, stranger, why == PCCL_REFUSAL_DRAINED ? why : PCCL_REFUSAL_GONE, words.bytes);
}

/* Refuses a removed peer with its reason, or with `otherwise` if the reason is not known. */
static void refuse_gone(struct pccl_master *m, struct pccl_stranger *stranger, const struct pccl_removed *gone,
                        const char *otherwise)
{
    if (gone != NULL)
        refuse_removed(m, stranger, gone->why, &gone->reason);
    else
        refuse(m, stranger, PCCL_REFUSAL_GONE, otherwise);
}

/* ---- hello ---- */

/* Adds the peer of this hello, whose id must be new. Returns NULL if there is no room or no memory. */
static struct pccl_remote *add_remote(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                      enum pccl_remote_state state)
{
    PCCL_ASSERT(state != PCCL_REMOTE_MEMBER && pccl_master_find(m, &hello->peer) == NULL);
    PCCL_ASSERT(hello->candidates_count <= PCCL_CANDIDATES_MAX);
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
        remote->report->since_us = remote->report->received_us = m->now_us;
        pccl_master_arm(m, m->now_us + m->config.silence_ms * UINT64_C(1000));
    }
    remote->id = hello->peer;
    remote->token = hello->token;
    remote->token_digest = pccl_secret_digest(&hello->token);
    remote->link_key = hello->link_key;
    remote->state = state;
    remote->group_number = hello->group;
    remote->backs = (struct pccl_budget){.per_s = BACKS_PER_S, .burst = BACKS_BURST};
    remote->arrival = ++m->arrivals;
    m->tally.newcomers += state == PCCL_REMOTE_PENDING;
    remote->received_us = remote->warm_since_us = m->now_us;
    remote->log_us = m->now_us + PCCL_ADMISSION_LOG_US;
    remote->observed.port = hello->port;
    remote->candidate_count = hello->candidates_count;
    for (uint32_t i = 0; i < hello->candidates_count; i++)
        remote->candidates[i] = hello->candidates[i];
    pccl_names_set(&m->names, &remote->id, (const char *)hello->name.data, hello->name.length);
    remote->named = hello->named != 0;
    pccl_list_init(&remote->in_queue);
    pccl_session_init(&remote->session, &m->memory);
    pccl_table_init(&remote->listens, &m->memory, &m->hash);
    pccl_table_insert(&m->by_id, &remote->by_id, pccl_id_hash(&m->hash, &remote->id));
    remote->index = m->remote_count;
    m->remotes[m->remote_count++] = remote;
    return remote;
}

/*
 * Makes this the peer's control connection. The newest connection wins, so the previous one is closed (PROTOCOL 3.2).
 */
static void attach(struct pccl_master *m, struct pccl_remote *remote, pccl_conn conn,
                   const struct pccl_address *address)
{
    PCCL_ASSERT(conn != 0 && !remote->departing && pccl_table_find(&m->by_conn, conn) == NULL);
    if (remote->conn != 0) {
        pccl_table_remove(&m->by_conn, &remote->by_conn);
        m->effects.close(m->effects.context, remote->conn);
    }
    uint16_t port = remote->observed.port;
    remote->observed = *address;
    remote->observed.port = port;
    remote->conn = conn;
    remote->received_us = remote->attached_us = m->now_us;
    pccl_table_insert(&m->by_conn, &remote->by_conn, conn);
    pccl_master_arm(m, m->now_us + m->config.silence_ms * UINT64_C(1000));
}

/* Turns the stranger's connection into the peer's control connection, and resends unacknowledged messages. */
static void accept_peer(struct pccl_master *m, struct pccl_stranger *stranger, struct pccl_remote *remote,
                        enum pccl_hello_mode mode)
{
    PCCL_ASSERT(!remote->departing);
    pccl_conn conn = stranger->conn;
    struct pccl_address address = stranger->address;
    remote->pass = stranger->pass;
    pccl_master_drop_stranger(m, stranger);
    attach(m, remote, conn, &address);
    if (remote->probing)
        pccl_master_probe(m, remote); /* its address may have changed */
    m->effects.accept(m->effects.context, conn);
    struct pccl_msg msg = {.type = PCCL_MSG_hello_ok,
                           .as.hello_ok = {.build = m->config.build,
                                           .lineage = m->lineage,
                                           .boot = m->config.boot,
                                           .mode = (uint8_t)mode,
                                           .received = remote->session.received,
                                           .silence_ms = m->config.silence_ms,
                                           .heartbeat_ms = m->config.heartbeat_ms,
                                           .tiny_bytes_max = m->config.tiny_bytes_max,
                                           .open_links = m->config.open_links,
                                           .hold_ms = pccl_master_hold_ms(m),
                                           .observed = address}};
    pccl_master_send_loose(m, conn, &msg, remote->session.received);
    remote->session.acked = remote->session.received;
    remote->sent_us = m->now_us;
    struct pccl_bytes frame;
    const struct pccl_session_entry *entry = NULL;
    while ((entry = pccl_session_unacknowledged(&remote->session, entry, &frame)) != NULL)
        m->effects.send(m->effects.context, conn, frame.data, frame.length);
    pccl_master_arm(m, m->now_us + m->config.heartbeat_ms * UINT64_C(1000));
}

/* Continues the session of a known peer, unless the token is wrong or the sequence number is impossible. */
static void continue_session(struct pccl_master *m, struct pccl_stranger *stranger, struct pccl_remote *remote,
                             const struct pccl_msg_hello *hello)
{
    if (!pccl_id_equal_secret(&remote->token,
                              &hello->token)) { /* after a restart, another peer may have claimed this id first */
        refuse(m, stranger, remote->state == PCCL_REMOTE_RESUMING ? PCCL_REFUSAL_FULL : PCCL_REFUSAL_IDENTITY,
               "wrong token for this peer id");
        return;
    }
    if (remote->departing) {
        refuse_removed(m, stranger, remote->why, &remote->reason);
        return;
    }
    if (remote->stuck) {
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "its next message is invalid: %s",
                           remote->undecodable.bytes);
        refuse_removed(m, stranger, remote->why, &remote->reason);
        return;
    }
    bool never_answered = hello->boot != m->config.boot; /* it never received the hello_ok */
    uint64_t received = never_answered ? 0 : hello->received;
    if (received < remote->session.acknowledged || received > remote->session.sent) {
        refuse(m, stranger, PCCL_REFUSAL_PROTOCOL, "the session cannot be resumed");
        return;
    }
    /*
     * `received` is not an acknowledgment. Messages that the peer sent before it received these may still have to be
     * resent, and may belong to an operation that is forgotten once all members have acknowledged its outcome. The peer
     * drops duplicates.
     */
    if (!never_answered)
        accept_peer(m, stranger, remote, PCCL_HELLO_CONTINUE);
    else
        accept_peer(m, stranger, remote, remote->state == PCCL_REMOTE_RESUMING ? PCCL_HELLO_RESUME : PCCL_HELLO_NEW);
}

/*
 * Admits a newcomer to its queue, or refuses it. A peer that this master removed stays out even if its hello does not
 * name this boot: a hello sent before the removal may arrive late, and would begin a second session while the peer is
 * already in another.
 */
static void newcomer(struct pccl_master *m, struct pccl_stranger *stranger, const struct pccl_msg_hello *hello)
{
    const struct pccl_removed *gone = pccl_master_find_removed(m, hello);
    if (gone != NULL) {
        refuse_gone(m, stranger, gone, "");
        return;
    }
    struct pccl_text reason;
    if (!pccl_master_may_rejoin(m, hello, &stranger->address, stranger->pass, &reason)) {
        refuse(m, stranger, PCCL_REFUSAL_SLOW, reason.bytes);
        return;
    }
    if (!pccl_master_make_room(m, hello->group, &stranger->address, &reason)) {
        refuse(m, stranger, PCCL_REFUSAL_FULL, reason.bytes);
        return;
    }
    struct pccl_remote *remote = add_remote(m, hello, PCCL_REMOTE_PENDING);
    if (remote != NULL && !pccl_master_enqueue(m, remote, &stranger->address)) {
        pccl_master_free_remote(m, remote);
        remote = NULL;
    }
    if (remote == NULL) {
        refuse(m, stranger, PCCL_REFUSAL_FULL, "the master has too many peers, or not enough memory for another one");
        return;
    }
    pccl_master_need_lineage(m);
    if (hello->boot != 0) /* it was already waiting in an earlier boot */
        pccl_master_expect_older_run(m);
    accept_peer(m, stranger, remote, PCCL_HELLO_NEW);
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_NEWCOMER},
                    "peer %s of group %u requests to join", pccl_id_str(&remote->id), remote->group_number);
    pccl_master_probe(m, remote);
    pccl_master_mark(m, PCCL_STAGE_RECOVERY);
    pccl_master_mark(m, PCCL_STAGE_FOUNDING);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
}

/*
 * Returns true if this claim to an older run is accepted. Any peer can claim to be a member of an older run than the
 * present one, so the master counts the peers with the same claim. A claim replaces a run that has just been founded if
 * two peers make it, and a recovering run if more peers make it than have returned to that run.
 */
static bool is_believed(struct pccl_master *m, const struct pccl_msg_hello *hello, const struct pccl_id *lineage)
{
    uint32_t claims = 0, here = m->recovering ? 0 : 1;
    bool known = false;
    for (uint32_t i = 0; i < PCCL_CLAIMS_MAX && i < m->claim_count; i++) {
        bool same = pccl_id_equal(&m->claims[i].lineage, lineage);
        claims += same;
        known = known || (same && pccl_id_equal(&m->claims[i].peer, &hello->peer));
    }
    uint32_t place = (uint32_t)(m->claim_count % PCCL_CLAIMS_MAX);
    struct pccl_claim *all =
        known ? NULL : pccl_grow(&m->memory, m->claims, &m->claim_capacity, place + 1, sizeof *all);
    if (all != NULL) {
        m->claims = all;
        all[place] = (struct pccl_claim){.lineage = *lineage, .peer = hello->peer};
        m->claim_count++;
        claims++;
    }
    for (uint32_t i = 0; m->recovering && i < m->remote_count; i++)
        here += m->remotes[i]->state == PCCL_REMOTE_RESUMING;
    return claims > here;
}

/* Handles a member of a run from an older boot: resumes the run (PROTOCOL 12.1), or refuses a late member. */
static void foreign_member(struct pccl_master *m, struct pccl_stranger *stranger, const struct pccl_msg_hello *hello)
{
    struct pccl_id lineage = pccl_secret_digest(&hello->run_key);
    bool same = m->founded && pccl_id_equal(&lineage, &m->lineage);
    if ((same && (!m->recovering || pccl_master_recovery_is_hopeless(m))) || pccl_master_run_is_over(m, &lineage)) {
        refuse_gone(m, stranger, pccl_master_find_removed(m, hello),
                    "this peer did not reconnect in time and was removed from the run");
        return;
    }
    bool young = m->now_us < m->started_us + m->config.recover_ms * UINT64_C(1000);
    if (!same && m->founded && !m->recovering && !(m->founded_by_newcomer && young)) {
        refuse(m, stranger, PCCL_REFUSAL_LINEAGE, "this master serves another run");
        return;
    }
    if (!same && m->founded && !is_believed(m, hello, &lineage)) { /* FULL makes the peer dial again */
        refuse(m, stranger, PCCL_REFUSAL_FULL,
               "this master serves another run, and no other peer confirms that this peer's run is older");
        return;
    }
    if (!same && !pccl_master_begin_recovery(m, &hello->run_key)) {
        refuse(m, stranger, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    struct pccl_remote *remote = add_remote(m, hello, PCCL_REMOTE_RESUMING);
    if (remote == NULL) {
        refuse(m, stranger, PCCL_REFUSAL_FULL, "the master has too many peers, or not enough memory for another one");
        return;
    }
    pccl_master_log(
        m, PCCL_LOG_INFO,
        &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_MEMBERSHIP, .event = PCCL_EVENT_RESUMED},
        "peer %s resumes after the master's restart", pccl_id_str(&remote->id));
    accept_peer(m, stranger, remote, PCCL_HELLO_RESUME);
}

void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event)
{
    if (event->msg->type != PCCL_MSG_hello) {
        refuse(m, stranger, PCCL_REFUSAL_MALFORMED, "the first message must be a hello");
        return;
    }
    const struct pccl_msg_hello *hello = &event->msg->as.hello;
    stranger->pass = event->pass;
    struct pccl_remote *known = pccl_master_find(m, &hello->peer);
    if (event->unfit != NULL)
        refuse(m, stranger, PCCL_REFUSAL_IDENTITY, event->unfit->bytes);
    else if (known != NULL)
        continue_session(m, stranger, known, hello);
    else if (hello->boot == m->config.boot)
        refuse_gone(m, stranger, pccl_master_find_removed(m, hello), "this peer was removed from the run");
    else if (pccl_id_is_zero(&hello->run_key))
        newcomer(m, stranger, hello);
    else
        foreign_member(m, stranger, hello);
}
