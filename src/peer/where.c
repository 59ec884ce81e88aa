/*
 * Explains waits (PROTOCOL 9.6): after waiting for a while, the peer asks the master which members are missing, and
 * logs the answer.
 */
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/op_table.h"
#include "peer/where.h"
#include "wire/describe.h"

enum {
    WHERE_REPEAT = 5,           /* interval between two `where` messages, as a multiple of where_ms */
    TRAINING_PAUSE_US = 100000, /* minimum interval between two training reports */
};

/*
 * Returns the time at which to send the first `where` message. If the deadline is near, this is halfway to it, so that
 * the caller learns in time which members are missing, and the other waiting peers learn that this peer has entered.
 */
uint64_t pccl_peer_first_where(const struct pccl_peer *p, uint64_t since_us, uint64_t deadline_us)
{
    PCCL_ASSERT(since_us <= deadline_us);
    return since_us + pccl_min_u64(p->config.where_ms * UINT64_C(1000), (deadline_us - since_us) / 2);
}

uint64_t pccl_peer_next_where(const struct pccl_peer *p)
{
    uint64_t pause_ms = p->config.where_ms * (uint64_t)WHERE_REPEAT;
    if (p->config.stuck_ms != 0) /* keeps it below the difference between the limits of two calls in a cycle */
        pause_ms = pccl_min_u64(pause_ms, p->config.stuck_ms / 2);
    return p->now_us + pccl_max_u64(pause_ms, 1) * UINT64_C(1000);
}

void pccl_peer_ask_where(struct pccl_peer *p, const struct pccl_msg_where *where)
{
    if (p->resuming || p->state != PCCL_PEER_MEMBER)
        return;
    if (!p->up && where->call != PCCL_CALL_NONE) {
        pccl_text_format(&p->waiting, "waiting for the master to come back");
        return;
    }
    struct pccl_msg msg = {.type = PCCL_MSG_where, .as.where = *where};
    msg.as.where.several = p->has_threads || p->awaited_count > 1;
    pccl_peer_send(p, &msg);
}

void pccl_peer_wait_for_any(struct pccl_peer *p, struct pccl_peer_op *op)
{
    pccl_text_clear(&p->waiting);
    pccl_describe_call(&p->waiting, PCCL_CALL_OPERATION, op->descriptor.collective, op->instance.tag);
    pccl_text_append(&p->waiting, " has waited %s for any peer to send to this peer",
                     pccl_duration_str(p->now_us - op->launched_us));
    pccl_peer_log(p, PCCL_LOG_WARN, "%s", p->waiting.bytes);
    op->where_us = pccl_peer_next_where(p);
}

void pccl_peer_wait_ended(struct pccl_peer *p)
{
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (p->calls[kind].outstanding)
            return;
    if (p->awaited_count == 0)
        pccl_text_clear(&p->waiting);
}

#define ADMITTED_BY "with comm.update_topology(), in C pcclUpdateTopology, which every member calls between steps"

/*
 * Logs that newcomers wait. Any peer may be a newcomer, so there may be many: logs one line for all that are due, at
 * most once per where_ms.
 */
static void log_admissions(struct pccl_peer *p)
{
    bool votes = p->calls[PCCL_ROUND_UPDATE].outstanding; /* that call then reports the missing members */
    bool early = p->now_us < p->admissions_logged_us + p->config.where_ms * UINT64_C(1000);
    const struct pccl_id *first = NULL;
    bool others = false;
    for (uint32_t i = 0; i < p->link_count; i++) {
        struct pccl_peer_link *link = &p->links[i];
        if (!link->warm || link->log_us == UINT64_MAX)
            continue;
        if (p->now_us >= link->log_us && (votes || early)) {
            link->log_us = pccl_peer_next_where(p);
        } else if (p->now_us >= link->log_us) {
            others = first != NULL;
            first = first != NULL ? first : &link->id;
            link->log_us = UINT64_MAX;
        }
        pccl_peer_arm(p, link->log_us);
    }
    if (first == NULL)
        return;
    p->admissions_logged_us = p->now_us;
    pccl_peer_log(p, PCCL_LOG_WARN, "peer %s has waited %u ms for admission: members admit it " ADMITTED_BY "%s",
                  pccl_id_str(first), p->config.where_ms, others ? "; other peers are waiting as well" : "");
}

#define HELD "the master has just started and begins no run for %s, so that members of an active run can return first"

void pccl_peer_held(struct pccl_peer *p, uint32_t hold_ms)
{
    p->hold_us = p->now_us + hold_ms * UINT64_C(1000);
    if (hold_ms != 0)
        pccl_peer_log(p, PCCL_LOG_INFO, "connect is waiting: " HELD, pccl_duration_str(hold_ms * UINT64_C(1000)));
}

static void describe_admission(struct pccl_peer *p)
{
    const char *waited = pccl_duration_str(p->now_us - p->connect_since_us);
    if (p->now_us < p->hold_us)
        pccl_text_format(&p->waiting, "connect has waited %s: " HELD, waited,
                         pccl_duration_str(p->hold_us - p->now_us));
    else
        pccl_text_format(&p->waiting, "connect has waited %s for admission by the members of the run " ADMITTED_BY,
                         waited);
}

void pccl_peer_tick_admissions(struct pccl_peer *p)
{
    if (p->state == PCCL_PEER_MEMBER)
        log_admissions(p);
    if (p->state != PCCL_PEER_PENDING || !p->connect_outstanding)
        return;
    if (p->now_us >= p->connect_where_us) {
        describe_admission(p);
        pccl_peer_log(p, PCCL_LOG_WARN, "%s", p->waiting.bytes);
        p->connect_where_us = pccl_peer_next_where(p);
    }
    pccl_peer_arm(p, p->connect_where_us);
}

/* Returns the joint call to which the answer refers; NULL if it refers to an operation. */
static struct pccl_vote_call *find_call(struct pccl_peer *p, const struct pccl_msg_who_is_where *answer)
{
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (pccl_call_of_round(kind) == answer->call)
            return &p->calls[kind];
    return NULL;
}

/* Returns false if the call that asked ended before the answer arrived. `op` is NULL unless it is an operation. */
static bool is_still_waiting(const struct pccl_peer *p, const struct pccl_peer_op *op,
                             const struct pccl_vote_call *call, const struct pccl_msg_who_is_where *answer)
{
    if (call != NULL)
        return call->outstanding && !call->withdrawn && p->rounds[call - p->calls] == answer->round;
    return op != NULL && op->awaited && !pccl_peer_is_decided(op);
}

/* Returns true if most of the peers that the call needs have entered it. */
static bool most_have_entered(const struct pccl_peer *p, const struct pccl_peer_op *op,
                              const struct pccl_msg_who_is_where *answer)
{
    uint32_t world = answer->call == PCCL_CALL_SYNC ? p->group.count : p->member_count;
    return 2 * (uint64_t)answer->missing < (op != NULL ? op->world : world);
}

/*
 * Returns the call's place in the order in which calls of a cycle end. Calls whose end loses nothing, and which new
 * users often make by mistake, end first.
 */
static unsigned order_of(uint8_t call) { return call == PCCL_CALL_UPDATE ? 0 : call == PCCL_CALL_PENDING ? 1 : 2; }

/*
 * Returns the time for which a call waits in a cycle, so that the calls of the cycle end one after another (PROTOCOL
 * 9.6). A call that most peers have entered ends last. If neither call has been entered by most peers, order_of
 * decides.
 */
static uint64_t stuck_limit_us(const struct pccl_peer *p, const struct pccl_peer_op *op,
                               const struct pccl_msg_who_is_where *answer)
{
    uint64_t limit_ms = p->config.stuck_ms;
    /* gives operations of other peers, which probably have the same limit, time to end first */
    if (!p->config.stuck_is_set)
        limit_ms = pccl_max_u64(limit_ms, p->config.op_timeout_ms);
    uint8_t other = answer->places_count > 0 ? answer->places[0].call : PCCL_CALL_NONE;
    uint64_t turn = most_have_entered(p, op, answer) ? 3 : order_of(answer->call) < order_of(other) ? 1 : 2;
    return turn * limit_ms * UINT64_C(1000);
}

/*
 * Returns true if the call must end as stuck (PROTOCOL 9.6). A call with a deadline ends at its deadline, unless the
 * program has also set stuck_ms.
 */
static bool is_stuck(const struct pccl_peer *p, uint8_t stuck, uint64_t deadline_us)
{
    if (p->config.stuck_ms == 0)
        return false;
    return p->config.stuck_is_set ? stuck != PCCL_STUCK_NOT : stuck == PCCL_STUCK_CERTAIN && deadline_us == UINT64_MAX;
}

/* Ends the call if all answers during its limit have said that it is in a cycle. */
static void end_if_stuck(struct pccl_peer *p, struct pccl_peer_op *op, struct pccl_vote_call *call,
                         const struct pccl_msg_who_is_where *answer)
{
    uint64_t *since_us = op != NULL ? &op->stuck_since_us : &call->stuck_since_us;
    uint64_t *where_us = op != NULL ? &op->where_us : &call->where_us;
    if (!is_stuck(p, answer->stuck, op != NULL ? op->deadline_us : call->deadline_us)) {
        *since_us = 0;
        return;
    }
    if (*since_us == 0)
        *since_us = p->now_us;
    uint64_t end_us = *since_us + stuck_limit_us(p, op, answer);
    if (p->now_us < end_us) {
        *where_us = pccl_min_u64(*where_us, end_us);
        pccl_peer_arm(p, *where_us);
    } else if (op != NULL) {
        struct pccl_text reason;
        pccl_text_format(&reason, "stuck_ms passed: %s", p->waiting.bytes);
        pccl_peer_op_abort(p, op, PCCL_CLASS_DEADLINE, &reason);
    } else {
        call->stuck = true; /* the next tick withdraws the vote */
        pccl_peer_arm(p, p->now_us);
    }
}

/*
 * Describes the cycle. The first place is the member in the cycle (PROTOCOL 9.6). The list of the others is last,
 * because it may be too long for the text.
 */
static void describe_stuck(struct pccl_text *text, const struct pccl_msg_who_is_where *answer)
{
    pccl_describe_places(text, answer->places, 1, 1);
    pccl_text_append(text, "; these calls can never meet: %s",
                     pccl_describe_correction(answer->call, answer->places[0].call));
    if (answer->places_count == 1)
        return;
    pccl_text_append(text, "; it also waits for ");
    pccl_describe_places(text, answer->places + 1, answer->places_count - 1, answer->missing - 1);
}

void pccl_peer_take_places(struct pccl_peer *p, const struct pccl_msg_who_is_where *answer)
{
    struct pccl_vote_call *call = find_call(p, answer);
    struct pccl_peer_op *op = call == NULL ? pccl_peer_find_instance(p, &answer->instance) : NULL;
    if (answer->missing == 0 || !is_still_waiting(p, op, call, answer))
        return;
    struct pccl_text *text = &p->waiting;
    pccl_text_clear(text);
    pccl_describe_call(text, answer->call, op != NULL ? op->descriptor.collective : PCCL_ALL_REDUCE,
                       op != NULL ? answer->instance.tag : answer->round);
    pccl_text_append(text, " waits for ");
    if (answer->stuck != PCCL_STUCK_NOT && answer->places_count > 0)
        describe_stuck(text, answer);
    else
        pccl_describe_places(text, answer->places, answer->places_count, answer->missing);
    pccl_names_add_to(&p->names, text);
    pccl_peer_log(p, PCCL_LOG_WARN, "%s", text->bytes);
    end_if_stuck(p, op, call, answer);
}

/*
 * Sends a training report. Drops it while the master is not connected, or shortly after the last report, because later
 * figures replace it.
 */
enum pccl_status pccl_peer_report_training(struct pccl_peer *p, const struct pccl_msg_training *training)
{
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (p->resuming || !p->up || (p->training_sent_us != 0 && p->now_us < p->training_sent_us + TRAINING_PAUSE_US))
        return PCCL_OK;
    p->training_sent_us = p->now_us;
    pccl_peer_send(p, &(struct pccl_msg){.type = PCCL_MSG_training, .as.training = *training});
    return PCCL_OK;
}
