/*
 * The handshake at the beginning of an encrypted connection, as in TLS 1.3: the dialing end greets, the other end shows
 * its key, the dialing end shows its own. An end's data waits until it has done its part. An end that receives an
 * invalid message sends an alert, and gives up; the dialing end finishes first, so it learns of a refusal of its key
 * later. Only these messages travel, unencrypted, and no data of ours before; the keys are real: for a link it is the
 * ticket that the master has handed out.
 *
 * A handshake can be made to fail at each of its steps: silence, a broken connection, another key (of a stranger, an
 * impostor, or a man in the middle), or bytes that are not a handshake.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { ALERT, GREETING, ANSWER, PROOF };
enum { HEAD_BYTES = 4 };

struct message {
    uint8_t head[HEAD_BYTES]; /* as of a TLS record; then which it is */
    struct pccl_id from, to;  /* name of the key of a link */
    struct pccl_id key;
};

static const uint8_t record[HEAD_BYTES - 1] = {22, 3, 3};

const char *const sim_shake_ways[SIM_SHAKE_WAYS] = {"silence", "a reset", "a wrong key", "garbage"};

/* ---- failures ---- */

static bool is_due(const struct sim *sim, enum sim_plane plane, uint32_t a, uint32_t b)
{
    const struct sim_shake_fault *fault = &sim->shake_fault;
    return fault->left > 0 && fault->plane == plane && (fault->host == a || fault->host == b);
}

enum pccl_link_end sim_shake_outcome(struct sim *sim, uint32_t from, uint32_t to)
{
    static const enum pccl_link_end proves[SIM_SHAKE_WAYS] = {
        [SIM_SHAKE_SILENCE] = PCCL_LINK_TIMEOUT,
        [SIM_SHAKE_RESET] = PCCL_LINK_CLOSED,
        [SIM_SHAKE_KEY] = PCCL_LINK_OTHER,
        [SIM_SHAKE_GARBAGE] = PCCL_LINK_OTHER,
    };
    if (!sim->secured || !is_due(sim, SIM_DATA, from, to))
        return 0;
    sim->shake_fault.left--;
    return proves[sim->shake_fault.way];
}

/* Spoils a message. Returns false if the message does not leave. */
static bool spoil(struct sim *sim, struct sim_conn *conn, int number, struct message *message)
{
    struct sim_shake_fault *fault = &sim->shake_fault;
    if (message->head[HEAD_BYTES - 1] != fault->step || !is_due(sim, conn->plane, conn->hosts[0], conn->hosts[1]))
        return true;
    fault->left--;
    sim->totals.handshakes_failed++;
    sim_note(sim, "FAULT handshake of c%llu: %s at step %u", (unsigned long long)conn->id, sim_shake_ways[fault->way],
             fault->step);
    sim_check_conn_unwell(sim, conn, sim->now);
    switch (fault->way) {
    case SIM_SHAKE_SILENCE: sim_conn_blackhole(sim, conn, number); return false;
    case SIM_SHAKE_RESET: sim_conn_reset(sim, conn); return false;
    case SIM_SHAKE_KEY: message->key.bytes[0] ^= 1; break;
    default: message->head[0] = 'G'; break;
    }
    return true;
}

/* ---- keys ---- */

/* Returns the key that the other end must show with this message. */
static struct pccl_id key_of(struct sim_conn *conn, int number, const struct message *message)
{
    struct sim_end *end = &conn->ends[number];
    if (conn->plane == SIM_CONTROL)
        return (struct pccl_id){{message->head[HEAD_BYTES - 1]}};
    if (number == 1 && message->head[HEAD_BYTES - 1] == GREETING) {
        const struct sim_peer *peer = (const struct sim_peer *)(const void *)end->process;
        bool meant = pccl_id_equal(&message->to, &peer->id);
        end->key = meant ? pccl_peer_ticket(peer->machine, &message->from) : (struct pccl_id){{0}};
    }
    return end->key;
}

static bool is_revoked(const struct sim *sim, const struct sim_conn *conn, int number)
{
    return conn->plane == SIM_CONTROL && number == 1 && sim->revoked != 0 && sim->revoked == conn->hosts[0];
}

/* ---- sending ---- */

static void say(struct sim *sim, struct sim_conn *conn, int number, uint8_t step)
{
    struct sim_end *end = &conn->ends[number];
    struct message message = {.to = end->peer, .key = end->key};
    memcpy(message.head, record, sizeof record);
    message.head[HEAD_BYTES - 1] = step;
    if (end->role == SIM_ROLE_LINK_OUT)
        message.from = ((const struct sim_peer *)(const void *)end->process)->id;
    if (conn->plane == SIM_CONTROL)
        message.key = (struct pccl_id){{step}};
    if (step == ALERT || spoil(sim, conn, number, &message))
        sim_conn_send_raw(sim, conn, number, (const uint8_t *)&message, step == ALERT ? HEAD_BYTES : sizeof message);
}

static void done(struct sim *sim, struct sim_conn *conn, int number, enum sim_shake state)
{
    struct sim_end *end = &conn->ends[number];
    end->shake = state;
    sim_conn_send_raw(sim, conn, number, end->held, end->held_length);
    free(end->held);
    end->held = NULL;
    end->held_length = 0;
}

static void fail(struct sim *sim, struct sim_conn *conn, int number, const char *why)
{
    sim_note(sim, "c%llu: handshake fails at end %d: %s", (unsigned long long)conn->id, number, why);
    conn->ends[number].shake = SIM_SHAKE_FAILED;
    conn->ends[number].why = why;
}

bool sim_shake_send(struct sim *sim, struct sim_conn *conn, int number, const uint8_t *bytes, size_t length)
{
    struct sim_end *end = &conn->ends[number];
    if (end->shake != SIM_SHAKING)
        return end->shake == SIM_SHAKE_FAILED; /* the other end would not understand it */
    bool begins = number == 0 && end->held == NULL;
    end->held = realloc(end->held, end->held_length + length);
    if (end->held == NULL)
        abort();
    memcpy(end->held + end->held_length, bytes, length);
    end->held_length += (uint32_t)length;
    if (begins)
        say(sim, conn, number, GREETING);
    return true;
}

/* ---- receiving ---- */

static bool begins_otherwise(const struct sim_end *end)
{
    uint32_t have = (uint32_t)pccl_min_u64(end->in_end - end->in_start, sizeof record);
    return memcmp(end->in + end->in_start, record, have) != 0;
}

static void hear(struct sim *sim, struct sim_conn *conn, int number, const struct message *message)
{
    struct pccl_id key = key_of(conn, number, message);
    uint8_t step = message->head[HEAD_BYTES - 1];
    bool in_turn = step == (number == 0 ? ANSWER : conn->ends[1].greeted ? PROOF : GREETING);
    conn->ends[number].greeted = true;
    if (!in_turn || !pccl_id_equal(&message->key, &key) || (step == PROOF && is_revoked(sim, conn, number))) {
        say(sim, conn, number, ALERT);
        fail(sim, conn, number, "it has another key");
    } else if (step == GREETING) {
        say(sim, conn, number, ANSWER);
    } else if (step == ANSWER) {
        say(sim, conn, number, PROOF);
        done(sim, conn, number, SIM_SHAKE_UNHEARD);
    } else {
        done(sim, conn, number, SIM_SHAKEN);
    }
}

/* The dialing end is done: the first message is for it, or refuses its key. */
static void hear_verdict(struct sim *sim, struct sim_conn *conn)
{
    struct sim_end *end = &conn->ends[0];
    if (!begins_otherwise(end) && end->in[end->in_start + HEAD_BYTES - 1] == ALERT)
        fail(sim, conn, 0, "it does not accept the key");
    else
        end->shake = SIM_SHAKEN;
}

void sim_shake_hands(struct sim *sim, struct sim_conn *conn, int number)
{
    struct sim_end *end = &conn->ends[number];
    struct message message;
    while (end->shake == SIM_SHAKING && end->in_end - end->in_start > 0) {
        uint32_t have = end->in_end - end->in_start;
        bool is_alert = have >= HEAD_BYTES && end->in[end->in_start + HEAD_BYTES - 1] == ALERT;
        if (begins_otherwise(end) || is_alert) {
            fail(sim, conn, number, is_alert ? "it does not accept the key" : "it does not encrypt");
        } else if (have < sizeof message) {
            return;
        } else {
            memcpy(&message, end->in + end->in_start, sizeof message);
            end->in_start += (uint32_t)sizeof message;
            hear(sim, conn, number, &message);
        }
    }
    if (end->shake == SIM_SHAKE_UNHEARD && end->in_end - end->in_start >= HEAD_BYTES)
        hear_verdict(sim, conn);
}
